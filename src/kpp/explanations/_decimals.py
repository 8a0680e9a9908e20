"""Thresholds as short decimals that keep their meaning."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

import numpy as np

from kpp._typing import FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.join import as_float64

# Digits that a threshold keeps even where fewer would do.
FEWEST_DIGITS = 4
# How far a printed threshold may be from the true one, as a part of the gap to the next.
PART_OF_GAP = 1e-3
# Of all numbers, the part that may pass for a short decimal by chance.
SHARE_BY_CHANCE = 0.02
# Texts of thresholds that are kept; more would be a matter of memory.
MOST_KEPT = 100_000


class Thresholds:
    """The thresholds of a model, with what writing them down needs; made once for all rows.

    Parameters
    ----------
    forests : list of Forest
        All forests of the model.
    spread : array of shape (n_features,), optional
        Spread of the columns, for thresholds that have no other beside them.

    Attributes
    ----------
    forests : list of Forest
        The forests in float64, whose thresholds are written down.
    is_exact : bool
        Whether thresholds that differ are written differently. They are where all forests compare
        in the same precision: the decimal is nearer to its threshold than a thousandth of the way
        to any other. A split of another precision at the same place may be written alike.
    """

    def __init__(self, forests: list[Forest], spread: FloatArray | None = None) -> None:
        self.forests = [as_float64(forest) for forest in forests]
        self.single = [forest.dtype == np.float32 for forest in forests]
        self.is_exact = len(set(self.single)) == 1
        self.spread = spread
        self._columns: dict[int, tuple[FloatArray, FloatArray, bool]] = {}
        self._written: dict[tuple[int, float], tuple[str, float, bool]] = {}

    def written(self, column: int, t: float) -> tuple[str, float, bool]:
        """Return what `Decimals.number` does without an explained row, and the decimal itself."""
        if (column, t) not in self._written:
            if len(self._written) >= MOST_KEPT:
                self._written.clear()
            self._written[column, t] = self.write(column, t, np.nan)
        return self._written[column, t]

    def write(self, column: int, t: float, value: float) -> tuple[str, float, bool]:
        """Write a threshold for a row that has this value in the column; NaN for none."""
        below, above, rounding, resolved = self._around(column, t)
        # 17 digits tell any two doubles apart.
        for digits in range(FEWEST_DIGITS, 18):
            text, is_decimal = _decimal(t, digits, rounding)
            shown = float(text)
            up_to = shown <= t
            gap = below if up_to else above
            most = PART_OF_GAP * (gap if is_decimal else min(gap, resolved))
            if abs(shown - t) <= most and _keeps_side(value, t, shown, up_to):
                return _plain(shown, text), shown, bool(up_to)
        return repr(t), t, True

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
        most = 0.0 if self.spread is None else float(self.spread[column])
        if not 0 < most < np.inf:
            # Nothing is known of the column: then the other gap, or the size of the threshold.
            most = min(below, above)
            most = most if np.isfinite(most) else abs(t)
        rounding = 2 * float(np.spacing(abs(t))) if in_double else twin
        resolved = twin if in_single and in_pairs else np.inf
        return min(below, most), min(above, most), rounding, resolved

    def _of_column(self, column: int) -> tuple[FloatArray, FloatArray, bool]:
        """Thresholds of the forests of double and of single precision; whether the latter pair."""
        if column not in self._columns:
            groups: list[list[FloatArray]] = [[], []]
            for forest, is_single in zip(self.forests, self.single, strict=True):
                groups[is_single].append(forest.column_thresholds[column])
            double, single = (np.unique(np.concatenate([*group, []])) for group in groups)
            double, single = double[np.isfinite(double)], single[np.isfinite(single)]
            # Thresholds that differ by rounding alone: values of the column lie as near as that.
            in_pairs = bool((np.diff(single) <= _two_steps(single[1:])).any())
            self._columns[column] = double, single, in_pairs
        return self._columns[column]


class Decimals:
    """How the thresholds of a model are written down for one row.

    Parameters
    ----------
    thresholds : Thresholds
        Those of the model.
    row : array of shape (n_features,)
        The explained row; NaN where it has no number.
    """

    def __init__(self, thresholds: Thresholds, row: FloatArray) -> None:
        self.thresholds = thresholds
        self.row = row

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
        if not np.isfinite(t):
            return "", True
        value = self.row[column]
        text, shown, up_to = self.thresholds.written(column, t)
        # A value between the threshold and its decimal, which hardly any row has.
        if not _keeps_side(value, t, shown, up_to):
            text, _, up_to = self.thresholds.write(column, t, float(value))
        return text, up_to


def _keeps_side(value: float, t: float, shown: float, up_to: bool) -> bool:
    """Whether a value tested as a reader would comes out as ``value <= t`` does; NaN always."""
    left = value <= shown if up_to else value < shown
    return bool(np.isnan(value) or left == (value <= t))


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
