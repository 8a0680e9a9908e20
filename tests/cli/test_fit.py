"""`kpp fit`: what it says is what the saved model does."""

import numpy as np
import pandas as pd
import pytest
from cli_tables import HOSTILE, mixed_table
from sklearn.datasets import load_iris
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    mean_pinball_loss,
    r2_score,
    root_mean_squared_error,
)
from sklearn.model_selection import train_test_split

from kpp import risk_bounds
from kpp.cli.options import Loss, Regime
from kpp.io import describe, load
from kpp.models.loss_choice import LOSSES
from kpp.models.pipelines import has_learned
from kpp.models.regimes import REGIMES
from kpp.tables.numbers import short
from kpp.tables.scores import WORDS

FEW = ["--forest", "extra-trees", "--trees", "10", "--jobs", "1"]


def test_scores_are_those_of_the_saved_model_on_rows_it_has_not_seen(run, tmp_path, folder):
    out = tmp_path / "m.kpp"
    target = ["--target", "price", "--id", "id", "--out", out, "--json", "--seed", "3"]
    done = run("fit", folder / "reg.csv", *target, *FEW)
    frame = pd.read_csv(folder / "reg.csv")
    train, test = train_test_split(np.arange(len(frame)), test_size=0.2, random_state=3)
    model = load(out)
    columns = done.data["columns"]
    assert columns == ["size", "colour", HOSTILE, "when", "city", "flag"]
    y, prediction = frame["price"][test], model.predict(frame.iloc[test][columns])
    scores = done.data["scores"]
    assert scores["test"]["n_rows"] == len(test)
    assert scores["test"]["rmse"] == pytest.approx(root_mean_squared_error(y, prediction))
    assert scores["test"]["r2"] == pytest.approx(r2_score(y, prediction))
    constant = np.full(len(test), frame["price"][train].mean())
    assert scores["baseline"]["rmse"] == pytest.approx(root_mean_squared_error(y, constant))
    inner = model[-1]
    assert inner.map_.shape[0] == len(train)
    own = frame["price"].to_numpy()[np.sort(train)]
    oof = root_mean_squared_error(own, inner.oof_prediction_)
    assert scores["out_of_fold"]["rmse"] == pytest.approx(oof)
    assert done.data["alpha"] == inner.alpha_
    assert inner.verbose == 0


def test_test_rows_are_drawn_at_random(run, tmp_path):
    """Not in the shares of the classes: the bound on test rows is for independent draws."""
    done = run("fit", "iris", *FEW, "--out", tmp_path / "m.kpp", "--json")
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = load_iris().target_names[y]
    rows = np.arange(len(y))
    _, test = train_test_split(rows, test_size=30, random_state=0)
    model = load(tmp_path / "m.kpp")
    assert done.data["classes"] == ["setosa", "versicolor", "virginica"]
    right = accuracy_score(names[test], model.predict(X.iloc[test]))
    loss = log_loss(names[test], model.predict_proba(X.iloc[test]))
    assert done.data["scores"]["test"]["accuracy"] == pytest.approx(right)
    assert done.data["scores"]["test"]["log_loss"] == pytest.approx(loss)


def test_the_same_seed_gives_the_same_model_whatever_the_threads(run, tmp_path, folder):
    X = pd.read_csv(folder / "cls.csv")
    probabilities = []
    for jobs in (1, 2):
        out = tmp_path / f"{jobs}.kpp"
        run(
            "fit", folder / "cls.csv", "--target", "label", "--trees", 10, "--jobs", jobs, "-o", out
        )
        model = load(out)
        probabilities.append(model.predict_proba(X[list(model[0].feature_names_in_)]))
    assert (probabilities[0] == probabilities[1]).all()


