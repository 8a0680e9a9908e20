"""Pipelines with their preparation inside; what is not data is refused by name."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, StackingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer, r2_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from skrub import DatetimeEncoder, TableVectorizer

from kpp import Forest, KPPClassifier, KPPEmbedding, KPPRegressor
from kpp.io import CannotSaveError, describe, load, save

N_ROWS = 100


def table(seed=0, n_rows=N_ROWS):
    """A table as people have them: numbers, texts, dates, truth, durations, gaps, odd names."""
    rng = np.random.default_rng(seed)
    words = ["oak", "birch", "pine", "maple", "elm", "ash"]
    X = pd.DataFrame(
        {
            "size": rng.normal(size=n_rows),
            "count": rng.integers(0, 9, n_rows),
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "note": [f"{rng.choice(words)} {rng.choice(words)} {i}" for i in range(n_rows)],
            "when": pd.date_range("2020-01-01 03:00", periods=n_rows, freq="31h"),
            "day": [str(d.date()) for d in pd.date_range("2021-01-01", periods=n_rows)],
            "zoned": pd.date_range("2020-01-01", periods=n_rows, freq="7h", tz="Europe/Paris"),
            "switch": rng.random(n_rows) > 0.5,
            "one value": 1,
            "empty": np.full(n_rows, np.nan),
            "level": pd.Categorical(rng.choice(["low", "high"], n_rows)),
            "span": pd.to_timedelta(rng.integers(0, 1000, n_rows), unit="h"),
            "<b>&'\"{0}": rng.choice(["yes", "no"], n_rows),
            "numbers as text": [str(v) for v in rng.integers(0, 1000, n_rows)],
        }
    )
    X.loc[3, "size"] = np.nan
    X.loc[[4, 9], "colour"] = None
    X.loc[5, "note"] = None
    X.loc[6, "when"] = pd.NaT
    y = X["size"].fillna(0) + (X["colour"] == "red") + 0.1 * rng.normal(size=n_rows)
    return X, y.to_numpy()


def strange_rows():
    """New rows with categories, words and gaps that the fit has not seen."""
    X, _ = table(seed=7, n_rows=20)
    X.loc[0, "colour"] = "mauve"
    X.loc[1, "note"] = "something else"
    X.loc[2, ["size", "when", "day", "level"]] = None
    return X


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "vectorizer",
    [
        TableVectorizer(),
        TableVectorizer(cardinality_threshold=3, n_jobs=1, drop_if_constant=True),
        TableVectorizer(
            datetime=DatetimeEncoder(add_weekday=True, periodic_encoding="circular"),
            specific_transformers=[(OrdinalEncoder(), ["colour"])],
            numeric=StandardScaler(),
        ),
    ],
    ids=["default", "texts", "chosen"],
)
def test_a_table_vectorizer_inside(vectorizer, again, differ):
    X, y = table()
    if vectorizer.specific_transformers:
        X = X.drop(columns=["empty"])
        X["colour"] = X["colour"].fillna("none")
    forest = "boosted"
    model = make_pipeline(vectorizer, KPPRegressor(forest, n_estimators=5, alpha=0.3)).fit(X, y)
    loaded = again(model)
    new = strange_rows()[X.columns]
    if vectorizer.specific_transformers:
        new["colour"] = "red"
    assert differ(model[0].transform(new), loaded[0].transform(new)) == []
    assert differ(model.predict(new), loaded.predict(new)) == []
    assert differ(model.predict(X), loaded.predict(X)) == []
    assert loaded[0].get_feature_names_out().tolist() == model[0].get_feature_names_out().tolist()
    assert loaded[0].input_to_outputs_ == model[0].input_to_outputs_
    assert repr(loaded) == repr(model)
    again_fitted = loaded.fit(X, y)  # a loaded pipeline is one like others
    assert again_fitted[0].all_outputs_ == model[0].all_outputs_


def test_frames_of_polars(again, differ):
    polars = pytest.importorskip("polars")
    X, y = table()
    X = polars.from_pandas(X[["size", "colour", "note", "when", "switch"]])
    model = make_pipeline(TableVectorizer(), KPPRegressor("boosted", n_estimators=3, alpha=0.3))
    loaded = again(model.fit(X, y))
    assert differ(model.predict(X), loaded.predict(X)) == []


def test_days_of_polars(again, differ):
    polars = pytest.importorskip("polars")
    X, y = table()
    X = polars.from_pandas(X[["size", "when"]]).with_columns(polars.col("when").cast(polars.Date))
    model = make_pipeline(TableVectorizer(), KPPRegressor("boosted", n_estimators=3, alpha=0.3))
    loaded = again(model.fit(X, y))
    assert differ(model.predict(X), loaded.predict(X)) == []
    assert differ(model[0].transform(X), loaded[0].transform(X)) == []


@pytest.mark.parametrize("offset", ["+02:00", "-09:30"])
def test_dates_of_a_fixed_offset(offset, again, differ):
    _, y = table()
    X = pd.DataFrame({"at": [f"2021-01-{1 + k % 28:02d}T10:00:00{offset}" for k in range(N_ROWS)]})
    model = make_pipeline(TableVectorizer(), KPPRegressor("boosted", n_estimators=3, alpha=0.3))
    loaded = again(model.fit(X, y))
    assert differ(model.predict(X), loaded.predict(X)) == []
    parsed = pd.DataFrame({"at": pd.to_datetime(X["at"])})
    loaded = again(model.fit(parsed, y))
    assert differ(model[0].transform(parsed), loaded[0].transform(parsed)) == []


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_categories_that_are_dates(unit, again, differ):
    X, y = table()
    days = pd.to_datetime(["2020-01-01", "2021-06-01", "2022-01-01"]).as_unit(unit)
    X = pd.DataFrame({"size": X["size"], "day": pd.Categorical(days[np.arange(N_ROWS) % 3])})
    forest = HistGradientBoostingRegressor(max_iter=3, categorical_features="from_dtype")
    model = KPPRegressor(forest, alpha=0.1, random_state=0).fit(X, y)
    loaded = again(model)
    assert differ(model.forest_.categories, loaded.forest_.categories) == []
    assert differ(model.predict(X), loaded.predict(X)) == []


def test_the_whole_state_of_a_table_vectorizer(again, differ):
    X, y = table()
    model = make_pipeline(TableVectorizer(), KPPRegressor("boosted", n_estimators=3, alpha=0.3))
    loaded = again(model.fit(X, y))
    for pipeline in (model, loaded):  # rules for columns become the columns that they chose
        for _, step in pipeline[0]._pipeline.steps[1:]:
            step.cols = list(step._columns)
    assert differ(model, loaded) == []
    steps = loaded[0]._pipeline.steps
    assert steps[1][1] is loaded[0]._preprocessors[1]  # one object, as before


def test_labels_of_texts(again):
    X, y = table()
    labels = np.where(y > np.median(y), "large", "small")
    model = Pipeline(
        [
            ("prepare", TableVectorizer()),
            ("model", KPPClassifier("boosted", n_estimators=3, alpha=1)),
        ]
    ).fit(X, labels)
    loaded = again(model)
    assert (loaded.predict_proba(X) == model.predict_proba(X)).all()
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    assert list(loaded.named_steps) == ["prepare", "model"]


NUMBERS = ["size", "count"]
STEPS = {
    "scaled": lambda: make_pipeline(SimpleImputer(), StandardScaler()),
    "min and max": lambda: make_pipeline(SimpleImputer(strategy="median"), MinMaxScaler()),
    "indicator": lambda: SimpleImputer(add_indicator=True),
    "largest": lambda: make_pipeline(SimpleImputer(), MaxAbsScaler(), "passthrough"),
    "robust": lambda: make_pipeline(SimpleImputer(), RobustScaler()),
    "power": lambda: make_pipeline(SimpleImputer(), PowerTransformer()),
    "quantiles": lambda: make_pipeline(SimpleImputer(), QuantileTransformer(n_quantiles=20)),
    "bins": lambda: make_pipeline(
        SimpleImputer(), KBinsDiscretizer(4, encode="onehot-dense", quantile_method="linear")
    ),
    "components": lambda: make_pipeline(SimpleImputer(), PCA(2, random_state=0)),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_scikit_learn(name, again, differ):
    X, y = table()
    if "quantile_method" not in KBinsDiscretizer().get_params() and name == "bins":
        pytest.skip("an older scikit-learn")
    model = Pipeline(
        [
            ("prepare", STEPS[name]()),
            ("model", KPPRegressor("extra-trees", n_estimators=4, alpha=1.0)),
        ]
    )
    model.fit(X[NUMBERS], y)
    loaded = again(model)
    assert differ(model, loaded) == []
    assert differ(model.predict(X[NUMBERS]), loaded.predict(X[NUMBERS])) == []


@pytest.mark.parametrize("remainder", ["drop", "passthrough", StandardScaler()])
def test_columns_of_several_kinds(remainder, again, differ):
    X, y = table()
    X = X[["size", "count", "colour", "level", "note", "switch"]].fillna({"note": "", "size": 0.0})
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["size"]),
            ("frequent", OneHotEncoder(min_frequency=30, drop="first", sparse_output=False), [2]),
            ("codes", OrdinalEncoder(dtype=np.float32), X.columns[3:4]),
            ("words", TfidfVectorizer(max_features=20), "note"),
            ("same", "passthrough", slice(5, 6)),
        ],
        remainder=remainder,
        sparse_threshold=0,
    )
    X["colour"] = X["colour"].fillna("none")
    model = make_pipeline(columns, KPPRegressor("extra-trees", n_estimators=4, alpha=1.0)).fit(X, y)
    loaded = again(model)
    assert differ(model.predict(X), loaded.predict(X)) == []
    names = loaded[0].get_feature_names_out().tolist()
    assert names == model[0].get_feature_names_out().tolist()


def test_an_embedding_behind_a_preparation(again, differ):
    X, y = table()
    model = make_pipeline(SimpleImputer(), KPPEmbedding(n_estimators=3, random_state=0))
    loaded = again(model.fit(X[NUMBERS], y))
    assert (loaded.transform(X[NUMBERS]) != model.transform(X[NUMBERS])).nnz == 0


def fitted(**parameters):
    X, y = table()
    return KPPRegressor("extra-trees", **({"n_estimators": 2, "alpha": 1.0} | parameters)).fit(
        X[["count"]], y
    )


def with_step(step, columns=NUMBERS):
    X, y = table()
    X = X.fillna({"size": 0.0})
    return make_pipeline(step, KPPRegressor("extra-trees", n_estimators=2, alpha=1.0)).fit(
        X[columns], y
    )


def twice(X):
    return 2 * X


class OwnRegressor(KPPRegressor):
    pass


class OwnScaler(StandardScaler):
    pass


def changed(model, **attributes):
    vars(model).update(attributes)
    return model


REFUSED = {
    "a function": (lambda: with_step(FunctionTransformer(twice)), "code, and files hold data"),
    "a ufunc": (lambda: with_step(FunctionTransformer(np.abs)), "code, and files hold data"),
    "an own class": (lambda: with_step(OwnScaler()), "OwnScaler, which files do not know"),
    "an own model": (
        lambda: OwnRegressor(n_estimators=2, alpha=1.0).fit(np.eye(9), range(9)),
        "Own",
    ),
    "node weights": (
        lambda: fitted(node_weight=lambda forest, _: 1.0 * ~forest.is_leaf),
        r"\['node_weight'\].*code, and files hold data only",
    ),
    "a scorer": (
        lambda: fitted(alpha="auto", scoring=make_scorer(r2_score), random_state=0),
        "scoring",
    ),
    "a generator": (lambda: fitted(random_state=np.random.RandomState(0)), "an integer as random"),
    "a strange attribute": (lambda: changed(fitted(), note="mine"), "'note' is not one that a fit"),
    "a forest that is no ensemble": (
        lambda: changed(fitted(), forest=StackingRegressor([])),
        "StackingRegressor",
    ),
    "a seed inside": (
        lambda: changed(
            fitted(), forest=ExtraTreesRegressor(random_state=np.random.RandomState(1))
        ),
        "random_state must be an integer",
    ),
    "a cache": (
        lambda: changed(with_step(StandardScaler()), memory="/somewhere"),
        "a cache on disk",
    ),
    "a rule for columns": (
        lambda: with_step(
            ColumnTransformer([("a", StandardScaler(), make_column_selector("size"))])
        ),
        "make_column_selector is code|make_column_selector",
    ),
    "an analyser": (
        lambda: with_step(
            ColumnTransformer(
                [("a", CountVectorizer(analyzer=str.split), "day")], sparse_threshold=0
            ),
            ["colour", "day"],
        ),
        "analyzer must be a name",
    ),
    "a pattern": (
        lambda: with_step(
            ColumnTransformer(
                [("a", CountVectorizer(token_pattern=r"(\w+)+x?"), "day")], sparse_threshold=0
            ),
            ["colour", "day"],
        ),
        "token_pattern must be the default",
    ),
    "another model": (lambda: Ridge().fit(np.eye(3), range(3)), "Cannot save Ridge: expected"),
    "another end": (
        lambda: make_pipeline(StandardScaler(), Ridge()).fit(np.eye(3), range(3)),
        "Pipeline that ends in Ridge",
    ),
    "a fitted ensemble": (
        lambda: ExtraTreesRegressor(2).fit(np.eye(3), range(3)),
        r"save\(Forest.from_model\(ensemble\), path\)",
    ),
    "a number": (lambda: 3, "Cannot save int"),
    "a class": (lambda: KPPRegressor, "Cannot save"),
    "splines": (
        lambda: make_pipeline(
            TableVectorizer(datetime=DatetimeEncoder(periodic_encoding="spline")),
            KPPRegressor("boosted", n_estimators=2, alpha=1.0),
        ).fit(*table()),
        "splines of dates are not saved",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_data_is_refused_by_name(name, tmp_path):
    make, message = REFUSED[name]
    with pytest.raises(CannotSaveError, match=message):
        save(make(), tmp_path / "m.kpp")
    assert list(tmp_path.iterdir()) == []


def test_what_was_not_fitted(tmp_path):
    for model in (
        KPPRegressor("extra-trees"),
        make_pipeline(StandardScaler(), KPPClassifier("extra-trees")),
    ):
        with pytest.raises(NotFittedError):
            save(model, tmp_path / "m.kpp")


@pytest.mark.parametrize("metadata", [[1], {"a": {1, 2}}, {"a": np.nan}, {1: 2}, {"a": (1, 2)}])
def test_metadata_is_plain(metadata, tmp_path):
    with pytest.raises(CannotSaveError, match="metadata must be"):
        save(fitted(), tmp_path / "m.kpp", metadata=metadata)


@pytest.mark.parametrize("compression", [-1, 10, 2.0, True, None])
def test_levels_of_compression(compression, tmp_path):
    with pytest.raises(ValueError, match="compression must be an integer from 0 to 9"):
        save(fitted(), tmp_path / "m.kpp", compression=compression)


def test_versions_are_written_only_where_they_matter(tmp_path):
    plain = describe(save(fitted(), tmp_path / "a.kpp")).libraries
    assert "skrub" not in plain
    X, y = table()
    model = make_pipeline(TableVectorizer(), KPPRegressor("boosted", n_estimators=2, alpha=1.0))
    prepared = describe(save(model.fit(X, y), tmp_path / "b.kpp")).libraries
    assert prepared.keys() == plain.keys() | {"skrub", "pandas"}


def test_a_forest_of_an_ensemble(tmp_path):
    ensemble = ExtraTreesRegressor(3, random_state=0).fit(np.eye(5), range(5))
    forest = load(save(Forest.from_model(ensemble), tmp_path / "f.kpp"))
    assert (forest.source_leaf[forest.apply(np.eye(5))] == ensemble.apply(np.eye(5))).all()
