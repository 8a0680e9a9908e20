"""Node statistics against a mask per node, and against what scikit-learn recorded."""

import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier
from zoo import obvious_path, random_forest, random_rows

from kpp import Forest
from kpp.forest import node_statistics


def members(forest, X):
    """Which rows pass through each node, bool array (n_nodes, n_rows)."""
    inside = np.zeros((forest.n_nodes, len(X)), dtype=bool)
    for i, x in enumerate(X):
        for t in range(forest.n_trees):
            inside[obvious_path(forest, x, t), i] = True
    return inside


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_against_a_mask_per_node(n_outputs, weighted):
    forest, X = random_forest(1), random_rows(1)
    rng = np.random.default_rng(0)
    y = 1000.0 + rng.normal(size=(len(X), n_outputs))
    weight = rng.integers(0, 4, len(X)).astype(float) if weighted else None
    statistics = node_statistics(forest, X, y, weight, classification=False)
    w = np.ones(len(X)) if weight is None else weight
    for v, inside in enumerate(members(forest, X)):
        assert statistics.count[v] == w[inside].sum()
        if w[inside].sum() == 0:
            assert not statistics.mean[v].any()
            assert statistics.variance[v] == 0
            continue
        mean = np.average(y[inside], axis=0, weights=w[inside])
        variance = np.average((y[inside] - mean) ** 2, axis=0, weights=w[inside]).mean()
        np.testing.assert_allclose(statistics.mean[v], mean, rtol=1e-14)
        # The spread of y, not its level, sets the error: y is centred before it is squared.
        np.testing.assert_allclose(statistics.variance[v], variance, atol=1e-13)


@pytest.mark.parametrize("labels", [["a", "b", "c"], [3, 1, 2], [True, False]])
def test_classes_against_a_mask_per_node(labels):
    forest, X = random_forest(2), random_rows(2)
    rng = np.random.default_rng(0)
    y, weight = rng.choice(labels, len(X)), rng.random(len(X))
    statistics = node_statistics(forest, X, y, weight, classification=True)
    assert np.array_equal(statistics.classes, np.unique(y))
    for v, inside in enumerate(members(forest, X)):
        if not inside.any():
            assert not statistics.class_share[v].any()
            assert statistics.impurity[v] == statistics.entropy[v] == 0
            continue
        share = np.array([weight[inside & (y == c)].sum() for c in np.unique(y)])
        share /= weight[inside].sum()
        np.testing.assert_allclose(statistics.class_share[v], share, atol=1e-14)
        np.testing.assert_allclose(statistics.impurity[v], 1 - (share**2).sum(), atol=1e-14)
        positive = share[share > 0]
        entropy = -(positive * np.log(positive)).sum()
        np.testing.assert_allclose(statistics.entropy[v], entropy, atol=1e-14)


def test_rows_of_weight_zero_count_as_removed():
    forest, X = random_forest(3), random_rows(3)
    y, weight = X[:, 0], (np.arange(len(X)) % 3 > 0).astype(float)
    kept = weight > 0
    a = node_statistics(forest, X, y, weight, classification=False)
    b = node_statistics(forest, X[kept], y[kept], classification=False)
    assert np.array_equal(a.count, b.count)
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-14)


@pytest.mark.parametrize("classification", [False, True])
def test_the_forests_own_statistics_are_those_of_its_rows(classification):
    # Without a bootstrap every tree saw every row: recorded and estimated must agree.
    X = random_rows(4, n_rows=200)
    y = np.digitize(X[:, 0], [-1, 0, 1]) if classification else X[:, 0] * 10 + 500
    model = ExtraTreesClassifier if classification else ExtraTreesRegressor
    forest = Forest.from_model(model(5, random_state=0).fit(X, y))
    own = forest.statistics
    again = node_statistics(forest, X, y, classification=classification)
    assert own.grown_on_impurity
    assert np.array_equal(own.count, again.count)
    np.testing.assert_allclose(own.impurity, again.impurity, atol=1e-8 * again.impurity.max())
    if classification:
        np.testing.assert_allclose(own.class_share, again.class_share, atol=1e-14)
        assert np.array_equal(own.classes, again.classes)
    else:
        np.testing.assert_allclose(own.mean, again.mean, rtol=1e-13)


