"""`kpp drift`: raw files, beside the rows of the fit or those that it held out."""

import json

import pytest
from cli_tables import mixed_table


@pytest.fixture(scope="module")
def files(folder):
    """New rows like the old ones, and rows that have moved."""
    alike = mixed_table(n_rows=120, seed=5).drop(columns="label")
    moved = alike.assign(size=alike["size"] + 15.0)
    moved.loc[:5, "colour"] = "violet"
    for name, frame in (("alike", alike), ("moved", moved)):
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


def test_no_drift(files, run):
    done = run("drift", files / "reg.kpp", files / "alike.csv", "--fail")
    assert done.code == 0
    assert "No drift seen" in done.out
    assert "--reference" in done.err


def test_drift_beside_the_rows_that_fit_held_out(files, run):
    reference = ["--reference", files / "reg.csv"]
    done = run("drift", files / "reg.kpp", files / "moved.csv", *reference)
    assert done.code == 0
    assert "the 32 rows of reg.csv that fit held out" in " ".join(done.out.split())
    assert "Drift:" in done.out
    assert "mean prediction" in done.out
    assert "'size' itself changed" in done.out
    assert "'colour': 6 of 120 values are categories" in done.err
    assert "--reference" not in done.err
    failed = run("drift", files / "reg.kpp", files / "moved.csv", *reference, "--fail", "--json")
    assert failed.code == 1
    data = json.loads(failed.out)
    assert data["drifted"]
    assert data["failed"]
    assert data["is_exact"]
    assert data["columns"][0]["column"] == "size"
    assert data["changed_columns"] == ["size"]
    assert data["reference_rows"]["kind"] == "held-out"
    assert [one["column"] for one in data["checks"] if one["new_categories"]] == ["colour"]
    # The exact sum, as it comes out of the command.
    total = sum(one["distance"] for one in data["columns"])
    assert total == pytest.approx(data["distance"], rel=1e-10)


def test_a_reference_of_the_fit_is_told(files, run, tmp_path):
    fitted = run("drift", files / "iris.kpp", "iris", "--reference", "iris", "--json")
    assert fitted.code == 0
    assert fitted.data["reference_rows"]["kind"] == "held-out"
    done = run("drift", files / "reg.kpp", files / "alike.csv", "--level", "2")
    assert done.code == 2
    assert "--level" in done.err
    one = tmp_path / "one.csv"
    mixed_table(n_rows=1).to_csv(one, index=False)
    done = run("drift", files / "reg.kpp", one)
    assert done.code == 2
    assert "one row only" in done.err
