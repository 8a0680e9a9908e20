"""`kpp fit --dask` and `kpp predict --dask`: Parquet in, Parquet out."""

import numpy as np
import pandas as pd
import pytest
from dask_help import cluster_of, numbers

from kpp import KPPRegressor
from kpp.cli.dask import _of_groups
from kpp.io import load, save

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def address():
    with cluster_of(1) as (cluster, _):
        yield cluster.scheduler_address


def test_parquet_goes_in_and_comes_out(run, address, tmp_path):
    X, y, _ = numbers(600)
    town = np.array(["north", "south", None])[np.arange(600) % 3]
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y + 2 * (town == "south"), town=town)
    frame["visit"] = [f"patient {k % 50}" for k in range(600)]
    for part in range(3):
        frame.iloc[200 * part : 200 * (part + 1)].to_parquet(tmp_path / f"part{part}.parquet")
    model, files = tmp_path / "own.kpp", tmp_path / "part*.parquet"
    common = ["--target", "y", "--dask", address, "--groups", "visit"]
    done = run(
        *("fit", files, *common, "--out", model, "--json", "--trees", 6, "--alpha", 1),
        *("--forest", "extra-trees"),
    )
    assert done.code == 0, done.err
    assert done.data["trees"] == 6
    assert done.data["columns"] == [*"abcd", "town"]
    assert 300 < done.data["rows_fitted"] < 600
    assert 0.2 < done.data["test_score"] < 1
    fitted = load(model)
    assert type(fitted) is KPPRegressor
    out = tmp_path / "predictions"
    # On workers of this machine's own.
    done = run("predict", model, files, "--dask", "local", "--out", out)
    assert done.code == 0, done.err
    found = pd.read_parquet(out)
    assert list(found.columns) == ["prediction"]
    expected = fitted.predict(frame[[*"abcd", "town"]])
    assert (np.sort(found["prediction"]) == np.sort(expected)).all()
    # A second time nothing is overwritten, and nothing half-written is left.
    again = run("predict", model, files, "--dask", address, "--out", out)
    assert again.code == 2
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_intervals_have_the_width_that_was_asked_for(run, address, tmp_path):
    X, y, _ = numbers(120)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.to_parquet(tmp_path / "rows.parquet")
    own = KPPRegressor("extra-trees", n_estimators=3, cv=2, alphas=[1.0], random_state=0)
    save(own.fit(frame, y), tmp_path / "own.kpp")
    common = (tmp_path / "own.kpp", tmp_path / "rows.parquet", "--dask", address)
    for width in ("adaptive", "constant"):
        out, options = tmp_path / width, ("--interval", 0.8, "--width", width)
        done = run("predict", *common, "--out", out, *options)
        assert done.code == 0, done.err
        found, here = pd.read_parquet(out), own.predict_interval(frame, 0.8, width=width)
        for name in ("lower", "upper"):
            np.testing.assert_allclose(found[name], getattr(here, name), rtol=1e-12)
    done = run("predict", *common, "--out", tmp_path / "none", "--width", "constant")
    assert done.code == 2
    assert "give --interval" in done.err


def test_what_does_not_go_on_dask_is_said(run, address, tmp_path):
    frame = pd.DataFrame({"a": range(9), "when": pd.Timestamp("2020-01-01"), "y": np.arange(9.0)})
    frame.to_parquet(tmp_path / "rows.parquet")
    table, model = tmp_path / "rows.parquet", tmp_path / "own.kpp"
    common = ["--dask", address, "--out", model]
    for options, word in (
        (["--target", "y", "--forest", "extra-trees"], "'when' holds dates"),
        (["--target", "z"], "'z'"),
        ([], "--target"),
        (["--target", "y", "--regime", "honest"], "honest"),
        (["--target", "y", "--groups", "b"], "--groups"),
        (["--target", "y", "--test", tmp_path / "other.parquet"], "other.parquet"),
    ):
        done = run("fit", table, *options, *common)
        assert done.code == 2
        assert word in done.err
    done = run("fit", tmp_path / "none*.parquet", "--target", "y", *common)
    assert (done.code, model.exists()) == (2, False)
    assert "none" in done.err


def test_whole_groups_are_for_a_test_and_another_file_may_be(run, address, tmp_path):
    rows = pd.DataFrame({"name": [f"g{k % 40}" for k in range(400)], "a": np.arange(400.0)})
    fit, test = (
        pd.concat([_of_groups(part, "name", 0.3, 0, tested) for part in (rows[:150], rows[150:])])
        for tested in (False, True)
    )
    assert sorted([*fit["a"], *test["a"]]) == rows["a"].tolist()
    assert not set(fit["name"]) & set(test["name"])
    assert 0.1 < len(test) / 400 < 0.5
    X, y, _ = numbers(240)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    frame[:160].to_parquet(tmp_path / "rows.parquet")
    frame[160:].to_parquet(tmp_path / "test.parquet")
    done = run(
        *("fit", tmp_path / "rows.parquet", "--target", "y", "--dask", address, "--json"),
        *("--test", tmp_path / "test.parquet", "--trees", 3, "--alpha", 1, "--drop", "d"),
        *("--forest", "extra-trees", "--out", tmp_path / "own.kpp"),
    )
    assert done.code == 0, done.err
    fitted = load(tmp_path / "own.kpp")
    assert done.data["rows_fitted"] == 160
    expected = fitted.score(frame[160:][list("abc")], frame[160:]["y"])
    assert done.data["test_score"] == pytest.approx(expected, rel=1e-9)


def test_other_losses_are_refused_before_anything_is_asked(run):
    asked = ["--target", "y", "--loss", "poisson", "--dask", "not-an-address:0"]
    done = run("fit", "x.parquet", *asked)
    assert done.code == 2
    assert "--loss poisson does not go with --dask" in done.err


def test_a_scheduler_that_does_not_answer_is_said(run, tmp_path, monkeypatch):
    monkeypatch.setattr("kpp.cli.dask.PATIENCE", "1s")
    done = run("fit", "x.parquet", "--target", "y", "--dask", "not-an-address:0")
    assert done.code == 2
    assert "not-an-address" in done.err
