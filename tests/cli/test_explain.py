"""`kpp explain`: sums that are exact, in the file and on the screen."""

import io
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from cli_tables import HOSTILE

from kpp import explain
from kpp.io import load


def obvious(folder, name):
    """Attributions of prepared columns, summed to the file's columns by looking at the names."""
    model = load(folder / f"{name}.kpp")
    frame = pd.read_csv(folder / f"{name}.csv")
    prepared = model[0].transform(frame[list(model[0].feature_names_in_)])
    found = explain(model[-1], prepared, centered=True)  # as a report has it
    sums = {}
    for column in model[0].feature_names_in_:
        own = [n == column or n.startswith(f"{column}_") for n in prepared.columns]
        sums[column] = found.values[:, own].sum(axis=1)
    return found, pd.DataFrame(sums)


def test_a_file_adds_up_by_the_users_own_columns(run, folder):
    done = run("explain", folder / "reg.kpp", folder / "reg.csv", "--id", "id", "-q")
    got = pd.read_csv(io.StringIO(done.out))
    found, sums = obvious(folder, "reg")
    columns = ["size", "colour", HOSTILE, "when", "city", "flag"]
    assert list(got.columns) == ["id", "prediction", "score", "(baseline)", *columns]
    np.testing.assert_allclose(got[columns], sums[columns], rtol=1e-12, atol=1e-12)
    total = got["(baseline)"] + got[columns].sum(axis=1)
    np.testing.assert_allclose(total, got["prediction"], rtol=1e-12)
    np.testing.assert_allclose(found.scores, got["prediction"], rtol=1e-12)


def test_a_file_of_several_classes_has_a_line_for_each(run, folder):
    done = run("explain", folder / "iris.kpp", "iris", "-q")
    got = pd.read_csv(io.StringIO(done.out))
    model = load(folder / "iris.kpp")
    from sklearn.datasets import load_iris

    X = load_iris(as_frame=True).data
    assert got["row"].tolist() == np.repeat(np.arange(150), 3).tolist()
    assert got["class"].tolist()[:3] == ["setosa", "versicolor", "virginica"]
    scores = got["score"].to_numpy().reshape(150, 3)
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        got["(baseline)"] + got[list(X.columns)].sum(axis=1), got["score"], atol=1e-12
    )


def test_rows_count_from_the_end_too(run, folder):
    last = run("explain", folder / "iris.kpp", "iris", "--row", -1, "--json").data
    assert last == run("explain", folder / "iris.kpp", "iris", "--row", 149, "--json").data
    for row in (150, -151):
        done = run("explain", folder / "iris.kpp", "iris", "--row", row)
        assert done.code == 2
        assert "--row must be 0 to 149, or -1 to -150 from the end" in done.err


@pytest.mark.parametrize("name", ["reg", "cls"])
@pytest.mark.parametrize("row", [0, 5, -1])
def test_a_row_as_json(run, folder, name, row):
    data = run(
        "explain", folder / f"{name}.kpp", folder / f"{name}.csv", "--row", row, "--json"
    ).data
    found, sums = obvious(folder, name)
    sign = -1 if name == "cls" and data["prediction"] == "high" else 1
    contributions = {c["column"]: c["contribution"] for c in data["contributions"]}
    for column in sums:
        assert contributions[column] == pytest.approx(sign * sums[column].iloc[row], abs=1e-12)
    assert data["score"] == pytest.approx(sign * found.scores[row], abs=1e-12)
    assert data["baseline"] + sum(contributions.values()) == pytest.approx(data["score"], abs=1e-12)
    assert data["residual"] < 1e-12
    rules = data["rules_baseline"] + sum(r["contribution"] for r in data["rules"])
    assert rules + data["other_rules"]["contribution"] == pytest.approx(data["score"], abs=1e-12)
    # In the words of the table, and never in those of the preparation.
    prepared = load(folder / f"{name}.kpp")[0].all_outputs_
    made = [n for n in prepared if n not in sums and not n.startswith(HOSTILE)]
    assert not any(n in rule["rule"] for n in made for rule in data["rules"])
    raw = pd.read_csv(folder / f"{name}.csv").iloc[row]
    assert data["id"] == row % 160
    values = {c["column"]: c["value"] for c in data["contributions"]}
    assert values["city"] == raw["city"]
    if name == "cls":  # the score is of the predicted class
        assert data["output"] == data["prediction"]
        assert data["probability"] > 0.5
        assert data["score"] > 0


@pytest.mark.parametrize("name", ["reg", "cls"])
@pytest.mark.parametrize("top", [1, 3, 100])
@pytest.mark.parametrize("level", ["variable", "node"])
def test_the_printed_numbers_add_up_to_the_last_digit(run, folder, name, top, level):
    arguments = ["--row", 3, "--top", top, "--level", level]
    out = run("explain", folder / f"{name}.kpp", folder / f"{name}.csv", *arguments).out
    table = out.split("\n\n")[0]
    numbers = [Decimal(m) for m in re.findall(r"([+-]\d+\.\d+)\s*$", table, re.MULTILINE)]
    assert len(numbers) >= 3
    assert sum(numbers[:-1]) == numbers[-1]
    assert "(rounding)" in table or "other" in table or top == 100


def test_the_class_can_be_chosen(run, folder):
    path = folder / "cls.csv"
    low, high = (
        run("explain", folder / "cls.kpp", path, "--row", 2, "--class", c, "--json").data
        for c in ("low", "high")
    )
    assert low["score"] == pytest.approx(-high["score"])
    assert low["probability"] + high["probability"] == pytest.approx(1)
    done = run("explain", folder / "cls.kpp", path, "--class", "middle")
    assert done.code == 2
    assert "--class must be one of high, low; got 'middle'" in done.err


@pytest.mark.parametrize("level", ["rules", "node"])
def test_long_tables_add_up(run, folder, tmp_path, level):
    pd.read_csv(folder / "reg.csv")[:6].to_csv(tmp_path / "x.csv", index=False)
    done = run(
        "explain", folder / "reg.kpp", tmp_path / "x.csv", "--level", level, "--top", 2, "-q"
    )
    got = pd.read_csv(io.StringIO(done.out))
    predicted = pd.read_csv(
        io.StringIO(run("predict", folder / "reg.kpp", tmp_path / "x.csv", "-q").out)
    )["prediction"]
    np.testing.assert_allclose(got.groupby("row")["contribution"].sum(), predicted, rtol=1e-12)
    assert (got.groupby("row").size() == 4).all()  # baseline, two, the others


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--row", "160"], "--row must be 0 to 159"),
        (["--row", "-161"], "has 160 rows; got -161"),
        (["--top", "0"], "--top must be at least 1"),
        (["--level", "leaf"], "leaf"),
        (["--class", "high"], "--class is for classification"),
    ],
)
def test_wrong_options(run, folder, arguments, message):
    done = run("explain", folder / "reg.kpp", folder / "reg.csv", *arguments)
    assert done.code == 2
    assert message in done.err
