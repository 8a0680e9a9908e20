"""Tables with categories: how they are read, encoded for trees of numbers, and written as sets."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import is_classifier
from sklearn.datasets import load_diabetes
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import get_tags

from kpp import Forest
from kpp.forest import Ladders, ObliqueForestRegressor
from kpp.forest.coded import CodedRows, needs_reading
from kpp.forest.encoding import (
    MOST_BY_TARGET,
    MOST_CATEGORIES,
    Encoding,
    category_rank,
    target_columns,
)
from kpp.forest.grow import grow_forest, traits_of
from kpp.forest.layout import CATEGORICAL, NUMERICAL

ENSEMBLES = [
    ExtraTreesRegressor(6, random_state=0),
    RandomForestRegressor(6, max_features=0.5, random_state=0),
    ExtraTreesClassifier(6, random_state=0, min_samples_leaf=2),
    RandomTreesEmbedding(6, random_state=0),
    BaggingRegressor(DecisionTreeRegressor(), 5, max_features=0.6, random_state=0),
]


def random_table(seed, n_rows=80, missing=0.1):
    """A table of all kinds of columns, and a target of them; columns in any order."""
    rng = np.random.default_rng(seed)
    many = [f"c{k}" for k in range(rng.integers(12, 60))]
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n_rows),
            "few": rng.choice(["b", "a", "d", "c"], n_rows),
            "many": rng.choice(many, n_rows),
            "two": rng.choice(["yes", "no"], n_rows),
            "size": pd.Categorical(
                rng.choice(["low", "mid", "high"], n_rows),
                categories=["low", "mid", "never", "high"],
            ),
            "flag": rng.random(n_rows) < 0.5,
            "count": rng.integers(0, 5, n_rows),
        }
    )
    y = frame["x"] + 2.0 * frame["few"].isin(["a", "d"]) + frame["flag"] + rng.normal(size=n_rows)
    for name in ("x", "few", "many", "two", "size"):
        frame.loc[rng.random(n_rows) < missing, name] = None
    return frame[list(rng.permutation(frame.columns))], np.asarray(y)


def grown(estimator, frame, y):
    """A forest of the frame, its ensemble on encoded columns, and these for any rows."""
    rows = CodedRows.read(frame)
    forest = grow_forest(estimator, rows, y, feature_names=rows.names)
    traits = traits_of(estimator)
    learns = traits.supervised and not traits.by_columns_alone
    encoding = Encoding.of(
        rows,
        target_columns(y, classification=is_classifier(estimator)) if learns else None,
        by_name=traits.by_columns_alone,
        allows_nan=get_tags(estimator).input_tags.allow_nan,
    )
    return forest, estimator.fit(encoding.apply(rows), y), lambda f: encoded(encoding, f)


def encoded(encoding, frame):
    """Encoded columns by name alone, as a second way to what `Encoding.apply` does."""
    out = np.empty(frame.shape)
    for j, name in enumerate(frame):
        column = frame[name].tolist()
        if j not in encoding.tables:
            out[:, j] = [np.nan if pd.isna(v) else float(v) for v in column]
            continue
        known, table = encoding.categories[j].tolist(), encoding.tables[j]
        out[:, j] = [table[known.index(v)] if v in known else table[-1] for v in column]
    return out


@pytest.mark.parametrize("estimator", ENSEMBLES, ids=lambda e: type(e).__name__)
@given(seed=st.integers(0, 10**6), missing=st.sampled_from([0.0, 0.15]))
@settings(max_examples=10, deadline=None)
def test_leaves_are_those_of_the_encoded_columns(estimator, seed, missing):
    frame, y = random_table(seed, missing=missing)
    y = y > 1 if isinstance(estimator, ExtraTreesClassifier) else y
    forest, ensemble, encode = grown(estimator, frame, y)
    assert forest.n_features == 7
    assert forest.feature_names == tuple(frame.columns)
    # Rows of another table: categories that are not known, and values that miss where none did.
    other, _ = random_table(seed + 1, missing=missing)
    new = other[list(frame.columns)].copy()
    new["few"] = new["few"].replace({"a": "unheard of"})
    for table in (frame, new):
        X = encode(table).astype(np.float32)
        if isinstance(estimator, BaggingRegressor):
            columns = ensemble.estimators_features_
            leaves = [
                t.tree_.apply(np.ascontiguousarray(X[:, c]))
                for t, c in zip(ensemble.estimators_, columns, strict=True)
            ]
        else:
            leaves = [tree.tree_.apply(X) for tree in ensemble.estimators_]
        assert np.array_equal(forest.source_leaf[forest.apply(table)], np.transpose(leaves))
        assert np.array_equal(forest.apply(table), forest.apply(CodedRows.read(table)))
    # No column is split both ways: as numbers where it is one, otherwise as sets.
    names = np.array(forest.feature_names)
    numbers = ["x", "flag", "count"]
    assert set(names[forest.feature[forest.split_kind == NUMERICAL]]) <= set(numbers)
    assert not set(names[forest.feature[forest.split_kind == CATEGORICAL]]) & set(numbers)
    assert sorted(names[list(forest.categories)]) == ["few", "many", "size", "two"]


def test_statistics_and_bare_scores_stay():
    frame, y = random_table(0)
    forest, ensemble, encode = grown(ExtraTreesRegressor(5, random_state=0), frame, y)
    assert np.allclose(forest.bare_scores(frame)[:, 0], ensemble.predict(encode(frame)), rtol=1e-12)
    plain = Forest.from_model(ensemble)
    assert np.array_equal(forest.statistics.variance, plain.statistics.variance)
    assert np.array_equal(forest.left, plain.left)


def test_a_booster_of_scikit_learn_that_takes_no_missing_values():
    frame, y = random_table(0)
    with pytest.raises(ValueError, match="NaN"):  # of numbers: as ever
        grow_forest(GradientBoostingRegressor(n_estimators=3), CodedRows.read(frame), y)
    frame["x"] = frame["x"].fillna(0.0)
    forest, ensemble, encode = grown(GradientBoostingRegressor(n_estimators=9), frame, y)
    assert np.allclose(forest.bare_scores(frame)[:, 0], ensemble.predict(encode(frame)), rtol=1e-12)
    unknown = frame.assign(few="unheard of")
    assert np.array_equal(forest.apply(unknown), forest.apply(frame.assign(few=None)))
    with pytest.raises(ValueError, match="NaN"):
        forest.apply(frame.assign(x=np.nan))


def test_isolation_forest():
    frame, y = random_table(3)
    forest, ensemble, encode = grown(IsolationForest(n_estimators=5, random_state=0), frame, y)
    X = encode(frame).astype(np.float32)
    leaves = [tree.tree_.apply(X) for tree in ensemble.estimators_]
    assert np.array_equal(forest.source_leaf[forest.apply(frame)], np.transpose(leaves))


@pytest.mark.parametrize("n_categories", [5, 255, 256, 400])
def test_boosted_trees_know_the_categories_that_they_can(n_categories):
    rng = np.random.default_rng(0)
    code = rng.permutation(np.arange(20 * n_categories) % n_categories)
    frame = pd.DataFrame({"z": rng.normal(size=len(code)), "name": [f"{c:03d}" for c in code]})
    y = 9 * rng.normal(size=n_categories)[code] + frame["z"]
    boosted = HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=3)
    forest = grow_forest(boosted, CodedRows.read(frame), y)
    native = n_categories <= 255
    own = HistGradientBoostingRegressor(
        max_iter=5, min_samples_leaf=3, categorical_features=[1] if native else None
    )
    # All categories are equally frequent: those that are no longer known as such keep their order.
    X = np.column_stack([frame["z"], code])
    assert np.allclose(
        forest.bare_scores(frame)[:, 0], own.fit(X, y).predict(X), rtol=1e-12, atol=1e-14
    )
    assert len(forest.categories[1]) == n_categories
    assert set(forest.split_kind[forest.feature == 1]) == {CATEGORICAL}


def test_categorical_features_of_the_user():
    frame, y = random_table(0, n_rows=300)
    y = y + 5 * (frame["count"].to_numpy() % 2)
    kinds = {}
    for asked in ("from_dtype", None, ["count"], [list(frame.columns).index("count")]):
        boosted = HistGradientBoostingRegressor(
            max_iter=20, min_samples_leaf=2, categorical_features=asked
        )
        rows = CodedRows.read(frame)
        forest = grow_forest(boosted, rows, y, feature_names=rows.names)
        count = list(frame.columns).index("count")
        kinds[str(asked)] = set(forest.split_kind[forest.feature == count].tolist())
        assert (forest.split_kind == CATEGORICAL).any()
        assert np.array_equal(forest.apply(frame), forest.apply(rows))
    assert kinds.pop("from_dtype") == kinds.pop("None") == {NUMERICAL}
    assert all(kind == {CATEGORICAL} for kind in kinds.values())
    boosted = HistGradientBoostingRegressor(categorical_features=["absent"])
    with pytest.raises(ValueError, match="no column 'absent'"):
        grow_forest(boosted, rows, y)


def test_a_ladder_of_categories_is_one_tree_of_sets():
    frame, y = random_table(1)
    forest, _, _ = grown(Ladders(), frame, y)
    few = list(frame.columns).index("few")
    tree = np.flatnonzero(forest.feature[forest.roots] == few)
    assert len(tree) == 1
    leaves = forest.apply(frame)[:, tree[0]]
    # A leaf for each category, and one for what misses.
    groups = frame["few"].fillna("missing").to_numpy()
    assert len(set(leaves)) == len(set(zip(leaves, groups, strict=True))) == 5


def test_more_categories_than_a_split_holds():
    n_rows = MOST_CATEGORIES + 40
    names = [f"{k:05d}" for k in range(n_rows)]
    frame = pd.DataFrame({"id": [*names, *names[-30:]]})
    y = np.arange(len(frame), dtype=float)
    forest = grow_forest(ExtraTreesRegressor(2, random_state=0), CodedRows.read(frame), y)
    known = set(forest.categories[0].tolist())
    assert len(known) == MOST_CATEGORIES
    assert set(names[-30:]) <= known  # they are there twice
    unknown = sorted(set(names) - known)
    alike = forest.apply(pd.DataFrame({"id": [*unknown, None, "new"]}))
    assert (alike == alike[0]).all()


def test_rows_without_weight_do_not_count():
    frame, y = random_table(0, n_rows=120)
    keep = np.arange(120) < 60
    frame.loc[~keep, "few"] = "only there"
    ensemble = ExtraTreesRegressor(4, random_state=0)
    weighted = grow_forest(ensemble, CodedRows.read(frame), y, keep.astype(float))
    column = list(frame.columns).index("few")
    assert "only there" not in weighted.categories[column].tolist()
    unknown = frame.assign(few="unheard of")
    assert np.array_equal(weighted.apply(frame)[~keep], weighted.apply(unknown)[~keep])


def test_the_order_of_rows_does_not_count():
    frame, _ = random_table(0)
    rows = CodedRows.read(frame)
    again = CodedRows.read(frame.iloc[::-1])
    assert np.array_equal(rows.values[::-1], again.values, equal_nan=True)
    assert all(rows.categories[j].tolist() == again.categories[j].tolist() for j in rows.categories)


def test_what_is_read():
    frame = pd.DataFrame(
        {
            "text": ["b", None, "a"],
            "kind": pd.Categorical(["u", "w", None], categories=["w", "v", "u"]),
            "code": pd.Categorical([3, 1, 3]),
            "truth": [True, False, True],
            "maybe": pd.array([True, None, False], dtype="boolean"),
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "money": [Decimal("1.5"), None, Decimal(2)],
        }
    )
    rows = CodedRows.read(frame)
    nan = np.nan
    expected = [
        [1, nan, 0],
        [1, 0, nan],
        [1, 0, 1],
        [1, 0, 1],
        [1, nan, 0],
        [1, nan, 3],
        [1.5, nan, 2],
    ]
    assert np.array_equal(rows.values.T, np.array(expected), equal_nan=True)
    known = {j: values.tolist() for j, values in rows.categories.items()}
    assert known == {0: ["a", "b"], 1: ["w", "u"], 2: [1, 3]}
    assert np.array_equal(rows[[2, 0]].values, rows.values[[2, 0]], equal_nan=True)
    assert rows.shape == (3, 7)


def test_polars():
    frame = pl.DataFrame(
        {
            "text": ["b", None, "a"],
            "kind": pl.Series(["u", "w", None], dtype=pl.Enum(["w", "v", "u"])),
            "free": pl.Series(["u", "w", None], dtype=pl.Categorical),
            "maybe": [True, None, False],
            "whole": [1, None, 3],
        }
    )
    rows = CodedRows.read(frame)
    nan = np.nan
    expected = [[1, nan, 0], [1, 0, nan], [0, 1, nan], [1, nan, 0], [1, nan, 3]]
    assert np.array_equal(rows.values.T, np.array(expected), equal_nan=True)
    forest = grow_forest(ExtraTreesRegressor(3), rows, np.arange(3.0), feature_names=rows.names)
    assert np.array_equal(forest.apply(frame), forest.apply(frame.to_pandas()))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1, "a", None], "int and str"),
        (pd.to_datetime(["2020-01-01"] * 3), "dates or times"),
        (pd.to_timedelta([1, 2, 3]), "dates or times"),
        ([[1], [2], [3]], "list"),
        ([b"a", b"b", None], "bytes"),
        ([{}, {}, {}], "dict"),
    ],
)
def test_columns_that_are_neither(values, told):
    frame = pd.DataFrame({"fine": ["a", "b", "a"], "odd one": values})
    assert needs_reading(frame)
    with pytest.raises(ValueError, match=rf"column 'odd one' holds .*{told}"):
        CodedRows.read(frame)


def test_plain_tables_are_not_read():
    X, _ = load_diabetes(return_X_y=True, as_frame=True)
    assert not needs_reading(X)
    assert not needs_reading(X.to_numpy())
    assert not needs_reading(X.to_numpy().astype(str).astype(object))  # texts that are numbers
    assert not needs_reading(X.assign(truth=True))
    assert not needs_reading([["a"]])
    assert needs_reading(X.assign(sex="a"))


def test_a_given_forest_and_other_columns():
    frame, y = random_table(0)
    rows = CodedRows.read(frame)
    numbers = Forest.from_model(ExtraTreesRegressor(3, random_state=0).fit(rows.values, y))
    with pytest.raises(ValueError, match="as numbers, and it holds categories"):
        numbers.apply(rows)
    small = CodedRows.read(frame[["few", "x"]])
    with pytest.raises(ValueError, match="2 features"):
        numbers.apply(small)
    forest = grow_forest(ExtraTreesRegressor(3), rows, y, feature_names=rows.names)
    with pytest.raises(ValueError, match="order differs"):
        forest.apply(CodedRows.read(frame[list(frame.columns)[::-1]]))


def test_numbers_that_are_categories_of_the_given_forest():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"code": rng.integers(0, 6, 60), "name": rng.choice(["u", "v"], 60)})
    y = (frame["code"] % 2).to_numpy(dtype=float)
    boosted = HistGradientBoostingRegressor(
        max_iter=3, min_samples_leaf=2, categorical_features=["code", "name"]
    ).fit(frame, y)
    forest = Forest.from_model(boosted)
    scores = forest.bare_scores(CodedRows.read(frame))[:, 0]
    assert np.allclose(scores, boosted.predict(frame), rtol=1e-12)


def test_sums_of_columns_are_refused():
    frame, y = random_table(0)
    with pytest.raises(TypeError, match="cannot be added"):
        grow_forest(ObliqueForestRegressor(3), CodedRows.read(frame), y)


def test_few_categories_are_in_the_order_of_the_target():
    rng = np.random.default_rng(0)
    place = rng.permutation(np.arange(400) % 5)  # the last is none of the known ones
    effect = np.array([3.0, 1.0, 4.0, 2.0, 9.0])
    y = effect[place]
    weight = np.ones(400)
    rank = category_rank(place, 4, target_columns(y, classification=False), weight)
    assert rank.tolist() in ([2, 0, 3, 1], [1, 3, 0, 2])
    two = target_columns(y > rng.uniform(0, 5, 400), classification=True)
    assert category_rank(place, 4, two, weight).tolist() in ([2, 0, 3, 1], [1, 3, 0, 2])
    # Several targets that say the same, in any units.
    both = target_columns(np.column_stack([y, -1000 * y]), classification=False)
    assert category_rank(place, 4, both, weight).tolist() in ([2, 0, 3, 1], [1, 3, 0, 2])
    # Weights count: without those rows the first category is the largest.
    changed = np.where((place == 0) & (np.arange(400) < 200), -50.0, y)
    kept = np.where((place == 0) & (np.arange(400) < 200), 0.0, 1.0)
    target = target_columns(changed, classification=False)
    assert category_rank(place, 4, target, kept).tolist() in ([2, 0, 3, 1], [1, 3, 0, 2])
    assert category_rank(place, 4, target, weight).tolist() in ([0, 1, 3, 2], [3, 2, 0, 1])


def test_a_category_of_few_rows_is_near_the_mean_of_all():
    place = np.repeat([0, 1, 2], [200, 200, 1])
    y = np.repeat([0.0, 1.0, 5.0], [200, 200, 1])
    target = target_columns(y, classification=False)
    assert category_rank(place, 3, target, np.ones(401)).tolist() in ([0, 2, 1], [2, 0, 1])


def test_many_categories_are_in_the_order_of_their_rows():
    n_known = MOST_BY_TARGET + 1
    place = np.repeat(np.arange(n_known), np.arange(n_known) + 1)
    target = target_columns(np.sin(place), classification=False)
    rank = category_rank(place, n_known, target, np.ones(len(place)))
    assert rank.tolist() == list(range(n_known))[::-1]
    assert category_rank(place, n_known, None, np.ones(len(place))).tolist() == rank.tolist()


def test_a_declared_order_is_kept():
    sizes = ["low", "mid", "high"]
    frame = pd.DataFrame({"plain": sizes * 20, "size": pd.Categorical(sizes * 20, sizes)})
    frame["ordered"] = frame["size"].cat.as_ordered()
    y = np.array([1.0, 3.0, 2.0] * 20)
    encoding = Encoding.of(CodedRows.read(frame), target_columns(y, classification=False))
    known = {j: names.tolist() for j, names in encoding.categories.items()}
    assert known == {0: ["high", "low", "mid"], 1: sizes, 2: sizes}
    by_target = [dict(zip(known[j], encoding.tables[j], strict=False)) for j in range(3)]
    assert by_target[0] == by_target[1] != by_target[2]
    assert encoding.tables[2][:3].tolist() == [0, 1, 2]
    other = pl.DataFrame({"size": pl.Series(sizes, dtype=pl.Enum(sizes))})
    assert CodedRows.read(other).ordered == {0}
