"""HistGradientBoosting has no public apply: leaves are checked through its predictions."""

import numpy as np
import pytest
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from zoo import beside_thresholds

from kpp import Forest


def raw_score_through_leaves(model, forest, X):
    """Initial score plus the values of the leaves that `apply` names."""
    leaf = forest.source_leaf[forest.apply(X)]
    score = np.zeros((len(X), len(model._predictors[0]))) + np.ravel(model._baseline_prediction)
    trees = [(c, p) for stage in model._predictors for c, p in enumerate(stage)]
    for t, (c, predictor) in enumerate(trees):
        assert predictor.nodes["is_leaf"][leaf[:, t]].all()
        score[:, c] += predictor.nodes["value"][leaf[:, t]]
    return score


def numerical_data(n_rows=500):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0], nan=2.0) - np.nan_to_num(X[:, 1], nan=-2.0)
    return X, y


def mixed_frame(n_rows=600):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue", "black", None], n_rows)
    code = rng.integers(0, 50, n_rows)
    x = rng.normal(size=n_rows)
    frame = pd.DataFrame(
        {"x": x, "colour": pd.Categorical(colour), "z": rng.normal(size=n_rows), "code": code}
    ).astype({"code": "category"})
    y = x + 2.0 * (colour == "red") - (code % 3 == 0) + pd.isna(colour)
    return frame, np.asarray(y, dtype=float)


def test_numbers_and_missing_values():
    X, y = numerical_data()
    model = HistGradientBoostingRegressor(max_iter=20).fit(X, y)
    forest = Forest.from_model(model)
    assert forest.dtype == np.float64
    rows = np.concatenate([X, beside_thresholds(forest, X)])
    np.testing.assert_allclose(
        raw_score_through_leaves(model, forest, rows)[:, 0], model.predict(rows), rtol=1e-13
    )


def test_infinities():
    X, y = numerical_data()
    model = HistGradientBoostingRegressor(max_iter=20).fit(X, y)
    X[::3, 0], X[1::3, 1] = np.inf, -np.inf
    score = raw_score_through_leaves(model, Forest.from_model(model), X)[:, 0]
    np.testing.assert_allclose(score, model.predict(X), rtol=1e-13)


def test_double_precision_is_kept():
    # Values that only double precision tells apart.
    X = 1.0 + np.arange(40.0)[:, None] * 1e-9
    y = (np.arange(40) >= 20).astype(float)
    model = HistGradientBoostingRegressor(max_iter=1, min_samples_leaf=1).fit(X, y)
    forest = Forest.from_model(model)
    score = raw_score_through_leaves(model, forest, X)[:, 0]
    assert len(np.unique(score)) > 1
    np.testing.assert_allclose(score, model.predict(X), rtol=1e-13)


def test_several_classes():
    X, y = numerical_data()
    model = HistGradientBoostingClassifier(max_iter=10).fit(X, np.digitize(y, [-1, 1]))
    forest = Forest.from_model(model)
    assert forest.n_trees == 30
    np.testing.assert_allclose(
        raw_score_through_leaves(model, forest, X),
        model.decision_function(X),
        rtol=1e-12,
        atol=1e-12,
    )


def test_categories_of_a_data_frame():
    pd = pytest.importorskip("pandas")
    frame, y = mixed_frame()
    model = HistGradientBoostingRegressor(max_iter=30).fit(frame, y)
    forest = Forest.from_model(model)
    # The importer undoes the model's own order of columns, categories first.
    assert set(forest.feature[forest.split_kind == 2]) == {1, 3}
    assert set(forest.feature[forest.split_kind == 1]) == {0, 2}
    score = raw_score_through_leaves(model, forest, frame)[:, 0]
    np.testing.assert_allclose(score, model.predict(frame), rtol=1e-13)
    unseen = frame.head(20).copy()
    unseen["colour"] = pd.Categorical(["violet"] * 20)
    unseen["code"] = pd.Categorical([999] * 10 + [None] * 10)
    score = raw_score_through_leaves(model, forest, unseen)[:, 0]
    np.testing.assert_allclose(score, model.predict(unseen), rtol=1e-13)


def test_categories_and_nulls_of_a_polars_frame():
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    code = rng.integers(0, 5, 600)
    colour = [None if c == 4 else "abcd"[c] for c in code]
    x = rng.normal(size=600)
    frame = pl.DataFrame({"x": x, "colour": colour}, schema_overrides={"colour": pl.Categorical})
    model = HistGradientBoostingRegressor(max_iter=20, categorical_features=["colour"])
    y = x + np.array([0.0, 3.0, -3.0, 1.0, 5.0])[code]
    model.fit(frame, y)
    forest = Forest.from_model(model)
    score = raw_score_through_leaves(model, forest, frame)[:, 0]
    np.testing.assert_allclose(score, model.predict(frame), rtol=1e-12, atol=1e-13)


def test_none_is_a_category_like_others():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice(["a", "b", None], 400), rng.normal(size=400)]).astype(object)
    y = np.array([{"a": 0.0, "b": 2.0, None: 9.0}[value] for value in X[:, 0]])
    model = HistGradientBoostingRegressor(max_iter=10, categorical_features=[0]).fit(X, y)
    score = raw_score_through_leaves(model, Forest.from_model(model), X)[:, 0]
    np.testing.assert_allclose(score, model.predict(X), rtol=1e-12, atol=1e-13)


def test_categories_in_an_array():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    X[:, 2] = rng.choice([0.0, 3.0, 7.0, 40.0, np.nan], 500)
    y = X[:, 0] + (X[:, 2] == 7)
    model = HistGradientBoostingRegressor(max_iter=20, categorical_features=[2]).fit(X, y)
    forest = Forest.from_model(model)
    assert (forest.split_kind == 2).any()
    rows = X.copy()
    rows[:5, 2] = [1.0, -1.0, 99.0, np.nan, 3.5]
    np.testing.assert_allclose(
        raw_score_through_leaves(model, forest, rows)[:, 0], model.predict(rows), rtol=1e-13
    )


def test_many_categories_use_several_words():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 200, 3000)
    y = rng.normal(size=200)[code]
    model = HistGradientBoostingRegressor(max_iter=20, categorical_features=[0]).fit(
        code[:, None], y
    )
    forest = Forest.from_model(model)
    assert np.diff(forest.category_offsets).max() > 1
    np.testing.assert_allclose(
        raw_score_through_leaves(model, forest, code[:, None])[:, 0],
        model.predict(code[:, None]),
        rtol=1e-12,
    )


def test_a_version_with_another_layout_is_refused(monkeypatch):
    X, y = numerical_data()
    model = HistGradientBoostingRegressor(max_iter=2).fit(X, y)
    monkeypatch.setattr(sklearn, "__version__", "2.1.0")
    with pytest.raises(TypeError, match=r"HistGradientBoostingRegressor of scikit-learn 2\.1\.0"):
        Forest.from_model(model)
