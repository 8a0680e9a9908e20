"""The linear models among other software: search, routing, pipelines, frames, progress."""

import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestRegressor,
)
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kpp import KPPClassifier, KPPRegressor
from kpp._rows import column_spread


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:200], y[:200]


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:200], y[:200]


def small(estimator, **parameters):
    own = {"forest": "extra-trees", "n_estimators": 5, "random_state": 0}
    return estimator(**own | parameters)


def test_a_search_over_every_kind_of_parameter(diabetes):
    grid = [
        {"alpha": [0.01, 0.1], "node_weight": ["gain", "uniform"]},
        {
            "forest": [ExtraTreesRegressor(5), RandomForestRegressor(5)],
            "forest__min_samples_leaf": [2, 5],
        },
    ]
    search = GridSearchCV(small(KPPRegressor, alpha=0.1), grid, cv=2).fit(*diabetes)
    scores = search.cv_results_["mean_test_score"]
    assert len(scores) == 8
    assert len(np.unique(scores)) == 8  # every parameter changes something
    assert search.best_estimator_.predict(diabetes[0]).shape == (200,)


def test_weights_and_groups_are_routed(diabetes):
    X, y = diabetes
    groups, weight = np.arange(200) // 20, np.random.default_rng(0).uniform(0.5, 2, 200)
    model = small(KPPRegressor, cv=GroupKFold(4))
    with config_context(enable_metadata_routing=True):
        routed = clone(model).set_fit_request(sample_weight=True, groups=True)
        routed.set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), routed)
        given = {"sample_weight": weight, "groups": groups}
        pipeline.fit(X, y, **given)
        # scikit-learn 1.6 does not ask a pipeline's last step what its score requests.
        score = get_scorer("r2").set_score_request(sample_weight=True)
        cross_validate(pipeline, X, y, cv=2, scoring=score, params=given, error_score="raise")
        direct = clone(model).fit(StandardScaler().fit_transform(X), y, weight, groups)
    assert np.array_equal(pipeline[-1].node_coef_, direct.node_coef_)
    for _, test in direct.folds_:
        assert not set(groups[test]) & set(np.delete(groups, test))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_give_names_and_the_same_numbers(diabetes, frame):
    X, y = diabetes
    names = [f"x{j}" for j in range(10)]
    table = frame({name: X[:, j] for j, name in enumerate(names)})
    model = small(KPPRegressor).fit(table, y)
    assert model.feature_names_in_.tolist() == names
    assert np.array_equal(model.predict(table), small(KPPRegressor).fit(X, y).predict(X))
    with pytest.raises(ValueError):
        model.predict(table[names[::-1]])


def test_behind_a_column_transformer():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(size=100), "kind": rng.choice(list("abc"), 100)})
    y = table["size"] + (table["kind"] == "a") + 0.3 * rng.normal(size=100)
    columns = ColumnTransformer(
        [("kind", OneHotEncoder(sparse_output=False), ["kind"])], remainder="passthrough"
    ).set_output(transform="pandas")
    pipeline = make_pipeline(columns, small(KPPRegressor)).fit(table, y)
    assert pipeline[-1].feature_names_in_.tolist()[0] == "kind__kind_a"
    assert pipeline.score(table, y) > 0.7


@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit", "cross-validated"])
def test_pickled_models_predict_alike(cancer, regime):
    X, y = cancer
    model = small(KPPClassifier, regime=regime).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


def test_read_only_and_strided_rows(diabetes):
    X, y = diabetes
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    frozen = X.copy()
    frozen.flags.writeable = False
    expected = small(KPPRegressor).fit(X, y).predict(X)
    for rows in (strided, frozen, np.asfortranarray(X)):
        assert np.array_equal(small(KPPRegressor).fit(rows, y).predict(rows), expected)


