"""Conditions in words: those of the table, where a preparation has made columns of it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from kpp._checks import is_missing
from kpp._rows import as_decimals
from kpp._typing import AnyArray, BoolArray
from kpp.explanations._conditions import Cell, Condition, categories_of
from kpp.explanations._decimals import Decimals, KnownColumns, Thresholds
from kpp.explanations._sets import BY_WORDS, Sets
from kpp.explanations._sums import Terms, write_sum
from kpp.forest.arrays import Forest
from kpp.forest.others import AnyOther

MOST_CATEGORIES = 8


class Vocabulary:
    """What all rows of a model share in how their conditions are written down; made once.

    Parameters
    ----------
    forests : list of Forest
        All forests of the model.
    known : KnownColumns, optional
        What is known of the columns.
    """

    def __init__(self, forests: list[Forest], known: KnownColumns | None = None) -> None:
        self.columns = KnownColumns() if known is None else known
        self.thresholds = Thresholds(forests, self.columns)
        self.categories = categories_of(forests)
        self.known = {column: frozenset(values) for column, values in self.categories.items()}
        n_columns = forests[0].n_features if forests else 0
        self.sets = Sets(self.columns.meanings, n_columns, self.categories)
        self.kinds = [self.sets.kinds_in(forest) for forest in self.thresholds.forests]
        # A column that words decide on in one forest: they do in all, or its cells would not meet.
        by_words = np.any([kind == BY_WORDS for kind in self.kinds], axis=0)
        for kind in self.kinds:
            kind[by_words] = BY_WORDS


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
    known : KnownColumns, optional
        What is known of the columns; where forests are given, and not their vocabulary.

    Attributes
    ----------
    forests : list of Forest
        The forests in float64, whose thresholds the conditions hold.
    categories : dict of int to list
        All categories of each column that one of the forests knows by its categories.
    sets : Sets
        Columns whose conditions are sets of categories.
    unseen : bool array of shape (n_features,)
        Slots of sets where the explained row has no category that is known.
    """

    def __init__(
        self,
        forests: list[Forest] | Vocabulary,
        names: tuple[str, ...],
        row: list[Any] | None = None,
        *,
        missing: AnyArray | None = None,
        other: bool = False,
        known: KnownColumns | None = None,
    ) -> None:
        words = forests if isinstance(forests, Vocabulary) else Vocabulary(forests, known)
        self.vocabulary, self.sets = words, words.sets
        self.forests, self.categories = words.thresholds.forests, words.categories
        self._known = words.known
        meanings = words.columns.meanings
        self.names = names if meanings is None else tuple(one.name for one in meanings)
        self.missing: BoolArray = np.zeros(len(names), dtype=bool)
        if missing is not None:
            self.missing |= np.asarray(missing, dtype=bool)
        self.other: BoolArray = np.zeros(len(names), dtype=bool)
        # A category that no forest knows is one of those that stand for any other.
        self._has_other = {j for j, values in words.known.items() if values & set(AnyOther)}
        self.other[[j for j in self.categories if j not in self._has_other]] = other
        numbers = np.full(len(names), np.nan)
        for j, value in enumerate([] if row is None else row):
            numbers[j] = self._read(j, value)
        self.number, self.row = Decimals(words.thresholds, numbers).number, numbers
        self.unseen = np.zeros(len(names), dtype=bool)
        if row is not None:
            self.unseen = self.sets.unseen(numbers)
        spread = words.columns.spread
        self.spread = np.zeros(len(names)) if spread is None else spread

    def _read(self, column: int, value: Any) -> float:
        """Take in one value of the explained row; as a number, NaN where it is none."""
        if value not in self._known.get(column, ()):
            if is_missing(value):
                self.missing[column] = True
                return np.nan
            self.other[column] = column in self.categories and column not in self._has_other
        if isinstance(value, np.float32 | np.float16):
            return float(as_decimals(np.array([value]))[0])
        try:
            return float(value)
        except (TypeError, ValueError):  # a category
            return np.nan

    def cell(self, cell: Cell) -> str:
        """Write a conjunction."""
        together: dict[Hashable, list[Condition]] = {}
        for place, condition in enumerate(cell):
            slot = -1 if condition.terms else self.sets.slot_of(condition.feature)
            # All columns of a set are told together, where the first of them stands.
            together.setdefault(("set", slot) if slot >= 0 else place, []).append(condition)
        parts = [
            self.condition(own[0]) if isinstance(place, int) else self._categories(own)
            for place, own in together.items()
        ]
        parts = [words for words in parts if words]
        several = len(parts) > 1
        texts = [" or ".join(words) for words in parts]
        texts = [
            f"({text})" if several and len(words) > 1 else text
            for text, words in zip(texts, parts, strict=True)
        ]
        return " and ".join(texts) or "any row"

    def key(self, cell: Cell) -> Hashable:
        """What is the same for all cells that read the same."""
        found: dict[Hashable, Hashable] = {}
        sets: dict[int, list[Condition]] = {}
        for c in cell:
            slot = -1 if c.terms else self.sets.slot_of(c.feature)
            if slot >= 0:
                sets.setdefault(slot, []).append(c)
            elif c.terms:
                found[c.terms] = (c.low, c.high, c.missing and self._may_miss(c.terms))
            else:
                bounds = (self._bound(c.feature, c.low), self._bound(c.feature, c.high))
                told = bool(self.missing[c.feature] or self.other[c.feature])
                found[c.feature] = (c.categories, c.low < c.high, *bounds, c.missing and told)
        for slot, own in sets.items():
            told = bool(self.missing[own[0].feature])
            found["set", slot] = (
                frozenset(self.sets.allowed(own)),
                told and all(c.missing for c in own),
            )
        return frozenset(found.items())

    def _bound(self, column: int, t: float) -> Hashable:
        """What is the same for all thresholds of a column that are written alike."""
        if not np.isfinite(t):
            return None
        return float(self.vocabulary.thresholds.bound(column, np.array([t]), single=False)[0])

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
        if told and more:
            # "Is not d or missing" would be read as neither.
            negated = text.removeprefix(f"{name} ").removeprefix("is ")
            return [f"{name} is {more[0]}", *more[1:], negated]
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
        left, above = self.number(condition.feature, low, is_upper=False)
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
            return is_not(name, outside), True
        return is_one_of(name, inside), False

    def _categories(self, conditions: Sequence[Condition]) -> list[str]:
        """Write what conditions on the columns of one set allow, all of them together."""
        column = conditions[0].feature
        slot, name = self.sets.slot_of(column), self.names[column]
        allowed = self.sets.allowed(conditions)
        listed = [(place in allowed, value) for place, value in self.sets.categories(slot)]
        inside = [str(value) for is_in, value in listed if is_in and not is_missing(value)]
        outside = [str(value) for is_in, value in listed if not is_in and not is_missing(value)]
        # A missing value is a category of its own to some encoders, and a gap to others.
        as_category = [is_in for is_in, value in listed if is_missing(value)]
        may_miss = bool(self.missing[column]) and all(c.missing for c in conditions)
        misses = any(as_category) or may_miss
        if self.unseen[slot]:
            text = is_not(name, outside) if outside else ""
            if text and as_category and not misses:
                text += " and not missing"
            return [text] if text else []
        if not inside:
            return [f"{name} is missing" if misses else f"{name} is none of its values"]
        if not outside:
            told = as_category or self.missing[column]
            return [f"{name} is not missing"] if told and not misses else []
        if len(outside) < len(inside) and (misses or not as_category):
            # "Not in" holds for a missing value too.
            gap = self.missing[column] and not may_miss
            return [is_not(name, outside) + (" and not missing" if gap else "")]
        return [is_one_of(name, inside), *(["missing"] if misses else [])]


def is_one_of(name: str, values: list[str]) -> str:
    """Write that a column has one of some values."""
    return f"{name} = {values[0]}" if len(values) == 1 else f"{name} in {_set(values)}"


def is_not(name: str, values: list[str]) -> str:
    """Write that a column has none of some values."""
    return f"{name} is not {values[0]}" if len(values) == 1 else f"{name} not in {_set(values)}"


def _set(names: list[str]) -> str:
    shown = names[:MOST_CATEGORIES]
    more = len(names) - len(shown)
    return "{" + ", ".join(shown) + (f", and {more} more" if more else "") + "}"
