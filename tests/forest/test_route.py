"""Routing against the obvious walk, and what comes to the door."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestRegressor
from zoo import obvious_path, random_forest, random_rows

from kpp import Forest
from kpp._parallel import sum_blocks
from kpp.forest import Tree, route
from kpp.forest.coded import category_codes


def obvious_leaves(forest, X):
    return np.array([[obvious_path(forest, x, t)[-1] for t in range(forest.n_trees)] for x in X])


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("missing", [False, True])
def test_against_the_obvious_walk(seed, missing):
    forest = random_forest(seed, most_splits=40)
    X = random_rows(seed, n_rows=300)
    if missing:
        X[np.random.default_rng(seed).random(X.shape) < 0.2] = np.nan
    assert np.array_equal(forest.apply(X), obvious_leaves(forest, X))


def test_many_rows_and_trees_do_not_depend_on_threads(monkeypatch):
    forest = random_forest(0, n_trees=11, most_splits=60)
    X = random_rows(0, n_rows=5000)
    monkeypatch.setattr("kpp.forest.route.BYTES_PER_ROW_BLOCK", 1 << 13)
    one = forest.apply(X, n_jobs=1)
    assert np.array_equal(one, forest.apply(X, n_jobs=2))
    assert np.array_equal(one, forest.apply(X, n_jobs=5))
    assert np.array_equal(one[:50], obvious_leaves(forest, X[:50]))
    assert np.array_equal(one[-50:], obvious_leaves(forest, X[-50:]))


@pytest.mark.parametrize("n_rows", [1, 2, 31, 32, 33])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_rows_walk_down_all_trees_together(n_rows, dtype):
    forest = replace(random_forest(1, n_trees=23, most_splits=60), dtype=dtype)
    X = random_rows(1, n_rows=n_rows)
    assert np.array_equal(forest.apply(X), obvious_leaves(forest, X))


def test_small_work_does_not_count_the_cores(monkeypatch):
    def counted(n_jobs):
        raise AssertionError("asked for the number of threads")

    forest = random_forest(0, n_trees=11)
    X = random_rows(0, n_rows=100)
    monkeypatch.setattr("kpp._parallel.effective_n_jobs", counted)
    assert forest.apply(X, n_jobs=-1).shape == (100, 11)
    assert sum_blocks(lambda b, out: None, 1, (2,), -1).tolist() == [0, 0]


def test_leaf_ids():
    forest = random_forest(0)
    leaf_ids = forest.apply(random_rows(0))
    assert leaf_ids.dtype == np.int32
    assert leaf_ids.shape == (40, 5)
    assert forest.is_leaf[leaf_ids].all()
    assert (forest.tree_of_node[leaf_ids] == np.arange(5)).all()


def test_categories_beside_numbers():
    # Categories 0, 33 and 40 of column 0 go left; a missing one goes right, then by column 1.
    tree = Tree(
        left=[1, -1, 3, -1, -1],
        right=[2, -1, 4, -1, -1],
        feature=[0, -1, 1, -1, -1],
        threshold=[0.0, 0.0, 0.5, 0.0, 0.0],
        left_categories={0: [0, 33, 40]},
    )
    forest = Forest.from_trees([tree], n_features=2)
    assert np.diff(forest.category_offsets).tolist() == [2, 0, 0, 0, 0]
    rows = [[0, 9], [33, 9], [40, 9], [1, 0], [32, 9], [63, 0], [64, 0], [-1, 0], [np.nan, 9]]
    assert forest.apply(rows).ravel().tolist() == [1, 1, 1, 3, 4, 3, 3, 3, 4]


def test_a_missing_category_may_go_left():
    tree = Tree(
        left=[1, -1, -1],
        right=[2, -1, -1],
        feature=[0, -1, -1],
        threshold=[0.0] * 3,
        missing_left=[True, False, False],
        left_categories={0: [2]},
    )
    forest = Forest.from_trees([tree], n_features=1)
    assert forest.apply([[2], [1], [np.nan]]).ravel().tolist() == [1, 2, 1]


def test_a_categorical_split_that_sends_nothing_left():
    tree = Tree(
        left=[1, -1, -1],
        right=[2, -1, -1],
        feature=[0, -1, -1],
        threshold=[0.0] * 3,
        left_categories={0: []},
    )
    forest = Forest.from_trees([tree], n_features=1)
    assert forest.apply([[0], [5]]).ravel().tolist() == [2, 2]


def test_forests_of_single_roots():
    root = Tree(left=[-1], right=[-1], feature=[-1], threshold=[0.0])
    forest = Forest.from_trees([root, root], n_features=2)
    assert forest.apply(np.zeros((3, 2))).tolist() == [[0, 1]] * 3


def test_inputs_of_any_kind_give_the_same():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    forest = random_forest(0)
    X = random_rows(0)
    expected = forest.apply(X)
    read_only = X.copy()
    read_only.flags.writeable = False
    for other in (
        X.tolist(),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=0)[::2],
        read_only,
        X.astype(object),
        pd.DataFrame(X),
        pl.DataFrame(X),
    ):
        assert np.array_equal(forest.apply(other), expected)
    integers = np.round(X).astype(np.int64)
    assert np.array_equal(forest.apply(integers), forest.apply(integers.astype(float)))


def test_no_rows():
    assert random_forest(0).apply(np.empty((0, 3))).shape == (0, 5)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((4, 2)), "X has 2 features, but the forest is expecting 3 features"),
        (np.zeros(3), None),
        (np.zeros((2, 2, 2)), None),
        ([["a", "b", "c"]], None),
        (np.full((2, 3), np.inf), None),
        (np.zeros((2, 3)) + 1j, None),
    ],
)
def test_bad_rows(X, message):
    with pytest.raises(ValueError, match=message):
        random_forest(0).apply(X)


def test_sparse_rows_are_refused_by_name():
    with pytest.raises(TypeError, match=r"Sparse X is not supported.*toarray"):
        random_forest(0).apply(sparse.csr_matrix(np.zeros((2, 3))))


@pytest.mark.parametrize(
    ("columns", "message"),
    [(["b", "a"], "order differs"), (["a", "z"], r"missing: \['b'\], unknown: \['z'\]")],
)
def test_columns_of_another_frame(columns, message):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(random_rows(0)[:, :2], columns=["a", "b"])
    forest = Forest.from_model(RandomForestRegressor(2, random_state=0).fit(frame, frame["a"]))
    with pytest.raises(ValueError, match=message):
        forest.apply(frame.set_axis(columns, axis=1))


def test_the_wrong_number_of_columns_with_categories():
    forest = Forest.from_trees(
        [Tree(left=[-1], right=[-1], feature=[0], threshold=[0])],
        n_features=2,
        categories={0: np.array(["a", "b"])},
    )
    assert forest.apply([["a", 1.0], ["z", 2.0]]).ravel().tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"must have 2 columns.*got shape \(1, 1\)"):
        forest.apply([["a"]])


def test_category_codes():
    values = np.array(["b", "z", None, np.nan, "a"], dtype=object)
    expected = [1, np.nan, np.nan, np.nan, 0]
    assert np.array_equal(category_codes(values, np.array(["a", "b"])), expected, equal_nan=True)
    assert category_codes(np.array([2.0, 1.0]), np.array([1, 2])).tolist() == [1, 0]


def test_leaf_ids_by_tree_are_read_only():
    leaf_ids = route.route(random_forest(0), random_rows(0))
    assert leaf_ids.flags.c_contiguous
    assert not leaf_ids.flags.writeable
