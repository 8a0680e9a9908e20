"""Section 4.4 and appendix A of the paper: normalisation, Gram and reconstruction.

Every quantity is computed a second time on hand-made trees: points walk from the root, paths are
sets of nodes, and sums of weights are exact rational numbers.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from geometry.hand_worlds import (
    EPS,
    EXAMPLES,
    NORMALIZATIONS,
    WIDE,
    ZERO,
    HandTree,
    World,
    assert_close,
    stump,
    worlds,
)
from hypothesis import given
from hypothesis import strategies as st

from kpp import kernel, path_distance
from kpp.geometry import PathMap, leaf_indicator_weights


@EXAMPLES
@given(worlds(max_trees=3), st.sampled_from(NORMALIZATIONS))
def test_prop_norm_bound(world, normalize):
    """Row norms telescope to node sums along paths; their supremum over leaf combinations is <= 1.

    The supremum is taken over every combination of one leaf from each tree, and once more as the
    sum of each tree's largest leaf.
    """

    def of_leaf(tree: HandTree, leaf: int) -> Fraction:
        return sum((tree.a[v] for v in tree.up(leaf)), Fraction(0)) * world.factor(tree, normalize)

    phi = world.map(normalize).on(world.X)
    squares, norms = phi.row_norms(squared=True), phi.row_norms()
    per_leaf = [[of_leaf(tree, leaf) for leaf in tree.leaves] for tree in world.trees]
    supremum = max(sum(combination) for combination in itertools.product(*per_leaf))
    assert supremum == sum(max(values) for values in per_leaf)
    assert supremum <= 1
    sup_norm = phi.sup_norm()
    assert_close(Fraction(sup_norm) ** 2, supremum, 2 * world.n_terms)
    assert_close(Fraction(world.map(normalize).sup_norm()) ** 2, supremum, 2 * world.n_terms)
    for i, x in enumerate(world.points):
        exact = sum((of_leaf(tree, tree.leaf(x)) for tree in world.trees), Fraction(0))
        assert_close(squares[i], exact, world.n_terms)
        assert_close(Fraction(float(norms[i])) ** 2, exact, world.n_terms)
        assert norms[i] <= sup_norm * (1 + 4 * world.n_terms * float(EPS))


@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_prop_norm_bound_is_attained(normalize):
    """A point whose paths carry all of the mass has norm 1; one that leaves a chain early less."""
    nan = math.nan
    chain = HandTree(
        (1, -1, 3, -1, -1),
        (2, -1, 4, -1, -1),
        (0, -1, 0, -1, -1),
        (0, nan, 1, nan, nan),
        (1, 0, 3, 0, 0),
    )
    world = World((chain, stump(0.0, 4.0)), ((2.0,), (-1.0,)))
    phi = world.map(normalize).on(world.X)
    assert phi.row_norms(squared=True).tolist() == [1.0, 0.625]
    assert phi.sup_norm() == 1.0


@EXAMPLES
@given(worlds(), st.sampled_from(NORMALIZATIONS))
def test_eq_knode_offdiag(world, normalize):
    """Gram entries are weights of shared nodes, as kernel, as coordinates and as a product."""
    phi = world.map(normalize).on(world.X)
    dense = phi.to_csr().toarray()
    gram = phi.gram()
    reported = kernel(world.map(), world.X, normalize=normalize)
    across = kernel(world.map(), world.X, world.X[::-1], normalize=normalize)
    squares = phi.row_norms(squared=True)
    exact = world.table(lambda x, z: world.inner(x, z, normalize))
    n = len(world.points)
    for i, j in world.pairs:
        product = sum(
            Fraction(float(b)) * Fraction(float(c)) for b, c in zip(dense[i], dense[j], strict=True)
        )
        assert 0 <= exact[i][j] <= 1
        assert_close(product, exact[i][j], 2 * world.n_terms)
        assert_close(gram[i, j], exact[i][j], world.n_terms)
        assert_close(reported[i, j], exact[i][j], world.n_terms)
        assert_close(across[i, n - 1 - j], exact[i][j], world.n_terms)
    r = np.resize([1.0, -4.0, 0.5], n)
    applied = phi.gram_matvec(r)
    for i in range(n):
        assert_close(squares[i], exact[i][i], world.n_terms)
        terms = [exact[i][j] * Fraction(float(r[j])) for j in range(n)]
        assert_close(applied[i], sum(terms), world.n_terms + n, sum(map(abs, terms)))


@EXAMPLES
@given(worlds(max_points=8), st.sampled_from(NORMALIZATIONS), st.data())
def test_cor_gram_psd(world, normalize, data):
    """r'Gr = sum_v w_v (sum of r over S_v)^2 >= 0, for vectors of both signs and eigenvectors."""
    n = len(world.points)
    gram = kernel(world.map(), world.X, normalize=normalize)
    assert (gram == gram.T).all()
    values, vectors = np.linalg.eigh(gram)
    assert values[0] >= -n * float(EPS) * np.trace(gram)
    drawn = data.draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n))
    for r in ([Fraction(c) for c in drawn], [Fraction(float(c)) for c in vectors[:, 0]]):
        form = sum(r[i] * Fraction(float(gram[i, j])) * r[j] for i, j in world.pairs)
        size = sum(abs(r[i] * r[j]) * Fraction(float(gram[i, j])) for i, j in world.pairs)
        squares = Fraction(0)
        for tree in world.trees:
            for v in tree.nodes:
                inside = sum(
                    (c for c, x in zip(r, world.points, strict=True) if tree.contains(v, x)),
                    Fraction(0),
                )
                squares += tree.edge(v) * world.factor(tree, normalize) * inside**2
        assert squares >= 0
        assert_close(form, squares, world.n_terms, size)


