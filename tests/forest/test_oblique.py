"""Oblique splits: sums of columns, and the learner that makes them."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks
from zoo import obvious_path, random_forest, random_rows

from kpp import Forest, KPPClassifier, KPPEmbedding, KPPRegressor
from kpp.forest import ObliqueForestClassifier, ObliqueForestRegressor, Tree
from kpp.forest.columns import column_shares, terms_of
from kpp.forest.derived import let_go
from kpp.forest.join import check_one_reading, join_forests

X, Y = load_diabetes(return_X_y=True)


def oblique_stump(columns, weights, threshold=0.0, missing_left=False, **attributes):
    tree = Tree(
        left=[1, -1, -1],
        right=[2, -1, -1],
        feature=[-1] * 3,
        threshold=[threshold] * 3,
        missing_left=[missing_left] * 3,
        oblique={0: (columns, weights)},
    )
    return Forest.from_trees([tree], n_features=3, **attributes)


def leaves_in(forest, rows):
    return forest.apply(rows).ravel().tolist()


def test_the_sum_is_taken_in_stored_order():
    # 1e16 swallows the 1 unless it comes last: of the six orders two give 1, four give 0.
    left = {}
    for order in permutations(range(3)):
        weights = np.array([1e16, 1.0, -1e16])[list(order)]
        forest = oblique_stump(order, weights, threshold=0.5)
        left[order] = leaves_in(forest, [[1.0, 1.0, 1.0]]) == [1]
    assert {order for order, goes in left.items() if not goes} == {(0, 2, 1), (2, 0, 1)}


def test_products_are_rounded_before_they_are_added():
    # Exactly, (1 + u)(1 - u) - 1 = -u^2; a product that is rounded first gives 0.
    u = 2.0**-30
    forest = oblique_stump([0, 1], [-1.0, 1.0 + u], threshold=-(2.0**-70))
    assert leaves_in(forest, [[1.0, 1.0 - u, 0.0]]) == [2]


@pytest.mark.parametrize("missing_left", [False, True])
def test_a_row_that_misses_a_column_is_missing(missing_left):
    forest = oblique_stump([0, 2], [1.0, -1.0], missing_left=missing_left, allows_infinity=True)
    nan, inf = np.nan, np.inf
    rows = [[nan, 9.0, -5.0], [-5.0, 9.0, nan], [nan, nan, nan], [inf, 0.0, inf]]
    assert leaves_in(forest, rows) == [1 if missing_left else 2] * 4
    # Finite numbers may overflow to both infinities.
    huge = oblique_stump([0, 2], [4.0, -4.0], missing_left=missing_left)
    assert leaves_in(huge, [[1e308, 0.0, 1e308]]) == [1 if missing_left else 2]
    # A missing value elsewhere plays no part; nor does an infinite one that decides.
    assert leaves_in(forest, [[0.0, nan, 0.0], [1.0, nan, 0.0]]) == [1, 2]
    assert leaves_in(forest, [[-inf, 0.0, 3.0], [inf, 0.0, 3.0]]) == [1, 2]


def test_equality_goes_left():
    forest = oblique_stump([0, 1], [0.5, 0.25], threshold=0.75)
    above = np.nextafter(1.0, 2.0)
    assert leaves_in(forest, [[1.0, 1.0, 9.0], [above, 1.0, 9.0]]) == [1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_all_kinds_of_splits_side_by_side(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(seed, most_splits=30, oblique=0.5)
    rows = random_rows(seed, 200)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    leaf_ids = forest.apply(rows)
    assert set(np.unique(forest.split_kind)) == {0, 1, 3}
    for i, x in enumerate(rows):
        assert [obvious_path(forest, x, t)[-1] for t in range(5)] == leaf_ids[i].tolist()


@pytest.mark.parametrize("seed", range(4))
def test_one_row_goes_where_it_goes_among_many(seed):
    forest = random_forest(seed, n_trees=30, oblique=0.7)
    rows = random_rows(seed, 80)
    many = forest.apply(rows)
    kinds = forest.split_kind.copy()
    let_go(forest)
    assert np.array_equal(np.vstack([forest.apply(row[None]) for row in rows]), many)
    assert "parent" not in vars(forest)  # no walk down needs it, oblique or not
    assert np.array_equal(forest.split_kind, kinds)
    for i in (0, 79):
        for tree in range(forest.n_trees):
            assert many[i, tree] == obvious_path(forest, rows[i], tree)[-1]


def test_categories_beside_sums():
    tree = Tree(
        left=[1, -1, 3, -1, -1],
        right=[2, -1, 4, -1, -1],
        feature=[0, -1, -1, -1, -1],
        threshold=[0.0, 0.0, 0.5, 0.0, 0.0],
        left_categories={0: [0, 33]},
        oblique={2: ([1, 2], [1.0, -1.0])},
    )
    forest = Forest.from_trees([tree], n_features=3)
    rows = [[33, 9, 9], [1, 2, 1.5], [1, 2, 1], [np.nan, 2, 1]]
    assert leaves_in(forest, rows) == [1, 3, 4, 4]


def changed(forest, name, place, value):
    array = getattr(forest, name).copy()
    array[place] = value
    return replace(forest, **{name: array})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("term_columns", 3, "outside the 3 columns"),
        ("term_columns", -1, "outside the 3 columns"),
        ("term_columns", 2, "each once"),
        ("term_weights", 0.0, "finite and not 0"),
        ("term_weights", np.inf, "finite and not 0"),
        ("term_weights", np.nan, "finite and not 0"),
        ("threshold", np.nan, "NaN"),
        ("term_shares", 0.6, "add up to 1"),
        ("term_shares", -0.5, "add up to 1"),
        ("feature", 0, "-2"),
    ],
)
def test_wrong_terms_are_refused(name, value, message):
    forest = oblique_stump([0, 2], [1.0, 1.0])
    with pytest.raises(ValueError, match=f"not a forest: .*{message}"):
        changed(forest, name, 0, value)


def test_what_else_is_no_oblique_split():
    with pytest.raises(ValueError, match="at least two columns"):
        oblique_stump([0], [1.0])
    with pytest.raises(ValueError, match="one weight"):
        oblique_stump([0, 1], [1.0])
    with pytest.raises(ValueError, match="compared in float64"):
        oblique_stump([0, 1], [1.0, 1.0], dtype=np.float32)


def test_trees_are_taken_and_joined():
    plain, oblique = random_forest(0), random_forest(1, oblique=0.7)
    rows = random_rows(3, 100)
    leaves = oblique.apply(rows)
    for trees in ([3, 0, 3], slice(1, 4), [int(np.flatnonzero(np.diff(oblique.tree_offsets))[0])]):
        some = oblique.take_trees(trees)
        assert np.array_equal(
            some.source_leaf[some.apply(rows)], oblique.source_leaf[leaves][:, trees]
        )
    for parts in ([plain, oblique], [oblique, plain], [oblique, oblique]):
        both = Forest.concatenate(parts)
        expected = np.hstack([part.source_leaf[part.apply(rows)] for part in parts])
        assert np.array_equal(both.source_leaf[both.apply(rows)], expected)
        again = Forest.concatenate([both.take_trees(slice(0, 5)), both.take_trees(slice(5, 10))])
        for name in ("term_offsets", "term_columns", "term_weights", "term_shares"):
            assert np.array_equal(getattr(again, name), getattr(both, name))
    assert len(Forest.concatenate([plain, plain]).term_offsets) == 0
    tree = int(np.argmax([not (plain.split_kind == 3).any()]))
    assert len(Forest.concatenate([plain, oblique]).take_trees([tree]).term_offsets) == 0


def test_a_single_precision_forest_beside_an_oblique_one():
    stump = Tree([1, -1, -1], [2, -1, -1], [0] * 3, [1.0] * 3)
    single = Forest.from_trees([stump], n_features=3, dtype=np.float32)
    oblique = oblique_stump([0, 1], [1.0, 1.0], threshold=1.0)
    both = join_forests([single, oblique])
    # The first rounds to 1 in single precision; its sum is above 1 in double precision.
    rows = np.array([[1 + 2.0**-30, 0.0, 0.0], [1 + 2.0**-20, -1.0, 0.0]])
    assert (both.apply(rows) - both.roots).tolist() == [[1, 2], [2, 1]]


def test_a_column_of_categories_elsewhere_is_no_number_here():
    oblique = oblique_stump([0, 2], [1.0, 1.0])
    tree = Tree([1, -1, -1], [2, -1, -1], [2] * 3, [0.0] * 3, left_categories={0: [1]})
    other = Forest.from_trees([tree], n_features=3, categories={2: np.array(["a", "b"])})
    with pytest.raises(TypeError, match="Column 2"):
        check_one_reading([oblique, other])


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_shares_of_columns(share):
    forest = random_forest(4, oblique=share)
    node, column, part = column_shares(forest)
    listed = {}
    for v, j, s in zip(node.tolist(), column.tolist(), part.tolist(), strict=True):
        listed.setdefault(v, {})[j] = s
    for v in range(forest.n_nodes):
        above = forest.parent[v]
        if above < 0:
            assert v not in listed
        elif forest.split_kind[above] == 3:
            terms = terms_of(forest, above)
            total = sum(abs(a) for _, a in terms)
            assert listed[v] == pytest.approx({j: abs(a) / total for j, a in terms})
        else:
            assert listed[v] == {int(forest.feature[above]): 1.0}


# The learner


FORESTS = {
    "blocks of two": ObliqueForestRegressor(7, random_state=0),
    "blocks of three": ObliqueForestRegressor(7, block_size=3, random_state=0),
    "some columns": ObliqueForestRegressor(7, rotated=0.5, random_state=1),
    "best splits": ObliqueForestRegressor(
        7, tree=DecisionTreeRegressor(max_features=3, min_samples_leaf=3), random_state=0
    ),
    "bootstrap": ObliqueForestRegressor(7, bootstrap=True, random_state=0),
    "classes": ObliqueForestClassifier(7, random_state=0),
    "classes, entropy": ObliqueForestClassifier(
        7, tree=DecisionTreeClassifier(criterion="entropy"), bootstrap=True, random_state=0
    ),
}


def rows_and_target(name, with_nan=False):
    rows = X.copy()
    if with_nan:
        rows[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    return rows, np.digitize(Y, [90, 200]) if "classes" in name else Y


def leaves_on_rotated_columns(model, rows):
    members = zip(model.estimators_, model.rotations_, strict=True)
    return np.column_stack([tree.apply(rotation.apply(rows)) for tree, rotation in members])


def beside_sums(forest, rows, seed=0):
    """Rows moved along one column until a sum is at its threshold, or a few ulps beside."""
    rng = np.random.default_rng(seed)
    moved = rows[rng.integers(0, len(rows), 600)].copy()
    for i, v in enumerate(rng.choice(np.flatnonzero(forest.split_kind == 3), len(moved))):
        terms = terms_of(forest, v)
        j, a = terms[rng.integers(len(terms))]
        rest = sum(b * moved[i, k] for k, b in terms if k != j)
        value = (forest.threshold[v] - rest) / a
        moved[i, j] = value + rng.integers(-3, 4) * np.spacing(abs(value))
    return moved


@pytest.mark.parametrize("with_nan", [False, True])
@pytest.mark.parametrize("name", FORESTS)
def test_leaves_are_those_of_the_trees_on_rotated_columns(name, with_nan):
    rows, y = rows_and_target(name, with_nan)
    model = clone(FORESTS[name]).fit(rows, y)
    forest = Forest.from_model(model)
    assert forest is model.forest_
    assert (forest.split_kind == 3).any()
    assert np.diff(forest.term_offsets).max() == model.block_size
    tried = np.concatenate([rows, beside_sums(forest, rows[~np.isnan(rows).any(axis=1)])])
    expected = leaves_on_rotated_columns(model, tried)
    assert np.array_equal(forest.source_leaf[forest.apply(tried)], expected)
    assert np.array_equal(model.apply(tried), expected)


def test_thresholds_of_single_precision_are_met_exactly():
    # Rounded to float32 a sum may cross the tree's own threshold: those are the rows to look at.
    model = ObliqueForestRegressor(20, random_state=0).fit(X, Y)
    forest = model.forest_
    n_crossed = 0
    for k, (tree, rotation) in enumerate(zip(model.estimators_, model.rotations_, strict=True)):
        v = int(forest.roots[k])
        columns, weights = zip(*terms_of(forest, v), strict=True)
        t = tree.tree_.threshold[0]
        # One free column: sums at and around the threshold in single and in double precision.
        z = np.float32(t) + np.arange(-300, 301) * np.spacing(np.float32(t), dtype=np.float32) / 100
        rows = np.zeros((len(z), 10))
        rows[:, columns[0]] = np.asarray(z, dtype=np.float64) / weights[0]
        total = rotation.apply(rows)[:, tree.tree_.feature[0]]
        # Widened again: NumPy 1 would compare in single precision.
        goes_left = total.astype(np.float32).astype(np.float64) <= t
        n_crossed += (goes_left != (total <= t)).sum()
        child = forest.take_trees([k])
        first_left = child.left[0]
        below_left = set()
        queue = [int(first_left)]
        while queue:
            u = queue.pop()
            below_left.add(u)
            if child.left[u] >= 0:
                queue += [int(child.left[u]), int(child.left[u]) + 1]
        went = np.isin(child.apply(rows)[:, 0], list(below_left))
        assert np.array_equal(went, goes_left)
    assert n_crossed > 0


@pytest.mark.parametrize("name", FORESTS)
def test_the_forest_predicts_the_mean_of_its_trees(name):
    rows, y = rows_and_target(name)
    model = clone(FORESTS[name]).fit(rows, y)
    members = list(zip(model.estimators_, model.rotations_, strict=True))
    if "classes" in name:
        shares = np.mean([t.predict_proba(r.apply(rows)) for t, r in members], axis=0)
        np.testing.assert_allclose(model.predict_proba(rows), shares, rtol=0, atol=1e-15)
        assert (model.predict(rows) == model.classes_[shares.argmax(axis=1)]).all()
    else:
        mean = np.mean([t.predict(r.apply(rows)) for t, r in members], axis=0)
        np.testing.assert_allclose(model.predict(rows), mean, rtol=1e-14)


def test_rotations_keep_lengths():
    model = ObliqueForestRegressor(5, block_size=3, rotated=0.6, random_state=0).fit(X, Y)
    spread = X.std(axis=0)
    for rotation in model.rotations_:
        matrix = np.zeros((10, 10))
        for k, (columns, weights) in enumerate(
            zip(rotation.columns, rotation.weights, strict=True)
        ):
            matrix[k, columns] = weights * (spread[columns] if len(columns) > 1 else 1.0)
            expected = np.abs(matrix[k, columns]) / np.abs(matrix[k, columns]).sum()
            np.testing.assert_allclose(rotation.shares[k], expected, rtol=1e-12)
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(10), atol=1e-12)
        assert sorted(len(columns) for columns in rotation.columns) == [1] * 4 + [3] * 6


def test_threads_and_seeds():
    one = ObliqueForestRegressor(6, random_state=3).fit(X, Y)
    two = ObliqueForestRegressor(6, random_state=3, n_jobs=2).fit(X, Y)
    assert np.array_equal(one.predict(X), two.predict(X))
    other = ObliqueForestRegressor(6, random_state=4).fit(X, Y)
    assert not np.array_equal(one.apply(X), other.apply(X))


def test_constant_columns_and_one_column():
    rows = np.column_stack([X[:, 2], np.full(len(X), 7.0), np.full(len(X), 1e-320)])
    model = ObliqueForestRegressor(5, block_size=3, random_state=0).fit(rows, Y)
    assert np.array_equal(model.apply(rows), leaves_on_rotated_columns(model, rows))
    single = ObliqueForestRegressor(5, random_state=0).fit(rows[:, :1], Y)
    assert set(np.unique(single.forest_.split_kind)) == {0, 1}


def test_weights_of_zero_are_rows_that_are_not_there():
    weight = np.ones(len(X))
    weight[::3] = 0
    strange = X.copy()
    strange[::3] *= 1e6
    one = ObliqueForestRegressor(3, random_state=0).fit(X, Y, weight)
    two = ObliqueForestRegressor(3, random_state=0).fit(strange, Y, weight)
    for a, b in zip(one.rotations_, two.rotations_, strict=True):
        assert all(np.array_equal(v, w) for v, w in zip(a.weights, b.weights, strict=True))


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_estimators": 0}, ValueError, "n_estimators"),
        ({"n_estimators": True}, ValueError, "n_estimators"),
        ({"block_size": 1}, ValueError, "block_size"),
        ({"rotated": 1.5}, ValueError, "rotated"),
        ({"rotated": "all"}, ValueError, "rotated"),
        ({"tree": Ridge()}, TypeError, "ExtraTreeRegressor"),
        ({"tree": DecisionTreeClassifier()}, TypeError, "ExtraTreeRegressor"),
    ],
)
def test_wrong_parameters(parameters, error, message):
    with pytest.raises(error, match=message):
        ObliqueForestRegressor(**parameters).fit(X, Y)


def expected_failures(estimator):
    return {
        # Random thresholds depend on the number of rows, weighted or repeated.
        "check_sample_weight_equivalence_on_dense_data": "random splits are drawn by row",
    }


@parametrize_with_checks(
    [ObliqueForestRegressor(5, random_state=0), ObliqueForestClassifier(5, random_state=0)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit", "cross-validated"])
def test_models_on_oblique_forests(regime):
    model = KPPRegressor(
        ObliqueForestRegressor(10), alpha=1.0, regime=regime, cv=3, random_state=0
    ).fit(X, Y)
    phi = model.map_.on(X[:20])
    dense = phi.to_csr().toarray()
    squares = np.square(dense[:, None] - dense[None]).sum(axis=2)
    np.testing.assert_allclose(phi.distances(), squares, atol=1e-14)
    assert (np.square(dense).sum(axis=1) <= 1 + 1e-14).all()
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_other_estimators_take_them():
    rows, labels = load_iris(return_X_y=True)
    model = KPPClassifier(ObliqueForestClassifier(10), cv=3, random_state=0).fit(rows, labels)
    assert model.score(rows, labels) > 0.9
    embedding = KPPEmbedding(ObliqueForestRegressor(5, tree=ExtraTreeRegressor(max_depth=3)))
    assert embedding.fit(X, Y).transform(X[:3]).shape[0] == 3
    two = KPPRegressor(ObliqueForestRegressor(5), alpha=1.0, random_state=0)
    assert two.fit(X, np.column_stack([Y, -Y])).predict(X[:3]).shape == (3, 2)
