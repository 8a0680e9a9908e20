"""Categories as numbers for trees that take only those, and such trees as trees of categories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kpp._typing import AnyArray, BoolArray, FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.coded import CodedRows, codes_among
from kpp.forest.layout import CATEGORICAL, LEAF
from kpp.forest.others import AnyOther, other_of
from kpp.forest.sets import for_categories, packed_sets, pool_of, sets_of

# A split holds a bit for each category: of more than these the most frequent ones are known.
MOST_CATEGORIES = 1024
# Up to so many categories are put in the order of the target's means, more by how many rows they
# have: the means of many categories are mostly chance (benchmarks/results/category_orders.md).
MOST_BY_TARGET = 32
# The mean of a category counts as if so many rows more had the mean of all.
PRIOR_ROWS = 10.0


@dataclass(frozen=True, eq=False)
class Encoding:
    """Categories as numbers, column by column.

    A split on such numbers is a set of categories: `translated` writes it as one.

    Parameters
    ----------
    categories : dict of int to array
        The categories that are known, by column; all others count as missing.
    tables : dict of int to array
        Column -> the number of each of its categories, and last that of a missing one, shape
        (n_categories + 1,). Not for columns whose categories the trees know as such: these have
        codes.
    """

    categories: dict[int, AnyArray]
    tables: dict[int, FloatArray]

    @classmethod
    def of(
        cls,
        rows: CodedRows,
        target: FloatArray | None = None,
        sample_weight: Any = None,
        *,
        most_native: int = 0,
        by_name: bool = False,
        allows_nan: bool = True,
    ) -> Encoding:
        """Choose the numbers of the categories.

        Parameters
        ----------
        rows : CodedRows
            The rows that trees will be grown on, and no others.
        target : array of shape (n_rows, n_targets), optional
            What the trees are grown for; see `target_columns`.
        sample_weight : array of shape (n_rows,), optional
            Rows of weight 0 count as if they were not there.
        most_native : int
            Columns of at most so many categories are left to the trees, as codes.
        by_name : bool
            Whether the order of the codes is kept. It always is where a column declares one.
        allows_nan : bool
            Whether the trees take missing values. If not, a category that misses in some row has
            a number of its own, above the others.

        Returns
        -------
        encoding : Encoding
        """
        weight = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight)
        counts = weight > 0
        values, weight = rows.values[counts], weight[counts] / weight[counts].mean()
        target = None if target is None else target[counts]
        categories, tables = {}, {}
        for j, names in rows.categories.items():
            known, misses = _known_codes(values[:, j], weight)
            categories[j] = names[known]
            if 0 < len(known) <= most_native:
                continue
            place = codes_among(values[:, j], len(names), known)
            rank = np.arange(len(known))
            if not (by_name or j in rows.ordered):
                rank = category_rank(place, len(known), target, weight)
            # Trees grown without missing values still say where one would go: to the larger side.
            may_miss = len(known) > 0 and (allows_nan or not misses)
            tables[j] = np.append(rank.astype(float), np.nan if may_miss else float(len(known)))
        return cls(categories, tables)

    def apply(self, rows: CodedRows) -> FloatArray:
        """Encode rows.

        Parameters
        ----------
        rows : CodedRows
            Any rows of the same table.

        Returns
        -------
        encoded : float64 array of shape (n_rows, n_columns)
        """
        encoded = rows.values.copy()
        for j, known in self.categories.items():
            among = {value: code for code, value in enumerate(rows.categories[j].tolist())}
            codes = np.array([among[value] for value in known.tolist()], dtype=np.int64)
            place = codes_among(rows.values[:, j], len(among), codes)
            encoded[:, j] = self._numbers(j)[place]
        return encoded

    def _numbers(self, j: int) -> FloatArray:
        """The number of each category of a column, and last that of a missing one."""
        numbers = np.append(np.arange(len(self.categories[j]), dtype=np.float64), np.nan)
        return self.tables.get(j, numbers)

    def translated(self, forest: Forest) -> Forest:
        """Return trees of encoded columns as trees of the categories themselves.

        Nodes keep their places, and with them their statistics and scores: every row reaches the
        leaf that it reached by its encoded columns.

        Parameters
        ----------
        forest : Forest
            Grown on encoded rows.

        Returns
        -------
        forest : Forest
        """
        threshold, kind = forest.threshold.copy(), forest.split_kind.copy()
        missing_left = forest.missing_left.copy()
        categories, parts = dict(self.categories), []
        missing_values = dict(forest.missing_values)
        for j, nodes in _nodes_by_column(forest):
            if other_of(forest.categories.get(j)) is AnyOther.CODE and j in self.categories:
                # Codes are the numbers that the categories had, be it as ranks.
                numbers = self._numbers(j)
                codes = forest.categories[j]
                parts.append((nodes, for_categories(forest, nodes, codes, numbers[:-1])))
                if not np.isnan(numbers[-1]):
                    of_missing = for_categories(forest, nodes, codes, numbers[-1:])
                    missing_left[nodes] = of_missing[:, 0] == 1
            elif j in self.tables:
                words, missing = _sets_below(self.tables[j], forest.threshold[nodes])
                if missing is not None:
                    missing_left[nodes] = missing
                if j in missing_values:
                    # A category whose number counts as missing goes where missing ones go.
                    low, high = missing_values.pop(j)
                    numbers = self.tables[j][:-1]
                    for code in np.flatnonzero((numbers >= low) & (numbers <= high)).tolist():
                        bit = np.uint32(1 << code % 32)
                        words[:, code // 32] &= ~bit
                        words[missing_left[nodes], code // 32] |= bit
                kind[nodes], threshold[nodes] = CATEGORICAL, np.nan
                parts.append((nodes, words))
            elif j in forest.categories:
                n_codes = len(forest.categories[j])
                parts.append((nodes, packed_sets(sets_of(forest, nodes, n_codes))))
        for j, codes in forest.categories.items():
            # Of categories the trees know the codes, of numbers the numbers.
            own = self.categories.get(j)
            if own is None or other_of(codes) is None:
                categories[j] = codes if own is None else own[codes.astype(np.int64)]
        offsets, bits = pool_of(parts, forest.n_nodes)
        return replace(
            forest,
            threshold=threshold,
            missing_left=missing_left,
            split_kind=kind,
            category_offsets=offsets,
            category_bits=bits,
            categories=categories,
            missing_values=missing_values,
        )


def category_rank(
    place: AnyArray, n_known: int, target: FloatArray | None, weight: FloatArray
) -> AnyArray:
    """Put the categories of a column in order.

    Parameters
    ----------
    place : int array of shape (n_rows,)
        Category of each row; `n_known` for none of them.
    n_known : int
        Number of categories.
    target : array of shape (n_rows, n_targets), optional
        Few categories are ordered by its means, shrunk towards the mean of all rows; several
        means of a category by their first principal component.
    weight : array of shape (n_rows,)
        Weights of the rows, of mean 1.

    Returns
    -------
    rank : int array of shape (n_known,)
        Without a target, or for many categories: the most frequent one first.

    References
    ----------
    For a numerical target, or two classes, the best split of a node into two sets of categories
    is one of neighbours in the order of its means: Breiman et al. (1984), section 4.2. The
    principal component for several classes is that of Coppersmith, Hong and Hosking (1999). Here
    the order is found once, at the root.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.encoding import category_rank
    >>> place, y = np.array([0, 0, 0, 1, 2, 2]), np.array([[2.0], [2], [2], [5], [0], [0]])
    >>> category_rank(place, 3, y, np.ones(6)), category_rank(place, 3, None, np.ones(6))
    (array([1, 2, 0]), array([0, 2, 1]))
    """
    if n_known < 2:
        return np.arange(n_known)
    known = place < n_known
    place, weight = place[known], weight[known]
    count = np.bincount(place, weight, minlength=n_known)
    if target is None or n_known > MOST_BY_TARGET:
        score = -count
    else:
        centred = target[known] - np.average(target[known], axis=0, weights=weight)
        sums = [np.bincount(place, weight * column, minlength=n_known) for column in centred.T]
        means = np.column_stack(sums) / (count + PRIOR_ROWS)[:, None]
        # Rows of the categories, each as often as it is there.
        direction = np.linalg.svd(np.sqrt(count)[:, None] * means, full_matrices=False)[2][0]
        score = means @ (direction * np.sign(direction[np.abs(direction).argmax()]))
    rank = np.empty(n_known, dtype=np.int64)
    rank[np.argsort(score, kind="stable")] = np.arange(n_known)
    return rank


def target_columns(y: Any, *, classification: bool) -> FloatArray:
    """A target as columns of numbers: an indicator for each class, or numbers of spread 1.

    Examples
    --------
    >>> from kpp.forest.encoding import target_columns
    >>> target_columns(["a", "b", "a"], classification=True).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    if classification:
        classes, code = np.unique(np.asarray(y), return_inverse=True)
        return np.eye(len(classes))[code.reshape(-1)]
    numbers = np.asarray(y, dtype=np.float64)
    numbers = numbers.reshape(len(numbers), -1)
    spread = numbers.std(axis=0)
    return np.asarray((numbers - numbers.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _known_codes(values: FloatArray, weight: FloatArray) -> tuple[AnyArray, bool]:
    """Codes that rows have, the most frequent ones where they are too many; and whether some miss.

    In the order of the codes.
    """
    missing = np.isnan(values)
    known, place = np.unique(values[~missing].astype(np.int64), return_inverse=True)
    if len(known) > MOST_CATEGORIES:
        count = np.bincount(place, weight[~missing])
        return known[np.sort(np.argsort(-count, kind="stable")[:MOST_CATEGORIES])], True
    return known, bool(missing.any())


def _sets_below(table: FloatArray, threshold: FloatArray) -> tuple[AnyArray, BoolArray | None]:
    """The categories whose numbers are at most each threshold, and whether a missing one's is.

    The latter is None where a missing category is a missing number.
    """
    numbers, missing = table[:-1], float(table[-1])
    # Numbers are 0, 1, ...: below a threshold there are so many of them.
    n_below = np.searchsorted(np.arange(len(numbers)), threshold, side="right")
    which, place = np.unique(n_below, return_inverse=True)
    words = packed_sets(numbers[None, :] < which[:, None])[place]
    return words, None if np.isnan(missing) else missing <= threshold


def _nodes_by_column(forest: Forest) -> list[tuple[int, AnyArray]]:
    """The splits on each column, in order."""
    splits = np.flatnonzero((forest.split_kind != LEAF) & (forest.feature >= 0))
    order = splits[np.argsort(forest.feature[splits], kind="stable")]
    ends = np.cumsum(np.bincount(forest.feature[order], minlength=forest.n_features))
    return list(enumerate(np.split(order, ends[:-1])))
