"""Rows are routed once, and come in any form: a frame, routed rows, a single row, a Pipeline's."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kpp import KPPClassifier, KPPRegressor, certify, certify_raw, robustness_curve
from kpp.certificates import (
    RobustnessCurveDisplay,
    lipschitz_bound,
    lipschitz_constant,
    stable_change,
    stable_radius,
)
from kpp.certificates.node_tables import NodeTables
from kpp.forest.route import route

X, Y = load_breast_cancer(return_X_y=True)
DX, DY = load_diabetes(return_X_y=True)
SETTINGS = {"n_estimators": 5, "random_state": 0}
CLASSIFIER = KPPClassifier("extra-trees", alpha=1e-3, **SETTINGS).fit(X, Y)
REGRESSOR = KPPRegressor("extra-trees", alpha=0.5, **SETTINGS).fit(DX, DY)


@pytest.fixture
def routed(monkeypatch):
    """The number of rows of every call of route."""
    calls = []

    def counted(forest, rows, **settings):
        calls.append(len(rows))
        return route(forest, rows, **settings)

    for module in ("forest.route", "geometry.maps", "scores.additive", "scores.rows"):
        monkeypatch.setattr(f"kpp.{module}.route", counted)
    return calls


QUESTIONS = {
    "certify": (CLASSIFIER, certify, {}),
    "certify, Lipschitz": (CLASSIFIER, certify, {"method": "lipschitz"}),
    "certify, regression": (REGRESSOR, certify, {"epsilon": 9.0}),
    "curve": (CLASSIFIER, robustness_curve, {"y": Y[:40]}),
    "curve, regression": (REGRESSOR, robustness_curve, {"y": DY[:40]}),
    "curve, Lipschitz": (REGRESSOR, robustness_curve, {"y": DY[:40], "method": "lipschitz"}),
    "bound of pairs": (REGRESSOR, lipschitz_bound, {}),
    "boxes alone": (CLASSIFIER, certify_raw, {"effort": 0}),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_one_route(routed, name):
    model, function, given = QUESTIONS[name]
    rows = X[:40] if model is CLASSIFIER else DX[:40]
    function(model, rows, **given)
    assert routed == [40]
    at = model.at(rows)
    del routed[:]
    function(model, at, **given)
    assert routed == []


def test_counterexamples_are_predicted_in_one_batch(routed):
    certificate = certify_raw(CLASSIFIER, X[:6], effort=2000)
    assert certificate.found.any()
    assert routed == [6]  # counterexamples are numbers, which go straight to scores
    again = certify_raw(CLASSIFIER, CLASSIFIER.at(X[:6]), effort=2000)
    assert routed[1:] == [6]
    assert np.array_equal(again.counterexample, certificate.counterexample, equal_nan=True)


def test_one_route_for_each_block(routed):
    blocks = [("a", "extra-trees"), ("b", "random-forest")]
    model = KPPRegressor(blocks, combine="joint", alpha=0.5, **SETTINGS).fit(DX, DY)
    del routed[:]
    certify(model, DX[:7], epsilon=9.0)
    assert routed == [7, 7]


def test_one_route_for_a_plot_of_two_methods(routed):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    display = RobustnessCurveDisplay.from_estimator(CLASSIFIER, X, Y)
    assert len(display.curves) == 2
    assert routed == [len(X)]
    matplotlib.pyplot.close("all")


def test_rows_of_another_model_are_refused():
    other = KPPClassifier("extra-trees", alpha=1e-2, **SETTINGS).fit(X, Y).at(X)
    for function in (certify, certify_raw):
        with pytest.raises(ValueError, match="routed by another model"):
            function(CLASSIFIER, other)


def radii(model, rows):
    return certify(model, rows).radius, certify_raw(model, rows, effort=2000).radius


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_one_row_in_any_form():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"c{j}" for j in range(30)])
    model = KPPClassifier("extra-trees", alpha=1e-3, **SETTINGS).fit(frame, Y)
    expected = radii(model, frame[3:4])
    assert [len(radius) for radius in expected] == [1, 1]
    shuffled = frame.iloc[3][::-1]
    forms = [X[3], X[3].tolist(), frame.iloc[3], shuffled, dict(shuffled), model.at(frame[3:4])]
    for row in forms:
        assert radii(model, row) == expected
    assert lipschitz_bound(model, frame.iloc[3], frame[:9]).shape == (1, 9)
    with pytest.raises(ValueError, match=r"it lacks \['c0'\]"):
        certify(model, frame.iloc[3].drop("c0"))


def test_a_pipeline_is_certified_on_its_prepared_rows():
    pipeline = make_pipeline(
        StandardScaler(), KPPClassifier("extra-trees", alpha=1e-3, **SETTINGS)
    ).fit(X, Y)
    prepared, model = pipeline[0].transform(X[:9]), pipeline[-1]
    for method in ("leafwise", "lipschitz"):
        assert (
            certify(pipeline, X[:9], method=method).radius.tolist()
            == certify(model, prepared, method=method).radius.tolist()
        )
        curve = robustness_curve(pipeline, X, Y, method=method)
        assert curve(0.0) == pipeline.score(X, Y)
    raw = certify_raw(pipeline, X[:9], scale="std", effort=2000)
    assert raw.scale == pytest.approx(np.ones(30))
    assert (
        raw.radius.tolist()
        == certify_raw(model, prepared, scale="std", effort=2000).radius.tolist()
    )
    # Counterexamples are rows that the last step takes.
    assert raw.found.any()
    changed = model.predict(raw.counterexample[raw.found])
    assert (changed != pipeline.predict(X[:9])[raw.found]).all()
    assert lipschitz_bound(pipeline, X[:9]).tolist() == lipschitz_bound(model, prepared).tolist()
    assert lipschitz_constant(pipeline).tolist() == lipschitz_constant(model).tolist()


def test_a_pipeline_of_raw_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"bmi": DX[:, 2], "size": np.where(DX[:, 0] > 0, "large", "small")})
    preparation = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["size"]), remainder="passthrough"
    )
    pipeline = make_pipeline(preparation, KPPRegressor("extra-trees", alpha=0.5, **SETTINGS)).fit(
        frame, DY
    )
    names = ("onehotencoder__size_large", "onehotencoder__size_small", "remainder__bmi")
    certificate = certify(pipeline, frame, epsilon=20.0)
    assert certificate.feature_names == names
    crossings = certificate.splits_to_cross(int(np.argmin(certificate.radius)))
    assert {certificate.feature_names[c.feature] for c in crossings} <= set(names)
    alone = certify(pipeline, frame.iloc[0], epsilon=20.0)
    assert alone.radius[0] == pytest.approx(certificate.radius[0], rel=1e-9)
    raw = certify_raw(pipeline, frame.iloc[0].to_dict(), epsilon=20.0)
    assert raw.feature_names == names
    assert raw.counterexample.shape == (1, 3)
    assert stable_change(pipeline, stable_radius(pipeline, 5.0)) == pytest.approx(5.0)


def test_scores_without_coefficients_are_refused():
    collapsed = REGRESSOR.collapse()
    tables, expected = NodeTables.of(collapsed), NodeTables.of(REGRESSOR.additive_)
    for name in ("values", "coef", "C", "weight_error"):
        assert np.array_equal(getattr(tables, name), getattr(expected, name))
    # As files of the first format keep them.
    (block,) = collapsed.blocks
    bare = replace(collapsed, blocks=(replace(block, coef=None, squared_scale=None),))
    with pytest.raises(ValueError, match="has path sums only"):
        NodeTables.of(bare)
    with pytest.raises(TypeError, match="got AdditiveForest"):
        certify(bare, DX, epsilon=1.0)
