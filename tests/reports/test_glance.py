"""The first screen from made figures; thresholds, comparison and segments on the page."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from reports.subjects import KINDS, data_of, made
from sklearn.dummy import DummyClassifier
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    log_loss,
    precision_recall_fscore_support,
)

from kpp import KPPClassifier, compare, segments
from kpp._checks import RefusedError
from kpp.reports import report_data
from kpp.reports.page import render
from kpp.reports.sections import summary
from kpp.reports.sections.quality import cautions


def line(short="Accuracy", test=0.9, low=0.85, high=0.95, baseline=0.6, *, share=True, higher=True):
    return {
        "short": short,
        "test": test,
        "low": low,
        "high": high,
        "baseline": baseline,
        "share": share,
        "higher_is_better": higher,
    }


def quality(*lines, **more):
    return {
        "made": True,
        "tables": [{"output": "", "lines": list(lines)}],
        "called": "test row",
        "confidence": 0.95,
        "imbalance": None,
        "seen": None,
        "unseen": True,
        **more,
    }


def models(**verdicts):
    names = [{"name": "KPPClassifier", "verdict": ""}]
    names += [{"name": n.replace("_", " "), "verdict": v} for n, v in verdicts.items()]
    return {"made": True, "loss": "log loss", "models": names}


def variables(sizes, others=(0.0,), n_others=0):
    return {
        "made": True,
        "variables": [{"name": name, "mean_abs": [size]} for name, size in sizes.items()],
        "others_mean_abs": list(others),
        "n_others": n_others,
    }


def findings(*titles, holds=True):
    listed = [{"title": title, "severity": "warning"} for title in titles]
    return {"made": True, "findings": listed, "audit_holds": holds}


def found_segments(n_worse, n_tested=12):
    worst = {"name": "age over 50", "score": 0.8, "rest": 0.4}
    return {
        "made": True,
        "n_worse": n_worse,
        "n_tested": n_tested,
        "score": "Log loss",
        "segments": [worst],
    }


NOT_MADE = {"made": False, "why": "no answer"}


def test_good_beside_a_constant():
    found = summary.good({"quality": quality(line())})
    assert found == [
        "On the test rows its accuracy is 90.0% (85.0% to 95.0% with 95% confidence), and that of "
        "a constant 60.0%; higher is better.",
        "It was not compared with other models.",
    ]
    no_interval = line("Log loss", 0.25, None, None, None, share=False, higher=False)
    assert summary.good({"quality": quality(no_interval)})[0] == (
        "On the test rows its log loss is 0.250; lower is better."
    )
    rmse = line("RMSE", 2.0, 1.5, 2.5, 4.0, share=False, higher=False)
    explained, none = line("R²", 0.75, share=False), line("R²", -0.1, share=False)
    assert summary.good({"quality": quality(rmse, explained)})[0].endswith(
        "its RMSE is 2.00 (1.50 to 2.50 with 95% confidence), and that of a constant 4.00; lower "
        "is better. It explains 75.0% of the variance."
    )
    assert summary.good({"quality": quality(rmse, none)})[0].endswith(
        "explains none of the variance."
    )
    # What the rows do not define is not spoken of.
    assert summary.good({"quality": quality(line(test=None, low=None, high=None))}) == [
        "It was not compared with other models."
    ]


def test_a_rare_class_says_which_measure_suits_it_and_why():
    rare = {"class": "fraud", "share": 0.02, "most": 0.98, "n_classes": 2}
    precision = line("Average precision", 0.4, 0.3, 0.5, 0.02, share=False)
    found = summary.good({"quality": quality(precision, imbalance=rare)})
    assert found[0] == (
        "Only 2.0% of the rows of the fit are of class fraud, so the accuracy tells little; the "
        "average precision tells more."
    )
    assert "its average precision is 0.400" in found[1]


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ({"constant": "worse"}, "it beats the constant"),
        (
            {"constant": "worse", "linear_model": "worse"},
            "it beats the constant and the linear model",
        ),
        ({"LightGBM": "better"}, "it loses to LightGBM"),
        ({"LightGBM": "no difference seen"}, "it shows no difference to LightGBM"),
        (
            {"constant": "worse", "LightGBM": "better", "XGBoost": "no difference seen"},
            "it beats the constant, it loses to LightGBM and shows no difference to XGBoost",
        ),
        (dict.fromkeys("abcde", "worse"), "it beats all 5 other models"),
    ],
)
def test_beside_other_models(others, text):
    assert summary.beside(models(**others)) == [f"By the log loss on the same rows {text}."]


def test_no_other_model():
    assert summary.beside(models()) == ["No other model could be fitted to compare with."]


def test_drivers_are_the_five_largest_with_their_share():
    sizes = dict(zip("abcdefg", [8.0, 4.0, 2.0, 2.0, 1.0, 1.0, 1.0], strict=True))
    assert summary.drivers({"variables": variables(sizes, [1.0], 3)}) == [
        "Of its 10 columns a, b, c, d and e move the score most, by 85% of all contributions. That "
        "is what the model uses, not what causes the target."
    ]
    assert summary.drivers({"variables": variables({"a": 2.0, "b": 1.0, "c": 0.0})}) == [
        "a and b move the score, in this order."
    ]
    assert summary.drivers({"variables": variables({"a": 2.0})}) == ["a moves the score, alone."]
    assert "constant" in summary.drivers({"variables": variables({"a": 0.0})})[0]
    assert summary.drivers({"variables": NOT_MADE}) == []


def intervals(*, guaranteed):
    return {
        "made": True,
        "outputs": [{"overall": {"share": 0.912, "size": 1.25}}],
        "is_sets": True,
        "level": 0.9,
        "called": "test row",
        "is_guarantee": guaranteed,
        "proven": 0.8,
        "sentence": "No coverage is guaranteed, because the rows come in groups.",
    }


def test_how_sure():
    bins = [
        {"low": 0.1, "predicted": 0.2, "high": 0.3},
        {"low": 0.5, "predicted": 0.4, "high": 0.9},
    ]
    bound = {
        "quantity": "0/1 error",
        "is_guarantee": True,
        "is_trivial": False,
        "total": 0.081,
        "delta": 0.05,
    }
    trivial, failing = bound | {"is_trivial": True}, bound | {"is_guarantee": False}
    found = summary.sure(
        {
            "intervals": intervals(guaranteed=True),
            "quality": quality(line(), calibration={"bins": bins}),
            "bounds": {"made": True, "samples": [{"bounds": [failing, trivial, bound]}]},
        }
    )
    assert found == [
        "Its 90% sets of classes cover 91.2% of the test rows and hold 1.25 classes on average.",
        "Predicted probabilities agree with observed shares, within their error, in 1 of 2 bins.",
        "At least 80.0% coverage is guaranteed on average, on conditions that are listed below.",
        "With probability 95% over the draw of the rows its 0/1 error is at most 0.081, on "
        "conditions that are listed below.",
    ]
    found = summary.sure({"intervals": intervals(guaranteed=False)})
    assert found[-1] == "No coverage is guaranteed, because the rows come in groups."
    bounds = {"made": True, "samples": [{"bounds": [bound]}]}
    found = summary.sure({"intervals": intervals(guaranteed=False), "bounds": bounds})
    assert found[1] == "No coverage is guaranteed, because the rows come in groups."
    assert summary.calibrated(bins[:1])[0].endswith("in the only bin.")
    assert summary.calibrated(bins[:1] * 3)[0].endswith("in all 3 bins.")
    assert summary.sure({"bounds": {"made": True, "samples": [{"bounds": [trivial]}]}}) == []


def test_what_to_worry_about():
    assert summary.worries({"findings": findings(), "segments": found_segments(0)}, []) == [
        "Nothing stands out: no figure of the diagnostics and none of 12 segments of the rows."
    ]
    assert summary.worries({"segments": found_segments(0, 1)}, []) == [
        "Nothing stands out: none of 1 segment of the rows."
    ]
    worst = "It is worse where age over 50 (Log loss 0.800, other rows 0.400)"
    for n_worse, more in [
        (1, ""),
        (2, ", and so is 1 other segment"),
        (4, ", and so are 3 other segments"),
    ]:
        assert summary.worries({"segments": found_segments(n_worse)}, []) == [f"{worst}{more}."]
    assert summary.worries({"findings": findings("Trees disagree")}, ["not better"]) == [
        "It is not known to be better than a constant (see above).",
        "1 warning: Trees disagree.",
    ]
    both = {"findings": findings("Trees disagree"), "data": findings("A leak")}
    assert summary.worries(both, []) == ["2 warnings: A leak; Trees disagree."]
    assert "The audit fails" in summary.worries({"findings": findings(holds=False)}, [])[0]
    assert "too good" in summary.worries({"quality": quality(line(), seen="3 are")}, [])[0]
    assert "not known" in summary.worries({"quality": quality(line(), unseen=False)}, [])[0]
    assert summary.worries({}, []) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_has_a_summary_without_gaps(kind):
    data = data_of(kind)
    found = data["sections"]["summary"]
    text = " ".join(" ".join(one["sentences"]) for one in found["answers"])
    assert not re.search(r"\b(nan|inf|None|undefined)\b|–", text)
    assert not re.search(r"\b1 (rows|bins|segments|columns|warnings)\b", text)
    questions = [one["question"] for one in found["answers"]]
    assert questions[0] == "Is it good?"
    assert "How sure is it?" in questions
    page = render(data)
    assert page.index("Is it good?") < page.index('class="tiles"') < page.index('id="fitted"')


def test_the_sentences_are_those_of_the_figures():
    data = data_of("binary")["sections"]
    text = " ".join(" ".join(one["sentences"]) for one in data["summary"]["answers"])
    accuracy = data["quality"]["tables"][0]["lines"][0]
    assert f"its accuracy is {100 * accuracy['test']:.1f}%" in text
    top = [one["name"] for one in data["variables"]["variables"][:5]]
    assert f"{', '.join(top[:4])} and {top[4]} move the score most" in text
    covered = data["intervals"]["outputs"][0]["overall"]["share"]
    assert f"cover {100 * covered:.1f}% of the test rows" in text


def test_a_comparison_row_by_row_outweighs_two_figures():
    close = line("Log loss", 0.30, 0.20, 0.40, 0.35, share=False, higher=False)
    own = quality(line(), close, task="classification")
    assert len(cautions(own)) == 1
    beside = models(constant="worse") | {"score": "Log loss"}
    assert cautions(own, beside) == []
    assert len(cautions(own, models(constant="no difference seen") | {"score": "Log loss"})) == 1
    weak = quality(line(low=0.5), close, task="classification")
    assert "By its accuracy" in cautions(weak, beside)[0]


# Thresholds and classes.


def test_thresholds_and_curves_of_the_rarer_class():
    model, X, y, _ = made("binary")
    found = data_of("binary")["sections"]["quality"]["finding"]
    counts = dict(zip(*np.unique(made("binary")[3][1], return_counts=True), strict=True))
    rarer = min(counts, key=counts.get)
    assert found["class"] == rarer
    score = model.predict_proba(X)[:, list(model.classes_).index(rarer)]
    for t, true, false in zip(
        found["threshold"], found["true_positive"], found["false_positive"], strict=True
    ):
        expected = confusion_matrix(y == rarer, score >= t)
        assert (false, true) == (expected[0, 1], expected[1, 1])
    own = found["own"]
    assert found["threshold"][own] == 0.5
    assert found["own_is_predicted"]
    costs = np.array(found["false_positive"]) + found["n_positive"] - found["true_positive"]
    assert costs[found["best"]] == costs.min()
    lines = data_of("binary")["sections"]["quality"]["tables"][0]["lines"]
    area = next(one for one in lines if one["short"] == "Average precision")
    assert area["name"] == f"Average precision of class {rarer}"
    assert area["test"] == pytest.approx(average_precision_score(y == rarer, score), rel=1e-12)
    assert area["baseline"] == pytest.approx(np.mean(y == rarer), rel=1e-12)


def test_without_scripts_thresholds_are_a_table():
    page = render(data_of("binary"))
    found = data_of("binary")["sections"]["quality"]["finding"]
    panel = page[page.index('id="threshold-panel"') :]
    assert panel[: panel.index(">")].endswith("hidden")
    table = panel[panel.index("Thresholds as a table") :]
    table = table[: table.index("</table>")]
    cells = re.findall(r"<tr><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td>", table)
    assert [float(t) for t, _ in cells] == found["threshold"]
    assert [float(hit) for _, hit in cells] == found["true_positive"]


def test_precision_and_recall_of_every_class_are_those_of_scikit_learn():
    model, X, y, _ = made("multiclass")
    found = data_of("multiclass")["sections"]["quality"]["by_class"]
    oracle = precision_recall_fscore_support(y, model.predict(X))
    for k, name in enumerate(("precision", "recall", "f1", "n_rows")):
        assert [one[name] for one in found] == pytest.approx(list(oracle[k]), rel=1e-12)
    assert "finding" not in data_of("multiclass")["sections"]["quality"]


@pytest.fixture(scope="module")
def rare():
    """One row in twelve is of the class whose name comes first."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=360), "b": rng.choice(["u", "v"], 360)})
    X["b"] = X["b"].astype("category")
    p = np.where(X["a"] > 1.2, 0.6, 0.01)
    y = np.where(rng.random(360) < p, "default", "paid")
    model = KPPClassifier("boosted", n_estimators=8, alpha=1e-2, random_state=0)
    model.fit(X[::2], y[::2])
    return model, X[1::2], y[1::2], (X[::2], y[::2])