def test_bootstrapped_statistics_are_in_bag():
    X = random_rows(5, n_rows=100)
    model = RandomForestRegressor(3, random_state=0).fit(X, X[:, 0])
    forest = Forest.from_model(model)
    tree = model.estimators_[1].tree_
    nodes = slice(*forest.tree_offsets[1:3])
    order = forest.source_leaf[nodes]
    assert np.array_equal(forest.statistics.count[nodes], tree.weighted_n_node_samples[order])
    assert np.array_equal(forest.statistics.variance[nodes], tree.impurity[order])
    assert np.array_equal(forest.statistics.mean[nodes, 0], tree.value[order, 0, 0])


def test_several_outputs_are_kept():
    X = random_rows(6)
    forest = Forest.from_model(RandomForestRegressor(3, random_state=0).fit(X, X[:, :2]))
    assert forest.statistics.mean.shape == (forest.n_nodes, 2)


def test_bagged_trees_that_missed_a_class():
    X = random_rows(7, n_rows=60)
    y = np.where(np.arange(60) == 3, "a rare one", np.where(X[:, 0] > 0, "high", "low"))
    model = BaggingClassifier(DecisionTreeClassifier(), 8, random_state=0).fit(X, y)
    forest = Forest.from_model(model)
    assert forest.statistics.classes.tolist() == ["a rare one", "high", "low"]
    np.testing.assert_allclose(forest.statistics.class_share.sum(axis=1), 1.0, rtol=1e-14)
    shares = forest.statistics.class_share[forest.apply(X)].mean(axis=1)
    np.testing.assert_allclose(shares, model.predict_proba(X), atol=1e-14)


def test_values_clipped_by_monotonic_constraints_are_no_statistics():
    X = random_rows(8, n_rows=200)
    y = (X[:, 0] + 2 * np.random.default_rng(0).normal(size=200) > 0).astype(int)
    model = ExtraTreesClassifier(3, monotonic_cst=[1, 0, 0], random_state=0).fit(X, y)
    assert Forest.from_model(model).statistics is None


def test_no_rows():
    with pytest.raises(ValueError, match="no rows"):
        node_statistics(random_forest(0), np.empty((0, 3)), [], classification=True)


@pytest.mark.parametrize(
    ("model", "recorded"),
    [
        (BaggingRegressor(DecisionTreeClassifier(), 2), False),
        (RandomForestRegressor(2, criterion="absolute_error"), False),
        (RandomForestRegressor(2, criterion="squared_error"), True),
        (GradientBoostingRegressor(n_estimators=2), False),
        (IsolationForest(n_estimators=2), False),
    ],
)
def test_only_statistics_of_the_target_are_kept(model, recorded):
    X = random_rows(8)
    forest = Forest.from_model(model.fit(X, np.round(X[:, 0])))
    assert (forest.statistics is not None) == recorded


def test_an_entropy_forest_records_shares_but_was_not_grown_on_gini():
    X = random_rows(8)
    y = X[:, 0] > 0
    model = RandomForestClassifier(2, criterion="entropy", random_state=0).fit(X, y)
    statistics = Forest.from_model(model).statistics
    assert statistics.class_share is not None
    assert not statistics.grown_on_impurity


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(3)}, None),
        ({"y": np.full(40, np.nan)}, None),
        ({"sample_weight": np.zeros(40)}, "Every sample_weight is zero"),
        ({"sample_weight": -np.ones(40)}, "must not be negative"),
        ({"sample_weight": np.ones(3)}, r"shape \(40,\); got \(3,\)"),
        ({"sample_weight": np.full(40, np.inf)}, None),
        ({"y": np.zeros((40, 2), int), "classification": True}, "must be one column"),
    ],
)
def test_bad_input(change, message):
    arguments = {"y": np.arange(40.0), "sample_weight": None, "classification": False} | change
    with pytest.raises(ValueError, match=message):
        node_statistics(random_forest(0), random_rows(0), **arguments)


def test_entropy_of_numbers_is_refused():
    statistics = node_statistics(
        random_forest(0), random_rows(0), np.arange(40.0), classification=False
    )
    with pytest.raises(ValueError, match="target of these trees is numerical"):
        _ = statistics.entropy
