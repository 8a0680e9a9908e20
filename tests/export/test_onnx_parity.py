"""onnxruntime and treelite against the model, on every family of forests, at the hardest rows."""

from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from served import accepted, card, odd_rows, run, scores_of
from sklearn.base import is_classifier
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import (
    AdaBoostRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor
from zoo import bagging_models, supervised_models, unsupervised_models

from kpp import Forest, KPPClassifier, KPPRegressor, load, save, to_onnx, to_treelite
from kpp.export import encoded_rows, onnx_inputs
from kpp.forest import ObliqueForestRegressor
from kpp.forest.layout import CATEGORICAL

X, Y = load_diabetes(return_X_y=True)
X, Y = X[::2], Y[::2]
IRIS = load_iris(return_X_y=True)
GAPS = X.copy()
GAPS[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
FAMILIES = supervised_models() | unsupervised_models() | bagging_models()
FAMILIES |= {
    "hist, numbers": HistGradientBoostingRegressor(max_iter=5, random_state=0),
    "hist, classes": HistGradientBoostingClassifier(max_iter=3, random_state=0),
    "three classes": GradientBoostingClassifier(n_estimators=4, random_state=0),
    "AdaBoost": AdaBoostRegressor(DecisionTreeRegressor(max_depth=3), n_estimators=4),
    "oblique": ObliqueForestRegressor(4, random_state=0),
}
SETTINGS = {"n_estimators": 6, "alpha": 0.5, "random_state": 0}


def check_onnx(model, rows, inputs=None):
    """Scores within the tolerance that the graph states; NaN where the model refuses the row."""
    graph = to_onnx(model)
    given = onnx_inputs(model, rows) if inputs is None else inputs
    answer = run(graph, given)
    served = answer["scores" if hasattr(model, "classes_") else "prediction"]
    served = served.reshape(len(rows), -1)
    takes = accepted(model, rows)
    assert takes.any()
    assert np.isnan(served[~takes]).all()
    expected = scores_of(model, rows[takes])
    close = card(graph)["kpp.score_tolerance"]
    assert close < 1e-11 * max(1.0, np.abs(expected).max())
    assert np.abs(served[takes] - expected).max() <= close
    if hasattr(model, "classes_"):
        chances = answer["probabilities"]
        assert np.isnan(chances[~takes]).all()
        assert np.abs(chances[takes] - model.predict_proba(rows[takes])).max() <= 1e-14
        ordered = np.sort(
            np.c_[expected, np.zeros(len(expected))] if expected.shape[1] == 1 else expected
        )
        clear = ordered[:, -1] - ordered[:, -2] > 2 * close
        same = answer["label"][takes] == model.predict(rows[takes])
        assert same[clear].all()
        assert clear.mean() > 0.8
    return takes


def check_treelite(model, rows):
    treelite = pytest.importorskip("treelite")
    takes = accepted(model, rows)
    encoded = encoded_rows(model, rows[takes])
    served = treelite.gtil.predict(to_treelite(model), encoded, pred_margin=True)
    expected = scores_of(model, rows[takes])
    close = card(to_onnx(model))["kpp.score_tolerance"]
    assert np.abs(served.reshape(expected.shape) - expected).max() <= close


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(family):
    source = FAMILIES[family]
    classes = is_classifier(source)
    rows, target = IRIS if family == "three classes" else (X, Y > 150 if classes else Y)
    source.fit(rows, target)
    forest = Forest.from_model(source)
    kind = KPPClassifier if classes else KPPRegressor
    model = kind(forest, regime="fixed", alpha=0.1).fit(rows, target)
    takes = check_onnx(model, odd_rows(forest, rows))
    # Forests of scikit-learn refuse infinite numbers; the histogram's take them.
    assert takes.all() == family.startswith("hist")
    if family != "oblique":
        check_treelite(model, odd_rows(forest, rows))


MODELS = {
    "blend": lambda: (KPPRegressor(n_estimators=6, random_state=0, cv=3), X, Y),
    "blend, gaps": lambda: (KPPRegressor(n_estimators=6, random_state=0, cv=3), GAPS, Y),
    "blend, classes": lambda: (KPPClassifier(n_estimators=6, random_state=0, cv=3), *IRIS),
    "honest": lambda: (KPPRegressor("random-forest", regime="honest", **SETTINGS), X, Y),
    "cross-fit": lambda: (KPPRegressor("extra-trees", regime="cross-fit", **SETTINGS), X, Y),
    "cross-fit blend": lambda: (
        KPPRegressor(n_estimators=6, random_state=0, regime="cross-fit", cv=3),
        X,
        Y,
    ),
    "ladders": lambda: (KPPRegressor("extra-trees", main_effects="ladders", **SETTINGS), GAPS, Y),
    "linear": lambda: (KPPRegressor("extra-trees", main_effects="linear", **SETTINGS), GAPS, Y),
    "two targets": lambda: (KPPRegressor("random-forest", **SETTINGS), GAPS, np.c_[Y, np.sin(Y)]),
    "no splits": lambda: (KPPRegressor("extra-trees", **SETTINGS), X, np.ones(len(X))),
    "no splits, linear": lambda: (
        KPPRegressor("extra-trees", main_effects="linear", **SETTINGS),
        np.round(X, 1)[:5],
        Y[:5],
    ),
    "one column": lambda: (KPPRegressor("boosted", **SETTINGS), X[:, :1], Y),
}


@pytest.mark.filterwarnings("ignore:The best alpha lies on:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model(name):
    model, rows, target = MODELS[name]()
    model.fit(rows, target)
    check_onnx(model, odd_rows(model.collapse().forest, rows))
    if not any(linear.coef.any() for linear in model.additive_.linear):
        check_treelite(model, odd_rows(model.collapse().forest, rows))


def table(n_rows=240, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n_rows),
            "ward": rng.choice(["north", "south", "east", "west", "far"], n_rows),
            "grade": rng.integers(1, 6, n_rows),
        }
    )
    y = frame["age"] / 10 + 3.0 * frame["ward"].isin(["south", "west"]) + (frame["grade"] % 2)
    for name in ("age", "ward"):
        frame.loc[rng.random(n_rows) < 0.1, name] = None
    return frame, y.fillna(5.0).to_numpy()


def hard_rows(frame, forest):
    """Thresholds, unknown and missing categories, odd numbers."""
    rows = pd.concat([frame] * 2, ignore_index=True)
    thresholds = forest.threshold[(forest.feature == 0) & np.isfinite(forest.threshold)]
    values = np.concatenate([thresholds, np.nextafter(thresholds, np.inf), [np.nan, 0.0, 1e9]])
    rows["age"] = np.resize(values, len(rows))
    rows["ward"] = np.resize(["north", "south", "elsewhere", None, "east", "far"], len(rows))
    return rows


@pytest.mark.filterwarnings("ignore:The best alpha lies on:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "forest",
    ["extra-trees", "random-forest", "boosted", "blend", "lightgbm", "xgboost", "catboost"],
)
def test_categories_known_unknown_and_missing(forest):
    if forest in ("lightgbm", "xgboost", "catboost"):
        pytest.importorskip(forest)
    frame, y = table()
    model = KPPRegressor(forest, n_estimators=8, random_state=0, alpha=0.1).fit(frame, y)
    collapsed = model.collapse().forest
    assert (collapsed.split_kind == CATEGORICAL).any()
    rows = hard_rows(frame, collapsed)
    check_onnx(model, rows)
    if forest != "blend":
        check_treelite(model, rows)


def test_an_unknown_category_is_not_a_missing_one_where_the_library_says_so():
    xgboost = pytest.importorskip("xgboost")
    frame, y = table()
    frame["ward"] = frame["ward"].astype("category")
    source = xgboost.XGBRegressor(n_estimators=6, enable_categorical=True, max_cat_to_onehot=1)
    model = KPPRegressor(Forest.from_model(source.fit(frame, y)), regime="fixed", alpha=0.1)
    model.fit(frame, y)
    rows = frame.copy()
    rows["ward"] = np.resize(["elsewhere", None, "north"], len(rows))
    rows["ward"] = rows["ward"].astype("category")
    answer = model.predict(rows)
    assert (
        answer[:1]
        != model.predict(rows.assign(ward=rows["ward"].cat.remove_categories("elsewhere")))[:1]
    ).any()
    check_onnx(model, rows)


def numbers_with_codes(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    X[:, 2] = np.where(rng.random(n_rows) < 0.4, 0.0, X[:, 2])
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = rng.integers(0, 7, n_rows)
    y = np.nan_to_num(X[:, 0], nan=2.0) + (X[:, 2] == 0) + np.isin(X[:, 3], [1, 4, 5])
    return X, y


@pytest.mark.parametrize("missing", ["nan", "zero", "none"])
def test_lightgbm_with_its_ways_of_missing_values_and_its_codes(missing):
    lightgbm = pytest.importorskip("lightgbm")
    rows, y = numbers_with_codes()
    options = {"zero_as_missing": missing == "zero", "use_missing": missing != "none"}
    source = lightgbm.LGBMRegressor(
        n_estimators=8, num_leaves=7, min_child_samples=5, verbose=-1, n_jobs=1, **options
    )
    forest = Forest.from_model(source.fit(rows, y, categorical_feature=[3]))
    assert bool(forest.whole_categories)
    model = KPPRegressor(forest, regime="fixed", alpha=0.1).fit(rows, y)
    hard = odd_rows(forest, rows)
    hard[:200, 3] = np.resize([2.7, -0.5, 1.0, 1e9, np.nan, 6.999, -1.0], 200)
    hard = hard[np.abs(hard[:, 3]) < 1e15]
    check_onnx(model, hard)
    check_treelite(model, hard)


def test_xgboost_with_a_number_for_missing_values_and_with_codes():
    xgboost = pytest.importorskip("xgboost")
    rows, y = numbers_with_codes()
    rows[np.isnan(rows)] = -999.0
    source = xgboost.XGBRegressor(
        n_estimators=8,
        max_depth=3,
        missing=-999.0,
        enable_categorical=True,
        max_cat_to_onehot=1,
        feature_types=["q", "q", "q", "c"],
    )
    forest = Forest.from_model(source.fit(rows, y))
    assert bool(forest.missing_values)
    model = KPPRegressor(forest, regime="fixed", alpha=0.1).fit(rows, y)
    hard = odd_rows(forest, rows)
    near = np.float32(-999.0)
    values = [-999.0, np.nextafter(near, 0), np.nextafter(-999.0, 0), -998.99999, np.nan]
    hard[:200, 0] = np.resize(values, 200)
    hard[:, 3] = np.resize([0.0, 1.0, 6.0, 9.0, -999.0, np.nan, 2.5, 4.0], len(hard))
    takes = check_onnx(model, hard)
    assert not takes[hard[:, 3] == 2.5].any()
    check_treelite(model, hard)


def test_what_other_losses_make_of_scores(tmp_path):
    """Exponentials with Poisson's loss, several quantiles in order; also of a model from a file."""
    counts = np.random.default_rng(0).poisson(np.exp(X[:, 2] * 8))
    poisson = KPPRegressor("extra-trees", loss="poisson", **SETTINGS).fit(X, counts)
    several = {"loss": "quantile", "quantile": [0.9, 0.1, 0.5]}
    quantiles = KPPRegressor("extra-trees", **several, **SETTINGS).fit(X, Y)
    # They hardly cross by themselves: with other intercepts they do, and are put in order.
    crossing = copy(quantiles)
    turned = quantiles.additive_.intercept[[1, 2, 0]]
    crossing.additive_ = replace(quantiles.additive_, intercept=turned)
    assert (np.diff(crossing.predict(X)[:, [1, 2, 0]], axis=1) >= 0).all()
    assert (crossing.predict(X) != crossing.additive_.scores(X)).any()
    crossed = run(to_onnx(crossing), {"X": X})["prediction"]
    np.testing.assert_allclose(crossed, crossing.predict(X), rtol=1e-12)
    treelite = pytest.importorskip("treelite")
    for model in (poisson, quantiles):
        save(model, tmp_path / "model.kpp")
        loaded = load(tmp_path / "model.kpp")
        for one in (model, loaded, make_pipeline("passthrough", model)):
            answer = run(to_onnx(one), {"X": X})["prediction"]
            np.testing.assert_allclose(answer, model.predict(X), rtol=1e-12)
            if model is poisson:
                served = treelite.gtil.predict(to_treelite(one), X).ravel()
                np.testing.assert_allclose(served, model.predict(X), rtol=1e-12)
    with pytest.raises(TypeError, match="quantiles"):
        to_treelite(quantiles)