@EXAMPLES
@given(worlds(weight=st.one_of(ZERO, ZERO, ZERO, WIDE)))
def test_cor_gram_sign_rule(world):
    """An entry is positive if and only if some common node has positive NODE weight.

    The summands of equation knode-offdiag carry edge weights, and an edge weight is positive as
    soon as the node or its parent has positive weight. Read off the summands, the rule is: some
    common root has a_t(r_t) > 0, or some common non-root node has a_t(par(v)) + a_t(v) > 0. The
    set of common nodes contains the parent of each of its nodes, so the two rules are the same
    and the corollary may speak of node weights, although a summand of a node without weight can
    be positive. The last part of the test holds on to that case.
    """
    gram = kernel(world.map(), world.X)
    averaged = kernel(world.map(), world.X, normalize="tree")
    for i, j in world.pairs:
        by_node, by_edge = False, False
        for tree in world.trees:
            common = set(tree.path(world.points[i])) & set(tree.path(world.points[j]))
            by_node |= any(tree.weight[v] > 0 for v in common)
            by_edge |= any(
                tree.weight[v] > 0 or tree.weight[tree.parent.get(v, v)] > 0 for v in common
            )
        assert by_node == by_edge
        assert (gram[i, j] > 0) == by_node
        assert (averaged[i, j] > 0) == by_node
        assert (gram[i, j] == 0) == (not by_node)


def test_cor_gram_sign_rule_by_example():
    """Root 0 of weight 0, its right child of weight 1: the root's coordinate is 0.

    Points on the left meet only nodes of weight 0 and have zero rows; points on the right share
    the child, and its weightless leaf has a positive coordinate because its parent has weight.
    """
    nan = math.nan
    tree = HandTree(
        (1, -1, 3, -1, -1),
        (2, -1, 4, -1, -1),
        (0, -1, 0, -1, -1),
        (0, nan, 1, nan, nan),
        (0, 0, 1, 0, 0),
    )
    world = World((tree,), ((-1.0,), (-2.0,), (1.0,), (0.5,), (2.0,)))
    half = 0.5
    expected = np.zeros((5, 5))
    expected[2:, 2:] = [[1, 1, half], [1, 1, half], [half, half, 1]]
    np.testing.assert_allclose(kernel(world.map(), world.X), expected, rtol=1e-15, atol=0)


@EXAMPLES
@given(worlds(), st.sampled_from(NORMALIZATIONS))
def test_eq_distance_from_knode(world, normalize):
    """G_ii + G_jj - 2 G_ij is the path distance: equations distance-from-knode and -from-gk."""
    gram = kernel(world.map(), world.X, normalize=normalize)
    direct = path_distance(world.map(), world.X, normalize=normalize)
    exact = [[Fraction(float(entry)) for entry in row] for row in gram]
    for i, j in world.pairs:
        delta = world.distance(world.points[i], world.points[j], normalize)
        rebuilt = exact[i][i] + exact[j][j] - 2 * exact[i][j]
        size = exact[i][i] + exact[j][j] + 2 * exact[i][j]
        assert_close(rebuilt, delta, world.n_terms, size)
        assert_close(direct[i, j], delta, world.n_terms)
        assert 0 <= delta <= 1


def test_rem_path_overlap_distance():
    """Leaf co-membership does not tell a split at the top from one just above the leaves."""
    nan = math.nan
    chain = HandTree(
        (1, -1, 3, -1, -1),
        (2, -1, 4, -1, -1),
        (0, -1, 0, -1, -1),
        (0, nan, 1, nan, nan),
        (5, 0, 3, 0, 0),
    )
    world = World((chain,), ((-1.0,), (0.5,), (2.0,)))
    leaf_only = PathMap(world.forest, leaf_indicator_weights(world.forest))
    assert kernel(leaf_only, world.X).tolist() == np.eye(3).tolist()
    distances = path_distance(world.map(), world.X)
    expected = [[0, 1, 1], [1, 0, 3 / 8], [1, 3 / 8, 0]]
    np.testing.assert_allclose(distances, expected, rtol=1e-15, atol=0)


@EXAMPLES
@given(worlds())
def test_leaf_co_membership_is_the_share_of_common_leaves(world):
    """Binary in every tree: the share of trees in which two points reach the same leaf."""
    gram = kernel(PathMap(world.forest, leaf_indicator_weights(world.forest)), world.X)
    for i, j in world.pairs:
        same = sum(t.leaf(world.points[i]) == t.leaf(world.points[j]) for t in world.trees)
        assert_close(gram[i, j], Fraction(same, len(world.trees)), len(world.trees))
