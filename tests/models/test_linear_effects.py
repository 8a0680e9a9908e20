"""``main_effects="linear"``: clipped columns beside any forest, jointly or in a blend."""

import warnings

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from kpp import KPPClassifier, KPPRegressor
from kpp.geometry import LinearMap, LinearTerms

pytestmark = pytest.mark.filterwarnings(
    "ignore:The best alpha lies on:sklearn.exceptions.ConvergenceWarning"
)
TASKS = ["numbers", "outputs", "two", "many"]


def made_data(task, n_rows=120, seed=0):
    common = {"n_samples": n_rows, "n_features": 5, "random_state": seed}
    if task in ("numbers", "outputs"):
        n_targets = 1 if task == "numbers" else 2
        X, y = make_regression(n_targets=n_targets, noise=20, n_informative=4, **common)
    else:
        n_classes = 2 if task == "two" else 3
        X, y = make_classification(n_classes=n_classes, n_informative=4, n_redundant=0, **common)
    X[np.random.default_rng(seed).random(n_rows) < 0.2, 1] = np.nan
    return X, y


def model_of(task, forest="blend", **parameters):
    kind = KPPRegressor if task in ("numbers", "outputs") else KPPClassifier
    usual = {"n_estimators": 7, "random_state": 0, "cv": 3, "main_effects": "linear"}
    return kind(forest, **(usual | parameters))


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {task: model_of(task).fit(*made_data(task)) for task in TASKS}


def linear_of(model):
    (block,) = [block for _, block in model.map_.blocks if isinstance(block, LinearMap)]
    return block


@pytest.mark.parametrize("task", TASKS)
def test_scores_are_those_of_the_map_and_its_coefficients(fitted, task):
    model, X = fitted[task], 2 * made_data(task, seed=1)[0]
    names = [name for name, _ in model.map_.blocks]
    assert names == ["trees", "boosted", "linear"]
    assert [name for name, _ in model.forest_] == names[:-1]
    assert "linear" in model.blend_weights_
    assert "linear, bare" not in model.blend_weights_
    matrix = model.map_.on(X).to_csr().toarray()
    by_hand = matrix @ np.atleast_2d(model.node_coef_).T + model.intercept_
    scores = model.at(X).scores
    np.testing.assert_allclose(scores, by_hand, rtol=1e-10, atol=1e-10 * np.abs(scores).max())
    # One row at a time gives the same bits.
    one = np.vstack([model.at(X[i : i + 1]).scores for i in range(5)])
    np.testing.assert_array_equal(one, scores[:5])
    taken = model.at(X).take([4, 2])
    np.testing.assert_array_equal(taken.scores, scores[[4, 2]])
    np.testing.assert_array_equal(taken.map.to_csr().toarray(), matrix[[4, 2]])


@pytest.mark.parametrize("task", ["numbers", "two"])
def test_the_layer_of_the_block_is_scikit_learns(task):
    X, y = made_data(task)
    model = model_of(task, tol=1e-12).fit(X, y)
    fit = model.fits_[-1]
    Z = LinearTerms.fit(X).coordinates(X)
    if task == "numbers":
        other = Ridge(fit.alpha, solver="cholesky").fit(Z, y)
    else:
        other = LogisticRegression(C=1 / (len(y) * fit.alpha), tol=1e-12, max_iter=10**4).fit(Z, y)
    np.testing.assert_allclose(fit.node_coef.ravel(), other.coef_.ravel(), rtol=1e-5, atol=1e-6)
    assert fit.alpha == model.alpha_["linear"]


@pytest.mark.parametrize("task", ["numbers", "two"])
def test_a_joint_layer_is_scikit_learns_on_the_whole_matrix(task):
    X, y = made_data(task)
    model = model_of(task, "extra-trees", alpha=0.1, tol=1e-13).fit(X, y)
    assert [name for name, _ in model.map_.blocks] == ["forest", "linear"]
    Z = model.map_.to_csr().toarray()
    np.testing.assert_array_equal(Z[:, -6:], LinearTerms.fit(X).coordinates(X))
    if task == "numbers":
        expected = Ridge(0.1, solver="cholesky").fit(Z, y).predict(Z)
        ours = model.predict(X)
    else:
        other = LogisticRegression(C=10 / len(y), tol=1e-12, max_iter=10**4).fit(Z, y)
        expected, ours = other.decision_function(Z), model.decision_function(X)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit", "cross-validated"])
