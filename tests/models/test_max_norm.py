"""A limit of the norm of w: the solution of the constrained problem, by raising alpha."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge

from kpp import KPPClassifier, KPPRegressor, load, save

X, Y = load_diabetes(return_X_y=True)
SMALL = {"n_estimators": 8, "random_state": 0}


def dense(model):
    return model.map_ @ np.eye(model.map_.shape[1])


@pytest.mark.parametrize("rows", [150, 442])  # the Gram written out, and iterated on
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_reaches_the_sphere_at_the_alpha_it_names(fit_intercept, rows):
    plain = KPPRegressor("extra-trees", alpha=0.1, fit_intercept=fit_intercept, **SMALL).fit(
        X[:rows], Y[:rows]
    )
    most = np.linalg.norm(plain.node_coef_) / 3
    model = KPPRegressor(
        "extra-trees", alpha=0.1, fit_intercept=fit_intercept, max_norm=most, **SMALL
    )
    model.fit(X[:rows], Y[:rows])
    norm = np.linalg.norm(model.node_coef_)
    assert most * (1 - 2e-6) <= norm <= most
    assert model.alpha_ > 0.1
    assert model.fits_[0].alpha == model.alpha_
    # An independent ridge at that alpha: the multiplier of the constraint.
    ridge = Ridge(model.alpha_, fit_intercept=fit_intercept, solver="cholesky")
    ridge.fit(dense(model), Y[:rows])
    assert np.linalg.norm(ridge.coef_) == pytest.approx(most, rel=1e-5)
    np.testing.assert_allclose(model.predict(X[:rows]), ridge.predict(dense(model)), rtol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_reaches_the_sphere_over_all_scores(n_classes):
    rows, y = load_iris(return_X_y=True)
    rows, y = rows[y < n_classes], y[y < n_classes]
    y[::7] = 0  # not separable
    model = KPPClassifier("extra-trees", alpha=1e-4, max_norm=2.0, tol=1e-12, **SMALL).fit(rows, y)
    assert 2.0 * (1 - 2e-6) <= np.linalg.norm(model.node_coef_) <= 2.0
    other = LogisticRegression(C=1 / (len(y) * model.alpha_), tol=1e-10, max_iter=10_000)
    other.fit(dense(model), y)
    assert np.linalg.norm(other.coef_) == pytest.approx(2.0, rel=1e-4)
    np.testing.assert_allclose(
        model.predict_proba(rows), other.predict_proba(dense(model)), atol=1e-5
    )


def test_a_limit_that_does_not_bind_changes_nothing():
    plain = KPPRegressor("extra-trees", **SMALL).fit(X, Y)
    model = KPPRegressor("extra-trees", max_norm=1e9, **SMALL).fit(X, Y)
    np.testing.assert_array_equal(plain.node_coef_, model.node_coef_)
    assert plain.alpha_ == model.alpha_


def test_every_fold_of_a_cross_fit_model_is_within(tmp_path):
    model = KPPRegressor(
        "extra-trees",
        n_estimators=6,
        regime="cross-fit",
        cv=3,
        alpha=1e-3,
        max_norm=50.0,
        random_state=0,
    ).fit(X, Y)
    norms = [np.linalg.norm(fit.node_coef) for fit in model.fits_]
    np.testing.assert_allclose(norms, 50.0, rtol=2e-6)
    assert max(norms) <= 50.0
    assert model.alpha_ == pytest.approx(np.mean([fit.alpha for fit in model.fits_]))
    save(model, tmp_path / "m.kpp")
    assert load(tmp_path / "m.kpp").max_norm == 50.0


OF_FOLDS = {
    "shared": {},
    "regrown": {"alpha_selection": "regrown"},
    "honest": {"regime": "honest"},
    "cross-fit": {"regime": "cross-fit"},
    "cross-validated": {"regime": "cross-validated"},
}


@pytest.mark.parametrize("alphas", [[0.01], [0.01, 0.1]], ids=str)
@pytest.mark.parametrize("name", OF_FOLDS)
def test_predictors_of_folds_are_those_of_the_same_problem(name, alphas):
    given = {"n_estimators": 6, "cv": 3, "random_state": 0, "alphas": alphas, **OF_FOLDS[name]}
    plain = KPPRegressor("extra-trees", **given).fit(X, Y)
    most = 0.2 * min(np.linalg.norm(fit.node_coef) for fit in (*plain.fits_, *plain.fold_fits_))
    model = KPPRegressor("extra-trees", max_norm=most, **given).fit(X, Y)
    # By the definition: each fold's fit is the ridge of its own rows at an alpha of its own, on
    # the sphere; what the fit without a limit found lies outside.
    for fit in model.fold_fits_:
        phi = fit.map @ np.eye(fit.map.shape[1])
        ridge = Ridge(fit.alpha, solver="cholesky").fit(phi, Y[fit.rows])
        assert np.linalg.norm(ridge.coef_) == pytest.approx(most, rel=5e-3)
        assert np.linalg.norm(fit.node_coef) <= most
        assert fit.alpha > max(alphas)
    scores = model.fold_predictors_.scores(model.at(X[model.fit_rows_]))
    own = scores[model.fold_predictors_.fold_of_row, np.arange(len(model.fit_rows_)), 0]
    np.testing.assert_allclose(model.oof_prediction_, own, rtol=1e-9)
    # The score that goes with the alpha of the model is that of its out-of-fold predictions.
    error = np.mean((Y[model.fit_rows_] - model.oof_prediction_) ** 2)
    at = np.flatnonzero(model.alphas_ == model.alpha_)
    assert -model.cv_scores_[at] == pytest.approx(error, rel=1e-9)
    # Intervals lie around the model: fits without the limit predict far more than it does.
    found = model.predict_interval(X, 0.8, width="constant")
    assert ((found.lower <= found.prediction) & (found.prediction <= found.upper)).all()


def test_a_fold_has_no_part_in_its_predictor_where_the_norm_is_limited():
    given = {"regime": "honest", "alphas": [0.01], "max_norm": 30.0, "cv": 3, **SMALL}
    model = KPPRegressor("extra-trees", **given).fit(X, Y)
    rows = model.folds_[0][1]
    other = Y.copy()
    other[rows] = 5 * other[rows] - 200
    changed = KPPRegressor("extra-trees", **given).fit(X, other)
    assert changed.alpha_ != model.alpha_
    before, after = (own.fold_predictors_.scores(own.at(X))[0] for own in (model, changed))
    assert np.array_equal(before, after)
    assert model.predict_interval(X[:5], 0.8).proven_coverage > 0


def test_refusals():
    for wrong in (0, -1.0, "1", np.nan):
        with pytest.raises(ValueError, match="max_norm"):
            KPPRegressor("extra-trees", max_norm=wrong).fit(X, Y)
    with pytest.raises(ValueError, match="center='zero'"):
        KPPRegressor("extra-trees", regime="honest", center="partition", max_norm=1.0).fit(X, Y)
