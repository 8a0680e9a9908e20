"""Models of raw tables: strings, categories, booleans and gaps, whatever the forest."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold

import kpp
from kpp import KPPClassifier, KPPEmbedding, KPPRegressor
from kpp.forest.layout import CATEGORICAL

# On few rows a forest may have nothing to add to a constant.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The best alpha lies on:sklearn.exceptions.ConvergenceWarning"
)
LIST = [("trees", "extra-trees"), ("boosted", "boosted"), ("ladders", "ladders")]
FORESTS = ["extra-trees", "random-forest", "boosted", "blend", LIST]


def names_of(forest):
    return forest if isinstance(forest, str) else "list"


def table(n_rows=160, seed=0):
    """Numbers, strings, declared categories and booleans, most with gaps; and a target of them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n_rows),
            "ward": rng.choice(["north", "south", "east", "west"], n_rows),
            "code": rng.choice([f"k{k:02d}" for k in range(14)], n_rows),
            "size": pd.Categorical(
                rng.choice(["low", "mid", "high"], n_rows),
                categories=["low", "mid", "never", "high"],
                ordered=True,
            ),
            "smokes": rng.random(n_rows) < 0.5,
        }
    )
    y = frame["age"] / 10 + 3.0 * frame["ward"].isin(["south", "west"]) + 2.0 * frame["smokes"]
    y += frame["size"].cat.codes + rng.normal(size=n_rows)
    for name in ("age", "ward", "size"):
        frame.loc[rng.random(n_rows) < 0.1, name] = None
    return frame, y.to_numpy()


def small(kind, forest, **parameters):
    return kind(forest, **({"n_estimators": 8, "random_state": 0, "cv": 3} | parameters))


@pytest.mark.parametrize("forest", FORESTS, ids=names_of)
def test_a_raw_table(forest):
    frame, y = table()
    model = small(KPPRegressor, forest).fit(frame, y)
    new, y_new = table(seed=1)
    assert model.score(new, y_new) > 0.4
    assert model.n_features_in_ == 5
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.feature_importances_.shape == (5,)
    assert model.feature_importances_[1] > 0
    forests = [f for _, f in model.forest_] if isinstance(model.forest_, list) else [model.forest_]
    for own in forests:
        assert own.n_features == 5
        assert sorted(own.categories) == [1, 2, 3]
        # Every split on such a column is a set.
        splits = np.isin(own.feature, [1, 2, 3])
        assert (own.split_kind[splits] == CATEGORICAL).all()
        assert not (own.split_kind[~splits] == CATEGORICAL).any()
    classes = np.where(y > np.median(y), "high", "low")
    classifier = small(KPPClassifier, forest).fit(frame, classes)
    assert classifier.score(new, np.where(y_new > np.median(y), "high", "low")) > 0.7


@pytest.mark.parametrize(
    "forest",
    [ExtraTreesRegressor(5, random_state=1), RandomForestRegressor(5, random_state=1)],
    ids=lambda f: type(f).__name__,
)
def test_an_ensemble_of_the_user(forest):
    frame, y = table()
    model = small(KPPRegressor, forest).fit(frame, y)
    assert (model.forest_.split_kind == CATEGORICAL).any()
    assert not hasattr(forest, "estimators_")  # the user's own is left as it is


def test_an_ensemble_that_takes_no_missing_values():
    frame, y = table()
    frame["age"] = frame["age"].fillna(50.0)
    model = small(KPPRegressor, GradientBoostingRegressor(n_estimators=5)).fit(frame, y)
    unknown, missing = (model.predict(frame.assign(ward=value)) for value in ("new", None))
    assert np.array_equal(unknown, missing)


@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit", "cross-validated"])
def test_regimes(regime):
    frame, y = table(240)
    model = small(KPPRegressor, "extra-trees", regime=regime).fit(frame, y)
    new, y_new = table(seed=1)
    assert model.score(new, y_new) > 0.3


def test_honest_trees_know_nothing_of_the_fit_rows():
    frame, y = table(240)
    model = small(KPPRegressor, "extra-trees", regime="honest", alpha=0.1).fit(frame, y)
    changed = frame.copy()
    changed.loc[model.fit_rows_, "ward"] = "only in the fit rows"
    y = y.copy()
    y[model.fit_rows_] = 100.0 * frame["ward"].isin(["east"])[model.fit_rows_]
    other = small(KPPRegressor, "extra-trees", regime="honest", alpha=0.1).fit(changed, y)
    assert np.array_equal(other.fit_rows_, model.fit_rows_)
    assert np.array_equal(other.apply(frame), model.apply(frame))
    assert other.forest_.categories[1].tolist() == model.forest_.categories[1].tolist()


