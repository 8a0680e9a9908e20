"""`kpp diagnose`, `kpp report` and `kpp info`."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from cli_tables import HOSTILE
from sklearn.model_selection import train_test_split

from kpp import Forest, KPPEmbedding, KPPRegressor, diagnose
from kpp.cli import main
from kpp.io import load, outline, save
from kpp.tables.errors import UserError
from kpp.tables.writing import replace_file

FEW = ["--forest", "extra-trees", "--trees", "6", "--jobs", "1"]
MORE = ["--forest", "extra-trees", "--trees", 12, "--jobs", 1]


def held_out_rows(n_rows, seed=0):
    """The rows that `kpp fit` draws for the test."""
    return np.sort(
        train_test_split(np.arange(n_rows), test_size=-(-n_rows // 5), random_state=seed)[1]
    )


def test_diagnose_is_the_librarys(run, folder):
    data = run("diagnose", folder / "cls.kpp", folder / "cls.csv", "--json").data
    model = load(folder / "cls.kpp")
    frame = pd.read_csv(folder / "cls.csv").iloc[held_out_rows(160)]
    X = model[0].transform(frame[list(model[0].feature_names_in_)])
    own = diagnose(model[-1], X, frame["label"].to_numpy()).to_dict()
    assert {key: data[key] for key in own} == json.loads(json.dumps(own))
    assert data["target"] == "label"


def test_diagnose_for_people(run, folder):
    done = run("diagnose", folder / "reg.kpp", folder / "reg.csv")
    assert done.code == 0
    assert "effective_dimension_per_row" in done.out
    assert "On the 32 rows of reg.csv that fit held out; regime shared" in done.out
    assert "KPP004 warning" in done.out


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    """On its training rows a shared model has findings of both levels."""
    model = tmp_path_factory.mktemp("wine") / "wine.kpp"
    few = ["--forest", "extra-trees", "--trees", "5", "--quiet"]
    assert main(["fit", "wine", "--test-size", "0", *few, "-o", str(model)]) == 0
    return model


@pytest.mark.parametrize(
    ("severity", "fail_on", "code"),
    [
        ("warning", "warning", 1),
        ("warning", "info", 1),
        ("warning", "never", 0),
        ("info", "warning", 0),
        ("info", "info", 1),
        (None, "info", 0),
    ],
)
def test_findings_as_exit_codes(run, wine, severity, fail_on, code):
    common = ["diagnose", wine, "wine", "--sample", "train", "--json"]
    found = run(*common).data["findings"]
    silenced = [f["code"] for f in found if f["severity"] != severity]
    kept = [f["code"] for f in found if f["severity"] == severity]
    assert kept or severity is None
    silence = [word for c in silenced for word in ("--silence", c)]
    done = run(*common, "--fail-on", fail_on, *silence)
    assert [f["code"] for f in done.data["findings"]] == kept
    assert done.code == code
    assert done.data["failed"] == bool(code)


def test_where_the_target_is(run, folder, tmp_path):
    frame = pd.read_csv(folder / "cls.csv").drop(columns=["const", "empty", "id"])
    frame.drop(columns="label").to_csv(tmp_path / "none.csv", index=False)
    done = run("diagnose", folder / "cls.kpp", tmp_path / "none.csv")
    assert done.code == 2
    assert "the target is missing" in done.err
    frame.rename(columns={"label": "truth"}).to_csv(tmp_path / "one.csv", index=False)
    done = run("diagnose", folder / "cls.kpp", tmp_path / "one.csv")
    assert done.code == 0
    assert "Target: 'truth', the only column" in done.err
    frame.rename(columns={"label": "truth"}).assign(x=1).to_csv(tmp_path / "two.csv", index=False)
    done = run("diagnose", folder / "cls.kpp", tmp_path / "two.csv")
    assert done.code == 2
    assert "fitted to 'label'. Which column" in done.err
    done = run("diagnose", folder / "cls.kpp", tmp_path / "two.csv", "--target", "truth")
    assert done.code == 0
    done = run("diagnose", folder / "cls.kpp", tmp_path / "two.csv", "--target", "thruth")
    assert "Did you mean 'truth'?" in done.err


def test_labels_that_the_model_does_not_know(run, folder, tmp_path):
    frame = pd.read_csv(folder / "cls.csv")
    frame.loc[3, "label"] = "middle"
    frame.loc[4, "label"] = None
    frame.to_csv(tmp_path / "x.csv", index=False)
    done = run("diagnose", folder / "cls.kpp", tmp_path / "x.csv", "--rows", "all")
    assert done.code == 2
    assert "holds 'middle', which the model has not seen" in done.err
    assert "1 row(s) without 'label'" in done.err


def test_report_fits_and_says_where_it_is(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("report", "iris", *FEW, "--max-rows", 2)
    assert done.code == 0, done.err
    assert done.out == "iris-report.html\n"
    page = (tmp_path / "iris-report.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html")
    assert "versicolor" in page
    assert "Fitted on 120 rows; the report is on 30 test rows" in done.err


def test_report_of_a_model_with_json(run, folder, tmp_path):
    out, data = tmp_path / "r.html", tmp_path / "r.json"
    arguments = ["--model", folder / "cls.kpp", "--max-rows", 2, "--out", out]
    opened = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("webbrowser.open", opened.append)
        done = run("report", folder / "cls.csv", *arguments, "--open", "--json", data)
    assert done.code == 0, done.err
    assert opened == [out.absolute().as_uri()]
    content = json.loads(data.read_text())
    assert all(section["made"] for section in content["sections"].values()), content
    page = out.read_text()
    assert "<b>evil</b>" not in page
    assert "\x1b" not in page
    done = run("report", folder / "cls.csv", *arguments, "--json", "-")
    assert done.data["sections"].keys() == content["sections"].keys()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reg.csv", "--target", "price", "--test-size", "0"], "needs test rows"),
        (["reg.csv", "--target", "price", "--out", "reg.csv"], "is an input"),
        (["reg.csv", "--model", "reg.kpp", "--out", "reg.kpp"], "is an input"),
        (["reg.csv", "--target", "price", "--out", "r", "--json", "r"], "the same file"),
        (["reg.csv"], "Give --target"),
        (["cls.csv", "--target", "label", "--y-range", "0", "1"], "--y-range is for regression"),
        (["reg.csv", "--target", "price", "--y-range", "1", "0"], "got 1 and 0"),
        (["reg.csv", "--target", "price", "--json", "--quiet"], "'--quiet' looks like an option"),
        (["reg.csv", "--target", "price", "--out", "-q"], "'-q' looks like an option"),
        (["reg.csv", "--model", "reg.kpp", "--id", "ids"], "no column 'ids' (--id)"),
        (["reg.csv", "--model", "reg.kpp", "--weights", "colour"], "must be numbers"),
    ],
)
def test_reports_that_cannot_be(run, folder, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    done = run("report", *arguments, *([] if "--model" in arguments else FEW))
    assert done.code == 2
    assert message in done.err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    "option",
    [
        ["--task", "auto"],
        ["--forest", "boosted"],
        ["--trees", "5"],
        ["--regime", "honest"],
        ["--alpha", "1"],
        ["--test-size", "0.2"],
        ["--test", "reg.csv"],
        ["--drop", "size"],
        ["--jobs", "1"],
    ],
)
def test_a_model_is_not_fitted_again(run, folder, monkeypatch, option):
    monkeypatch.chdir(folder)
    done = run("report", "reg.csv", "--model", "reg.kpp", "--out", "never.html", *option)
    assert done.code == 2
    assert f"{option[0]}: for a fit, and --model is fitted already" in done.err
    assert not (folder / "never.html").exists()


def report_json(run, tmp_path, *arguments):
    done = run("report", *arguments, "--max-rows", 3, "--out", tmp_path / "r.html", "--json", "-")
    assert done.code == 0, done.err
    return done.data, (tmp_path / "r.html").read_text()


def test_rows_of_a_report_are_found_in_the_file(run, folder, tmp_path):
    frame = pd.read_csv(folder / "reg.csv")
    frame.loc[[2, 3, 50], "price"] = np.nan
    frame["w"] = 1.0 + (frame.index % 3)
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    common = [tmp_path / "gaps.csv", "--target", "price", "--weights", "w", *FEW]
    for named in (["--id", "id"], []):
        data, page = report_json(run, tmp_path, *common, *named)
        rows = data["sections"]["rows"]["rows"]
        for row in rows:
            near = [*row["neighbours"]["test"], *row["neighbours"]["fit"], *row["carriers"]["rows"]]
            for one in [row, *near]:
                if named:
                    own = frame[frame["id"] == one["label"]]
                else:
                    own = frame.loc[[int(one["label"].removeprefix("table row "))]]
                assert len(own) == 1
                price = float(one["actual"].replace("\N{MINUS SIGN}", "-"))
                assert price == pytest.approx(own["price"].iloc[0], rel=1e-3)
        fitted = data["sections"]["fitted"]
        about = " ".join(fitted["source"])
        assert fitted["target"] == "price"
        assert "rows of gaps.csv" in about
        assert str(tmp_path) not in page
        assert "3 rows were left out: they have no 'price'" in about
        assert "drawn at random with the seed 0; the fit has not used them" in about
        assert "Weights are in the column 'w'" in about
        assert "'const', 'empty'" in about
        assert "column 'id'" in about if named else "counted from 0" in about
        assert fitted["unseen"]
        assert "price" in page
        assert rows[0]["label"] in page
        assert "Every row counts once in the charts of this section" in page
        assert "is not known" not in page


def test_ids_that_are_not_unique_still_name_a_row(run, folder, tmp_path):
    frame = pd.read_csv(folder / "cls.csv")
    frame["id"] = "same"
    frame.loc[5, "id"] = None
    frame.to_csv(tmp_path / "x.csv", index=False)
    data, _ = report_json(
        run, tmp_path, tmp_path / "x.csv", "--target", "label", "--id", "id", *FEW
    )
    for row in data["sections"]["rows"]["rows"]:
        number = int(row["label"].split("table row ")[1].rstrip(")"))
        assert frame["label"][number] == row["actual"]


def test_a_report_of_a_model_honours_ids_weights_and_limits(run, folder, tmp_path):
    frame = pd.read_csv(folder / "reg.csv").assign(w=np.arange(160.0), other=np.arange(160) + 1000)
    frame.to_csv(tmp_path / "x.csv", index=False)
    common = [tmp_path / "x.csv", "--model", folder / "reg.kpp"]
    weighed, page = report_json(run, tmp_path, *common, "--id", "other", "--weights", "w")
    held_out = held_out_rows(160)
    for row in weighed["sections"]["rows"]["rows"]:
        assert row["label"] == str(1000 + held_out[row["row"]])
    frame = frame.iloc[held_out]
    model = load(folder / "reg.kpp")
    error = frame["price"] - model.predict(frame[list(model[0].feature_names_in_)])
    line = weighed["sections"]["quality"]["tables"][0]["lines"][0]
    assert line["test"] == pytest.approx(np.sqrt(np.average(error**2, weights=frame["w"])))
    # The id of the fit, where none is named; and limits of the target reach the bounds.
    plain, _ = report_json(run, tmp_path, *common, "--y-range", "-500", "500")
    assert [row["label"] for row in plain["sections"]["rows"]["rows"]] == [
        f"row {held_out[row['row']]:04d}" for row in plain["sections"]["rows"]["rows"]
    ]
    text = json.dumps(plain["sections"]["bounds"])
    assert "the caller says that Y lies in [-500, 500]" in text
    assert "held-out bound" in text
    assert "--y-range LOW HIGH" in json.dumps(weighed["sections"]["bounds"])
    assert "held-out bound" not in json.dumps(weighed["sections"]["bounds"])
    # These rows were held out, and the page calls them test rows.
    assert "The report is on the 32 rows of x.csv that fit held out." in page
    assert "Whether the fit has used some of" not in page
    assert tile(weighed, "Test rows")["value"] == "32"


def tile(data, label):
    return next(tile for tile in data["tiles"] if tile["label"] == label)


@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit", "cross-validated"])
def test_rows_of_the_fit_give_no_guarantee_on_test_rows(run, tmp_path, regime):
    """In the honest regime the linear layer saw two fifths of the file."""
    fitting = [
        "--regime",
        regime,
        *MORE,
        "-q",
        "-o",
        tmp_path / "m.kpp",
    ]
    assert run("fit", "breast_cancer", *fitting).code == 0
    common = ["breast_cancer", "--model", tmp_path / "m.kpp"]
    data, page = report_json(run, tmp_path, *common, "--rows", "all")
    assert tile(data, "Rows")["value"] == "569"
    assert "455 of 569 are known to be" in page
    assert "Test rows" not in page
    bounds = [b for s in data["sections"]["bounds"]["samples"] for b in s["bounds"]]
    held_out = [b for b in bounds if b["name"] == "held-out bound"]
    assert len(held_out) == 1
    assert not held_out[0]["is_guarantee"]
    assert "among them" in json.dumps(held_out)
    # Rows that were kept for the test are a guarantee, also of the saved model.
    saved, _ = report_json(run, tmp_path, *common)
    bounds = [b for s in saved["sections"]["bounds"]["samples"] for b in s["bounds"]]
    assert [b["is_guarantee"] for b in bounds if b["name"] == "held-out bound"] == [True]
    if regime not in ("shared", "honest"):  # a fresh fit goes one way in all regimes
        return
    data, _ = report_json(run, tmp_path, "breast_cancer", *fitting[:6])
    bounds = [b for s in data["sections"]["bounds"]["samples"] for b in s["bounds"]]
    assert [b["is_guarantee"] for b in bounds if b["name"] == "held-out bound"] == [True]


def test_the_walk_scores_the_rows_that_the_fit_held_out(run, tmp_path):
    """Fit, diagnose, report and a fresh report show one score: that of the fit's test rows."""
    fitted = run("fit", "breast_cancer", *MORE, "-o", tmp_path / "m.kpp", "--json").data
    own = fitted["scores"]["test"]
    assert own["n_rows"] == 114
    for other in ([], ["--rows", "held-out"], ["--rows", "new"]):
        found = run("diagnose", tmp_path / "m.kpp", "breast_cancer", "--json", *other).data
        assert found["metrics"]["error"] == pytest.approx(1 - own["accuracy"])
        assert found["metrics"]["auc"] == own["auc"]
        assert found["sample"] == "test"
        assert found["rows"]["n_rows"] == 114
        assert found["rows"]["n_fitted"] == 0
    saved, page = report_json(run, tmp_path, "breast_cancer", "--model", tmp_path / "m.kpp")
    fresh, _ = report_json(run, tmp_path, "breast_cancer", *MORE)
    for data in (saved, fresh):
        line = data["sections"]["quality"]["tables"][0]["lines"][0]
        assert line["test"] == own["accuracy"]
    assert "the 114 rows of breast_cancer that fit held out" in page
    done = run("certify", tmp_path / "m.kpp", "breast_cancer", "--json")
    assert done.data["columns"]["row"] == held_out_rows(569).tolist()
    assert done.data["rows"]["kind"] == "held-out"
    assert "the 114 rows of breast_cancer that fit held out" in done.err


