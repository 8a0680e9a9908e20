"""The audit passes on every kind of model and fails on a broken one; displays draw."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from kpp import KPPClassifier, KPPEmbedding, KPPRegressor
from kpp.bounds import risk_bounds
from kpp.diagnostics import (
    BoundDisplay,
    HalfForestDisplay,
    MarginDisplay,
    SpectrumDisplay,
    audit,
)

X, Y = load_breast_cancer(return_X_y=True)
DX, DY = load_diabetes(return_X_y=True)
IX, IY = load_iris(return_X_y=True)
MODELS = {
    "regression": (KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0), DX, DY),
    "boosted": (KPPRegressor("boosted", n_estimators=10, alpha=1.0, random_state=0), DX, DY),
    "two forests": (
        KPPRegressor(
            [("a", "extra-trees"), ("b", "boosted")], combine="joint", n_estimators=5, alpha=0.1
        ),
        DX,
        DY,
    ),
    "cross-fit": (
        KPPRegressor("extra-trees", n_estimators=9, regime="cross-fit", cv=3, alpha=1.0),
        DX,
        DY,
    ),
    "two classes": (
        KPPClassifier("extra-trees", n_estimators=10, alpha=1e-6, tol=1e-4, random_state=0),
        X,
        Y,
    ),
    "three classes": (
        KPPClassifier("extra-trees", n_estimators=10, alpha=1e-3, random_state=0),
        IX,
        IY,
    ),
    "by tree": (KPPClassifier("extra-trees", n_estimators=10, normalize="tree", alpha=1e-3), X, Y),
    "uniform": (
        KPPRegressor("extra-trees", n_estimators=10, node_weight="uniform", alpha=1.0),
        DX,
        DY,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_identities_hold(name):
    model, rows, y = MODELS[name]
    result = audit(model.fit(rows, y), rows, y)
    assert result.holds, str(result)
    assert len(result.checks) == 5
    assert len(result.to_frame()) == 5
    assert audit(model, rows).holds


def test_leaves_with_weight_skip_the_isometry():
    for parameters in ({"leaf_weight": 1.0}, {"coordinates": "leaf"}):
        model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, **parameters).fit(DX, DY)
        result = audit(model, DX, DY)
        assert result.holds, str(result)
        assert "isometry" not in [check.name for check in result.checks]
        assert "skipped isometry" in str(result)


def test_a_broken_model_fails():
    model = KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0).fit(DX, DY)
    model.node_coef_ = model.node_coef_ * 0.9  # predictions come from the leaves and stay
    result = audit(model, DX, DY)
    broken = {check.name for check in result.checks if not check.holds}
    assert "additivity" in broken
    assert "FAILS" in str(result)
    model.node_coef_ = model.node_coef_ * 1e-6
    broken = {check.name for check in audit(model, DX, DY).checks if not check.holds}
    assert {"additivity", "Lipschitz"} <= broken


def test_refusals():
    with pytest.raises(TypeError, match="KPPRegressor or KPPClassifier"):
        audit(KPPEmbedding(n_estimators=2).fit(DX, DY), DX)
    model = KPPRegressor("extra-trees", n_estimators=3, alpha=1.0).fit(DX, DY)
    with pytest.raises(ValueError):
        audit(model, DX[:0])
    with pytest.raises(ValueError, match="X has 442 rows, but y has 5"):
        audit(model, DX, DY[:5])


# Displays.


@pytest.fixture
def axes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield plt.subplots()[1]
    plt.close("all")


def test_displays_draw(axes):
    classifier = MODELS["two classes"][0].fit(X, Y)
    regressor = MODELS["regression"][0].fit(DX, DY)
    display = SpectrumDisplay.from_estimator(regressor, DX, ax=axes)
    assert (np.diff(display.dimension) <= 1e-9).all()
    assert display.ax_ is axes
    display = HalfForestDisplay.from_estimator(regressor, DX)
    assert len(display.ax_.lines) == 2
    display = MarginDisplay.from_estimator(classifier, X, Y)
    assert display.margins.shape == (569,)
    report = risk_bounds(classifier, X, Y)
    bars = BoundDisplay([b for b in report if b.quantity == "0/1 error"]).plot()
    assert len(bars.ax_.patches) == 3


def test_displays_refuse():
    with pytest.raises(ValueError, match="belong to a classifier"):
        MarginDisplay([])
    with pytest.raises(TypeError, match="belong to a classifier"):
        MarginDisplay.from_estimator(MODELS["regression"][0].fit(DX, DY), DX, DY)
    report = risk_bounds(MODELS["two classes"][0].fit(X, Y), X, Y)
    with pytest.raises(ValueError, match="one quantity"):
        BoundDisplay(list(report))


def test_no_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="kpp\\[plot\\]"):
        MarginDisplay([1.0]).plot()
