"""`kpp export`: files for onnxruntime and treelite that answer as `kpp predict` does."""

import io

import numpy as np
import pandas as pd
import pytest
from cli_tables import mixed_table

from kpp.export import encoded_rows, onnx_inputs
from kpp.io import load

FEW = ["--forest", "extra-trees", "--trees", "8", "--jobs", "1", "-q"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table without dates and long texts, and a model of it."""
    from kpp.cli import main

    place = tmp_path_factory.mktemp("export")
    frame = mixed_table().drop(columns=["label", "when", "city", "id"])
    frame.to_csv(place / "table.csv", index=False)
    arguments = ["fit", f"{place}/table.csv", "--target", "price", *FEW]
    assert main([*arguments, "--out", f"{place}/model.kpp"]) == 0
    return place


def test_onnx_answers_as_predict_does(run, files):
    onnxruntime = pytest.importorskip("onnxruntime")
    done = run("export", files / "model.kpp", "--to", "onnx", "--json")
    assert done.code == 0
    assert done.data["file"] == str(files / "model.onnx")
    assert done.data["gives"] == ["prediction"]
    said = run("predict", files / "model.kpp", files / "table.csv", "-q").out
    expected = pd.read_csv(io.StringIO(said))["prediction"].to_numpy()
    model = load(files / "model.kpp")
    rows = pd.read_csv(files / "table.csv")[list(model[0].feature_names_in_)]
    session = onnxruntime.InferenceSession(files / "model.onnx", providers=["CPUExecutionProvider"])
    (served,) = session.run(None, onnx_inputs(model, rows))
    assert np.abs(served - expected).max() <= done.data["score_tolerance"] < 1e-9


def test_treelite_takes_prepared_rows(run, files):
    treelite = pytest.importorskip("treelite")
    out = files / "other.bin"
    done = run("export", files / "model.kpp", "--to", "treelite", "--out", out)
    assert done.code == 0
    assert "prepared rows of" in done.out
    model = load(files / "model.kpp")
    rows = pd.read_csv(files / "table.csv")[list(model[0].feature_names_in_)]
    written = treelite.Model.deserialize(str(out))
    served = treelite.gtil.predict(written, encoded_rows(model, rows)).ravel()
    np.testing.assert_allclose(served, model.predict(rows), rtol=1e-13)


def test_what_cannot_be_written_is_one_line(run, folder, files):
    done = run("export", folder / "reg.kpp", "--out", files / "none.onnx")
    assert done.code == 2
    assert "when (DatetimeEncoder), city (StringEncoder)" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (files / "none.onnx").exists()
    done = run("export", files / "model.kpp", "--to", "treelite", "--precision", "single")
    assert done.code == 2
    assert "--to onnx" in done.err
    done = run("export", files / "model.kpp", "--out", files / "model.kpp")
    assert done.code == 2
    assert "not written over" in done.err