def test_rows_of_the_fit_are_never_test_rows(run, tmp_path):
    run(
        "fit",
        "breast_cancer",
        *MORE,
        "-o",
        tmp_path / "m.kpp",
    )
    common = ["diagnose", tmp_path / "m.kpp", "breast_cancer"]
    done = run(*common, "--rows", "all")
    assert "warning: Diagnosed on all 569 rows of breast_cancer, 455 of them rows" in done.err
    assert "test rows" not in done.out
    found = run(*common, "--rows", "all", "--json").data
    assert found["sample"] == "seen"
    assert found["rows"]["n_fitted"] == 455
    # The rows of the fit by themselves are found in the table.
    assert run(*common, "--sample", "train", "--json").data["n_rows"] == 455
    done = run(*common, "--sample", "train", "--rows", "new")
    assert done.code == 2
    assert "--sample train takes the rows of the fit" in done.err


@pytest.mark.parametrize(("name", "label"), [("cls", None), ("reg", None), ("iris", "iris")])
def test_report_and_explain_agree_on_every_row(run, folder, tmp_path, name, label):
    """The same class, the same baseline and the same contributions, of both classes of two."""
    table = label or folder / f"{name}.csv"
    done = run(
        *("report", table, "--model", folder / f"{name}.kpp", "--max-rows", 12),
        *("--out", tmp_path / "r.html", "--json", "-"),
    )
    section = done.data["sections"]["rows"]
    held_out = held_out_rows(150 if label else 160)
    explained = set()
    for row in section["rows"]:
        place = held_out[row["row"]]
        command = ["explain", folder / f"{name}.kpp", table, "--row", place, "--json"]
        own = run(*command).data
        first = row["waterfalls"][0]
        if name != "reg":
            assert first["output"] == own["output"] == row["predicted"]
        assert first["score"] == pytest.approx(own["score"], rel=1e-12, abs=1e-12)
        assert first["baseline"] == pytest.approx(own["baseline"], rel=1e-12, abs=1e-12)
        values = {c["column"]: c["contribution"] for c in own["contributions"]}
        for term in first["terms"]:
            column = next(c for c in values if c == term["variable"] or c == HOSTILE)
            if term["variable"] in values:
                column = term["variable"]
            assert term["contribution"] == pytest.approx(values[column], rel=1e-9, abs=1e-12)
        total = first["baseline"] + sum(t["contribution"] for t in first["terms"])
        assert total + first["others"] == pytest.approx(first["score"])
        assert row["rules"]["score"] == pytest.approx(own["score"])
        assert row["rules"]["baseline"] == pytest.approx(own["rules_baseline"])
        assert row["carriers"]["score"] == pytest.approx(own["score"])
        assert own["convention"] == section["convention"]
        explained.add(first["output"])
    assert len(explained) == {"cls": 2, "reg": 1, "iris": 3}[name]
    assert section["convention"] in (tmp_path / "r.html").read_text()


