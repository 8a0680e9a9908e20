"""Node weights by name against their formulas, and everything that is refused."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from zoo import random_forest, random_node_weight, random_rows

from kpp import Forest
from kpp.forest import Tree, node_statistics
from kpp.geometry import PathMap, leaf_indicator_weights, path_weights
from kpp.geometry.lean import make_lean
from kpp.geometry.weights import DerivedWeights, weighting_statistics


def impurity_decrease(model):
    """Decrease of scikit-learn's own impurity, not multiplied by the share of rows."""
    decreases = []
    for member in model.estimators_:
        tree = member.tree_
        left, right, n = tree.children_left, tree.children_right, tree.weighted_n_node_samples
        decrease = np.zeros(tree.node_count)
        for v in np.flatnonzero(left >= 0):
            children = n[left[v]] * tree.impurity[left[v]] + n[right[v]] * tree.impurity[right[v]]
            decrease[v] = tree.impurity[v] - children / n[v]
        decreases.append(decrease)
    return decreases


def in_source_order(forest, values):
    """Values per node, as one list per tree in the source library's order."""
    trees = np.split(values, forest.tree_offsets[1:-1])
    orders = np.split(forest.source_leaf, forest.tree_offsets[1:-1])
    return [tree[np.argsort(order)] for tree, order in zip(trees, orders, strict=True)]


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(5, random_state=0),
        RandomForestClassifier(5, random_state=0),
        ExtraTreesRegressor(5, max_depth=4, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_gain_is_scikit_learns_impurity_decrease(model):
    X = random_rows(0, n_rows=200)
    y = X[:, 0] + X[:, 1] ** 2
    y = np.digitize(y, [0, 1]) if hasattr(model, "predict_proba") else y
    model.fit(X, y)
    forest = Forest.from_model(model)
    gain = in_source_order(forest, path_weights(forest, "gain").node)
    for mine, theirs in zip(gain, impurity_decrease(model), strict=True):
        np.testing.assert_allclose(mine, np.maximum(theirs, 0), atol=1e-14 * max(1, theirs.max()))


def test_gain_sums_to_scikit_learns_feature_importance():
    # An oracle of its own: importances are gains times shares of rows, summed by column.
    X, y = load_diabetes(return_X_y=True)
    model = ExtraTreesRegressor(4, max_depth=6, random_state=0).fit(X, y)
    forest = Forest.from_model(model)
    weighted = path_weights(forest, "gain").node * forest.statistics.count
    splits = ~forest.is_leaf
    importance = np.zeros((4, 10))
    np.add.at(importance, (forest.tree_of_node[splits], forest.feature[splits]), weighted[splits])
    importance /= importance.sum(axis=1, keepdims=True)
    for mine, tree in zip(importance, model.estimators_, strict=True):
        np.testing.assert_allclose(mine, tree.feature_importances_, atol=1e-12)


def test_entropy_is_the_decrease_of_an_entropy_tree():
    X = random_rows(0, n_rows=200)
    y = np.digitize(X[:, 0] + X[:, 1], [-1, 0, 1])
    model = ExtraTreesClassifier(4, criterion="entropy", random_state=0).fit(X, y)
    forest = Forest.from_model(model)
    gain = in_source_order(forest, path_weights(forest, "entropy").node)
    for mine, theirs in zip(gain, impurity_decrease(model), strict=True):
        # scikit-learn measures entropy in bits.
        np.testing.assert_allclose(mine, theirs * np.log(2), atol=1e-13)


def test_variance_is_the_impurity_at_splits():
    X = random_rows(0, n_rows=100)
    forest = Forest.from_model(RandomForestRegressor(3, random_state=0).fit(X, X[:, 0]))
    weights = path_weights(forest, "variance")
    assert np.array_equal(weights.node, np.where(forest.is_leaf, 0, forest.statistics.variance))


def test_uniform():
    forest = random_forest(0)
    weights = path_weights(forest, "uniform")
    assert np.array_equal(weights.node, ~forest.is_leaf)
    assert weights.forest_mass == (~forest.is_leaf).sum()


def test_array_and_callable():
    forest = random_forest(0)
    array = random_node_weight(0, forest)
    given = path_weights(forest, array)
    called = path_weights(forest, lambda f, statistics: array if f is forest else None)
    assert np.array_equal(given.node, array)
    assert np.array_equal(called.node, array)
    array[0] = 77.0
    assert given.node[0] != 77.0  # the caller's array is not shared


def test_a_callable_sees_the_statistics():
    X = random_rows(0)
    forest = Forest.from_model(RandomForestRegressor(3, random_state=0).fit(X, X[:, 0]))
    by_count = path_weights(forest, lambda f, s: np.where(f.is_leaf, 0, s.count))
    assert np.array_equal(by_count.node[~forest.is_leaf], forest.statistics.count[~forest.is_leaf])


@pytest.mark.parametrize("seed", range(5))
def test_edges_and_masses(seed):
    forest = random_forest(seed)
    a = random_node_weight(seed, forest)
    weights = path_weights(forest, a)
    for v in range(forest.n_nodes):
        above = a[forest.parent[v]] if forest.parent[v] >= 0 else 0.0
        assert weights.edge[v] == pytest.approx((above + a[v]) / 2, rel=1e-15)
    for t in range(forest.n_trees):
        nodes = slice(forest.tree_offsets[t], forest.tree_offsets[t + 1])
        assert weights.tree_mass[t] == pytest.approx(a[nodes].sum(), rel=1e-14)
    assert weights.forest_mass == pytest.approx(a.sum(), rel=1e-14)


@pytest.mark.parametrize("leaf_weight", [0.7, 2, np.float32(0.5), np.int64(3), "uniform", "array"])
def test_leaf_weights(leaf_weight):
    forest = random_forest(0)
    a = random_node_weight(0, forest)
    size = {"uniform": 1.0, "array": 0.3}.get(leaf_weight, leaf_weight)
    array = np.where(forest.is_leaf, size, 0.0)
    weights = path_weights(forest, a, array if leaf_weight == "array" else leaf_weight)
    assert np.array_equal(weights.node, a + array)
    assert weights.forest_mass == pytest.approx(a.sum() + array.sum(), rel=1e-14)
    for v in np.flatnonzero(forest.is_leaf):
        if forest.parent[v] >= 0:
            expected = a[forest.parent[v]] / 2 + size
            assert weights.edge[v] == pytest.approx(expected, rel=1e-15)


def test_leaf_variance():
    X = random_rows(0, n_rows=100)
    model = RandomForestRegressor(3, min_samples_leaf=10, random_state=0).fit(X, X[:, 0])
    forest = Forest.from_model(model)
    weights = path_weights(forest, "gain", "variance")
    leaves = forest.is_leaf
    assert np.array_equal(weights.node[leaves], forest.statistics.variance[leaves])


def test_leaf_indicators():
    forest = random_forest(0)
    weights = leaf_indicator_weights(forest)
    assert np.array_equal(weights.edge, forest.is_leaf)
    assert weights.forest_mass == forest.n_trees


def test_where_statistics_come_from():
    X = random_rows(0, n_rows=100)
    y = X[:, 0]
    own = Forest.from_model(RandomForestRegressor(3, random_state=0).fit(X, y))
    assert weighting_statistics(own, X, y, classification=False) is own.statistics
    for model in (
        RandomForestRegressor(3, criterion="absolute_error", random_state=0),
        GradientBoostingRegressor(n_estimators=3, random_state=0),
        HistGradientBoostingRegressor(max_iter=3),
        RandomTreesEmbedding(3, random_state=0),
    ):
        forest = Forest.from_model(model.fit(X, y))
        used = weighting_statistics(forest, X, y, classification=False)
        again = node_statistics(forest, X, y, classification=False)
        assert np.array_equal(used.variance, again.variance)
    entropy = RandomForestClassifier(3, criterion="entropy", random_state=0).fit(X, y > 0)
    forest = Forest.from_model(entropy)
    used = weighting_statistics(forest, X, y > 0, classification=True)
    assert np.array_equal(used.count[forest.roots], np.full(3, 100.0))


def test_nodes_without_rows_have_weight_zero():
    forest = random_forest(0, most_splits=40)
    X = random_rows(0, n_rows=6)
    statistics = node_statistics(forest, X, np.arange(6.0), classification=False)
    weights = path_weights(forest, "gain", statistics=statistics)
    empty = statistics.count == 0
    assert empty.any()
    assert not weights.node[empty].any()
    assert np.isfinite(weights.node).all()


@pytest.mark.parametrize(
    ("node_weight", "message"),
    [
        ("gini", "'gain', 'entropy', 'variance', 'uniform', an array"),
        ("gain", "node_weight='gain' needs statistics.*node_weight='uniform'"),
        ("entropy", "node_weight='entropy' needs statistics"),
        (None, "must have one entry per node"),
        (np.ones(3), "one entry per node"),
        (lambda f, s: "no", "must hold numbers"),
        (lambda f, s: -np.ones(f.n_nodes), "finite and nonnegative"),
        (lambda f, s: np.full(f.n_nodes, np.nan), "finite and nonnegative"),
        (lambda f, s: np.full(f.n_nodes, np.inf), "finite and nonnegative"),
        (lambda f, s: np.ones(f.n_nodes), "must be 0 at leaves.*leaf_weight"),
        (lambda f, s: np.zeros(f.n_nodes), "S_T = 0: every node weight is 0"),
        (lambda f, s: np.where(f.is_leaf, 0, 1e308), "S_T is infinite"),
    ],
)
def test_refused_node_weights(node_weight, message):
    with pytest.raises(ValueError, match=message):
        path_weights(random_forest(0), node_weight)


@pytest.mark.parametrize(
    ("leaf_weight", "message"),
    [
        ("gain", "'variance', 'uniform', an array"),
        ("variance", "needs statistics"),
        (-1.0, "finite and nonnegative"),
        (np.nan, "finite and nonnegative"),
        (lambda f, s: np.ones(f.n_nodes), "must be 0 at splits.*node_weight"),
    ],
)
def test_refused_leaf_weights(leaf_weight, message):
    with pytest.raises(ValueError, match=message):
        path_weights(random_forest(0), "uniform", leaf_weight)


def test_entropy_of_a_regression_forest_is_refused():
    X = random_rows(0)
    forest = Forest.from_model(RandomForestRegressor(3, random_state=0).fit(X, X[:, 0]))
    with pytest.raises(ValueError, match="target of these trees is numerical"):
        path_weights(forest, "entropy")


def test_a_forest_of_roots_explains_itself():
    root = Tree(left=[-1], right=[-1], feature=[-1], threshold=[0.0])
    forest = Forest.from_trees([root, root], n_features=1)
    with pytest.raises(ValueError, match="S_T = 0: none of the 2 trees has a split"):
        path_weights(forest, "uniform")


def test_leaves_right_below_a_root_by_hand():
    # Node 0 is the first root. omega(leaf) = a(leaf) + a(root) / 2, and a root has half its own
    # weight; a tree of one leaf is a root too.
    stump = Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0, 0, 0], threshold=[0, 0, 0])
    leaf = Tree(left=[-1], right=[-1], feature=[0], threshold=[0.0])
    for trees in ([stump, leaf, stump], [leaf, stump, stump]):
        forest = Forest.from_trees(trees, n_features=1)
        weights = path_weights(forest, "uniform", leaf_weight=2.0)
        parts = {3: [0.5, 2.5, 2.5], 1: [1.0]}
        expected = np.concatenate([parts[len(tree.left)] for tree in trees])
        np.testing.assert_array_equal(weights.edge, expected)
        assert weights.forest_mass == 5 + 5 + 2
        assert weights.tree_mass.tolist() == [{3: 5.0, 1: 2.0}[len(tree.left)] for tree in trees]


def test_without_any_mass_the_divisor_is_one():
    forest = random_forest(0)
    weights = path_weights(forest, np.zeros(forest.n_nodes), allow_no_mass=True)
    assert weights.forest_mass == 1
    assert not weights.edge.any()


@pytest.mark.parametrize("implied", [True, False])
def test_a_lean_map_has_the_same_weights(implied):
    # A name stands for the weights only where it gives them, bit for bit.
    X, y = load_diabetes(return_X_y=True)
    forest = Forest.from_model(RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, y))
    weights = path_weights(forest, "gain" if implied else random_node_weight(0, forest))
    phi = PathMap(forest, weights).on(X)
    node, edge, gram = weights.node.copy(), weights.edge.copy(), phi.gram()
    make_lean(phi, "gain")
    assert isinstance(phi.weights, DerivedWeights) == implied
    assert np.array_equal(phi.weights.node, node)
    assert np.array_equal(phi.weights.edge, edge)
    assert np.array_equal(phi.gram(), gram)
