"""What a forest implies is dropped, and comes back; statistics in less memory, bit for bit."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from zoo import random_forest, random_rows

from kpp import Forest
from kpp.forest.derived import forget_numbers, let_go
from kpp.forest.grow import grow_forest
from kpp.forest.importers import import_forest
from kpp.forest.layout import NODE_ARRAYS
from kpp.forest.packed import PackedArray, PackedStatistics, PackedTogether


def grown(**parameters):
    X, y = load_diabetes(return_X_y=True)
    return ExtraTreesRegressor(7, random_state=0, **parameters).fit(X, y)


def node_arrays(forest):
    return {name: getattr(forest, name).tobytes() for name in NODE_ARRAYS}


@pytest.mark.parametrize("seed", range(5))
def test_what_is_let_go_comes_back(seed):
    forest = random_forest(seed)
    before = node_arrays(forest)
    X = random_rows(seed)
    leaves = forest.apply(X)
    let_go(forest)
    assert not {"parent", "is_leaf", "nodes"} & vars(forest).keys()
    assert np.array_equal(forest.apply(X), leaves)
    assert "parent" not in vars(forest)  # no walk down needs it
    assert node_arrays(forest) == before
    with pytest.raises(ValueError, match="read-only"):
        forest.parent[0] = 0


def test_numbers_that_count_depth_first_are_let_go_and_others_are_not():
    model, best_first = grown(), grown(max_leaf_nodes=30)
    forest, other = Forest.from_model(model), Forest.from_model(best_first)
    let_go(forest)
    let_go(other)
    assert "source_leaf" not in vars(forest)
    assert "source_leaf" in vars(other)
    X = load_diabetes().data
    for own, source in ((forest, model), (other, best_first)):
        assert np.array_equal(own.source_leaf[own.apply(X)], source.apply(X))


def test_kinds_of_categorical_splits_are_kept():
    X, y = load_iris(return_X_y=True)
    X = np.round(X)
    model = HistGradientBoostingClassifier(max_iter=3, categorical_features=[2]).fit(X, y)
    forest = Forest.from_model(model)
    kinds = forest.split_kind.copy()
    assert kinds.max() == 2
    let_go(forest)
    assert np.array_equal(forest.split_kind, kinds)


def test_forests_that_let_go_are_joined_taken_apart_and_pickled():
    forest = Forest.from_model(grown())
    before = node_arrays(forest)
    lean = Forest.from_model(grown())
    let_go(lean)
    parts = [lean.take_trees(slice(0, 3)), lean.take_trees(slice(3, 7))]
    assert node_arrays(Forest.concatenate(parts)) == before
    for part in parts:
        let_go(part)
    joined = Forest.concatenate(parts, release=True)
    assert "source_leaf" not in vars(joined)
    assert node_arrays(joined) == before
    assert node_arrays(pickle.loads(pickle.dumps(lean))) == before
    let_go(lean)
    assert node_arrays(replace(lean, source="other")) == before


def test_only_an_ensemble_that_is_grown_for_it_loses_its_trees():
    model = grown()
    forest = Forest.from_model(model)
    assert all(tree is not None for tree in model.estimators_)
    again = import_forest(model, release=True)
    assert model.estimators_ == [None] * 7
    assert node_arrays(again) == node_arrays(forest)
    for name in ("count", "mean", "variance"):
        mine, theirs = (getattr(f.statistics, name) for f in (again, forest))
        assert mine.tobytes() == theirs.tobytes()
    X, y = load_diabetes(return_X_y=True)
    spec = clone(grown())
    from_grower = grow_forest(spec, X, y)
    assert not hasattr(spec, "estimators_")
    assert "source_leaf" not in vars(from_grower)
    assert node_arrays(from_grower) == node_arrays(forest)


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_statistics_are_those_of_the_trees(criterion):
    X, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(5, criterion=criterion, random_state=0).fit(X, y)
    forest = Forest.from_model(model)
    for tree, member in enumerate(model.estimators_):
        nodes = forest.nodes_of(slice(tree, tree + 1))
        at = forest.source_leaf[nodes]
        count, share = forest.statistics.count[nodes], forest.statistics.class_share[nodes]
        assert np.array_equal(count, member.tree_.weighted_n_node_samples[at])
        assert np.array_equal(share, member.tree_.value[at, 0])


def test_forget_numbers_looks_first():
    forest = Forest.from_model(grown())
    other = replace(forest, source_leaf=forest.source_leaf[::-1])
    forget_numbers(forest)
    forget_numbers(other)
    assert "source_leaf" not in vars(forest)
    assert "source_leaf" in vars(other)


# Statistics in less memory.


@pytest.mark.parametrize("n_different", [1, 2, 256, 257, 65536, 65537])
def test_packed_numbers_come_back_to_the_last_bit(n_different):
    rng = np.random.default_rng(0)
    table = rng.normal(size=n_different)
    table[0] = -0.0
    values = np.concatenate([table, rng.choice(table, size=3 * n_different), [0.0, np.nan]])
    packed = PackedArray(values)
    assert packed.array().tobytes() == values.tobytes()
    assert packed.array().flags.writeable
    assert packed.n_bytes <= values.nbytes


@pytest.mark.parametrize("shape", [(0,), (0, 2), (1,), (5, 3), (5000,)])
def test_numbers_that_differ_are_kept_as_they_are(shape):
    values = np.random.default_rng(0).normal(size=shape)
    packed = PackedArray(values)
    assert packed.array().tobytes() == values.tobytes()
    assert packed.array().shape == shape
    assert packed.n_bytes <= values.nbytes
    values[...] = 0
    assert packed.array().any() == bool(values.size)  # not the caller's own memory


@pytest.mark.parametrize("n_different", [1, 3, 300])
def test_numbers_that_are_packed_together(n_different):
    rng = np.random.default_rng(0)
    which = rng.integers(n_different, size=2000)
    a, b = rng.normal(size=n_different)[which], rng.normal(size=(n_different, 3))[which]
    c = np.where(rng.random(2000) < 0.5, 0.0, -0.0)  # zeros of both signs, whatever the others are
    packed = PackedTogether([a, b, c])
    for mine, given in zip(packed.arrays(), (a, b, c), strict=True):
        assert mine.shape == given.shape
        assert mine.tobytes() == given.tobytes()
    assert packed.n_bytes <= 2 * 2000 + 2 * n_different * 5 * 8


@pytest.mark.parametrize("kind", [ExtraTreesRegressor, ExtraTreesClassifier])
def test_packed_statistics_are_the_same_in_less_memory(kind):
    X, y = (load_iris if kind is ExtraTreesClassifier else load_diabetes)(return_X_y=True)
    forest = Forest.from_model(kind(30, random_state=0).fit(X, y))
    plain = forest.statistics
    names = ("count", "mean", "variance", "class_share")
    arrays = {name: getattr(plain, name) for name in names}
    packed = PackedStatistics(plain, forest)
    assert packed.n_bytes < 0.5 * sum(a.nbytes for a in arrays.values() if a is not None)
    for again in (packed, pickle.loads(pickle.dumps(packed)), packed.plain()):
        for name, values in arrays.items():
            own = getattr(again, name)
            assert (own is None) == (values is None)
            assert values is None or own.tobytes() == values.tobytes()
        assert again.impurity.tobytes() == plain.impurity.tobytes()
        assert again.grown_on_impurity == plain.grown_on_impurity
    assert packed.take(slice(3, 9)).count.tolist() == plain.count[3:9].tolist()
    lean = replace(forest, statistics=packed)
    assert lean.bare_scores(X).tobytes() == forest.bare_scores(X).tobytes()
