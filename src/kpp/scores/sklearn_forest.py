"""A numerical float32 forest as scikit-learn's own ``RandomForestRegressor``."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

# The only way to a tree that was not grown. Its state has been the same since 1.3.
from sklearn.tree._tree import NODE_DTYPE, Tree

from kpp._typing import FloatArray, OffsetArray
from kpp.forest.arrays import Forest
from kpp.forest.layout import CATEGORICAL, OBLIQUE

NODE_FIELDS = {
    "left_child",
    "right_child",
    "feature",
    "threshold",
    "impurity",
    "n_node_samples",
    "weighted_n_node_samples",
    "missing_go_to_left",
}
# What a leaf without rows weighs. A power of two: sums of such weights are exact.
EMPTY_LEAF = 2.0**-10


def write_forest(
    forest: Forest, node_value: FloatArray, intercept: float, node_rows: OffsetArray
) -> RandomForestRegressor:
    """Build the regressor; see `AdditiveForest.to_sklearn`.

    Parameters
    ----------
    forest : Forest
        The trees.
    node_value : array of shape (n_nodes,)
        Path sums P(v).
    intercept : float
        b.
    node_rows : int array of shape (n_nodes,)
        Number of training rows in each node.

    Returns
    -------
    regressor : RandomForestRegressor
    """
    _check_representable(forest)
    weight = forest.leaf_sums(np.maximum(node_rows, EMPTY_LEAF))
    value = forest.n_trees * node_value
    nodes = np.zeros(forest.n_nodes, dtype=NODE_DTYPE)
    # -2 is what scikit-learn itself writes at leaves, for feature and threshold.
    nodes["feature"] = np.where(forest.is_leaf, -2, forest.feature)
    nodes["threshold"] = np.where(forest.is_leaf, -2.0, forest.threshold)
    nodes["impurity"] = _variance(forest, value, weight)
    nodes["n_node_samples"] = node_rows
    nodes["weighted_n_node_samples"] = weight
    nodes["missing_go_to_left"] = forest.missing_left & ~forest.is_leaf
    # Children are numbered within each tree there.
    start = forest.tree_offsets[:-1][forest.tree_of_node]
    nodes["left_child"] = np.where(forest.is_leaf, -1, forest.left - start)
    nodes["right_child"] = np.where(forest.is_leaf, -1, forest.right - start)
    # The mean over the trees of K P_t(v) + b is the sum of P_t(v), plus b.
    value = value + intercept
    depth = forest.path_sums(np.ones(forest.n_nodes)) - 1
    n_features = forest.n_features
    members = []
    for first, last in zip(forest.tree_offsets[:-1], forest.tree_offsets[1:], strict=True):
        tree = Tree(n_features, np.ones(1, dtype=np.intp), 1)
        tree.__setstate__(
            {
                "max_depth": int(depth[first:last].max()),
                "node_count": int(last - first),
                "nodes": nodes[first:last].copy(),
                "values": value[first:last].reshape(-1, 1, 1).copy(),
            }
        )
        member = DecisionTreeRegressor(max_features=1.0)
        member.n_features_in_ = member.max_features_ = n_features
        member.n_outputs_ = 1
        member.tree_ = tree
        members.append(member)
    regressor = RandomForestRegressor(n_estimators=forest.n_trees, bootstrap=False)
    regressor.n_features_in_ = n_features
    if forest.feature_names is not None:
        regressor.feature_names_in_ = np.array(forest.feature_names, dtype=object)
    regressor.n_outputs_ = 1
    regressor.estimator_ = DecisionTreeRegressor()
    regressor.estimators_ = members
    regressor._n_samples = int(node_rows[0])
    regressor._n_samples_bootstrap = None
    regressor._sample_weight = None
    return regressor


def _check_representable(forest: Forest) -> None:
    instead = "Use collapse(model).scores(X), which predicts the same for any forest."
    if (forest.split_kind == CATEGORICAL).any():
        columns = sorted(set(forest.feature[forest.split_kind == CATEGORICAL].tolist()))
        raise TypeError(
            "A RandomForestRegressor has no categorical splits, and this forest has some, on "
            f"column(s) {columns[:5]}. {instead}"
        )
    if (n_oblique := int((forest.split_kind == OBLIQUE).sum())) > 0:
        raise TypeError(
            "A RandomForestRegressor splits one column at a time, and this forest has "
            f"{n_oblique} oblique splits, which compare sums of columns. {instead}"
        )
    if forest.dtype != np.float32:
        raise TypeError(
            "A RandomForestRegressor casts X to float32, and this forest compares in "
            f"{forest.dtype}: some rows would go elsewhere. {instead}"
        )
    if set(NODE_DTYPE.names) != NODE_FIELDS:
        import sklearn

        raise RuntimeError(
            f"The trees of scikit-learn {sklearn.__version__} have other fields than those known "
            f"here: {sorted(NODE_DTYPE.names)}. {instead}"
        )


def _variance(forest: Forest, value: FloatArray, weight: FloatArray) -> FloatArray:
    """Variance of the leaf values below each node, weighted."""
    sums = []
    # Around the root's mean, so that the squares lose nothing to a common offset.
    shift = np.zeros(forest.n_nodes)
    for power in (1, 2):
        sums.append(forest.leaf_sums(weight * (value - shift) ** power) / weight)
        # After the first power: the mean of the whole tree, which the second power is taken around.
        shift = np.repeat(sums[0][forest.roots], np.diff(forest.tree_offsets))
    mean, square = sums[0] - shift, sums[1]
    variance: FloatArray = np.where(forest.is_leaf, 0.0, np.maximum(square - mean**2, 0.0))
    return variance
