"""The columns that each node belongs to: those of the split above it, with their shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kpp._typing import BoolArray, FloatArray, IntArray, OffsetArray
from kpp.forest.layout import CATEGORICAL

if TYPE_CHECKING:
    from kpp.forest.arrays import Forest


def column_shares(forest: Forest) -> tuple[OffsetArray, IntArray, FloatArray]:
    """Share out the nodes below a split over the columns that the split tests.

    Parameters
    ----------
    forest : Forest
        Any forest.

    Returns
    -------
    node, column, share : arrays of shape (n_pairs,)
        Every node that is no root, in order, with each column of the split above it. The share is
        1 but for oblique splits, where the shares of the columns add up to 1.

    Examples
    --------
    >>> from kpp.forest import Forest, Tree
    >>> from kpp.forest.columns import column_shares
    >>> stump = Tree([1, -1, -1], [2, -1, -1], [-1] * 3, [0.5] * 3,
    ...              oblique={0: ([1, 2], [0.75, -0.25])})
    >>> [part.tolist() for part in column_shares(Forest.from_trees([stump], n_features=3))]
    [[1, 1, 2, 2], [1, 2, 1, 2], [0.75, 0.25, 0.75, 0.25]]
    """
    node = np.flatnonzero(forest.parent >= 0)
    above = forest.parent[node]
    if not len(forest.term_offsets):
        return node, forest.feature[above], np.ones(len(node))
    n_terms = np.diff(forest.term_offsets)[above]
    n_columns = np.maximum(n_terms, 1)
    begin = np.cumsum(n_columns) - n_columns
    column, share = np.repeat(forest.feature[above], n_columns), np.ones(n_columns.sum())
    # Where the terms of the split above stand in the pool; not read where it has none.
    place = np.repeat(forest.term_offsets[above] - begin, n_columns) + np.arange(len(column))
    oblique = np.repeat(n_terms > 0, n_columns)
    column[oblique] = forest.term_columns[place[oblique]]
    share[oblique] = forest.term_shares[place[oblique]]
    return np.repeat(node, n_columns), column, share


def terms_of(forest: Forest, v: int) -> tuple[tuple[int, float], ...]:
    """Columns and weights that an oblique split adds up, in order; none of any other node.

    Examples
    --------
    >>> from kpp.forest import Forest, Tree
    >>> from kpp.forest.columns import terms_of
    >>> stump = Tree([1, -1, -1], [2, -1, -1], [-1] * 3, [0.5] * 3,
    ...              oblique={0: ([1, 2], [0.75, -0.25])})
    >>> terms_of(Forest.from_trees([stump], n_features=3), 0)
    ((1, 0.75), (2, -0.25))
    """
    if not len(forest.term_offsets):
        return ()
    own = slice(forest.term_offsets[v], forest.term_offsets[v + 1])
    columns, weights = forest.term_columns[own], forest.term_weights[own]
    return tuple(zip(columns.tolist(), weights.tolist(), strict=True))


def categorical_columns(forest: Forest) -> BoolArray:
    """Which columns hold categories, shape (n_features,)."""
    is_categorical = np.zeros(forest.n_features, dtype=bool)
    is_categorical[list(forest.categories)] = True
    is_categorical[forest.feature[forest.split_kind == CATEGORICAL]] = True
    return is_categorical
