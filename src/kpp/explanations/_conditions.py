"""Cells as conditions: one interval, or set of categories, per column."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kpp.explanations._sums import Terms
from kpp.forest.arrays import Forest
from kpp.forest.columns import terms_of
from kpp.forest.layout import CATEGORICAL, SEVERAL_COLUMNS
from kpp.forest.others import AnyOther, other_of

Categories = dict[int, list[Hashable]]


@dataclass(frozen=True)
class Condition:
    """What a cell asks of one column: a value in (low, high], or in a set, or a missing one.

    Parameters
    ----------
    feature : int
        The column; -2 for a sum of several, `terms`.
    low, high : float
        Bounds of a numerical column, or of the sum, ``low < x <= high`` with x in float64,
        whatever precision the forest itself compares in.
    categories : frozenset or None
        The categories themselves, of a categorical column; None for a numerical one. One of them
        may be `kpp.forest.others.AnyOther`.
    missing : bool
        Whether a missing value fulfils the condition, and so a category that no forest of the
        model knows. A sum is missing where one of its columns is.
    terms : tuple of (column, weight)
        Of oblique splits: the sum that lies between the bounds, added in float64 in this order.
    """

    feature: int
    low: float = -np.inf
    high: float = np.inf
    categories: frozenset[Hashable] | None = None
    missing: bool = True
    terms: Terms = ()

    @property
    def place(self) -> tuple[bool, int, Terms]:
        """What conditions are ordered by: columns, then sums of columns."""
        return bool(self.terms), self.feature, self.terms


Cell = tuple[Condition, ...]


def categories_of(forests: Iterable[Forest]) -> Categories:
    """All categories that any of the forests knows, by column; in order where there is one."""
    known: dict[int, dict[Hashable, None]] = {}
    for forest in forests:
        for column, values in forest.categories.items():
            known.setdefault(column, {}).update(dict.fromkeys(values.tolist()))
    return {column: _in_order(values) for column, values in known.items()}


def _in_order(values: Iterable[Any]) -> list[Hashable]:
    listed = list(values)
    try:
        return sorted(listed)  # any other one last
    except TypeError:
        return sorted(listed, key=lambda value: isinstance(value, AnyOther))


def cells_of_path(forest: Forest, leaf: int, categories: Categories) -> list[tuple[int, Cell]]:
    """Each node below the root on the way to a leaf, with the conditions that lead to it.

    Conditions on the same column, or on the same sum of columns, are merged; they stand in the
    order of their first split. Of
    the given categories, those that the forest does not know go where a missing value goes.
    """
    path = [leaf]
    while forest.parent[path[-1]] >= 0:
        path.append(int(forest.parent[path[-1]]))
    # From the root down, because conditions narrow from split to split.
    path.reverse()
    cell: dict[Hashable, Condition] = {}
    cells = []
    for above, v in pairwise(path):
        column = terms_of(forest, above) or int(forest.feature[above])
        cell[column] = _narrow(forest, above, v, cell.get(column), categories)
        cells.append((v, tuple(cell.values())))
    return cells


def _narrow(
    forest: Forest, above: int, child: int, old: Condition | None, categories: Categories
) -> Condition:
    """Add one split to what is known of its column."""
    column, goes_left = int(forest.feature[above]), child == forest.left[above]
    # A missing value takes one side of every split: it is in the cell if that is the cell's side
    # each time.
    missing = bool(forest.missing_left[above]) == bool(goes_left)
    if forest.split_kind[above] == CATEGORICAL:
        left = _left_codes(forest, above)
        known = forest.categories[column]
        own = {value: code in left for code, value in enumerate(known.tolist())}
        other = other_of(known)
        # One that this forest does not know goes where any other goes, or else where a missing one
        # goes.
        unknown = bool(forest.missing_left[above]) if other is None else own[other]
        inside = frozenset(
            value for value in categories[column] if own.get(value, unknown) == bool(goes_left)
        )
        if old is not None and old.categories is not None:
            # Both splits must be passed.
            inside, missing = inside & old.categories, missing and old.missing
        return Condition(column, categories=inside, missing=missing)
    # x <= t goes left: the left cell is closed at t, the right one open.
    t = float(forest.threshold[above])
    low, high = (-np.inf, t) if goes_left else (t, np.inf)
    terms = terms_of(forest, above)
    if old is not None:
        low, high, missing = max(low, old.low), min(high, old.high), missing and old.missing
    return Condition(SEVERAL_COLUMNS if terms else column, low, high, None, missing, terms)


def _left_codes(forest: Forest, v: int) -> set[int]:
    first, last = forest.category_offsets[v], forest.category_offsets[v + 1]
    # The bytes of a little-endian word, lowest bit first, list the codes in rising order.
    bits = np.unpackbits(forest.category_bits[first:last].view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())
