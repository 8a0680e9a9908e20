"""How numbers are written in the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

MINUS = "\N{MINUS SIGN}"
MISSING = "–"
# Widths of a digit and of a comma at the size of the style sheet's ticks.
WIDE, NARROW = 7.5, 4.0


def number(value: Any, digits: int = 3) -> str:
    """Write a number with so many significant digits, thousands set apart.

    Examples
    --------
    >>> from kpp.reports.numbers import number
    >>> number(1234567.8), number(0.012345), number(-2.5), number(None), number(3.0)
    ('1,234,568', '0.0123', '−2.5', '–', '3')
    """
    if value is None:
        return MISSING
    value = float(value)
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
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


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Write the numbers beside an axis, with so many digits that they are what they mark.

    Examples
    --------
    >>> from kpp.reports.numbers import tick_texts
    >>> tick_texts([0.0, 0.25, 0.5]), tick_texts([1000.25, 1000.5])
    (['0', '0.25', '0.5'], ['1,000.25', '1,000.5'])
    """
    step = min((abs(b - a) for a, b in pairwise(ticks)), default=0.0)
    texts: list[str] = []
    for digits in range(3, 10):
        texts = [number(tick, digits) for tick in ticks]
        read = [float(text.replace(",", "").replace(MINUS, "-")) for text in texts]
        if all(abs(a - b) <= 0.01 * step for a, b in zip(read, ticks, strict=True)):
            return texts
    # Ends that are not round, as those of a scale of one value.
    return texts if step else [number(tick) for tick in ticks]


def text_width(text: str) -> float:
    """About how wide a number beside an axis is, in the units of a chart.

    Examples
    --------
    >>> from kpp.reports.numbers import text_width
    >>> text_width("2,200,000") > 2 * text_width("220")
    True
    """
    return sum(NARROW if character in ",." else WIDE for character in text)


def figure(value: Any, digits: int = 3) -> str:
    """Write a number with all its digits, zeros too, so that those of a column have as many.

    Examples
    --------
    >>> from kpp.reports.numbers import figure
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
    >>> from kpp.reports.numbers import signed
    >>> signed(0.25), signed(-0.25)
    ('+0.250', '−0.250')
    """
    text = figure(value, digits)
    return f"+{text}" if value is not None and value > 0 else text


def percent(value: Any, decimals: int = 1) -> str:
    """Write a share as a percentage.

    Examples
    --------
    >>> from kpp.reports.numbers import percent
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
    >>> from kpp.reports.numbers import span
    >>> span(64, 64), span(64, 1065)
    ('64', '64 to 1,065')
    """
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def count(value: int, noun: str, plural: str | None = None) -> str:
    """Write a number of things.

    Examples
    --------
    >>> from kpp.reports.numbers import count
    >>> count(1, "row"), count(2000, "row"), count(2, "class", "classes")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"