def test_trees_of_a_fold_know_nothing_of_its_rows():
    frame, y = table(150)
    folds = list(KFold(3).split(frame))
    test = folds[0][1]
    changed = frame.copy()
    changed.loc[test, "ward"] = "only in this fold"
    y_changed = y.copy()
    y_changed[test] = 100.0 * frame["code"].isin(["k01", "k07"])[test]
    models = [
        small(KPPRegressor, "extra-trees", cv=KFold(3), n_estimators=9).fit(*rows)
        for rows in ((frame, y), (changed, y_changed))
    ]
    # The trees of the first group, which do not see the fold.
    first = [model.forest_.apply(frame)[:, :3] for model in models]
    assert np.array_equal(*first)


@pytest.mark.parametrize("forest", ["extra-trees", "blend"])
def test_unknown_categories_are_missing(forest):
    frame, y = table()
    model = small(KPPRegressor, forest).fit(frame, y)
    missing = frame.assign(ward=None, size=None)
    unknown = frame.assign(ward="new", size="never")
    assert np.array_equal(model.predict(missing), model.predict(unknown))


@pytest.mark.parametrize("forest", ["extra-trees", "blend"])
def test_what_holds_the_categories_does_not_count(forest):
    frame, y = table()
    expected = small(KPPRegressor, forest).fit(frame, y).predict(frame)
    # Codes in the order of the names, declared as categories; other names in the same order.
    codes = frame.copy()
    codes["ward"] = frame["ward"].astype("category").cat.rename_categories(range(4))
    codes["code"] = frame["code"].astype("category")
    assert np.array_equal(small(KPPRegressor, forest).fit(codes, y).predict(codes), expected)
    unused = frame.copy()
    unused["ward"] = pd.Categorical(frame["ward"], ["b", "east", "north", "south", "west", "z"])
    assert np.array_equal(small(KPPRegressor, forest).fit(unused, y).predict(frame), expected)
    objects = frame.astype({"ward": object, "smokes": object})
    assert np.array_equal(small(KPPRegressor, forest).fit(objects, y).predict(objects), expected)
    cells = frame.astype(object).to_numpy()
    cells[:, 3] = pd.Series(cells[:, 3]).map({"low": "a", "mid": "b", "high": "c"})
    assert np.array_equal(small(KPPRegressor, forest).fit(cells, y).predict(cells), expected)


@pytest.mark.parametrize("forest", ["extra-trees", "blend"])
def test_polars(forest):
    frame, y = table()
    expected = small(KPPRegressor, forest).fit(frame, y).predict(frame)
    order = ["low", "mid", "never", "high"]
    columns = {name: frame[name].astype(object).where(frame[name].notna(), None) for name in frame}
    other = pl.DataFrame({name: values.tolist() for name, values in columns.items()})
    other = other.with_columns(pl.col("size").cast(pl.Enum(order)))
    model = small(KPPRegressor, forest).fit(other, y)
    assert np.array_equal(model.predict(other), expected)
    assert np.array_equal(model.predict(frame), expected)


def test_columns_of_numbers_are_what_they_were():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    plain = small(KPPRegressor, "extra-trees").fit(X.to_numpy(), y)
    framed = small(KPPRegressor, "extra-trees").fit(X.assign(sex=X["sex"] > 0), y)
    X["sex"] = (X["sex"] > 0).astype(float)
    assert np.array_equal(
        small(KPPRegressor, "extra-trees").fit(X, y).predict(X), framed.predict(X)
    )
    assert not plain.forest_.categories


def test_other_columns_are_refused():
    frame, y = table()
    model = small(KPPRegressor, "extra-trees", alpha=0.1).fit(frame, y)
    with pytest.raises(ValueError):
        model.predict(frame[["ward", "age", "code", "size", "smokes"]])
    with pytest.raises(ValueError):
        model.predict(frame.drop(columns="ward"))
    with pytest.raises(ValueError, match="column 'age' was numbers"):
        model.predict(frame.assign(age="old"))


@pytest.mark.parametrize("forest", ["extra-trees", "boosted", "blend"])
@pytest.mark.parametrize(
    ("values", "told"),
    [
        (["a", 1] * 80, "int and str"),
        (pd.Timestamp("2020-01-01"), "dates or times"),
        ([[1, 2]] * 160, "list"),
    ],
)
def test_columns_that_no_forest_reads(forest, values, told):
    frame, y = table()
    with pytest.raises(ValueError, match=rf"column 'odd' holds .*{told}"):
        small(KPPRegressor, forest).fit(frame.assign(odd=values), y)


