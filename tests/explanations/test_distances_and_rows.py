"""Distances, training rows and leverage, from their definitions."""

import numpy as np
import pytest
from explanations.fitted_models import MODELS, SMALL, fitted
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from kpp import KPPEmbedding, KPPRegressor, path_distance
from kpp.explanations import (
    DistanceDisplay,
    explain_distance,
    explain_training_rows,
    leave_one_out,
    leverage,
)


def row(X, i):
    return X.iloc[[i]] if hasattr(X, "iloc") else X[i : i + 1]


# Distances.


@pytest.mark.parametrize("normalize", ["forest", "tree"])
@pytest.mark.parametrize("kind", MODELS)
def test_distance(kind, normalize):
    model, X = fitted(kind)
    for i, j in [(0, 1), (3, 50), (7, 11)]:
        explanation = explain_distance(model, row(X, i), row(X, j), normalize=normalize)
        phi = model.map_.normalized(normalize)
        square = np.square(
            phi.on(row(X, i)).to_csr().toarray()[0] - phi.on(row(X, j)).to_csr().toarray()[0]
        )
        variable = phi.coordinate_variable
        names = np.array([name.rpartition("_n")[0] for name in phi.coordinate_names])
        by_variable = [square[variable == v].sum() for v in range(X.shape[1])]
        by_tree = [square[names == tree].sum() for tree in dict.fromkeys(names)]
        np.testing.assert_allclose(explanation.by_variable, by_variable, atol=1e-15)
        np.testing.assert_allclose(explanation.by_tree, by_tree, atol=1e-15)
        assert explanation.normalize == normalize
        apart = path_distance(model, row(X, i), row(X, j), normalize=normalize)[0, 0]
        assert explanation.total == apart
        assert explanation.by_variable.sum() == pytest.approx(apart, rel=1e-13)
        assert explanation.by_tree.sum() == pytest.approx(apart, rel=1e-13)
        assert explanation.residual <= 1e-13 * apart
        assert (explanation.values >= 0).all()


def test_where_two_rows_part():
    model, X = fitted("regression")
    explanation = explain_distance(model, X[0], X[9])
    forest = model.forest_
    for tree in range(forest.n_trees):
        paths = []
        for leaf in forest.apply(X[[0, 9]])[:, tree]:
            path = [leaf]
            while forest.parent[path[-1]] >= 0:
                path.append(forest.parent[path[-1]])
            paths.append(path)
        shared = [v for v in paths[0] if v in paths[1]]
        column = forest.feature[shared[0]]
        assert explanation.parted_by[tree] == column  # -1 at a shared leaf
    frame = explanation.to_frame()
    assert frame["trees_parted"].sum() == (explanation.parted_by >= 0).sum()
    assert frame["share"].sum() == pytest.approx(1)
    assert frame["distance"].is_monotonic_decreasing


def test_by_default_as_the_model_was_fitted():
    model, X = fitted("tree by tree")
    explanation = explain_distance(model, X[0], X[9])
    assert explanation.normalize == "tree"
    assert explanation.total == path_distance(model, X[:1], X[9:10], normalize="tree")[0, 0]
    assert explanation.total == path_distance(model, X[:1], X[9:10])[0, 0]
    assert explanation.total != path_distance(model, X[:1], X[9:10], normalize="forest")[0, 0]
    display = DistanceDisplay.from_estimator(model, X[0], X[9])
    assert display.explanation.total == explanation.total
    assert r"\bar\delta_K" in display.ax_.get_xlabel()


def test_a_row_is_no_distance_from_itself():
    model, X = fitted("regression")
    explanation = explain_distance(model, X[0], X[0])
    assert explanation.total == 0
    assert not explanation.values.any()
    assert (explanation.parted_by == -1).all()
    assert not explanation.to_frame()["share"].any()
    expected = "DistanceExplanation(total=0, n_trees=10, same_leaf_in=10, normalize='forest')"
    assert repr(explanation) == expected


def test_distance_of_an_embedding():
    X, y = load_diabetes(return_X_y=True)
    embedding = KPPEmbedding(n_estimators=4, random_state=0).fit(X, y)
    explanation = explain_distance(embedding, X[0], X[1])
    assert explanation.by_tree.sum() == pytest.approx(path_distance(embedding, X[:1], X[1:2]))
    assert explanation.tree_names == ("t0", "t1", "t2", "t3")
    blocks, _ = fitted("blocks")
    assert explain_distance(blocks, X[0], X[1]).tree_names[4:6] == ("et__t4", "rf__t0")