def test_a_fit_that_holds_nothing_out(run, tmp_path):
    fitting = [
        "--test-size",
        0,
        *MORE,
        "-o",
        tmp_path / "m.kpp",
    ]
    run("fit", "breast_cancer", *fitting)
    done = run("diagnose", tmp_path / "m.kpp", "breast_cancer")
    assert done.code == 0
    assert "there are no held-out rows" in " ".join(done.out.split())
    assert "warning: Diagnosed on all 569 rows" in done.err
    for choice in ("held-out", "new"):
        done = run("diagnose", tmp_path / "m.kpp", "breast_cancer", "--rows", choice)
        assert done.code == 2
        assert f"--rows {choice}" in done.err
    data, page = report_json(run, tmp_path, "breast_cancer", "--model", tmp_path / "m.kpp")
    assert tile(data, "Rows")["value"] == "569"
    assert "there are no held-out rows" in page
    assert "KPP010" not in json.dumps(data["sections"]["findings"])


def test_rows_in_a_test_file_and_in_another_order(run, folder, tmp_path):
    frame = pd.read_csv(folder / "cls.csv")
    frame[:100].to_csv(tmp_path / "fit.csv", index=False)
    frame[100:].to_csv(tmp_path / "test.csv", index=False)
    fitting = ["--target", "label", "--id", "id", *FEW, "-o", tmp_path / "m.kpp"]
    run("fit", tmp_path / "fit.csv", "--test", tmp_path / "test.csv", *fitting)
    shuffled = frame.sample(frac=1.0, random_state=0)
    shuffled[shuffled.columns[::-1]].to_parquet(tmp_path / "all.parquet")
    found = run("diagnose", tmp_path / "m.kpp", tmp_path / "test.csv", "--json").data["rows"]
    assert (found["kind"], found["n_rows"]) == ("held-out", 60)
    found = run("diagnose", tmp_path / "m.kpp", tmp_path / "all.parquet", "--json").data["rows"]
    assert (found["kind"], found["n_rows"]) == ("held-out", 60)
    # Rows of the fit in the test file are counted.
    frame[90:].to_csv(tmp_path / "overlap.csv", index=False)
    done = run("fit", tmp_path / "fit.csv", "--test", tmp_path / "overlap.csv", *fitting)
    assert "10 rows of" in done.err
    assert "equal a row of the fit in every column" in done.err


