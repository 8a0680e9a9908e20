"""Section 4 of the paper and its appendices A and B, statement by statement.

Every quantity is computed a second time on hand-made trees: points walk from the root, paths are
sets of nodes, and sums of weights are exact rational numbers.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpp import half_forest_discrepancy, kernel, path_distance
from kpp.forest import Forest, Tree
from kpp.geometry import (
    PathMap,
    distance_concentration,
    entrywise_concentration,
    leaf_indicator_weights,
    path_weights,
)

EXAMPLES = settings(max_examples=100, deadline=None, database=None)
EPS = Fraction(1, 2**52)
NORMALIZATIONS = ("forest", "tree")

Point = tuple[float, ...]


# --------------------------------------------------------------------------------------------------
# Trees by hand: sets of nodes and exact sums
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HandTree:
    """A tree with node 0 as its root; `weight` holds a_t(v) of splits and of leaves."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    weight: tuple[float, ...]

    @cached_property
    def nodes(self) -> range:
        return range(len(self.left))

    @cached_property
    def leaves(self) -> list[int]:
        return [v for v in self.nodes if self.left[v] == -1]

    @cached_property
    def a(self) -> list[Fraction]:
        return [Fraction(w) for w in self.weight]

    @cached_property
    def parent(self) -> dict[int, int]:
        above = {}
        for v in self.nodes:
            if self.left[v] != -1:
                above[self.left[v]] = above[self.right[v]] = v
        return above

    @cached_property
    def mass(self) -> Fraction:
        return sum(self.a, Fraction(0))

    def is_leaf(self, v: int) -> bool:
        return self.left[v] == -1

    def path(self, x: Point) -> list[int]:
        """pi_t(x), from the root down."""
        nodes = [0]
        while not self.is_leaf(nodes[-1]):
            v = nodes[-1]
            goes_left = x[self.feature[v]] <= self.threshold[v]
            nodes.append(self.left[v] if goes_left else self.right[v])
        return nodes

    def leaf(self, x: Point) -> int:
        return self.path(x)[-1]

    def up(self, v: int) -> list[int]:
        """The nodes from v up to the root."""
        nodes = [v]
        while nodes[-1] != 0:
            nodes.append(self.parent[nodes[-1]])
        return nodes

    def contains(self, v: int, x: Point) -> bool:
        """1{x in S_v}: x satisfies every condition on the way up from v."""
        for below, above in itertools.pairwise(self.up(v)):
            goes_left = x[self.feature[above]] <= self.threshold[above]
            if goes_left != (below == self.left[above]):
                return False
        return True

    def subtree(self, v: int) -> set[int]:
        if self.is_leaf(v):
            return {v}
        return {v} | self.subtree(self.left[v]) | self.subtree(self.right[v])

    def lca(self, u: int, v: int) -> int:
        above = set(self.up(v))
        return next(node for node in self.up(u) if node in above)

    def sigma_by_lemma(self, x: Point, z: Point) -> set[int]:
        return (set(self.path(x)) ^ set(self.path(z))) | {self.lca(self.leaf(x), self.leaf(z))}

    def walk(self, x: Point, z: Point) -> list[int]:
        """The simple path between the two leaves, found by breadth-first search."""
        start, goal = self.leaf(x), self.leaf(z)
        came_from = {start: start}
        queue = deque([start])
        while goal not in came_from:
            v = queue.popleft()
            around = [] if self.is_leaf(v) else [self.left[v], self.right[v]]
            if v in self.parent:
                around.append(self.parent[v])
            for u in around:
                if u not in came_from:
                    came_from[u] = v
                    queue.append(u)
        nodes = [goal]
        while nodes[-1] != start:
            nodes.append(came_from[nodes[-1]])
        return nodes

    def separating(self, x: Point, z: Point) -> set[int]:
        """P_t(x, z): exactly one of the two leaves lies in the subtree of the node."""
        return {
            v
            for v in self.nodes
            if v != 0 and (self.leaf(x) in self.subtree(v)) != (self.leaf(z) in self.subtree(v))
        }

    def edge(self, v: int) -> Fraction:
        """Squared coordinate of definition tree-embedding, of appendix B at weighted leaves."""
        if v == 0:
            return self.a[0] / 2
        above = self.a[self.parent[v]]
        return above / 2 + self.a[v] if self.is_leaf(v) else (above + self.a[v]) / 2

    def distance(self, x: Point, z: Point) -> Fraction:
        """d_t(x, z) for leaves without weight, d_t^sep(x, z) otherwise."""
        total = sum((self.a[v] for v in self.walk(x, z) if not self.is_leaf(v)), Fraction(0))
        if self.leaf(x) != self.leaf(z):
            total += self.a[self.leaf(x)] + self.a[self.leaf(z)]
        return total

    def inner(self, x: Point, z: Point) -> Fraction:
        """<phi_t(x), phi_t(z)>, the bracket of equation knode-offdiag."""
        shared = (v for v in self.nodes if v != 0 and self.contains(v, x) and self.contains(v, z))
        return self.a[0] / 2 + sum((self.edge(v) for v in shared), Fraction(0))


