"""The collapsed forest against the model, scikit-learn and the tools that read its forests."""

import pickle
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpydoc_lite import sections
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from zoo import beside_thresholds

import kpp.export
from kpp import Forest, KPPClassifier, KPPEmbedding, KPPRegressor
from kpp.certificates import certify, certify_raw
from kpp.export import collapse
from kpp.forest.join import as_float64

X, Y = load_diabetes(return_X_y=True)
IRIS = load_iris(return_X_y=True)
WINE = load_wine(return_X_y=True)
SETTINGS = {"n_estimators": 8, "alpha": 0.5, "random_state": 0}


def with_missing(X):
    X = X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X


MODELS = {
    "extra trees": lambda: (KPPRegressor("extra-trees", **SETTINGS), X, Y),
    "random forest": lambda: (KPPRegressor("random-forest", **SETTINGS), X, Y),
    "large intercept": lambda: (KPPRegressor("random-forest", **SETTINGS), X, Y + 1e6),
    "no intercept": lambda: (KPPRegressor("extra-trees", fit_intercept=False, **SETTINGS), X, Y),
    "per tree": lambda: (KPPRegressor("extra-trees", normalize="tree", **SETTINGS), X, Y),
    "leaf weights": lambda: (KPPRegressor("extra-trees", leaf_weight="variance", **SETTINGS), X, Y),
    "leaf coordinates": lambda: (KPPRegressor("extra-trees", coordinates="leaf", **SETTINGS), X, Y),
    "gradient boosting": lambda: (
        KPPRegressor(GradientBoostingRegressor(n_estimators=9), alpha=0.5, random_state=0),
        X,
        Y,
    ),
    "honest": lambda: (KPPRegressor("random-forest", regime="honest", **SETTINGS), X, Y),
    "cross-fit": lambda: (KPPRegressor("extra-trees", regime="cross-fit", **SETTINGS), X, Y),
    "cross-validated": lambda: (
        KPPRegressor("extra-trees", regime="cross-validated", **SETTINGS),
        X,
        Y,
    ),
    "blocks": lambda: (
        KPPRegressor([("a", "random-forest"), ("b", "extra-trees")], combine="joint", **SETTINGS),
        X,
        Y,
    ),
    "missing values": lambda: (KPPRegressor("random-forest", **SETTINGS), with_missing(X), Y),
    "two targets": lambda: (KPPRegressor("random-forest", **SETTINGS), X, np.c_[Y, np.sin(Y)]),
    "binary": lambda: (
        KPPClassifier("random-forest", n_estimators=8, alpha=1e-3, random_state=0),
        WINE[0],
        WINE[1] == 1,
    ),
    "multiclass": lambda: (
        KPPClassifier("extra-trees", n_estimators=8, alpha=1e-3, random_state=0),
        *IRIS,
    ),
    "cross-fit classes": lambda: (
        KPPClassifier(
            "extra-trees", n_estimators=8, alpha=1e-3, regime="cross-fit", random_state=0
        ),
        *IRIS,
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    model, X, y = MODELS[request.param]()
    return model.fit(X, y), X


def scores_of(model, X):
    scores = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    return scores.reshape(len(X), -1)


def size(collapsed):
    """Magnitude that rounding is relative to: the intercept and the leaf values."""
    return np.abs(collapsed.intercept) + np.abs(collapsed.node_values).max(axis=1)


def test_scores_are_the_models_to_the_last_bit(fitted):
    model, X = fitted
    assert np.array_equal(collapse(model).scores(X), scores_of(model, X))


def test_node_values_are_sums_along_paths(fitted):
    model, _ = fitted
    collapsed = collapse(model)
    blocks = [b for _, b in model.map_.blocks] if hasattr(model.map_, "blocks") else [model.map_]
    step = np.concatenate([b.scale for b in blocks]) * np.atleast_2d(model.node_coef_)
    parent = collapsed.forest.parent
    above = np.where(parent >= 0, collapsed.node_values[:, parent], 0.0)
    close = 1e-12 * size(collapsed)[:, None]
    assert (np.abs(collapsed.node_values - above - step) <= close).all()
    assert (collapsed.node_rows[collapsed.forest.roots] == model.map_.shape[0]).all()


def test_the_sklearn_forest_predicts_every_score(fitted):
    model, X = fitted
    collapsed = collapse(model)
    # Values on the thresholds and one step beside them: the same rows go left.
    # (A threshold may be infinite: it parts the missing values from the others.)
    rows = np.vstack([X, beside_thresholds(collapsed.forest, X)])
    rows = rows[~(np.abs(rows) > 1e30).any(axis=1)]
    for k, expected in enumerate(scores_of(model, rows).T):
        plain = collapsed.to_sklearn(k)
        assert isinstance(plain, RandomForestRegressor)
        assert np.abs(plain.predict(rows) - expected).max() <= 1e-12 * size(collapsed)[k]
        indicator, offsets = plain.decision_path(X)
        assert indicator.shape == (len(X), collapsed.forest.n_nodes)
        assert np.array_equal(offsets, collapsed.forest.tree_offsets)
        assert np.array_equal(
            plain.apply(X), collapsed.forest.apply(X) - collapsed.forest.tree_offsets[:-1]
        )


def test_the_sklearn_forest_is_an_estimator_like_others(fitted):
    model, X = fitted
    plain = collapse(model).to_sklearn()
    again = pickle.loads(pickle.dumps(plain))
    assert np.array_equal(again.predict(X), plain.predict(X))
    # It can be read back, and grown anew from its parameters.
    forest = Forest.from_model(plain)
    assert np.array_equal(forest.threshold, collapse(model).forest.threshold, equal_nan=True)
    clone(plain).fit(np.nan_to_num(X), X[:, 0] > 0)
    importances = plain.feature_importances_
    assert importances.shape == (X.shape[1],)
    assert importances.sum() == pytest.approx(1)
    assert "RandomForestRegressor" in repr(plain)


def test_row_counts_and_variances_are_those_of_the_fit(fitted):
    model, _ = fitted
    collapsed = collapse(model)
    members = collapsed.to_sklearn().estimators_
    blocks = [b for _, b in model.map_.blocks] if hasattr(model.map_, "blocks") else [model.map_]
    leaves = np.concatenate([b.leaf_ids - b.forest.tree_offsets[:-1, None] for b in blocks])
    for member, at in zip(members, leaves, strict=True):
        tree = member.tree_
        assert tree.n_node_samples.min() >= 0
        assert tree.weighted_n_node_samples.min() > 0
        inner = tree.children_left >= 0
        for name in ("n_node_samples", "weighted_n_node_samples"):
            count = getattr(tree, name)
            below = count[tree.children_left[inner]] + count[tree.children_right[inner]]
            assert np.array_equal(below, count[inner])
        if tree.n_node_samples.min() > 0:
            value = tree.value[at, 0, 0]
            assert tree.impurity[0] == pytest.approx(value.var(), rel=1e-9, abs=1e-18)


def test_names_are_kept():
    frame = load_diabetes(as_frame=True, return_X_y=True)[0]
    model = KPPRegressor("extra-trees", **SETTINGS).fit(frame, Y)
    plain = collapse(model).to_sklearn()
    assert plain.feature_names_in_.tolist() == frame.columns.tolist()
    assert plain.predict(frame) == pytest.approx(model.predict(frame), rel=1e-12)
    assert plain.n_features_in_ == 10


def test_names_of_the_model_where_its_forest_has_none():
    frame = load_diabetes(as_frame=True, return_X_y=True)[0]
    forest = Forest.from_model(RandomForestRegressor(3, random_state=0).fit(X, Y))
    model = KPPRegressor(forest, regime="fixed", alpha=0.5).fit(frame, Y)
    collapsed = collapse(model)
    plain = collapsed.to_sklearn()
    assert plain.feature_names_in_.tolist() == frame.columns.tolist()
    assert plain.predict(frame) == pytest.approx(model.predict(frame), rel=1e-12)
    assert np.array_equal(collapsed.scores(frame)[:, 0], model.predict(frame))


def test_saabas_decomposition_is_the_variable_level_attribution(fitted):
    treeinterpreter = pytest.importorskip("treeinterpreter.treeinterpreter")
    model, X = fitted
    X = X[:40]
    collapsed = collapse(model)
    phi = model.map_.on(X).to_csr()
    variable = model.map_.coordinate_variable
    for k, w in enumerate(np.atleast_2d(model.node_coef_)):
        contribution = phi.multiply(w).tocsc()
        expected = np.column_stack(
            [contribution[:, variable == j].sum(axis=1) for j in range(X.shape[1])]
        )
        constant = collapsed.intercept[k] + contribution[:, variable < 0].sum(axis=1)
        plain = collapsed.to_sklearn(k)
        _, bias, parts = interpret(treeinterpreter, plain, X)
        close = 1e-11 * size(collapsed)[k] * collapsed.forest.n_trees
        assert np.abs(parts - expected).max() <= close
        assert np.abs(bias - np.ravel(constant)).max() <= close


class FlatValues(DecisionTreeRegressor):
    """A tree whose node values are one number each: on numpy 2.4 treeinterpreter needs that."""

    def __init__(self, member):
        tree = member.tree_
        names = ("children_left", "children_right", "feature")
        self.apply = member.apply
        self.tree_ = SimpleNamespace(
            value=tree.value[:, :, 0], **{name: getattr(tree, name) for name in names}
        )


def interpret(treeinterpreter, forest, X):
    """The mean over the trees, as treeinterpreter takes it."""
    results = [
        treeinterpreter._predict_tree(FlatValues(member), X.astype(np.float32))
        for member in forest.estimators_
    ]
    return [np.mean([r[i] for r in results], axis=0) for i in range(3)]


def test_shap_adds_up(fitted):
    shap = pytest.importorskip("shap")
    model, X = fitted
    collapsed = collapse(model)
    plain = collapsed.to_sklearn()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explainer = shap.TreeExplainer(plain)
        values = explainer.shap_values(X[:60], check_additivity=False)
    total = values.sum(axis=1) + np.ravel(explainer.expected_value)[0]
    expected = scores_of(model, X[:60])[:, 0]
    assert np.isfinite(values).all()
    assert np.abs(total - expected).max() <= 1e-8 * size(collapsed)[0]


def single_precision_rows(collapsed, X):
    """Rows, and values beside thresholds, that float32 holds."""
    rows = np.vstack([X, beside_thresholds(collapsed.forest, X)])
    return rows[~(np.abs(rows) > 1e30).any(axis=1)].astype(np.float32)


def test_treelite_predicts_the_same(fitted):
    treelite = pytest.importorskip("treelite")
    model, X = fitted
    collapsed = collapse(model)
    rows = single_precision_rows(collapsed, X)
    for k, expected in enumerate(scores_of(model, rows).T):
        read = treelite.sklearn.import_model(collapsed.to_sklearn(k))
        got = treelite.gtil.predict(read, rows).ravel()
        assert np.abs(got - expected).max() <= 1e-12 * size(collapsed)[k]


def test_onnx_predicts_the_same_in_single_precision(fitted):
    skl2onnx, onnxruntime = (pytest.importorskip(name) for name in ("skl2onnx", "onnxruntime"))
    model, X = fitted
    if np.isnan(X).any():
        pytest.skip("skl2onnx sends missing values elsewhere, of any RandomForestRegressor")
    collapsed = collapse(model)
    rows = single_precision_rows(collapsed, X)
    for k, expected in enumerate(scores_of(model, rows).T):
        written = skl2onnx.to_onnx(collapsed.to_sklearn(k), rows[:1]).SerializeToString()
        session = onnxruntime.InferenceSession(written, providers=["CPUExecutionProvider"])
        got = session.run(None, {"X": rows})[0].ravel()
        assert np.abs(got - expected).max() <= 1e-5 * size(collapsed)[k]


def test_float64_forests_are_refused_by_name():
    model = KPPRegressor("boosted", **SETTINGS).fit(X, Y)
    collapsed = collapse(model)
    assert np.array_equal(collapsed.scores(X)[:, 0], model.predict(X))
    with pytest.raises(TypeError, match=r"float64.*collapse\(model\)\.scores"):
        collapsed.to_sklearn()


def test_categorical_splits_are_refused_by_name():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, len(X))
    frame = pandas.DataFrame({"kind": pandas.Categorical(list("abcd"))[kind], "x": X[:, 2]})
    y = np.array([3.0, -2.0, 5.0, 0.0])[kind] + X[:, 2]
    model = KPPRegressor("boosted", **SETTINGS).fit(frame, y)
    collapsed = collapse(model)
    assert np.array_equal(collapsed.scores(frame)[:, 0], model.predict(frame))
    with pytest.raises(TypeError, match=r"categorical.*column\(s\) \[0\].*scores"):
        collapsed.to_sklearn()


def test_blocks_of_both_precisions_become_one_forest():
    model = KPPRegressor(
        [("a", "random-forest"), ("b", "boosted")], combine="joint", **SETTINGS
    ).fit(X, Y)
    collapsed = collapse(model)
    rows = np.vstack([beside_thresholds(f, X, 1000) for _, f in model.forest_])
    assert collapsed.forest.dtype == np.float64
    assert np.array_equal(collapsed.scores(rows)[:, 0], model.predict(rows))


def test_blocks_grown_for_other_targets_become_one_forest():
    labels = Y > 140
    forests = {
        "classes": RandomForestClassifier(3, random_state=0).fit(X, labels),
        "numbers": RandomForestRegressor(3, random_state=0).fit(X, Y),
        "two targets": RandomForestRegressor(3, random_state=0).fit(X, np.c_[Y, Y]),
        "words": RandomForestClassifier(3, random_state=0).fit(X, np.where(labels, "a", "b")),
    }
    blocks = [(name, FrozenEstimator(forest)) for name, forest in forests.items()]
    model = KPPRegressor(
        blocks, combine="joint", regime="fixed", alpha=0.5, node_weight="uniform"
    ).fit(X, Y)
    collapsed = collapse(model)
    assert np.array_equal(collapsed.scores(X)[:, 0], model.predict(X))
    assert collapsed.to_sklearn().predict(X) == pytest.approx(model.predict(X), rel=1e-12)
    assert (certify(model, X[:5], epsilon=9.0).radius > 0).any()
    assert (certify_raw(model, X[:2], epsilon=9.0, effort=0).radius >= 0).all()


@pytest.mark.parametrize("scale", [1.0, 1e-40, 1e-44, 1e30, 1e37])
def test_thresholds_in_float64_decide_like_float32(scale):
    rng = np.random.default_rng(1)
    rows = (rng.normal(size=(200, 2)) / 5 * scale).astype(np.float64)
    y = rows[:, 0] / scale
    forest = Forest.from_model(ExtraTreesRegressor(5, random_state=0).fit(rows, y))
    half = np.nextafter(np.float32(0), np.float32(1)) / 2.0
    threshold = np.where(forest.is_leaf, np.nan, rng.choice(rows[:, 0], forest.n_nodes))
    threshold = np.where(rng.random(forest.n_nodes) < 0.5, threshold.astype(np.float32), threshold)
    forest = replace(forest, threshold=threshold)
    beside = beside_thresholds(forest, rows, 1000)
    t = threshold[~forest.is_leaf]
    single = t.astype(np.float32)
    middle = (single.astype(float) + np.nextafter(single, np.float32(np.inf))) / 2
    middle = np.concatenate([middle + d for d in (0, half, -half)])
    middle = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)])
    beside = np.vstack([beside, np.column_stack([middle, middle[::-1]])])
    beside = beside[np.isfinite(beside.astype(np.float32)).all(axis=1)]
    assert np.array_equal(as_float64(forest).apply(beside), forest.apply(beside))


