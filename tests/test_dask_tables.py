"""`kpp.dask` on data frames with texts, categories, booleans and gaps."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import delayed
from dask_help import cluster_of
from numpy.testing import assert_allclose, assert_array_equal

import kpp
from kpp import KPPClassifier, KPPEmbedding, KPPRegressor
from kpp.dask import DaskKPPClassifier, DaskKPPRegressor
from kpp.dask.data import read_data
from kpp.dask.encodings import encodings_without_folds
from kpp.dask.folds import given_folds
from kpp.dask.growing import TreeGrower
from kpp.dask.session import Session
from kpp.forest.coded import CodedRows
from kpp.forest.encoding import Encoding, target_columns
from kpp.forest.grow import named_forest
from kpp.forest.layout import CATEGORICAL

pytestmark = pytest.mark.filterwarnings("ignore")
FEW = {"n_estimators": 4, "alpha": 0.5, "random_state": 0}


@pytest.fixture(scope="module")
def client():
    with cluster_of(1) as (_, own):
        yield own


def table(n_rows=240, seed=0):
    """Numbers, texts, declared categories and booleans, most with gaps; and a target of them."""
    rng = np.random.default_rng(seed)
    towns = pd.Series(rng.choice(["north", "south", "east", "west"], n_rows))
    size = rng.choice(["low", "mid", "high"], n_rows)
    order = ["low", "mid", "never", "high"]
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n_rows),
            "town": towns,
            "size": pd.Categorical(size, categories=order, ordered=True),
            "smokes": rng.random(n_rows) < 0.5,
            "visits": pd.array(rng.integers(0, 9, n_rows), dtype="Int64"),
        }
    )
    y = frame["age"] / 10 + 3.0 * towns.isin(["south", "west"]) + 2.0 * frame["smokes"]
    y += frame["size"].cat.codes + rng.normal(size=n_rows)
    for name in ("age", "town", "size", "visits"):
        frame.loc[rng.random(n_rows) < 0.1, name] = None
    frame.loc[: n_rows // 4, "town"] = None  # a whole partition without a text
    return frame, y


def cut(frame, n=4):
    return dd.from_pandas(frame, npartitions=n, sort=False)


@pytest.fixture(scope="module")
def fitted(client):
    frame, y = table()
    model = DaskKPPRegressor(client=client, **FEW).fit(cut(frame), cut(y))
    return model, frame, y


def test_rows_reach_the_leaves_that_the_ordinary_model_sends_them_to(fitted):
    model, frame, y = fitted
    local = model.to_local()
    forest = local.forest_
    assert_array_equal(local.map_.leaf_ids, forest.apply(frame).T)
    assert sorted(forest.categories) == [1, 2]
    on_names = np.isin(forest.feature, [1, 2]) & ~forest.is_leaf
    assert on_names.any()
    assert (forest.split_kind[on_names] == CATEGORICAL).all()
    assert local.score(frame, y) > 0.5
    unknown, missing = (local.predict(frame.assign(town=value)) for value in ("new", None))
    assert_array_equal(unknown, missing)


def test_what_a_fit_remembers_is_that_of_one_machine(fitted):
    model, frame, y = fitted
    local = model.to_local()
    alone = KPPRegressor("extra-trees", **FEW).fit(frame, y)
    assert_array_equal(local.row_fingerprints_, alone.row_fingerprints_)
    assert_array_equal(local.missing_columns_, alone.missing_columns_)
    assert_array_equal(local.feature_names_in_, alone.feature_names_in_)
    # Numbers that may miss by a type of their own are numbers; of texts there is no spread.
    assert_allclose(local.feature_spread_[:4], alone.feature_spread_[:4], rtol=1e-12)
    assert_allclose(local.feature_spread_[4], frame["visits"].astype(float).std(ddof=0))


def test_answers_are_columns_of_a_pipeline(fitted, tmp_path):
    model, frame, _ = fitted
    local, rows = model.to_local(), cut(frame, 3)
    guess = model.predict(rows)
    assert guess._meta.dtype == np.float64
    table = rows.assign(guess=guess)[["town", "guess"]].compute()
    assert_array_equal(table["guess"], local.predict(frame))
    share = model.explain(rows)
    assert list(share._meta.columns) == list(frame.columns)
    assert_allclose(share.compute(), kpp.explain(local, frame).values, rtol=0, atol=1e-12)
    # A partition from which all rows have gone.
    none = rows[rows["age"] > 1e9]
    assert len(model.predict(none).compute()) == 0
    back = kpp.load(kpp.save(local, tmp_path / "model.kpp"))
    assert_array_equal(back.predict(frame), local.predict(frame))


def test_a_given_forest_of_categories_gives_the_fit_of_one_machine(client):
    frame, y = table()
    labels = np.where(y > y.median(), "high", "low")
    grown = KPPEmbedding("extra-trees", n_estimators=4, random_state=0)
    forest = grown.fit(frame[::2], labels[::2]).forest_
    options = {"alpha": 1e-3, "tol": 1e-8}
    alone = KPPClassifier(forest, regime="fixed", **options).fit(frame, labels)
    model = DaskKPPClassifier(forest, client=client, **options)
    model.fit(cut(frame, 3), cut(pd.Series(labels), 3))
    assert_array_equal(model.model_.map_.leaf_ids, alone.map_.leaf_ids)
    # The solver stops at 1e-8 of the objective: probabilities agree to about its root.
    ours, theirs = (m.predict_proba(frame) for m in (model.model_, alone))
    assert_allclose(ours, theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("task", ["numbers", "classes"])
def test_the_order_of_categories_is_that_of_the_rows_without_the_fold(client, task):
    frame, y = table()
    y = y if task == "numbers" else pd.Series(np.array(["a", "b", "c"])[np.digitize(y, [6, 9])])
    weight = pd.Series(np.random.default_rng(3).choice([0.0, 0.5, 2.0], len(y)))
    fold = np.arange(len(y)) % 2
    session = Session(client)
    is_classes = task == "classes"
    rows, target, weights = cut(frame), cut(y), cut(weight)
    data = read_data(session, rows, target, weights, classification=is_classes)
    folds, _ = given_folds(data, cut(pd.Series(fold)), rows)
    spec = named_forest("lightgbm", classification=is_classes, n_rows=len(y), n_classes=3)
    found = encodings_without_folds(data, folds, 2, spec, "lightgbm")
    session.close()
    coded = CodedRows.read(frame)
    for q, own in enumerate(found):
        left = np.flatnonzero(fold != q)
        columns = target_columns(y.iloc[left], classification=is_classes)
        expected = Encoding.of(coded[left], columns, weight.iloc[left])
        assert sorted(own.tables) == [1, 2]
        for j, ranks in expected.tables.items():
            assert_array_equal(own.tables[j], ranks)
            assert_array_equal(own.categories[j], expected.categories[j])


@pytest.mark.parametrize("forest", ["extra-trees", "lightgbm"])
def test_trees_of_a_fold_know_nothing_of_its_rows(client, forest):
    frame, y = table()
    fold = pd.Series(np.arange(len(y)) % 2)
    changed, y_changed = frame.copy(), y.copy()
    changed.loc[fold == 0, "town"] = "only in this fold"
    y_changed[fold == 0] = 100.0 * (frame["size"] == "mid")[fold == 0]
    leaves = []
    for X, target in ((frame, y), (changed, y_changed)):
        session = Session(client)
        data = read_data(session, cut(X, 2), cut(target, 2), None, classification=False)
        folds, _ = given_folds(data, cut(fold, 2), cut(X, 2))
        groups = TreeGrower(data, False, 4, 1, False, folds, 2).grow(forest, 0)
        session.close()
        leaves.append([group.apply(frame) for group in groups])
    (first, second), (first_changed, second_changed) = leaves
    assert_array_equal(first, first_changed)
    assert not np.array_equal(second, second_changed)


def test_partitions_with_categories_of_their_own(client):
    frame, y = table(120)
    plain = frame.assign(town=frame["town"].fillna("gone"))
    # As a reader of files has them: every partition declares what it has found.
    own = cut(plain, 3).map_partitions(lambda part: part.astype({"town": "category"}))
    target = cut(y, 3)
    model = DaskKPPRegressor(client=client, **FEW).fit(own, target)
    same = DaskKPPRegressor(client=client, **FEW).fit(cut(plain, 3), target)
    assert_array_equal(model.to_local().predict(plain), same.to_local().predict(plain))
    kinds = [pd.CategoricalDtype(order, ordered=True) for order in (["a", "b"], ["b", "a"])]
    parts = [pd.DataFrame({"x": pd.Categorical(["a", "b"], dtype=kind)}) for kind in kinds]
    texts, numbers = pd.DataFrame({"x": ["a", "b"]}, dtype=object), pd.DataFrame({"x": [1, 2]})
    dates = pd.DataFrame({"x": pd.date_range("2020-01-01", periods=2)})
    target = cut(pd.Series(np.arange(4.0)), 2)
    for own, told in (
        ((texts, numbers.astype(object)), "'x' holds texts in some partitions"),
        ((dates, dates), "'x' holds dates"),
        (parts, "'x' declares an order"),
    ):
        with dask.config.set({"dataframe.convert-string": False}):
            rows = dd.from_delayed([delayed(part) for part in own], verify_meta=False)
            with pytest.raises(ValueError, match=told):
                DaskKPPRegressor(client=client, **FEW).fit(rows, target)
