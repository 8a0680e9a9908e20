"""Cells as readable conditions: one interval, or set of categories, per column."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kpp._checks import is_missing
from kpp._typing import AnyArray, BoolArray, FloatArray
from kpp.explanations._decimals import Decimals, Thresholds
from kpp.explanations._sums import Terms, write_sum
from kpp.forest.arrays import Forest
from kpp.forest.columns import terms_of
from kpp.forest.layout import CATEGORICAL, SEVERAL_COLUMNS
from kpp.forest.others import AnyOther, other_of

MOST_CATEGORIES = 8

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


class Vocabulary:
    """What all rows of a model share in how their conditions are written down; made once.

    Parameters
    ----------
    forests : list of Forest
        All forests of the model.
    spread : array of shape (n_features,), optional
        Spread of the columns, for thresholds that have no other beside them.
    """

    def __init__(self, forests: list[Forest], spread: FloatArray | None = None) -> None:
        self.thresholds = Thresholds(forests, spread)
        self.categories = categories_of(forests)
        self.known = {column: frozenset(values) for column, values in self.categories.items()}


class Wording:
    """How the conditions of a model are written down.

    Parameters
    ----------
    forests : list of Forest, or Vocabulary
        All forests of the model, or what is known of them.
    names : tuple of str
        Names of the columns.
    row : list of length n_features, optional
        The row that is explained. Its values stay on their side of printed thresholds, and
        "or missing" or "or other" is written where it is missing or of an unknown category.
    missing : bool array of shape (n_features,), optional
        Columns in which rows of the fit are missing: "or missing" is written for them too.
    other : bool, default=False
        Whether the rows of the fit may have categories that no forest knows: "or other" is
        written wherever these go too.
    spread : array of shape (n_features,), optional
        Spread of the columns, for thresholds that have no other beside them; where forests are
        given, and not what is known of them.

    Attributes
    ----------
    forests : list of Forest
        The forests in float64, whose thresholds the conditions hold.
    categories : dict of int to list
        All categories of each column that one of the forests knows by its categories.
    """

    def __init__(
        self,
        forests: list[Forest] | Vocabulary,
        names: tuple[str, ...],
        row: list[Any] | None = None,
        *,
        missing: AnyArray | None = None,
        other: bool = False,
        spread: FloatArray | None = None,
    ) -> None:
        known = forests if isinstance(forests, Vocabulary) else Vocabulary(forests, spread)
        self.forests, self.categories = known.thresholds.forests, known.categories
        self.is_exact, self._known = known.thresholds.is_exact, known.known
        self.names = names
        self.missing: BoolArray = np.zeros(len(names), dtype=bool)
        if missing is not None:
            self.missing |= np.asarray(missing, dtype=bool)
        self.other: BoolArray = np.zeros(len(names), dtype=bool)
        # A category that no forest knows is one of those that stand for any other.
        self._has_other = {j for j, values in known.known.items() if values & set(AnyOther)}
        self.other[[j for j in self.categories if j not in self._has_other]] = other
        numbers = np.full(len(names), np.nan)
        for j, value in enumerate([] if row is None else row):
            numbers[j] = self._read(j, value)
        self.number, self.row = Decimals(known.thresholds, numbers).number, numbers
        spread = known.thresholds.spread
        self.spread = np.zeros(len(names)) if spread is None else spread

    def _read(self, column: int, value: Any) -> float:
        """Take in one value of the explained row; as a number, NaN where it is none."""
        if value not in self._known.get(column, ()):
            if is_missing(value):
                self.missing[column] = True
                return np.nan
            self.other[column] = column in self.categories and column not in self._has_other
        try:
            return float(value)
        except (TypeError, ValueError):  # a category
            return np.nan

    def cell(self, cell: Cell) -> str:
        """Write a conjunction."""
        parts = [words for words in map(self.condition, cell) if words]
        several = len(parts) > 1
        texts = [" or ".join(words) for words in parts]
        texts = [
            f"({text})" if several and len(words) > 1 else text
            for text, words in zip(texts, parts, strict=True)
        ]
        return " and ".join(texts) or "any row"

    def key(self, cell: Cell) -> Hashable:
        """What is the same for all cells that read the same."""
        return tuple(
            (c.terms, c.low, c.high, c.missing and self._may_miss(c.terms))
            if c.terms
            else (
                c.feature,
                c.categories,
                c.low < c.high,
                self._bound(c.feature, c.low),
                self._bound(c.feature, c.high),
                c.missing and bool(self.missing[c.feature] or self.other[c.feature]),
            )
            for c in cell
        )

    def _bound(self, column: int, t: float) -> Hashable:
        """What is the same for all thresholds of a column that are written alike."""
        if not self.is_exact:
            return self.number(column, t)
        return t if np.isfinite(t) else None

    def condition(self, condition: Condition) -> list[str]:
        """Write what the condition on one column allows; nothing where every value fulfils it."""
        if condition.terms:
            return self._of_sum(condition)
        name, column = self.names[condition.feature], condition.feature
        other, told = False, False
        if condition.categories is None:
            text = self._interval(name, condition)
        else:
            other = bool(self.other[column])
            text, told = self._set(column, condition.categories, condition.missing, other)
        if text == "":
            if condition.missing:
                return []
            return [f"{name} is neither missing nor other" if other else f"{name} is not missing"]
        more = []
        if condition.missing and (self.missing[column] or (text is None and not other)):
            more.append("missing")
        if condition.missing and other and not told:
            more.append("other")
        if text is None:
            return [f"{name} is {' or '.join(more)}"]
        return [text, *more]

    def _of_sum(self, condition: Condition) -> list[str]:
        """Write a condition on a sum of columns, which is missing where one of them is."""
        low, high, terms = condition.low, condition.high, condition.terms
        names = [self.names[column] for column, _ in terms]
        if low >= high:
            return [f"{' or '.join(names)} is missing"]
        if np.isinf(low) and np.isinf(high):
            return [] if condition.missing else [f"neither {' nor '.join(names)} is missing"]
        text = write_sum(terms, low, high, self.names, self.row, self.spread)
        told = condition.missing and self._may_miss(terms)
        return [text, "one of them is missing"] if told else [text]

    def _may_miss(self, terms: Terms) -> bool:
        return bool(self.missing[[column for column, _ in terms]].any())

    def _interval(self, name: str, condition: Condition) -> str | None:
        low, high = condition.low, condition.high
        if low >= high:
            return None
        left, above = self.number(condition.feature, low)
        right, up_to = self.number(condition.feature, high)
        if left and right:
            return f"{left} {'<' if above else '<='} {name} {'<=' if up_to else '<'} {right}"
        if left:
            return f"{name} {'>' if above else '>='} {left}"
        return f"{name} {'<=' if up_to else '<'} {right}" if right else ""

    def _set(
        self, column: int, categories: frozenset[Hashable], missing: bool, other: bool
    ) -> tuple[str | None, bool]:
        """Write a set of categories; and whether the words hold for unknown ones as well."""
        name, known = self.names[column], self.categories[column]
        # Each once: a forest may know 3 and "3", where they are the same to its library.
        inside = list(dict.fromkeys(str(value) for value in known if value in categories))
        outside = list(dict.fromkeys(str(value) for value in known if value not in categories))
        if not inside:
            return None, False
        if not outside:
            return "", False
        # The shorter list, unless "not in" would wrongly promise it to categories that no forest
        # knows.
        if len(outside) < len(inside) and (missing or not other):
            one = len(outside) == 1
            return f"{name} != {outside[0]}" if one else f"{name} not in {_set(outside)}", True
        one = len(inside) == 1
        return f"{name} = {inside[0]}" if one else f"{name} in {_set(inside)}", False


def _set(names: list[str]) -> str:
    shown = names[:MOST_CATEGORIES]
    more = len(names) - len(shown)
    return "{" + ", ".join(shown) + (f", and {more} more" if more else "") + "}"