def test_remarks(run, tmp_path):
    frame = mixed_table().drop(columns="label")
    frame.loc[:4, "price"] = np.nan
    frame.to_csv(tmp_path / "x.csv", index=False)
    done = run("fit", tmp_path / "x.csv", "--target", "price", "-o", tmp_path / "m.kpp", *FEW)
    assert done.code == 0
    assert "5 row(s) without 'price' are left out" in done.err
    assert "Task: regression" in done.err
    assert "--task classification overrides" in done.err
    assert "left out: 'empty'" in done.err
    assert "left out: 'const'" in done.err
    assert "'id'" in done.err
    for word in ("regime", "shared", "alpha", "out of fold", "test rows", "a constant", "time"):
        assert word in done.out
    assert "diagnostics here, not guarantees" in " ".join(done.out.split())
    quiet = run(
        "fit", tmp_path / "x.csv", "--target", "price", "-o", tmp_path / "m.kpp", *FEW, "-q"
    )
    assert "Task" not in quiet.err
    assert "5 row(s)" in quiet.err
    assert "will be replaced" not in done.err + quiet.err
    again = run("fit", tmp_path / "x.csv", "--target", "price", "-o", tmp_path / "m.kpp", *FEW)
    assert "m.kpp is there already, and will be replaced" in again.err


def test_given_alpha_and_no_test_rows_are_said(run, tmp_path):
    out = tmp_path / "m.kpp"
    done = run("fit", "diabetes", "--alpha", "0.5", "--test-size", "0", "-o", out, *FEW)
    assert "no score on rows that the fit has not seen" in " ".join(done.out.split())
    assert "No out-of-fold score" in done.out
    model = load(out)
    assert model[-1].alpha_ == 0.5
    assert model[-1].map_.shape[0] == 442


@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit", "cross-validated"])
@pytest.mark.parametrize("forest", ["random-forest", "boosted"])
def test_regimes_and_forests(run, tmp_path, regime, forest):
    out = tmp_path / "m.kpp"
    done = run("fit", "iris", "--regime", regime, *FEW, "--forest", forest, "-o", out, "--json")
    assert done.code == 0, done.err
    assert load(out)[-1].regime_ == regime
    assert load(out)[-1].forest == forest


@pytest.mark.parametrize("task", ["reg", "cls"])
def test_a_blend_from_fit_to_report(run, tmp_path, folder, task):
    out, table = tmp_path / "m.kpp", folder / f"{task}.csv"
    target = "price" if task == "reg" else "label"
    common = ["--target", target, "--id", "id", "--trees", "10", "--jobs", "1", "-o", out]
    done = run("fit", table, *common)
    assert done.code == 0, done.err
    words = " ".join(done.out.split())
    assert all(f"({name})" in words for name in ("trees", "boosted", "ladders", "linear"))
    again = run("fit", table, *common, "--json").data
    model = load(out)[-1]
    assert again["forest"] == "blend"
    assert again["trees"] == sum(forest.n_trees for _, forest in model.forest_)
    assert again["alpha"] == model.alpha_
    assert again["blend_weights"] == model.blend_weights_
    for command in ("predict", "explain"):
        made = run(command, out, table, "-o", tmp_path / f"{command}.csv")
        assert made.code == 0, made.err
    page = run("report", table, "--model", out, "-o", tmp_path / "page.html", "--max-rows", 2)
    assert page.code == 0, page.err
    assert run("info", out).code == 0


def test_every_regime_that_grows_its_forest_is_offered():
    offered = {regime.value for regime in Regime}
    assert offered == {r.name for r in REGIMES.values() if not r.takes_grown_forest}


def test_the_reason_for_a_task_reads_as_a_sentence(run, tmp_path):
    fit = ["fit", "iris", *FEW, "--alpha", 1, "--out", tmp_path / "m.kpp", "--task"]
    assert "Task: classification, since --task says so." in run(*fit, "classification").err
    assert "since 'target' holds 3 different texts." in run(*fit, "auto").err


def test_weights_reach_the_fit_and_are_no_column(run, tmp_path, folder):
    frame = pd.read_csv(folder / "reg.csv").assign(w=1.0)
    frame.loc[frame["flag"], "w"] = 0.0
    frame.to_csv(tmp_path / "x.csv", index=False)
    common = ["--target", "price", "--id", "id", "--test-size", "0", "--alpha", "0.1", *FEW]
    out = tmp_path / "m.kpp"
    done = run("fit", tmp_path / "x.csv", *common, "--weights", "w", "-o", out, "--json")
    assert "w" not in done.data["columns"]
    weights = load(out)[-1].sample_weight_
    assert (weights == frame["w"]).all()


