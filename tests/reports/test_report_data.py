"""The content of the report against other people's software, and against the library itself."""

import json
import re

import numpy as np
import pytest
from reports.subjects import KINDS, MAX_ROWS, data_of, made, table
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import (
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skrub import TableVectorizer

from kpp import (
    KPPClassifier,
    KPPRegressor,
    certify,
    certify_raw,
    explain,
    path_distance,
    risk_bounds,
)
from kpp._checks import RefusedError
from kpp.bounds import Assumption, Bound
from kpp.diagnostics.intervals import wilson
from kpp.models.pipelines import prepared, split_pipeline
from kpp.reports import report_data
from kpp.reports.charts import covered
from kpp.reports.dotplot import Dot, dot_plot
from kpp.reports.out_of_fold import out_of_fold_note
from kpp.reports.page import render
from kpp.reports.sections.bounds import level_words, quantity_words, sentence
from kpp.reports.sections.picture import components
from kpp.reports.sections.variables import effect
from kpp.tables.numbers import number

SECTIONS = [
    "summary",
    "fitted",
    "quality",
    "comparison",
    "segments",
    "alpha",
    "intervals",
    "variables",
    "rows",
    "whatif",
    "picture",
    "robustness",
    "bounds",
    "data",
    "findings",
    "appendix",
]
# What a model does not support: everything else must be made.
NOT_MADE = {"leaves": ["variables", "whatif"], "several targets": ["findings"]}


def section(kind, name):
    found = data_of(kind)["sections"][name]
    assert found["made"], found
    return found


def lines(kind, k=0):
    return {line["name"]: line for line in section(kind, "quality")["tables"][k]["lines"]}


@pytest.mark.parametrize("kind", KINDS)
def test_every_section_of_every_kind(kind):
    data = data_of(kind)
    # Rivals are fitted to one target.
    left_out = ["comparison"] if kind == "several targets" else []
    assert list(data["sections"]) == [name for name in SECTIONS if name not in left_out]
    missing = [name for name, one in data["sections"].items() if not one["made"]]
    assert missing == NOT_MADE.get(kind, [])
    problems = data["sections"]["rows"]["problems"]
    assert list(problems) == (["waterfalls"] if kind == "leaves" else [])
    # Plain JSON, also for those who do not accept NaN.
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_what_cannot_be_made_says_why():
    assert "coordinates='leaf'" in data_of("leaves")["sections"]["variables"]["why"]
    assert "one target" in data_of("several targets")["sections"]["findings"]["why"]
    assert any("one target" in note for note in section("several targets", "bounds")["notes"])


@pytest.mark.parametrize(
    "broken",
    [
        "kpp.reports.sections.variables.effect",
        "kpp.reports.sections.rows.certify",
        "kpp.reports.sections.row_details.explain_rules",
        "kpp.reports.sections.bounds.risk_bounds",
        "kpp.reports.sections.findings.diagnose",
    ],
)
@pytest.mark.parametrize("error", [ValueError, TypeError, IndexError])
def test_a_mistake_in_a_section_is_raised_not_shown(monkeypatch, broken, error):
    def fail(*arguments, **settings):
        raise error("shapes do not match")

    monkeypatch.setattr(broken, fail)
    model, X, y, _ = made("multiclass")
    with pytest.raises(error, match="shapes do not match"):
        report_data(model, X, y, max_rows=1)


def test_a_refusal_of_a_part_or_of_a_bound_is_shown(monkeypatch):
    def refuse(*arguments, **settings):
        raise RefusedError("no answer for this model")

    monkeypatch.setattr("kpp.reports.sections.row_details.explain_training_rows", refuse)
    monkeypatch.setattr("kpp.reports.sections.bounds.risk_bounds", refuse)
    model, X, y, _ = made("multiclass")
    data = report_data(model, X, y, max_rows=1)
    assert data["sections"]["rows"]["problems"] == {"carriers": "no answer for this model"}
    notes = data["sections"]["bounds"]["notes"]
    assert "No bounds on the test rows: no answer for this model" in notes
    assert "no answer for this model" in render(data)


def test_rows_that_were_not_given_to_fit_are_said_to_be_others():
    model, X, y, (train_X, train_y) = made("binary")
    data = report_data(model, X, y, train=(train_X[::-1], train_y[::-1]), max_rows=1)
    notes = " ".join(data["sections"]["bounds"]["notes"])
    assert "No bounds on the fit rows: sample='fit' takes the X and y that were given" in notes


# How good.


def test_scores_of_a_classifier_are_those_of_scikit_learn():
    model, X, y, (train_X, train_y) = made("binary")
    found = lines("binary")
    probability = model.predict_proba(X)
    oracle = {
        "Accuracy": model.score(X, y),
        "Balanced accuracy": balanced_accuracy_score(y, model.predict(X)),
        "Log loss": log_loss(y, probability, labels=model.classes_),
        "Area under the ROC curve": roc_auc_score(y, probability[:, 1]),
        "Brier score": brier_score_loss(y == model.classes_[1], probability[:, 1]),
    }
    assert {name: found[name]["test"] for name in oracle} == pytest.approx(oracle, rel=1e-12)
    for line in found.values():
        assert line["low"] <= line["test"] <= line["high"]
    # The constant is that of the training rows.
    classes, counts = np.unique(train_y, return_counts=True)
    assert found["Accuracy"]["baseline"] == np.mean(y == classes[counts.argmax()])
    shares = np.tile(counts / counts.sum(), (len(y), 1))
    assert found["Log loss"]["baseline"] == pytest.approx(log_loss(y, shares), rel=1e-12)
    assert found["Area under the ROC curve"]["baseline"] == 0.5
    fold = model.oof_prediction_
    assert found["Log loss"]["out_of_fold"] == pytest.approx(log_loss(train_y, fold), rel=1e-12)
    assert len(train_X) == len(fold)


def test_scores_of_several_classes_are_those_of_scikit_learn():
    model, X, y, _ = made("multiclass")
    found = lines("multiclass")
    probability = model.predict_proba(X)
    auc = roc_auc_score(y, probability, multi_class="ovr")
    assert found["Area under the ROC curve"]["test"] == pytest.approx(auc, rel=1e-12)
    assert found["Log loss"]["test"] == pytest.approx(log_loss(y, probability), rel=1e-12)


def test_scores_of_a_regressor_are_those_of_scikit_learn():
    model, X, y, (_, train_y) = made("regression")
    found = lines("regression")
    names = [
        "Root mean squared error",
        "Mean absolute error",
        "R²: share of the variance explained",
    ]
    scores = [root_mean_squared_error, mean_absolute_error, r2_score]
    for name, score in zip(names, scores, strict=True):
        assert found[name]["test"] == pytest.approx(score(y, model.predict(X)), rel=1e-12)
        fold = score(train_y, model.oof_prediction_)
        assert found[name]["out_of_fold"] == pytest.approx(fold, rel=1e-12)
    for name, score in zip(names, scores, strict=True):
        constant = score(y, np.full(len(y), train_y.mean()))
        assert found[name]["baseline"] == pytest.approx(constant, rel=1e-9, abs=1e-12)


def test_a_model_that_is_no_better_than_a_constant_is_a_warning_on_the_first_screen():
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(400, 3)), rng.integers(0, 3, 400)
    for y, estimator in ((noise, KPPClassifier), (noise + rng.normal(size=400), KPPRegressor)):
        model = estimator(n_estimators=25, alpha=1.0, random_state=0).fit(X[:200], y[:200])
        data = report_data(model, X[200:], y[200:], max_rows=1)
        assert data["cautions"]
        assert "not known to be better than a constant" in data["cautions"][0]
        page = render(data)
        assert page.index("not known to be better") < page.index('class="tiles"')
    assert report_data(*made("binary")[:3], max_rows=1)["cautions"] == []


