"""What the report says of intervals and sets: its shares, its sentence, and its rows."""

import numpy as np
import pytest
from reports.subjects import KINDS, data_of, made
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpp import KPPClassifier, KPPRegressor
from kpp.reports import report_data
from kpp.reports.page import render
from kpp.reports.sections.intervals import sentence

WITH_FOLDS = ["binary", "regression", "two left out", "cross-validated"]


def section(kind):
    return data_of(kind)["sections"]["intervals"]


def covered(model, X, y, level):
    if isinstance(model, KPPClassifier):
        sets = model.predict_set(X, level)
        return sets.sets[np.arange(len(y)), np.searchsorted(sets.classes, y)], sets.sizes
    found = model.predict_interval(X, level)
    return (found.lower <= y) & (y <= found.upper), found.width


@pytest.mark.parametrize("kind", WITH_FOLDS)
def test_shares_are_those_of_the_model(kind):
    model, X, y, _ = made(kind)
    (own,) = section(kind)["outputs"]
    inside, size = covered(model, X, y, 0.9)
    assert own["overall"]["share"] == inside.mean()
    assert own["overall"]["size"] == pytest.approx(size.mean(), rel=1e-12)
    assert [one["at"] for one in own["by_level"]] == pytest.approx(np.arange(0.5, 0.96, 0.05))
    for one in own["by_level"]:
        assert one["share"] == covered(model, X, y, round(one["at"], 2))[0].mean()
        assert one["low"] <= one["share"] <= one["high"]
    is_classifier = isinstance(model, KPPClassifier)
    by = model.predict_proba(X).max(axis=1) if is_classifier else model.predict(X)
    bins = np.array_split(np.argsort(by, kind="stable"), 5)
    assert [one["share"] for one in own["by_prediction"]] == [inside[b].mean() for b in bins]
    assert [one["at"] for one in own["by_prediction"]] == pytest.approx(
        [by[b].mean() for b in bins], rel=1e-12
    )


@pytest.mark.parametrize("kind", WITH_FOLDS)
def test_rows_to_explore_have_theirs(kind):
    model, X, y, _ = made(kind)
    rows = data_of(kind)["sections"]["rows"]
    inside, _ = covered(model, X, y, 0.9)
    assert [row["range"]["covers"] for row in rows["rows"]] == [
        bool(inside[row["row"]]) for row in rows["rows"]
    ]
    if isinstance(model, KPPClassifier):
        assert rows["range_name"] == "90% set"
        labels = model.predict_set(X, 0.9).labels
        texts = [", ".join(labels[row["row"]]) or "no class" for row in rows["rows"]]
        assert [row["range"]["text"] for row in rows["rows"]] == texts
    else:
        assert rows["range_name"] == "90% interval"
        found = model.predict_interval(X, 0.9)
        for row in rows["rows"]:
            low, high = (
                float(part.replace("−", "-")) for part in row["range"]["text"].split(" to ")
            )
            assert low == pytest.approx(found.lower[row["row"]], rel=1e-3, abs=0.1)
            assert high == pytest.approx(found.upper[row["row"]], rel=1e-3)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in WITH_FOLDS])
def test_a_model_without_folds_says_so(kind):
    found = section(kind)
    assert found["outputs"] == []
    assert found["sentence"].startswith("No coverage is guaranteed, because this model gives no")
    assert "alphas=[alpha]" in found["why"]
    assert all(row["range"] is None for row in data_of(kind)["sections"]["rows"]["rows"])


def test_the_sentence_says_what_fails():
    assert section("binary")["sentence"].startswith(
        "No coverage is guaranteed, because folds are stratified; and because alpha was chosen"
    )
    assert section("regression")["sentence"].startswith(
        "No coverage is guaranteed, because alpha was chosen"
    )


def test_the_sentence_of_a_guarantee():
    X, y = load_diabetes(return_X_y=True)
    model = KPPRegressor(
        "extra-trees",
        n_estimators=5,
        regime="honest",
        alphas=[1.0],
        cv=KFold(5, shuffle=True, random_state=0),
        random_state=0,
    ).fit(X[:200], y[:200])
    data = report_data(model, X[200:], y[200:], max_rows=1)
    found = data["sections"]["intervals"]
    # 1 - 2 / 10 - 4 / 5 * 2 / 21, or less with the other term, 0.95 / 6.
    assert found["proven"] == pytest.approx(1 - 0.2 - 1.6 / 21, rel=1e-12)
    assert found["sentence"] == (
        "At least 72.4% of such intervals are guaranteed to hold the true value, on average over "
        "training sets and new rows, if rows are drawn alike (that is taken on trust); they aim at "
        "90%. Also taken on trust: alpha fixed without these labels."
    )
    assert found["sentence"] in render(data)
    nothing = model.predict_interval(X[200:], 0.5)
    assert sentence(nothing).endswith("at this level 100 rows in 5 folds prove nothing.")


