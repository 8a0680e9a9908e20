"""How numbers are written for people, where no table or chart has rules of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

MINUS = "\N{MINUS SIGN}"
MISSING = "–"


def significant(value: float, digits: int = 4, *, signed: bool = False) -> str:
    """Write a finite number with so many significant digits and a proper minus sign.

    >>> significant(-0.123456), significant(0.5, 3, signed=True), significant(123456.0)
    ('−0.1235', '+0.5', '1.235e+05')
    """
    return f"{float(value):{'+' if signed else ''}.{digits}g}".replace("-", MINUS)


def not_finite(value: Any) -> str | None:
    """Write what is missing or infinite; None for everything else.

    >>> not_finite(None), not_finite(float("nan")), not_finite(-float("inf")), not_finite(1.0)
    ('–', '–', '−∞', None)
    """
    if value is None:
        return MISSING
    if not isinstance(value, float | np.floating) or math.isfinite(value):
        return None
    if math.isnan(value):
        return MISSING
    return "∞" if value > 0 else f"{MINUS}∞"


def number(value: Any) -> str:
    """Write a number as people read it: four digits, counts in full; other values as text.

    >>> number(0.123456), number(12345), number(float("inf")), number(True), number(None)
    ('0.1235', '12,345', '∞', 'yes', '–')
    """
    text = not_finite(value)
    if text is not None:
        return text
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    if isinstance(value, float | np.floating):
        return significant(float(value))
    return str(value)