def test_variables_are_sorted_by_what_is_shown_of_many_classes():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(360, 8)), np.arange(360) % 14
    X[:, 0] += 3 * (y == 13)
    X[:, 1] += y
    X[:, 2] += 2 * (y % 2)
    model = KPPClassifier("extra-trees", n_estimators=20, alpha=1e-3, random_state=0).fit(
        X[:240], y[:240]
    )
    section = report_data(model, X[240:], y[240:], max_rows=1)["sections"]["variables"]
    assert len(section["outputs"]) == 10
    sizes = [sum(v["mean_abs"]) for v in section["variables"]]
    assert sizes == sorted(sizes, reverse=True)


def test_no_area_under_the_curve_has_a_reason():
    model, X, y, _ = made("binary")
    only = y == model.classes_[0]
    data = report_data(model, X[only], y[only], max_rows=1)
    line = data["sections"]["quality"]["tables"][0]["lines"][2]
    assert line["test"] is None
    assert line["why"] == f"not defined: none of these rows is of class '{model.classes_[1]}'"
    assert "not defined: none of these rows" in render(data)


def test_rows_without_weight_do_not_count():
    model, X, y, _ = made("binary")
    weight = np.ones(len(y))
    weight[::4] = 0
    kept = weight > 0
    one = report_data(model, X, y, sample_weight=weight, max_rows=1, times=False)
    two = report_data(model, X[kept], y[kept], max_rows=1, times=False)
    for a, b in zip(
        *(d["sections"]["quality"]["tables"][0]["lines"] for d in (one, two)), strict=True
    ):
        assert a["test"] == pytest.approx(b["test"], rel=1e-12)
        assert a["baseline"] == pytest.approx(b["baseline"], rel=1e-12)
    sizes = [
        {v["name"]: v["mean_abs"][0] for v in d["sections"]["variables"]["variables"]}
        for d in (one, two)
    ]
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-9)


def test_without_training_rows_the_search_speaks_for_the_folds():
    model, X, y, _ = made("regression")
    data = report_data(model, X, y, max_rows=1, times=False)["sections"]
    rmse = np.sqrt(-model.cv_scores_.max())
    assert f"{rmse:.4g}" in data["quality"]["out_of_fold_note"]
    assert data["quality"]["tables"][0]["lines"][0]["out_of_fold"] is None
    assert [one["sample"] for one in data["bounds"]["samples"]] == ["test"]
    near = data["rows"]["rows"][0]["neighbours"]["fit"]
    assert [one["actual"] for one in near] == [None] * len(near)


@pytest.mark.parametrize(("right", "n"), [(0, 5), (7, 9), (50, 50), (123, 400)])
def test_wilson_is_that_of_scipy(right, n):
    oracle = binomtest(right, n).proportion_ci(method="wilson")
    assert wilson(right / n, n) == pytest.approx((oracle.low, oracle.high), abs=1e-12)


def test_confusion_and_calibration():
    model, X, y, _ = made("multiclass")
    found = section("multiclass", "quality")
    assert found["confusion"]["counts"] == confusion_matrix(y, model.predict(X)).tolist()
    bins = found["calibration"]["bins"]
    assert sum(one["n_rows"] for one in bins) == len(y)
    observed = sum(one["observed"] * one["n_rows"] for one in bins) / len(y)
    assert observed == pytest.approx(model.score(X, y))
    predicted = [one["predicted"] for one in bins]
    assert predicted == sorted(predicted)


