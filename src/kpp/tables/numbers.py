"""How numbers are written: with a few digits, on a page and on a terminal."""

from __future__ import annotations

import math
from typing import Any

from kpp._numbers import MINUS, MISSING, not_finite


def short(value: float, digits: int = 4) -> str:
    """Write a number as a terminal shows it: ASCII, with a few significant digits.

    Examples
    --------
    >>> from kpp.tables.numbers import short
    >>> short(0.123456), short(1234567.0), short(float("inf"))
    ('0.1235', '1.235e+06', 'inf')
    """
    return f"{value:.{digits}g}"


def number(value: Any, digits: int = 3) -> str:
    """Write a number with so many significant digits, thousands set apart.

    Examples
    --------
    >>> from kpp.tables.numbers import number
    >>> number(1234567.8), number(0.012345), number(-2.5), number(None), number(3.0)
    ('1,234,568', '0.0123', '−2.5', '–', '3')
    """
    value = None if value is None else float(value)
    special = not_finite(value)
    if special is not None:
        return special
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e9 or size < 1e-4:
        mantissa, _, exponent = f"{size:.{digits - 1}e}".partition("e")
        if "." in mantissa:
            mantissa = mantissa.rstrip("0").rstrip(".")
        text = f"{mantissa}e{int(exponent)}".replace("e-", f"e{MINUS}")
    else:
        decimals = max(0, digits - 1 - math.floor(math.log10(size)))
        text = f"{size:,.{decimals}f}"
        if "." in text:
            text = text.rstrip("0").rstrip(".")
    return f"{MINUS}{text}" if value < 0 else text


def figure(value: Any, digits: int = 3) -> str:
    """Write a number with all its digits, zeros too, so that those of a column have as many.

    Examples
    --------
    >>> from kpp.tables.numbers import figure
    >>> figure(39.0), figure(0.5), figure(1234.5), figure(0)
    ('39.0', '0.500', '1,234', '0')
    """
    text = number(value, digits)
    if value is None or value == 0 or not 1e-4 <= abs(value) < 1e9:
        return text
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{MINUS if value < 0 else ''}{abs(value):,.{decimals}f}"


def signed(value: Any, digits: int = 3) -> str:
    """Write a number with its sign.

    Examples
    --------
    >>> from kpp.tables.numbers import signed
    >>> signed(0.25), signed(-0.25)
    ('+0.250', '−0.250')
    """
    text = figure(value, digits)
    return f"+{text}" if value is not None and value > 0 else text


def percent(value: Any, decimals: int = 1) -> str:
    """Write a share as a percentage.

    Examples
    --------
    >>> from kpp.tables.numbers import percent
    >>> percent(0.12345), percent(1.0), percent(None)
    ('12.3%', '100%', '–')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if value in (0, 1):
        return f"{100 * value:.0f}%"
    return f"{100 * value:.{decimals}f}%".replace("-", MINUS)


def span(low: int, high: int) -> str:
    """Write the least and the largest of several numbers of things.

    Examples
    --------
    >>> from kpp.tables.numbers import span
    >>> span(64, 64), span(64, 1065)
    ('64', '64 to 1,065')
    """
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def count(value: int, noun: str, plural: str | None = None) -> str:
    """Write a number of things.

    Examples
    --------
    >>> from kpp.tables.numbers import count
    >>> count(1, "row"), count(2000, "row"), count(2, "class", "classes")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"
