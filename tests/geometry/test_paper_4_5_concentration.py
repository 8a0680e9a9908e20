"""Section 4.5 of the paper: tree-normalised Grams and their concentration.

Every quantity is computed a second time on hand-made trees: points walk from the root, paths are
sets of nodes, and sums of weights are exact rational numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest
from geometry.hand_worlds import (
    EXAMPLES,
    NORMALIZATIONS,
    HandTree,
    Point,
    World,
    assert_close,
    stump,
    worlds,
)
from hypothesis import given
from hypothesis import strategies as st

from kpp import half_forest_discrepancy, kernel, path_distance
from kpp.geometry import distance_concentration, entrywise_concentration


@EXAMPLES
@given(worlds())
def test_eq_gk_and_averaged_distance(world):
    """G_K averages the single-tree Grams H_t, and the averaged distance averages d_t / A_t.

    The paper takes A_t > 0. A tree without mass counts among the K trees with H_t = 0.
    """
    k = len(world.trees)
    gram = kernel(world.map(), world.X, normalize="tree")
    averaged = path_distance(world.map(), world.X, normalize="tree")
    single = [World((t,), world.points) for t in world.trees if t.mass]
    grams = [kernel(alone.map(), world.X) for alone in single]
    for i, j in world.pairs:
        x, z = world.points[i], world.points[j]
        exact = [alone.inner(x, z) for alone in single]
        for h, entry in zip(grams, exact, strict=True):
            assert 0 <= entry <= 1
            assert_close(h[i, j], entry, world.n_terms)
        assert_close(gram[i, j], sum(exact, Fraction(0)) / k, world.n_terms)
        shares = (t.distance(x, z) / t.mass for t in world.trees if t.mass)
        assert_close(averaged[i, j], sum(shares, Fraction(0)) / k, world.n_terms)


@EXAMPLES
@given(worlds(all_with_mass=True))
def test_eq_knode_as_weighted_average(world):
    """G_T is the average of the H_t with weights A_t / S_T."""
    gram = kernel(world.map(), world.X)
    weights = world.weights()
    shares = [Fraction(float(a)) / Fraction(weights.forest_mass) for a in weights.tree_mass]
    single = [kernel(World((t,), world.points).map(), world.X) for t in world.trees]
    for i, j in world.pairs:
        x, z = world.points[i], world.points[j]
        mixed = sum(s * Fraction(float(h[i, j])) for s, h in zip(shares, single, strict=True))
        exact = sum((t.mass / world.mass) * (t.inner(x, z) / t.mass) for t in world.trees)
        assert_close(mixed, exact, 2 * world.n_terms)
        assert_close(gram[i, j], exact, world.n_terms)


@EXAMPLES
@given(worlds(all_with_mass=True, weight=st.integers(0, 6).map(float)))
def test_rem_equal_masses_give_the_same_gram(world):
    """Scaled to a common mass, which integers allow without rounding, G_T = G_K."""
    common = math.lcm(*(int(t.mass) for t in world.trees))
    scaled = tuple(
        HandTree(
            t.left,
            t.right,
            t.feature,
            t.threshold,
            tuple(float(common // int(t.mass) * int(w)) for w in t.weight),
            t.terms,
        )
        for t in world.trees
    )
    equal = World(scaled, world.points)
    assert set(equal.weights().tree_mass.tolist()) == {float(common)}
    by_forest = kernel(equal.map(), equal.X, normalize="forest")
    by_tree = kernel(equal.map(), equal.X, normalize="tree")
    unscaled = kernel(world.map(), world.X, normalize="tree")
    for i, j in world.pairs:
        exact = world.inner(world.points[i], world.points[j], "tree")
        assert_close(by_forest[i, j], exact, world.n_terms)
        assert_close(by_tree[i, j], exact, world.n_terms)
        assert_close(unscaled[i, j], exact, world.n_terms)


def test_rem_unequal_masses_give_different_grams():
    """Stumps of masses 3 and 1 at different cuts: 3/4 and 1/4 against 1/2 and 1/2."""
    world = World((stump(0.0, 3.0), stump(1.0, 1.0)), ((-1.0,), (0.5,), (2.0,)))
    by_forest = kernel(world.map(), world.X, normalize="forest")
    by_tree = kernel(world.map(), world.X, normalize="tree")
    expected_forest = [[1, 5 / 8, 1 / 2], [5 / 8, 1, 7 / 8], [1 / 2, 7 / 8, 1]]
    expected_tree = [[1, 3 / 4, 1 / 2], [3 / 4, 1, 3 / 4], [1 / 2, 3 / 4, 1]]
    np.testing.assert_allclose(by_forest, expected_forest, rtol=1e-15, atol=0)
    np.testing.assert_allclose(by_tree, expected_tree, rtol=1e-15, atol=0)


@given(st.integers(1, 10**6), st.integers(2, 10**4), st.floats(1e-6, 0.5))
@EXAMPLES
def test_prop_entrywise_concentration_formula(n_trees, n_rows, delta):
    """The bounds solve `number of events * Hoeffding tail = delta` for the deviation.

    Entries in [-1, 1] have the tail 2 exp(-K e^2 / 2), over n^2 entries. Entries of H_t lie in
    [0, 1], which has the tail 2 exp(-2 K e^2), and a symmetric matrix has n (n + 1) / 2 of them;
    distances d_t / A_t lie in [0, 1] too, with n (n - 1) / 2 pairs. Distances by way of the Gram
    have four times the deviation of the entries.
    """
    paper = entrywise_concentration(n_trees, n_rows, delta, constant="paper")
    assert math.isclose(
        math.log(2 * n_rows**2) - n_trees * paper**2 / 2, math.log(delta), rel_tol=1e-11
    )
    sharp = entrywise_concentration(n_trees, n_rows, delta, constant="sharp")
    assert math.isclose(
        math.log(n_rows * (n_rows + 1)) - 2 * n_trees * sharp**2, math.log(delta), rel_tol=1e-11
    )
    assert sharp < paper
    distance = distance_concentration(n_trees, n_rows, delta, constant="paper")
    assert math.isclose(distance, 4 * paper, rel_tol=1e-15)
    distance = distance_concentration(n_trees, n_rows, delta, constant="sharp")
    assert math.isclose(
        math.log(n_rows * (n_rows - 1)) - 2 * n_trees * distance**2, math.log(delta), rel_tol=1e-11
    )


def bernoulli_tree(feature: int) -> HandTree:
    """H_ij = 1 if neither point has the feature, else 0: all weight sits below the root's left."""
    nan = math.nan
    return HandTree(
        left=(1, 3, -1, -1, -1),
        right=(2, 4, -1, -1, -1),
        feature=(feature, feature, -1, -1, -1),
        threshold=(0.5, -10.0, nan, nan, nan),
        weight=(0, 1, 0, 0, 0),
    )


