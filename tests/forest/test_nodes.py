"""What compiled loops take of a forest, and the sums that other rooms use."""

import numpy as np
import pytest
from zoo import random_forest

from kpp.forest import Forest, Tree
from kpp.forest.nodes import Nodes, category_goes_left, is_categorical, largest_tree


def test_nodes_are_the_forests_own_arrays():
    forest = random_forest(0)
    assert forest.nodes is forest.nodes
    for name in Nodes._fields:
        assert getattr(forest.nodes, name) is getattr(forest, name)


def test_largest_tree():
    forest = random_forest(1, n_trees=6)
    sizes = np.diff(forest.tree_offsets)
    assert largest_tree(forest.tree_offsets, 0, 6) == forest.max_tree_nodes == sizes.max()
    assert largest_tree(forest.tree_offsets, 2, 5) == sizes[2:5].max()
    assert largest_tree(forest.tree_offsets, 3, 3) == 0


def test_bits_of_categories():
    codes = [0, 31, 32, 70]
    stump = Tree(
        left=[1, -1, -1],
        right=[2, -1, -1],
        feature=[0] * 3,
        threshold=[0.0] * 3,
        left_categories={0: codes},
    )
    forest = Forest.from_trees([stump], n_features=1)
    words = forest.category_offsets, forest.category_bits
    assert [is_categorical(words[0], v) for v in range(3)] == [True, False, False]
    assert not is_categorical(random_forest(0).category_offsets, 0)
    tried = [*range(100), -1.0, 1e9, np.inf, -np.inf]
    assert [c for c in tried if category_goes_left(*words, 0, float(c))] == codes
    rows = np.array(tried[:100], dtype=float)[:, None]
    assert np.array_equal(np.flatnonzero(forest.apply(rows)[:, 0] == 1), codes)


@pytest.mark.parametrize("seed", range(5))
def test_sums_along_paths_and_over_leaves(seed):
    forest = random_forest(seed)
    values = np.random.default_rng(seed).normal(size=forest.n_nodes)
    along, below = np.zeros(forest.n_nodes), np.zeros(forest.n_nodes)
    for v in range(forest.n_nodes):
        u = v
        while u >= 0:
            along[v] += values[u]
            below[u] += values[v] if forest.is_leaf[v] else 0.0
            u = forest.parent[u]
    np.testing.assert_allclose(forest.path_sums(values), along, rtol=0, atol=1e-13)
    np.testing.assert_allclose(forest.leaf_sums(values), below, rtol=0, atol=1e-13)
    with pytest.raises(ValueError, match=r"Expected a vector of shape \(\d+,\); got \(3,\)"):
        forest.path_sums([1, 2, 3])
