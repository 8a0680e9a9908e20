"""The flat structure: its order, its limits, and that nothing can change it."""

import copy
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.model_selection import GridSearchCV
from zoo import random_forest, random_rows, random_tree

from kpp import Forest, KPPEmbedding
from kpp.forest import Tree
from kpp.forest.layout import ARRAY_TYPES, NUMERICAL


@pytest.mark.parametrize("seed", range(5))
def test_order(seed):
    forest = random_forest(seed)
    nodes = np.arange(forest.n_nodes)
    below_root = forest.parent >= 0
    assert (forest.parent[below_root] < nodes[below_root]).all()
    assert np.array_equal(np.flatnonzero(~below_root), forest.roots)
    splits = np.flatnonzero(~forest.is_leaf)
    assert (forest.right[splits] == forest.left[splits] + 1).all()
    for child in (forest.left, forest.right):
        assert (forest.parent[child[splits]] == splits).all()
        assert (child[forest.is_leaf] == -1).all()
    assert np.array_equal(forest.tree_of_node[forest.left[splits]], forest.tree_of_node[splits])


def test_renumbering_keeps_every_node():
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 30, 4)
    forest = Forest.from_trees([tree, tree], n_features=4)
    source = forest.source_leaf
    assert sorted(source[:61]) == list(range(61))
    splits = ~forest.is_leaf
    for mine, theirs in ((forest.feature, tree.feature), (forest.threshold, tree.threshold)):
        assert np.array_equal(mine[splits], np.asarray(theirs)[source[splits]])
    # Children of a node are the children that the source names.
    local_left = forest.left[splits]
    assert np.array_equal(source[local_left], np.asarray(tree.left)[source[splits]])
    assert np.array_equal(source[local_left + 1], np.asarray(tree.right)[source[splits]])


def test_sizes():
    forest = random_forest(0)
    assert forest.n_trees == 5
    assert forest.n_nodes == len(forest.left) == forest.tree_offsets[-1]
    assert forest.max_tree_nodes == np.diff(forest.tree_offsets).max()


def test_arrays_are_read_only():
    forest = random_forest(0)
    for name in ARRAY_TYPES:
        with pytest.raises(ValueError):
            getattr(forest, name)[...] = 0
    with pytest.raises(ValueError):
        forest.is_leaf[...] = True
    with pytest.raises(AttributeError):
        forest.parent = None


def test_arrays_are_not_shared_with_the_caller():
    forest = random_forest(0)
    state = {f.name: getattr(forest, f.name) for f in fields(forest)}
    state["threshold"] = state["threshold"].copy()
    other = Forest(**state)
    state["threshold"][:] = 99.0
    assert np.array_equal(other.threshold, forest.threshold, equal_nan=True)


def test_clone_and_copy_are_the_forest_itself():
    forest = random_forest(0)
    assert clone(forest) is forest
    assert copy.copy(forest) is forest
    assert copy.deepcopy(forest) is forest
    model = clone(KPPEmbedding(forest, node_weight="uniform"))
    assert model.forest is forest


def test_pickle():
    X = random_rows(0)
    y = X[:, 0]
    forest = Forest.from_model(ExtraTreesRegressor(3, random_state=0).fit(X, y))
    other = pickle.loads(pickle.dumps(forest))
    for name in ARRAY_TYPES:
        assert np.array_equal(getattr(forest, name), getattr(other, name), equal_nan="thr" in name)
        assert not getattr(other, name).flags.writeable
    assert np.array_equal(other.statistics.variance, forest.statistics.variance)
    assert np.array_equal(other.apply(X), forest.apply(X))


def test_a_forest_in_a_grid_search():
    X = random_rows(0, n_rows=60)
    forest = random_forest(0)
    search = GridSearchCV(
        KPPEmbedding(forest),
        {"node_weight": ["uniform"], "normalize": ["tree", "forest"]},
        scoring=lambda model, X, y=None: -model.transform(X).sum(),
        n_jobs=2,
        cv=2,
    )
    search.fit(X)
    assert search.best_params_["normalize"] in ("tree", "forest")


