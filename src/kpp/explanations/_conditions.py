"""Cells as readable conditions: one interval, or set of categories, per column."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kpp._typing import FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.layout import CATEGORICAL, NUMERICAL

# Digits that a threshold keeps even where fewer would separate it from the others.
FEWEST_DIGITS = 3
MOST_CATEGORIES = 8


@dataclass(frozen=True)
class Condition:
    """What a cell asks of one column: a value in (low, high], or in a set, or a missing one.

    Parameters
    ----------
    feature : int
        The column.
    low, high : float
        Bounds of a numerical column, ``low < x <= high``.
    categories : frozenset of int or None
        Codes of a categorical column; None for a numerical one.
    missing : bool
        Whether a missing value (or an unknown category) fulfils the condition.
    """

    feature: int
    low: float = -np.inf
    high: float = np.inf
    categories: frozenset[int] | None = None
    missing: bool = True


Cell = tuple[Condition, ...]


def cells_of_path(forest: Forest, leaf: int) -> list[tuple[int, Cell]]:
    """Each node below the root on the way to a leaf, with the conditions that lead to it.

    Conditions on the same column are merged; columns stand in the order of their first split.
    """
    path = [leaf]
    while forest.parent[path[-1]] >= 0:
        path.append(int(forest.parent[path[-1]]))
    path.reverse()
    cell: dict[int, Condition] = {}
    cells = []
    for above, v in pairwise(path):
        column = int(forest.feature[above])
        cell[column] = _narrow(forest, above, v, cell.get(column))
        cells.append((v, tuple(cell.values())))
    return cells


def _narrow(forest: Forest, above: int, child: int, old: Condition | None) -> Condition:
    """Add one split to what is known of its column."""
    column, goes_left = int(forest.feature[above]), child == forest.left[above]
    missing = bool(forest.missing_left[above]) == bool(goes_left)
    if forest.split_kind[above] == CATEGORICAL:
        n_codes = len(forest.categories[column])
        left = _left_codes(forest, above)
        codes = frozenset(c for c in range(n_codes) if (c in left) == bool(goes_left))
        if old is not None and old.categories is not None:
            codes, missing = codes & old.categories, missing and old.missing
        return Condition(column, categories=codes, missing=missing)
    t = float(forest.threshold[above])
    low, high = (-np.inf, t) if goes_left else (t, np.inf)
    if old is None:
        return Condition(column, low, high, None, missing)
    return Condition(column, max(low, old.low), min(high, old.high), None, missing and old.missing)


def _left_codes(forest: Forest, v: int) -> set[int]:
    first, last = forest.category_offsets[v], forest.category_offsets[v + 1]
    bits = np.unpackbits(forest.category_bits[first:last].view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


class Wording:
    """How the conditions of a model are written down.

    Parameters
    ----------
    forests : list of Forest
        All forests of the model: a printed threshold stays apart from every other one.
    names : tuple of str
        Names of the columns.
    row : array of shape (n_features,), optional
        The row that is explained, in category codes. Its values stay on their side of printed
        thresholds, and "or missing" is written where it is missing.
    """

    def __init__(
        self, forests: list[Forest], names: tuple[str, ...], row: FloatArray | None = None
    ) -> None:
        self.forests = forests
        self.names = names
        self.row = np.full(len(names), np.nan) if row is None else row
        self._thresholds: dict[int, FloatArray] = {}

    def cell(self, cell: Cell) -> str:
        """Write a conjunction."""
        parts = [text for text in map(self.condition, cell) if text]
        if len(parts) > 1:
            parts = [f"({part})" if part.endswith(" or missing") else part for part in parts]
        return " and ".join(parts) or "any row"

    def condition(self, condition: Condition) -> str:
        """Write the condition on one column; empty where every value fulfils it."""
        name = self.names[condition.feature]
        value = self.row[condition.feature]
        text = (
            self._interval(name, condition, value)
            if condition.categories is None
            else self._set(name, condition)
        )
        if text is None:
            return f"{name} is missing"
        if text == "":
            return "" if condition.missing else f"{name} is not missing"
        return f"{text} or missing" if condition.missing and np.isnan(value) else text

    def _interval(self, name: str, condition: Condition, value: float) -> str | None:
        low, high = condition.low, condition.high
        if low >= high:
            return None
        left = "" if low == -np.inf else self.number(condition.feature, low, value)
        right = "" if high == np.inf else self.number(condition.feature, high, value)
        if left and right:
            return f"{left} < {name} <= {right}"
        return f"{name} > {left}" if left else f"{name} <= {right}" if right else ""

    def _set(self, name: str, condition: Condition) -> str | None:
        assert condition.categories is not None
        known = self._categories(condition.feature)
        inside = [str(known[code]) for code in sorted(condition.categories)]
        outside = [str(c) for code, c in enumerate(known) if code not in condition.categories]
        if not inside:
            return None
        if not outside:
            return ""
        if len(outside) < len(inside):
            return (
                f"{name} != {outside[0]}" if len(outside) == 1 else f"{name} not in {_set(outside)}"
            )
        return f"{name} = {inside[0]}" if len(inside) == 1 else f"{name} in {_set(inside)}"

    def _categories(self, column: int) -> list[Any]:
        known = next(f.categories[column] for f in self.forests if column in f.categories)
        return known.tolist()

    def number(self, column: int, t: float, value: float) -> str:
        """Write a threshold with the fewest digits that keep its meaning.

        No other threshold of the column, and not the explained value, may come to lie on the
        other side of it.
        """
        others = self._of_column(column)
        place = np.searchsorted(others, t)
        # Up to half way to the next one: two that are rounded towards each other stay apart.
        below = (others[place - 1] + t) / 2 if place > 0 else -np.inf
        above = (others[place + 1] + t) / 2 if place + 1 < len(others) else np.inf
        for digits in range(FEWEST_DIGITS, 17):
            text = f"{t:.{digits}g}"
            rounded = float(text)
            same_side = np.isnan(value) or (value <= rounded) == (value <= t)
            if below < rounded < above and same_side:
                return _plain(rounded, text)
        return repr(t)

    def _of_column(self, column: int) -> FloatArray:
        if column not in self._thresholds:
            found = [
                f.threshold[(f.feature == column) & (f.split_kind == NUMERICAL)]
                for f in self.forests
            ]
            self._thresholds[column] = np.unique(np.concatenate(found))
        return self._thresholds[column]


def _plain(value: float, text: str) -> str:
    """Without an exponent where the number has a usual size."""
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        return str(np.format_float_positional(value, trim="-"))
    return text


def _set(names: list[str]) -> str:
    shown = names[:MOST_CATEGORIES]
    more = len(names) - len(shown)
    return "{" + ", ".join(shown) + (f", and {more} more" if more else "") + "}"
