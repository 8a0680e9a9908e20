"""Ladders: main effects as trees, one for each column, grown without a target."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from kpp._checks import check_sample_weight
from kpp._typing import FloatArray, IntArray
from kpp.forest.arrays import Forest
from kpp.forest.layout import Tree

MOST_LEAVES = 64


class Ladders(BaseEstimator):
    r"""One balanced tree for each column, split at quantiles of its values.

    A tree of one column is a step function of it, and a linear layer on the nodes of all of them
    is a sum of main effects, :math:`\sum_j g_j(x_j)`: coarse steps near the root, which many rows
    share, and fine ones below. No label and no chance has a part in it.

    Parameters
    ----------
    max_leaves : int, default=64
        Most leaves of a tree, at least 2. A column of fewer different values has one for each,
        and a constant column has no tree.

    Attributes
    ----------
    forest_ : Forest
        The trees, in the order of their columns. Where no column varies, one tree without a split.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    A threshold lies midway between two neighbouring values: the first ones at which the rows
    below it weigh at least a share of :math:`1/L, 2/L, \dots` of all. A column with missing
    values first parts them from the numbers, by a split of their own. In any other column a value
    that misses later goes to the larger side of every split.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.ladders import Ladders
    >>> X = np.column_stack([np.arange(100.0), np.arange(100) % 3, np.ones(100)])
    >>> Ladders(max_leaves=8).fit(X).forest_
    Forest(n_trees=2, n_nodes=20, n_features=3, source='Ladders')
    """

    def __init__(self, max_leaves: int = MOST_LEAVES) -> None:
        self.max_leaves = max_leaves

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Ladders:
        """Find the quantiles.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows of numbers; values may be missing.
        y : ignored
            scikit-learn's convention.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows. A row of weight 0 counts as if it were not there.

        Returns
        -------
        self : Ladders
        """
        if not isinstance(self.max_leaves, int | np.integer) or self.max_leaves < 2:
            raise ValueError(f"max_leaves must be an integer of at least 2; got {self.max_leaves}.")
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
        weight = check_sample_weight(sample_weight, len(X))
        trees = []
        for j, column in enumerate(X.T):
            missing = np.isnan(column)
            numbers, own = column[~missing], weight[~missing]
            thresholds = quantile_thresholds(numbers, own, self.max_leaves)
            with_missing = bool(weight[missing].any() and own.any())
            if len(thresholds) or with_missing:
                trees.append(_ladder(j, thresholds, numbers, own, with_missing=with_missing))
        names = getattr(self, "feature_names_in_", None)
        self.forest_: Forest = Forest.from_trees(
            trees or [Tree(left=[-1], right=[-1], feature=[0], threshold=[0.0])],
            n_features=X.shape[1],
            feature_names=None if names is None else tuple(str(name) for name in names),
            source="Ladders",
        )
        return self

    def apply(self, X: Any) -> IntArray:
        """Find the leaf of each row in each tree.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        leaf_ids : int32 array of shape (n_rows, n_trees)
            Node ids of `forest_`.
        """
        check_is_fitted(self)
        return self.forest_.apply(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def quantile_thresholds(values: FloatArray, weight: FloatArray, max_leaves: int) -> FloatArray:
    """Thresholds midway between different values, near equal shares of the weight.

    Parameters
    ----------
    values : array of shape (n_rows,)
        Numbers, none missing.
    weight : array of shape (n_rows,)
        Their weights; values without weight are not looked at.
    max_leaves : int
        One more than the most thresholds.

    Returns
    -------
    thresholds : array of shape (n_thresholds,)
        Rising; between any two neighbours lies a value.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.ladders import quantile_thresholds
    >>> quantile_thresholds(np.array([3.0, 0, 1, 1, 2]), np.ones(5), 3)
    array([1.5, 2.5])
    """
    distinct, place = np.unique(values[weight > 0], return_inverse=True)
    if len(distinct) < 2:
        return np.empty(0)
    below = np.cumsum(np.bincount(place, weight[weight > 0]))
    # Cut k lies above the first value up to which a share of k / L of the weight has come.
    shares = np.arange(1, max_leaves) / max_leaves * below[-1]
    cuts = np.unique(np.minimum(np.searchsorted(below, shares), len(distinct) - 2))
    if len(distinct) <= max_leaves:
        cuts = np.arange(len(distinct) - 1)
    low, high = distinct[cuts], distinct[cuts + 1]
    middle = low / 2 + high / 2  # halves first: the sum of two large numbers may overflow
    # Between neighbouring floats there is no middle, and rounding must not end on the upper one.
    return np.where((middle < low) | (middle >= high), low, middle)


def _ladder(
    column: int,
    thresholds: FloatArray,
    values: FloatArray,
    weight: FloatArray,
    *,
    with_missing: bool,
) -> Tree:
    """A balanced tree over rising thresholds; with its root for missing values where asked."""
    left, right, threshold, missing_left = [], [], [], []

    def add(at: float, goes_left: bool) -> int:
        left.append(-1)
        right.append(-1)
        threshold.append(at)
        missing_left.append(goes_left)
        return len(left) - 1

    # Rows at or below each threshold, between 0 and all.
    order = np.argsort(values)
    total = np.concatenate([[0.0], np.cumsum(weight[order])])
    up_to = total[np.searchsorted(values[order], thresholds, side="right")]
    ends = np.concatenate([[0.0], up_to, total[-1:]])

    def grow(first: int, last: int) -> int:
        """The subtree of the thresholds from `first` up to `last`, without the latter."""
        if first == last:
            return add(0.0, False)
        middle = (first + last) // 2
        below = ends[middle + 1] - ends[first]
        own = add(float(thresholds[middle]), bool(below >= ends[last + 1] - ends[middle + 1]))
        left[own] = grow(first, middle)
        right[own] = grow(middle + 1, last)
        return own

    if with_missing:
        # Every number is at most infinity: only what is missing goes right.
        root = add(np.inf, False)
        left[root] = grow(0, len(thresholds))
        right[root] = add(0.0, False)
    else:
        grow(0, len(thresholds))
    return Tree(
        left=left,
        right=right,
        feature=[column] * len(left),
        threshold=threshold,
        missing_left=missing_left,
    )
