"""Pipelines in ONNX: scikit-learn's steps, skrub's tables, and our converter for skl2onnx."""

import numpy as np
import pandas as pd
import pytest
from served import run
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, SplineTransformer, StandardScaler

from kpp import KPPClassifier, KPPRegressor, to_onnx
from kpp.export import onnx_inputs, register_converters

skl2onnx = pytest.importorskip("skl2onnx")
SMALL = {"n_estimators": 6, "alpha": 0.5, "random_state": 0}
X, Y = load_diabetes(return_X_y=True)
IRIS = load_iris(return_X_y=True)


def table(n_rows=300):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows),
            "b": rng.choice(["x", "y", "z"], n_rows),
            "c": rng.integers(0, 5, n_rows),
            "two": rng.choice(["m", "f"], n_rows),
            "flag": rng.random(n_rows) < 0.5,
        }
    )
    y = frame["a"] + frame["c"] + 3.0 * (frame["b"] == "x") - 2.0 * (frame["two"] == "m")
    frame.loc[::7, "a"] = np.nan
    return frame, (y + 2.0 * frame["flag"]).to_numpy()


def one_hot():
    return OneHotEncoder(handle_unknown="ignore", sparse_output=False)


PREPARATIONS = {
    "imputed, scaled, one-hot": lambda: make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "c"]), (one_hot(), ["b", "two"])
    ),
    "passed through": lambda: make_column_transformer(
        (OrdinalEncoder(), ["b", "two"]), ("passthrough", ["a", "c"]), remainder="drop"
    ),
    "one-hot numbers": lambda: make_column_transformer(
        (StandardScaler(), ["a"]), (one_hot(), ["c"])
    ),
}


@pytest.mark.parametrize("name", PREPARATIONS)
def test_steps_of_scikit_learn(name):
    frame, y = table()
    model = make_pipeline(PREPARATIONS[name](), KPPRegressor("extra-trees", **SMALL)).fit(frame, y)
    graph = to_onnx(model, rows=frame)
    served = run(graph, onnx_inputs(model, frame))["prediction"]
    np.testing.assert_allclose(served, model.predict(frame), rtol=1e-13)
    assert served.std() > 0.5


def test_a_matrix_of_numbers():
    model = make_pipeline(StandardScaler(), KPPClassifier("boosted", **SMALL)).fit(*IRIS)
    served = run(to_onnx(model), {"X": IRIS[0]})
    np.testing.assert_allclose(served["probabilities"], model.predict_proba(IRIS[0]), rtol=1e-13)
    assert (served["label"] == model.predict(IRIS[0])).all()
    single = run(to_onnx(model, precision="single"), {"X": IRIS[0].astype(np.float32)})
    assert (single["label"] == model.predict(IRIS[0])).all()


class Unknown(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X


def test_all_steps_without_a_converter_are_named():
    inner = make_column_transformer((SplineTransformer(), [0, 1]), remainder="passthrough")
    steps = [("first", inner), ("own", Unknown()), ("model", KPPRegressor("extra-trees", **SMALL))]
    model = Pipeline(steps).fit(X, Y)
    with pytest.raises(TypeError) as raised:
        to_onnx(model)
    assert "first.splinetransformer (SplineTransformer), own (Unknown)" in str(raised.value)


def test_imputers_that_are_not_written_are_refused():
    gaps = X.copy()
    gaps[::5, 0] = np.nan
    for imputer in (SimpleImputer(add_indicator=True), SimpleImputer(missing_values=0.0)):
        rows = gaps if imputer.add_indicator else X
        model = make_pipeline(imputer, KPPRegressor("extra-trees", **SMALL)).fit(rows, Y)
        with pytest.raises(TypeError, match="SimpleImputer"):
            to_onnx(model)


@pytest.mark.filterwarnings("ignore:Found unknown categories in columns:UserWarning")
def test_tables_as_the_command_prepares_them():
    skrub = pytest.importorskip("skrub")
    frame, y = table()
    frame.loc[::11, "b"] = None
    frame["nothing"] = None
    regressor = KPPRegressor("extra-trees", main_effects="linear", **SMALL)
    model = make_pipeline(skrub.TableVectorizer(), regressor).fit(frame, y)
    rows = frame.copy()
    # Known, unknown and missing texts, and words that skrub takes for missing.
    rows["b"] = np.resize(["x", "y", "new", None, "N/A", "", "z", "nan", "X"], len(rows))
    rows["two"] = np.resize(["m", "f", None, "other"], len(rows))
    # A number that float32 rounds.
    rows["a"] = np.resize([0.1, np.nan, -1.7, 16777217.0], len(rows))
    graph = to_onnx(model)
    served = run(graph, onnx_inputs(model, rows))["prediction"]
    np.testing.assert_allclose(served, model.predict(rows), rtol=1e-13)
    assert len(np.unique(served.round(9))) > 50
    numbers = frame[["a", "c", "flag"]]
    model = make_pipeline(skrub.TableVectorizer(), KPPRegressor("boosted", **SMALL))
    model.fit(numbers, y)
    given = onnx_inputs(model, numbers)
    assert list(given) == ["X"]
    served = run(to_onnx(model), given)["prediction"]
    np.testing.assert_allclose(served, model.predict(numbers), rtol=1e-13)


def test_columns_of_a_table_without_a_converter_are_named():
    skrub = pytest.importorskip("skrub")
    frame, y = table()
    frame["day"] = pd.date_range("2020-01-01", periods=len(frame))
    model = make_pipeline(skrub.TableVectorizer(), KPPRegressor("extra-trees", **SMALL))
    with pytest.raises(TypeError, match=r"day \(DatetimeEncoder\)"):
        to_onnx(model.fit(frame, y))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_skl2onnx_itself_writes_our_models(dtype):
    register_converters()
    rows = X.astype(dtype)
    model = make_pipeline(StandardScaler(), KPPRegressor("extra-trees", **SMALL)).fit(rows, Y)
    graph = skl2onnx.to_onnx(model, rows[:1])
    served = run(graph, {"X": rows})["variable"]
    assert served.shape == (len(rows), 1)
    np.testing.assert_allclose(served[:, 0], model.predict(rows), rtol=1e-6)
    flowers = IRIS[0].astype(dtype)
    y = np.array(["a", "b", "c"])[IRIS[1]]
    classifier = make_pipeline(StandardScaler(), KPPClassifier("extra-trees", **SMALL))
    classifier.fit(flowers, y)
    graph = skl2onnx.to_onnx(classifier, flowers[:1], options={"zipmap": False})
    served = run(graph, {"X": flowers})
    assert (served["label"] == classifier.predict(flowers)).all()
    np.testing.assert_allclose(
        served["probabilities"], classifier.predict_proba(flowers), rtol=1e-6
    )


def test_texts_behind_a_preparation_are_refused():
    frame, y = table()
    keep = make_column_transformer((StandardScaler(), ["a"]), remainder="passthrough")
    keep.set_output(transform="pandas")
    model = make_pipeline(keep, KPPRegressor("extra-trees", **SMALL)).fit(frame, y)
    with pytest.raises(TypeError, match="hold texts behind the preparation"):
        to_onnx(model, rows=frame)
