"""Thresholds as short decimals that keep their meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal
from typing import NamedTuple

import numpy as np

from kpp._rows import as_decimals
from kpp._typing import AnyArray, FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.join import as_float64
from kpp.forest.layout import NUMERICAL
from kpp.models.meanings import TIME, Meaning

# Digits that a threshold keeps even where fewer would do.
FEWEST_DIGITS = 4
# How far a printed threshold may be from the true one, as a part of the gap to the next.
PART_OF_GAP = 1e-3
# Of all numbers, the part that may pass for a short decimal by chance.
SHARE_BY_CHANCE = 0.02
# Seconds of a day, an hour, a minute and a second, and how much of a time they leave to write.
TIME_UNITS = ((86_400, 10), (3600, 16), (60, 16), (1, 19))
# Texts of thresholds that are kept; more would be a matter of memory.
MOST_KEPT = 100_000


@dataclass(frozen=True, eq=False)
class KnownColumns:
    """What is known of the columns of a model, to write numbers of them down.

    Parameters
    ----------
    spread : array of shape (n_features,), optional
        Spread of the columns, for thresholds that have no other beside them.
    values : list of arrays, optional
        The different values of each column, in order; empty where they are not known.
    decimals : int array of shape (n_features,), optional
        The fewest decimals that all values of a column have; -1 where that is not known.
    meanings : sequence of Meaning, optional
        What the columns say of those of the table.
    """

    spread: FloatArray | None = None
    values: Sequence[FloatArray] | None = None
    decimals: AnyArray | None = None
    meanings: Sequence[Meaning] | None = None

    def meaning(self, column: int) -> Meaning | None:
        """What a column says, where it is not simply a column of the table."""
        own = None if self.meanings is None else self.meanings[column]
        return None if own is None or own.is_plain else own


class Thresholds:
    """The thresholds of a model, with what writing them down needs; made once for all rows.

    Thresholds with no value of the training rows between them part these rows alike. They have
    the same `bounds`, and are written as the same number.

    Parameters
    ----------
    forests : list of Forest
        All forests of the model.
    known : KnownColumns, optional
        What is known of the columns.

    Attributes
    ----------
    forests : list of Forest
        The forests in float64, whose thresholds are written down.
    bounds : list of arrays of shape (n_nodes,)
        For each forest and node what stands for its threshold: the largest training value that
        is not above it, or itself where the values are not known.
    """

    def __init__(self, forests: list[Forest], known: KnownColumns | None = None) -> None:
        self.forests = [as_float64(forest) for forest in forests]
        self.single = [forest.dtype == np.float32 for forest in forests]
        self.known = KnownColumns() if known is None else known
        self._columns: dict[int, tuple[FloatArray, FloatArray, bool]] = {}
        self._written: dict[tuple[int, float], Written] = {}
        self.bounds = [forest.threshold.copy() for forest in self.forests]
        for forest, single, bounds in zip(self.forests, self.single, self.bounds, strict=True):
            splits = np.flatnonzero(forest.split_kind == NUMERICAL)
            order = splits[np.argsort(forest.feature[splits], kind="stable")]
            ends = np.cumsum(np.bincount(forest.feature[order], minlength=forest.n_features))
            for j, own in enumerate(np.split(order, ends[:-1])):
                if len(own):
                    bounds[own] = self.bound(j, forest.threshold[own], single)

    def bound(self, column: int, t: FloatArray, single: bool = True) -> FloatArray:
        """What stands for thresholds of a column, shape (n,); see `bounds`."""
        values, places = self._values(column), self._places(column)
        if not single and (len(values) or places >= 0):
            t = _told(t)
        if len(values):
            place = np.searchsorted(values, t, side="right")
            return np.where(place > 0, values[np.maximum(place, 1) - 1], t)
        if places >= 0:
            # The nearest number of so many decimals that is not above: a product that is whole but
            # for its rounding is whole.
            down = np.round(np.floor(np.round(t * 10.0**places, 6)) / 10.0**places, places)
            return np.asarray(np.where(np.isfinite(t), down, t))
        others = self._of_column(column)[1]
        if single or len(set(self.single)) == 1 or not len(others):
            return t
        # The split of a forest of single precision at the same place stands for both.
        above = np.minimum(np.searchsorted(others, t), len(others) - 1)
        below = np.maximum(above - 1, 0)
        is_above = np.abs(others[above] - t) < np.abs(others[below] - t)
        near = np.where(is_above, others[above], others[below])
        return np.asarray(np.where(np.abs(near - t) <= _two_steps(t), near, t))

    def _values(self, column: int) -> FloatArray:
        return np.zeros(0) if self.known.values is None else self.known.values[column]

    def _places(self, column: int) -> int:
        """Decimals that all values of a column have; -1 where that is not known."""
        return -1 if self.known.decimals is None else int(self.known.decimals[column])

    def neighbours(self, column: int, bound: float) -> tuple[float, float] | None:
        """The values around a threshold with this bound; None where they are not known."""
        values, places = self._values(column), self._places(column)
        if len(values):
            place = int(np.searchsorted(values, bound))
            if place < len(values) - 1 and values[place] == bound:
                return bound, float(values[place + 1])
            return None
        if places >= 0 and bound == np.round(bound, places):
            return bound, float(np.round(bound + 10.0**-places, places))
        return None

    def written(self, column: int, bound: float) -> Written:
        """Return how a bound is written for a row that is not near to it."""
        if (column, bound) not in self._written:
            if len(self._written) >= MOST_KEPT:
                self._written.clear()
            self._written[column, bound] = self.write(column, bound, np.nan, is_upper=True)
        return self._written[column, bound]

    def write(self, column: int, bound: float, value: float, *, is_upper: bool) -> Written:
        """Write a bound for a row that has this value in the column; NaN for none."""
        meaning, between = self.known.meaning(column), self.neighbours(column, bound)
        if between is None:
            return self._by_gaps(column, bound, value, meaning)
        low, high = between
        # A value between two training values keeps to its side: x <= t for an upper bound.
        if low < value < high:
            low, high = (value, high) if is_upper else (low, value)
        if meaning is not None:
            low, high = (float(f"{meaning.before(end):.12g}") for end in (low, high))
            if meaning.kind == TIME:
                return _time_between(low, high)
        text = shortest_between(low, high)
        return Written(text, float(text), True)

    def _by_gaps(self, column: int, t: float, value: float, meaning: Meaning | None) -> Written:
        """As `Decimals.number` says, where no values are known."""
        below, above, rounding, resolved = self._around(column, t)
        if meaning is not None:
            t, value = float(meaning.before(t)), float(meaning.before(value))
            below, above, rounding, resolved = (
                abs(meaning.scale) * size for size in (below, above, rounding, resolved)
            )
            if meaning.kind == TIME:
                return _time_between(t, t + min(above, max(60.0, rounding)))
        # 17 digits tell any two doubles apart.
        for digits in range(FEWEST_DIGITS, 18):
            text, is_decimal = _decimal(t, digits, rounding)
            shown = float(text)
            up_to = shown <= t
            gap = below if up_to else above
            most = PART_OF_GAP * (gap if is_decimal else min(gap, resolved))
            if abs(shown - t) <= most and _keeps_side(value, t, shown, up_to):
                return Written(_plain(shown, text), shown, bool(up_to))
        return Written(repr(t), t, True)

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
        most = 0.0 if self.known.spread is None else float(self.known.spread[column])
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


class Written(NamedTuple):
    """A bound as text, the number that the text says, and whether ``x <= t`` is up to it."""

    text: str
    shown: float
    up_to: bool


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

    def number(self, column: int, t: float, *, is_upper: bool = True) -> tuple[str, bool]:
        """Write a threshold with the fewest digits that keep its meaning.

        Where the training values next to it are known, that is the shortest number between them,
        the lower one included: it parts the training rows as the threshold does. The explained
        value stays on its side.

        Where they are not known, a threshold that is a short decimal, but for the rounding of the
        forest's own precision, is written as that. Any other is rounded up, for it may be a value
        of the column itself: scikit-learn's boosters split at values, and half way between two of
        them there often is a third. At most a thousandth of the gap to the next threshold is added.
        Half way between two values of single precision a third may also be just above. Columns
        where that happens show it: some of their thresholds differ by nothing but rounding. All
        thresholds of such a column, save short decimals, are written to a thousandth of that
        rounding.

        Parameters
        ----------
        column : int
            The column.
        t : float
            A threshold.
        is_upper : bool
            Whether the condition is ``x <= t``; the explained value fulfils it.

        Returns
        -------
        text : str
            The decimal, or a time; empty for an infinite bound.
        up_to : bool
            Whether ``x <= t`` reads ``x <= text``. Where the decimal is above t it reads
            ``x < text``: a value with no more decimals than the text is on its own side either way.
        """
        if not np.isfinite(t):
            return "", True
        value = self.row[column]
        bound = float(self.thresholds.bound(column, np.array([t]), single=False)[0])
        if self.thresholds.neighbours(column, bound):
            t = float(_told(np.array([t]))[0])
        written = self.thresholds.written(column, bound)
        # A value between the threshold and its decimal, which hardly any row has.
        meaning = self.thresholds.known.meaning(column)
        own = value if meaning is None else meaning.before(value)
        left = own <= written.shown if written.up_to else own < written.shown
        if not np.isnan(value) and bool(left) != bool(value <= t):
            written = self.thresholds.write(
                column,
                bound if self.thresholds.neighbours(column, bound) else t,
                float(value),
                is_upper=is_upper,
            )
        return written.text, written.up_to


def _told(t: FloatArray) -> FloatArray:
    """Thresholds that are values of single precision, as the decimals that they stand for.

    A forest of double precision on such values may split at one of them, ``x <= 101.69999695``.
    Training values are known as 101.7.
    """
    with np.errstate(over="ignore"):
        rounded = t.astype(np.float32)
    is_single = np.isfinite(t) & (rounded == t)
    told = t.copy()
    distinct, place = np.unique(rounded[is_single], return_inverse=True)
    told[is_single] = as_decimals(distinct)[place]
    return told


def shortest_between(low: float, high: float) -> str:
    """The number of the fewest digits in [low, high); of several the one nearest to the middle.

    >>> shortest_between(75.61, 75.83), shortest_between(18, 19), shortest_between(-0.02, 0.3)
    ('75.7', '18', '0')
    """
    low, high = float(low), float(high)
    if low <= 0 < high:
        return "0"
    middle = low + (high - low) / 2
    for digits in range(1, 18):
        unit = Decimal(1).scaleb(Decimal(repr(middle)).adjusted() - digits + 1)
        at = Decimal(repr(middle)).quantize(unit, ROUND_HALF_EVEN)
        for candidate in (at, at - unit, at + unit):
            if Decimal(repr(low)) <= candidate < Decimal(repr(high)):
                return _plain(float(candidate), f"{float(candidate):.{digits}g}")
    return _plain(low, repr(low))


def _time_between(low: float, high: float) -> Written:
    """A time in (low, high], in seconds since 1970: the roundest of day, hour, minute, second."""
    for unit, length in TIME_UNITS:
        at = np.floor(high / unit) * unit
        if low < at <= high:
            return Written(_instant(at, length), float(at), False)
    return Written(_instant(high, 23), high, False)


def _instant(seconds: float, length: int) -> str:
    return str(np.datetime64(round(seconds * 1000), "ms"))[:length].replace("T", " ")


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