@pytest.mark.parametrize(
    ("estimator", "regime", "phases"),
    [
        (KPPRegressor, "shared", [5, 6, 1]),
        (KPPClassifier, "honest", [1, 6, 1]),
        (KPPRegressor, "cross-fit", [5, 6, 5]),
    ],
)
def test_progress(diabetes, cancer, capsys, estimator, regime, phases):
    X, y = cancer if estimator is KPPClassifier else diabetes
    small(estimator, regime=regime).fit(X, y)
    assert capsys.readouterr() == ("", "")
    small(estimator, regime=regime, verbose=1).fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    names = ["growing trees", "choosing alpha", "fitting the linear layer"]
    for line, name, total in zip(lines, names, phases, strict=True):
        assert line.startswith(f"kpp: {name}, {total} of {total}, ")


def test_a_bar_on_a_terminal(diabetes, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    small(KPPRegressor, verbose=1).fit(*diabetes)
    drawn = capsys.readouterr().err
    assert drawn.count("\n") == 3  # one line per phase, drawn over and over
    assert f"growing trees [{'#' * 30}] 5/5" in drawn


def test_weights_in_one_fold_only(diabetes):
    X, y = diabetes
    folds = small(KPPRegressor).fit(X, y).folds_
    weight = np.zeros(200)
    weight[folds[2][1]] = 1.0
    with pytest.raises(ValueError, match="All sample weight lies in one fold"):
        small(KPPRegressor).fit(X, y, weight)
    with pytest.raises(ValueError, match="rows of one have no weight"):
        small(KPPRegressor, regime="cross-fit").fit(X, y, 1 - weight)


def test_the_weights_of_the_fit_are_kept(cancer):
    X, y = cancer
    assert small(KPPClassifier).fit(X, y).sample_weight_ is None
    model = small(KPPClassifier, class_weight={0: 1, 1: 3}, regime="honest").fit(X, y)
    assert np.array_equal(model.sample_weight_, np.where(y[model.fit_rows_] == 1, 3.0, 1.0))


def test_forests_with_settings_of_their_own(cancer):
    X, y = cancer
    forest = ExtraTreesClassifier(4, max_depth=2, random_state=0)
    model = KPPClassifier(forest, alpha=0.1).fit(X, y)
    assert model.forest_.n_trees == 4
    assert model.forest_.n_nodes <= 4 * 7
    assert not hasattr(forest, "estimators_")  # cloned, not fitted


def test_the_spread_of_the_columns(diabetes):
    X, y = diabetes
    X = X.copy()
    X[::3, 1] = np.nan
    expected = np.nanstd(X, axis=0)
    np.testing.assert_allclose(small(KPPRegressor).fit(X, y).feature_spread_, expected, rtol=1e-12)
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    frame["kind"] = pd.Categorical(np.where(y > 100, "x", "y"))
    spread = small(KPPRegressor, forest="boosted").fit(frame, y).feature_spread_
    np.testing.assert_allclose(spread, [*expected[:2], 0.0], rtol=1e-12)


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e200, 1e300])
def test_the_spread_of_huge_and_of_tiny_columns(diabetes, size):
    X, y = diabetes
    spread = small(KPPRegressor, forest="boosted").fit(X[:, :3] * size, y).feature_spread_
    np.testing.assert_allclose(spread / size, X[:, :3].std(axis=0), rtol=1e-12)
    ends = np.array([[-1.0], [1.0]]) * np.finfo(float).max
    assert column_spread(ends)[0] == np.finfo(float).max
    # Where nothing overflows, not a bit differs from the standard deviation.
    assert np.array_equal(column_spread(X), [column.std() for column in X.T])
    assert column_spread(np.full((3, 1), np.inf))[0] == 0.0


def test_columns_with_missing_values(diabetes):
    X, y = diabetes
    X = X[:, :3].copy()
    X[5, 1] = np.nan
    for table in (X, pd.DataFrame(X, columns=list("abc")), pl.DataFrame(X, schema=list("abc"))):
        model = small(KPPRegressor).fit(table, y)
        assert model.missing_columns_.tolist() == [False, True, False]
    kinds = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(np.where(y > 100, "x", "y"))})
    kinds.loc[3, "b"] = None
    model = small(KPPRegressor, forest="boosted").fit(kinds, y)
    assert model.missing_columns_.tolist() == [False, True]