def test_many_classes_are_put_together():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(14), 12)
    X = y[:, None] + rng.normal(size=(len(y), 2))
    model = KPPClassifier("extra-trees", n_estimators=5, alpha=1e-1, random_state=0).fit(
        X[::2], y[::2]
    )
    X, y = X[1::2], y[1::2]
    data = report_data(model, X, y, max_rows=1, times=False)
    found = data["sections"]
    page = render(data)
    assert page.count('diagonal">') == 9
    assert "these 10 together" in page
    assert "all together" not in page
    counts = np.array(found["quality"]["confusion"]["counts"])
    assert found["quality"]["confusion"]["classes"][-1] == "(others)"
    assert counts.sum() == len(y)
    assert counts.shape == (10, 10)
    # The last cell holds errors between the others too; these are told apart.
    actual = confusion_matrix(y, model.predict(X))
    kept = [int(name) for name in found["quality"]["confusion"]["classes"][:-1]]
    rest = np.setdiff1d(np.arange(14), kept)
    others = found["quality"]["confusion"]["others"]
    assert others["n_classes"] == 5
    assert others["right"] == actual[rest, rest].sum()
    assert others["right"] + others["wrong"] == actual[np.ix_(rest, rest)].sum() == counts[-1, -1]
    assert others["wrong"] > 0
    assert found["variables"]["n_outputs"] == 14
    assert len(found["variables"]["outputs"]) == 10
    assert len(found["picture"]["groups"]) == 10


def test_the_density_and_the_residuals_hold_every_row():
    chart = section("regression", "quality")["charts"][0]
    n_rows = len(made("regression")[2])
    assert sum(n for _, _, n in chart["density"]["cells"]) == n_rows
    assert sum(chart["residuals"]["counts"]) == n_rows


def test_the_alpha_curve():
    model = made("binary")[0]
    found = section("binary", "alpha")
    chosen = [point for point in found["points"] if point["chosen"]]
    assert len(chosen) == 1
    assert chosen[0]["alpha"] == pytest.approx(model.alpha_)
    assert chosen[0]["value"] == pytest.approx(-model.cv_scores_.max())
    assert section("multiclass", "alpha")["points"] == []


# What matters.


@pytest.mark.parametrize("kind", ["binary", "regression", "boosted"])
def test_mean_contributions_are_those_of_the_library(kind):
    model, X, _, _ = made(kind)
    summary = explain(model, X, centered=True).summary()
    oracle = dict(zip(summary.feature_names, summary.mean_abs, strict=True))
    found = section(kind, "variables")["variables"]
    assert {v["name"]: v["mean_abs"][0] for v in found} == pytest.approx(oracle)
    assert [v["mean_abs"][0] for v in found] == sorted(oracle.values(), reverse=True)


@pytest.mark.parametrize("kind", ["table", "scaled"])
def test_contributions_of_prepared_columns_sum_to_the_users(kind):
    pipeline, X, _, _ = made(kind)
    preparation, model = split_pipeline(pipeline)
    attribution = explain(model, prepared(preparation, X), centered=True)
    names = np.array(attribution.feature_names)
    for variable in section(kind, "variables")["variables"]:
        if kind == "table":
            own = np.char.startswith(names.astype(str), variable["name"])
        else:
            own = np.array(list(X.columns)) == variable["name"]
        size = np.abs(attribution.values[:, own].sum(axis=1)).mean()
        assert variable["mean_abs"][0] == pytest.approx(size)
    assert {v["name"] for v in section(kind, "variables")["variables"]} == set(X.columns)


def test_effects_are_means_of_the_rows_in_each_bin():
    rng = np.random.default_rng(0)
    column = rng.normal(size=300)
    column[::10] = np.nan
    values = rng.normal(size=(300, 2))
    found = effect(column, values)
    assert found["kind"] == "number"
    assert sum(one["n"] for one in found["bins"]) == 300
    for one in found["bins"][:-1]:
        rows = (column >= one["low"]) & (column <= one["high"])
        assert one["n"] == rows.sum()
        np.testing.assert_allclose(one["mean"], values[rows].mean(axis=0), rtol=1e-12)
    last = found["bins"][-1]
    assert (last["label"], last["n"]) == ("missing", 30)


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (np.array(["b", "a", None, "b"], dtype=object), ["b", "a", "missing"]),
        (np.array([f"c{i % 14:02}" for i in range(140)], dtype=object), None),
        (
            np.array(["2020-01-05", "NaT", "2021-01-01"], dtype="datetime64[ns]"),
            ["2020-01-05", "2021-01-01", "missing"],
        ),
    ],
)
def test_effects_of_names_and_times(column, labels):
    found = effect(column, np.ones((len(column), 1)))
    assert found["kind"] == "category"
    assert sum(one["n"] for one in found["bins"]) == len(column)
    got = [one["label"] for one in found["bins"]]
    assert got == labels if labels else got[-1] == "(others)" and len(got) == 11


def test_values_that_are_not_finite_have_bins():
    column = np.r_[np.arange(100.0), np.inf, -np.inf, np.inf]
    found = effect(column, np.arange(103.0)[:, None])
    assert sum(one["n"] for one in found["bins"]) == 103


# Rows.


