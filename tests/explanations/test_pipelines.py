"""Pipelines that end in a model are explained by the user's own columns; one row in any form."""

import numpy as np
import pandas as pd
import pytest
from explanations.fitted_models import mixed_frame
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kpp import (
    KPPClassifier,
    KPPEmbedding,
    KPPRegressor,
    explain,
    explain_distance,
    explain_rules,
    explain_training_rows,
    path_distance,
)
from kpp.explanations import (
    AttributionBarDisplay,
    BeeswarmDisplay,
    DependenceDisplay,
    WaterfallDisplay,
    leave_one_out,
)

SMALL = {"n_estimators": 6, "random_state": 0}
FRAME, TARGET = mixed_frame(120)
# Texts, not categories: scikit-learn's encoder finds them itself.
TEXTS = FRAME.assign(colour=FRAME["colour"].astype(object))
KINDS = np.digitize(TARGET, np.quantile(TARGET, [1 / 3, 2 / 3]))


def preparation(colour, numbers):
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    return make_column_transformer((SimpleImputer(), numbers), (encoder, colour))


def named_pipeline(model):
    return make_pipeline(preparation(["colour"], ["count", "size"]), model)


@pytest.fixture(scope="module")
def pipeline():
    return named_pipeline(KPPRegressor("extra-trees", alpha=0.1, **SMALL)).fit(TEXTS, TARGET)


def prepared_parts(pipeline, X, **options):
    """What the model behind the preparation says, and which columns belong to which raw one."""
    inner = explain(pipeline[-1], pipeline[:-1].transform(X), **options)
    names = pipeline[:-1].get_feature_names_out()
    raw = [next(c for c in ("count", "size", "colour") if f"__{c}" in name) for name in names]
    return inner, np.array(raw)


# Attributions of raw columns.


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("task", ["regression", "several classes"])
def test_values_are_sums_over_the_prepared_columns(task, centered):
    model, y = KPPRegressor("extra-trees", alpha=0.1, **SMALL), TARGET
    if task == "several classes":
        model, y = KPPClassifier("extra-trees", alpha=1e-3, **SMALL), KINDS
    pipeline = named_pipeline(model).fit(TEXTS, y)
    found = explain(pipeline, TEXTS, centered=centered)
    inner, raw = prepared_parts(pipeline, TEXTS, centered=centered)
    assert found.feature_names == ("count", "size", "colour")
    for j, name in enumerate(found.feature_names):
        expected = inner.values[:, raw == name].sum(axis=1)
        np.testing.assert_allclose(found.values[:, j], expected, rtol=0, atol=1e-13)
    scores = (pipeline.predict if y is TARGET else pipeline.decision_function)(TEXTS)
    np.testing.assert_allclose(found.baseline + found.values.sum(axis=1), scores, atol=1e-10)
    np.testing.assert_array_equal(found.scores, scores)
    assert found.data.equals(TEXTS[["count", "size", "colour"]])
    assert found.to_frame().index.equals(TEXTS.index)


@pytest.mark.parametrize("centered", [False, True])
def test_sums_by_tree(pipeline, centered):
    found = explain(pipeline, TEXTS, centered=centered)
    summary = found.summary()
    assert summary.by_tree.shape == (6, 3)
    mean_abs = np.abs(found.values).mean(axis=0)
    np.testing.assert_allclose(summary.mean_abs, mean_abs, rtol=1e-12)
    np.testing.assert_allclose(summary.by_tree.sum(axis=0), mean_abs, rtol=0, atol=1e-12)
    # Tree by tree: each tree's own values, from a model that has only this tree's contributions.
    inner, raw = prepared_parts(pipeline, TEXTS, level="node")
    tree = np.array([int(name.split("_")[1][1:]) for name in inner.feature_names])
    source = np.append(raw, "root")[pipeline[-1].map_.coordinate_variable]
    nodes = inner.values.toarray()
    if centered:
        nodes -= nodes.mean(axis=0)  # all rows of the fit, in equal weight
    for j, name in enumerate(found.feature_names):
        sign = np.sign(found.values[:, j])
        own = [sign @ nodes[:, (tree == t) & (source == name)].sum(axis=1) for t in range(6)]
        np.testing.assert_allclose(summary.by_tree[:, j], np.array(own) / 120, atol=1e-12)
    spread = np.sqrt(6) * summary.by_tree.std(axis=0, ddof=1)
    np.testing.assert_allclose(summary.spread, spread, rtol=1e-12)


