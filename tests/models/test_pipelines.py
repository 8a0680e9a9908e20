"""Models with a preparation: taken apart, and prepared columns brought home."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from skrub import TableVectorizer

from kpp import KPPClassifier, KPPRegressor
from kpp.models import predict_interval, predict_set
from kpp.models.pipelines import (
    as_rows,
    prepared,
    prepared_names,
    raw_columns,
    source_columns,
    split_pipeline,
    sum_by_source,
)


def regressor():
    return KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0)


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    n = 60
    return pd.DataFrame(
        {
            "c": random.choice(["x", "y", None], n),
            "c_x": [None] * n,
            "c_y": random.normal(size=n),
            "d": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n), "D"),
            "t": [f"a text of number {k}" for k in range(n)],
        }
    ), random.normal(size=n)


def test_split_pipeline(table):
    X, y = table
    X = X[["c_y", "d"]].assign(d=lambda f: f["d"].dt.day)
    scaled = make_pipeline(StandardScaler(), regressor()).fit(X, y)
    assert split_pipeline(scaled) == (scaled[0], scaled[-1])
    alone = make_pipeline(regressor()).fit(X, y)
    assert split_pipeline(alone) == (None, alone[-1])
    assert split_pipeline(alone[-1]) == (None, alone[-1])
    skipped = Pipeline([("a", "passthrough"), ("b", None), ("m", regressor())]).fit(X, y)
    assert split_pipeline(skipped)[0] is None
    two = make_pipeline(StandardScaler(), PCA(2), regressor()).fit(X, y)
    preparation, inner = split_pipeline(two)
    assert (inner.predict(prepared(preparation, X)) == two.predict(X)).all()


@pytest.mark.parametrize(
    "thing", [Ridge(), make_pipeline(Ridge()), "model.kpp", None, Pipeline([])]
)
def test_other_things_are_refused(thing):
    with pytest.raises(TypeError, match="KPPRegressor or KPPClassifier"):
        split_pipeline(thing)


def test_unfitted_models_are_refused():
    for thing in (regressor(), make_pipeline(StandardScaler(), regressor())):
        with pytest.raises(NotFittedError):
            split_pipeline(thing)


def test_sources_by_what_the_preparation_does(table):
    """Change one column at a time: the prepared columns that change are those made of it."""
    X, y = table
    model = make_pipeline(TableVectorizer(), regressor()).fit(X, y)
    preparation, inner = split_pipeline(model)
    names = prepared_names(preparation, inner)
    sources = source_columns(preparation, X.columns, names)
    before = prepared(preparation, X)
    assert list(before.columns) == names
    for column in ("c", "c_y", "d", "t"):
        # Another order of the rows: every value stays known.
        moved = X.assign(**{column: X[column].to_numpy()[::-1]})
        after = prepared(preparation, moved)
        changed = [n for n in names if not before[n].equals(after[n])]
        assert changed
        assert {s for n, s in zip(names, sources, strict=True) if n in changed} == {column}
    # "c_x" is empty and dropped; the prepared column of that name is a category of "c".
    assert sources[names.index("c_x")] == "c"
    assert "c_x" not in sources


def test_sources_of_other_preparations(table):
    X, y = table
    X = X[["c", "c_y"]].fillna({"c": "z"})
    columns = ColumnTransformer(
        [("hot", OneHotEncoder(sparse_output=False), ["c"]), ("num", StandardScaler(), ["c_y"])]
    )
    model = make_pipeline(columns, regressor()).fit(X, y)
    preparation, inner = split_pipeline(model)
    names = prepared_names(preparation, inner)
    assert names == ["hot__c_x", "hot__c_y", "hot__c_z", "num__c_y"]
    # By name alone "hot__c_y" is the column "c_y": there the longest name wins.
    assert source_columns(preparation, X.columns, names) == ["c", "c_y", "c", "c_y"]
    chain = make_pipeline(TableVectorizer(), StandardScaler().set_output(transform="pandas"))
    chain = make_pipeline(*[step for _, step in chain.steps], regressor()).fit(table[0], y)
    preparation, inner = split_pipeline(chain)
    names = prepared_names(preparation, inner)
    found = source_columns(preparation, table[0].columns, names)
    assert found == source_columns(chain[0], table[0].columns, names)
    assert source_columns(None, ["a"], ["a", "b"]) == ["a", "b"]
    assert source_columns(PCA(), ["pca", "b"], ["pca0", "pca1"]) == ["pca0", "pca1"]


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3)])
def test_sums_by_source(shape):
    values = np.random.default_rng(0).integers(-8, 8, shape).astype(float)
    sources = ["b", "a", "b", "c", "a"]
    names, sums = sum_by_source(values, sources)
    assert names == ["b", "a", "c"]
    for k, name in enumerate(names):
        own = [j for j, source in enumerate(sources) if source == name]
        assert (sums[:, k] == values[:, own].sum(axis=1)).all()
    assert (sums.sum(axis=1) == values.sum(axis=1)).all()
    names, same = sum_by_source(values, list("edcba"))
    assert same is values


def test_one_row_in_any_form(table):
    X, y = table
    model = make_pipeline(TableVectorizer(), regressor()).fit(X, y)
    preparation, inner = split_pipeline(model)
    names = raw_columns(preparation, inner)
    assert names == list(X.columns)
    expected = prepared(preparation, X.iloc[[3]])
    row = X.iloc[3]
    for one in (row, row[::-1], row.to_dict(), {"more": 1} | row.to_dict()):
        rows = as_rows(one, names)
        assert list(rows.columns) == names
        assert prepared(preparation, rows).to_numpy().tolist() == expected.to_numpy().tolist()
    assert as_rows(X, names) is X
    with pytest.raises(ValueError, match=r"lacks \['c_y'\]"):
        as_rows(row.drop("c_y"), names)


def test_one_row_without_names(table):
    X, y = table[0][["c_y"]].assign(k=1.0), table[1]
    inner = regressor().fit(X.to_numpy(), y)
    assert raw_columns(None, inner) is None
    expected = X.to_numpy()[:1].tolist()
    for one in (X.iloc[0], X.to_numpy()[0], X.to_numpy()[0].tolist(), tuple(X.to_numpy()[0])):
        assert np.asarray(as_rows(one, None)).tolist() == expected
    for many in (X.to_numpy(), X.to_numpy().tolist(), X):
        assert as_rows(many, None) is many
    with pytest.raises(ValueError, match="Give the row as an array"):
        as_rows({"c_y": 1.0}, None)
    chain = make_pipeline(StandardScaler(), PCA(1), regressor()).fit(X, y)
    assert raw_columns(*split_pipeline(chain)) == ["c_y", "k"]


# Intervals and sets.


def test_intervals_of_raw_rows_are_those_of_prepared_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = X[:, 0] + rng.normal(size=90)
    settings = {"regime": "cross-validated", "n_estimators": 6, "cv": 3, "random_state": 0}
    model = KPPRegressor("extra-trees", **settings, alphas=[0.1])
    whole = make_pipeline(StandardScaler(), model).fit(X, y)
    new = rng.normal(size=(5, 3))
    found = predict_interval(whole, new, 0.8, width="constant")
    own = whole[-1].predict_interval(whole[0].transform(new), 0.8, width="constant")
    np.testing.assert_array_equal(found.lower, own.lower)
    np.testing.assert_array_equal(found.upper, own.upper)
    assert own.is_guarantee
    assert [a.name for a in found.failing] == ["columns prepared without these rows"]
    alone = predict_interval(whole[-1], whole[0].transform(new), guaranteed=0.7)
    assert alone.is_guarantee
    assert alone.proven_coverage == pytest.approx(0.7)
    with pytest.raises(AttributeError, match="predict_interval"):
        predict_set(whole, new)


def test_sets_of_raw_rows_are_those_of_prepared_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = (X[:, 0] + rng.normal(size=90) > 0).astype(int)
    model = KPPClassifier("extra-trees", n_estimators=6, cv=3, random_state=0)
    whole = make_pipeline(StandardScaler(), model).fit(X, y)
    new = rng.normal(size=(5, 3))
    found = predict_set(whole, new, 0.8, method="aps")
    own = whole[-1].predict_set(whole[0].transform(new), 0.8, method="aps")
    np.testing.assert_array_equal(found.sets, own.sets)
    assert "columns prepared without these rows" in [a.name for a in found.failing]
    with pytest.raises(AttributeError, match="predict_set"):
        predict_interval(whole, new)