@pytest.mark.parametrize("kind", ["binary", "multiclass", "several targets", "table", "cross-fit"])
def test_the_parts_of_a_row_sum_to_its_score(kind):
    pipeline, X, _, _ = made(kind)
    preparation, model = split_pipeline(pipeline)
    X = prepared(preparation, X)
    scores = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    scores = np.asarray(scores).reshape(len(scores), -1)
    for row in section(kind, "rows")["rows"]:
        for one in row["waterfalls"]:
            total = one["baseline"] + one["others"] + sum(t["contribution"] for t in one["terms"])
            assert total == pytest.approx(one["score"], rel=1e-9, abs=1e-9)
            own = scores[row["row"]]
            if kind == "binary" and one["output"] == str(model.classes_[0]):
                own = -own  # of two classes the first has minus the score
            assert np.isclose(own, one["score"]).any()
        rules = row["rules"]
        total = rules["baseline"] + rules["others"]
        total += sum(rule["contribution"] for rule in rules["rules"])
        assert total == pytest.approx(rules["score"], rel=1e-9, abs=1e-9)
        carriers = row["carriers"]
        total = carriers["intercept"] + carriers["partition"] + carriers["others"]
        total += sum(one["contribution"] for one in carriers["rows"])
        assert total == pytest.approx(carriers["score"], rel=1e-7, abs=1e-7)


def test_several_classes_explain_the_predicted_and_the_true_one():
    model, X, y, _ = made("multiclass")
    prediction = model.predict(X)
    for row in section("multiclass", "rows")["rows"]:
        told = [one["output"] for one in row["waterfalls"]]
        wanted = dict.fromkeys([str(prediction[row["row"]]), str(y[row["row"]])])
        assert told == list(wanted)


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_certificates_of_rows_are_those_of_the_library(kind):
    model, X, y, _ = made(kind)
    found = section(kind, "rows")
    epsilon = None if kind == "binary" else root_mean_squared_error(y, model.predict(X))
    assert found["epsilon"] == (None if epsilon is None else pytest.approx(epsilon))
    oracle = certify(model, X, epsilon=found["epsilon"])
    for row in found["rows"]:
        i = row["row"]
        assert row["radius"] == pytest.approx(oracle.radius[i], abs=1e-12)
        assert row["lipschitz"] == pytest.approx(oracle.lipschitz[i], abs=1e-12)
        least = certify_raw(model, X[i : i + 1], scale="std", epsilon=found["epsilon"], effort=0)
        assert row["raw"]["radius"] >= least.radius[0]
        if row["raw"]["counterexample_at"] is not None:
            assert row["raw"]["radius"] <= row["raw"]["counterexample_at"]


def test_neighbours_are_the_nearest_by_path():
    model, X, y, (train_X, train_y) = made("binary")
    to_fit = path_distance(model, X, train_X)
    to_test = path_distance(model, X)
    np.fill_diagonal(to_test, np.inf)
    for row in section("binary", "rows")["rows"]:
        i, near = row["row"], row["neighbours"]
        oracle = np.sort(to_fit[i])[:5]
        np.testing.assert_allclose([n["distance"] for n in near["fit"]], oracle, atol=1e-15)
        assert [n["actual"] for n in near["fit"]] == [train_y[n["row"]] for n in near["fit"]]
        np.testing.assert_allclose(
            [n["distance"] for n in near["test"]], np.sort(to_test[i])[:5], atol=1e-15
        )
        assert [n["actual"] for n in near["test"]] == [y[n["row"]] for n in near["test"]]
        assert i not in [n["row"] for n in near["test"]]


def test_rows_are_chosen_by_error_by_radius_and_at_random():
    model, X, y, _ = made("binary")
    rows = section("binary", "rows")["rows"]
    own = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    worst = np.argsort(own, kind="stable")[:2]
    by_reason = {}
    for row in rows:
        by_reason.setdefault(row["reason"], []).append(row["row"])
    assert by_reason["large error"] == worst.tolist()
    radius = certify(model, X).radius
    left = [i for i in np.argsort(radius, kind="stable").tolist() if i not in worst]
    assert by_reason["small radius"] == left[:2]
    assert len({row["row"] for row in rows}) == len(rows) == MAX_ROWS


def test_values_are_those_of_the_users_table():
    X = made("table")[1]
    found = section("table", "rows")
    assert set(found["value_variables"]) == {"size", "colour", "when"}
    for row in found["rows"]:
        told = dict(zip(found["value_variables"], row["values"], strict=True))
        own = X.iloc[row["row"]]
        assert told["colour"] == own["colour"]
        assert told["when"].startswith(str(own["when"].date()))
        assert (told["size"] == "missing") == np.isnan(own["size"])


# The picture, robustness, bounds.


@pytest.mark.parametrize("n_rows", [30, 120])
def test_the_picture_is_the_principal_components_of_the_embedding(n_rows):
    X, y = table(n_rows)
    X = X[["size"]].fillna(0).assign(again=np.arange(n_rows) % 7)
    model = KPPRegressor("extra-trees", n_estimators=10, alpha=0.1, random_state=0).fit(X, y)
    block = model.map_.on(X)
    places, shares = components(block)
    oracle = PCA(2, svd_solver="full").fit(block.to_csr().toarray())
    np.testing.assert_allclose(shares, oracle.explained_variance_ratio_, rtol=1e-9)
    other = oracle.transform(block.to_csr().toarray())
    np.testing.assert_allclose(np.abs(places), np.abs(other), atol=1e-8)


def test_the_leafwise_curve_is_never_below_the_papers():
    found = section("binary", "robustness")
    assert found["leafwise"][0] == pytest.approx(lines("binary")["Accuracy"]["test"])
    assert (np.array(found["leafwise"]) >= found["lipschitz"]).all()
    found = section("regression", "robustness")
    assert found["leafwise"][0] == pytest.approx(
        lines("regression")["Root mean squared error"]["test"]
    )
    assert (np.array(found["leafwise"]) <= np.array(found["lipschitz"]) + 1e-9).all()