@pytest.mark.parametrize("trees", [[0], [3, 1], slice(None, None, -1), [2, 2], -1])
def test_some_of_the_trees(trees):
    forest, X = random_forest(0), random_rows(0)
    part = forest.take_trees(trees)
    numbers = np.atleast_1d(np.arange(5)[trees])
    assert part.n_trees == len(numbers)
    expected = forest.apply(X)[:, numbers] - forest.roots[numbers] + part.roots
    assert np.array_equal(part.apply(X), expected)


def test_some_of_the_trees_with_categories_and_statistics():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 40, (300, 2)).astype(float)
    y = np.sin(X[:, 0]) + X[:, 1]
    hist = HistGradientBoostingRegressor(max_iter=6, categorical_features=[0]).fit(X, y)
    forest = Forest.from_model(hist)
    part = forest.take_trees([4, 2])
    expected = forest.apply(X)[:, [4, 2]] - forest.roots[[4, 2]] + part.roots
    assert np.array_equal(part.apply(X), expected)
    forest = Forest.from_model(ExtraTreesRegressor(4, random_state=0).fit(X, y))
    part = forest.take_trees([3])
    assert np.array_equal(part.statistics.count, forest.statistics.count[forest.nodes_of(3)])
    with pytest.raises(ValueError, match="at least one tree"):
        forest.take_trees([])


def test_no_columns():
    root = Tree(left=[-1], right=[-1], feature=[-1], threshold=[0.0])
    with pytest.raises(ValueError, match="at least one column"):
        Forest.from_trees([root], n_features=0)


@pytest.mark.parametrize("seed", range(5))
def test_thresholds_of_columns(seed):
    forest = random_forest(seed)
    assert len(forest.column_thresholds) == forest.n_features
    for j, found in enumerate(forest.column_thresholds):
        own = (forest.feature == j) & (forest.split_kind == NUMERICAL)
        assert found.tolist() == sorted(set(forest.threshold[own].tolist()))


def test_negative_category_codes():
    tree = Tree(
        left=[1, -1, -1],
        right=[2, -1, -1],
        feature=[0] * 3,
        threshold=[0.0] * 3,
        left_categories={0: [-1, 3]},
    )
    with pytest.raises(ValueError, match="must not be negative; got -1"):
        Forest.from_trees([tree], n_features=1)


def test_too_many_nodes(monkeypatch):
    monkeypatch.setattr("kpp.forest.layout.MAX_NODES", 6)
    stump = Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0] * 3, threshold=[0] * 3)
    Forest.from_trees([stump] * 2, n_features=1)
    with pytest.raises(ValueError, match="has 9 nodes, and node ids are 32-bit"):
        Forest.from_trees([stump] * 3, n_features=1)


def test_no_trees():
    with pytest.raises(ValueError, match="at least one tree"):
        Forest.from_trees([], n_features=1)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([], []),
        ([1, -1], [-1, -1]),  # one child
        ([1, -1, -1], [1, -1, -1]),  # one child twice
        ([1, 0, -1], [2, 2, -1]),  # a child of two parents
        ([-1, 2, -1], [-1, 1, -1]),  # a cycle beside the root
        ([-1, 3, 1, -1, -1], [-1, 2, 4, -1, -1]),  # a longer one, one parent each
        ([1, -1, -1], [7, -1, -1]),  # out of range
    ],
)
def test_what_is_no_tree(left, right):
    tree = Tree(left=left, right=right, feature=[0] * len(left), threshold=[0.0] * len(left))
    with pytest.raises(ValueError, match="Not a binary tree"):
        Forest.from_trees([tree], n_features=1)


