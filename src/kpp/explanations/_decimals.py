"""Thresholds as short decimals that keep their meaning."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

import numpy as np

from kpp._typing import FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.layout import NUMERICAL

# Digits that a threshold keeps even where fewer would do.
FEWEST_DIGITS = 4
# How far a printed threshold may be from the true one, as a part of the gap to the next.
PART_OF_GAP = 1e-3
# Of all numbers, the part that may pass for a short decimal by chance.
SHARE_BY_CHANCE = 0.02


class Decimals:
    """How the thresholds of a model are written down.

    Parameters
    ----------
    forests : list of Forest
        All forests of the model, in float64.
    single : list of bool
        Which of them compare in single precision by themselves.
    row : array of shape (n_features,)
        The explained row; NaN where it has no number.
    spread : array of shape (n_features,), optional
        Spread of the columns, for thresholds that have no other beside them.
    """

    def __init__(
        self,
        forests: list[Forest],
        single: list[bool],
        row: FloatArray,
        spread: FloatArray | None = None,
    ) -> None:
        self.forests = forests
        self.single = single
        self.row = row
        self.spread = np.zeros(len(row)) if spread is None else spread
        self._thresholds: dict[int, tuple[FloatArray, FloatArray, bool]] = {}
        self._numbers: dict[tuple[int, float], tuple[str, bool]] = {}

    def number(self, column: int, t: float) -> tuple[str, bool]:
        """Write a threshold with the fewest digits that keep its meaning.

        A threshold that is a short decimal, but for the rounding of the forest's own precision,
        is written as that. Any other is rounded up, for it may be a value of the column itself:
        scikit-learn's boosters split at values, and half way between two of them there often is
        a third. At most a thousandth of the gap to the next threshold is added, and the explained
        value stays on its side.

        Half way between two values of single precision a third may also be just above. Columns
        where that happens show it: some of their thresholds differ by nothing but rounding. All
        thresholds of such a column, save short decimals, are written to a thousandth of that
        rounding.

        Returns
        -------
        text : str
            The decimal; empty for an infinite bound.
        up_to : bool
            Whether ``x <= t`` reads ``x <= text``. Where the decimal is above t it reads
            ``x < text``: a value with no more decimals than the text is on its own side either way.
        """
        if (column, t) not in self._numbers:
            self._numbers[column, t] = self._number(column, t) if np.isfinite(t) else ("", True)
        return self._numbers[column, t]

    def _number(self, column: int, t: float) -> tuple[str, bool]:
        value = self.row[column]
        below, above, rounding, resolved = self._around(column, t)
        # 17 digits tell any two doubles apart.
        for digits in range(FEWEST_DIGITS, 18):
            text, is_decimal = _decimal(t, digits, rounding)
            shown = float(text)
            up_to = shown <= t
            gap = below if up_to else above
            most = PART_OF_GAP * (gap if is_decimal else min(gap, resolved))
            # As a reader would test it; it must come out as x <= t does.
            left = value <= shown if up_to else value < shown
            if abs(shown - t) <= most and (np.isnan(value) or left == (value <= t)):
                return _plain(shown, text), bool(up_to)
        return repr(t), True

    def _around(self, column: int, t: float) -> tuple[float, float, float, float]:
        """Gaps to the next thresholds, below and above; and two sizes of rounding.

        The gaps are at most the spread of the column. The first size is what the forest's own
        precision rounds. The second is how near a value of the column may be, if the forest rounds
        such values: infinite, unless thresholds of single precision come in pairs.
        """
        double, single, in_pairs = self._of_column(column)
        in_double, in_single = _holds(double, t), _holds(single, t)
        # The split of a forest of the other precision at the same place is no neighbour.
        twin = float(_two_steps(np.array([t]))[0])
        below, above = np.inf, np.inf
        for group, own in ((double, in_double), (single, in_single)):
            skip = 0.0 if own else twin
            first = np.searchsorted(group, t - skip)
            last = np.searchsorted(group, t + skip, side="right")
            below = min(below, t - group[first - 1]) if first > 0 else below
            above = min(above, group[last] - t) if last < len(group) else above
        most = float(self.spread[column])
        if not 0 < most < np.inf:
            # Nothing is known of the column: then the other gap, or the size of the threshold.
            most = min(below, above)
            most = most if np.isfinite(most) else abs(t)
        rounding = 2 * float(np.spacing(abs(t))) if in_double else twin
        resolved = twin if in_single and in_pairs else np.inf
        return min(below, most), min(above, most), rounding, resolved

    def _of_column(self, column: int) -> tuple[FloatArray, FloatArray, bool]:
        """Thresholds of the forests of double and of single precision; whether the latter pair."""
        if column not in self._thresholds:
            groups: list[list[FloatArray]] = [[], []]
            for forest, is_single in zip(self.forests, self.single, strict=True):
                splits = (forest.feature == column) & (forest.split_kind == NUMERICAL)
                groups[is_single].append(forest.threshold[splits])
            double, single = (np.unique(np.concatenate([*group, []])) for group in groups)
            double, single = double[np.isfinite(double)], single[np.isfinite(single)]
            # Thresholds that differ by rounding alone: values of the column lie as near as that.
            in_pairs = bool((np.diff(single) <= _two_steps(single[1:])).any())
            self._thresholds[column] = double, single, in_pairs
        return self._thresholds[column]


def _holds(ordered: FloatArray, t: float) -> bool:
    place = np.searchsorted(ordered, t)
    return bool(place < len(ordered) and ordered[place] == t)


def _two_steps(values: FloatArray) -> FloatArray:
    """Two steps of single precision at each value; 0 beyond its range."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = 2 * np.spacing(np.abs(values).astype(np.float32)).astype(np.float64)
    return np.where(np.isfinite(steps), steps, 0.0)


def _decimal(t: float, digits: int, rounding: float) -> tuple[str, bool]:
    """The nearest decimal if it is t but for rounding, otherwise the next one above; and which."""
    text = f"{t:.{digits}g}"
    unit = 10.0 ** (np.floor(np.log10(max(abs(t), 1e-300))) - digits + 1)
    # Nearly every number is so near to a decimal of very many digits.
    if abs(t - float(text)) <= rounding <= SHARE_BY_CHANCE * unit:
        return text, True
    if abs(t) <= rounding:
        return "0", True
    if float(text) < t:
        above = Context(prec=digits, rounding=ROUND_CEILING).plus(Decimal(t))
        text = f"{float(above):.{digits}g}"
    return text, False


def _plain(value: float, text: str) -> str:
    """Without an exponent where the number has a usual size."""
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        return str(np.format_float_positional(value, trim="-"))
    return text