def test_radii_name_their_metric():
    assert section("binary", "robustness")["normalize"] == "forest"
    assert section("binary", "rows")["radius_unit"] == "in δ_T"
    assert "a distance through the trees (δ_T, the" in render(data_of("binary"))
    X, y = load_breast_cancer(return_X_y=True)
    model = KPPClassifier(
        "extra-trees", n_estimators=4, alpha=1e-3, normalize="tree", random_state=0
    )
    data = report_data(model.fit(X[:150], y[:150]), X[150:200], y[150:200], max_rows=2)
    assert data["sections"]["robustness"]["normalize"] == "tree"
    assert data["sections"]["rows"]["radius_unit"] == "in δ_K"
    page = render(data)
    assert "a distance through the trees (δ_K, the" in page
    assert "radius in δ_K (" in page


def test_a_learned_preparation_voids_bounds_on_the_rows_of_the_fit():
    """The theorems condition on the partition fold; a scaling of all rows has seen the other."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    honest = KPPClassifier(
        "extra-trees",
        regime="honest",
        center="partition",
        n_estimators=10,
        alpha=1e-3,
        random_state=0,
    )
    guarantees = {}
    for preparation in (None, "passthrough", StandardScaler(), TableVectorizer()):
        steps = [] if preparation is None else [preparation]
        model = make_pipeline(*steps, clone(honest)).fit(X[:400], y[:400])
        found = report_data(model, X[400:], y[400:], train=(X[:400], y[:400]), max_rows=2)
        samples = {s["sample"]: s for s in found["sections"]["bounds"]["samples"]}
        guarantees[str(preparation)] = [
            any(b["is_guarantee"] for b in samples[name]["bounds"]) for name in ("test", "fit")
        ]
    both, test_only = [True, True], [True, False]
    # skrub's passes numbers through, and has learned nothing.
    assert list(guarantees.values()) == [both, both, test_only, both]


def test_sentences_of_bounds_claim_no_more_than_the_bound():
    samples = [
        s
        for kind in ("binary", "honest", "fixed", "cross-fit", "regression")
        for s in section(kind, "bounds")["samples"]
    ]
    seen = set()
    for bound in (bound for sample in samples for bound in sample["bounds"]):
        text = bound["sentence"]
        seen.add((bound["is_guarantee"], bound["is_trivial"]))
        if not bound["is_guarantee"]:
            assert "Not a guarantee" in text or "Not guaranteed" in text
            assert "With probability" not in text
        elif bound["quantity"] != "Rademacher complexity":
            assert "With probability at least" in text
            assert ("says nothing" in text) == bound["is_trivial"]
    assert {(True, False), (False, True), (False, False)} <= seen


def test_bounds_over_folds_say_of_what_they_are_and_what_each_part_is_paid_for():
    model, X, y, train = made("two left out")
    data = report_data(model, X, y, train=train, max_rows=1, times=False)
    found = {b["name"]: b for s in data["sections"]["bounds"]["samples"] for b in s["bounds"]}
    both = f"the draw of the {len(train[1])} rows and of {len(y)} rows without their labels, the"
    page = render(data)
    for name, of in (("vote by dissent", "a part and the vote"), ("model", "a part and the model")):
        bound = found[f"cross-validated {name}"]
        # A number above 1 needs no rows.
        assert both in bound["sentence"] or not bound["is_guarantee"]
        assert bound["price_of"].endswith(f"without labels on which {of} disagree")
        assert f"{number(bound['complexity'])} {bound['price_of']}" in page
    vote = found["cross-validated vote"]
    assert both not in vote["sentence"]
    # Of three parts two are wrong where the vote is.
    assert vote["price_of"] == "for the vote, which may err 1.5 times as often as its parts do"
    assert vote["complexity"] == pytest.approx(vote["empirical_risk"] / 2)
    for bound in found.values():
        chosen = f"{number(bound['complexity'])} for having chosen the model on it"
        assert bound["complexity"] or chosen not in page
    assert "the error that the model would have" not in page


def test_the_quantity_of_a_bound_reads_as_words():
    model, X, y, train = made("cross-validated")
    data = report_data(model, X, y, train=train, max_rows=1, times=False, y_range=(0.0, 400.0))
    (bound,) = (b for b in data["sections"]["bounds"]["samples"][1]["bounds"])
    said = "the clipped squared loss of the mean of the folds' predictions, each clipped to the"
    assert f"{said} limits, is at most" in bound["sentence"]
    assert quantity_words("0/1 error: of the vote, a random row of a random group") == (
        "0/1 error of the vote, for a random row of a random group"
    )


@pytest.mark.parametrize("holds", [True, False])
def test_a_share_above_one_is_not_printed_as_one(holds):
    rows = Assumption("independent rows", holds, "because")
    bound = Bound("a", "0/1 error", 0.6, 0.5, 0.08, 0.4, "fixed", "fit", 9, assumptions=(rows,))
    assert "1.18" not in sentence(bound)
    assert "above 1" in sentence(bound)
    assert sentence(bound).startswith("With probability" if holds else "Not a guarantee")
    # Other losses may well be above 1.
    other = Bound("a", "log loss", 0.6, 0.5, 0.08, 2.0, "fixed", "fit", 9, assumptions=(rows,))
    assert "1.18" in sentence(other)


def test_what_adds_to_training_rows_is_called_by_its_name():
    def other(model, X):
        data = report_data(model, X[:40], y[:40], max_rows=1, times=False)
        carrier = data["sections"]["rows"]["rows"][0]["carriers"]
        return carrier["partition"], carrier["partition_from"]

    X, y = load_breast_cancer(return_X_y=True)
    several = [("a", "extra-trees"), ("b", ExtraTreesClassifier(6, max_depth=2))]
    settings = {"n_estimators": 6, "random_state": 0}
    blend = KPPClassifier(several, **settings).fit(X[40:], y[40:])
    assert other(blend, X)[1] == "the bare ensembles"
    honest = {"regime": "honest", "center": "partition", "alpha": 0.1}
    centred = KPPClassifier("extra-trees", **honest, **settings).fit(X[40:], y[40:])
    assert other(centred, X)[1] == "the partition model"
    plain = KPPClassifier("extra-trees", alpha=0.1, **settings).fit(X[40:], y[40:])
    assert other(plain, X) == (0.0, "")


def test_bins_of_probabilities_stand_side_by_side():
    """Four of five may have nearly the same probability."""
    share = {"share": 0.9, "low": 0.8, "high": 1.0, "size": 1.0, "n_rows": 20}
    bins = [share | {"at": at} for at in (0.7, 0.998, 0.999, 1.0, 1.0)]
    places = {True: [], False: []}
    for is_sets, found in places.items():
        drawn = str(covered(bins, 0.9, is_sets=is_sets))
        found += map(float, re.findall('class="dot first" cx="([^"]+)"', drawn))
        if is_sets:
            texts = re.findall('text-anchor="middle">([^<]+)%<', drawn)
            assert texts == ["70.0", "99.8", "99.9", "100", "100"]
    assert min(np.diff(places[True])) == pytest.approx(max(np.diff(places[True])), abs=0.2)
    assert min(np.diff(places[True])) > 50
    # Predicted numbers are spread out, and stand where they are.
    assert min(np.diff(places[False])) == 0


def test_no_line_of_a_plot_of_differences_runs_through_a_name():
    drawn = str(dot_plot([Dot(f"rival {k}", 0.1 * k, -1.0, 1.0) for k in range(4)], "x", "y"))
    names = [float(y) for y in re.findall('class="name over" x="[^"]+" y="([^"]+)"', drawn)]
    lines = re.findall('class="(?:grid|line reference)" d="([^"]+)"', drawn)
    assert len(lines) > 2
    for line in lines:
        for one in line.removeprefix("M").split("M"):
            top, *ends = (float(y) for y in one.split(" ")[1].split("V"))
            # A letter of 13 px is as much above its line, and a quarter below.
            assert all(top > name + 4 or max(ends) < name - 13 for name in names)


@pytest.mark.parametrize("holds", [True, False, None])
@pytest.mark.parametrize("level", [0.4, 0.1, np.nan])
@pytest.mark.parametrize("quantity", ["0/1 error", "Rademacher complexity"])
def test_the_sentence_of_any_bound(holds, level, quantity):
    assumption = Assumption("independent rows", holds, "because")
    bound = Bound(
        "mine", quantity, 0.1, 0.05, 0.02, level, "fixed", "fit", 500, 0.05, "proof", (assumption,)
    )
    text = sentence(bound)
    assert "0.17" in text
    assert ("Not" in text and "guarantee" in text) == (not bound.is_guarantee)
    if quantity == "0/1 error":
        assert ("With probability at least 95%" in text) == bound.is_guarantee
        assert ("say" in text and "nothing" in text) == bound.is_trivial
        assert ("on trust: independent rows" in text) == (holds is None and not bound.is_trivial)
    else:
        assert "not a bound on the risk" in text


@pytest.mark.parametrize(
    "kind",
    [
        "binary",
        "multiclass",
        "regression",
        "honest",
        "cross-fit",
        "cross-validated",
        "two left out",
    ],
)
def test_the_level_of_a_bound_is_what_the_sentence_says(kind):
    """Against NumPy: a constant class, equal probabilities, the variance, the largest square."""
    model, _, y, (_, train_y) = made(kind)
    seen = set()
    for sample in section(kind, "bounds")["samples"]:
        own = y if sample["sample"] == "test" else train_y
        for bound in sample["bounds"]:
            if bound["trivial_level"] is None or bound["n_rows"] != len(own):
                continue
            folds = bound["name"].endswith("mean over folds")
            words = level_words(_bound_of(bound, {"folds": 3} if folds else {}))
            level = bound["trivial_level"]
            if "one class for all" in words:
                expected = 1 - np.unique(own, return_counts=True)[1].max() / len(own)
            elif "same probabilities for all" in words:
                share = np.unique(own, return_counts=True)[1] / len(own)
                log = bound["quantity"].startswith("log loss")
                expected = -np.sum(share * np.log(share)) if log else share[0] * share[1]
            elif "same probability for every class" in words:
                expected = np.log(len(np.unique(train_y)))
            elif "predicting 0 has a squared loss of at most" in words:
                expected = np.square(own).max()
            else:
                assert "the best constant" in words
                parts = [own[rows] for rows, _ in model.folds_] if folds else [own]
                assert ("of a fold" in words) == folds
                expected = np.mean([np.var(part) for part in parts])
            assert level == pytest.approx(expected)
            assert number(expected) in words
            assert words in bound["sentence"] or not bound["is_trivial"]
            assert "redicting a constant" not in bound["sentence"]
            seen.add(bound["quantity"])
    assert seen


def _bound_of(data, details):
    level = data["trivial_level"]
    return Bound(data["name"], data["quantity"], 0, 0, 0, level, "", "", 1, details=details)


def test_what_only_the_caller_knows_is_his_to_say():
    """A given forest: that its trees have not seen the labels is not the page's to vouch for."""
    X, y = load_breast_cancer(return_X_y=True)
    other = ExtraTreesClassifier(20, random_state=1).fit(X[:200], y[:200])
    model = KPPClassifier(FrozenEstimator(other), regime="fixed", cv=3).fit(X[200:400], y[200:400])
    train = (X[200:400], y[200:400])
    found = report_data(model, X[400:], y[400:], train=train, max_rows=1, times=False)["sections"]
    assert "as the caller says" in found["quality"]["out_of_fold_note"]
    assert "trees and coefficients that have not seen" not in found["quality"]["out_of_fold_note"]
    assert "The caller says that these trees have not seen" in found["alpha"]["text"]


