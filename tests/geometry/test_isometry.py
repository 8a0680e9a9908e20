"""The check on real pairs would notice a map that is no isometry."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from zoo import random_forest, random_node_weight, random_rows

from kpp import KPPEmbedding
from kpp.geometry import BlockMap, PathMap, check_isometry, path_weights


@pytest.fixture(scope="module")
def fitted():
    X, y = load_diabetes(return_X_y=True)
    return KPPEmbedding(n_estimators=10, random_state=0).fit(X, y), X


def test_holds(fitted):
    model, X = fitted
    check = check_isometry(model, X, n_pairs=500)
    assert check.pairs.shape == (500, 2)
    assert check.path.max() > 0
    assert check.holds
    assert check.tolerance < 1e-12


@pytest.mark.parametrize("normalize", ["forest", "tree"])
def test_the_tolerance_is_a_rounding_for_every_term(normalize):
    # Two rows have at most twice the coordinates of one; squares of at most twice the largest norm.
    forest = random_forest(0, n_trees=4)
    weights = path_weights(forest, random_node_weight(0, forest))
    embedding, X = PathMap(forest, weights, normalize=normalize), random_rows(0, 30)
    dense = embedding.on(X).to_csr().toarray()
    most = (dense > 0).sum(axis=1).max()
    # The largest squared norm that a leaf of each tree can have.
    largest = 0.0
    for a, b in zip(forest.tree_offsets, forest.tree_offsets[1:], strict=False):
        norms = []
        for v in range(a, b):
            total, u = 0.0, v
            while u >= 0:
                total += embedding.squared_scale[u]
                u = int(forest.parent[u])
            norms.append(total if forest.left[v] < 0 else 0.0)
        largest += max(norms)
    assert largest < 0.99  # or a power of it would not be seen
    expected = np.finfo(float).eps * 2 * most * 2 * largest
    assert check_isometry(embedding, X).tolerance == pytest.approx(expected, rel=1e-12, abs=0)


def test_path_side_by_sets_of_nodes(fitted):
    model, X = fitted
    forest, a = model.forest_, model.map_.weights.node
    check = check_isometry(model, X, n_pairs=20)
    leaf_ids = forest.apply(X)

    def path_to_root(v):
        nodes = []
        while v >= 0:
            nodes.append(int(v))
            v = forest.parent[v]
        return nodes

    for (i, j), distance in zip(check.pairs, check.path, strict=True):
        total = 0.0
        for t in range(forest.n_trees):
            mine, theirs = path_to_root(leaf_ids[i, t]), path_to_root(leaf_ids[j, t])
            if mine != theirs:
                ancestor = max(set(mine) & set(theirs))
                total += a[[*(set(mine) ^ set(theirs)), ancestor]].sum()
        assert distance == pytest.approx(total / a.sum(), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda forest, weights: weights.edge / weights.forest_mass * (1 + 1e-9),
        lambda forest, weights: weights.node / weights.forest_mass,
        lambda forest, weights: weights.edge / weights.tree_mass.mean(),
    ],
    ids=["mass", "node instead of edge weights", "one tree's mass"],
)
def test_notices_wrong_weights(fitted, wrong, monkeypatch):
    model, X = fitted
    monkeypatch.setattr(
        "kpp.geometry.maps._squared_scale", lambda forest, weights, _: wrong(forest, weights)
    )
    assert not check_isometry(PathMap(model.forest_, path_weights(model.forest_)), X).holds


def test_refused(fitted):
    model, X = fitted
    with pytest.raises(TypeError, match="map of one forest"):
        check_isometry(BlockMap([("a", model.map_)]), X)
    leaf_weights = path_weights(model.forest_, leaf_weight=1.0)
    with pytest.raises(ValueError, match="zero leaf weights"):
        check_isometry(PathMap(model.forest_, leaf_weights), X)
    with pytest.raises(ValueError, match="no rows"):
        check_isometry(model, X[:0])


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_tree_masses_of_any_size(size):
    forest = random_forest(0, n_trees=4)
    weights = path_weights(forest, size * random_node_weight(0, forest))
    check = check_isometry(PathMap(forest, weights, normalize="tree"), random_rows(0, 30))
    assert check.path.max() > 0.1
    assert check.holds
