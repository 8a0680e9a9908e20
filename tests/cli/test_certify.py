"""`kpp certify`: the library's radii, for the rows of a file."""

import io

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from kpp import KPPClassifier, certify, path_distance
from kpp.forest import ObliqueForestClassifier
from kpp.io import load, save

ALL = ["--rows", "all"]


def prepared(folder, name):
    model = load(folder / f"{name}.kpp")
    frame = pd.read_csv(folder / f"{name}.csv")
    return model[-1], model[0].transform(frame[list(model[0].feature_names_in_)])


def test_a_file(run, folder):
    done = run(
        "certify", folder / "cls.kpp", folder / "cls.csv", "--id", "id", "-q", "--rows", "all"
    )
    got = pd.read_csv(io.StringIO(done.out))
    inner, X = prepared(folder, "cls")
    certificate = certify(inner, X)
    assert (got["radius"].to_numpy() == certificate.radius).all()
    assert (got["margin"].to_numpy() == certificate.margin).all()
    assert (got["lipschitz_radius"] <= got["radius"]).all()
    other = {"high": "low", "low": "high"}
    changes = ~got["never_changes"]
    assert (got["changes_to"][changes] == got["prediction"][changes].map(other)).all()
    # The printed radii hold between the rows of the file.
    inside = path_distance(inner, X) < got["radius"].to_numpy()[:, None]
    same = got["prediction"].to_numpy()[:, None] == got["prediction"].to_numpy()
    assert same[inside].all()


def test_a_row_in_raw_values(run, folder):
    arguments = ["--row", 4, "--raw", "--time-budget", 5, "--json"]
    data = run("certify", folder / "cls.kpp", folder / "cls.csv", *arguments).data
    inner, X = prepared(folder, "cls")
    columns = {name: values[0] for name, values in data["columns"].items()}
    assert columns["raw_radius"] > 0
    assert columns["raw_radius"] <= columns["raw_upper_radius"]
    assert "standard deviations" in data["raw_unit"]
    assert data["metric"].startswith("delta_T, ")
    assert data["normalize"] == "forest"
    # Points drawn inside the printed box, to its very sides, have the same answer.
    random = np.random.default_rng(0)
    rows = pd.concat([X.iloc[[4]]] * 300, ignore_index=True)
    for side in data["box"]:
        low = -1e6 if side["lower"] is None else side["lower"]
        high = 1e6 if side["upper"] is None else side["upper"]
        drawn = random.uniform(low, high, 300)
        drawn[:100] = random.choice([low, high], 100)
        # The model compares in single precision: rounding must not leave the box.
        rows[side["column"]] = np.clip(drawn, low, high)
    assert data["box"]
    assert (inner.predict(rows) == columns["prediction"]).all()


def test_a_row_on_the_screen(run, folder):
    done = run("certify", folder / "cls.kpp", folder / "cls.csv", "--row", 4, "--raw", "--top", 2)
    text = " ".join(done.out.split())
    for words in (
        "certified radius",
        "the paper's radius",
        "Splits that a change of the answer would cross",
        "standard deviations of each column",
        "not about whether it is right",
    ):
        assert words in text
    assert "columns more: --json lists all" in text


def test_regression_needs_a_tolerance(run, folder, tmp_path):
    done = run("certify", folder / "reg.kpp", folder / "reg.csv")
    assert done.code == 2
    assert "say with --epsilon" in done.err
    done = run("certify", folder / "reg.kpp", folder / "reg.csv", "--epsilon", "0")
    assert done.code == 2
    assert "positive" in done.err
    out = tmp_path / "c.parquet"
    run(
        "certify",
        folder / "reg.kpp",
        folder / "reg.csv",
        "--epsilon",
        "2",
        "-o",
        out,
        "--rows",
        "all",
    )
    inner, X = prepared(folder, "reg")
    got = pd.read_parquet(out)
    assert (got["radius"].to_numpy() == certify(inner, X, epsilon=2.0).radius).all()
    assert set(got["changes_to"].dropna()) <= {"lower", "higher"}


def test_epsilon_is_not_for_classes(run, folder):
    done = run("certify", folder / "cls.kpp", folder / "cls.csv", "--epsilon", "1")
    assert done.code == 2
    assert "--epsilon is for regression" in done.err


def test_columns_may_be_called_like_ours(run, folder, tmp_path):
    frame = pd.read_csv(folder / "cls.csv").assign(radius=1, row=2)
    frame.to_csv(tmp_path / "x.csv", index=False)
    done = run(
        "certify", folder / "cls.kpp", tmp_path / "x.csv", "--id", "radius", "-q", "--rows", "all"
    )
    got = pd.read_csv(io.StringIO(done.out))
    assert len(got.columns) == len(set(got.columns))
    inner, X = prepared(folder, "cls")
    assert (got["radius"] == 1).all()
    assert (got["radius_"].to_numpy() == certify(inner, X).radius).all()


def test_every_row_of_a_file_in_raw_values(run, folder, tmp_path):
    pd.read_csv(folder / "cls.csv")[:3].to_csv(tmp_path / "x.csv", index=False)
    arguments = ["--raw", "--scale", "raw", "--time-budget", "1", "-q"]
    got = pd.read_csv(
        io.StringIO(run("certify", folder / "cls.kpp", tmp_path / "x.csv", *arguments).out)
    )
    assert (got["raw_radius"] <= got["raw_upper_radius"]).all()


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_ids_called_like_results(run, folder, tmp_path, command):
    frame = pd.read_csv(folder / "cls.csv").assign(prediction=range(160))
    frame.to_csv(tmp_path / "x.csv", index=False)
    done = run(command, folder / "cls.kpp", tmp_path / "x.csv", "--id", "prediction", "-q")
    got = pd.read_csv(io.StringIO(done.out))
    assert got["prediction"].tolist() == list(range(160))


def test_oblique_splits_are_crossed_by_their_sums(run, tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = KPPClassifier(ObliqueForestClassifier(8), alpha=1e-3, random_state=0).fit(X, y)
    X.to_csv(tmp_path / "rows.csv", index=False)
    path = save(model, tmp_path / "oblique.kpp")
    data = run("certify", path, tmp_path / "rows.csv", "--row", 3, "--json").data
    (expected,) = [certify(model, X.iloc[[3]]).splits_to_cross(0)]
    assert len(data["splits_to_cross"]) > 0
    for line, crossing in zip(data["splits_to_cross"], expected, strict=False):
        names = [X.columns[j] for j, _ in crossing.terms]
        assert all(name in line["column"] for name in names)
        assert len(names) == 2
        (_, a), (_, b) = crossing.terms
        assert line["column"].startswith("-") == (a < 0)
        assert (f" - {abs(b):.3g} " in line["column"]) == (b < 0)