def test_a_class_that_only_held_out_rows_have(run, tmp_path):
    """The fit does not score it, and neither does what comes after."""
    held_out = held_out_rows(60)
    labels = np.array(["u", "v"] * 30, dtype=object)
    labels[held_out[:2]] = "w"
    frame = pd.DataFrame({"a": np.arange(60.0) % 7, "b": np.arange(60.0), "y": labels})
    frame.to_csv(tmp_path / "x.csv", index=False)
    fitting = ["--target", "y", *FEW, "-o", tmp_path / "m.kpp", "--json"]
    own = run("fit", tmp_path / "x.csv", *fitting).data["scores"]["test"]
    done = run("diagnose", tmp_path / "m.kpp", tmp_path / "x.csv", "--json")
    assert done.code == 0, done.err
    assert done.data["n_rows"] == own["n_rows"] == 10
    assert done.data["metrics"]["error"] == pytest.approx(1 - own["accuracy"])
    assert "2 held-out row(s) are of classes that no row of the fit has" in done.err


def test_rows_need_a_model_that_is_fitted(run):
    done = run("report", "iris", "--rows", "all")
    assert done.code == 2
    assert "--rows needs --model" in done.err


def test_a_model_from_python_does_not_say(run, tmp_path):
    X = pd.DataFrame({"a": np.arange(30.0), "b": np.arange(30.0)[::-1] ** 2, "y": np.arange(30.0)})
    save(
        KPPRegressor("extra-trees", n_estimators=5, alpha=1.0).fit(X[["a", "b"]], X["y"]),
        tmp_path / "m.kpp",
    )
    X.to_csv(tmp_path / "x.csv", index=False)
    done = run("diagnose", tmp_path / "m.kpp", tmp_path / "x.csv", "--json")
    assert done.data["rows"]["kind"] == "unknown"
    assert "is not known" in done.data["rows"]["said"]


