"""The common refinement of a forest: one partition, its identity, its estimate and its limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from zoo import random_forest, random_rows

from kpp import Forest, KPPRegressor, partition_oracles
from kpp._checks import RefusedError
from kpp.bounds import common_refinement
from kpp.bounds.refinement import refine

from .worlds import World, most_failures

X, Y = load_diabetes(return_X_y=True)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.booleans())
def test_cells_are_combinations_of_leaves(seed, classes):
    forest, rows = random_forest(seed), random_rows(seed, 60)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 60) if classes else rng.normal(size=60)
    leaves = forest.apply(rows)
    for k in range(1, forest.n_trees + 1):
        found = common_refinement(forest, rows, y, n_trees=k)
        groups = {}
        for leaf, value in zip(map(tuple, leaves[:, :k]), y, strict=True):
            groups.setdefault(leaf, []).append(value)
        assert found.n_cells == len(groups)
        assert found.n_alone == sum(len(own) == 1 for own in groups.values())
        risk = np.var if not classes else lambda own: entropy(np.bincount(own))
        expected = sum(len(own) / 60 * risk(own) for own in groups.values())
        assert found.leaf_risk == pytest.approx(expected, abs=1e-12)
        assert found.root == pytest.approx(found.leaf_risk + found.gain, abs=1e-12)
        # At least as fine as every tree, and bounded by the root.
        each = partition_oracles(forest, rows, y).per_tree.gain[:k]
        assert each.max() - 1e-12 <= found.gain <= found.root + 1e-12
        assert found.raw_sum == pytest.approx(each.sum())


def test_duplicated_trees_change_nothing_but_the_raw_sum():
    forest = Forest.from_model(ExtraTreesRegressor(3, max_leaf_nodes=4, random_state=0).fit(X, Y))
    once = common_refinement(forest, X, Y)
    often = common_refinement(Forest.concatenate([forest] * 4), X, Y)
    assert (often.gain, often.estimate, often.n_cells) == pytest.approx(
        (once.gain, once.estimate, once.n_cells)
    )
    assert often.interval(y_range=(0, 400)).lower == once.interval(y_range=(0, 400)).lower
    assert often.raw_sum == pytest.approx(4 * once.raw_sum)
    assert often.raw_sum > often.root


def test_one_tree_is_its_own_oracle():
    forest = Forest.from_model(ExtraTreesRegressor(1, max_leaf_nodes=6, random_state=0).fit(X, Y))
    whole, one = common_refinement(forest, X, Y), partition_oracles(forest, X, Y)
    assert (whole.gain, whole.raw_sum) == pytest.approx((one.gain, one.gain))
    ours, theirs = whole.interval(y_range=(0, 400)), one.interval(y_range=(0, 400))
    assert (ours.lower, ours.estimate, ours.upper) == pytest.approx(
        (theirs.lower, theirs.estimate, theirs.upper)
    )


@pytest.mark.parametrize("dtype", [int, float])
@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_limits_and_estimate_on_a_known_world(noise, dtype):
    world = World.classes(noise=noise)
    rng = np.random.default_rng(0)
    grown_X, grown_y = world.draw(rng, 300)
    trees = ExtraTreesClassifier(3, max_leaf_nodes=3, random_state=0)
    forest = Forest.from_model(trees.fit(np.round(grown_X), grown_y))
    leaves = forest.apply(world.points)
    cells = np.unique(leaves, axis=0, return_inverse=True)[1].reshape(-1)
    count = np.bincount(cells)
    rate = np.bincount(cells, world.rate) / count
    if dtype is int:
        risk = entropy([rate, 1 - rate], axis=0)
        p = world.rate.mean()
        truth = entropy([p, 1 - p]) - count @ risk / 36
    else:
        truth = count @ np.square(rate - world.rate.mean()) / 36
    failed, estimates = 0, []
    for _ in range(100):
        rows, y = world.draw(rng, 400)
        found = common_refinement(forest, np.round(rows), y.astype(dtype))
        limits = found.interval(0.2, y_range=(0, 1) if dtype is float else None)
        failed += not limits.lower - 1e-12 <= truth <= limits.upper + 1e-12
        estimates.append(found.estimate)
    assert failed <= most_failures(100, 0.2)
    assert np.mean(estimates) == pytest.approx(truth, abs=4 * np.std(estimates) / 10 + 1e-3)


def test_too_few_rows_a_cell_is_said():
    cancer, labels = load_breast_cancer(return_X_y=True)
    forest = Forest.from_model(ExtraTreesClassifier(50, random_state=0).fit(cancer, labels))
    found = common_refinement(forest, cancer, labels)
    assert np.isnan(found.estimate)
    assert "alone in their combination" in found.reason
    interval = found.interval()
    assert np.isnan(interval.estimate)
    assert interval.lower == 0
    assert found.reason in interval.note
    assert common_refinement(forest, cancer, labels, n_trees=1).n_trees == 1


def test_samples_and_refusals():
    forest = ExtraTreesRegressor(6, max_leaf_nodes=3, random_state=0)
    model = KPPRegressor(forest, regime="honest", alpha=1.0, random_state=0).fit(X, Y)
    found = common_refinement(model, X, Y, sample="fit", n_trees=2)
    fit = model.fit_rows_
    other = common_refinement(model.forest_, X[fit], Y[fit], n_trees=2)
    assert found.gain == pytest.approx(other.gain)
    assert found.interval(y_range=(0, 400)).is_guarantee
    assert not common_refinement(model, X, Y, sample="train").interval().is_guarantee
    for wrong in (0, 7, 1.5):
        with pytest.raises(ValueError, match="between 1 and the 6 trees"):
            common_refinement(model, X, Y, n_trees=wrong)
    crossed = KPPRegressor(
        "extra-trees", n_estimators=6, regime="cross-fit", cv=3, alpha=1.0, random_state=0
    )
    with pytest.raises(RefusedError, match="rows of their own"):
        common_refinement(crossed.fit(X, Y), X, Y, sample="fit")
    with pytest.raises(RefusedError, match="one column"):
        common_refinement(model.forest_, X, np.column_stack([Y, Y]))


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 40), st.integers(0, 10_000))
def test_rows_share_a_cell_where_they_share_all_leaves(n_trees, n_rows, seed):
    leaf_ids = np.random.default_rng(seed).integers(0, 4, (n_trees, n_rows))
    cells = refine(leaf_ids)
    same = (leaf_ids[:, :, None] == leaf_ids[:, None, :]).all(axis=0)
    assert np.array_equal(cells[:, None] == cells, same)
    assert np.array_equal(np.unique(cells), np.arange(cells.max() + 1))
