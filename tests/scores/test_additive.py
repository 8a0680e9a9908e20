"""AdditiveForest and RoutedRows: what a fitted model is, and rows that are routed once."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import HistGradientBoostingRegressor

import kpp.geometry.maps
import kpp.scores.additive
from kpp import KPPClassifier, KPPEmbedding, KPPRegressor, kernel, path_distance
from kpp.scores import AdditiveForest

BLOCKS = [("trees", "extra-trees"), ("boosted", HistGradientBoostingRegressor(max_iter=3))]


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def blocks(diabetes):
    return KPPRegressor(BLOCKS, combine="joint", n_estimators=5, alpha=0.1, random_state=0).fit(
        *diabetes
    )


def count_routes(monkeypatch):
    calls = []
    for module in (kpp.scores.additive, kpp.geometry.maps):
        real = module.route

        def counted(*args, real=real, **kwargs):
            calls.append(args)
            return real(*args, **kwargs)

        monkeypatch.setattr(module, "route", counted)
    return calls


def test_scores_are_sums_of_contributions_along_paths(diabetes, blocks):
    X, _ = diabetes
    expected = np.full(len(X), blocks.intercept_)
    for block in blocks.additive_.blocks:
        for i, leaves in enumerate(block.forest.apply(X)):
            for v in leaves:
                while v >= 0:
                    expected[i] += block.contribution[0, v]
                    v = block.forest.parent[v]
    np.testing.assert_allclose(blocks.additive_.scores(X)[:, 0], expected, rtol=1e-12)
    assert (blocks.additive_.scores(X)[:, 0] == blocks.predict(X)).all()


def test_contributions_without_coefficients_are_differences(blocks):
    for block in blocks.additive_.blocks:
        bare = type(block)(block.name, block.forest, block.node_values)
        size = np.abs(block.node_values).max()
        np.testing.assert_allclose(bare.contribution, block.contribution, atol=1e-14 * size)
        with pytest.raises(ValueError, match="no metric"):
            _ = bare.scale


def test_one_forest_for_all_blocks(diabetes, blocks):
    X, _ = diabetes
    one = blocks.additive_.in_one_forest()
    assert len(one.blocks) == 1
    assert (one.scores(X) == blocks.additive_.scores(X)).all()
    assert one.forest.dtype == np.float64
    root = one.forest.roots
    assert (one.node_rows[root] == len(X)).all()
    assert one.blocks[0].coef.shape == one.node_values.shape == (1, one.forest.n_nodes)


@pytest.mark.parametrize(
    ("data", "link", "outputs"),
    [(load_breast_cancer, "logistic", (1,)), (load_iris, "softmax", (0, 1, 2))],
)
def test_links_and_outputs(data, link, outputs):
    X, y = data(return_X_y=True)
    model = KPPClassifier("extra-trees", n_estimators=5, alpha=1e-2, random_state=0).fit(X, y)
    assert model.additive_.link == link
    assert model.additive_.outputs == outputs
    assert "n_scores=" in repr(model.additive_)


def test_rows_are_routed_once(diabetes, blocks, monkeypatch):
    X, _ = diabetes
    scores, expected = blocks.predict(X), blocks.map_.on(X)
    calls = count_routes(monkeypatch)
    rows = blocks.at(X)
    assert len(calls) == 2  # one for each forest
    assert (blocks.predict(rows) == scores).all()
    assert (blocks.apply(rows) == blocks.apply(X)).all()
    calls.clear()
    some = rows.take(np.arange(5, 12))
    assert (blocks.predict(some) == scores[5:12]).all()
    assert (
        some.map.matvec(blocks.node_coef_) == expected.rows(slice(5, 12)) @ blocks.node_coef_
    ).all()
    assert kernel(blocks, some).shape == (7, 7)
    assert (
        path_distance(blocks, some) == path_distance(blocks.map_, rows.take(slice(5, 12)))
    ).all()
    assert not calls
    assert len(some) == 7
    assert some.shape == (7, 10)


def test_leaf_ids_of_several_blocks(diabetes, blocks):
    X, _ = diabetes
    rows = blocks.at(X[:9])
    one = blocks.additive_.in_one_forest()
    assert (rows.joined_leaf_ids == one.forest.apply(X[:9]).T).all()
    assert (rows.all_leaf_ids == blocks.apply(X[:9]).T).all()
    # A forest that is not the model's is routed.
    assert (rows.leaf_ids_of(one.forest) == rows.joined_leaf_ids).all()


def test_rows_of_another_model_are_refused(diabetes, blocks):
    X, y = diabetes
    rows = KPPRegressor("extra-trees", n_estimators=5, alpha=0.1).fit(X, y).at(X)
    with pytest.raises(ValueError, match="routed by another model"):
        blocks.predict(rows)


def test_an_embedding_routes_but_has_no_scores(diabetes):
    X, y = diabetes
    embedding = KPPEmbedding(n_estimators=5, random_state=0).fit(X, y)
    rows = embedding.at(X)
    assert (embedding.transform(rows) != embedding.transform(X)).nnz == 0
    with pytest.raises(TypeError, match="has no scores"):
        _ = rows.scores


def test_zero_rows(diabetes, blocks):
    assert isinstance(blocks.additive_, AdditiveForest)
    assert blocks.additive_.scores(diabetes[0][:0]).shape == (0, 1)


def test_tables_are_made_once_and_stay_behind():
    X, y = load_iris(return_X_y=True)
    model = KPPClassifier("extra-trees", n_estimators=3, alpha=1e-2, random_state=0).fit(X, y)
    additive, calls = model.additive_, []

    def make(*arguments):
        calls.append(arguments)
        return object()

    assert additive.once(make, 1) is additive.once(make, 1)
    assert calls == [(1,)]
    assert additive.forest is additive.forest
    for other in (pickle.loads(pickle.dumps(model)).additive_, copy.deepcopy(additive)):
        assert set(other.__dict__) == {"blocks", "intercept", "classes", "is_log", "linear"}
        assert np.array_equal(other.scores(X), additive.scores(X))


def test_parts_of_tables_over_nodes_are_theirs_to_the_bit():
    X, y = load_iris(return_X_y=True)
    model = KPPClassifier("extra-trees", n_estimators=3, alpha=1e-2, random_state=0).fit(X, y)
    (block,) = model.additive_.blocks
    nodes = np.array([0, 5, 3, 5, block.forest.n_nodes - 1])
    for one in (block, replace(block, map=None), replace(block, coef=None)):
        for k in range(3):
            assert np.array_equal(one.contribution_of(k, nodes), one.contribution[k, nodes])
        assert np.array_equal(one.scale_of(nodes), one.scale[nodes])
