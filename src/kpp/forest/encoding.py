"""Categories as numbers for trees that take only those, and such trees as trees of categories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kpp._typing import AnyArray, BoolArray, FloatArray, IntArray
from kpp.forest.arrays import Forest
from kpp.forest.coded import CodedRows
from kpp.forest.layout import CATEGORICAL, LEAF
from kpp.forest.sets import packed_sets, pool_of, sets_of

# A column of up to so many categories has an indicator for each; one of more has their codes.
ONE_HOT = 10
# A split holds a bit for each category: of more than these the most frequent ones are known.
MOST_CATEGORIES = 1024


@dataclass(frozen=True, eq=False)
class Encoding:
    """Columns of numbers, each a function of one column of a table.

    A split on such a column is a set of categories of the column it was made of: `translated`
    writes it as one.

    Parameters
    ----------
    source : int array of shape (n_encoded,)
        The column of the table that each was made of.
    tables : list of n_encoded arrays, or None
        The number of each category, and last that of a missing one, shape (n_categories + 1,);
        None for a column of numbers, and for codes that the trees know as categories.
    is_native : bool array of shape (n_encoded,)
        Which are such codes.
    categories : dict of int to array
        The categories that are known, by column of the table; all others count as missing.
    """

    source: IntArray
    tables: list[FloatArray | None]
    is_native: BoolArray
    categories: dict[int, AnyArray]

    @classmethod
    def of(
        cls,
        rows: CodedRows,
        sample_weight: Any = None,
        *,
        most_native: int = 0,
        one_hot: int | None = None,
        allows_nan: bool = True,
    ) -> Encoding:
        """Choose an encoding by the columns alone.

        Parameters
        ----------
        rows : CodedRows
            The rows that trees will be grown on.
        sample_weight : array of shape (n_rows,), optional
            Rows of weight 0 count as if they were not there.
        most_native : int
            Columns of at most so many categories are left to the trees, as codes.
        one_hot : int, optional
            Columns of at most so many categories have an indicator for each; by default
            `ONE_HOT`.
        allows_nan : bool
            Whether the trees take missing values. If not, a category that misses in some row has
            a code of its own, above the others.

        Returns
        -------
        encoding : Encoding
        """
        one_hot = ONE_HOT if one_hot is None else one_hot
        values = rows.values if sample_weight is None else rows.values[sample_weight > 0]
        source: list[int] = []
        tables: list[FloatArray | None] = []
        is_native: list[bool] = []
        categories: dict[int, AnyArray] = {}
        for j in range(values.shape[1]):
            own: list[FloatArray | None] = [None]
            native = False
            if j in rows.categories:
                known, misses = _known_codes(values[:, j])
                categories[j] = rows.categories[j][known]
                native = 0 < len(known) <= most_native
                if not native:
                    is_wide = len(known) > one_hot
                    own = [*_tables(len(known), misses, is_wide, allows_nan)]
            source += [j] * len(own)
            tables += own
            is_native += [native] * len(own)
        return cls(
            np.array(source, dtype=np.int32), tables, np.array(is_native, dtype=bool), categories
        )

    def apply(self, rows: CodedRows) -> FloatArray:
        """Encode rows.

        Parameters
        ----------
        rows : CodedRows
            Any rows of the same table.

        Returns
        -------
        encoded : float64 array of shape (n_rows, n_encoded)
        """
        encoded = np.empty((len(rows), len(self.source)))
        place: dict[int, AnyArray] = {}
        for e, (j, table) in enumerate(zip(self.source.tolist(), self.tables, strict=True)):
            if j not in self.categories:
                encoded[:, e] = rows.values[:, j]
                continue
            if j not in place:
                place[j] = self._places(rows, j)
            known = len(self.categories[j])
            own = np.append(np.arange(known), np.nan) if table is None else table
            encoded[:, e] = own[place[j]]
        return encoded

    def _places(self, rows: CodedRows, j: int) -> AnyArray:
        """Place of each row's category among the known ones; after them for any other."""
        known = {value: code for code, value in enumerate(self.categories[j].tolist())}
        listed = rows.categories[j].tolist()
        place = np.array([known.get(value, len(known)) for value in listed] + [len(known)])
        codes = rows.values[:, j]
        at: AnyArray = place[np.where(np.isnan(codes), len(listed), codes).astype(np.int64)]
        return at

    def translated(self, forest: Forest, names: tuple[str, ...] | None = None) -> Forest:
        """Return trees of encoded columns as trees of the table's own columns.

        Nodes keep their places, and with them their statistics and scores: every row reaches the
        leaf that it reached by its encoded columns.

        Parameters
        ----------
        forest : Forest
            Grown on encoded rows.
        names : tuple of str, optional
            Names of the table's columns.

        Returns
        -------
        forest : Forest
        """
        if len(forest.term_offsets):
            raise TypeError("Splits on sums of columns cannot be sets of categories.")
        splits = forest.split_kind != LEAF
        feature = forest.feature.copy()
        feature[splits] = self.source[feature[splits]]
        threshold, kind = forest.threshold.copy(), forest.split_kind.copy()
        missing_left = forest.missing_left.copy()
        categories = dict(self.categories)
        parts = []
        for e, nodes in _nodes_by_column(forest, len(self.source)):
            table = self.tables[e]
            if table is not None:
                words, missing = _sets_below(table, forest.threshold[nodes])
                if missing is not None:
                    missing_left[nodes] = missing
                kind[nodes], threshold[nodes] = CATEGORICAL, np.nan
                parts.append((nodes, words))
            elif e in forest.categories:
                n_codes = len(forest.categories[e])
                parts.append((nodes, packed_sets(sets_of(forest, nodes, n_codes))))
        for e, codes in forest.categories.items():
            j = int(self.source[e])
            # The trees number the codes that they found, which are all of them.
            own = categories[j][codes.astype(np.int64)] if self.is_native[e] else codes
            categories[j] = own
        offsets, bits = pool_of(parts, forest.n_nodes)
        n_features = int(self.source[-1]) + 1
        return replace(
            forest,
            feature=feature,
            threshold=threshold,
            missing_left=missing_left,
            split_kind=kind,
            category_offsets=offsets,
            category_bits=bits,
            n_features=n_features,
            feature_names=names,
            categories=categories,
        )


