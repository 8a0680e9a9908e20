"""MAPIE's cross-conformal intervals and sets, of the same predictors of the same folds."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.datasets import load_diabetes, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import PredefinedSplit

from kpp import KPPClassifier, KPPRegressor

N_FIT = 120


class OfFold(BaseEstimator):
    """The predictor of the fold whose rows it is not fitted on; rows bring their numbers."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        own = self.model.estimator.fold_predictors_
        missing = np.unique(np.delete(own.fold_of_row, X[:, 0].astype(int)))
        self.fold_ = missing[0] if len(missing) == 1 else None
        self.n_features_in_ = X.shape[1]
        self.classes_ = np.unique(y)
        return self

    def answers(self, X):
        model = self.model.estimator
        by_fold = model.fold_predictors_.scores(model.at(X[:, 1:]))
        # A fit on all rows is asked for as well, and its answer is not used.
        return model._task.answers(by_fold[self.fold_ or 0])


class Number(RegressorMixin, OfFold):
    def predict(self, X):
        return self.answers(X)


class Class(ClassifierMixin, OfFold):
    def predict_proba(self, X):
        return self.answers(X)

    def predict(self, X):
        return self.classes_[self.answers(X).argmax(axis=1)]


def numbered(X):
    return np.column_stack([np.arange(len(X)), X])


def test_intervals_are_those_of_mapie():
    mapie = pytest.importorskip("mapie.regression")
    X, y = load_diabetes(return_X_y=True)
    model = KPPRegressor(n_estimators=6, random_state=0).fit(X[:N_FIT], y[:N_FIT])
    levels = [0.5, 0.8, 0.9, 0.95]
    theirs = mapie.CrossConformalRegressor(
        Number(FrozenEstimator(model)),
        confidence_level=levels,
        method="plus",
        cv=PredefinedSplit(model.fold_predictors_.fold_of_row),
    ).fit_conformalize(numbered(X[:N_FIT]), y[:N_FIT])
    _, ends = theirs.predict_interval(numbered(X[N_FIT:]))
    rounding = 1e-14 * np.abs(y).max()
    for k, level in enumerate(levels):
        found = model.predict_interval(X[N_FIT:], level, width="constant")
        np.testing.assert_allclose(found.lower, ends[:, 0, k], rtol=0, atol=rounding)
        np.testing.assert_allclose(found.upper, ends[:, 1, k], rtol=0, atol=rounding)


def test_sets_are_those_of_mapie():
    mapie = pytest.importorskip("mapie.classification")
    random = np.random.default_rng(0)
    X, y = load_iris(return_X_y=True)
    order = random.permutation(150)
    X, y = X[order] + random.normal(scale=0.5, size=X.shape), y[order]
    model = KPPClassifier(n_estimators=6, random_state=0).fit(X[:N_FIT], y[:N_FIT])
    # MAPIE counts to a (n - 1) from above where this library counts to a (n + 1) from below: at
    # these levels both are one number.
    levels = [0.7, 0.8, 0.9]
    for level in levels:
        a = round(1 - level, 9)
        assert np.floor(a * (N_FIT + 1)) == np.ceil(a * (N_FIT - 1))
    theirs = mapie.CrossConformalClassifier(
        Class(FrozenEstimator(model)),
        confidence_level=levels,
        conformity_score="lac",
        cv=PredefinedSplit(model.fold_predictors_.fold_of_row),
        random_state=0,
    ).fit_conformalize(numbered(X[:N_FIT]), y[:N_FIT])
    _, sets = theirs.predict_set(numbered(X[N_FIT:]), agg_scores="crossval")
    for k, level in enumerate(levels):
        assert np.array_equal(model.predict_set(X[N_FIT:], level).sets, sets[:, :, k])
    assert len(np.unique(sets.sum(axis=1))) > 1
