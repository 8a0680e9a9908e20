"""Concentration bounds and the half-forest discrepancy."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import train_test_split

from kpp import Forest, KPPEmbedding, half_forest_discrepancy, kernel
from kpp.geometry import BlockMap, distance_concentration, entrywise_concentration


def dense_discrepancy(model, X, n_trees):
    """Two Grams, written out tree by tree, and the norm of their difference."""
    forest, weights = model.forest_, model.map_.weights
    csr = model.map_.on(X).to_csr()
    grams = []
    for t in range(n_trees):
        nodes = slice(forest.tree_offsets[t], forest.tree_offsets[t + 1])
        phi = csr[:, nodes].toarray() * np.sqrt(weights.forest_mass / weights.tree_mass[t])
        grams.append(phi @ phi.T)
    difference = np.mean(grams[0::2], axis=0) - np.mean(grams[1::2], axis=0)
    return np.linalg.norm(difference, 2) / np.sqrt(2)


@pytest.fixture(scope="module")
def model():
    X, y = load_breast_cancer(return_X_y=True)
    return KPPEmbedding(n_estimators=13, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def rows():
    return load_breast_cancer().data[:120]


@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 5, 120])
def test_discrepancy_against_dense_grams(model, rows, n_rows):
    X = rows[:n_rows]
    assert half_forest_discrepancy(model, X) == pytest.approx(
        dense_discrepancy(model, X, 13), rel=1e-10
    )


def test_curve(model, rows):
    curve = half_forest_discrepancy(model, rows, curve=True)
    assert curve.n_trees.tolist() == [2, 4, 8, 13]
    expected = [dense_discrepancy(model, rows, k) for k in curve.n_trees]
    np.testing.assert_allclose(curve.values, expected, rtol=1e-10)
    assert curve.values[-1] == half_forest_discrepancy(model, rows)


def test_curve_of_a_power_of_two_ends_once(rows):
    X, y = load_breast_cancer(return_X_y=True)
    model = KPPEmbedding(n_estimators=8, random_state=0).fit(X, y)
    assert half_forest_discrepancy(model, rows, curve=True).n_trees.tolist() == [2, 4, 8]


def test_equal_halves_have_no_discrepancy(rows):
    X, y = load_breast_cancer(return_X_y=True)
    forest = ExtraTreesClassifier(2, random_state=0).fit(X, y)
    forest.estimators_[1] = forest.estimators_[0]
    model = KPPEmbedding(Forest.from_model(forest)).fit(X, y)
    assert half_forest_discrepancy(model, rows) == 0.0


def test_the_papers_figures_on_breast_cancer():
    # Table of dashboard observables: Delta_K = 0.149 +- 0.043 and Tr(G_T)/n = 0.0542 +- 0.0033
    # on the test inputs, over the seeds 0 to 4.
    X, y = load_breast_cancer(return_X_y=True)
    discrepancies, traces = [], []
    for seed in range(5):
        X_train, X_test, y_train, _ = train_test_split(
            X, y, test_size=0.2, random_state=seed, stratify=y
        )
        forest = ExtraTreesClassifier(200, random_state=seed)
        model = KPPEmbedding(forest, n_jobs=2).fit(X_train, y_train)
        discrepancies.append(half_forest_discrepancy(model, X_test))
        traces.append(kernel(model, X_test).trace() / len(X_test))
    assert round(np.mean(discrepancies), 3) == 0.149
    assert round(np.std(discrepancies), 3) == 0.043
    assert round(np.mean(traces), 4) == 0.0542
    assert round(np.std(traces), 4) == 0.0033


def test_discrepancy_is_refused(model, rows):
    X, y = load_breast_cancer(return_X_y=True)
    one = KPPEmbedding(n_estimators=1, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="at least two trees"):
        half_forest_discrepancy(one, rows)
    with pytest.raises(ValueError, match="no rows"):
        half_forest_discrepancy(model, rows[:0])
    with pytest.raises(TypeError, match="that of one forest"):
        half_forest_discrepancy(BlockMap([("a", model.map_)]), rows)


@pytest.mark.parametrize("n_rows", [1, 2, 50])
@pytest.mark.parametrize("delta", [0.01, 0.5])
def test_formulas(n_rows, delta):
    K = 300
    eta = np.sqrt(2 / K * np.log(2 * n_rows**2 / delta))
    assert entrywise_concentration(K, n_rows, delta, constant="paper") == pytest.approx(eta)
    assert distance_concentration(K, n_rows, delta, constant="paper") == pytest.approx(4 * eta)
    assert entrywise_concentration(K, n_rows, delta) < eta / 1.99
    assert distance_concentration(K, n_rows, delta) < eta


def test_the_sharp_bounds_are_hoeffdings(rows):
    # Solve 2 N exp(-2 K eps^2) = delta for N entries in [0, 1].
    K, n, delta = 500, 40, 0.1
    for bound, n_entries in (
        (entrywise_concentration(K, n, delta), n * (n + 1) / 2),
        (distance_concentration(K, n, delta), n * (n - 1) / 2),
    ):
        assert 2 * n_entries * np.exp(-2 * K * bound**2) == pytest.approx(delta, rel=1e-12)


def test_tree_grams_and_distances_lie_in_the_unit_interval(model, rows):
    # What the sharp constants rest on: one tree at a time.
    for t in range(3):
        X, y = load_breast_cancer(return_X_y=True)
        one = KPPEmbedding(n_estimators=1, normalize="tree", random_state=t).fit(X, y)
        phi = one.map_.on(rows)
        assert phi.gram().min() >= 0
        assert phi.gram().max() <= 1
        assert phi.distances().max() <= 1


@pytest.mark.parametrize("bound", [entrywise_concentration, distance_concentration])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 5), "at least one tree"),
        ((5, 0), "at least one tree and one row"),
        ((5, 5, 0.0), "delta is a probability"),
        ((5, 5, 1.0), "delta is a probability"),
    ],
)
def test_bad_arguments(bound, arguments, message):
    with pytest.raises(ValueError, match=message):
        bound(*arguments)
    with pytest.raises(ValueError, match="constant must be one of"):
        bound(5, 5, constant="best")
