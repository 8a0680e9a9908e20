"""KPP models inside other people's tools: feature selection, inspection, ensembles, files."""

import io

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import (
    ExtraTreesRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import PartialDependenceDisplay, partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpp import KPPClassifier, KPPEmbedding, KPPRegressor

# Two columns of six matter; they stand first.
X, Y = make_classification(
    100, 6, n_informative=2, n_redundant=0, shuffle=False, class_sep=2, random_state=0
)
KINDS = np.digitize(X[:, 0], np.quantile(X[:, 0], [1 / 3, 2 / 3]))
RX, RY = make_regression(100, 6, n_informative=2, shuffle=False, noise=5, random_state=0)
ALPHA = {KPPClassifier: 1e-3, KPPRegressor: 0.1}
BOTH = pytest.mark.parametrize("estimator", [KPPClassifier, KPPRegressor])


def small(estimator, **parameters):
    own = {"forest": "extra-trees", "n_estimators": 10, "random_state": 0}
    return estimator(**own | {"alpha": ALPHA[estimator]} | parameters)


def data_of(estimator):
    return (X, Y) if estimator is KPPClassifier else (RX, RY)


def frame_of(rows):
    return pd.DataFrame(rows, columns=[f"x{j}" for j in range(rows.shape[1])])


# Selection of columns.


@BOTH
def test_models_have_importances_and_no_coef(estimator):
    model = small(estimator).fit(*data_of(estimator))
    assert not hasattr(model, "coef_")
    assert model.node_coef_.shape[-1] == model.map_.shape[1]
    assert model.feature_importances_.shape == (6,)


@pytest.mark.parametrize("labels", [Y, KINDS], ids=["binary", "multiclass"])
def test_select_from_model(labels):
    selector = SelectFromModel(small(KPPClassifier)).fit(X, labels)
    importances = selector.estimator_.feature_importances_
    kept = importances >= importances.mean()
    assert selector.get_support().tolist() == kept.tolist()
    assert 1 <= kept.sum() < 6
    assert np.array_equal(selector.transform(X), X[:, kept])


def test_select_from_model_keeps_the_names_of_a_frame():
    selector = SelectFromModel(small(KPPRegressor), max_features=2, threshold=-np.inf)
    selector.set_output(transform="pandas")
    assert list(selector.fit_transform(frame_of(RX), RY)) == ["x0", "x1"]


@BOTH
def test_rfe(estimator):
    rows, y = data_of(estimator)
    selector = RFE(small(estimator), n_features_to_select=3).fit(rows, y)
    kept = list(range(6))
    while len(kept) > 3:
        importances = small(estimator).fit(rows[:, kept], y).feature_importances_
        del kept[np.argmin(importances)]
    assert np.flatnonzero(selector.support_).tolist() == kept
    assert sorted(selector.ranking_) == [1, 1, 1, 2, 3, 4]
    assert selector.predict(rows).shape == (100,)


def test_rfecv():
    selector = RFECV(small(KPPClassifier), cv=3).fit(X, Y)
    assert 1 <= selector.n_features_ <= 6
    assert selector.support_[:2].any()
    assert selector.cv_results_["n_features"].tolist() == [1, 2, 3, 4, 5, 6]


def test_sequential_selection():
    selector = SequentialFeatureSelector(small(KPPRegressor), n_features_to_select=2, cv=3)
    assert selector.fit(RX, RY).get_support()[:2].all()


# Explanations.


@pytest.mark.filterwarnings("ignore")  # of shap's own
@pytest.mark.parametrize("given", ["model", "method"])
@BOTH
def test_shap_explains_the_scores(estimator, given):
    """A model is a function of rows, and no linear model: it has no ``coef_``."""
    shap = pytest.importorskip("shap")
    rows, y = data_of(estimator)
    model = small(estimator).fit(rows, y)
    method = model.predict if estimator is KPPRegressor else model.decision_function
    values = shap.Explainer(model if given == "model" else method, rows[:20])(rows[:3])
    expected = method(rows[:3])
    size = np.abs(method(rows)).max()
    np.testing.assert_allclose(
        values.values.sum(axis=1) + values.base_values, expected, rtol=0, atol=1e-9 * size
    )
    np.testing.assert_allclose(values.base_values, method(rows[:20]).mean(), atol=1e-9 * size)


@pytest.mark.filterwarnings("ignore")  # of skore's own
class TestSkore:
    @pytest.fixture(params=[KPPClassifier, KPPRegressor])
    def report(self, request):
        skore = pytest.importorskip("skore")
        rows, y = data_of(request.param)
        rows = frame_of(rows)
        halves = {"X_train": rows[::2], "y_train": y[::2], "X_test": rows[1::2], "y_test": y[1::2]}
        return skore.EstimatorReport(small(request.param), **halves)

    def test_there_are_no_coefficients_of_columns(self, report):
        with pytest.raises(AttributeError):
            report.inspection.coefficients()

    def test_importances_stand_under_the_names_of_columns(self, report):
        table = report.inspection.impurity_decrease().frame()
        assert table["feature"].tolist() == [f"x{j}" for j in range(6)]
        assert table["importance"].tolist() == report.estimator_.feature_importances_.tolist()

    def test_scores(self, report):
        names = report.metrics.summarize().frame().index
        assert "fit_time" in names
        assert {"roc_auc", "r2"} & set(names)


@BOTH
def test_permutation_importance(estimator):
    rows, y = data_of(estimator)
    found = permutation_importance(small(estimator).fit(rows, y), rows, y, random_state=0)
    assert found.importances.shape == (6, 5)
    assert found.importances_mean[:2].max() > 2 * found.importances_mean[2:].max()


@BOTH
def test_partial_dependence(estimator):
    rows, y = data_of(estimator)
    model = small(estimator).fit(rows, y)
    found = partial_dependence(model, rows, [1], kind="both", grid_resolution=5)
    (grid,) = found["grid_values"]
    predict = (lambda at: model.predict_proba(at)[:, 1]) if estimator is KPPClassifier else None
    for k, value in enumerate(grid):
        moved = rows.copy()
        moved[:, 1] = value
        expected = (predict or model.predict)(moved)
        np.testing.assert_allclose(found["individual"][0, :, k], expected, rtol=1e-12)
        assert found["average"][0, k] == pytest.approx(expected.mean(), rel=1e-12)


def test_partial_dependence_display():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    model = small(KPPClassifier).fit(frame_of(X), KINDS)
    display = PartialDependenceDisplay.from_estimator(
        model, frame_of(X), ["x0", ("x0", "x1")], target=2, grid_resolution=4
    )
    assert [axis.get_xlabel() for axis in display.axes_.ravel()] == ["x0", "x0"]
    pyplot.close(display.figure_)


# Models made of models.


@pytest.mark.parametrize("labels", [Y, KINDS], ids=["binary", "multiclass"])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration(labels, method):
    calibrated = CalibratedClassifierCV(small(KPPClassifier), method=method, cv=3).fit(X, labels)
    proba = calibrated.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)
    assert calibrated.score(X, labels) > 0.8
    fitted = FrozenEstimator(small(KPPClassifier).fit(X[::2], labels[::2]))
    later = CalibratedClassifierCV(fitted, method=method).fit(X[1::2], labels[1::2])
    assert later.predict(X).shape == (100,)


