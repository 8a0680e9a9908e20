"""`to_treelite`, compiled by tl2cgen where a compiler is there, and what treelite cannot say."""

import shutil
import sys

import numpy as np
import pandas as pd
import pytest
from served import scores_of
from sklearn.datasets import load_diabetes, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from zoo import beside_thresholds

from kpp import Forest, KPPClassifier, KPPRegressor, to_treelite
from kpp.export import encoded_rows
from kpp.forest import ObliqueForestRegressor

treelite = pytest.importorskip("treelite")
X, Y = load_diabetes(return_X_y=True)
IRIS = load_iris(return_X_y=True)
SMALL = {"n_estimators": 6, "alpha": 0.5, "random_state": 0}
MODELS = {
    "numbers": lambda: (KPPRegressor("boosted", **SMALL), X, Y),
    "two targets": lambda: (KPPRegressor("extra-trees", **SMALL), X, np.c_[Y, -Y]),
    "two classes": lambda: (KPPClassifier("extra-trees", **SMALL), X, Y > 140),
    "three classes": lambda: (KPPClassifier("random-forest", **SMALL), *IRIS),
}


@pytest.mark.parametrize("name", MODELS)
def test_predictions_and_probabilities(name):
    model, rows, y = MODELS[name]()
    model.fit(rows, y)
    rows = np.vstack([rows, beside_thresholds(model.collapse().forest, rows)])
    written = to_treelite(model)
    served = treelite.gtil.predict(written, encoded_rows(model, rows)).reshape(len(rows), -1)
    if hasattr(model, "classes_"):
        expected = model.predict_proba(rows)
        expected = expected[:, 1:] if expected.shape[1] == 2 else expected
        # treelite's softmax is of float32, its sigmoid of float64.
        assert np.abs(served - expected).max() <= (1e-15 if served.shape[1] == 1 else 2.0**-24)
    else:
        expected = model.predict(rows).reshape(len(rows), -1)
        np.testing.assert_allclose(served, expected, rtol=1e-13)


@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_library(name, tmp_path):
    tl2cgen = pytest.importorskip("tl2cgen")
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    model, rows, y = MODELS[name]()
    rows, y = rows[::4], y[::4]  # a compiler takes its time
    model.set_params(n_estimators=3).fit(rows, y)
    rows = np.vstack([rows, beside_thresholds(model.collapse().forest, rows)])
    library = tmp_path / "model.so"
    tl2cgen.export_lib(
        to_treelite(model), toolchain="gcc", libpath=str(library), params={"parallel_comp": 2}
    )
    predictor = tl2cgen.Predictor(str(library), nthread=1)
    # tl2cgen takes float64 numbers whose lower 32 bits are all 1 for missing ones.
    encoded = encoded_rows(model, rows)
    low_bits = np.ascontiguousarray(encoded).view(np.uint32)[:, ::2]
    kept = (low_bits != 0xFFFFFFFF).all(axis=1)
    assert kept.mean() > 0.9
    rows, encoded = rows[kept], encoded[kept]
    given = tl2cgen.DMatrix(encoded, dtype="float64")
    served = predictor.predict(given, pred_margin=True).reshape(len(rows), -1)
    np.testing.assert_allclose(served, scores_of(model, rows), rtol=1e-12, atol=1e-14)


def test_a_pipeline_takes_prepared_rows():
    model = make_pipeline(StandardScaler(), KPPRegressor("boosted", **SMALL)).fit(X, Y)
    served = treelite.gtil.predict(to_treelite(model), encoded_rows(model, X)).ravel()
    np.testing.assert_allclose(served, model.predict(X), rtol=1e-13)


def test_it_survives_a_file(tmp_path):
    frame = pd.DataFrame({"size": X[:, 2], "kind": np.resize(["a", "b", "c"], len(X))})
    model = KPPRegressor("extra-trees", **SMALL).fit(frame, Y + 90 * (frame["kind"] == "b"))
    to_treelite(model).serialize(str(tmp_path / "model.tl"))
    again = treelite.Model.deserialize(str(tmp_path / "model.tl"))
    frame["kind"] = np.resize(["b", None, "unknown", "c", "a"], len(X))
    served = treelite.gtil.predict(again, encoded_rows(model, frame)).ravel()
    np.testing.assert_allclose(served, model.predict(frame), rtol=1e-13)


def test_what_treelite_cannot_say_is_refused_by_name():
    linear = KPPRegressor("extra-trees", main_effects="linear", **SMALL).fit(X, Y)
    with pytest.raises(TypeError, match="10 linear terms"):
        to_treelite(linear)
    source = ObliqueForestRegressor(2, random_state=0).fit(X, Y)
    oblique = KPPRegressor(Forest.from_model(source), regime="fixed", alpha=1.0).fit(X, Y)
    with pytest.raises(TypeError, match="oblique"):
        to_treelite(oblique)


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    model = KPPRegressor("extra-trees", **SMALL).fit(X, Y)
    monkeypatch.setitem(sys.modules, "treelite.model_builder", None)
    with pytest.raises(ImportError, match=r"to_treelite needs treelite .*'kpp\[export\]'"):
        to_treelite(model)
