"""Section 4.3 of the paper, embedding and isometry, statement by statement.

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
    squared_norm,
    worlds,
)
from hypothesis import given
from hypothesis import strategies as st

from kpp import path_distance


@EXAMPLES
@given(worlds(leaf_weight=st.one_of(ZERO, WIDE)), st.sampled_from(NORMALIZATIONS))
def test_def_tree_embedding(world, normalize):
    """Coordinates, node by node; and the products with the embedding, against those coordinates."""
    weights = world.weights()
    for v, (t, node) in enumerate(world.node_of):
        assert Fraction(float(weights.node[v])) == world.trees[t].a[node]
        assert_close(weights.edge[v], world.trees[t].edge(node), 1)
    for t, tree in enumerate(world.trees):
        assert_close(weights.tree_mass[t], tree.mass, world.n_terms)
    assert_close(weights.forest_mass, world.mass, world.n_terms)

    phi = world.map(normalize).on(world.X)
    dense = phi.to_csr().toarray()
    assert dense.shape == phi.shape == (len(world.points), world.forest.n_nodes)
    assert (dense >= 0).all()
    for i, x in enumerate(world.points):
        for v, (t, node) in enumerate(world.node_of):
            tree = world.trees[t]
            square = tree.edge(node) * world.factor(tree, normalize) * tree.contains(node, x)
            assert_close(Fraction(float(dense[i, v])) ** 2, square, world.n_terms)

    # Signed vectors, so that the sums have terms of both signs.
    w = np.resize([1.0, -3.0, 0.25, 7.0, -2.0], world.forest.n_nodes)
    r = np.resize([2.0, -1.0, 0.5], len(world.points))
    forward, backward = phi @ w, phi.T @ r
    for i in range(len(world.points)):
        terms = [Fraction(float(c)) * Fraction(float(b)) for c, b in zip(dense[i], w, strict=True)]
        assert_close(forward[i], sum(terms), world.n_terms, sum(map(abs, terms)))
    for v in range(world.forest.n_nodes):
        column = dense[:, v]
        terms = [Fraction(float(c)) * Fraction(float(b)) for c, b in zip(column, r, strict=True)]
        assert_close(backward[v], sum(terms), len(r), sum(map(abs, terms)))


@EXAMPLES
@given(worlds(max_trees=1))
def test_thm_kpp_isometry_tree(world):
    """||phi_t(x) - phi_t(z)||^2 = d_t(x, z), the coordinates multiplied by the root of A_t."""
    (tree,) = world.trees
    mass = Fraction(float(world.weights().tree_mass[0]))
    for normalize in NORMALIZATIONS:
        dense = world.map(normalize).on(world.X).to_csr().toarray()
        for i, j in world.pairs:
            x, z = world.points[i], world.points[j]
            node_sum = sum((tree.a[v] for v in tree.walk(x, z)), Fraction(0))
            assert_close(mass * squared_norm(dense[i] - dense[j]), node_sum, 2 * world.n_terms)


@EXAMPLES
@given(worlds(), worlds(max_trees=1))
def test_cor_kpp_isometry_forest(world, elsewhere):
    """Differences of rows, path distances and sums over paths agree; between two samples too."""
    phi = world.map().on(world.X)
    dense = phi.to_csr().toarray()
    distances = phi.distances()
    reported = path_distance(world.map(), world.X)
    for i, j in world.pairs:
        sums = (
            sum((t.a[v] for v in t.sigma_by_lemma(world.points[i], world.points[j])), Fraction(0))
            for t in world.trees
        )
        delta = sum(sums, Fraction(0)) / world.mass
        assert_close(squared_norm(dense[i] - dense[j]), delta, 2 * world.n_terms)
        assert_close(distances[i, j], delta, world.n_terms)
        assert_close(reported[i, j], delta, world.n_terms)

    others = [tuple(np.resize(z, world.X.shape[1]).tolist()) for z in elsewhere.points]
    for normalize in NORMALIZATIONS:
        across = path_distance(world.map(), world.X, np.array(others), normalize=normalize)
        assert across.shape == (len(world.points), len(others))
        for (i, x), (j, z) in itertools.product(enumerate(world.points), enumerate(others)):
            assert_close(across[i, j], world.distance(x, z, normalize), world.n_terms)


@pytest.mark.parametrize("heavy", [1.0, 1e3, 1e8, 1e16, 1e40])
@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_isometry_below_a_heavy_split(heavy, normalize):
    """Points that part at a light split: the heavier splits above it leave no rounding behind."""
    nan = math.nan
    chain = HandTree(
        (1, -1, 3, -1, -1),
        (2, -1, 4, -1, -1),
        (0, -1, 0, -1, -1),
        (0, nan, 1, nan, nan),
        (heavy, 0, 1, 0, 0),
    )
    world = World((chain,), ((0.5,), (2.0,)))
    exact = 1 / (Fraction(heavy) + 1)
    dense = world.map(normalize).on(world.X).to_csr().toarray()
    assert_close(squared_norm(dense[0] - dense[1]), exact, 2 * world.n_terms)
    distances = path_distance(world.map(), world.X, normalize=normalize)
    assert_close(distances[0, 1], exact, world.n_terms)
    assert_close(distances[1, 0], exact, world.n_terms)


@EXAMPLES
@given(worlds(leaf_weight=st.one_of(ZERO, WIDE)), st.data())
def test_same_leaf_pairs_are_at_distance_exactly_0(world, data):
    """Points that share every leaf are at distance 0, without rounding, in every normalisation."""
    copies = data.draw(st.lists(st.sampled_from(world.points), min_size=1, max_size=4))
    world = World(world.trees, world.points + tuple(copies))
    leaves = [tuple(t.leaf(x) for t in world.trees) for x in world.points]
    phi = world.map().on(world.X)
    dense = phi.to_csr().toarray()
    tables = [phi.distances(), world.map("tree").on(world.X).distances()]
    tables += [path_distance(world.map(), world.X, normalize=n) for n in NORMALIZATIONS]
    tables += [path_distance(world.map(), world.X, world.X, normalize=n) for n in NORMALIZATIONS]
    for i, j in world.pairs:
        if leaves[i] == leaves[j]:
            assert [table[i, j] for table in tables] == [0.0] * len(tables)
            assert (dense[i] == dense[j]).all()


@EXAMPLES
@given(worlds(leaf_weight=st.one_of(ZERO, WIDE)), st.sampled_from(NORMALIZATIONS))
def test_triangle_inequality(world, normalize):
    r"""Of the path distance itself, and so of its root, which is a Euclidean distance.

    An edge between the leaves of x and z lies between x and y, or between y and z. Exact numbers
    obey this; the reported ones up to the rounding of their own sums. With it symmetry, no
    distance to itself, and none below 0: a pseudo-metric.
    """
    exact = world.table(lambda x, z: world.distance(x, z, normalize))
    reported = path_distance(world.map(normalize), world.X)
    allowed = 1 + EPS * (world.n_terms + 16)
    assert (reported >= 0).all()
    assert np.array_equal(reported, reported.T)
    assert not reported.diagonal().any()
    n_points = range(len(world.points))
    for i, j, k in itertools.product(n_points, repeat=3):
        assert exact[i][k] <= exact[i][j] + exact[j][k]
        assert reported[i, k] <= (reported[i, j] + reported[j, k]) * float(allowed**2)
        roots = np.sqrt([reported[i, k], reported[i, j], reported[j, k]])
        assert roots[0] <= (roots[1] + roots[2]) * float(allowed**2)
