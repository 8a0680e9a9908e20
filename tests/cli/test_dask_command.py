"""`kpp fit --dask` and `kpp predict --dask`: Parquet in, Parquet out."""

import numpy as np
import pandas as pd
import pytest
from dask_help import cluster_of, numbers

from kpp import KPPRegressor
from kpp.io import load

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def address():
    with cluster_of(1) as (cluster, _):
        yield cluster.scheduler_address


def test_parquet_goes_in_and_comes_out(run, address, tmp_path):
    X, y, _ = numbers(600)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    for part in range(3):
        frame.iloc[200 * part : 200 * (part + 1)].to_parquet(tmp_path / f"part{part}.parquet")
    model, files = tmp_path / "own.kpp", tmp_path / "part*.parquet"
    common = ["--target", "y", "--dask", address]
    done = run(
        *("fit", files, *common, "--out", model, "--json", "--trees", 6, "--alpha", 1),
        *("--forest", "extra-trees"),
    )
    assert done.code == 0, done.err
    assert done.data["trees"] == 6
    assert done.data["columns"] == list("abcd")
    assert 0.2 < done.data["test_score"] < 1
    fitted = load(model)
    assert type(fitted) is KPPRegressor
    out = tmp_path / "predictions"
    done = run("predict", model, files, "--dask", address, "--out", out)
    assert done.code == 0, done.err
    found = pd.read_parquet(out)
    assert list(found.columns) == ["prediction"]
    expected = fitted.predict(frame[list("abcd")])
    assert (np.sort(found["prediction"]) == np.sort(expected)).all()
    # A second time nothing is overwritten, and nothing half-written is left.
    again = run("predict", model, files, "--dask", address, "--out", out)
    assert again.code == 2
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_what_does_not_go_on_dask_is_said(run, address, tmp_path):
    frame = pd.DataFrame({"a": range(9), "town": list("xyz") * 3, "y": np.arange(9.0)})
    frame.to_parquet(tmp_path / "rows.parquet")
    table, model = tmp_path / "rows.parquet", tmp_path / "own.kpp"
    common = ["--dask", address, "--out", model]
    for options, word in (
        (["--target", "y"], "town"),
        (["--target", "z"], "'z'"),
        ([], "--target"),
        (["--target", "y", "--regime", "honest"], "honest"),
        (["--target", "y", "--groups", "a"], "--groups"),
    ):
        done = run("fit", table, *options, *common)
        assert done.code == 2
        assert word in done.err
    done = run("fit", tmp_path / "none*.parquet", "--target", "y", *common)
    assert (done.code, model.exists()) == (2, False)
    assert "none" in done.err


def test_a_scheduler_that_does_not_answer_is_said(run, tmp_path):
    done = run("fit", "x.parquet", "--target", "y", "--dask", "not-an-address:0")
    assert done.code == 2
    assert "not-an-address" in done.err