def test_a_cross_fit_model_is_described_as_an_average():
    model = made("cross-fit")[0]
    text = section("cross-fit", "fitted")["sentences"][0]
    assert "jointly" not in text
    sizes = [len(rows) for rows, _ in model.folds_]
    assert "the average of 3 predictors, one for each fold" in text
    assert f"one fold of {min(sizes)} to {max(sizes)} of the {sum(sizes)} rows" in text
    assert "fitted jointly over all" in section("regression", "fitted")["sentences"][0]


def test_target_source_and_doubt_are_on_the_page():
    model, X, y, _ = made("binary")
    hostile = "<script>alert(1)</script>"
    data = report_data(
        model, X, y, target=hostile, source=["From a file.", hostile], unseen=False, max_rows=1
    )
    page = render(data)
    assert "<script>alert" not in page
    assert data["sections"]["fitted"]["target"] == hostile
    assert "From a file." in page
    assert page.count("Whether the fit has used some of") == 5
    one = report_data(model, X, y, source="From a file.", max_rows=1)
    assert one["sections"]["fitted"]["source"] == ["From a file."]
    assert "Whether the fit has used" not in render(one)


def test_the_page_says_which_figures_are_weighted():
    model, X, y, _ = made("binary")
    weight = np.linspace(0.5, 1.5, len(y))
    page = render(report_data(model, X, y, sample_weight=weight, max_rows=1))
    assert "Rows count by their weights in the scores, the calibration, the thresholds" in page
    assert "Every row counts once in the confusion matrix" in page
    assert "by their weights" not in render(data_of("binary"))


