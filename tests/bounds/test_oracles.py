"""Partition oracles: the identity on any sample, and the published gains."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split
from zoo import random_forest, random_rows

from kpp import Forest, KPPClassifier, KPPEmbedding, KPPRegressor
from kpp.bounds import partition_oracles
from kpp.bounds.oracles import target_facts

X, Y = load_diabetes(return_X_y=True)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_root_is_leaf_risk_plus_gain_for_every_tree(seed, classes):
    forest, rows = random_forest(seed), random_rows(seed)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 40) if classes else rng.normal(size=40)
    weight = rng.integers(0, 3, 40) + (np.arange(40) == 0)
    oracles = partition_oracles(forest, rows, y, sample_weight=weight)
    total = oracles.per_tree.leaf_risk + oracles.per_tree.gain
    np.testing.assert_allclose(total, oracles.root, atol=1e-12 * max(oracles.root, 1))
    assert oracles.root == pytest.approx(oracles.leaf_risk + oracles.gain, abs=1e-12)
    assert oracles.residual < 1e-12
    assert (oracles.per_tree.gain >= 0).all()


@pytest.mark.parametrize("classes", [True, False])
def test_leaf_risk_is_that_of_the_best_constant_per_leaf(classes):
    forest, rows = random_forest(3), random_rows(3, 200)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200) if classes else rng.normal(size=200)
    oracles = partition_oracles(forest, rows, y)
    leaves = forest.apply(rows)
    for tree in range(forest.n_trees):
        risk = 0.0
        for leaf in np.unique(leaves[:, tree]):
            own = y[leaves[:, tree] == leaf]
            if classes:
                p = np.bincount(own, minlength=2) / len(own)
                risk -= len(own) / 200 * sum(q * np.log(q) for q in p if q > 0)
            else:
                risk += np.square(own - own.mean()).sum() / 200
        assert oracles.per_tree.leaf_risk[tree] == pytest.approx(risk)
        assert oracles.per_tree.n_leaves[tree] == len(np.unique(leaves[:, tree]))


def test_duplicated_trees_change_nothing():
    forest, rows = random_forest(5), random_rows(5)
    y = np.random.default_rng(0).normal(size=40)
    once = partition_oracles(forest, rows, y)
    thrice = partition_oracles(Forest.concatenate([forest] * 3), rows, y)
    assert (thrice.gain, thrice.leaf_risk) == pytest.approx((once.gain, once.leaf_risk))
    assert not hasattr(once, "sum")


def test_the_papers_gains_on_diabetes():
    # IG_var 3609 under PB-01 and 3029 under PB-02, both on the full sample.
    forest = RandomForestRegressor(30, max_depth=6, random_state=0)
    shared = KPPRegressor(forest, alpha=0.4329).fit(X, Y)
    assert round(partition_oracles(shared, X, Y, sample="train").gain) == 3609
    honest = KPPRegressor(forest, regime="honest", alpha=0.4329, random_state=0).fit(X, Y)
    assert round(partition_oracles(honest, X, Y).gain) == 3029
    fit = honest.fit_rows_
    oracles = partition_oracles(honest, X, Y, sample="fit")
    assert oracles.n_rows == len(fit)
    assert oracles.is_honest
    assert oracles.root == pytest.approx(Y[fit].var())
    assert partition_oracles(shared, X, Y, sample="train").is_honest is False
    assert partition_oracles(shared, X, Y).is_honest is False  # rows of the fit are known


def test_the_papers_gain_on_breast_cancer():
    cancer, labels = load_breast_cancer(return_X_y=True)
    gains = []
    for seed in range(5):
        X_train, X_test, y_train, y_test = train_test_split(
            cancer, labels, test_size=0.2, random_state=seed, stratify=labels
        )
        forest = Forest.from_model(
            ExtraTreesClassifier(200, random_state=seed).fit(X_train, y_train)
        )
        gains.append(partition_oracles(forest, X_test, y_test).gain)
    assert round(np.mean(gains), 3) == 0.582
    assert round(np.std(gains), 3) == 0.024


def test_multiclass_and_several_forests():
    X3, y3 = load_iris(return_X_y=True)
    model = KPPClassifier(
        [("a", "extra-trees"), ("b", "random-forest")], combine="joint", n_estimators=4, alpha=0.1
    )
    oracles = partition_oracles(model.fit(X3, y3), X3, y3)
    assert oracles.root == pytest.approx(np.log(3))
    assert len(oracles.per_tree.gain) == 8
    assert 0 < oracles.share <= 1
    assert len(oracles.to_frame()) == 8


def test_fit_and_train_take_what_was_given_to_fit():
    # The same words as everywhere: all rows of the fit, of which the fit fold is taken.
    model = KPPRegressor(
        "extra-trees", n_estimators=5, regime="honest", alpha=1.0, random_state=0
    ).fit(X, Y)
    fit = model.fit_rows_
    whole = partition_oracles(model, X, Y, sample="train")
    assert (whole.is_honest, whole.n_rows) == (False, 442)
    weight = np.random.default_rng(0).uniform(0, 1, 442)
    ours = partition_oracles(model, X, Y, sample="fit", sample_weight=weight)
    theirs = partition_oracles(model, X[fit], Y[fit], sample_weight=weight[fit])
    assert (ours.root, ours.gain) == pytest.approx((theirs.root, theirs.gain))
    with pytest.raises(ValueError, match="given to fit"):
        partition_oracles(model, X[fit], Y[fit], sample="fit")


def test_cross_fit_is_taken_fold_by_fold():
    model = KPPRegressor(
        "extra-trees", n_estimators=9, regime="cross-fit", cv=3, alpha=1.0, random_state=0
    )
    model.fit(X, Y)
    oracles = partition_oracles(model, X, Y, sample="fit")
    assert oracles.is_honest
    assert oracles.residual < 1e-9
    assert oracles.root == pytest.approx(oracles.leaf_risk + oracles.gain)
    gains = []
    for (rows, _), (_, block) in zip(model.folds_, model.map_.blocks, strict=True):
        gains.append(partition_oracles(block.forest, X[rows], Y[rows]).per_tree.gain)
    np.testing.assert_allclose(oracles.per_tree.gain, np.concatenate(gains))


def test_refusals():
    with pytest.raises(TypeError, match="kpp Forest"):
        partition_oracles(KPPEmbedding(n_estimators=2).fit(X, Y), X, Y)
    with pytest.raises(ValueError, match="bare forest"):
        partition_oracles(random_forest(0), random_rows(0), np.zeros(40), sample="fit")
    with pytest.raises(ValueError, match="sample must be"):
        partition_oracles(random_forest(0), random_rows(0), np.zeros(40), sample="none")


def test_facts_of_a_target_by_hand():
    assert target_facts(np.array([3.0, 1.0, 2.0]), 0) == {"limits": (1.0, 3.0)}
    for n_classes, counts in ((2, [2, 1]), (4, [2, 1, 0, 0])):
        found = target_facts(np.array([0, 0, 2]), n_classes)["class_counts"]
        assert found.tolist() == counts


def test_a_constant_target_has_no_share_to_explain():
    rows = random_rows(0, 30)
    for y in (np.full(30, 2.5), np.zeros(30, dtype=int)):
        found = partition_oracles(random_forest(0), rows, y)
        assert (found.root, found.gain, found.share) == (0, 0, 0)


def test_the_residual_is_the_largest_over_trees():
    rows = random_rows(0, 30)
    found = partition_oracles(random_forest(0), rows, rows[:, 0])
    assert found.residual < 1e-14
    root = found.per_tree.root.copy()
    root[1] += 0.5
    wrong = replace(found, per_tree=replace(found.per_tree, root=root))
    assert wrong.residual == pytest.approx(0.5, rel=1e-12)


def test_a_range_that_does_not_begin_at_zero_is_as_wide_as_it_is():
    rows = random_rows(0, 300)
    y = (rows[:, 0] > 0).astype(float)
    forest = random_forest(0, n_trees=1, most_splits=2)
    near = partition_oracles(forest, rows, y).interval(y_range=(0.0, 1.0))
    far = partition_oracles(forest, rows, y + 5).interval(y_range=(5.0, 6.0))
    assert (far.lower, far.upper) == pytest.approx((near.lower, near.upper), rel=1e-9)
    assert far.most == pytest.approx(0.25)
