"""`to_onnx`: answers, labels, precisions, the model card, and what is refused by name."""

import sys

import numpy as np
import pandas as pd
import pytest
from served import card, run, scores_of
from sklearn.datasets import load_diabetes, load_iris
from zoo import beside_thresholds

from kpp import Forest, KPPClassifier, KPPEmbedding, KPPRegressor, to_onnx
from kpp.export import onnx_inputs
from kpp.export.trees import floor_float32
from kpp.forest import ObliqueForestRegressor, Tree

X, Y = load_diabetes(return_X_y=True)
IRIS = load_iris(return_X_y=True)
SMALL = {"n_estimators": 6, "alpha": 0.5, "random_state": 0}


@pytest.mark.parametrize(
    "labels",
    [
        [3, -7, 12],
        np.array([3, 7, 9], dtype=np.uint8),
        ["setosa", "üñí", ""],
        np.array(["a", "b", "c"], dtype=object),
        [-1.0, 2.0, 4.0],
    ],
    ids=["whole numbers", "bytes", "texts", "objects", "numbers"],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_are_the_users(labels, n_classes):
    kept = IRIS[1] < n_classes
    rows, y = IRIS[0][kept], np.asarray(labels)[IRIS[1][kept]]
    model = KPPClassifier("extra-trees", **SMALL).fit(rows, y)
    answer = run(to_onnx(model), {"X": rows})
    assert answer["label"].tolist() == model.predict(rows).tolist()
    assert len(set(answer["label"].tolist())) == n_classes
    np.testing.assert_allclose(answer["probabilities"], model.predict_proba(rows), atol=1e-15)
    np.testing.assert_allclose(answer["scores"], model.decision_function(rows), atol=1e-15)


def test_labels_that_are_true_and_false():
    model = KPPClassifier("boosted", **SMALL).fit(IRIS[0], IRIS[1] == 1)
    answer = run(to_onnx(model), {"X": IRIS[0]})
    assert answer["label"].dtype == bool
    assert (answer["label"] == model.predict(IRIS[0])).all()


def test_shapes_are_those_of_predict():
    one = KPPRegressor("extra-trees", **SMALL).fit(X, Y)
    assert run(to_onnx(one), {"X": X})["prediction"].shape == one.predict(X).shape == (442,)
    two = KPPRegressor("extra-trees", **SMALL).fit(X, np.c_[Y, -Y])
    assert run(to_onnx(two), {"X": X})["prediction"].shape == two.predict(X).shape == (442, 2)
    assert run(to_onnx(one), {"X": X[:0]})["prediction"].shape == (0,)
    assert run(to_onnx(one), {"X": X[:1]})["prediction"] == one.predict(X[:1])


@pytest.mark.parametrize("ml_opset", [5, 3])
@pytest.mark.parametrize("forest", ["extra-trees", "boosted"])
def test_single_precision_decides_alike_for_every_float32(forest, ml_opset):
    model = KPPRegressor(forest, **SMALL).fit(X, Y)
    rows = beside_thresholds(model.collapse().forest, X, n_rows=1000).astype(np.float32)
    graph = to_onnx(model, precision="single", ml_opset=ml_opset)
    served = run(graph, onnx_inputs(model, rows, precision="single"))["prediction"]
    assert served.dtype == np.float32
    # A row in another leaf is off by far more than the rounding that is stated.
    close = card(graph)["kpp.score_tolerance"]
    assert close < 1e-3
    assert np.abs(served - model.predict(rows)).max() <= close
    values = model.collapse().node_values[0]
    assert np.abs(np.diff(np.unique(values))).max() > close


def test_rows_that_float32_moves_are_counted():
    stump = Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0] * 3, threshold=[1.0] * 3)
    forest = Forest.from_trees([stump], n_features=1)
    rows = np.array([[0.0], [1.0], [1.0 + 1e-12], [2.0]])
    model = KPPRegressor(forest, regime="fixed", alpha=1e-3).fit(rows, [0.0, 0.0, 1.0, 1.0])
    with pytest.warns(UserWarning, match=r"25\.00% of the given rows"):
        graph = to_onnx(model, precision="single", rows=rows)
    assert card(graph)["kpp.rows_in_other_leaves"] == 0.25
    assert "kpp.rows_in_other_leaves" not in card(to_onnx(model, rows=rows))
    unmoved = to_onnx(model, precision="single", rows=rows[[0, 1, 3]])
    assert card(unmoved)["kpp.rows_in_other_leaves"] == 0.0
    kinds = pd.DataFrame({"x": rows[:, 0], "kind": pd.Categorical([7, 7, 9, 9])})
    with_kinds = KPPRegressor("boosted", n_estimators=2, alpha=0.1, random_state=0)
    with_kinds.fit(pd.concat([kinds] * 30, ignore_index=True), np.resize([0.0, 0.0, 1.0, 1.0], 120))
    again = to_onnx(with_kinds, precision="single", rows=kinds)
    assert card(again)["kpp.rows_in_other_leaves"] == 0.0
    # In double precision each row is where it was.
    assert (run(to_onnx(model), {"X": rows})["prediction"] == model.predict(rows)).all()


def test_version_3_is_rounded_to_float32_as_it_says():
    model = KPPClassifier(n_estimators=6, random_state=0, cv=3).fit(*IRIS)
    graph = to_onnx(model, ml_opset=3)
    assert {entry.domain: entry.version for entry in graph.opset_import}["ai.onnx.ml"] == 3
    served = run(graph, {"X": IRIS[0]})
    error = np.abs(served["scores"] - model.decision_function(IRIS[0])).max()
    assert 1e-12 < error <= card(graph)["kpp.score_tolerance"] < 1e-4
    assert (served["label"] == model.predict(IRIS[0])).all()