def test_sets_hold_a_class_and_copies_are_draws_where_the_report_was_told_so():
    X, y = load_diabetes(return_X_y=True)
    y = (y > 140).astype(int)
    X, y = np.vstack([X, X[:3]]), np.concatenate([y, y[:3]])
    model = KPPClassifier(
        "extra-trees", n_estimators=5, regime="cross-validated", cv=3, alphas=[1.0], random_state=0
    ).fit(X[200:], y[200:])
    X[-3:] = X[200:203]
    model.fit(X[200:], y[200:])
    found, told = (
        report_data(model, X[:200], y[:200], max_rows=1, **given)["sections"]["intervals"]
        for given in ({}, {"independent_duplicates": True})
    )
    assert found["sentence"].startswith(
        "No coverage is guaranteed, because 6 of the 245 rows of the fit equal another row"
    )
    assert "of such sets are guaranteed to hold the true class, on average" in told["sentence"]


def test_a_preparation_that_has_learned_leaves_no_guarantee():
    X, y = load_diabetes(return_X_y=True)
    model = KPPRegressor(
        "extra-trees", n_estimators=5, regime="cross-validated", cv=3, alphas=[1.0], random_state=0
    )
    pipeline = make_pipeline(StandardScaler(), model).fit(X[:200], y[:200])
    found = report_data(pipeline, X[200:], y[200:], max_rows=1)["sections"]["intervals"]
    assert not found["is_guarantee"]
    assert "because the preparation was fitted on all rows of the fit" in found["sentence"]
    assert [own["name"] for own in found["conditions"] if own["holds"] is False] == [
        "columns prepared without these rows"
    ]


def test_several_targets_have_a_share_each():
    X, y = load_diabetes(return_X_y=True)
    y = np.column_stack([y, X[:, 2]])
    model = KPPRegressor("extra-trees", n_estimators=5, cv=3, random_state=0).fit(X[:90], y[:90])
    data = report_data(model, X[90:150], y[90:150], max_rows=2)
    found = model.predict_interval(X[90:150], 0.9)
    inside = (found.lower <= y[90:150]) & (y[90:150] <= found.upper)
    outputs = data["sections"]["intervals"]["outputs"]
    assert [own["overall"]["share"] for own in outputs] == inside.mean(axis=0).tolist()
    for row in data["sections"]["rows"]["rows"]:
        assert row["range"]["covers"] == inside[row["row"]].all()
    assert render(data).count("Asked for and covered") == 2


@pytest.mark.parametrize(
    "given", [{"loss": "quantile", "quantile": 0.7}, {"loss": "poisson"}], ids=str
)
def test_other_losses_have_the_widths_of_predict_interval(given):
    X, y = load_diabetes(return_X_y=True)
    options = {"n_estimators": 5, "cv": 3, "alphas": [0.1, 1.0], "random_state": 0}
    model = KPPRegressor("extra-trees", **options, **given).fit(X[:100], y[:100])
    X, y = X[100:200], y[100:200]
    data = report_data(model, X, y, max_rows=2)
    (own,) = data["sections"]["intervals"]["outputs"]
    inside, size = covered(model, X, y, 0.9)
    assert own["overall"]["share"] == inside.mean()
    assert own["overall"]["size"] == pytest.approx(size.mean(), rel=1e-12)
    adaptive = model.predict_interval(X, 0.9, width="adaptive")
    assert own["overall"]["size"] == pytest.approx(adaptive.width.mean(), rel=1e-12)
    # Bins have the mean prediction, in units of the target.
    by = np.sort(model.predict(X))
    assert [one["at"] for one in own["by_prediction"]] == pytest.approx(
        by.reshape(5, 20).mean(axis=1), rel=1e-12
    )
    for row in data["sections"]["rows"]["rows"]:
        assert row["range"]["covers"] == inside[row["row"]]
