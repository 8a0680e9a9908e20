"""What a fit keeps: its linear layers, and those of its folds."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

from kpp import KPPClassifier, KPPRegressor
from kpp.models.fits import MapPart

BLOCKS = [("trees", "extra-trees"), ("boosted", "boosted")]


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


def regressor(**parameters):
    own = {"forest": "extra-trees", "n_estimators": 10, "random_state": 0, "combine": "joint"}
    return KPPRegressor(**(own | parameters))


@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit"])
@pytest.mark.parametrize("forest", ["extra-trees", "boosted", BLOCKS])
def test_a_model_is_the_sum_of_its_fits(diabetes, regime, forest):
    X, y = diabetes
    model = regressor(forest=forest, regime=regime, n_estimators=5, cv=3, alpha=0.1).fit(X, y)
    total = np.zeros(len(X))
    blocks = iter([block for _, block in getattr(model.map_, "blocks", [("", model.map_)])])
    for fit in model.fits_:
        n_forests = 2 if isinstance(forest, list) else 1
        at_rows = [next(blocks).on(X) for _ in range(n_forests)]
        parts = np.split(fit.node_coef[0], np.cumsum([b.shape[1] for b in at_rows])[:-1])
        own = sum(b @ w for b, w in zip(at_rows, parts, strict=True)) + fit.intercept[0]
        total += fit.share[0] * own
    np.testing.assert_allclose(total, model.predict(X), rtol=1e-12)
    assert sum(fit.share[0] for fit in model.fits_) == pytest.approx(1)
    rows = np.sort(np.concatenate([fit.rows for fit in model.fits_]))
    assert np.array_equal(rows, np.sort(model.fit_rows_))


@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit"])
def test_each_fit_solves_its_own_problem(diabetes, regime):
    X, y = diabetes
    model = regressor(regime=regime, tol=1e-20).fit(X, y)
    for fit in model.fits_:
        phi = fit.map.to_csr().toarray()
        other = Ridge(fit.alpha, solver="cholesky").fit(phi, y[fit.rows])
        np.testing.assert_allclose(fit.scores(fit.map)[:, 0], other.predict(phi), rtol=1e-7)


@pytest.mark.parametrize("way", ["fold-grown", "regrown", "frozen"])
@pytest.mark.parametrize("forest", ["extra-trees", "boosted", BLOCKS])
def test_fold_fits_made_the_out_of_fold_predictions(diabetes, way, forest):
    X, y = diabetes
    model = regressor(forest=forest, alpha_selection=way, n_estimators=5, cv=3).fit(X, y)
    assert model.alpha_selection_ == way
    for fit, (train, test) in zip(model.fold_fits_, model.folds_, strict=True):
        assert np.array_equal(fit.rows, train)
        assert fit.map.shape[0] == len(train)
        predicted = fit.scores(fit.map.on(X[test]))[:, 0]
        np.testing.assert_allclose(predicted, model.oof_prediction_[test], rtol=1e-10)


def test_fold_fits_of_classes():
    X, y = load_iris(return_X_y=True)
    model = KPPClassifier("extra-trees", n_estimators=10, regime="cross-fit", random_state=0).fit(
        X, y
    )
    for fit, (_, test) in zip(model.fold_fits_, model.folds_, strict=True):
        scores = fit.scores(fit.map.on(X[test]))
        p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(p, model.oof_prediction_[test], rtol=1e-8)


def test_a_given_alpha_has_no_fold_fits(diabetes):
    model = regressor(alpha=1.0).fit(*diabetes)
    assert model.fold_fits_ is None
    assert model.alpha_selection_ == "given"


def test_the_center_is_kept(diabetes):
    X, y = diabetes
    model = regressor(regime="honest", center="partition", alpha=0.1, tol=1e-22).fit(X, y)
    (fit,) = model.fits_
    part = model.partition_rows_
    start = regressor(alpha=0.1, tol=1e-22).fit(X[part], y[part])
    np.testing.assert_allclose(fit.center.node_coef[0], start.node_coef_, rtol=1e-12)
    assert fit.center.intercept[0] == pytest.approx(start.intercept_, rel=1e-12)
    moved = fit.map.rmatvec(fit.dual[:, 0])
    np.testing.assert_allclose(moved + start.node_coef_, model.node_coef_, rtol=1e-9)


def test_a_single_fit_shares_its_coefficients(diabetes):
    model = regressor(alpha=0.1).fit(*diabetes)
    assert np.shares_memory(model.fits_[0].node_coef, model.node_coef_)
    assert np.shares_memory(model.fits_[0].map.leaf_ids, model.map_.leaf_ids)


def test_parts_of_a_map_keep_no_leaf_ids(diabetes):
    model = regressor(cv=KFold(3)).fit(*diabetes)
    for fit in model.fold_fits_:
        assert isinstance(fit.part, MapPart)
        assert fit.part.whole is model.map_
    assert len(pickle.dumps(model)) < 1.5 * len(pickle.dumps(regressor(alpha=1.0).fit(*diabetes)))


def test_a_class_that_a_fold_lacks_is_averaged_over_the_others():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:120], np.where(np.arange(120) < 5, 2, y[:120])
    model = KPPClassifier(
        "extra-trees", n_estimators=9, regime="cross-fit", cv=KFold(3), alpha=1e-2, random_state=0
    ).fit(X, y)
    shares = np.array([fit.share for fit in model.fits_])
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    assert (shares[:, 2] > 0).sum() == 1  # the rows of class 2 are all in the first fold
