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


def test_refusals():
    for wrong in (0, -1.0, "1", np.nan):
        with pytest.raises(ValueError, match="max_norm"):
            KPPRegressor("extra-trees", max_norm=wrong).fit(X, Y)
    with pytest.raises(ValueError, match="center='zero'"):
        KPPRegressor("extra-trees", regime="honest", center="partition", max_norm=1.0).fit(X, Y)