def test_the_largest_float32_below():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=1000), [0.0, np.inf, -np.inf, 1e300, -1e300, 1e-46]])
    below = floor_float32(values)
    assert (below <= values).all()
    with np.errstate(over="ignore"):
        assert (below.astype(np.float32) == below).all()
        above = np.nextafter(below.astype(np.float32), np.float32(np.inf))
    assert (above.astype(np.float64)[np.isfinite(values)] > values[np.isfinite(values)]).all()


def test_the_card_says_what_the_model_is():
    frame = pd.DataFrame({"size": X[:, 2], "kind": np.where(X[:, 1] > 0, "a", "b")})
    y = np.where(Y > 140, "high", "low")
    model = KPPClassifier("extra-trees", regime="honest", **SMALL).fit(frame, y)
    said = card(to_onnx(model))
    assert said["kpp.task"] == "classification"
    assert said["kpp.regime"].startswith("honest (PB-")
    assert said["kpp.classes"] == ["high", "low"]
    assert said["kpp.n_trees"] == 6
    assert said["kpp.n_rows_fitted"] == len(model.fit_rows_)
    assert [column["name"] for column in said["kpp.columns"]] == ["size", "kind"]
    assert [column["holds"] for column in said["kpp.columns"]] == ["number", "text"]
    assert said["kpp.columns"][1]["categories"] == ["a", "b"]
    assert {"kpp", "numpy", "scikit-learn"} <= said["kpp.versions"].keys()


def test_columns_of_texts_are_inputs_of_their_own():
    frame = pd.DataFrame({"size": X[:, 2], "kind": np.where(X[:, 1] > 0, "a", "b")})
    model = KPPRegressor("extra-trees", **SMALL).fit(frame, Y)
    graph = to_onnx(model)
    assert [value.name for value in graph.graph.input] == ["size", "kind"]
    given = {"size": X[:2, [2]], "kind": np.array([["b"], ["nothing"]], dtype=object)}
    rows = pd.DataFrame({"size": X[:2, 2], "kind": ["b", None]})
    np.testing.assert_allclose(run(graph, given)["prediction"], model.predict(rows), rtol=1e-14)
    assert (onnx_inputs(model, rows)["kind"] == [["b"], [""]]).all()


def test_what_onnx_cannot_say_is_refused_by_name():
    frame = pd.DataFrame({"size": X[:, 2], "kind": np.where(X[:, 1] > 0, "a", "b")})
    frame["kind"] = np.resize(["a", "b", "c"], len(frame))
    model = KPPRegressor("extra-trees", **SMALL).fit(frame, Y + 50 * (frame["kind"] == "b"))
    with pytest.raises(TypeError, match="ml_opset=3 has no splits on sets of categories"):
        to_onnx(model, ml_opset=3)
    days = pd.Categorical(pd.to_datetime(["2020-01-01", "2020-02-01"] * 221))
    dated = KPPRegressor("extra-trees", **SMALL).fit(pd.DataFrame({"x": X[:, 0], "day": days}), Y)
    with pytest.raises(TypeError, match="column 'day'"):
        to_onnx(dated)
    source = ObliqueForestRegressor(2, random_state=0).fit(X, Y)
    oblique = KPPRegressor(Forest.from_model(source), regime="fixed", alpha=1.0).fit(X, Y)
    with pytest.raises(TypeError, match="oblique"):
        to_onnx(oblique, precision="single")
    with pytest.raises(TypeError, match="no scores"):
        to_onnx(KPPEmbedding("extra-trees", n_estimators=2).fit(X, Y))
    plain = KPPRegressor("extra-trees", **SMALL).fit(X, Y)
    with pytest.raises(ValueError, match="precision must be one of"):
        to_onnx(plain, precision="half")
    with pytest.raises(ValueError, match="ml_opset must be 5 or 3"):
        to_onnx(plain, ml_opset=4)


def test_numbers_as_categories_beyond_float64_are_refused():
    rows = pd.DataFrame({"x": X[:60, 0], "code": pd.Categorical([2**53 + 2, 7, 9] * 20)})
    model = KPPRegressor("extra-trees", **SMALL).fit(rows, Y[:60])
    with pytest.raises(TypeError, match=r"'code' has categories .* above 2\^53"):
        to_onnx(model)


def test_categories_that_are_numbers():
    rng = np.random.default_rng(0)
    code = rng.choice([7, 200, -3, 1_000_003], 300)
    rows = pd.DataFrame({"x": rng.normal(size=300), "code": pd.Categorical(code)})
    y = 3.0 * np.isin(code, [200, 7]) + rows["x"]
    model = KPPRegressor("extra-trees", **SMALL).fit(rows, y)
    graph = to_onnx(model)
    assert [value.name for value in graph.graph.input] == ["X"]
    given = np.c_[rows["x"], code.astype(float)]
    given[:3, 1] = [8.0, np.nan, 7.5]
    rows["code"] = pd.Categorical([None, None, None, *code[3:]])
    expected = scores_of(model, rows)[:, 0]
    np.testing.assert_allclose(run(graph, {"X": given})["prediction"], expected, rtol=1e-13)


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    model = KPPRegressor("extra-trees", **SMALL).fit(X, Y)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"to_onnx needs onnx .*pip install 'kpp\[export\]'"):
        to_onnx(model)
