"""`kpp diagnose`, `kpp report` and `kpp info`."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from cli_tables import HOSTILE

from kpp import Forest, KPPEmbedding, KPPRegressor, diagnose
from kpp.cli.errors import UserError
from kpp.cli.files import replace
from kpp.io import load, save

FEW = ["--trees", "10", "--jobs", "1"]


def test_diagnose_is_the_librarys(run, folder):
    data = run("diagnose", folder / "cls.kpp", folder / "cls.csv", "--json").data
    model = load(folder / "cls.kpp")
    frame = pd.read_csv(folder / "cls.csv")
    X = model[0].transform(frame[list(model[0].feature_names_in_)])
    own = diagnose(model[-1], X, frame["label"].to_numpy()).to_dict()
    assert {key: data[key] for key in own} == json.loads(json.dumps(own))
    assert data["target"] == "label"


def test_diagnose_for_people(run, folder):
    done = run("diagnose", folder / "reg.kpp", folder / "reg.csv")
    assert done.code == 0
    assert "effective_dimension_per_row" in done.out
    assert "160 test rows, regime shared" in done.out
    assert "KPP004 warning" in done.out


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
def test_findings_as_exit_codes(run, tmp_path, severity, fail_on, code):
    # On its training rows a shared model has findings of both levels.
    run("fit", "wine", "--test-size", 0, "--trees", 5, "-o", tmp_path / "wine.kpp")
    common = ["diagnose", tmp_path / "wine.kpp", "wine", "--sample", "train", "--json"]
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
    done = run("diagnose", folder / "cls.kpp", tmp_path / "x.csv")
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
    ],
)
def test_reports_that_cannot_be(run, folder, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    done = run("report", *arguments, *FEW)
    assert done.code == 2
    assert message in done.err
    assert not (folder / "r").exists()


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
    done = run("info", folder / "cls.kpp")
    assert "\x1b" not in done.out
    assert r"[bold]<b>evil</b>\x1b[31m" in done.out
    assert "right" in done.out


def test_info_of_other_files(run, folder, tmp_path):
    X = pd.DataFrame({"a": np.arange(30.0), "b": np.arange(30.0)[::-1] ** 2})
    embedding = KPPEmbedding(n_estimators=5, random_state=0).fit(X, X["a"])
    regressor = KPPRegressor(n_estimators=5, alpha=1.0, random_state=0).fit(X, X["a"])
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
            done = run(*command, tmp_path / name, *rest)
            assert done.code == 2
            assert name in done.err
            assert "Traceback" not in done.err


def test_other_versions_are_said(run, folder, monkeypatch):
    def older(path):
        warnings.warn("made by skrub 0.6", UserWarning, stacklevel=2)
        return load(path)

    monkeypatch.setattr("kpp.io.load", older)
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
    done = run("diagnose", tmp_path / "m.kpp", tmp_path / "new.csv", "--json")
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
        replace(path, write)
    assert path.read_text() == "old"
    with pytest.raises(KeyboardInterrupt):
        replace(path, interrupted)
    assert [p.name for p in tmp_path.iterdir()] == ["x.csv"]
    assert path.read_text() == "old"


def interrupted(temporary):
    temporary.write_text("half")
    raise KeyboardInterrupt
