"""Columns whose conditions are sets of categories of one column of the table.

An encoder makes ``school_GP``, ``school_MS`` and ``school_XY`` of ``school``, or one column of
codes. Conditions on these columns are sets of schools. All columns that were made of one column of
the table share a *slot*, the number of the first of them; a set is a word of 64 bits, one for each
category, and the highest for a category that the encoder does not know.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from kpp._typing import AnyArray, BoolArray, FloatArray
from kpp.explanations._conditions import Condition
from kpp.forest.arrays import Forest
from kpp.forest.layout import CATEGORICAL, NUMERICAL
from kpp.models.meanings import CODES, Meaning

# How the splits on a column are read.
THRESHOLD, ONE_HOT, ORDINAL, NATIVE, BY_WORDS = range(5)
MOST_IN_A_WORD = 63
UNSEEN = np.uint64(1) << np.uint64(63)
# Codes are whole numbers; scaling and single precision leave them as near as this.
SLACK = 1e-6


class Sets:
    """The slots of a model, and how conditions on their columns become sets.

    Parameters
    ----------
    meanings : sequence of Meaning or None
        What the columns of the model say of those of the table.
    n_columns : int
        Number of columns.
    native : dict of int to list
        Categories of the columns that forests split by category themselves.

    Attributes
    ----------
    kind : uint8 array of shape (n_columns,)
        How splits on each column are read.
    slot : int32 array of shape (n_columns,)
        Where its conditions are collected; the column itself, but for encoded ones.
    bit : int32 array of shape (n_columns,)
        The category that a column of a one-hot encoder tells.
    zero, unit : arrays of shape (n_columns,)
        ``(x - zero) / unit`` is the 0 or 1, or the code, of an encoded column before any scaling.
    slack : array of shape (n_columns,)
        How far that may be from a whole number.
    full : uint64 array of shape (n_columns,)
        All categories of each slot.
    """

    def __init__(
        self,
        meanings: Sequence[Meaning] | None,
        n_columns: int,
        native: dict[int, list[Hashable]],
    ) -> None:
        self.kind = np.full(n_columns, THRESHOLD, dtype=np.uint8)
        self.slot = np.arange(n_columns, dtype=np.int32)
        self.bit = np.zeros(n_columns, dtype=np.int32)
        self.zero, self.unit, self.slack = (
            np.zeros(n_columns),
            np.ones(n_columns),
            np.zeros(n_columns),
        )
        self.full = np.zeros(n_columns, dtype=np.uint64)
        self._categories: dict[int, tuple[Hashable, ...]] = {}
        self._columns: dict[int, list[int]] = {}
        self._native = native
        slots: dict[Hashable, int] = {}
        for j, one in enumerate([] if meanings is None else meanings):
            if not one.is_set or len(one.categories) > MOST_IN_A_WORD or j in native:
                continue
            named = (one.source, one.name, tuple(map(repr, one.categories)))
            slot = j if one.kind == CODES else slots.setdefault(named, j)
            self.kind[j] = ORDINAL if one.kind == CODES else ONE_HOT
            self.slot[j], self.bit[j] = slot, one.place
            self.zero[j], self.unit[j] = -one.shift / one.scale, 1.0 / one.scale
            self.slack[j] = 0.0 if one.scale == 1.0 and one.shift == 0.0 else SLACK
            self.full[slot] = _bits(len(one.categories))
            self._categories[slot] = one.categories
            self._columns.setdefault(slot, []).append(j)
        for j, values in native.items():
            # All forests must mean the same by a code, and one word must do.
            self.full[j] = _bits(min(len(values), MOST_IN_A_WORD))

    def kinds_in(self, forest: Forest) -> AnyArray:
        """How splits on each column are read in one forest, uint8 array of shape (n_columns,)."""
        kind = self.kind.copy()
        by_category = np.unique(forest.feature[forest.split_kind == CATEGORICAL])
        for j in by_category.tolist():
            own, all_known = forest.categories.get(j), self._native.get(j, [])
            same = own is not None and own.tolist() == list(all_known)
            kind[j] = NATIVE if same and len(all_known) <= MOST_IN_A_WORD else BY_WORDS
        both = np.unique(forest.feature[forest.split_kind == NUMERICAL])
        kind[np.intersect1d(by_category, both)] = BY_WORDS
        return kind

    def slot_of(self, column: int) -> int:
        """The slot of an encoded column; -1 for any other."""
        slot = int(self.slot[column])
        return slot if slot in self._categories else -1

    def categories(self, slot: int) -> Iterable[tuple[int, Hashable]]:
        """Places and categories of a slot, in their order."""
        return enumerate(self._categories[slot])

    def allowed(self, conditions: Sequence[Condition]) -> set[int]:
        """Places of the categories that fulfil all conditions on columns of one slot."""
        slot = self.slot_of(conditions[0].feature)
        allowed = set(range(len(self._categories[slot])))
        for condition in conditions:
            j = condition.feature
            low, high = (
                (end - self.zero[j]) / self.unit[j] + self.slack[j]
                for end in (condition.low, condition.high)
            )
            if self.kind[j] == ONE_HOT:
                told = {int(self.bit[j])}
                allowed = ((allowed & told) if low < 1 <= high else set()) | (
                    (allowed - told) if low < 0 <= high else set()
                )
            else:
                allowed = {code for code in allowed if low < code <= high}
        return allowed

    def unseen(self, row: FloatArray) -> BoolArray:
        """Slots where a row has no category that the encoder knows, shape (n_columns,)."""
        found = np.zeros(len(row), dtype=bool)
        for slot, columns in self._columns.items():
            codes = (row[columns] - self.zero[columns]) / self.unit[columns]
            if self.kind[slot] == ORDINAL:
                found[slot] = (
                    not 0
                    <= round(float(np.nan_to_num(codes[0], nan=0.0)))
                    < len(self._categories[slot])
                )
            else:
                # A category that has no column of its own is all zeros as well.
                found[slot] = (
                    len(columns) == len(self._categories[slot]) and not (codes > 0.5).any()
                )
        return found

    def kept(self, unseen: BoolArray) -> AnyArray:
        """All that a set may hold, by slot: unknown categories where the row is of one."""
        return np.where(unseen, self.full | UNSEEN, self.full)


def _bits(n: int) -> np.uint64:
    return np.uint64((1 << n) - 1)