@dataclass(frozen=True)
class World:
    """A forest and points."""

    trees: tuple[HandTree, ...]
    points: tuple[Point, ...]

    @cached_property
    def X(self) -> np.ndarray:
        return np.array(self.points)

    @cached_property
    def mass(self) -> Fraction:
        return sum((tree.mass for tree in self.trees), Fraction(0))

    @cached_property
    def forest(self) -> Forest:
        trees = [
            Tree(left=t.left, right=t.right, feature=t.feature, threshold=t.threshold)
            for t in self.trees
        ]
        return Forest.from_trees(trees, n_features=self.X.shape[1])

    @cached_property
    def node_of(self) -> list[tuple[int, int]]:
        """Tree and hand-made node of every node of the forest."""
        return [
            (t, int(self.forest.source_leaf[v]))
            for t in range(self.forest.n_trees)
            for v in range(self.forest.tree_offsets[t], self.forest.tree_offsets[t + 1])
        ]

    def weights(self):
        """The weights of the forest; a leaf weight is passed on where some leaf has one."""
        is_leaf = np.array([self.trees[t].is_leaf(v) for t, v in self.node_of])
        value = np.array([self.trees[t].weight[v] for t, v in self.node_of])
        at_leaves = np.where(is_leaf, value, 0.0)
        leaf_weight = at_leaves if at_leaves.any() else None
        return path_weights(self.forest, np.where(is_leaf, 0.0, value), leaf_weight)

    def map(self, normalize: str = "forest") -> PathMap:
        return PathMap(self.forest, self.weights(), normalize=normalize)

    def factor(self, tree: HandTree, normalize: str) -> Fraction:
        """What the Gram and the distance of a tree are multiplied by; 0 without mass."""
        if normalize == "forest":
            return 1 / self.mass
        return 1 / (len(self.trees) * tree.mass) if tree.mass else Fraction(0)

    def distance(self, x: Point, z: Point, normalize: str = "forest") -> Fraction:
        return sum((t.distance(x, z) * self.factor(t, normalize) for t in self.trees), Fraction(0))

    def inner(self, x: Point, z: Point, normalize: str = "forest") -> Fraction:
        return sum((t.inner(x, z) * self.factor(t, normalize) for t in self.trees), Fraction(0))

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        return list(itertools.product(range(len(self.points)), repeat=2))

    def table(self, entry: Callable[[Point, Point], Fraction]) -> list[list[Fraction]]:
        return [[entry(x, z) for z in self.points] for x in self.points]

    @property
    def n_terms(self) -> int:
        """Number of terms of any sum over nodes."""
        return self.forest.n_nodes


def assert_close(
    actual: float, exact: Fraction, n_terms: int, scale: Fraction | None = None
) -> None:
    """Equality up to the rounding of `n_terms` sums, relative to the sum of absolute terms."""
    bound = EPS * (n_terms + 16) * (abs(exact) if scale is None else scale)
    error = abs(Fraction(float(actual)) - exact)
    assert error <= bound, f"{float(actual)!r} is not {float(exact)!r} (error {float(error):.3g})"


def squared_norm(row: Iterable[float]) -> Fraction:
    return sum((Fraction(float(value)) ** 2 for value in row), Fraction(0))


# --------------------------------------------------------------------------------------------------
# Random forests and points
# --------------------------------------------------------------------------------------------------

ZERO = st.just(0.0)
INTEGERS = st.one_of(ZERO, st.integers(0, 2**20).map(float))
SCALED = st.builds(lambda m, e: m * 10.0**e, st.floats(1, 10), st.integers(-20, 20))
WIDE = st.one_of(ZERO, ZERO, st.integers(1, 3).map(float), SCALED)


