"""Interactions: exact sums, by brute force, and on functions whose interactions are known."""

import numpy as np
import pandas as pd
import pytest
from explanations.fitted_models import MODELS, fitted
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from kpp import KPPRegressor, explain_interactions
from kpp.explanations import InteractionDisplay
from kpp.forest.columns import terms_of

ALL = 10**6


def columns_above(forest, v):
    """Columns of the splits above a node, nearest first, each once."""
    found = []
    while forest.parent[v] >= 0:
        v = int(forest.parent[v])
        own = [column for column, _ in terms_of(forest, v)] or [int(forest.feature[v])]
        found += [column for column in own if column not in found]
    return found


def brute_force(model, X, higher, place=None):
    """Sums over the nodes of each row, one by one: by set of columns, of one score."""
    rows, found = model.at(X), {}
    for block, leaf_ids in zip(model.additive_.blocks, rows.leaf_ids, strict=True):
        forest, contribution = block.forest, block.contribution
        for i in range(len(rows)):
            for leaf in leaf_ids[:, i].tolist():
                v = leaf
                while forest.parent[v] >= 0:
                    listed = columns_above(forest, v)
                    if place is not None:
                        listed = list(dict.fromkeys(place[j] for j in listed))
                    key = tuple(sorted(listed))
                    if len(key) > 2:
                        key = tuple(sorted(listed[:2])) if higher == "last" else ("more",)
                    total = found.setdefault(key, np.zeros((len(rows), len(contribution))))
                    total[i] += contribution[:, v]
                    v = int(forest.parent[v])
    for terms, coordinates in zip(model.additive_.linear, rows.linear_values, strict=True):
        for k, column in enumerate(terms.terms.column.tolist()):
            key = (column if place is None else place[column],)
            total = found.setdefault(key, np.zeros((len(rows), len(terms.coef))))
            total += np.outer(coordinates[:, k], terms.coef[:, k])
    return found


@pytest.mark.parametrize("higher", ["apart", "last"])
@pytest.mark.parametrize("kind", ["regression", "multiclass", "several targets", "blocks", "blend"])
def test_parts_are_sums_over_nodes(kind, higher):
    model, X = fitted(kind)
    X = X[:6]
    expected = brute_force(model, X, higher)
    found = explain_interactions(model, X, top=ALL, higher=higher)
    number = {name: j for j, name in enumerate(found.feature_names)}
    single = found.scores.ndim == 1

    def wide(array):
        return array[..., None] if single else array

    values = wide(found.values)
    for k, pair in enumerate(found.pairs):
        key = tuple(sorted(number[name] for name in pair))
        own = expected.pop(key, 0.0)  # a pair of nodes that none of these rows is in
        np.testing.assert_allclose(values[:, k], own, rtol=1e-9, atol=1e-12)
    for j in range(len(number)):
        own = expected.pop((j,), 0.0)
        np.testing.assert_allclose(wide(found.main)[:, j], own, rtol=1e-9, atol=1e-12)
    more = expected.pop(("more",), 0.0)
    np.testing.assert_allclose(wide(found.higher), more, rtol=1e-9, atol=1e-12)
    assert not expected


@pytest.mark.parametrize("top", [0, 2, ALL])
@pytest.mark.parametrize("kind", MODELS)
def test_sums_are_the_scores(kind, top):
    model, X = fitted(kind)
    found = explain_interactions(model, X[:9], top=top)
    scores = (model.decision_function if hasattr(model, "classes_") else model.predict)(X[:9])
    parts = found.main.sum(axis=1) + found.values.sum(axis=1) + found.others + found.higher
    np.testing.assert_allclose(found.baseline + parts, scores, rtol=1e-10)
    assert len(found.pairs) <= top
    assert found.residual <= 1e-10 * np.abs(scores).max()


def uniform(n=300, p=3):
    return np.random.default_rng(0).uniform(-1, 1, (n, p))


def test_ladders_of_a_sum_have_no_pairs():
    X = uniform()
    model = KPPRegressor(
        RandomForestRegressor(10, max_depth=1, random_state=0), alpha=0.1, random_state=0
    ).fit(X, X.sum(axis=1))
    found = explain_interactions(model, X)
    assert found.pairs == ()
    assert not found.higher.any()
    assert found.sizes()["two columns"] == 0


def test_a_product_is_a_pair():
    X = uniform()
    y = X[:, 0] * X[:, 1]
    model = KPPRegressor("random-forest", n_estimators=15, alpha=0.05, random_state=0).fit(X, y)
    found = explain_interactions(model, X)
    assert found.pairs[0] == ("x0", "x1")
    assert found.mean_abs[0] > 1.5 * found.mean_abs[1:].max()


def test_columns_of_one_column_are_one():
    random = np.random.default_rng(0)
    X = uniform(120, 1)
    table = pd.DataFrame({"size": X[:, 0], "kind": random.choice(list("abcd"), 120)})
    y = X[:, 0] * (table["kind"] == "a") + (table["kind"] == "b")
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["kind"]), remainder="passthrough"
    )
    pipeline = make_pipeline(
        encode, KPPRegressor("extra-trees", n_estimators=6, alpha=0.1, random_state=0)
    ).fit(table, y)
    found = explain_interactions(pipeline, table[:8])
    assert found.feature_names == ("kind", "size")
    assert found.pairs == (("kind", "size"),)
    assert not found.higher.any()
    inner = pipeline[-1]
    expected = brute_force(inner, pipeline[:-1].transform(table[:8]), "apart", [0, 0, 0, 0, 1])
    np.testing.assert_allclose(found.values[:, 0], expected[0, 1][:, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.main[:, 0], expected[(0,)][:, 0], rtol=1e-9, atol=1e-12)


def test_runs_of_rows_change_nothing(monkeypatch):
    from kpp.explanations import interactions

    model, X = fitted("regression")
    whole = explain_interactions(model, X, top=3)
    monkeypatch.setattr(interactions, "MOST_SUMS", 500)
    parts = explain_interactions(model, X, top=3)
    assert parts.pairs == whole.pairs
    np.testing.assert_array_equal(parts.values, whole.values)
    np.testing.assert_array_equal(parts.others, whole.others)


def test_frame_print_and_picture():
    model, X = fitted("multiclass")
    found = explain_interactions(model, X, top=4)
    frame = found.to_frame()
    assert frame["mean_abs"].tolist() == sorted(frame["mean_abs"], reverse=True)
    assert "three or more columns" in str(found)
    assert found.pairs[0][0] in found._repr_html_()
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    display = InteractionDisplay.from_estimator(model, X, top=4)
    assert len(display.ax_.patches) == len(found.pairs)
    plt.close("all")


def test_bad_input():
    model, X = fitted("regression")
    with pytest.raises(ValueError, match="higher must be one of"):
        explain_interactions(model, X, higher="all")
    with pytest.raises(ValueError, match="top must be a number of lines"):
        explain_interactions(model, X, top=-1)
