"""The tables of a model and the constants of their rounding, by hand and in exact fractions."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from zoo import random_rows

from kpp.certificates.deviations import deviations
from kpp.certificates.flips import flips_of
from kpp.certificates.leafwise import dual_bound, solve
from kpp.certificates.node_tables import (
    UNIT,
    Contrast,
    NodeTables,
    gamma,
    largest_values,
    lowest_values,
)


def exact_gamma(n):
    """n roundings, each of relative size 2^-53."""
    return float(Fraction(n, 2**53) / (1 - Fraction(n, 2**53)))


def path(forest, v):
    while v >= 0:
        yield v
        v = int(forest.parent[v])


@pytest.fixture(params=[0, 1])
def model(request, make_model):
    return make_model(request.param, task="multiclass", n_trees=4)


def test_the_unit_is_half_the_spacing_at_one():
    assert np.spacing(1.0) == 2 * UNIT
    for n in (1, 7, 1000):
        assert gamma(n) == pytest.approx(exact_gamma(n), rel=1e-15, abs=0)
    # With n u of a half the denominator counts.
    assert gamma(2**52) == 1.0


def test_tables_node_by_node(model):
    tables = NodeTables.of(model.additive_)
    forest, block = tables.forest, model.additive_.blocks[0]
    depth = 0
    for v in range(forest.n_nodes):
        nodes = list(path(forest, v))
        depth = max(depth, len(nodes))
        # Without the root, which every path has.
        assert tables.C[v] == pytest.approx(block.squared_scale[nodes[:-1]].sum(), rel=1e-14, abs=0)
    assert tables.depth == depth
    ends = forest.tree_offsets
    for values in (tables.C, tables.values[0], tables.values[1]):
        for tree in range(forest.n_trees):
            leaves = [v for v in range(ends[tree], ends[tree + 1]) if forest.left[v] < 0]
            assert largest_values(forest, values)[tree] == max(abs(values[v]) for v in leaves)
            assert lowest_values(forest, values)[tree] == min(values[v] for v in leaves)
    assert tables.diameter == pytest.approx(
        largest_values(forest, tables.C).sum(), rel=1e-15, abs=0
    )


def test_the_constants_of_rounding(model):
    # Each as the proofs state it: K trees and depth d.
    tables = NodeTables.of(model.additive_)
    forest, block = tables.forest, model.additive_.blocks[0]
    K, d = forest.n_trees, tables.depth
    assert tables.rounding == pytest.approx(2 * exact_gamma(K + 2 * d + 16), rel=1e-14, abs=0)
    for k in range(3):
        most = sum(
            max(abs(tables.values[k][v]) for v in range(a, b) if forest.left[v] < 0)
            for a, b in zip(forest.tree_offsets, forest.tree_offsets[1:], strict=False)
        )
        size = abs(model.intercept_[k]) + most
        assert tables.score_error(k) == pytest.approx(exact_gamma(K + 2) * size, rel=1e-13, abs=0)
        step = np.abs(block.scale * model.node_coef_[k])
        most = sum(
            max(step[list(path(forest, v))].sum() for v in range(a, b) if forest.left[v] < 0)
            for a, b in zip(forest.tree_offsets, forest.tree_offsets[1:], strict=False)
        )
        assert tables.weight_error[k] == pytest.approx(
            2 * exact_gamma(d + 2) * most, rel=1e-13, abs=0
        )


def test_norms_are_rounded_up(model):
    tables = NodeTables.of(model.additive_)
    for contrast in (Contrast(0, None, 1), Contrast(0, None, -1), Contrast(1, 2, 1)):
        w = model.node_coef_[contrast.score]
        w = w if contrast.against is None else w - model.node_coef_[contrast.against]
        squared = sum(Fraction(float(x)) ** 2 for x in w)
        norm = Fraction(tables.norm(contrast))
        assert norm**2 >= squared
        # By 80 units of rounding, less what the sum itself was rounded: no more than 64 of them.
        assert float(norm**2 / squared - 1) == pytest.approx(160 * UNIT, rel=0.2, abs=0)
        value = tables.values[contrast.score]
        value = value if contrast.against is None else value - tables.values[contrast.against]
        np.testing.assert_array_equal(tables.value(contrast), contrast.sign * value)


def test_constant_scores_are_seen(make_model, make_linear):
    model = make_model(0)
    assert not NodeTables.of(model.additive_).is_constant(Contrast(0, None, 1))
    w = np.zeros(len(model.node_coef_[0]))
    tables = NodeTables.of(make_linear(model, w, [0.5]).additive_)
    assert tables.is_constant(Contrast(0, None, 1))
    assert tables.norm(Contrast(0, None, 1)) == 0
    assert model.decision_function(random_rows(0, 3)).tolist() == [0.5] * 3


def test_what_deviations_give_away(make_model):
    # Four errors of a score: of the old prediction and of the new one, and of both sums here. With
    # 200 trees they are far above what these sums truly lose.
    model = make_model(0, task="regression", n_trees=200)
    X = random_rows(0, 4)
    tables = NodeTables.of(model.additive_)
    leaf_ids = np.ascontiguousarray(model.map_.on(X).leaf_ids)
    (found,) = deviations(tables, leaf_ids, np.array([tables.norm(Contrast(0, None, 1))]))
    forest, value = tables.forest, [Fraction(float(v)) for v in tables.values[0]]
    ends = forest.tree_offsets
    leaves = [[v for v in range(a, b) if forest.left[v] < 0] for a, b in pairwise(ends.tolist())]
    top, bottom = (sum(f(value[v] for v in own) for own in leaves) for f in (max, min))
    tau = 4 * tables.score_error(0)
    # The dual too: once for distances, and for values in proportion to mu.
    size = largest_values(forest, tables.values[0]).sum()
    at_row = np.array([tables.values[0][leaf_ids[:, i]].sum() for i in range(len(X))])
    fall = found.fall
    for k in (0, len(fall.mu) // 2, len(fall.mu) - 1):
        mu = fall.mu[k]
        rows = np.arange(len(X))
        plain, _ = dual_bound(tables, tables.values[0], -at_row, leaf_ids, rows, mu)
        lost = tables.rounding * (4 * tables.diameter + 2 * size * mu) + mu * tau
        np.testing.assert_allclose(plain - fall.dual[:, k], lost, rtol=0.05)
    for i in range(len(X)):
        here = sum(value[v] for v in leaf_ids[:, i].tolist())
        rise = float(Fraction(float(found.rise.most[i])) - (top - here))
        fall = float(Fraction(float(found.fall.most[i])) - (here - bottom))
        assert rise == pytest.approx(tau, rel=0.1, abs=0)
        assert fall == pytest.approx(tau, rel=0.1, abs=0)
        assert found.rise(np.inf)[i] == found.rise.most[i]
        assert found.rise(1e9)[i] == found.rise.most[i]


def test_deviations_of_a_constant_are_none(make_model, make_linear):
    model = make_model(0, task="regression")
    make_linear(model, np.zeros(len(model.node_coef_)), [0.5])
    tables = NodeTables.of(model.additive_)
    leaf_ids = np.ascontiguousarray(model.map_.on(random_rows(0, 4)).leaf_ids)
    (found,) = deviations(tables, leaf_ids, np.zeros(1))
    assert found.rise(1.0).tolist() == found.fall(np.inf).tolist() == [0.0] * 4


def test_what_flips_give_away(make_model):
    X = random_rows(0, 20)
    # Two classes: one score. Three: a difference of two, rounded once more.
    model = make_model(0)
    tables, score = NodeTables.of(model.additive_), model.decision_function(X)
    for flip in flips_of(tables, score[:, None], None):
        sign = 1 if flip.to == 0 else -1
        assert flip.tau == tables.score_error(0)
        assert flip.rows.tolist() == np.flatnonzero((score > 0) == (sign > 0)).tolist()
        np.testing.assert_array_equal(flip.margin, np.abs(score[flip.rows]))
        np.testing.assert_array_equal(flip.offset, sign * model.intercept_[0] - flip.tau)
        assert flip.weight_error == tables.weight_error[0]
    model = make_model(1, task="multiclass")
    tables, scores = NodeTables.of(model.additive_), model.decision_function(X)
    for flip in flips_of(tables, scores, None):
        c, k = flip.contrast.score, flip.to
        assert flip.tau == 2 * (tables.score_error(c) + tables.score_error(k))
        np.testing.assert_array_equal(flip.margin, scores[flip.rows, c] - scores[flip.rows, k])
        b = model.intercept_[c] - model.intercept_[k]
        np.testing.assert_array_equal(flip.offset, b - flip.tau)
        assert flip.weight_error == pytest.approx(
            tables.weight_error[[c, k]].sum(), rel=1e-15, abs=0
        )
    # A band: the output that is left, the new one, and a sum with epsilon.
    model = make_model(2, task="targets")
    tables, scores = NodeTables.of(model.additive_), model.predict(X)
    epsilon = np.array([1e5, 2e5])  # so large that its own rounding counts
    flips = list(flips_of(tables, scores, epsilon))
    assert [flip.to for flip in flips] == [-1, 1, -1, 1]
    for number, flip in enumerate(flips):
        k, sign = number // 2, 1 - 2 * (number % 2)
        tau = 2 * tables.score_error(k) + 4 * epsilon[k] / 2**53
        assert flip.tau == pytest.approx(tau, rel=1e-14, abs=0)
        assert tau > 1.1 * 2 * tables.score_error(k)
        assert (flip.margin == epsilon[k]).all()
        offset = sign * (model.intercept_[k] - scores[:, k]) + epsilon[k] - tau
        np.testing.assert_allclose(flip.offset, offset, rtol=1e-15)


def test_what_the_leafwise_radius_gives_away(make_model):
    # Of D at the best mu: once for distances, and for values and the offset in proportion to mu.
    model = make_model(0, n_trees=200)
    X = random_rows(0, 10)
    tables = NodeTables.of(model.additive_)
    leaf_ids = np.ascontiguousarray(model.map_.on(X).leaf_ids)
    seen = 0
    for flip in flips_of(tables, model.decision_function(X)[:, None], None):
        size = largest_values(tables.forest, flip.value).sum()
        for i, row in enumerate(flip.rows):
            one = replace(
                flip,
                rows=flip.rows[i : i + 1],
                offset=flip.offset[i : i + 1] + 2.0,
                margin=flip.margin[i : i + 1],
            )
            found = solve(tables, one, leaf_ids)
            mu = found.best_mu[0]
            if not 0 < found.radius[0] < np.inf:
                continue
            plain, _ = dual_bound(tables, flip.value, one.offset, leaf_ids, np.array([row]), mu)
            lost = tables.rounding * (4 * tables.diameter + mu * (size + abs(one.offset[0])))
            assert plain[0] - found.radius[0] == pytest.approx(lost, rel=0.05, abs=0)
            seen += 1
    assert seen > 3