def test_cross_val_predict():
    folds = KFold(4, shuffle=True, random_state=0)
    found = cross_val_predict(small(KPPClassifier), X, Y, cv=folds, method="predict_proba")
    for train, test in folds.split(X):
        alone = small(KPPClassifier).fit(X[train], Y[train])
        assert np.array_equal(found[test], alone.predict_proba(X[test]))


@BOTH
def test_grid_search_over_alpha(estimator):
    rows, y = data_of(estimator)
    grid = {"alpha": [1e-3, 1.0, 1e3]}
    search = GridSearchCV(small(estimator), grid, cv=3).fit(rows, y)
    scores = search.cv_results_["mean_test_score"]
    assert search.best_params_["alpha"] == grid["alpha"][np.argmax(scores)] != 1e3
    assert search.best_estimator_.alpha_ == search.best_params_["alpha"]
    assert search.score(rows, y) > scores.max() - 0.1


def test_stacking():
    members = [("kpp", small(KPPClassifier)), ("linear", LogisticRegression())]
    stack = StackingClassifier(members, LogisticRegression(), cv=3).fit(X, Y)
    assert stack.transform(X).shape == (100, 2)
    assert stack.score(X, Y) > 0.85
    above = StackingRegressor([("linear", Ridge())], small(KPPRegressor), cv=3).fit(RX, RY)
    assert above.score(RX, RY) > 0.8