def test_distance_bad_input():
    model, X = fitted("regression")
    with pytest.raises(ValueError, match=r"z must be one row.*got shape \(3, 10\)"):
        explain_distance(model, X[0], X[:3])
    with pytest.raises(ValueError):
        explain_distance(model, X[0, :4], X[0])
    with pytest.raises(NotFittedError):
        explain_distance(KPPRegressor("extra-trees"), X[0], X[1])
    with pytest.raises(TypeError, match="fitted"):
        explain_distance(model.map_, X[0], X[1])
    with pytest.raises(ValueError, match="normalize must be one of 'forest', 'tree'"):
        explain_distance(model, X[0], X[1], normalize="none")
    leaf = KPPRegressor("extra-trees", coordinates="leaf", alpha=1.0, n_estimators=2).fit(
        X, X[:, 0]
    )
    with pytest.raises(ValueError, match="no decomposition by variable"):
        explain_distance(leaf, X[0], X[1])


# Training rows.


@pytest.mark.parametrize("kind", MODELS)
def test_training_rows_add_up(kind):
    model, X = fitted(kind)
    k = 1 if kind == "several targets" else None
    explanation = explain_training_rows(model, row(X, 4), output=k, top=6)
    own = model.decision_function if hasattr(model, "classes_") else model.predict
    score = np.ravel(own(row(X, 4)))
    score = score[1] if k else score.max()
    start = explanation.intercept + explanation.partition
    size = abs(start) + np.abs(explanation.all_contributions).sum()
    assert explanation.score == score
    assert start + explanation.all_contributions.sum() == pytest.approx(score, abs=1e-10 * size)
    listed = start + explanation.contribution.sum() + explanation.remainder
    assert listed == pytest.approx(score, abs=1e-10 * size)
    assert explanation.residual <= 1e-10 * size
    product = explanation.kernel * explanation.dual_coef
    if kind.startswith("blend") or kind == "cross-validated":  # a row has several coefficients
        assert np.isnan(product).all()
    else:
        np.testing.assert_allclose(explanation.contribution, product)
    largest = np.sort(np.abs(explanation.all_contributions))[::-1][:6]
    np.testing.assert_array_equal(np.abs(explanation.contribution), largest)
    counts = any(fit.share.any() for fit in model.bare_fits_ or ())
    assert (explanation.partition != 0) == (kind == "partition" or counts)
    assert explanation.to_frame().shape == (6, 3)


@pytest.mark.parametrize("kind", ["regression", "multiclass", "blocks", "honest", "partition"])
def test_a_row_contributes_its_dual_coefficient_times_the_kernel(kind):
    model, X = fitted(kind)
    explanation = explain_training_rows(model, X[4], top=len(X))
    train, here = model.map_.to_csr(), model.map_.on(X[4:5]).to_csr()
    k = int(np.argmax(model.decision_function(X[4:5]))) if kind == "multiclass" else 0
    expected = model.dual_coef_[:, k] * (train @ here.T).toarray()[:, 0]
    np.testing.assert_allclose(explanation.all_contributions, expected, atol=1e-12)
    np.testing.assert_array_equal(explanation.all_rows, model.fit_rows_)
    # The listed rows are numbers of rows of X, not of the fit.
    phi = model.map_.on(X[explanation.rows]).to_csr()
    np.testing.assert_allclose(explanation.kernel, (phi @ here.T).toarray()[:, 0], atol=1e-14)


def test_cross_fit_rows_act_through_the_trees_of_their_fold():
    model, X = fitted("cross-fit")
    contributions = explain_training_rows(model, X[4], top=0).all_contributions
    expected = np.zeros(len(X))
    parts = zip(model.folds_, model.map_.blocks, model.map_.split(model.node_coef_), strict=True)
    for (fit, _), (_, block), w in parts:
        phi, here = block.to_csr()[fit].toarray(), block.on(X[4:5]).to_csr().toarray()[0]
        r = model.dual_coef_[fit, 0]
        np.testing.assert_allclose(phi.T @ r, w, atol=1e-10)
        expected[fit] = r * (phi @ here)
    np.testing.assert_allclose(contributions, expected, atol=1e-12)


def test_cross_fit_with_blocks():
    X, y = load_diabetes(return_X_y=True)
    forests = [("et", "extra-trees"), ("rf", "random-forest")]
    model = KPPRegressor(
        forests, combine="joint", regime="cross-fit", cv=3, alpha=0.1, **SMALL
    ).fit(X, y)
    explanation = explain_training_rows(model, X[0])
    assert explanation.partition == 0
    assert explanation.residual < 1e-10 * explanation.score


def test_the_partition_term_is_the_partition_models():
    model, X = fitted("partition")
    y = MODELS["partition"][2]
    rows = model.partition_rows_
    start = clone(model).set_params(regime="shared", center="zero").fit(X[rows], y[rows])
    explanation = explain_training_rows(model, X[4])
    expected = start.predict(X[4:5])[0] - start.intercept_
    assert explanation.partition == pytest.approx(expected, rel=1e-9)


