"""Concentration bounds and the half-forest discrepancy."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomTreesEmbedding,
)
from sklearn.model_selection import train_test_split

from kpp import Forest, KPPClassifier, KPPEmbedding, half_forest_discrepancy, kernel
from kpp.geometry import (
    BlockMap,
    PathMap,
    PathWeights,
    distance_concentration,
    entrywise_concentration,
    operator_concentration,
)
from kpp.geometry.concentration import bernstein_terms


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


def tree_grams(model, X):
    """H_t of every tree, written out."""
    forest, weights = model.forest_, model.map_.weights
    csr = model.map_.on(X).to_csr()
    grams = []
    for t in range(forest.n_trees):
        nodes = slice(forest.tree_offsets[t], forest.tree_offsets[t + 1])
        phi = csr[:, nodes].toarray() * np.sqrt(weights.forest_mass / weights.tree_mass[t])
        grams.append(phi @ phi.T)
    return np.array(grams)


@pytest.mark.parametrize("n_rows", [1, 3, 40])
def test_operator_concentration_against_dense_grams(model, rows, n_rows):
    X = rows[:n_rows]
    grams = tree_grams(model, X)
    found = operator_concentration(model, X, delta=0.1)
    assert found.norm == pytest.approx(np.linalg.norm(grams.mean(axis=0), 2))
    halves = [(grams[2 * j] - grams[2 * j + 1]) / np.sqrt(2) for j in range(6)]  # 13 trees
    variance = np.linalg.norm(np.mean([d @ d for d in halves], axis=0), 2)
    assert found.variance == pytest.approx(variance)
    assert (found.n_trees, found.n_rows) == (13, n_rows)
    assert (found.bound, found.leading) == bernstein_terms(found.variance, 13, n_rows, 0.1)


@pytest.mark.parametrize(("n", "K"), [(1, 50), (20, 5000), (20, 4)])
def test_bernstein_terms_solve_their_inequalities(n, K):
    # v is the largest norm of V that the first inequality allows, and the bound the deviation at
    # which the second has probability delta / 2.
    measured, delta = 0.01, 0.05
    bound, leading = bernstein_terms(measured, K, n, delta)
    R = n**2 / 2
    m = K // 2

    v = np.linspace(measured, n**2 / 4, 400_001)[1:]
    s = v - measured
    v = v[n * np.exp(-(s**2) / 2 / (R * v / m + R * s / (3 * m))) >= delta / 2].max()
    tail = 2 * n * np.exp(-(bound**2) / 2 / (v / K + n * bound / (3 * K)))
    assert tail == pytest.approx(delta / 2, rel=2e-3)
    assert leading == pytest.approx(np.sqrt(2 * measured * np.log(4 * n / delta) / K))


def test_the_operator_bound_holds_for_draws_from_known_trees(model):
    # The law of a tree is known: one of 13, drawn with replacement. The limit is their mean.
    X = load_breast_cancer().data[::190]
    grams = tree_grams(model, X)
    limit = grams.mean(axis=0)
    rng = np.random.default_rng(0)
    errors, bounds = [], []
    for _ in range(60):
        drawn = rng.integers(0, 13, 800)
        sample = grams[drawn]
        errors.append(np.linalg.norm(sample.mean(axis=0) - limit, 2))
        d = (sample[0::2] - sample[1::2]) / np.sqrt(2)
        variance = np.linalg.norm(np.mean(d @ d, axis=0), 2)
        bounds.append(bernstein_terms(variance, 800, len(X), 0.3)[0])
    assert np.mean(np.array(errors) > bounds) <= 0.3
    assert max(bounds) < np.linalg.norm(limit, 2)  # and says something
    # The same through the library, for one draw.
    forest = Forest.concatenate([model.forest_.take_trees([t]) for t in drawn])
    weights = model.map_.weights
    whole = PathMap(
        forest,
        PathWeights(
            node=np.concatenate([weights.node[model.forest_.nodes_of([t])] for t in drawn]),
            edge=np.concatenate([weights.edge[model.forest_.nodes_of([t])] for t in drawn]),
            tree_mass=weights.tree_mass[drawn],
            forest_mass=float(weights.tree_mass[drawn].sum()),
        ),
    )
    assert operator_concentration(whole, X, delta=0.3).bound == pytest.approx(bounds[-1])


def test_refusals_of_the_operator_bound(model, rows):
    with pytest.raises(TypeError, match="one forest"):
        operator_concentration(BlockMap([("a", model.map_), ("b", model.map_)]), rows)
    with pytest.raises(ValueError, match="two trees"):
        operator_concentration(model.map_.trees([0]), rows)
    with pytest.raises(ValueError, match="no rows"):
        operator_concentration(model, rows[:0])
    with pytest.raises(ValueError, match="probability"):
        operator_concentration(model, rows, delta=1.0)


@pytest.mark.parametrize(
    "forest",
    [
        "extra-trees",
        RandomForestClassifier(4, random_state=0),
        BaggingClassifier(n_estimators=4, random_state=0),
    ],
)
@pytest.mark.parametrize("kind", [KPPEmbedding, KPPClassifier])
def test_the_operator_bound_knows_independent_trees(forest, kind):
    X, y = load_breast_cancer(return_X_y=True)
    model = kind(forest, n_estimators=4, random_state=0).fit(X, y)
    assert operator_concentration(model, X[:5]).independent_trees is True
    assert operator_concentration(model.map_, X[:5]).independent_trees is True


@pytest.mark.parametrize(
    "forest", ["boosted", GradientBoostingClassifier(n_estimators=4, random_state=0)]
)
@pytest.mark.parametrize("kind", [KPPEmbedding, KPPClassifier])
def test_the_operator_bound_refuses_boosted_trees(forest, kind):
    X, y = load_breast_cancer(return_X_y=True)
    model = kind(forest, n_estimators=4, random_state=0).fit(X, y)
    for refused in (model, model.map_, model.set_params(forest="extra-trees")):
        with pytest.raises(ValueError, match="independent"):
            operator_concentration(refused, X[:5])
    assert half_forest_discrepancy(model, X[:5]) > 0


def test_the_operator_bound_says_where_independence_is_not_known(model, rows):
    # The same trees, of which nothing is recorded.
    bare = replace(model.forest_, bare=None)
    unknown = operator_concentration(PathMap(bare, model.map_.weights), rows[:5])
    known = operator_concentration(model.map_, rows[:5])
    assert (unknown.independent_trees, known.independent_trees) == (None, True)
    assert unknown.bound == known.bound


def test_only_the_model_knows_of_trees_without_a_target():
    X, y = load_breast_cancer(return_X_y=True)
    spec = RandomTreesEmbedding(4, random_state=0)
    model = KPPClassifier(spec, alpha=0.1).fit(X, y)
    assert operator_concentration(model, X[:5]).independent_trees is True
    assert operator_concentration(model.map_, X[:5]).independent_trees is None


def test_the_operator_bound_is_the_larger_root():
    # x^2 - 2 s x - 2 v t / K = 0 with s = n t / (3 K) has one root above 2 s, and one below 0.
    for n, K in ((5, 4), (20, 1000)):
        bound, leading = bernstein_terms(0.5, K, n, 0.1)
        assert bound > 2 * n * np.log(4 * n / 0.1) / (3 * K)
        assert bound > leading > 0


def test_a_bound_that_is_the_norm_itself_says_nothing():
    # The norm of a difference from what nobody knows may be as large as the norm.
    model = KPPEmbedding(n_estimators=4, random_state=0).fit(*load_breast_cancer(return_X_y=True))
    found = operator_concentration(model, load_breast_cancer().data[:50])
    assert replace(found, bound=found.norm).is_trivial
    assert not replace(found, bound=np.nextafter(found.norm, 0)).is_trivial