def test_a_test_file_of_its_own(run, tmp_path, folder):
    frame = pd.read_csv(folder / "cls.csv")
    frame[:100].to_csv(tmp_path / "a.csv", index=False)
    frame[100:][frame.columns[::-1]].to_parquet(tmp_path / "b.parquet")
    common = ["--target", "label", "--id", "id", "-o", tmp_path / "m.kpp", "--json", *FEW]
    done = run("fit", tmp_path / "a.csv", "--test", tmp_path / "b.parquet", *common)
    model = load(tmp_path / "m.kpp")
    X = frame[100:][list(model[0].feature_names_in_)]
    right = accuracy_score(frame["label"][100:], model.predict(X))
    assert done.data["rows_fitted"] == 100
    assert done.data["scores"]["test"] | {"n_rows": 60} == done.data["scores"]["test"]
    assert done.data["scores"]["test"]["accuracy"] == pytest.approx(right)


def test_the_file_says_what_the_target_was(run, folder):
    metadata = describe(folder / "cls.kpp").metadata
    assert metadata["target"] == "label"
    assert metadata["id"] == "id"
    assert metadata["task"] == "classification"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "pirce"], "no column 'pirce' (--target). Did you mean 'price'?"),
        ([], "Give --target"),
        (["--target", "price", "--drop", "nope"], "no column 'nope' (--drop)"),
        (["--target", "price", "--weights", "size"], "must be finite, not negative, not missing"),
        (["--target", "price", "--weights", "colour"], "must be numbers"),
        (["--target", "price", "--id", "price"], "is the target"),
        (["--target", "price", "--alpha", "-1"], "--alpha must be 'auto' or a positive number"),
        (["--target", "price", "--alpha", "much"], "got 'much'"),
        (["--target", "price", "--trees", "0"], "--trees must be at least 1"),
        (["--target", "price", "--test-size", "1"], "--test-size is a share"),
        (["--target", "price", "--forest", "oak"], "oak"),
        (["--target", "colour", "--task", "regression"], "regression needs numbers"),
        (["--target", "const"], "nothing to learn"),
    ],
)
def test_wrong_options(run, folder, tmp_path, arguments, message):
    done = run("fit", folder / "reg.csv", "-o", tmp_path / "m.kpp", *arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,y\n1,2\n", "too few for a test share"),
        ("y\n1\n2\n3\n4\n5\n6\n", "no column with more than one value beside 'y'"),
        ("a,y\n1,1\n2,2\n3,inf\n4,5\n5,6\n", "infinite"),
        ("a,y\n1,1.5\n2,2.5\ninf,3\n4,5\n5,6.5\n", "column 'a' of"),
        ("a,y\n1,1.5\n2,2.5\n1e39,3\n4,5\n5,6.5\n", "1 infinite or too large"),
        ("a,y\n1,x\n2,x\n3,x\n4,x\n5,x\n", "one value only"),
        ("a,y\n1,2.5\n2,2.5\n3,2.5\n4,2.5\n", "nothing to learn"),
        ("a,y\n1,\n2,\n", "no values at all"),
    ],
)
def test_tables_that_cannot_be_fitted(run, tmp_path, text, message):
    (tmp_path / "x.csv").write_text(text)
    done = run("fit", tmp_path / "x.csv", "--target", "y", *FEW)
    assert done.code == 2
    assert message in done.err