def test_a_rare_class_leads_with_what_suits_it(rare):
    model, X, y, train = rare
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    data = report_data(model, X, y, train=train, sample_weight=weight, max_rows=1, times=False)
    found = data["sections"]["quality"]
    shorts = [one["short"] for one in found["tables"][0]["lines"]]
    assert shorts[:2] == ["Average precision", "Log loss"]
    assert data["tiles"][0]["label"] == "Average precision"
    share = np.mean(train[1] == "default")
    assert found["imbalance"]["class"] == "default"
    assert found["imbalance"]["share"] == pytest.approx(share)
    assert "so the accuracy tells little" in render(data)
    score = model.predict_proba(X)[:, 0]
    oracle = average_precision_score(y == "default", score, sample_weight=weight)
    assert found["tables"][0]["lines"][0]["test"] == pytest.approx(oracle, rel=1e-12)
    expected = confusion_matrix(y == "default", score >= 0.5, sample_weight=weight)
    own = found["finding"]["own"]
    assert found["finding"]["true_positive"][own] == expected[1, 1]
    assert found["finding"]["false_positive"][own] == expected[0, 1]
    # The models beside it are scored by the weights too.
    constant = next(
        one for one in data["sections"]["comparison"]["models"] if one["name"] == "constant"
    )
    shares = np.tile([share, 1 - share], (len(y), 1))
    assert constant["score"] == pytest.approx(log_loss(y, shares, sample_weight=weight), rel=1e-9)


