"""The rounding that certificates give away, against exact rational arithmetic.

Each case is one in which the computed number is too large, and the term that is taken off it is
what keeps the certificate true.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from zoo import random_forest, random_rows

from kpp import KPPClassifier
from kpp.certificates import certify, certify_raw, leafwise
from kpp.certificates.boxes import BoxFlip, Splits, least_values
from kpp.certificates.flips import Flip
from kpp.certificates.lipschitz import safe_lipschitz_radius
from kpp.certificates.node_tables import Contrast, NodeTables
from kpp.forest import Forest, Tree

UNIT = 2.0**-53


def exact_distance(forest, squared_scale, a, b):
    """Sum of the squared coordinates that two leaves do not share."""

    def path(v):
        while v >= 0:
            yield v
            v = int(forest.parent[v])

    return sum(Fraction(float(squared_scale[v])) for v in set(path(a)) ^ set(path(b)))


def flip_to(value, offset, norm=1.0, tau=0.0):
    """A flip of row 0, whose margin is offset + the sum of leaf values."""
    return Flip(
        rows=np.array([0]),
        contrast=Contrast(0, None, 1),
        value=value,
        offset=np.array([offset]),
        margin=np.array([1.0]),
        norm=norm,
        weight_error=0.0,
        tau=tau,
        to=0,
    )


def test_the_dual_bound_is_lowered_below_the_exact_distance(make_model):
    # Only one leaf of one tree brings the margin to 0, and to 0 exactly: D(mu) is the distance to
    # it for every large mu, with nothing to spare but its rounding.
    above = 0
    for seed in range(40):
        model = make_model(seed, n_trees=3, most_splits=25)
        tables = NodeTables.of(model.additive_)
        forest, squared = tables.forest, model.additive_.blocks[0].squared_scale
        leaf_ids = np.ascontiguousarray(model.map_.on(random_rows(seed, 1)).leaf_ids)
        own = int(leaf_ids[0, 0])
        leaves = np.flatnonzero(forest.is_leaf[: forest.tree_offsets[1]])
        for other in leaves[leaves != own].tolist():
            value = np.zeros(forest.n_nodes)
            value[other] = -1.0
            exact = exact_distance(forest, squared, own, other)
            found = leafwise.solve(tables, flip_to(value, 1.0), leaf_ids)
            assert Fraction(float(found.radius[0])) <= exact
            assert found.radius[0] == pytest.approx(float(exact), rel=1e-12, abs=1e-13)
            bound, _ = leafwise.dual_bound(
                tables, value, np.array([1.0]), leaf_ids, np.array([0]), 1e3
            )
            above += Fraction(float(bound[0])) > exact
    assert above > 10  # rounding does make it too large


@pytest.mark.parametrize("size", [0.01, 0.5, 3.0])
def test_leaves_that_flip_are_looked_for_where_there_are_some(make_model, size):
    # Every leaf lowers the margin by 0 or by half of it; within one tree nothing flips.
    model = make_model(0, n_trees=1)
    tables = NodeTables.of(model.additive_)
    leaf_ids = np.ascontiguousarray(model.map_.on(random_rows(0, 1)).leaf_ids)
    value = np.where(np.arange(tables.forest.n_nodes) == leaf_ids[0, 0], 0.0, -size / 2)
    found = leafwise.solve(tables, flip_to(value, size), leaf_ids)
    assert found.never.all()
    assert found.radius[0] == found.flip_mu[0] == np.inf
    # Every other leaf flips: some at a finite mu, above 0.
    found = leafwise.solve(tables, flip_to(3 * value, size, norm=100.0), leaf_ids)
    assert not found.never.any()
    assert 0 < found.radius[0] < np.inf
    assert 0 < found.flip_mu[0] < np.inf
    # The row's own leaf has lost already, by less than or more than 1.
    found = leafwise.solve(tables, flip_to(value, -size), leaf_ids)
    assert (found.radius[0], found.flip_mu[0]) == (0, 0)


def test_leaf_values_that_are_further_apart_than_the_coefficients_say(make_linear):
    # A chain of 65 nodes below a node of score V: each adds 1.2 u V to it, which rounds to 2 u V.
    # So the computed score rises by 130 u V where |w| times the distance is 78 u V, and the paper's
    # radius of the computed margin would hold the leaf beside the chain, which has another class.
    length = 64
    n_nodes = 2 * length + 5
    left, right = np.full(n_nodes, -1), np.full(n_nodes, -1)
    feature, threshold = np.zeros(n_nodes, dtype=int), np.zeros(n_nodes)
    # Column 0 leads from the root to the top of the chain, column 1 down the chain.
    left[0], right[0] = 1, 2
    for step in range(length + 1):
        v = 1 if step == 0 else 2 * step + 1
        left[v], right[v] = 2 * step + 3, 2 * step + 4
        feature[v], threshold[v] = 1, -float(step)
    tree = Tree(left=left, right=right, feature=feature, threshold=threshold)
    forest = Forest.from_trees([tree], n_features=2)
    assert forest.n_nodes == n_nodes
    node_weight = np.where(forest.is_leaf, 0.0, 2.0**-120)
    node_weight[0] = 1.0
    X = np.array([[-1.0, -1e3], [-1.0, 0.5], [1.0, 0.0]])  # the chain's end, beside it, elsewhere
    model = KPPClassifier(forest, regime="fixed", node_weight=node_weight, alpha=1.0)
    model.fit(np.repeat(X, 4, axis=0), np.arange(12) % 2)
    end, beside, _ = model.map_.on(X).leaf_ids[0].tolist()
    assert end != beside
    scale, w = model.map_.scale, np.zeros(n_nodes)
    w[0] = 1.0 / scale[0]
    chain, v = [], end
    while forest.parent[forest.parent[v]] >= 0:  # down from below the top
        chain.append(v)
        v = int(forest.parent[v])
    assert len(chain) == length + 1
    w[chain] = 1.2 * UNIT / scale[chain]
    make_linear(model, w, [0.0])
    make_linear(model, w, [-model.decision_function(X)[1]])
    assert model.predict(X).tolist()[:2] == [1, 0]
    exact = exact_distance(forest, model.additive_.blocks[0].squared_scale, end, beside)
    found = certify(model, X[:1])
    assert Fraction(float(found.lipschitz[0])) <= exact
    assert Fraction(float(found.radius[0])) <= exact
    # Not by chance: the computed margin alone is too large.
    paper = model.decision_function(X)[0] / np.linalg.norm(w)
    assert Fraction(float(paper)) ** 2 > 2 * exact


def stumps(n_trees):
    tree = Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0, 0, 0], threshold=[0, 0, 0])
    return Forest.from_trees([tree] * n_trees, n_features=1)


def test_a_sum_over_a_box_that_rounds_up_certifies_nothing():
    # 1 + a + a - 2a is 1, and as floats 1 + 2u: with an offset of -1 the margin is 0.
    a = UNIT * (1 + 2.0**-20)
    parts = [1.0, a, a, -2 * a]
    assert sum(map(Fraction, parts)) == 1
    assert np.sum(parts) > 1
    forest = stumps(4)
    value = np.zeros(forest.n_nodes)
    for root, part in zip(forest.roots, parts, strict=True):
        value[root + 1 : root + 3] = part
    splits = Splits(forest, np.zeros(1, dtype=bool))
    x, low, high = np.array([1.0]), np.array([-1.0]), np.array([2.0])
    for offset, holds in ((-1.0, False), (-1 + 1e-14, True), (-1 - 1e-14, False)):
        box = BoxFlip(splits, flip_to(value, offset), least_values(forest, value), 0.0)
        assert box.certifies(0, x, low, high) == holds
        assert (box.search(0, x, low, high, 1000).verdict == 1) == holds
    # A margin of 0 is no counterexample either: below it by more than rounding is.
    box = BoxFlip(splits, flip_to(value, -1.0), least_values(forest, value), 0.0)
    assert box.flips_below[0] < 1
    # Four trees: eight roundings, twice, of all sizes and the offset; and the model's own tau.
    sigma = float(2 * Fraction(8, 2**53 - 8) * sum(map(Fraction, [1.0, a, a, 2 * a, 1.0])))
    assert box.slack[0] == pytest.approx(sigma, rel=1e-12, abs=0)
    assert box.need[0] == pytest.approx(1 + sigma, rel=1e-16, abs=0)
    box = BoxFlip(splits, flip_to(value, -1.0, tau=0.25), least_values(forest, value), 0.0)
    assert box.flips_below[0] == pytest.approx(1 - 0.5 - sigma, rel=1e-16, abs=0)


@pytest.mark.parametrize("seed", range(5))
def test_a_box_holds_every_float_within_its_radius(seed):
    # Also where x and the step nearly cancel: the rounding of their product is then many units in
    # the last place of the side.
    splits = Splits(random_forest(0), np.zeros(3, dtype=bool))
    rng = np.random.default_rng(seed)
    tight = 0
    for _ in range(200):
        radius, scale = rng.lognormal(), rng.lognormal(size=3)
        step = radius * scale
        x = np.array([-step[0], step[1] * (1 + 3e-16), rng.normal()])
        low, high = splits.box(x, scale, radius)
        for j in range(3):
            exact = Fraction(radius) * Fraction(scale[j])
            centre = Fraction(x[j])
            # The largest and the smallest float within the radius.
            most, least = float(centre + exact), float(centre - exact)
            if Fraction(most) > centre + exact:
                most = np.nextafter(most, -np.inf)
            if Fraction(least) < centre - exact:
                least = np.nextafter(least, np.inf)
            assert low[j] <= least
            assert most <= high[j]
            tight += most > np.nextafter(x[j] + step[j], np.inf)
            tight += least < np.nextafter(x[j] - step[j], -np.inf)
    assert tight > 20  # a side rounded outward would not do without the step rounded up


def test_the_first_threshold_ends_a_box_without_any_effort():
    # One stump at 0.5, and it decides: from 0.25 the radius is 0.25, less some roundings.
    tree = Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0, 0, 0], threshold=[0.5, 0, 0])
    forest = Forest.from_trees([tree], n_features=1)
    model = KPPClassifier(forest, regime="fixed", node_weight="uniform", alpha=0.01)
    model.fit(np.array([[0.0], [1.0]] * 10), np.array([0, 1] * 10))
    X = np.array([[0.25], [2.5]])
    for effort in (0, 1000):
        found = certify_raw(model, X, effort=effort).radius
        assert (found < [0.25, 2.0]).all()
        np.testing.assert_allclose(found, [0.25, 2.0], rtol=1e-13)


def test_the_papers_radius_is_lowered_by_all_that_is_rounded(make_model):
    # (1 - 2 * 1/16 - 2 * 1/8) / 2 = 5/16; less the relative rounding, some 80 units.
    tables = NodeTables.of(make_model(0).additive_)
    flip = replace(flip_to(np.zeros(1), 0.0, norm=2.0, tau=1 / 16), weight_error=1 / 8)
    found = Fraction(float(safe_lipschitz_radius(tables, flip)[0]))
    lost = float(1 - found / Fraction(5, 16) ** 2)
    assert tables.rounding > 50 * UNIT
    assert lost == pytest.approx(tables.rounding, rel=0.05, abs=0)
    # Where all that is rounded is more than the margin nothing is left.
    flip = replace(flip, weight_error=1.0)
    assert safe_lipschitz_radius(tables, flip)[0] == 0


def test_the_least_value_below_each_node():
    forest = random_forest(1, n_trees=4)
    value = np.random.default_rng(0).normal(size=forest.n_nodes)
    found = least_values(forest, value)
    for v in range(forest.n_nodes):
        below, todo = [], [v]
        while todo:
            u = todo.pop()
            child = int(forest.left[u])
            if child < 0:
                below.append(value[u])
            else:
                todo += [child, child + 1]
        assert found[v] == min(below)