@pytest.mark.parametrize("combine", ["joint", "auto"])
def test_every_regime_reads_the_columns_of_the_rows_that_grow_its_trees(regime, combine):
    X, y = made_data("numbers")
    model = model_of("numbers", "extra-trees", regime=regime, combine=combine).fit(X, y)
    blocks = [block for _, block in model.map_.blocks if isinstance(block, LinearMap)]
    if regime == "cross-fit":
        assert len(blocks) == 3
        tests = [test for _, test in model.folds_]
        seen = [np.setdiff1d(np.arange(len(y)), [*tests[q], *tests[q - 2]]) for q in range(3)]
    elif regime == "cross-validated":
        seen = [train for train, _ in model.folds_]
    else:
        seen = [np.arange(len(y)) if regime == "shared" else model.partition_rows_]
    for block, rows in zip(blocks, seen, strict=True):
        expected = LinearTerms.fit(X[rows])
        np.testing.assert_array_equal(block.terms.low, expected.low)
        np.testing.assert_array_equal(block.terms.mean, expected.mean)
    np.testing.assert_allclose(
        model.map_.on(X) @ model.node_coef_ + model.intercept_, model.predict(X), rtol=1e-10
    )


def test_labels_have_no_part_in_the_block_nor_in_its_folds():
    X, y = made_data("numbers")
    first = model_of("numbers").fit(X, y)
    second = model_of("numbers").fit(X, np.random.default_rng(0).permutation(y))
    np.testing.assert_array_equal(linear_of(first).values, linear_of(second).values)


def test_the_centre_of_an_honest_fit_has_linear_terms():
    X, y = made_data("numbers")
    model = model_of("numbers", "extra-trees", regime="honest", center="partition", alpha=1.0)
    model.fit(X, y)
    phi = model.map_.on(X)
    np.testing.assert_allclose(phi @ model.node_coef_ + model.intercept_, model.predict(X))
    # With a huge penalty nothing but the centre is left.
    shrunk = model_of("numbers", "extra-trees", regime="honest", center="partition", alpha=1e12)
    center = shrunk.fit(X, y).fits_[0].center
    np.testing.assert_allclose(shrunk.node_coef_, center.node_coef[0], rtol=1e-6, atol=1e-6)


def test_nothing_changes_beyond_the_training_range():
    X, y = made_data("numbers")
    model = model_of("numbers").fit(X, y)
    high = np.nanmax(X, axis=0, keepdims=True)
    np.testing.assert_array_equal(model.predict(high + 1e6), model.predict(high + 1))
    # Unlike the trees, the terms still move within it.
    low = np.nanmin(X, axis=0, keepdims=True)
    steps = low + np.linspace(0, 1, 500)[:, None] * (high - low)
    assert len(np.unique(model.at(steps).linear_values[0][:, 0])) == 500


@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit", "cross-validated"])
@pytest.mark.parametrize("alpha", ["auto", 1.0])
def test_columns_that_a_forest_takes_for_categories_have_no_term(regime, alpha):
    X, y = made_data("numbers")
    X[:, 2] = np.random.default_rng(0).integers(0, 4, len(X))
    forest = HistGradientBoostingRegressor(max_iter=5, categorical_features=[2])
    parameters = {"regime": regime, "alpha": alpha}
    for spec, expected in ((forest, False), ("boosted", True)):
        model = model_of("numbers", spec, **parameters).fit(X, y)
        assert all((2 in terms.terms.column) == expected for terms in model.additive_.linear)


def test_the_average_of_left_out_folds_has_their_terms():
    X, y = made_data("numbers")
    found = model_of("numbers", "extra-trees").leave_one_fold_out(X, y, alpha=1.0)
    mean = np.mean([model.predict(X) for model in found.models], axis=0)
    np.testing.assert_allclose(found.averaged.scores(X)[:, 0], mean, rtol=1e-10)
    assert [terms.name for terms in found.averaged.linear] == [f"fold{q}_linear" for q in range(3)]


def test_what_is_refused():
    X, y = made_data("numbers")
    forest = model_of("numbers", "extra-trees", main_effects=None, alpha=1.0).fit(X, y).forest_
    with pytest.raises(ValueError, match="main_effects=None"):
        model_of("numbers", forest, regime="fixed").fit(X, y)
    with pytest.raises(ValueError, match="another name"):
        model_of("numbers", [("linear", "extra-trees")]).fit(X, y)


@pytest.mark.parametrize("task", TASKS)
def test_shares_of_columns_add_up_to_one(fitted, task):
    shares = fitted[task].feature_importances_
    assert shares.sum() == pytest.approx(1)
    assert (shares >= 0).all()
    assert is_classifier(fitted[task]) == (task in ("two", "many"))


def test_importances_of_linear_terms_are_their_variances():
    X, y = made_data("numbers")
    model = model_of("numbers", "extra-trees", alpha=1.0).fit(X, y)
    w = model.node_coef_[-6:]
    squares = np.square(w) * model.map_.to_csr().toarray()[:, -6:].var(axis=0)
    own = np.bincount([0, 1, 1, 2, 3, 4], squares)
    trees = model.map_.blocks[0][1]
    nodes = np.square(trees.to_csr().toarray() * model.node_coef_[:-6]).mean(axis=0)
    variable = trees.coordinate_variable
    by_tree = [nodes[variable == j].sum() for j in range(5)]
    expected = own + by_tree
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum(), rtol=1e-10)