def test_info(run, folder):
    data = run("info", folder / "cls.kpp", "--json").data
    model = load(folder / "cls.kpp")
    assert data["task"] == "classification"
    assert data["target"] == "label"
    assert data["classes"] == ["high", "low"]
    assert data["alpha"] == model[-1].alpha_
    assert data["trees"] == 12
    assert data["nodes"] == model[-1].forest_.n_nodes
    assert data["bytes"] == (folder / "cls.kpp").stat().st_size
    kinds = {c["name"]: c["kind"] for c in data["columns"]}
    assert kinds == {
        "size": "number",
        "colour": "category",
        HOSTILE: "category",
        "when": "date",
        "city": "text",
        "flag": "number",
    }
    assert sum(c["prepared"] for c in data["columns"]) == model[-1].n_features_in_
    assert data["versions"]["scikit-learn"]
    assert data["written_beside"]["rows"] == {"fitted": 128, "held_out": 32, "test_file": 0}
    done = run("info", folder / "cls.kpp")
    assert "\x1b" not in done.out
    assert r"[bold]<b>evil</b>\x1b[31m" in done.out
    assert "right" in done.out


def test_info_of_other_files(run, folder, tmp_path):
    X = pd.DataFrame({"a": np.arange(30.0), "b": np.arange(30.0)[::-1] ** 2})
    embedding = KPPEmbedding(n_estimators=5, random_state=0).fit(X, X["a"])
    regressor = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0).fit(
        X, X["a"]
    )
    for name, thing, task in [
        ("e", embedding, "embedding"),
        ("f", embedding.forest_, None),
        ("r", regressor, "regression"),
    ]:
        save(thing, tmp_path / f"{name}.kpp")
        assert run("info", tmp_path / f"{name}.kpp", "--json").data["task"] == task
        assert run("info", tmp_path / f"{name}.kpp").code == 0
    assert isinstance(embedding.forest_, Forest)
    X.to_csv(tmp_path / "x.csv", index=False)
    for name in ("e", "f"):
        done = run("predict", tmp_path / f"{name}.kpp", tmp_path / "x.csv")
        assert done.code == 2
        assert "does not predict" in done.err
    # A model without a preparation takes the columns by name as well.
    done = run("predict", tmp_path / "r.kpp", tmp_path / "x.csv", "--json")
    assert done.data["columns"]["prediction"] == regressor.predict(X).tolist()