def test_nodes_stay_nodes(pipeline):
    found = explain(pipeline, TEXTS, level="node")
    inner, _ = prepared_parts(pipeline, TEXTS, level="node")
    assert found.feature_names == inner.feature_names
    assert abs(found.values - inner.values).max() == 0


def test_shapley_values_of_prepared_columns_add_up(pipeline):
    pytest.importorskip("shap")
    found = explain(pipeline, TEXTS, level="shapley")
    inner, raw = prepared_parts(pipeline, TEXTS, level="shapley")
    for j, name in enumerate(found.feature_names):
        expected = inner.values[:, raw == name].sum(axis=1)
        np.testing.assert_allclose(found.values[:, j], expected, rtol=0, atol=1e-13)
    assert found.residual < 1e-6
    assert found.to_shap().feature_names == ["count", "size", "colour"]


def test_an_attribution_without_names():
    prepare = preparation([0], [2, 1])
    pipeline = make_pipeline(prepare, KPPRegressor("extra-trees", alpha=0.1, **SMALL))
    pipeline.fit(TEXTS.to_numpy(), TARGET)
    found = explain(pipeline, TEXTS.to_numpy())
    assert found.feature_names == ("x2", "x1", "x0")
    assert found.data[:, 2].tolist() == TEXTS["colour"].tolist()


def test_a_mix_of_columns_is_a_column_of_its_own():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    pipeline = make_pipeline(PCA(3), KPPRegressor("extra-trees", alpha=0.1, **SMALL)).fit(X, y)
    found = explain(pipeline, X)
    assert found.feature_names == ("pca0", "pca1", "pca2")
    np.testing.assert_allclose(found.data, pipeline[0].transform(X), rtol=1e-12)


def test_distances_by_raw_column(pipeline):
    inner, prepare = pipeline[-1], pipeline[:-1].transform
    for a, b in [(0, 1), (5, 80), (3, 3)]:
        x, z = TEXTS.iloc[[a]], TEXTS.iloc[[b]]
        found = explain_distance(pipeline, x, z)
        plain = explain_distance(inner, prepare(x), prepare(z))
        _, raw = prepared_parts(pipeline, TEXTS[:1])
        assert found.feature_names == ("count", "size", "colour")
        assert found.total == plain.total == path_distance(inner, prepare(x), prepare(z))[0, 0]
        for j, name in enumerate(found.feature_names):
            expected = plain.values[:, raw == name].sum(axis=1)
            np.testing.assert_allclose(found.values[:, j], expected, rtol=0, atol=1e-15)
        names = np.array([*found.feature_names, "none"])
        assert names[found.parted_by].tolist() == np.append(raw, "none")[plain.parted_by].tolist()
        assert found.to_frame()["trees_parted"].sum() == (plain.parted_by >= 0).sum()


def test_distances_in_an_embedding():
    prepare = preparation(["colour"], ["count", "size"])
    pipeline = make_pipeline(prepare, KPPEmbedding(**SMALL)).fit(TEXTS, TARGET)
    found = explain_distance(pipeline, TEXTS.iloc[0], TEXTS.iloc[9])
    assert found.feature_names == ("count", "size", "colour")
    assert found.residual < 1e-14