def test_the_certified_error_is_called_a_bound():
    page = render(data_of("regression"))
    assert "An upper bound on the root mean squared error when every test row moves" in page
    assert "that is possible" not in page


def test_guarantees_come_first():
    for sample in section("honest", "bounds")["samples"]:
        order = [bound["is_guarantee"] for bound in sample["bounds"]]
        assert order == sorted(order, reverse=True)


# Input.


def test_the_same_inputs_give_the_same_data():
    model, X, y, train = made("binary")
    again = report_data(model, X, y, train=train, max_rows=MAX_ROWS, times=False)
    assert again == data_of("binary")


def test_times_are_told_only_where_they_are_wanted():
    model, X, y, _ = made("multiclass")
    timed = report_data(model, X, y, max_rows=1)
    assert all(one["seconds"] >= 0 for one in timed["sections"].values())
    assert "created" in timed
    assert "created" not in data_of("multiclass")
    assert "seconds" not in data_of("multiclass")["sections"]["rows"]


def test_few_rows():
    model, X, y, _ = made("binary")
    data = report_data(model, X[:1], y[:1], times=False)["sections"]
    assert data["rows"]["made"]
    assert len(data["rows"]["rows"]) == 1
    assert "at least 3 rows" in data["picture"]["why"]
    assert data["quality"]["tables"][0]["lines"][1]["low"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": slice(0, 0), "y": slice(0, 0)}, "no rows"),
        ({"y": slice(0, 3)}, "rows, but y has 3"),
        ({"y": "other"}, "does not know"),
        ({"max_rows": 0}, "max_rows"),
        ({"train": 7}, "train must be the pair"),
        ({"train": (np.zeros((3, 30)), ["benign"] * 3)}, "all of its rows; got 3"),
        ({"sample_weight": [1.0]}, "one entry per row"),
    ],
)
def test_bad_input_is_refused(change, message):
    model, X, y, _ = made("binary")
    y = np.array(["unknown"] * len(y)) if change.get("y") == "other" else y
    y = y[change["y"]] if isinstance(change.get("y"), slice) else y
    X = X[change["X"]] if "X" in change else X
    rest = {k: v for k, v in change.items() if k not in ("X", "y")}
    with pytest.raises(ValueError, match=message):
        report_data(model, X, y, **rest)


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="KPPRegressor or KPPClassifier"):
        report_data(object(), [[1.0]], [1.0])
    model, X, y, _ = made("regression")
    with pytest.raises(ValueError, match="1 target"):
        report_data(model, X, np.column_stack([y, y]))


