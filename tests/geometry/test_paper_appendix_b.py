"""Appendix B of the paper, leaves with weight, statement by statement.

Every quantity is computed a second time on hand-made trees: points walk from the root, paths are
sets of nodes, and sums of weights are exact rational numbers.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from geometry.hand_worlds import (
    EXAMPLES,
    NORMALIZATIONS,
    WIDE,
    HandTree,
    World,
    assert_close,
    squared_norm,
    stump,
    worlds,
)
from hypothesis import given
from hypothesis import strategies as st

from kpp import path_distance
from kpp.geometry import PathMap, path_weights


@EXAMPLES
@given(worlds(leaf_weight=WIDE), st.sampled_from(NORMALIZATIONS))
def test_app_separation_distance_isometry(world, normalize):
    """||psi(x) - psi(z)||^2 = d^sep: internal nodes of the path, and both leaves if they differ.

    The raw node sum is no squared distance: it is a_t(l) between a point and itself.
    """
    phi = world.map(normalize).on(world.X)
    dense = phi.to_csr().toarray()
    distances = phi.distances()
    reported = path_distance(world.map(), world.X, normalize=normalize)
    for i, j in world.pairs:
        x, z = world.points[i], world.points[j]
        exact = Fraction(0)
        for tree in world.trees:
            sigma = tree.sigma_by_lemma(x, z)
            raw = sum((tree.a[v] for v in sigma), Fraction(0))
            separation = raw if len(sigma) > 1 else raw - tree.a[tree.leaf(x)]
            assert separation == tree.distance(x, z)
            exact += separation * world.factor(tree, normalize)
        assert_close(squared_norm(dense[i] - dense[j]), exact, 2 * world.n_terms)
        assert_close(distances[i, j], exact, world.n_terms)
        assert_close(reported[i, j], exact, world.n_terms)


@EXAMPLES
@given(worlds(max_trees=3, leaf_weight=WIDE), st.sampled_from(NORMALIZATIONS))
def test_app_separation_norm_bound(world, normalize):
    """With leaf weights counted in A_t, ||psi_t(x)||^2 is the node sum along the path, so <= A_t.

    A root without splits keeps the constant coordinate of definition tree-embedding, with square
    a_t(r_t) / 2.
    """

    def of_leaf(tree: HandTree, leaf: int) -> Fraction:
        along = sum((tree.a[v] for v in tree.up(leaf)), Fraction(0))
        return (along / 2 if leaf == 0 else along) * world.factor(tree, normalize)

    phi = world.map(normalize).on(world.X)
    squares = phi.row_norms(squared=True)
    per_leaf = [[of_leaf(tree, leaf) for leaf in tree.leaves] for tree in world.trees]
    supremum = max(sum(combination) for combination in itertools.product(*per_leaf))
    assert supremum <= 1
    assert_close(Fraction(phi.sup_norm()) ** 2, supremum, 2 * world.n_terms)
    for i, x in enumerate(world.points):
        exact = sum((of_leaf(tree, tree.leaf(x)) for tree in world.trees), Fraction(0))
        assert_close(squares[i], exact, world.n_terms)


def test_app_separation_distance_by_hand():
    """A stump with weight 1 at its root and 2 at each leaf: mass 5, distance 5, square norms 3."""
    tree = stump(0.0, 1.0)
    forest = World((tree,), ((0.0,),)).forest
    weights = path_weights(forest, np.array([1.0, 0.0, 0.0]), 2.0)
    assert weights.tree_mass.tolist() == [5.0]
    assert weights.edge.tolist() == [0.5, 2.5, 2.5]
    points = np.array([[0.0], [1.0], [-3.0]])
    phi = PathMap(forest, weights)
    expected = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    np.testing.assert_allclose(path_distance(phi, points), expected, rtol=1e-15, atol=0)
    squares = phi.on(points).row_norms(squared=True)
    np.testing.assert_allclose(squares, [0.6, 0.6, 0.6], rtol=1e-15)