def test_tiny_tables_and_rare_classes(run, tmp_path):
    (tmp_path / "x.csv").write_text("a,y\n" + "".join(f"{k},{'ab'[k % 2]}\n" for k in range(8)))
    out = tmp_path / "m.kpp"
    assert run("fit", tmp_path / "x.csv", "--target", "y", "-o", out, *FEW).code == 0
    # A class that only test rows hold: nothing is known of it, and that is said.
    _, test = train_test_split(np.arange(30), test_size=6, random_state=0)
    names = [("c" if k == test[0] else "ab"[k % 2]) for k in range(30)]
    (tmp_path / "y.csv").write_text("a,y\n" + "".join(f"{k},{n}\n" for k, n in enumerate(names)))
    done = run("fit", tmp_path / "y.csv", "--target", "y", "-o", out, *FEW, "--json")
    assert done.code == 0, done.err
    assert "1 test rows are of classes that no row of the fit has; they are not scored" in done.err
    assert done.data["classes"] == ["a", "b"]
    predicted = load(out).predict(pd.DataFrame({"a": test[1:]}))
    expected = np.mean(predicted == np.array(names)[test[1:]])
    assert done.data["scores"]["test"]["accuracy"] == pytest.approx(expected)


def test_lists_in_cells_are_refused(run, tmp_path):
    frame = pd.DataFrame({"a": [[1, 2], [3]] * 10, "b": range(20), "y": np.arange(20) / 7})
    frame.to_parquet(tmp_path / "x.parquet")
    done = run("fit", tmp_path / "x.parquet", "--target", "y", *FEW)
    assert done.code == 2
    assert "'a'" in done.err
    assert "lists or records" in done.err


def test_a_failed_fit_leaves_the_old_model(run, tmp_path, folder):
    out = tmp_path / "m.kpp"
    out.write_bytes(b"old")
    assert run("fit", folder / "reg.csv", "--target", "nope", "-o", out).code == 2
    assert out.read_bytes() == b"old"
    assert run("fit", folder / "reg.csv", "--target", "price", "-o", folder / "reg.csv").code == 2
    assert pd.read_csv(folder / "reg.csv").shape == (160, 10)


def _table(tmp_path, kind):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.normal(size=90), "b": random.normal(size=90)})
    frame["y"] = frame["a"] + random.normal(size=90)
    if kind.startswith("classes"):
        frame["y"] = np.where(frame["y"] > 0, "up", "down")
    if kind.endswith("texts"):
        frame["c"] = random.choice(["red", "blue"], 90)
    frame.to_csv(tmp_path / "x.csv", index=False)
    return frame


@pytest.mark.parametrize("regime", ["honest", "cross-fit", "cross-validated", "shared"])
@pytest.mark.parametrize("kind", ["classes", "classes texts", "numbers", "numbers texts"])
def test_what_is_said_of_bounds_is_so(run, tmp_path, regime, kind):
    """The claim speaks of guarantees exactly where the library has one on the training rows."""
    frame = _table(tmp_path, kind)
    out = tmp_path / "m.kpp"
    common = ["--target", "y", "--regime", regime, "--test-size", 0, "-o", out, *FEW]
    said = " ".join(run("fit", tmp_path / "x.csv", *common, "-q").out.split())
    model = load(out)
    X = model[0].transform(frame[list(model[0].feature_names_in_)])
    limits = None if kind.startswith("classes") else (-100.0, 100.0)
    bounds = risk_bounds(model[-1], X, frame["y"].to_numpy(), sample="fit", y_range=limits)
    risks = [b for b in bounds if b.quantity != "Rademacher complexity"]
    sure = any(b.is_guarantee for b in risks) and not has_learned(model[0])
    assert ("hold with probability 0.95" in said) == sure
    assert ("diagnostics here, not guarantees" in said) == (not sure)
    if sure:
        assert ("y_range holds limits" in said) == (limits is not None)
    if "texts" in kind:
        assert "were prepared on all of them" in said