def _changed(array, index, value):
    array = np.array(array)
    array[index] = value
    return array


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: {"tree_offsets": f.tree_offsets[1:]}, "tree_offsets"),
        (lambda f: {"tree_offsets": f.tree_offsets[:-1]}, "tree_offsets"),
        (lambda f: {"feature": f.feature[:-1]}, "one entry per node"),
        (lambda f: {"parent": _changed(f.parent, 3, 3)}, "in agreement"),
        (lambda f: {"parent": _changed(f.parent, 0, 1)}, "in agreement"),
        (lambda f: {"left": _changed(f.left, 0, 0)}, "level by level"),
        (lambda f: {"left": _changed(f.left, 0, 10**6)}, "level by level"),
        (lambda f: {"left": _changed(f.left, 0, -1)}, "level by level"),
        (lambda f: {"feature": _changed(f.feature, 0, 3)}, "outside the 3 columns"),
        (lambda f: {"feature": _changed(f.feature, 0, -1)}, "outside the 3 columns"),
        (lambda f: {"threshold": _changed(f.threshold, 0, np.nan)}, "NaN"),
        (lambda f: {"split_kind": _changed(f.split_kind, 0, 0)}, "split_kind"),
        (lambda f: {"split_kind": _changed(f.split_kind, 0, 4)}, "split_kind"),
        (lambda f: {"split_kind": _changed(f.split_kind, 0, 3)}, "oblique"),
        (lambda f: {"term_columns": np.ones(1, np.int32)}, "oblique"),
        (lambda f: {"term_offsets": np.zeros(2)}, "term_offsets must rise"),
        (lambda f: {"split_kind": _changed(f.split_kind, 0, 2)}, "categorical"),
        (lambda f: {"category_bits": np.ones(1, np.uint32)}, "categorical"),
        (lambda f: {"category_offsets": np.zeros(2)}, "category_offsets must rise"),
        (
            lambda f: {"category_offsets": _changed(np.zeros(f.n_nodes + 1), 5, 9)},
            "category_offsets must rise",
        ),
        (lambda f: {"n_features": 0}, "outside the 0 columns|at least one column"),
        (lambda f: {"dtype": np.float16}, "dtype"),
        (lambda f: {"feature_names": ("a",)}, "feature_names"),
    ],
)
def test_arrays_that_are_no_forest_are_refused(change, message):
    forest = random_forest(0)
    with pytest.raises(ValueError, match=f"not a forest: .*{message}"):
        replace(forest, **change(forest))


def test_repr_is_short():
    X = random_rows(0)
    model = RandomForestClassifier(4, max_depth=1, random_state=0).fit(X, X[:, 0] > 0)
    assert repr(Forest.from_model(model)) == (
        "Forest(n_trees=4, n_nodes=12, n_features=3, source='RandomForestClassifier')"
    )


def test_forests_joined():
    X = random_rows(0)
    parts = [random_forest(seed, n_trees=n) for seed, n in ((0, 3), (1, 1), (2, 4))]
    joined = Forest.concatenate(parts)
    assert joined.n_trees == 8
    starts = np.cumsum([0, *(part.n_nodes for part in parts)])
    expected = np.hstack([p.apply(X) + start for p, start in zip(parts, starts[:-1], strict=True)])
    assert np.array_equal(joined.apply(X), expected)
    with pytest.raises(ValueError, match="same columns alike"):
        Forest.concatenate([parts[0], random_forest(0, n_features=2)])


def test_statistics_joined_over_different_classes():
    X = random_rows(0)
    labels = np.array(["b", "c", "a"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    parts = []
    for rows in (labels != "a", labels != "c"):
        model = RandomForestClassifier(2, random_state=0).fit(X[rows], labels[rows])
        parts.append(Forest.from_model(model))
    joined = Forest.concatenate(parts).statistics
    assert joined.classes.tolist() == ["a", "b", "c"]
    split = parts[0].n_nodes
    assert np.array_equal(joined.class_share[:split, 1:], parts[0].statistics.class_share)
    assert np.array_equal(joined.class_share[split:, :2], parts[1].statistics.class_share)
    assert not joined.class_share[:split, 0].any()


def test_categories_joined():
    # Each forest keeps its own treatment of the categories that only the other knows.
    rng = np.random.default_rng(0)
    names = np.array(list("abcdefghij"), dtype=object)
    X = np.column_stack([names[rng.integers(0, 10, 800)], rng.normal(size=800)]).astype(object)
    X[::9, 0] = np.nan
    y = np.array([0.0 if v != v else ord(v) % 4 for v in X[:, 0]]) + X[:, 1].astype(float)
    parts = []
    for unseen in ("abc", "ghij"):
        rows = ~np.isin(X[:, 0].astype(str), list(unseen))
        model = HistGradientBoostingRegressor(max_iter=8, categorical_features=[0])
        parts.append(Forest.from_model(model.fit(X[rows], y[rows])))
    joined = Forest.concatenate(parts)
    expected = np.hstack([parts[0].apply(X), parts[1].apply(X) + parts[0].n_nodes])
    assert np.array_equal(joined.apply(X), expected)
    assert sorted(joined.categories[0]) == list("abcdefghij")
