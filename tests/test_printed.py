"""`print` of every result: a small table that people read, no dump of arrays."""

from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

import kpp
from kpp import KPPClassifier, KPPRegressor
from kpp.certificates import changes_to

SMALL = {"n_estimators": 6, "random_state": 0}


@cache
def regression():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X, y = X[:150], y[:150]
    return KPPRegressor("extra-trees", cv=3, **SMALL).fit(X, y), X, y


@cache
def classes():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return KPPClassifier("extra-trees", cv=3, **SMALL).fit(X, y), X, y


def raw():
    model, X, _ = regression()
    return kpp.certify_raw(model, X[:3], scale="std", epsilon=30.0, effort=200)


RESULTS = {
    "attribution": lambda m, X, y: kpp.explain(m, X),
    "attribution of a row": lambda m, X, y: kpp.explain(m, X[:1]),
    "nodes": lambda m, X, y: kpp.explain(m, X[:5], level="node"),
    "summary": lambda m, X, y: kpp.explain(m, X).summary(),
    "rules": lambda m, X, y: kpp.explain_rules(m, X.iloc[0]),
    "rule": lambda m, X, y: kpp.explain_rules(m, X.iloc[0]).rules[0],
    "interactions": lambda m, X, y: kpp.explain_interactions(m, X),
    "distance": lambda m, X, y: kpp.explain_distance(m, X.iloc[0], X.iloc[9]),
    "training rows": lambda m, X, y: kpp.explain_training_rows(m, X.iloc[0]),
    "leave one out": lambda m, X, y: kpp.leave_one_out(m, y),
    "certificate": lambda m, X, y: kpp.certify(m, X, epsilon=20.0),
    "raw certificate": lambda m, X, y: raw(),
    "change": lambda m, X, y: changes_to(m, X[:3], raw())[0],
    "curve": lambda m, X, y: kpp.robustness_curve(m, X, y),
    "oracles": lambda m, X, y: kpp.partition_oracles(m, X, y),
    "audit": lambda m, X, y: kpp.audit(m, X[:30]),
    "intervals": lambda m, X, y: m.predict_interval(X, coverage=0.9),
    "forest": lambda m, X, y: m.forest_,
    "rows": lambda m, X, y: m.at(X),
    "additive": lambda m, X, y: m.additive_,
}
OF_CLASSES = {
    "attribution": lambda m, X, y: kpp.explain(m, X),
    "summary": lambda m, X, y: kpp.explain(m, X).summary(),
    "rules": lambda m, X, y: kpp.explain_rules(m, X.iloc[0]),
    "interactions": lambda m, X, y: kpp.explain_interactions(m, X),
    "certificate": lambda m, X, y: kpp.certify(m, X),
    "sets": lambda m, X, y: m.predict_set(X, coverage=0.9),
    "bounds": lambda m, X, y: kpp.risk_bounds(m, X, y)[0],
}
CASES = [(regression, name, make) for name, make in RESULTS.items()]
CASES += [(classes, name, make) for name, make in OF_CLASSES.items()]


@pytest.mark.parametrize(
    ("fitted", "name", "make"), CASES, ids=[f"{f.__name__} {n}" for f, n, _ in CASES]
)
def test_results_print_as_small_tables(fitted, name, make):
    model, X, y = fitted()
    text = str(make(model, X, y))
    lines = text.splitlines()
    assert 1 <= len(lines) <= 20, text
    assert max(map(len, lines)) <= 400, text  # reasons are sentences
    assert "array(" not in text
    assert "<" not in text or "object at 0x" not in text
    assert "<table" not in text


def test_text_has_the_figures_of_the_picture():
    model, X, _ = regression()
    found = kpp.explain_distance(model, X.iloc[0], X.iloc[9])
    part = found.by_variable
    largest = int(np.argmax(part))
    line = next(
        row for row in str(found).splitlines() if row.startswith(found.feature_names[largest])
    )
    assert f"{part[largest]:.4g}" in line
    assert f"{found.total:.4g}" in str(found)


def test_names_of_any_length_and_kind_stay_one_line():
    _, X, y = regression()
    X = X.rename(columns={"bmi": "a\nb" + "c" * 500, "s5": "<b>&amp;"})
    model = KPPRegressor("extra-trees", alpha=1.0, **SMALL).fit(X, y)
    text = str(kpp.explain(model, X))
    assert len(text.splitlines()) <= 20
    assert "<b>&amp;" in text
