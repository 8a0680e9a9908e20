"""Section 4.1 of the paper, trees and paths, statement by statement.

Every quantity is computed a second time on hand-made trees: points walk from the root, paths are
sets of nodes, and sums of weights are exact rational numbers.
"""

from __future__ import annotations

from geometry.hand_worlds import EXAMPLES, worlds
from hypothesis import given

from kpp.geometry import PathMap, path_weights


@EXAMPLES
@given(worlds())
def test_def_recursive_binary_partition(world):
    """Points reach the leaf that a walk reaches, and S_v holds the points whose path visits v."""
    forest = world.forest
    assert forest.n_trees == len(world.trees)
    assert forest.n_nodes == sum(len(t.left) for t in world.trees)
    assert sorted(world.node_of) == [(t, v) for t, h in enumerate(world.trees) for v in h.nodes]
    leaf_ids = forest.apply(world.X)
    for i, x in enumerate(world.points):
        for t, tree in enumerate(world.trees):
            assert {v for v in tree.nodes if tree.contains(v, x)} == set(tree.path(x))
            assert world.node_of[leaf_ids[i, t]] == (t, tree.leaf(x))
            assert forest.is_leaf[leaf_ids[i, t]]


@EXAMPLES
@given(worlds())
def test_lem_path_decomposition(world):
    """sigma_t = (pi_t(x) ^ pi_t(z)) | {lca}, on the nodes of the library's parents and coordinates.

    With weight 1 at every split no coordinate of a tree with splits vanishes, so the nonzero
    coordinates of a row are exactly the nodes of its paths.
    """
    forest = world.forest
    leaf_ids = forest.apply(world.X)
    phi = PathMap(forest, path_weights(forest, "uniform")).on(world.X).to_csr()
    support = [{world.node_of[v] for v in phi[i].indices} for i in range(len(world.points))]
    for t, tree in enumerate(world.trees):
        climbed = []
        for i, x in enumerate(world.points):
            nodes = [int(leaf_ids[i, t])]
            while forest.parent[nodes[-1]] != -1:
                nodes.append(int(forest.parent[nodes[-1]]))
            climbed.append({world.node_of[v][1] for v in nodes})
            assert climbed[i] == set(tree.path(x))
            visible = {v for s, v in support[i] if s == t}
            assert visible == (set() if tree.is_leaf(0) else climbed[i])
        for i, j in world.pairs:
            x, z = world.points[i], world.points[j]
            deepest = max(climbed[i] & climbed[j], key=lambda v: len(tree.up(v)))
            sigma = (climbed[i] ^ climbed[j]) | {deepest}
            assert sigma == tree.sigma_by_lemma(x, z) == set(tree.walk(x, z))
