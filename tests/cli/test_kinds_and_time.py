"""`--categorical`, `--numerical` and `--time`: at fit, in the file and at predict."""

import base64
import io
from contextlib import redirect_stdout
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import root_mean_squared_error

from kpp.io import describe, load

FEW = ["--forest", "extra-trees", "--trees", "10", "--jobs", "1"]
CODES = [3, 7, 10, 20]


def table(n_rows=120):
    """The target follows a code that has no order; a number has texts among it."""
    random = np.random.default_rng(0)
    code = random.choice(CODES, n_rows)
    x = random.normal(size=n_rows)
    frame = pd.DataFrame({"code": code, "x": x.astype(object)})
    frame["when"] = (pd.Timestamp("2021-05-01") + pd.to_timedelta(np.arange(n_rows) // 3, "D")).date
    frame["y"] = np.where((code == 3) | (code == 10), 5.0, 0.0) + x
    frame.loc[::10, "x"] = "unknown"
    return frame.sample(frac=1, random_state=0).reset_index(drop=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    table().to_csv(folder / "x.csv", index=False)
    return folder


KINDS = ["--categorical", "code", "--numerical", "x", "--alpha", "0.1", *FEW]


@pytest.fixture(scope="module")
def kinds(place):
    from kpp.cli import main

    fit = ["fit", f"{place}/x.csv", "--target", "y", *KINDS, "--drop", "when", "--quiet"]
    assert main([*fit, "--out", f"{place}/kinds.kpp"]) == 0
    return place / "kinds.kpp"


def test_kinds_are_those_that_were_said(run, place, kinds):
    read = {c["name"]: c["kind"] for c in run("info", kinds, "--json").data["columns"]}
    assert read == {"code": "category", "x": "number"}
    (categories,) = load(kinds)[0].transformers_["code"].categories_
    assert set(categories) == {str(code) for code in CODES}
    kept = describe(kinds).metadata
    assert (kept["categorical"], kept["numerical"]) == (["code"], ["x"])


def test_without_them_a_code_is_a_number_and_the_text_is_said(run, place, tmp_path):
    out = tmp_path / "m.kpp"
    done = run("fit", place / "x.csv", "--target", "y", *FEW, "--alpha", 1, "--out", out)
    assert "'x' is read as text because of 'unknown'" in done.err
    assert "--numerical 'x'" in done.err
    read = {c["name"]: c["kind"] for c in run("info", out, "--json").data["columns"]}
    assert (read["code"], read["x"]) == ("number", "text")


def test_what_is_no_number_is_said_at_fit_and_at_predict(run, place, kinds, tmp_path):
    fit = ["fit", place / "x.csv", "--target", "y", *KINDS, "--out", tmp_path / "m.kpp", "--quiet"]
    assert "12 of 120 values are no numbers, and count as missing: 'unknown'" in run(*fit).err
    done = run("predict", kinds, place / "x.csv", "--quiet")
    assert "Column 'x': 12 of 120 values are not the numbers" in done.err


@pytest.mark.parametrize("kind", ["int64", "float64", "str", "category"])
def test_predictions_do_not_depend_on_how_a_file_holds_the_code(run, place, kinds, tmp_path, kind):
    frame = table().drop(columns="y")
    expected = run("predict", kinds, place / "x.csv", "--quiet").out
    frame["code"] = frame["code"].astype(kind)
    frame["x"] = pd.to_numeric(frame["x"], errors="coerce")
    frame.to_parquet(tmp_path / "x.parquet")
    done = run("predict", kinds, tmp_path / "x.parquet", "--quiet")
    assert done.code == 0, done.err
    assert done.out == expected
    assert "code" not in done.err


def test_an_unknown_code_is_said(run, place, kinds, tmp_path):
    pd.DataFrame({"code": [3, 4], "x": [0.0, 1.0]}).to_csv(tmp_path / "x.csv", index=False)
    done = run("predict", kinds, tmp_path / "x.csv", "--quiet")
    assert "Column 'code': 1 of 2 values are categories that the model has not seen" in done.err
    assert "'4'" in done.err


def test_a_report_and_an_explanation_of_such_a_model(run, place, kinds, tmp_path):
    out = ["--out", tmp_path / "r.html", "--max-rows", 1]
    assert run("report", place / "x.csv", "--model", kinds, *out).code == 0
    lines = run("explain", kinds, place / "x.csv", "--row", 0, "--json").data["contributions"]
    assert lines[0]["column"] == "code"


@pytest.fixture(scope="module")
def timed(place):
    from kpp.cli import main

    fit = ["fit", f"{place}/x.csv", "--target", "y", "--time", "when", *FEW, "--quiet"]
    with redirect_stdout(io.StringIO()) as out:
        assert main([*fit, "--numerical", "x", "--out", f"{place}/timed.kpp"]) == 0
    (place / "timed.txt").write_text(out.getvalue())
    return place / "timed.kpp"


def test_the_last_rows_are_the_test(place, timed):
    frame, kept = pd.read_csv(place / "x.csv"), describe(timed).metadata
    held_out = np.frombuffer(base64.b64decode(kept["rows"]["parts"]), np.uint8) == 2
    assert held_out.sum() == 24  # whole days of three rows each
    assert frame["when"][~held_out].max() < frame["when"][held_out].min()
    assert kept["time"] == "when"
    model = load(timed)
    assert list(model[0].feature_names_in_) == ["code", "x"]
    rows = frame[held_out].assign(x=pd.to_numeric(frame["x"][held_out], errors="coerce"))
    error = root_mean_squared_error(rows["y"], model.predict(rows[["code", "x"]]))
    assert kept["scores"]["test"]["rmse"] == pytest.approx(error)


def test_the_folds_are_blocks_of_time(place, timed):
    frame, kept = pd.read_csv(place / "x.csv"), describe(timed).metadata
    held_out = np.frombuffer(base64.b64decode(kept["rows"]["parts"]), np.uint8) == 2
    days = frame["when"][~held_out].to_numpy()
    folds = load(timed)[-1].folds_
    assert len(folds) == 5
    blocks = sorted((days[test].min(), days[test].max()) for _, test in folds)
    for (_, end), (start, _) in pairwise(blocks):
        assert end < start


def test_what_is_said_of_time(run, place, timed, tmp_path):
    said = " ".join((place / "timed.txt").read_text().split())
    assert "The test rows are the last 24 of its rows by 'when', from 2021-06-02 on" in said
    assert "Folds are blocks of 'when'" in said
    assert "in the order of time are not known to be independent draws" in said
    out = ["--out", tmp_path / "r.html", "--max-rows", 1, "--json", "-"]
    page = run("report", place / "x.csv", "--model", timed, *out)
    assert "held out the last rows of its table by 'when'" in page.out
    assert "24 rows of x.csv that fit held out" in page.err


def test_a_test_file_with_rows_that_are_not_later(run, place, tmp_path):
    frame = pd.read_csv(place / "x.csv").sort_values("when")
    frame[:90].to_csv(tmp_path / "a.csv", index=False)
    frame[87:].to_csv(tmp_path / "b.csv", index=False)
    fit = ["fit", tmp_path / "a.csv", "--target", "y", "--time", "when", "--test"]
    done = run(*fit, tmp_path / "b.csv", *FEW, "--alpha", 1, "--out", tmp_path / "m.kpp")
    assert "3 rows of" in done.err
    assert "are not later by 'when' than the last row of the fit" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--time", "then"], "no column 'then' (--time). Did you mean 'when'?"),
        (["--time", "y"], "cannot be --time as well"),
        (["--time", "when", "--groups", "code"], "do not go together"),
        (["--time", "when", "--regime", "honest"], "does not go with --regime honest"),
        (["--time", "when", "--categorical", "when"], "'when' is --time"),
        (["--categorical", "code", "--drop", "code"], "'code' is --drop"),
        (["--time", "x"], "in line 2, which is no date"),
    ],
)
def test_what_is_refused(run, place, tmp_path, arguments, words):
    done = run("fit", place / "x.csv", "--target", "y", *arguments, "--out", tmp_path / "m.kpp")
    assert done.code == 2
    assert words in done.err
    assert not (tmp_path / "m.kpp").exists()


def test_on_a_cluster_they_are_refused_and_not_forgotten(run):
    for option in ("--time", "--categorical", "--numerical"):
        done = run("fit", "x.parquet", "--dask", "local", "--target", "y", option, "code")
        assert done.code == 2
        assert f"{option}: not with --dask yet" in done.err


def test_a_model_that_is_fitted_takes_none_of_them(run, place, kinds):
    for option in ("--time", "--categorical", "--numerical"):
        done = run("report", place / "x.csv", "--model", kinds, option, "code")
        assert done.code == 2
        assert f"{option}: for a fit" in done.err