# Other models.


def test_simple_models_stand_beside_it_where_there_are_training_rows():
    model, X, y, _ = made("binary")
    found = data_of("binary")["sections"]["comparison"]
    assert found["is_simple"]
    assert found["models"][0]["name"] == "KPPClassifier"
    assert {one["name"] for one in found["models"][1:]} == {
        "constant",
        "linear model",
        "small tree",
    }
    assert found["models"][0]["score"] == pytest.approx(log_loss(y, model.predict_proba(X)))
    assert [one["seconds"] for one in found["models"]] == [None] * 4  # times=False
    assert "draw of test rows only" in render(data_of("binary"))
    without = report_data(model, X, y, max_rows=1, segments=None)
    assert not {"comparison", "segments"} & set(without["sections"])
    assert "comparison" not in data_of("several targets")["sections"]


def test_a_comparison_is_made_shown_or_refused(monkeypatch):
    model, X, y, train = made("binary")
    own = compare(model, *train, test=(X, y), rivals={"my <b>rival": DummyClassifier()})
    data = report_data(model, X, y, compare=own, max_rows=1)
    found = data["sections"]["comparison"]
    assert [one["name"] for one in found["models"]] == ["KPPClassifier", "my <b>rival"]
    assert "my &lt;b&gt;rival" in render(data)
    asked = {}

    def remember(*arguments, **settings):
        asked.update(settings)
        return own

    monkeypatch.setattr("kpp.reports.sections.comparison.compare", remember)
    report_data(model, X, y, train=train, compare=True, max_rows=1)
    assert asked["rivals"] is None  # the usual ones
    assert asked["time_budget"] > 0
    with pytest.raises(ValueError, match=r"compare=True fits other models .* give train"):
        report_data(model, X, y, compare=True)
    with pytest.raises(TypeError, match="compare takes True, False"):
        report_data(model, X, y, compare="all")