def test_of_a_pipeline_the_last_step_is_collapsed():
    pipeline = make_pipeline(StandardScaler(), KPPRegressor("extra-trees", **SETTINGS)).fit(X, Y)
    collapsed = collapse(pipeline)
    assert np.array_equal(collapsed.scores(pipeline[:-1].transform(X))[:, 0], pipeline.predict(X))


def test_bad_input():
    with pytest.raises(NotFittedError):
        collapse(KPPRegressor("extra-trees"))
    with pytest.raises(TypeError, match="KPPRegressor or KPPClassifier; got KPPEmbedding"):
        collapse(KPPEmbedding(n_estimators=3, random_state=0).fit(X, Y))
    with pytest.raises(TypeError, match="got RandomForestRegressor"):
        collapse(RandomForestRegressor(2).fit(X, Y))
    with pytest.raises(TypeError, match="got str"):
        collapse("model")
    collapsed = collapse(KPPRegressor("extra-trees", **SETTINGS).fit(X, Y))
    for score in (1, -1, 0.0, "a"):
        with pytest.raises(ValueError, match="score must be an integer from 0 to 0"):
            collapsed.to_sklearn(score)
    with pytest.raises(ValueError):
        collapsed.scores(X[:, 1:])
    assert repr(collapsed).startswith("AdditiveForest(n_trees=8")
    assert "AdditiveForest" in collapsed._repr_html_()


def test_a_fixed_forest_that_saw_other_rows():
    # Nodes without any row of the fit: shares of a parent stay defined.
    frozen = RandomForestClassifier(5, random_state=0).fit(*IRIS)
    half = IRIS[1] < 2
    model = KPPClassifier(FrozenEstimator(frozen), regime="fixed", alpha=0.01)
    model.fit(IRIS[0][half], IRIS[1][half])
    collapsed = collapse(model)
    assert collapsed.node_rows.min() == 0
    plain = collapsed.to_sklearn()
    assert np.isfinite(plain.feature_importances_).all()
    for member in plain.estimators_:
        assert np.isfinite(member.tree_.impurity).all()


def test_docstrings_name_the_parameters():
    import inspect

    for name in kpp.export.__all__:
        thing = getattr(kpp.export, name)
        expected = [p for p in inspect.signature(thing).parameters if p != "self"]
        assert sections(thing) == expected, name