def test_rules_and_training_rows(pipeline):
    inner, row = pipeline[-1], TEXTS.iloc[[7]]
    at = pipeline[:-1].transform(row)
    rules, plain = explain_rules(pipeline, row), explain_rules(inner, at)
    everything = explain_rules(pipeline, row, top=10**6), explain_rules(inner, at, top=10**6)
    nodes, own_nodes = ({n for r in found.rules for n in r.nodes} for found in everything)
    assert nodes == own_nodes
    assert rules.score == plain.score
    texts = [rule.text for rule in everything[0].rules]
    assert any("colour = " in text or "colour is not " in text for text in texts)
    assert not any("colour_" in text for text in texts)
    found, own = explain_training_rows(pipeline, row), explain_training_rows(inner, at)
    np.testing.assert_array_equal(found.all_contributions, own.all_contributions)
    np.testing.assert_array_equal(
        leave_one_out(pipeline, TARGET).leverage, leave_one_out(inner, TARGET).leverage
    )


# Drawn.


def test_displays_show_raw_columns(pipeline):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    shown = WaterfallDisplay.from_estimator(pipeline, TEXTS.iloc[1])
    assert shown.feature_names == ("count", "size", "colour")
    assert shown.data[2] == TEXTS["colour"].iloc[1]
    bars = AttributionBarDisplay.from_estimator(pipeline, TEXTS)
    assert bars.summary.feature_names == shown.feature_names
    swarm = BeeswarmDisplay.from_estimator(pipeline, TEXTS)
    assert swarm.attribution.feature_names == shown.feature_names
    assert DependenceDisplay.from_estimator(pipeline, TEXTS, "colour").feature == 2
    # Routed rows hold the prepared values only.
    rows = pipeline[-1].at(pipeline[:-1].transform(TEXTS))
    assert explain(pipeline, rows).data is None
    assert WaterfallDisplay.from_estimator(pipeline, rows.take([1])).data is None
    with pytest.raises(ValueError, match="give X itself"):
        BeeswarmDisplay.from_estimator(pipeline, rows)
    pyplot.close("all")


# One row, in any form.


def forms(frame, i):
    row = frame.iloc[i]
    values = [frame[name].iloc[i] for name in frame]
    array = np.array(values, dtype=object)
    return {
        "frame": frame.iloc[[i]],
        "series": row,
        "dict": {**row.to_dict(), "not a column": 1},
        "list": values,
        "tuple": tuple(values),
        "array": array,
        "row of an array": array[None],
    }


def answers(model, x, z):
    """Numbers and words of every question about one row."""
    found, rules = explain(model, x), explain_rules(model, x)
    carried = explain_training_rows(model, x)
    return [
        found.values.tolist(),
        [str(value) for value in np.asarray(found.data)[0].tolist()],
        str(rules),
        carried.all_contributions.tolist(),
        explain_distance(model, x, z).values.tolist(),
    ]


@pytest.mark.parametrize("i", [0, 3, 7, 11], ids=["both missing", "none", "size", "colour"])
def test_one_row_of_a_model_with_categories(i):
    model = KPPRegressor("boosted", alpha=0.1, **SMALL).fit(FRAME, TARGET)
    given, other = forms(FRAME, i), forms(FRAME, 20)
    expected = answers(model, given.pop("frame"), other["frame"])
    given.pop("row of an array")  # a table without names, which scikit-learn warns of
    for form, x in given.items():
        assert answers(model, x, other[form]) == expected, form


@pytest.mark.parametrize("i", [0, 3, 7, 11], ids=["both missing", "none", "size", "colour"])
def test_one_row_of_a_pipeline(pipeline, i):
    given, other = forms(TEXTS, i), forms(TEXTS, 20)
    expected = answers(pipeline, given.pop("frame"), other["frame"])
    given.pop("row of an array")
    for form, x in given.items():
        assert answers(pipeline, x, other[form]) == expected, form


@pytest.mark.parametrize("prepare", [False, True])
def test_one_row_without_names(prepare):
    X, y = load_iris(return_X_y=True)
    model = KPPClassifier("extra-trees", alpha=1e-3, **SMALL)
    model = (make_pipeline(StandardScaler(), model) if prepare else model).fit(X, y)
    z = X[70]
    expected = answers(model, X[5:6], z)
    for x in (X[5], X[5].tolist(), tuple(X[5].tolist()), pd.Series(X[5])):
        assert answers(model, x, z) == expected
    with pytest.raises(ValueError, match="knows no names of columns"):
        explain(model, {"petal": 1.0})