def test_out_of_fold_is_said_with_its_trees_and_rows(run, tmp_path):
    _table(tmp_path, "numbers")
    common = ["--target", "y", "--test-size", 0, "-o", tmp_path / "m.kpp", *FEW, "-q"]
    said = {
        regime: " ".join(run("fit", tmp_path / "x.csv", *common, "--regime", regime).out.split())
        for regime in ("shared", "honest", "cross-fit", "cross-validated")
    }
    assert "slight" not in " ".join(said.values())
    # 90 rows in 5 folds: 72 to fit on, 18 left; of the honest half 36 and 9. 10 trees: 2 each.
    assert "by 2 of the 10 trees, fitted on 72 rows" in said["shared"]
    assert "fitted on 36 rows, on 10 trees that were grown on other rows" in said["honest"]
    assert "2 of the 10 trees, with coefficients fitted on 18 rows" in said["cross-fit"]
    assert "2 of the 10 trees, with coefficients fitted on 72 rows" in said["cross-validated"]
    for regime in ("cross-fit", "cross-validated"):
        assert "not their average, which the model is" in said[regime]


def test_a_fit_that_is_no_better_than_a_constant_says_so(run, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    frame.assign(y=rng.choice(["u", "v"], 200)).to_csv(tmp_path / "noise.csv", index=False)
    done = run("fit", tmp_path / "noise.csv", "--target", "y", "-o", tmp_path / "m.kpp", *FEW)
    text = " ".join(done.out.split())
    assert "Warning: by its accuracy the model is not known to be better than a constant" in text
    done = run("fit", "iris", "-o", tmp_path / "m.kpp", *FEW)
    assert "not known to be better" not in done.out


def test_one_constant_everywhere(run, tmp_path):
    """The command, the report and the dashboard compare with the same."""
    data = run("fit", "diabetes", "-o", tmp_path / "m.kpp", "--json", *FEW).data
    level = data["scores"]["baseline"]["rmse"]
    found = run("diagnose", tmp_path / "m.kpp", "diabetes", "--json").data
    assert found["constant"]["rmse"] == pytest.approx(level, rel=1e-12)
    arguments = ["--model", tmp_path / "m.kpp", "--max-rows", 1, "-o", tmp_path / "r.html"]
    report = run("report", "diabetes", *arguments, "--json", "-").data
    line = report["sections"]["quality"]["tables"][0]["lines"][0]
    assert line["baseline"] == pytest.approx(level, rel=1e-12)
    assert [line["low"], line["high"]] == pytest.approx(data["scores"]["test"]["intervals"]["rmse"])


def test_a_quantile_is_fitted_and_scored_by_its_loss(run, tmp_path, folder):
    out = tmp_path / "m.kpp"
    asked = ["--target", "price", "--id", "id", "--out", out, "--loss", "quantile"]
    done = run("fit", folder / "reg.csv", *asked, "--quantile", "0.8", *FEW, "--json")
    assert (done.data["loss"], done.data["quantile"]) == ("quantile", 0.8)
    frame = pd.read_csv(folder / "reg.csv")
    train, test = train_test_split(np.arange(len(frame)), test_size=0.2, random_state=0)
    model = load(out)
    y, prediction = frame["price"][test], model.predict(frame.iloc[test][done.data["columns"]])
    scores = done.data["scores"]
    expected = mean_pinball_loss(y, prediction, alpha=0.8)
    assert scores["test"]["pinball_loss"] == pytest.approx(expected)
    constant = np.full(len(test), model[-1].constant_[0])
    expected = mean_pinball_loss(y, constant, alpha=0.8)
    assert scores["baseline"]["pinball_loss"] == pytest.approx(expected)
    assert (frame["price"][train] < constant[0]).mean() <= 0.8
    assert (frame["price"][train] > constant[0]).mean() <= 0.2 + 1e-12
    shown = run("fit", folder / "reg.csv", *asked, *FEW)
    assert "quantile 0.5" in shown.out
    assert "mean pinball loss" in shown.out


@pytest.mark.parametrize("loss", ["squared", "huber", "quantile", "poisson"])
@pytest.mark.parametrize("width", [60, 80])
def test_scores_are_printed_whole(run, tmp_path, folder, monkeypatch, loss, width):
    """Every name and every figure is there to the last character on a narrow terminal."""
    monkeypatch.setenv("COLUMNS", str(width))
    asked = ["--target", "price", "--id", "id", "--loss", loss, "--out", tmp_path / "m.kpp"]
    scores = run("fit", folder / "reg.csv", *asked, *FEW, "--json").data["scores"]
    shown = run("fit", folder / "reg.csv", *asked, *FEW, "-q").out
    assert max(map(len, shown.splitlines())) <= width
    lines = [line.split() for line in shown.splitlines()]
    table = lines[lines.index([]) + 1 :][: lines[lines.index([]) + 1 :].index([])]
    words = [word for line in table for word in line]
    samples = ("out_of_fold", "test", "baseline")
    assert " ".join(table[0]) == "scores out of fold test rows a constant, test rows"
    assert table[1] == ["rows", *(str(scores[sample]["n_rows"]) for sample in samples)]
    for name in [name for name in scores["test"] if name in WORDS]:
        values = [short(scores[sample][name]) for sample in samples]
        assert set(values) <= set(words)
        if width == 80:
            assert [*WORDS[name].split(), *values] in table
        assert set(WORDS[name].split()) <= set(words)


def test_several_quantiles_are_one_model(run, tmp_path, folder):
    out = tmp_path / "m.kpp"
    asked = ["--target", "price", "--id", "id", "--out", out, "--loss", "quantile", *FEW]
    both = ["--quantile", "0.05", "--quantile", "0.95"]
    done = run("fit", folder / "reg.csv", *asked, *both, "--json")
    assert done.code == 0, done.err
    assert done.data["quantile"] == [0.05, 0.95]
    frame = pd.read_csv(folder / "reg.csv")
    train, test = train_test_split(np.arange(len(frame)), test_size=0.2, random_state=0)
    model, y = load(out), frame["price"].to_numpy()
    assert model[-1].loss_.quantiles == (0.05, 0.95)
    columns = done.data["columns"]
    own = y[np.sort(train)]
    predicted = {
        "test": (y[test], model.predict(frame.iloc[test][columns])),
        "out_of_fold": (own, model[-1].oof_prediction_),
        # Between two rows any number is a quantile: the model keeps the middle.
        "baseline": (y[test], np.tile(model[-1].constant_, (len(test), 1))),
    }
    for sample, (truth, found) in predicted.items():
        each = [mean_pinball_loss(truth, found[:, k], alpha=q) for k, q in enumerate([0.05, 0.95])]
        scores = done.data["scores"][sample]
        assert [scores[f"pinball_loss_{q}"] for q in (0.05, 0.95)] == pytest.approx(each)
        assert scores["pinball_loss"] == pytest.approx(np.mean(each))
        assert "rmse" not in scores
    for q, constant in zip([0.05, 0.95], model[-1].constant_, strict=True):
        assert (own < constant).mean() <= q <= (own <= constant).mean()
    shown = run("fit", folder / "reg.csv", *asked, *both).out
    assert "quantile 0.05, 0.95" in shown
    assert "mean pinball loss of 0.95" in shown
    predicted = run("predict", out, folder / "reg.csv", "--interval", "0.9").out
    assert predicted.startswith("prediction_0.05,prediction_0.95,lower,upper\n")
    # What speaks of one number says so.
    for command in (["explain"], ["explain", "--row", 0], ["certify", "--epsilon", 1]):
        refused = run(command[0], out, folder / "reg.csv", *command[1:])
        assert refused.code == 2
        assert "speaks of one number, and this model predicts 2 quantiles" in refused.err
    report = run("report", folder / "reg.csv", "--model", out, "-o", tmp_path / "r.html")
    assert report.code == 2
    assert "A report shows one quantile, and this model has several" in report.err


def test_a_report_on_several_quantiles_is_refused_before_the_fit(
    run, tmp_path, folder, monkeypatch
):
    monkeypatch.setattr("kpp.cli.report.fit_table", None)
    asked = ["--target", "price", "--loss", "quantile", "--quantile", 0.1, "--quantile", 0.9]
    done = run("report", folder / "reg.csv", *asked, "-o", tmp_path / "r.html")
    assert done.code == 2
    assert "A report shows one quantile: give --quantile once" in " ".join(done.err.split())


@pytest.mark.parametrize("command", ["fit", "report"])
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--quantile", 0.9], "--quantile 0.9 is of --loss quantile: give that, too"),
        (["--quantile", 0.5, "--loss", "huber"], "the loss is huber"),
        (["--quantile", 0.3, "--quantile", 0.3, "--loss", "quantile"], "0.3 is given twice"),
        (["--quantile", 5, "--loss", "quantile"], "strictly between 0 and 1; got 5"),
    ],
)
def test_quantiles_that_cannot_be(run, tmp_path, folder, command, asked, said):
    out = ["--target", "price", "--out", tmp_path / "out"]
    done = run(command, folder / "reg.csv", *out, *asked, *FEW)
    assert done.code == 2
    assert said in " ".join(done.err.split())


