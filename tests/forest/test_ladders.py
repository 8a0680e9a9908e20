"""Ladders: one tree a column, at quantiles, without a target."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from kpp import Forest
from kpp.forest.grow import named_forest, traits_of
from kpp.forest.ladders import Ladders, quantile_thresholds


def rows(seed=0, n_rows=300, missing=0.0):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(size=n_rows),
            rng.integers(0, 5, n_rows),
            np.full(n_rows, 7.0),
            rng.exponential(size=n_rows) ** 3,
        ]
    )
    if missing:
        hidden = rng.random(X.shape) < missing
        hidden[:, 3] = False
        X[hidden] = np.nan
    return X


def depths(forest):
    depth = np.zeros(forest.n_nodes, dtype=int)
    for v in np.flatnonzero(forest.parent >= 0):
        depth[v] = depth[forest.parent[v]] + 1
    return depth


def test_a_tree_for_each_column_that_varies():
    forest = Ladders().fit(rows()).forest_
    # The third column is constant.
    assert [int(forest.feature[root]) for root in forest.roots] == [0, 1, 3]
    leaves = [int(forest.is_leaf[forest.nodes_of([t])].sum()) for t in range(3)]
    assert leaves == [64, 5, 64]
    # 64 leaves fit into 6 levels, and 5 into 3.
    assert [int(depths(forest)[forest.nodes_of([t])].max()) for t in range(3)] == [6, 3, 6]


def test_leaves_hold_equal_shares_of_the_rows():
    X = np.random.default_rng(0).normal(size=(6400, 1))
    model = Ladders().fit(X)
    count = np.unique(model.apply(X), return_counts=True)[1]
    assert count.tolist() == [100] * 64


def test_few_values_have_a_leaf_each():
    X = np.array([[3.0], [1], [1], [2], [3], [10]])
    leaves = Ladders().fit(X).apply(X)[:, 0]
    assert len(np.unique(leaves)) == 4
    assert leaves[0] == leaves[4]
    assert leaves[1] == leaves[2]


def test_missing_values_have_a_leaf_of_their_own():
    X = rows(missing=0.3)
    forest = Ladders().fit(X).forest_
    leaf_ids = forest.apply(X)
    for t, column in enumerate([0, 1, 2]):
        # The third column is constant but for its missing values: one split.
        missing = np.isnan(X[:, column])
        assert len(np.unique(leaf_ids[missing, t])) == 1
        assert not np.isin(leaf_ids[~missing, t], leaf_ids[missing, t]).any()
    assert forest.n_trees == 4


def test_a_value_that_misses_only_later_goes_with_most_rows():
    X = np.array([[0.0], [1], [1], [1]])
    forest = Ladders().fit(X).forest_
    assert forest.apply([[np.nan]]) == forest.apply([[1.0]])
    flipped = Ladders().fit(-X).forest_
    assert flipped.apply([[np.nan]]) == flipped.apply([[-1.0]])


def test_a_row_of_weight_2_is_two_rows_and_one_of_weight_0_none():
    X = rows()
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    weighted = Ladders().fit(X, sample_weight=weight).forest_
    repeated = Ladders().fit(np.repeat(X, weight, axis=0)).forest_
    np.testing.assert_array_equal(weighted.threshold, repeated.threshold)


def test_columns_that_all_are_constant_leave_a_root():
    forest = Ladders().fit(np.ones((5, 2))).forest_
    assert (forest.n_trees, forest.n_nodes) == (1, 1)


@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30),
    max_leaves=st.integers(2, 10),
)
def test_a_value_lies_between_neighbouring_thresholds(values, max_leaves):
    values = np.array(values)
    thresholds = quantile_thresholds(values, np.ones(len(values)), max_leaves)
    n_distinct = len(np.unique(values))
    assert len(thresholds) <= max_leaves - 1
    if n_distinct <= max_leaves:
        assert len(thresholds) == n_distinct - 1
    # Every cell between thresholds holds a row.
    assert len(np.unique(np.searchsorted(thresholds, values))) == len(thresholds) + 1


def test_neither_labels_nor_chance_have_a_part_in_it():
    model = named_forest("ladders", classification=True, n_rows=10, random_state=0)
    assert isinstance(model, Ladders)
    assert traits_of("ladders").by_columns_alone
    assert not traits_of("ladders").supervised
    X = rows()
    a = clone(model).fit(X, np.arange(len(X))).forest_
    b = clone(model).fit(X).forest_
    np.testing.assert_array_equal(a.threshold, b.threshold)
    assert Forest.from_model(clone(model).fit(X)).bare is None


@pytest.mark.parametrize("max_leaves", [1, 2.5])
def test_bad_numbers_of_leaves(max_leaves):
    with pytest.raises(ValueError, match="max_leaves"):
        Ladders(max_leaves).fit(rows())


@parametrize_with_checks([Ladders()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)
