"""Section 4.2 of the paper, path distance and edge weights, statement by statement.

Every quantity is computed a second time on hand-made trees: points walk from the root, paths are
sets of nodes, and sums of weights are exact rational numbers.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

from geometry.hand_worlds import EXAMPLES, INTEGERS, worlds
from hypothesis import given


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
