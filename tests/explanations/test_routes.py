"""Rows are routed once a question, and not at all when they were routed before."""

import numpy as np
import pytest
from explanations.fitted_models import MODELS, fitted
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kpp.geometry.maps
import kpp.models.embedding
import kpp.scores.additive
import kpp.scores.rows
from kpp import (
    KPPEmbedding,
    KPPRegressor,
    explain,
    explain_distance,
    explain_rules,
    explain_training_rows,
)
from kpp.explanations import AttributionBarDisplay, RuleDisplay, WaterfallDisplay, leave_one_out
from kpp.forest.route import route

MODULES = (kpp.geometry.maps, kpp.models.embedding, kpp.scores.additive, kpp.scores.rows)

# Every question, and how often it may route.
QUESTIONS = {
    # Rows of numbers go straight to scores, without the ids of their leaves.
    "predict": (lambda model, rows, row: model.predict(rows), 0),
    "explain": (lambda model, rows, row: explain(model, rows), 1),
    "explain, centred": (lambda model, rows, row: explain(model, rows, centered=True).summary(), 1),
    "explain, by node": (lambda model, rows, row: explain(model, rows, level="node"), 1),
    "explain_rules": (lambda model, rows, row: explain_rules(model, row), 1),
    "explain_distance": (lambda model, rows, row: explain_distance(model, row, row), 2),
    "explain_training_rows": (lambda model, rows, row: explain_training_rows(model, row), 1),
    "bars": (
        lambda model, rows, row: AttributionBarDisplay.from_estimator(model, rows, output=0),
        1,
    ),
    "waterfall": (lambda model, rows, row: WaterfallDisplay.from_estimator(model, row), 1),
    "rules, drawn": (lambda model, rows, row: RuleDisplay.from_estimator(model, row), 1),
}


@pytest.fixture
def routes(monkeypatch):
    """The forests that rows are routed through, one entry a call."""
    called = []

    def counted(forest, X, **options):
        called.append(forest)
        return route(forest, X, **options)

    for module in MODULES:
        monkeypatch.setattr(module, "route", counted)
    return called


@pytest.fixture(autouse=True)
def no_windows():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


@pytest.mark.parametrize(
    "kind", ["regression", "multiclass", "blocks", "cross-fit", "cross-validated", "partition"]
)
@pytest.mark.parametrize("question", QUESTIONS)
def test_routes_of_a_question(routes, kind, question):
    model, X = fitted(kind)
    ask, most = QUESTIONS[question]
    n_forests = len(model.additive_.blocks)
    routes.clear()  # those of the fit
    ask(model, X[:20], X[3])
    assert len(routes) == most * n_forests
    rows, row = model.at(X[:20]), model.at(X[3:4])
    routes.clear()
    ask(model, rows, row)
    assert routes == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_routes_of_a_pipeline(routes, question):
    _, X = fitted("regression")
    pipeline = make_pipeline(
        StandardScaler(), KPPRegressor("extra-trees", n_estimators=5, alpha=0.1, random_state=0)
    ).fit(X, X[:, 2])
    routes.clear()
    ask, most = QUESTIONS[question]
    ask(pipeline, X[:20], X[3:4] if question == "predict" else X[3])
    assert len(routes) == most


def test_a_distance_in_an_embedding(routes):
    _, X = fitted("regression")
    embedding = KPPEmbedding(n_estimators=5, random_state=0).fit(X, X[:, 2])
    routes.clear()
    plain = explain_distance(embedding, X[3], X[4])
    assert len(routes) == 2
    rows = embedding.at(X)
    routes.clear()
    again = explain_distance(embedding, rows.take([3]), rows.take([4]))
    assert routes == []
    np.testing.assert_array_equal(again.values, plain.values)


def test_leaving_rows_out_routes_nothing(routes):
    model, _ = fitted("regression")
    routes.clear()
    leave_one_out(model, MODELS["regression"][2])
    assert routes == []


def test_rows_of_another_model_are_refused():
    model, X = fitted("regression")
    other, _ = fitted("honest")
    for ask in (explain, explain_rules, explain_training_rows):
        with pytest.raises(ValueError, match="routed by another model"):
            ask(model, other.at(X[:1]))