CUBE = tuple(itertools.product((0.0, 1.0), repeat=3))


def lacking_both(x: Point, z: Point) -> set[int]:
    return {f for f in range(3) if x[f] == 0 and z[f] == 0}


def deviations(counts: Iterable[int]) -> np.ndarray:
    """G_K - G_infinity when feature f was drawn counts[f] times; G_infinity draws uniformly."""
    counts = list(counts)
    return np.array(
        [
            [sum(counts[f] / sum(counts) - 1 / 3 for f in lacking_both(x, z)) for z in CUBE]
            for x in CUBE
        ]
    )


@pytest.mark.parametrize("delta", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("n_trees", [8, 24])
def test_prop_entrywise_concentration_exact_probability(n_trees, delta):
    """The bounds fail with probability at most delta; summed over all multinomial outcomes.

    Points are the corners of the cube, a tree splits on a feature drawn uniformly, so the tree
    Grams are zero-one matrices with the known mean #{features both points lack} / 3. For one entry
    that is a fair coin, 2/5 of the sharp bound already fails more often than delta.
    """
    n_rows = len(CUBE)
    bounds = {
        c: entrywise_concentration(n_trees, n_rows, delta, constant=c) for c in ("sharp", "paper")
    }
    fails = {"sharp": 0.0, "paper": 0.0, "distance": 0.0}
    total = 0.0
    for first in range(n_trees + 1):
        for second in range(n_trees + 1 - first):
            counts = (first, second, n_trees - first - second)
            ways = math.factorial(n_trees) // math.prod(map(math.factorial, counts))
            probability = float(Fraction(ways, 3**n_trees))
            total += probability
            gap = deviations(counts)
            for constant, bound in bounds.items():
                fails[constant] += probability * (abs(gap).max() >= bound)
            diagonal = gap.diagonal()
            distance_gap = diagonal[:, None] + diagonal[None, :] - 2 * gap
            bound = distance_concentration(n_trees, n_rows, delta)
            fails["distance"] += probability * (abs(distance_gap).max() >= bound)
            assert abs(distance_gap).max() <= 4 * abs(gap).max() + 1e-15
    assert math.isclose(total, 1.0, rel_tol=1e-12)
    assert max(fails.values()) <= delta

    def two_sided_tail(deviation: float) -> float:
        far = [s for s in range(n_trees + 1) if abs(s / n_trees - 0.5) >= deviation]
        return sum(math.comb(n_trees, s) for s in far) / 2**n_trees

    single = entrywise_concentration(n_trees, 1, delta)
    assert two_sided_tail(single) <= delta < two_sided_tail(0.4 * single)
    wide = entrywise_concentration(n_trees, 1, delta, constant="paper")
    assert two_sided_tail(wide) <= delta


def test_prop_entrywise_concentration_simulated():
    """Forests of drawn trees: G_K is the drawn average, and deviates as often as it should.

    The exact probability that some entry deviates by 0.15 or more is summed over all outcomes;
    the simulated share lies within four standard deviations of it.
    """
    n_trees, n_forests, level, delta = 24, 150, 0.15, 0.05
    exact = 0.0
    for first in range(n_trees + 1):
        for second in range(n_trees + 1 - first):
            counts = (first, second, n_trees - first - second)
            ways = math.factorial(n_trees) // math.prod(map(math.factorial, counts))
            hit = abs(deviations(counts)).max() >= level
            exact += hit * float(Fraction(ways, 3**n_trees))
    assert 0.1 < exact < 0.5

    limit = np.array([[len(lacking_both(x, z)) / 3 for z in CUBE] for x in CUBE])
    distance_limit = limit.diagonal()[:, None] + limit.diagonal()[None, :] - 2 * limit
    rng = np.random.default_rng(0)
    beyond = {"level": 0, "sharp": 0, "paper": 0, "distance": 0}
    mean = np.zeros_like(limit)
    for _ in range(n_forests):
        features = rng.integers(0, 3, size=n_trees).tolist()
        world = World(tuple(bernoulli_tree(f) for f in features), CUBE)
        gram = kernel(world.map(), world.X, normalize="tree")
        counts = [features.count(f) for f in range(3)]
        np.testing.assert_allclose(gram - limit, deviations(counts), rtol=0, atol=1e-14)
        mean += gram / n_forests
        gap = abs(gram - limit).max()
        distances = path_distance(world.map(), world.X, normalize="tree")
        beyond["level"] += gap >= level
        for constant in ("sharp", "paper"):
            bound = entrywise_concentration(n_trees, len(CUBE), delta, constant=constant)
            beyond[constant] += gap >= bound
        distance_bound = distance_concentration(n_trees, len(CUBE), delta)
        beyond["distance"] += abs(distances - distance_limit).max() >= distance_bound
    noise = 4 * math.sqrt(exact * (1 - exact) / n_forests)
    assert abs(beyond["level"] / n_forests - exact) <= noise
    assert max(beyond["sharp"], beyond["paper"], beyond["distance"]) <= delta * n_forests
    # All drawn trees together are one forest of n_trees * n_forests independent trees.
    together = entrywise_concentration(n_trees * n_forests, len(CUBE), 1e-3)
    assert abs(mean - limit).max() <= together


def half_gap(world: World, n_trees: int) -> float:
    """||G^(1) - G^(2)||_op / sqrt 2 of the first trees, even against odd, from dense Grams."""
    first, second = range(0, n_trees, 2), range(1, n_trees, 2)

    def entry(x: Point, z: Point) -> Fraction:
        h = [t.inner(x, z) / t.mass if t.mass else Fraction(0) for t in world.trees[:n_trees]]
        return sum(h[s] for s in first) / len(first) - sum(h[s] for s in second) / len(second)

    gap = np.array([[float(value) for value in row] for row in world.table(entry)])
    return float(np.linalg.norm(gap, 2) / math.sqrt(2))


@EXAMPLES
@given(worlds(min_trees=2, max_trees=7, max_points=12), st.sampled_from(NORMALIZATIONS))
def test_rem_half_forest_discrepancy(world, normalize):
    """Even against odd trees, halves of unequal size for an odd number; trees normalised alone."""
    value = half_forest_discrepancy(world.map(normalize), world.X)
    expected = half_gap(world, len(world.trees))
    assert math.isclose(value, expected, rel_tol=1e-10, abs_tol=1e-14)


@EXAMPLES
@given(worlds(min_trees=2, max_trees=9, max_points=5))
def test_half_forest_discrepancy_curve(world):
    """The discrepancy of the first 2, 4, 8, ... trees and of all of them."""
    n_trees = len(world.trees)
    curve = half_forest_discrepancy(world.map(), world.X, curve=True)
    sizes = [k for k in (2, 4, 8) if k < n_trees] + [n_trees]
    assert curve.n_trees.tolist() == sizes
    assert len(curve.values) == len(sizes)
    for k, value in zip(sizes, curve.values, strict=True):
        assert math.isclose(value, half_gap(world, k), rel_tol=1e-10, abs_tol=1e-14)


def test_half_forest_discrepancy_by_hand():
    """Three stumps of mass 1, the middle one at another cut.

    Points on either side of the first cut, on one side of the second: G^(1) has 1/2 off the
    diagonal and G^(2) has 1, so the gap has eigenvalues 1/2 and -1/2 and Delta = 1 / sqrt 8.
    """
    world = World((stump(0.0, 1.0), stump(5.0, 1.0), stump(0.0, 2.0)), ((-1.0,), (1.0,)))
    value = half_forest_discrepancy(world.map(), world.X)
    assert math.isclose(value, 1 / math.sqrt(8), rel_tol=1e-12)
    same = World((stump(0.0, 1.0), stump(0.0, 8.0)), world.points)
    assert half_forest_discrepancy(same.map(), same.X) == pytest.approx(0, abs=1e-15)
    alone = World((stump(0.0, 1.0),), world.points)
    with pytest.raises(ValueError, match="two"):
        half_forest_discrepancy(alone.map(), alone.X)