def test_damaged_models_are_refused(run, folder, tmp_path):
    content = bytearray((folder / "cls.kpp").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "x.kpp").write_bytes(content)
    (tmp_path / "y.kpp").write_bytes(content[:1000])
    for name in ("x.kpp", "y.kpp"):
        for command in (["info"], ["predict"], ["diagnose"]):
            rest = [] if command == ["info"] else [folder / "cls.csv"]
            if name == "x.kpp" and command == ["info"]:  # in an array, which it does not show
                assert run(*command, tmp_path / name).code == 0
                rest = ["--check"]
            done = run(*command, tmp_path / name, *rest)
            assert done.code == 2
            assert name in done.err
            assert "Traceback" not in done.err


def test_other_versions_are_said(run, folder, monkeypatch):
    def older(path):
        warnings.warn("made by skrub 0.6", UserWarning, stacklevel=2)
        return outline(path)

    monkeypatch.setattr("kpp.io.outline", older)
    done = run("info", folder / "cls.kpp")
    assert done.code == 0
    assert "warning: made by skrub 0.6" in done.err


def test_labels_that_look_like_numbers_are_texts(run, tmp_path):
    """A file with 1, 2 and a gap, of a model whose classes are the texts 1, 2 and x."""
    frame = pd.DataFrame({"a": np.arange(60) % 3, "b": np.arange(60.0), "y": ["1", "2", "x"] * 20})
    frame.to_csv(tmp_path / "fit.csv", index=False)
    run("fit", tmp_path / "fit.csv", "--target", "y", "-o", tmp_path / "m.kpp", *FEW)
    rows = "".join(f"{k % 3},{k},{k % 3 + 1}\n" for k in range(30) if k % 3 < 2)
    (tmp_path / "new.csv").write_text("a,b,y\n" + rows + "0,3,\n")
    done = run("diagnose", tmp_path / "m.kpp", tmp_path / "new.csv", "--json", "--rows", "all")
    assert done.code == 0, done.err
    assert done.data["n_rows"] == 20
    assert done.data["metrics"]["error"] < 0.5


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("old")

    def write(temporary):
        temporary.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="No space left"):
        replace_file(path, write)
    assert path.read_text() == "old"
    with pytest.raises(KeyboardInterrupt):
        replace_file(path, interrupted)
    assert [p.name for p in tmp_path.iterdir()] == ["x.csv"]
    assert path.read_text() == "old"


def interrupted(temporary):
    temporary.write_text("half")
    raise KeyboardInterrupt
