"""`--groups` and `--independent-duplicates`: rows that belong together, and rows that are equal."""

import base64

import numpy as np
import pandas as pd
import pytest
from cli_tables import visits

from kpp import risk_bounds
from kpp.bounds.samples import SAY_SO
from kpp.io import describe, load

FEW = ["--forest", "extra-trees", "--trees", "25", "--jobs", "1", "--alpha", "0.01", "--quiet"]
BY_GROUPS = "held-out bound by groups"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("visits") / "visits.csv"
    visits().to_csv(path, index=False)
    return path


@pytest.fixture
def fitted(run, table, tmp_path):
    out = tmp_path / "visits.kpp"
    fit = ["fit", table, "--target", "ill", "--groups", "patient", "--regime", "honest", *FEW]
    done = run(*fit, "--out", out, "--json")
    assert done.code == 0, done.err
    return out, done.data


def bounds_of(data, sample):
    (found,) = (s for s in data["sections"]["bounds"]["samples"] if s["sample"] == sample)
    return {bound["name"]: bound for bound in found["bounds"]}


def held_out_rows(path, table):
    """Which rows of the table were held out, by what the file keeps."""
    kept = describe(path).metadata["rows"]
    return np.frombuffer(base64.b64decode(kept["parts"]), np.uint8) == 2


def test_a_fit_keeps_groups_whole(fitted, table):
    path, data = fitted
    frame = pd.read_csv(table)
    held_out = held_out_rows(path, table)
    inside, outside = (set(frame["patient"][rows]) for rows in (~held_out, held_out))
    assert not inside & outside
    assert (data["groups_fitted"], data["groups_tested"]) == (len(inside), len(outside)) == (48, 12)
    assert data["rows_fitted"] == int((~held_out).sum())
    assert "patient" not in data["columns"]
    model = load(path)[-1]
    assert model.fit_record_.n_groups == 48
    fit, partition = (
        set(frame["patient"].to_numpy()[~held_out][rows])
        for rows in (model.fit_rows_, model.partition_rows_)
    )
    assert not fit & partition
    assert describe(path).metadata["groups"] == "patient"


def test_what_is_said(run, fitted, table, tmp_path):
    path, _ = fitted
    info = run("info", path)
    assert "of the column 'patient'" in info.out
    assert run("info", path, "--json").data["groups"] == "patient"
    fit = ["fit", table, "--target", "ill", "--groups", "patient", "--regime", "honest"]
    done = run(*fit, *FEW, "--out", tmp_path / "m.kpp")
    said = " ".join(done.out.split())
    assert "'patient', 48 to fit, 12 to test" in said
    assert "new rows of new groups" in said
    assert "speaks of a random row of a random group" in said


def test_the_report_of_the_model_counts_groups(run, fitted, table, tmp_path):
    path, _ = fitted
    out = ["--out", tmp_path / "r.html", "--json", "-", "--max-rows", 1]
    data = run("report", table, "--model", path, *out).data
    found = bounds_of(data, "test")
    # The same bound as in Python.
    frame, held_out = pd.read_csv(table), held_out_rows(path, table)
    rows = frame[held_out]
    groups = rows["patient"].to_numpy()
    expected = risk_bounds(
        load(path), rows[["a", "b", "c"]], rows["ill"], sample="test", groups=groups
    )
    assert found[BY_GROUPS]["total"] == expected[BY_GROUPS].total
    assert found[BY_GROUPS]["is_guarantee"]
    assert not found["held-out bound"]["is_guarantee"]
    sentence = found[BY_GROUPS]["sentence"]
    assert "draw of the 12 groups, the 0/1 error of a random row of a random group" in sentence
    assert any(
        "random row of a random group" in note for note in data["sections"]["bounds"]["notes"]
    )
    assert data["sections"]["quality"]["grouped"]
    assert "of 12 groups, named by the column" in (tmp_path / "r.html").read_text()


def test_a_report_that_fits_counts_groups_on_both_samples(run, table, tmp_path):
    fit = [table, "--target", "ill", "--groups", "patient", "--regime", "honest", *FEW]
    out = ["--out", tmp_path / "r.html", "--json", "-", "--max-rows", 1]
    data = run("report", *fit, *out).data
    assert bounds_of(data, "test")[BY_GROUPS]["is_guarantee"]
    assert bounds_of(data, "fit")["held-out bound of the centre by groups"]["is_guarantee"]
    assert not bounds_of(data, "fit")["held-out bound of the centre"]["is_guarantee"]