def test_an_array_of_texts():
    with pytest.raises(ValueError, match="give a data frame"):
        small(KPPRegressor, "extra-trees").fit(
            np.array([["a", "1"], ["b", "2"]] * 9), np.arange(18)
        )


def test_a_column_without_a_value():
    frame, y = table()
    frame["empty"] = pd.Series([None] * len(frame), dtype=object)
    frame["gone"] = pd.Categorical([None] * len(frame), categories=["a"])
    for forest in ("extra-trees", "blend"):
        model = small(KPPRegressor, forest, alpha=0.1).fit(frame, y)
        assert np.array_equal(
            model.predict(frame), model.predict(frame.assign(gone="a", empty=None))
        )


def test_several_targets_and_weights():
    frame, y = table()
    weight = np.where(np.arange(len(y)) < 20, 0.0, 1.0)
    model = small(KPPRegressor, "extra-trees", alpha=0.1)
    both = model.fit(frame, np.column_stack([y, -y]), sample_weight=weight).predict(frame)
    assert np.allclose(both[:, 0], -both[:, 1])


def test_the_fixed_regime_takes_a_frozen_forest():
    frame, y = table()
    grown = KPPEmbedding("extra-trees", n_estimators=5, random_state=0).fit(frame, y).forest_
    model = KPPRegressor(grown, regime="fixed", alpha=0.1).fit(frame, y)
    assert np.array_equal(model.apply(frame), grown.apply(frame))
    numbers = ExtraTreesClassifier(3).fit(np.zeros((4, 5)) + np.arange(4)[:, None], [0, 1, 0, 1])
    with pytest.raises(ValueError, match="as numbers"):
        KPPClassifier(FrozenEstimator(numbers), regime="fixed", alpha=0.1).fit(frame, y > 5)


def test_embedding():
    frame, y = table()
    for forest in ("extra-trees", "random-forest", "boosted"):
        embedding = KPPEmbedding(forest, n_estimators=4, random_state=0).fit(frame, y)
        assert embedding.transform(frame).shape == (len(y), embedding.forest_.n_nodes)
    without = KPPEmbedding(n_estimators=4, random_state=0).fit(frame)
    assert (without.forest_.split_kind == CATEGORICAL).any()
    assert without.transform(frame.assign(ward="new")).shape[0] == len(y)


@pytest.mark.parametrize(
    ("kind", "forest"), [(KPPClassifier, "extra-trees"), (KPPRegressor, "blend")]
)
def test_everything_after_a_fit(kind, forest, tmp_path):
    frame, y = table(220)
    is_classifier = kind is KPPClassifier
    y = np.where(y > np.median(y), "high", "low") if is_classifier else y
    train, test, y_train, y_test = frame[:160], frame[160:], y[:160], y[160:]
    model = small(kind, forest).fit(train, y_train)
    scores = model(test)
    attribution = kpp.explain(model, test)
    assert attribution.feature_names == tuple(frame.columns)
    assert np.allclose(attribution.baseline + attribution.values.sum(axis=1), scores)
    row = int(np.flatnonzero(test["ward"].notna())[0])
    rules = kpp.explain_rules(model, test[row : row + 1], top=50)
    text = str(rules)
    assert test["ward"].iloc[row] in text
    collapsed = model.collapse()
    assert np.allclose(collapsed.scores(test)[:, 0], scores)
    assert sorted(collapsed.forest.categories) == [1, 2, 3]
    epsilon = {} if is_classifier else {"epsilon": 0.5}
    certificate = kpp.certify(model, test, **epsilon)
    assert (certificate.radius >= 0).all()
    raw = kpp.certify_raw(model, test[:8], scale="std", effort=1000, **epsilon)
    assert (raw.radius <= raw.upper_radius).all()
    # Categories stay in a counterexample.
    for i in np.flatnonzero(raw.found):
        for j in (1, 2, 3):
            given, found = test.iloc[i, j], raw.counterexample[i, j]
            assert given == found or (pd.isna(given) and pd.isna(found))
    free = kpp.certify_raw(
        model, test[:8], scale="std", effort=1000, free_categories=[1, 3], **epsilon
    )
    assert (free.radius <= raw.radius).all()
    bounds = kpp.risk_bounds(model, test, y_test, sample="test")
    assert len(bounds.to_frame()) > 0
    assert kpp.diagnose(model, test, y_test).to_frame() is not None
    path = tmp_path / "model.kpp"
    kpp.save(model, path)
    again = kpp.load(path)
    assert np.array_equal(again(test), scores)
    assert np.array_equal(again(test.assign(ward="new")), model(test.assign(ward="new")))
    page = tmp_path / "report.html"
    kpp.report(model, test, y_test, path=page)
    assert "ward" in page.read_text("utf-8")