def test_what_was_left_out_is_said():
    model, X, y, train = made("binary")
    rivals = {"first": DummyClassifier(), "second": DummyClassifier()}
    own = compare(model, *train, test=(X, y), rivals=rivals, time_budget=-1.0)
    assert list(own.left_out) == ["first", "second"]
    page = render(report_data(model, X, y, compare=own, max_rows=1))
    assert "Left out: <bdi>first</bdi>, since <bdi>the time for rivals" in page


# Segments.


def test_the_section_of_segments_is_that_of_the_library():
    model, X, y, _ = made("binary")
    found = data_of("binary")["sections"]["segments"]
    own = segments(model, X, y, coverage=0.9)
    assert found["n_segments"] == len(own.segments)
    assert found["n_tested"] == own.n_tested
    assert found["n_worse"] == len(own.worse)
    for one, two in zip(found["segments"], own.segments, strict=False):
        assert one["name"] == two.name
        assert one["score"] == pytest.approx(two.loss, rel=1e-9)
        assert one["covered"] == pytest.approx(two.covered)
    regression = data_of("regression")["sections"]["segments"]
    best = segments(*made("regression")[:3]).segments[0]
    assert regression["score"] == "RMSE"
    assert regression["segments"][0]["score"] == pytest.approx(np.sqrt(best.loss), rel=1e-9)


def test_named_segments_and_hostile_names():
    model, X, y, _ = made("hostile")
    name = "<img src=x onerror=alert(1)>"
    data = report_data(model, X, y, segments={name: np.arange(len(y)) % 2 == 0}, max_rows=1)
    found = data["sections"]["segments"]["segments"]
    assert [one["name"] for one in found] == [name]
    assert "<img" not in render(data)
    with pytest.raises(ValueError, match="which the rows have not"):
        report_data(model, X, y, segments=["sex"], max_rows=1)


def test_json_of_all_of_it():
    data = data_of("table")
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    with pytest.raises(RefusedError, match="one target"):
        compare(made("several targets")[0], *made("several targets")[3])