def test_losses_that_do_not_go_with_the_target(run, tmp_path, folder):
    out = ["--out", tmp_path / "m.kpp"]
    wrong = run("fit", "iris", *out, *FEW, "--loss", "huber")
    assert wrong.code != 0
    assert "--loss huber is of numbers" in wrong.err
    wrong = run("fit", folder / "reg.csv", "--target", "price", *out, "--quantile", "1")
    assert wrong.code != 0
    assert "--quantile" in wrong.err
    # The command's names are those of the models.
    assert [loss.value for loss in Loss] == list(LOSSES)


def test_parts_may_choose_for_themselves_among_so_many_folds(run, tmp_path):
    out = tmp_path / "m.kpp"
    asked = ["--regime", "cross-validated", "--nested", "--folds", "3"]
    done = run("fit", "breast_cancer", *asked, *FEW, "--out", out, "--json")
    model = load(out)[-1]
    assert model.alpha_selection_ == "nested"
    assert len(model.folds_) == 3
    assert done.data["trees"] == model.additive_.n_trees == 3 * 10
    assert model.fit_record_.n_candidates == 1


def test_what_is_said_of_parts_is_so(run, tmp_path, folder):
    """Of their alphas, whether chosen or given; of what errs; of what bounds are of."""
    asked = ["fit", folder / "reg.csv", "--target", "price", "--drop", "city", *FEW]
    asked += ["--regime", "cross-validated", "--nested", "--folds", 3, "-q", "-o"]
    said = {}
    for alpha in ("1", "auto"):
        out = tmp_path / f"{alpha}.kpp"
        said[alpha] = " ".join(run(*asked, out, "--alpha", alpha).out.split())
        assert load(out)[-1].additive_.n_trees == 3 * 10  # whole parts
        assert "scored for all makes these figures pessimistic" in said[alpha]
        assert "optimistic" not in said[alpha]
    assert "alpha 1, as given" in said["1"]
    assert "means over the parts, each of which has chosen its own" in said["auto"]
    assert "chosen out of fold" not in said["auto"] + said["1"]


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_bounds_over_folds_are_of_what_they_say(run, tmp_path, kind):
    _table(tmp_path, kind)
    asked = ["--target", "y", "--regime", "cross-validated", "--test-size", 0, *FEW]
    out = tmp_path / "m.kpp"
    said = " ".join(run("fit", tmp_path / "x.csv", *asked, "-q", "-o", out).out.split())
    assert ("the mean of the folds' clipped predictions" in said) == (kind == "numbers")
    assert ("the vote and the averages" in said) == (kind == "classes")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--nested"], "--nested lets every part of --regime cross-validated choose"),
        (["--folds", "1"], "--folds must be at least 2; got 1"),
        (["--folds", "61"], "too many for 120 rows to fit: every fold needs 2 rows, so that there"),
        (["--folds", "45"], "45 folds, each with its share of every class, need a class of as"),
        (
            ["--regime", "cross-validated", "--nested", "--time", "x"],
            "--nested does not go with --time",
        ),
    ],
)
def test_folds_that_cannot_be(run, tmp_path, asked, said):
    done = run("fit", "iris", *asked, *FEW, "--out", tmp_path / "m.kpp")
    assert done.code != 0
    assert said in " ".join(done.err.split())