def test_voting():
    members = [("kpp", small(KPPRegressor)), ("linear", Ridge())]
    vote = VotingRegressor(members).fit(RX, RY)
    alone = [clone(member).fit(RX, RY).predict(RX) for _, member in members]
    np.testing.assert_allclose(vote.predict(RX), np.mean(alone, axis=0), rtol=1e-12)
    members = [("kpp", small(KPPClassifier)), ("linear", LogisticRegression())]
    soft = VotingClassifier(members, voting="soft").fit(X, KINDS)
    alone = [clone(member).fit(X, KINDS).predict_proba(X) for _, member in members]
    np.testing.assert_allclose(soft.predict_proba(X), np.mean(alone, axis=0), rtol=1e-12)


def test_one_model_per_target():
    targets = np.column_stack([RY, RX[:, 1]])
    both = MultiOutputRegressor(small(KPPRegressor)).fit(RX, targets)
    assert np.array_equal(both.predict(RX)[:, 0], small(KPPRegressor).fit(RX, RY).predict(RX))


@BOTH
def test_pipelines_and_their_output(estimator):
    rows, y = data_of(estimator)
    pipeline = make_pipeline(StandardScaler(), small(estimator)).set_output(transform="pandas")
    pipeline.fit(frame_of(rows), y)
    assert pipeline[-1].feature_names_in_.tolist() == [f"x{j}" for j in range(6)]
    plain = make_pipeline(StandardScaler(), small(estimator)).fit(rows, y)
    # The scaler's means are rounded differently in a frame.
    scores = pipeline[-1](pipeline[:-1].transform(frame_of(rows)))
    np.testing.assert_allclose(scores, plain[-1](plain[:-1].transform(rows)), rtol=1e-9)
    pipeline.set_params(**{f"{estimator.__name__.lower()}__alpha": 7.0})
    assert pipeline[-1].alpha == 7.0


def test_an_embedding_before_a_linear_model():
    pipeline = make_pipeline(KPPEmbedding(n_estimators=10, random_state=0), Ridge()).fit(RX, RY)
    assert pipeline.score(RX, RY) > 0.8
    names = pipeline[:-1].get_feature_names_out()
    assert len(names) == pipeline[-1].n_features_in_


# Parameters and files.


@BOTH
def test_parameters_go_around(estimator):
    model = small(estimator, forest=ExtraTreesRegressor(5, max_depth=3))
    parameters = model.get_params(deep=False)
    again = estimator(**parameters)
    assert all(again.get_params(deep=False)[name] is value for name, value in parameters.items())
    assert model.set_params(**parameters) is model
    model.set_params(forest__max_depth=2, alpha=3.0)
    copy = clone(model)
    assert copy.forest is not model.forest
    assert copy.get_params()["forest__max_depth"] == 2
    assert copy.alpha == 3.0
    assert str(copy) == str(model)
    with pytest.raises(ValueError):
        model.set_params(depth=2)


@BOTH
def test_a_clone_of_a_fitted_model_fits_the_same(estimator):
    rows, y = data_of(estimator)
    model = small(estimator).fit(rows, y)
    again = clone(model)
    assert not hasattr(again, "map_")
    assert np.array_equal(again.fit(rows, y).predict(rows), model.predict(rows))


@pytest.mark.parametrize("compress", [0, 3])
@BOTH
def test_joblib_files(tmp_path, estimator, compress):
    rows, y = data_of(estimator)
    model = small(estimator).fit(rows, y)
    joblib.dump(model, tmp_path / "model.joblib", compress=compress)
    again = joblib.load(tmp_path / "model.joblib")
    assert again.get_params() == model.get_params()
    assert np.array_equal(again.predict(rows), model.predict(rows))
    assert np.array_equal(again.feature_importances_, model.feature_importances_)


def test_a_joblib_file_of_an_embedding():
    embedding = KPPEmbedding(n_estimators=10, random_state=0).fit(RX, RY)
    file = io.BytesIO()
    joblib.dump(embedding, file)
    file.seek(0)
    difference = joblib.load(file).transform(RX) - embedding.transform(RX)
    assert abs(difference).max() == 0
