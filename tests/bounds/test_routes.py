"""Rows are routed once, or not at all, and come in every form; models may stand in a Pipeline."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from kpp import KPPClassifier, KPPRegressor
from kpp.bounds import (
    bias_variance,
    bound_path,
    effective_dimension,
    informed_bounds,
    partition_oracles,
    risk_bounds,
)
from kpp.diagnostics import audit, diagnose, predictive_metrics
from kpp.forest.route import route

X, Y = load_breast_cancer(return_X_y=True)
DX, DY = load_diabetes(return_X_y=True)
FOREST = FrozenEstimator(ExtraTreesRegressor(6, random_state=0).fit(DX[:99], DY[:99]))
MODELS = {
    "shared": KPPRegressor("extra-trees", n_estimators=6, alpha=1.0, random_state=0),
    "honest": KPPRegressor(
        "extra-trees",
        n_estimators=6,
        alpha=1.0,
        regime="honest",
        center="partition",
        random_state=0,
    ),
    "fixed": KPPRegressor(FOREST, alpha=1.0, regime="fixed"),
    "two forests": KPPRegressor(
        [("a", "extra-trees"), ("b", "random-forest")],
        combine="joint",
        n_estimators=6,
        alpha=1.0,
        random_state=0,
    ),
    "cross-fit": KPPRegressor(
        "extra-trees", n_estimators=6, alpha=1.0, regime="cross-fit", cv=3, random_state=0
    ),
}


@pytest.fixture
def routed(monkeypatch):
    """Every forest that rows are sent through, and why: rows of a question, or node statistics."""
    calls = []
    for place in ("scores.additive", "geometry.maps", "scores.rows", "forest.statistics"):
        what = "statistics" if place == "forest.statistics" else "rows"

        def counted(forest, X, *, n_jobs=None, what=what):
            calls.append(what)
            return route(forest, X, n_jobs=n_jobs)

        monkeypatch.setattr(f"kpp.{place}.route", counted)
    return calls


def n_forests(model):
    return len(model.additive_.blocks)


@pytest.mark.parametrize("sample", ["fit", "train", "test"])
@pytest.mark.parametrize("name", MODELS)
def test_bounds_route_once(name, sample, routed):
    model = MODELS[name].fit(DX, DY)
    routed.clear()
    own = risk_bounds(model, DX, DY, sample=sample, y_range=(0, 400))
    assert routed == ["rows"] * n_forests(model)
    rows = model.at(DX)
    routed.clear()
    again = risk_bounds(model, rows, DY, sample=sample, y_range=(0, 400))
    assert routed == []
    assert str(again) == str(own)


@pytest.mark.parametrize("sample", ["fit", "train", "test"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:These rows were called test rows:UserWarning")
def test_the_dashboard_routes_once_and_for_the_statistics_of_nodes(name, sample, routed):
    model = MODELS[name].fit(DX, DY)
    routed.clear()
    own = diagnose(model, DX, DY, sample=sample)
    assert routed.count("rows") == n_forests(model)
    assert routed.count("statistics") <= n_forests(model)
    rows = model.at(DX)
    routed.clear()
    again = diagnose(model, rows, DY, sample=sample)
    assert routed.count("rows") == 0
    assert again.to_dict() == own.to_dict()


@pytest.mark.parametrize(
    "function",
    [
        lambda m, rows: bound_path(m, rows, DY, y_range=(0, 400)).to_frame().to_dict(),
        lambda m, rows: [str(bound) for bound in informed_bounds(m, rows, DY)],
        lambda m, rows: partition_oracles(m, rows, DY).per_tree.gain.tolist(),
        lambda m, rows: partition_oracles(m, rows, DY, sample="fit").per_tree.gain.tolist(),
        lambda m, rows: effective_dimension(m, rows).value,
        lambda m, rows: predictive_metrics(m, rows, DY),
        lambda m, rows: str(audit(m, rows, DY)),
    ],
    ids=["path", "informed", "oracles", "oracles of the fit", "dimension", "metrics", "audit"],
)
def test_routed_rows_are_not_routed_again(function, routed):
    model = MODELS["honest"].fit(DX, DY)
    own, rows = function(model, DX), model.at(DX)
    routed.clear()
    assert function(model, rows) == own
    assert "rows" not in routed


def test_the_smoother_takes_routed_rows(routed):
    model = MODELS["shared"].fit(DX, DY)
    own, rows = bias_variance(model, DX, DY), model.at(DX)
    routed.clear()
    again = bias_variance(model, rows, DY)
    assert routed == []
    assert (again.bias, again.variance) == (own.bias, own.variance)


def test_rows_of_another_model_are_refused():
    model, other = (
        KPPRegressor("extra-trees", n_estimators=3, alpha=a).fit(DX, DY) for a in (1.0, 2.0)
    )
    for function in (risk_bounds, diagnose, partition_oracles):
        with pytest.raises(ValueError, match="routed by another model"):
            function(model, other.at(DX), DY)


# Pipelines.


def test_a_pipeline_is_its_model_at_prepared_rows():
    inner = KPPClassifier("extra-trees", n_estimators=6, alpha=1e-2, random_state=0)
    pipeline = make_pipeline(StandardScaler(), inner).fit(X[::2], Y[::2])
    prepared = pipeline[0].transform(X)
    new, labels = X[1::2], Y[1::2]
    new_prepared = prepared[1::2]
    assert str(risk_bounds(pipeline, new, labels, sample="test")) == str(
        risk_bounds(inner, new_prepared, labels, sample="test")
    )
    for sample, rows, y in (
        ("test", slice(1, None, 2), labels),
        ("fit", slice(0, None, 2), Y[::2]),
    ):
        own = diagnose(inner, prepared[rows], y, sample=sample)
        assert diagnose(pipeline, X[rows], y, sample=sample).to_dict() == own.to_dict()
        assert str(audit(pipeline, X[rows], y)) == str(audit(inner, prepared[rows], y))
    gain = partition_oracles(pipeline, new, labels).gain
    assert gain == partition_oracles(inner, new_prepared, labels).gain
    assert effective_dimension(pipeline, new, 0.1) == effective_dimension(inner, new_prepared, 0.1)
    assert predictive_metrics(pipeline, new, labels) == predictive_metrics(
        inner, new_prepared, labels
    )


def test_a_preparation_that_has_learned_leaves_no_guarantee_on_the_rows_of_the_fit():
    common = {"n_estimators": 6, "alpha": 1.0, "regime": "honest", "center": "partition"}
    pipeline = make_pipeline(
        StandardScaler(), KPPRegressor("extra-trees", random_state=0, **common)
    ).fit(DX, DY)
    alone = KPPRegressor("extra-trees", random_state=0, **common).fit(DX, DY)
    assert any(bound.is_guarantee for bound in risk_bounds(alone, DX, DY, y_range=(0, 400)))
    report = risk_bounds(pipeline, DX, DY, y_range=(0, 400))
    assert not any(bound.is_guarantee for bound in report)
    assert all("prepared" in bound.failing[-1].name for bound in report)
    assert not bound_path(pipeline, DX, DY, y_range=(0, 400)).is_guarantee
    # Rows that neither the preparation nor the model have used are another matter.
    half = make_pipeline(StandardScaler(), KPPRegressor("extra-trees", random_state=0, **common))
    half.fit(DX[::2], DY[::2])
    test = risk_bounds(half, DX[1::2], DY[1::2], sample="test", y_range=(0, 400))
    assert test["held-out bound"].is_guarantee


def test_other_ends_of_a_pipeline_are_refused():
    pipeline = make_pipeline(
        KPPRegressor("extra-trees", n_estimators=2, alpha=1.0), FunctionTransformer()
    )
    with pytest.raises(TypeError, match="last step"):
        risk_bounds(pipeline, DX, DY)


# The folds of a cross-fit model are those of its fit.


@pytest.mark.parametrize("forest", ["extra-trees", [("a", "extra-trees"), ("b", "boosted")]])
def test_folds_are_the_linear_layers_of_the_fit(forest):
    cv = KFold(3, shuffle=True, random_state=0)
    model = KPPClassifier(
        forest, n_estimators=6, combine="joint", regime="cross-fit", cv=cv, random_state=0
    )
    model.fit(X, Y)
    report = risk_bounds(model, X, Y)
    for q, fit in enumerate(model.fits_):
        bound = report[f"CL-03 uniform logistic, fold {q}"]
        assert bound.n_rows == len(fit.rows)
        assert bound.details["B"] == pytest.approx(np.linalg.norm(fit.node_coef), rel=1e-12)
        margin = np.where(Y[fit.rows] == 1, 1, -1) * fit.scores(fit.map)[:, 0]
        assert bound.empirical_risk == pytest.approx(np.logaddexp(0, -margin).mean(), rel=1e-12)


def test_the_target_of_a_fold_without_a_class_is_checked_too():
    cv = KFold(3)
    model = KPPClassifier(
        "extra-trees", n_estimators=6, regime="cross-fit", alpha=0.1, cv=cv, random_state=0
    )
    first = np.isin(np.arange(len(X)), next(cv.split(X))[1])
    model.fit(X, Y, sample_weight=np.where(first & (Y == 1), 0.0, 1.0))
    assert len(diagnose(model, X, Y, sample="fit").margins) == len(X)
    other = Y.copy()
    other[np.flatnonzero(~first)[0]] = 1 - other[np.flatnonzero(~first)[0]]
    with pytest.raises(ValueError, match="this y is another"):
        diagnose(model, X, other, sample="fit")