@pytest.mark.parametrize("columns", [1, 2, "categories"])
@pytest.mark.parametrize("forest", ["extra-trees", "random-forest"])
def test_new_rows_are_not_taken_for_rows_of_the_fit(forest, columns):
    """By chance some reach the leaves of a row of the fit in every tree, most along one column."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (500, 8)) if columns == "categories" else rng.normal(size=(500, columns))
    y = (X[:, 0] + rng.normal(size=500) > X[:, 0].mean()).astype(int)
    model = KPPClassifier(forest, n_estimators=20, alpha=1e-2, random_state=0).fit(X[:250], y[:250])
    fresh = risk_bounds(model, X[250:], y[250:], sample="test")["held-out bound"]
    assert fresh.is_guarantee
    if columns == "categories":
        some = np.r_[0:100, 250:400]  # two fifths are of the fit
        again = risk_bounds(model, X[some], y[some], sample="test")["held-out bound"]
        assert "100 of these 250 rows" in again.failing[0].why


def grouped_rows(n_groups=80, seed=0):
    random = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), random.integers(1, 6, n_groups))
    X = random.normal(size=(len(groups), 3))
    return X, (X[:, 0] + random.normal(size=n_groups)[groups] > 0).astype(int), groups


def bounds_by_name(data, sample):
    (found,) = (s for s in data["sections"]["bounds"]["samples"] if s["sample"] == sample)
    return {bound["name"]: bound for bound in found["bounds"]}


def test_groups_reach_the_bounds_of_both_samples():
    X, y, groups = grouped_rows()
    T, z, others = grouped_rows(40, seed=1)
    model = KPPClassifier(
        "extra-trees", n_estimators=10, alpha=0.1, regime="honest", random_state=0
    )
    model.fit(X, y, groups=groups)
    settings = {"max_rows": 1, "times": False}
    data = report_data(model, T, z, train=(X, y, groups), groups=others, **settings)
    for sample, own in (("test", (T, z, others)), ("fit", (X, y, groups))):
        expected = risk_bounds(model, *own[:2], sample=sample, groups=own[2])
        found = bounds_by_name(data, sample)
        assert list(expected.names) == sorted(found, key=list(expected.names).index)
        counted = [bound for bound in expected if "by groups" in bound.name]
        assert [found[bound.name]["total"] for bound in counted] == [b.total for b in counted]
        assert len(counted) == 1
        assert counted[0].is_guarantee
    without = report_data(model, T, z, train=(X, y), **settings)
    assert not any("by groups" in name for name in bounds_by_name(without, "test"))
    assert not any(bound["is_guarantee"] for bound in bounds_by_name(without, "test").values())
    assert "for new groups the intervals are too narrow" in render(data)
    assert "for new groups the intervals are too narrow" not in render(without)
    with pytest.raises(ValueError, match="groups must name the group of each"):
        report_data(model, T, z, groups=others[1:], **settings)


def test_many_rows_are_drawn_in_whole_groups(monkeypatch):
    """A part of the rows of a group would be no draw of the group."""
    monkeypatch.setattr("kpp.reports.sections.bounds.MOST_ROWS", 60)
    X, y, _ = grouped_rows()
    T, z, groups = grouped_rows(100, seed=1)
    model = KPPClassifier("extra-trees", n_estimators=10, alpha=0.1, random_state=0).fit(X, y)
    given = []

    def noted(question, rows, target, **settings):
        given.append((rows, settings["groups"]))
        return risk_bounds(question, rows, target, **settings)

    monkeypatch.setattr("kpp.reports.sections.bounds.risk_bounds", noted)
    report_data(model, T, z, groups=groups, max_rows=1)
    ((rows, drawn),) = given
    names, sizes = np.unique(drawn, return_counts=True)
    assert (sizes == np.bincount(groups)[names]).all()
    assert len(names) == 100 * 60 // len(T)
    assert (T[np.isin(groups, names)] == rows.X).all()


def test_equal_rows_are_counted_and_may_be_declared():
    X, y, _ = grouped_rows()
    T, z, _ = grouped_rows(60, seed=1)
    model = KPPClassifier("extra-trees", n_estimators=10, alpha=0.1, random_state=0).fit(X, y)
    T, z = np.vstack([T, X[:1]]), np.append(z, y[0])
    found = report_data(model, T, z, max_rows=1)["sections"]["bounds"]
    (note,) = found["duplicates"]
    assert f"1 of these {len(T)} rows equal, in every column, one that was given to fit" in note
    assert note in found["notes"]
    declared = report_data(model, T, z, max_rows=1, independent_duplicates=True)
    assert declared["sections"]["bounds"]["duplicates"] == []
    assert bounds_by_name(declared, "test")["held-out bound"]["is_guarantee"]


PARTS = {"regime": "cross-validated", "cv": 3, "n_estimators": 6, "random_state": 0}


@pytest.mark.parametrize("alpha", ["auto", 1.0])
@pytest.mark.parametrize("selection", ["nested", "fold-grown"])
@pytest.mark.parametrize("forest", ["extra-trees", "several"])
def test_every_section_says_alike_how_alpha_came_about(forest, selection, alpha):
    _, X, y, train = made("binary")
    several = [("a", "extra-trees"), ("b", ExtraTreesClassifier(6, max_depth=2))]
    trees = several if forest == "several" else forest
    model = KPPClassifier(trees, alpha=alpha, alpha_selection=selection, **PARTS).fit(*train)
    found = report_data(model, X, y, train=train, max_rows=1, times=False)["sections"]
    fitted, chosen = " ".join(found["fitted"]["sentences"]), found["alpha"]["text"]
    note, shown = out_of_fold_note(model), model._repr_html_()
    is_given = alpha != "auto"
    assert ("as it was given" in fitted) == is_given
    assert ("It was given, not chosen" in chosen) == is_given
    assert ("alpha was given" in shown) == is_given
    is_nested = selection == "nested" and not is_given
    assert ("has chosen its" in fitted) == is_nested
    assert ("means over the parts" in chosen) == is_nested
    # Only folds that have chosen flatter what they have chosen.
    assert ("optimistic" in note) == (selection != "nested" and not is_given)
    if is_given or is_nested:
        assert note.partition("which the model is. ")[2].startswith("That one predictor is scored")
    if forest == "extra-trees" and selection == "fold-grown" and not is_given:
        # The search has scored some of the values, and bounds count all.
        assert model.fit_record_.n_candidates == 13
        assert "chosen among 13 values" in fitted
        assert (f"of which {len(model.alphas_)} were scored" in fitted) == (len(model.alphas_) < 13)
