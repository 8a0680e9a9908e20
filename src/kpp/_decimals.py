"""Short decimal numbers between two others: limits and thresholds that people can read."""

from __future__ import annotations

import math


def shortest_from(low: float, high: float) -> float:
    """Return the number of the fewest decimals that is at least `low` and less than `high`.

    Parameters
    ----------
    low, high : float
        Finite, the first one less.

    Returns
    -------
    number : float
        ``low`` itself where nothing shorter lies between.

    Examples
    --------
    >>> from kpp._decimals import shortest_from
    >>> shortest_from(16.79, 17.43), shortest_from(0.12, 0.1299), shortest_from(1234.0, 1790.0)
    (17.0, 0.12, 1300.0)
    >>> shortest_from(-0.3, 0.2)
    0.0
    """
    if low <= 0 < high:
        return 0.0
    first = -math.floor(math.log10(max(abs(low), abs(high))))
    for decimals in range(first, first + 18):
        # Through its text, since 0.07 is not 7 times the float 0.01.
        whole = math.ceil(low * 10.0**decimals)
        for one in (whole, whole + 1):
            found = float(f"{one}e{-decimals}")
            if low <= found < high:
                return found
    return low


def shortest_above(low: float, high: float) -> float:
    """Return the number of the fewest decimals that is above `low` and at most `high`.

    Examples
    --------
    >>> from kpp._decimals import shortest_above
    >>> shortest_above(0.12, 0.1342), shortest_above(0.1, 0.3)
    (0.13, 0.3)
    """
    return -shortest_from(-high, -low) + 0.0


def plain(value: float) -> str:
    """Write a number with all its digits, as short as it is.

    Examples
    --------
    >>> from kpp._decimals import plain
    >>> plain(30.0), plain(0.07), plain(1500000.0)
    ('30', '0.07', '1,500,000')
    """
    return f"{value:,.12g}"