def _known_codes(values: FloatArray) -> tuple[AnyArray, bool]:
    """Codes that rows have, the most frequent ones where they are too many; and whether some miss.

    In the order of the codes.
    """
    missing = np.isnan(values)
    known, count = np.unique(values[~missing].astype(np.int64), return_counts=True)
    if len(known) > MOST_CATEGORIES:
        chosen = np.argsort(-count, kind="stable")[:MOST_CATEGORIES]
        return known[np.sort(chosen)], True
    return known, bool(missing.any())


def _tables(n_known: int, misses: bool, is_wide: bool, allows_nan: bool) -> list[FloatArray]:
    """The numbers of the categories, and of a missing one, in each encoded column."""
    if is_wide or n_known <= 2:
        # Trees grown without missing values still say where one would go: to the larger side.
        may_miss = n_known > 0 and (allows_nan or not misses)
        missing = np.nan if may_miss else float(n_known)
        return [np.append(np.arange(n_known, dtype=np.float64), missing)]
    # What misses is none of the categories; it has an indicator where some row does.
    own = np.eye(n_known, n_known + 1)
    if misses:
        own = np.eye(n_known + 1)
    return list(own)


def _sets_below(table: FloatArray, threshold: FloatArray) -> tuple[AnyArray, BoolArray | None]:
    """The categories whose numbers are at most each threshold, and whether a missing one's is.

    The latter is None where a missing category is a missing number.
    """
    numbers, missing = table[:-1], float(table[-1])
    order = np.argsort(numbers, kind="stable")
    # A threshold has so many numbers at or below it, and they are the first in order.
    n_below = np.searchsorted(numbers[order], threshold, side="right")
    which, place = np.unique(n_below, return_inverse=True)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    words = packed_sets(rank[None, :] < which[:, None])[place]
    return words, None if np.isnan(missing) else missing <= threshold


def _nodes_by_column(forest: Forest, n_columns: int) -> list[tuple[int, AnyArray]]:
    """The splits on each column, in order."""
    splits = np.flatnonzero(forest.split_kind != LEAF)
    order = splits[np.argsort(forest.feature[splits], kind="stable")]
    ends = np.cumsum(np.bincount(forest.feature[order], minlength=n_columns))
    return list(enumerate(np.split(order, ends[:-1])))