@st.composite
def hand_trees(draw, n_features, *, weight=WIDE, leaf_weight=ZERO, with_mass=False):
    """Single roots, stumps, chains and bushes, their nodes in any order."""
    n_splits = draw(st.integers(1 if with_mass else 0, 6))
    is_chain = draw(st.booleans())
    children: list[tuple[int, int] | None] = [None]
    leaves = [0]
    for _ in range(n_splits):
        v = leaves.pop(len(leaves) - 1 if is_chain else draw(st.integers(0, len(leaves) - 1)))
        new = [len(children), len(children) + 1]
        children[v] = (new[0], new[1]) if draw(st.booleans()) else (new[1], new[0])
        children += [None, None]
        leaves += new
    order = [0, *draw(st.permutations(range(1, len(children))))]
    place = {v: position for position, v in enumerate(order)}
    below = [children[v] for v in order]
    split = [pair is not None for pair in below]
    threshold = st.one_of(st.integers(-2, 2).map(float), st.floats(-3, 3))
    weights = [draw(weight if is_split else leaf_weight) for is_split in split]
    if with_mass and not any(weights):
        weights[draw(st.sampled_from([v for v in range(len(split)) if split[v]]))] = 1.0
    return HandTree(
        left=tuple(-1 if pair is None else place[pair[0]] for pair in below),
        right=tuple(-1 if pair is None else place[pair[1]] for pair in below),
        feature=tuple(draw(st.integers(0, n_features - 1)) if s else -1 for s in split),
        threshold=tuple(draw(threshold) if s else math.nan for s in split),
        weight=tuple(weights),
    )


@st.composite
def worlds(draw, *, min_trees=1, max_trees=5, max_points=6, all_with_mass=False, **weights):
    """Forests with S_T > 0; points on thresholds, right beside them and anywhere."""
    n_features = draw(st.integers(1, 3))
    n_trees = draw(st.integers(min_trees, max_trees))
    heavy = draw(st.integers(0, n_trees - 1))
    trees = tuple(
        draw(hand_trees(n_features, with_mass=all_with_mass or t == heavy, **weights))
        for t in range(n_trees)
    )
    cuts = sorted({c for t in trees for c in t.threshold if not math.isnan(c)})
    on_cut = st.sampled_from(cuts)
    beside = on_cut.flatmap(
        lambda c: st.sampled_from([math.nextafter(c, -math.inf), math.nextafter(c, math.inf)])
    )
    value = st.one_of(on_cut, beside, st.floats(-4, 4))
    n_points = draw(st.integers(1, max_points))
    points = tuple(tuple(draw(value) for _ in range(n_features)) for _ in range(n_points))
    return World(trees, points)


def stump(cut: float, weight: float, feature: int = 0) -> HandTree:
    nan = math.nan
    return HandTree((1, -1, -1), (2, -1, -1), (feature, -1, -1), (cut, nan, nan), (weight, 0, 0))


# --------------------------------------------------------------------------------------------------
# 4.1 Trees and paths
# --------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------
# 4.2 Path distance and edge weights
# --------------------------------------------------------------------------------------------------


@EXAMPLES
@given(worlds(weight=INTEGERS))
def test_lem_node_path_edge_sum(world):
    """Node sums over sigma_t are edge sums over P_t; integers, so there is no rounding at all."""
    weights = world.weights()
    edge = {node: Fraction(float(weights.edge[v])) for v, node in enumerate(world.node_of)}
    assert [Fraction(float(a)) for a in weights.tree_mass] == [t.mass for t in world.trees]
    assert Fraction(weights.forest_mass) == world.mass
    for t, tree in enumerate(world.trees):
        for i, j in world.pairs:
            x, z = world.points[i], world.points[j]
            steps = itertools.pairwise(tree.walk(x, z))
            on_walk = {u if tree.parent.get(u) == v else v for u, v in steps}
            assert on_walk == tree.separating(x, z)
            node_sum = sum((tree.a[v] for v in tree.sigma_by_lemma(x, z)), Fraction(0))
            assert sum((edge[t, v] for v in on_walk), Fraction(0)) == node_sum
            assert node_sum == tree.distance(x, z)


# --------------------------------------------------------------------------------------------------
# 4.3 Embedding and isometry
# --------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------
# 4.4 Normalisation, Gram, reconstruction; appendix A
# --------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------
# 4.5 Tree-normalised Grams and concentration
# --------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------
# Appendix B: leaves with weight
# --------------------------------------------------------------------------------------------------


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
