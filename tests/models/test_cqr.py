"""Conformalised quantiles: by the definition, their coverage, and their guarantee."""

from math import ceil, floor

import numpy as np
import pytest
from sklearn.model_selection import KFold

from kpp import KPPRegressor
from kpp.models.cqr import QuantileIntervals

pytestmark = pytest.mark.filterwarnings(
    "ignore:The best alpha lies on:sklearn.exceptions.ConvergenceWarning"
)


def draw(rng, n_rows):
    X = rng.normal(size=(n_rows, 2))
    return X, X[:, 0] + (0.2 + np.abs(X[:, 1])) * rng.normal(size=n_rows)


def fitted(X, y, **parameters):
    parameters = {"n_estimators": 10, "random_state": 0, "quantile": [0.1, 0.9]} | parameters
    return KPPRegressor("extra-trees", loss="quantile", **parameters).fit(X, y)


@pytest.mark.parametrize("quantiles", [[0.1, 0.9], [0.9, 0.5, 0.1]])
def test_the_ends_are_those_of_the_definition(quantiles):
    rng = np.random.default_rng(0)
    X, y = draw(rng, 100)
    X_new, _ = draw(rng, 7)
    model = fitted(X, y, quantile=quantiles)
    found = model.predict_interval(X_new, 0.75)
    predictors = model.fold_predictors_
    fold, n, a = predictors.fold_of_row, 100, 0.25

    def ends(rows):
        # Of each fold's predictor, the least and the largest of the quantiles.
        scores = np.sort(predictors.scores(model.at(rows)), axis=2)
        return scores[:, :, 0], scores[:, :, -1]

    low, high = (side[fold, np.arange(n)] for side in ends(X))
    R = np.maximum(low - y, y - high)
    assert (R < 0).any()  # rows that are well within make the interval narrower
    lows, highs = ends(X_new)
    for i in range(len(X_new)):
        down = np.sort(lows[fold, i] - R)[floor(a * (n + 1)) - 1]
        up = np.sort(highs[fold, i] + R)[ceil((1 - a) * (n + 1)) - 1]
        assert found.lower[i] == pytest.approx(min(down, up), rel=1e-12)
        assert found.upper[i] == pytest.approx(max(down, up), rel=1e-12)
    assert isinstance(found, QuantileIntervals)
    assert "CQR" in str(found)
    np.testing.assert_array_equal(found.prediction, model.predict(X_new))


def test_poisson_intervals_are_of_means():
    rng = np.random.default_rng(1)
    X, _ = draw(rng, 200)
    counts = rng.poisson(np.exp(X[:, 0])).astype(float)
    model = KPPRegressor("extra-trees", n_estimators=10, loss="poisson", random_state=0)
    model.fit(X, counts)
    X_new, _ = draw(rng, 2000)
    new = rng.poisson(np.exp(X_new[:, 0]))
    found = model.predict_interval(X_new, 0.8)
    assert (found.lower >= 0).all()
    assert ((found.lower <= new) & (new <= found.upper)).mean() == pytest.approx(0.8, abs=0.09)
    fold = model.fold_predictors_.fold_of_row
    means = np.exp(model.fold_predictors_.scores(model.at(X_new[:3]))[:, :, 0])
    R = np.abs(counts - model.oof_prediction_)
    up = np.sort(means[fold, 1] + R)[ceil(0.8 * 201) - 1]
    assert found.upper[1] == pytest.approx(up, rel=1e-9)


def test_coverage_of_new_rows_over_many_draws():
    # Mean coverage over draws of the rows of the fit; its standard error is about 0.009.
    rng = np.random.default_rng(2)
    inside, widths = [], []
    for _ in range(16):
        X, y = draw(rng, 100)
        model = fitted(X, y, n_estimators=5, alphas=[0.02])
        X_new, y_new = draw(rng, 400)
        found = model.predict_interval(X_new, 0.8)
        inside.append(((found.lower <= y_new) & (y_new <= found.upper)).mean())
        far, near = np.abs(X_new[:, 1]) > 1.5, np.abs(X_new[:, 1]) < 0.3
        widths.append(found.width[far].mean() / found.width[near].mean())
    assert 0.77 < np.mean(inside) < 0.88
    assert np.mean(widths) > 1.2


def test_the_guarantee_has_the_conditions_of_cv_plus():
    rng = np.random.default_rng(3)
    X, y = draw(rng, 200)
    options = {"regime": "honest", "alphas": [0.02], "cv": KFold(5, shuffle=True, random_state=0)}
    model = fitted(X, y, **options)
    found = model.predict_interval(X[:5], 0.9)
    assert found.is_guarantee
    squared = KPPRegressor("extra-trees", n_estimators=10, random_state=0, **options).fit(X, y)
    other = squared.predict_interval(X[:5], 0.9)
    assert found.proven_coverage == other.proven_coverage
    assert [own.name for own in found.conditions] == [own.name for own in other.conditions]
    assert not fitted(X, y).predict_interval(X[:5], 0.9).is_guarantee
    # A threshold that is read from all labels has seen every fold.
    huber = {"loss": "huber", "alpha_selection": "regrown", "alphas": [1.0], "random_state": 0}
    read, given = (
        KPPRegressor("extra-trees", n_estimators=10, cv=options["cv"], huber_delta=d, **huber)
        .fit(X, y)
        .predict_interval(X[:5], 0.9)
        for d in (None, 1.0)
    )
    assert [own.why for own in read.failing if "threshold" in own.why]
    assert not [own.why for own in given.failing if "threshold" in own.why]
