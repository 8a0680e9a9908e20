"""Forests by hand, and points: what the paper states, as sets of nodes and exact rational sums."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from kpp.forest import Forest, Tree
from kpp.geometry import PathMap, path_weights

EXAMPLES = settings(max_examples=100, deadline=None, database=None)
EPS = Fraction(1, 2**52)
NORMALIZATIONS = ("forest", "tree")

Point = tuple[float, ...]


# Trees by hand: sets of nodes and exact sums


@dataclass(frozen=True)
class HandTree:
    """A tree with node 0 as its root; `weight` holds a_t(v) of splits and of leaves.

    A node of `terms` is an oblique split: it compares the sum of weight times column.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    weight: tuple[float, ...]
    terms: dict[int, tuple[tuple[int, float], ...]] = field(default_factory=dict)

    def goes_left(self, v: int, x: Point) -> bool:
        if v not in self.terms:
            return x[self.feature[v]] <= self.threshold[v]
        total = 0.0
        for column, factor in self.terms[v]:
            total = total + factor * x[column]
        return total <= self.threshold[v]

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
            goes_left = self.goes_left(v, x)
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
            goes_left = self.goes_left(above, x)
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
            Tree(
                left=t.left,
                right=t.right,
                feature=t.feature,
                threshold=t.threshold,
                oblique={v: tuple(zip(*terms, strict=True)) for v, terms in t.terms.items()},
            )
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


# Random forests and points

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
    terms = {}
    # Every other tree of several columns has oblique splits.
    if n_features > 1 and draw(st.booleans()):
        factor = st.one_of(st.sampled_from([-2.0, -1.0, 1.0, 2.0]), st.floats(0.1, 3))
        for v in [v for v, s in enumerate(split) if s]:
            columns = draw(st.permutations(range(n_features)))
            n_terms = draw(st.integers(1, n_features))
            if n_terms > 1:
                terms[v] = tuple((j, draw(factor)) for j in columns[:n_terms])
    return HandTree(
        left=tuple(-1 if pair is None else place[pair[0]] for pair in below),
        right=tuple(-1 if pair is None else place[pair[1]] for pair in below),
        feature=tuple(draw(st.integers(0, n_features - 1)) if s else -1 for s in split),
        threshold=tuple(draw(threshold) if s else math.nan for s in split),
        weight=tuple(weights),
        terms=terms,
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
