"""The paper's bounds at a radius that was fixed before the sample."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import KFold

from kpp import KPPClassifier, KPPRegressor, risk_bounds
from kpp._checks import RefusedError
from kpp.bounds import logistic_loss_terms, rademacher_complexity, squared_loss_terms
from kpp.bounds.rademacher import check_radius

X, Y = load_diabetes(return_X_y=True)
HONEST = {"n_estimators": 5, "regime": "honest", "fit_intercept": False, "random_state": 0}


def test_squared_loss_is_a_guarantee_on_the_fit_fold():
    model = KPPRegressor("extra-trees", alpha=1.0, max_norm=300.0, **HONEST).fit(X, Y)
    report = risk_bounds(model, X, Y, y_range=(0, 400), radius=300.0)
    trace = model.map_.row_norms(squared=True).sum()
    n = len(model.fit_rows_)
    for constant in ("printed", "proof"):
        bound = report[f"RG-03 uniform squared, {constant}"]
        assert bound.is_guarantee
        terms = squared_loss_terms(300.0, 400.0, trace, n, constant=constant)
        assert (bound.complexity, bound.confidence) == pytest.approx(terms)
        assert bound.details["B"] == 300.0
        word = {a.name: a.word for a in bound.assumptions}
        assert word["radius B fixed before the sample"] == "trusted"
    assert report["RG-02 trace"].total == pytest.approx(rademacher_complexity(300.0, trace, n))
    # The ball is what is bounded, not the model: a larger one costs more.
    wider = risk_bounds(model, X, Y, y_range=(0, 400), radius=600.0)
    name = "RG-03 uniform squared, proof"
    assert wider[name].total > report[name].total
    plugged = risk_bounds(model, X, Y, y_range=(0, 400))[name]
    assert not plugged.is_guarantee
    assert [a.name for a in plugged.failing] == ["radius B fixed before the sample"]


def test_logistic_loss_is_a_guarantee_on_the_fit_fold():
    rows, y = load_breast_cancer(return_X_y=True)
    model = KPPClassifier("extra-trees", alpha=1e-4, max_norm=4.0, **HONEST).fit(rows, y)
    report = risk_bounds(model, rows, y, radius=4.0)
    trace = model.map_.row_norms(squared=True).sum()
    terms = logistic_loss_terms(4.0, trace, len(model.fit_rows_))
    bound = report["CL-03 uniform logistic"]
    assert bound.is_guarantee
    assert (bound.complexity, bound.confidence) == pytest.approx(terms)
    assert report["CL-03 calibrated"].total == pytest.approx(bound.total / np.log(2))
    assert not risk_bounds(model, rows, y)["CL-03 calibrated"].is_guarantee


def test_logistic_loss_of_several_classes_by_hand():
    B, trace, n, K, delta = 1.5, 30.0, 50, 4, 0.1
    complexity, confidence = logistic_loss_terms(B, trace, n, delta, n_classes=K)
    assert complexity == pytest.approx(4 * B / n * np.sqrt(K * trace), rel=1e-12)
    largest = confidence / (3 * np.sqrt(np.log(2 / delta) / (2 * n)))
    assert largest == pytest.approx(np.log(1 + 3 * np.exp(np.sqrt(2) * B)), rel=1e-12)
    # No coefficients in the ball have a larger loss at a row of norm 1: two scores of opposite
    # sign differ by sqrt(2) B, and no more.
    scores = np.random.default_rng(0).normal(size=(10_000, K))
    scores[0] = [-1.0, 1.0, 0.0, 0.0]
    scores *= B / np.linalg.norm(scores, axis=1, keepdims=True)
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[:, 0]
    assert losses.max() <= largest
    assert losses[0] > np.sqrt(2) * B


def test_cross_fit_folds_and_what_still_fails():
    cv = KFold(3, shuffle=True, random_state=0)
    model = KPPRegressor(
        "extra-trees",
        n_estimators=6,
        regime="cross-fit",
        cv=cv,
        alpha=1.0,
        max_norm=200.0,
        fit_intercept=False,
        random_state=0,
    ).fit(X, Y)
    report = risk_bounds(model, X, Y, y_range=(0, 400), radius=200.0)
    for q in range(3):
        assert report[f"RG-03 uniform squared, proof, fold {q}"].is_guarantee
    with pytest.raises(RefusedError, match="fold 0"):
        risk_bounds(model, X, Y, y_range=(0, 400), radius=150.0)
    shared = KPPRegressor(
        "extra-trees", n_estimators=5, alpha=1.0, max_norm=300.0, random_state=0
    ).fit(X, Y)
    failing = risk_bounds(shared, X, Y, y_range=(0, 400), radius=300.0)["RG-02 trace"].failing
    assert [a.name for a in failing] == [
        "representation independent of the sample",
        "homogeneous class",
    ]


def test_a_ball_that_does_not_hold_the_model_is_refused():
    model = KPPRegressor("extra-trees", alpha=1.0, **HONEST).fit(X, Y)
    norm = np.linalg.norm(model.node_coef_)
    with pytest.raises(RefusedError, match=r"does not cover this model.*max_norm"):
        risk_bounds(model, X, Y, radius=norm * (1 - 1e-9))
    assert risk_bounds(model, X, Y, radius=norm)["RG-02 trace"].details["B"] == norm
    for wrong in (0, -1, np.inf, np.nan, "1"):
        with pytest.raises(RefusedError, match="positive finite"):
            risk_bounds(model, X, Y, radius=wrong)


def test_any_positive_finite_radius_will_do():
    for radius in (1e-300, 0.5, 1, np.float32(2.0), 1e300):
        assert check_radius(radius) == radius
    assert check_radius(None) is None
    for radius in (0, 0.0, -1.0, np.inf, np.nan, "1"):
        with pytest.raises(RefusedError):
            check_radius(radius)