def test_training_rows_bad_input():
    model, X = fitted("multiclass")
    with pytest.raises(ValueError, match="one of the classes"):
        explain_training_rows(model, X[0], output=7)
    with pytest.raises(ValueError, match="x must be one row"):
        explain_training_rows(model, X)
    with pytest.raises(ValueError, match="top must be"):
        explain_training_rows(model, X[0], top=-3)
    copy = clone(model).fit(*MODELS["multiclass"][1:])
    copy.fits_ = []
    with pytest.raises(ValueError, match="no dual coefficients"):
        explain_training_rows(copy, X[0])


# Leverage and leave-one-out.


def brute_force(phi, y, alpha, weight, fit_intercept, i):
    """The residual of row i under a ridge fit of all others."""
    others = np.arange(len(y)) != i
    ridge = Ridge(alpha, fit_intercept=fit_intercept, solver="cholesky")
    ridge.fit(phi[others], y[others], sample_weight=weight[others])
    return y[i] - ridge.predict(phi[i : i + 1])[0]


@pytest.mark.parametrize("alpha", [1e-3, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leave_one_out_equals_refitting(alpha, weighted, fit_intercept):
    X, y = (a[:80] for a in load_diabetes(return_X_y=True))
    weight = np.random.default_rng(0).exponential(size=80) if weighted else None
    if weighted:
        weight[5] = 0.0
    model = KPPRegressor(
        "extra-trees", alpha=alpha, fit_intercept=fit_intercept, tol=1e-22, **SMALL
    )
    model.fit(X, y, sample_weight=weight)
    result = leave_one_out(model, y, sample_weight=weight)
    phi = model.map_.to_csr().toarray()
    w = np.ones(80) if weight is None else weight
    np.testing.assert_allclose(result.residuals, y - model.predict(X), atol=1e-8)
    for i in [0, 5, 17, 44, 79]:
        expected = brute_force(phi, y, alpha, w, fit_intercept, i)
        assert result.loo_residuals[i] == pytest.approx(expected, rel=1e-6, abs=1e-6)
    # Leverage is the derivative of a fitted value by its own target.
    moved = y.copy()
    moved[17] += 1.0
    ridge = Ridge(alpha, fit_intercept=fit_intercept, solver="cholesky")
    step = [ridge.fit(phi, t, sample_weight=w).predict(phi[17:18])[0] for t in (y, moved)]
    assert result.leverage[17] == pytest.approx(step[1] - step[0], abs=1e-8)
    assert result.degrees_of_freedom == pytest.approx(result.leverage.sum())


@pytest.mark.parametrize("kind", ["several targets", "honest", "partition", "blocks"])
def test_leave_one_out_in_other_settings(kind):
    model, X = fitted(kind)
    y = MODELS[kind][2]
    result = leave_one_out(model, y)
    np.testing.assert_array_equal(result.rows, model.fit_rows_)
    phi = model.map_.to_csr().toarray()
    targets = y[model.fit_rows_].reshape(len(phi), -1)
    if kind == "partition":  # ridge of what the partition model leaves
        rows = model.partition_rows_
        start = clone(model).set_params(regime="shared", center="zero").fit(X[rows], y[rows])
        targets = targets - start.predict(X[model.fit_rows_])[:, None]
    mine = result.loo_residuals.reshape(len(phi), -1)
    for k, target in enumerate(targets.T):
        for i in (0, 30):
            expected = brute_force(phi, target, model.alpha_, np.ones(len(phi)), True, i)
            assert mine[i, k] == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert result.to_frame().shape == (len(phi), 1 + 2 * targets.shape[1])


def test_leave_one_out_bad_input(monkeypatch):
    model, X = fitted("regression")
    y = MODELS["regression"][2]
    with pytest.raises(ValueError, match="not those that the model was fitted on"):
        leave_one_out(model, y[::-1])
    with pytest.raises(ValueError, match="not those that the model was fitted on"):
        leave_one_out(model, y, sample_weight=np.arange(len(y)))
    tiny = KPPRegressor("extra-trees", alpha=1e-13, n_estimators=3, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"^alpha=1e-13 is too small beside the kernel"):
        leave_one_out(tiny, y[::-1])
    with pytest.raises(ValueError, match=r"150 rows and 1 column\(s\); got 149 rows"):
        leave_one_out(model, y[1:])
    with pytest.raises(TypeError, match="KPPClassifier has none"):
        leave_one_out(fitted("binary")[0], MODELS["binary"][2])
    with pytest.raises(ValueError, match="no hat matrix"):
        leave_one_out(fitted("cross-fit")[0], y)
    monkeypatch.setattr(leverage, "MOST_ROWS", 100)
    with pytest.raises(ValueError, match="150 x 150 numbers; the limit is 100 rows"):
        leave_one_out(model, y)