def test_a_table_that_does_not_name_groups(run, fitted, table, tmp_path):
    path, _ = fitted
    frame = pd.read_csv(table)
    frame[held_out_rows(path, table)].drop(columns="patient").to_csv(
        tmp_path / "x.csv", index=False
    )
    out = ["--out", tmp_path / "r.html", "--json", "-", "--max-rows", 1]
    done = run("report", tmp_path / "x.csv", "--model", path, *out)
    assert "has no column 'patient'" in done.err
    assert not any(bound["is_guarantee"] for bound in bounds_of(done.data, "test").values())


def test_new_rows_of_known_patients_are_not_new(run, fitted, table, tmp_path):
    """Another visit of a patient of the fit is no test of new patients."""
    path, _ = fitted
    known = visits()["patient"][~held_out_rows(path, table)].unique()[:20]
    more = visits(40, seed=1).iloc[:60]
    more["patient"] = np.repeat([*known, *(2_000_000_000 + np.arange(10))], 2)
    more.to_csv(tmp_path / "more.csv", index=False)
    done = run("diagnose", path, tmp_path / "more.csv", "--json")
    assert done.data["rows"]["kind"] == "new"
    assert done.data["n_rows"] == 20
    out = ["--out", tmp_path / "r.html", "--json", "-", "--max-rows", 1]
    assert bounds_of(run("report", tmp_path / "more.csv", "--model", path, *out).data, "test")[
        BY_GROUPS
    ]["is_guarantee"]
    every = run("report", tmp_path / "more.csv", "--model", path, "--rows", "all", *out)
    assert not any(bound["is_guarantee"] for bound in bounds_of(every.data, "test").values())
    # The same in a test file of a fit.
    fit = ["report", table, "--target", "ill", "--groups", "patient", *FEW, *out]
    done = run(*fit, "--test", tmp_path / "more.csv")
    assert "40 rows of" in done.err
    assert "that the fit has used" in done.err
    assert not any(bound["is_guarantee"] for bound in bounds_of(done.data, "test").values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--groups", "patiend"], "Did you mean 'patient'?"),
        (["--groups", "ill"], "cannot be --groups as well"),
        (["--groups", "patient", "--test-size", "0.99"], "60 groups are too few"),
    ],
)
def test_groups_that_cannot_be(run, table, tmp_path, options, message):
    done = run("fit", table, "--target", "ill", *FEW, "--out", tmp_path / "m.kpp", *options)
    assert done.code == 2
    assert message in done.err
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def coarse(tmp_path_factory):
    """Columns of whole numbers; one row is there twice, in the fit and in the test file."""
    random = np.random.default_rng(0)
    values = random.integers(0, 9, size=(200, 4))
    path = tmp_path_factory.mktemp("coarse") / "coarse.csv"
    frame = pd.DataFrame(values, columns=list("abcd")).drop_duplicates()
    frame["y"] = np.where(frame["a"] + random.normal(size=len(frame)) > 4, "p", "q")
    test = frame.sample(60, random_state=0)
    frame = frame.drop(test.index)
    pd.concat([test, frame.iloc[:1]]).to_csv(path.with_name("test.csv"), index=False)
    frame.to_csv(path, index=False)
    return path


def test_one_equal_row_is_counted_and_the_option_named(run, coarse, tmp_path):
    fit = ["report", coarse, "--target", "y", "--task", "classification", *FEW[:-1]]
    out = ["--out", tmp_path / "r.html", "--json", "-", "--max-rows", 1]
    test = ["--test", coarse.with_name("test.csv")]
    done = run(*fit, *test, *out)
    assert not bounds_of(done.data, "test")["held-out bound"]["is_guarantee"]
    said = "1 of these 61 rows equal, in every column, one that was given to fit"
    (note,) = done.data["sections"]["bounds"]["duplicates"]
    assert said in note
    assert SAY_SO in note
    assert said in done.err
    assert "--independent-duplicates" in (tmp_path / "r.html").read_text()
    declared = run(*fit, *test, *out, "--independent-duplicates")
    assert declared.data["sections"]["bounds"]["duplicates"] == []
    assert bounds_of(declared.data, "test")["held-out bound"]["is_guarantee"]
    assert said not in declared.err


def test_the_file_remembers_what_was_said_of_equal_rows(run, coarse, tmp_path):
    out = ["--out", tmp_path / "r.html", "--json", "-", "--max-rows", 1, "--rows", "held-out"]
    test = ["--test", coarse.with_name("test.csv")]
    for said in ([], ["--independent-duplicates"]):
        run("fit", coarse, "--target", "y", *FEW, *test, "--out", tmp_path / "m.kpp", *said)
        data = run("report", coarse.with_name("test.csv"), "--model", tmp_path / "m.kpp", *out).data
        assert bounds_of(data, "test")["held-out bound"]["is_guarantee"] == bool(said)
    data = run("report", coarse.with_name("test.csv"), "--model", tmp_path / "m.kpp", *out).data
    assert bounds_of(data, "test")["held-out bound"]["is_guarantee"]
