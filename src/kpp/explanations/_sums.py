"""Oblique conditions as text: sums of columns with short decimals that keep their meaning."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from kpp._typing import FloatArray

# A column and its weight, in the order in which they are added.
Terms = tuple[tuple[int, float], ...]

# Digits that weights and bounds keep even where fewer would do.
FEWEST_DIGITS = 3
# How far the printed sum may be off at the explained row, as a part of its largest term's spread.
PART_OF_SPREAD = 1e-2


def write_sum(
    terms: Terms,
    low: float,
    high: float,
    names: tuple[str, ...],
    row: FloatArray,
    spread: FloatArray,
) -> str:
    """Write ``low < sum <= high``, or the same of minus the sum, with the fewest digits needed.

    All weights and bounds have the same number of significant digits: the fewest with which, at
    the explained row, the printed sum is off from its bounds by no more than a hundredth of the
    largest ``|weight| * spread``, and the row is on its own side of each.

    Parameters
    ----------
    terms : tuple of (column, weight)
        What is added.
    low, high : float
        Bounds, infinite where there is none; at least one is finite.
    names : tuple of str
        Names of the columns.
    row : array of shape (n_features,)
        The explained row; with NaN in one of the columns, three digits more are written.
    spread : array of shape (n_features,)
        Spread of the columns; 0 where it is not known.

    Returns
    -------
    text : str

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.explanations._sums import write_sum
    >>> terms = ((0, 0.61803), (1, -0.78615))
    >>> write_sum(terms, -np.inf, 1.2002, ("a", "b"), np.array([1.0, 2.0]), np.ones(2))
    '0.618 a - 0.786 b <= 1.2'
    """
    bounds = [bound for bound in (low, high) if np.isfinite(bound)]
    values = [float(row[column]) for column, _ in terms]
    digits = FEWEST_DIGITS
    if np.isfinite(values).all():
        # 17 digits tell any two doubles apart.
        while digits < 17 and not _keeps(terms, values, bounds, spread, digits):
            digits += 1
    else:
        digits += 3
    # A sum that begins with a minus sign is turned around, and its bounds with it.
    sign = -1.0 if terms[0][1] < 0 else 1.0
    column, weight = terms[0]
    text = f"{_text(sign * weight, digits)} {names[column]}"
    for column, weight in terms[1:]:
        joint = "+" if sign * weight > 0 else "-"
        text += f" {joint} {_text(abs(weight), digits)} {names[column]}"
    # Adding 0.0 turns -0.0 into 0.0.
    least, most = _text(sign * low + 0.0, digits), _text(sign * high + 0.0, digits)
    if sign > 0:
        lower, upper, above, below = f"{least} < ", f" <= {most}", f" > {least}", f" <= {most}"
    else:
        lower, upper, above, below = f"{most} <= ", f" < {least}", f" < {least}", f" >= {most}"
    if np.isfinite(low) and np.isfinite(high):
        return lower + text + upper
    return text + (above if np.isfinite(low) else below)


def _keeps(
    terms: Terms, values: list[float], bounds: list[float], spread: FloatArray, digits: int
) -> bool:
    """Whether so many digits keep the row where it is, computed without rounding."""
    true = printed = Fraction(0)
    computed, largest = 0.0, 0.0
    for (column, weight), value in zip(terms, values, strict=True):
        true += Fraction(weight) * Fraction(value)
        printed += Fraction(_text(weight, digits)) * Fraction(value)
        computed += weight * value
        largest = max(largest, abs(weight) * float(spread[column]))
    most = Fraction(PART_OF_SPREAD * largest) if 0 < largest < np.inf else None
    for bound in bounds:
        shown = Fraction(_text(bound, digits))
        # As a reader would test it; it must come out as the forest's own comparison does.
        if (printed <= shown) != (computed <= bound):
            return False
        if most is not None and abs((printed - shown) - (true - Fraction(bound))) > most:
            return False
    return True


def _text(value: float, digits: int) -> str:
    """A decimal of so many digits, without an exponent where the number has a usual size."""
    text = f"{value:.{digits}g}"
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        return str(np.format_float_positional(float(text), trim="-"))
    return text
