"""The predictors of the folds: at a row of its fold, each gives the out-of-fold prediction."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor
from sklearn.model_selection import KFold

import kpp
from kpp import KPPClassifier, KPPRegressor

SMALL = {"n_estimators": 6, "cv": 3, "random_state": 0}
FORESTS = ["blend", "extra-trees", "boosted"]
REGIMES = ["shared", "honest", "cross-fit"]


def numbers(n_targets=1):
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:200], y[:200]
    return X, y if n_targets == 1 else np.column_stack([y, 300 * X[:, 2] - y])


def classes(n_classes):
    X, y = load_wine(return_X_y=True)
    return X[y < n_classes], np.array(["a", "b", "c"])[y[y < n_classes]]


def check(model, X):
    """Every fold's predictor, at the rows of the fold, against what the fit has kept."""
    own = model.fold_predictors_
    rows = model.at(X[model.fit_rows_])
    by_fold = own.scores(rows)
    assert by_fold.shape == (len(model.folds_), len(rows), len(np.atleast_1d(model.intercept_)))
    places = {row: i for i, row in enumerate(model.fit_rows_.tolist())}
    for scores, (_, test) in zip(by_fold, model.folds_, strict=True):
        at = [places[row] for row in test.tolist()]
        found, kept = scores[at], model.oof_prediction_[at]
        if hasattr(model, "classes_"):
            if found.shape[1] == 1:
                found = np.hstack([np.zeros_like(found), found])
            found = np.exp(found - found.max(axis=1, keepdims=True))
            found /= found.sum(axis=1, keepdims=True)
        kept = kept.reshape(len(kept), -1)
        np.testing.assert_allclose(found, kept, rtol=1e-11, atol=1e-12 * np.abs(kept).max())
    return by_fold


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("forest", FORESTS)
@pytest.mark.parametrize("n_targets", [1, 2])
def test_numbers(forest, regime, n_targets):
    X, y = numbers(n_targets)
    check(KPPRegressor(forest, regime=regime, **SMALL).fit(X, y), X)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("forest", ["blend", "extra-trees"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes(forest, regime, n_classes):
    X, y = classes(n_classes)
    check(KPPClassifier(forest, regime=regime, **SMALL).fit(X, y), X)


@pytest.mark.parametrize(
    "changed",
    [
        {"main_effects": "linear"},
        {"main_effects": "ladders"},
        {"alpha": 0.1},
        {"fit_intercept": False},
        {"coordinates": "leaf"},
        {"node_weight": "variance"},
        {"cv": KFold(4, shuffle=True, random_state=1)},
        {"regime": "honest", "center": "partition"},
        {"forest": [("a", ExtraTreesRegressor(7)), ("b", GradientBoostingRegressor())]},
    ],
    ids=lambda changed: " ".join(changed),
)
def test_blends_of_all_kinds(changed):
    X, y = numbers()
    check(KPPRegressor(**(SMALL | changed)).fit(X, y), X)


@pytest.mark.parametrize("way", ["regrown", "frozen"])
def test_other_folds(way):
    X, y = numbers()
    check(KPPRegressor("random-forest", alpha_selection=way, **SMALL).fit(X, y), X)


def test_weighted_rows_and_a_class_that_a_fold_lacks():
    X, y = load_iris(return_X_y=True)
    y = np.where(np.arange(len(y)) == 149, 3, y)  # one row of a fourth class
    weight = np.linspace(0.5, 2, len(y))
    for forest in ("blend", "extra-trees"):
        check(KPPClassifier(forest, **SMALL).fit(X, y, sample_weight=weight), X)


def test_a_given_alpha_of_one_layer_leaves_no_fold_out():
    X, y = numbers()
    assert KPPRegressor("extra-trees", alpha=0.1, **SMALL).fit(X, y).fold_predictors_ is None


def test_what_was_made_for_predictions_is_not_pickled():
    X, y = numbers()
    model = KPPRegressor(**SMALL).fit(X, y)
    before = len(pickle.dumps(model))
    scores = check(model, X)
    dumped = pickle.dumps(model)
    assert len(dumped) < 1.01 * before
    assert np.array_equal(pickle.loads(dumped).fold_predictors_.scores(model.at(X)), scores)
    # Duals are kept for each layer, not a number for each node.
    assert not any("node_coef" in vars(fit) for fit in model.fold_predictors_.fits)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("forest", ["blend", "boosted"])
def test_files_hold_them(tmp_path, forest, regime):
    for model, (X, y) in (
        (KPPRegressor(forest, regime=regime, **SMALL), numbers(2)),
        (KPPClassifier(forest, regime=regime, **SMALL), classes(3)),
    ):
        model.fit(X, y)
        kpp.save(model, tmp_path / "model.kpp")
        loaded = kpp.load(tmp_path / "model.kpp")
        assert np.array_equal(check(loaded, X), check(model, X))
        assert np.array_equal(loaded.fold_predictors_.target, model.fold_predictors_.target)
