"""Leaving out one fold at a time at a given alpha."""

import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold, cross_val_predict

from kpp import KPPClassifier, KPPRegressor
from kpp.geometry import PathMap

FOLDS = KFold(4, shuffle=True, random_state=1)
DX, DY = load_diabetes(return_X_y=True)
IX, IY = load_iris(return_X_y=True)
BLOCKS = [("trees", "extra-trees"), ("boosted", "boosted")]


def small(estimator=KPPRegressor, **parameters):
    own = {"forest": "extra-trees", "n_estimators": 5, "random_state": 0, "combine": "joint"}
    return estimator(**(own | {"alpha": 0.1} | parameters))


def test_the_papers_cross_fit_row():
    forest = RandomForestRegressor(30, max_depth=6, random_state=0)
    found = KPPRegressor(forest, alpha=0.4329, tol=1e-12).leave_one_fold_out(
        DX, DY, cv=KFold(5, shuffle=True, random_state=0)
    )
    assert round(found.error, 2) == 57.33
    assert round(found.traces.mean(), 3) == 0.161
    assert round(found.effective_dimensions.mean(), 3) == 0.080
    assert round(found.norms.mean(), 1) == 662.7
    assert round(found.norms.std(), 1) == 4.6
    averaged = found.averaged.scores(DX)[:, 0]
    assert round(np.sqrt(np.mean((averaged - DY) ** 2)), 1) == 46.7


@pytest.mark.parametrize("forest", ["extra-trees", "boosted", BLOCKS])
@pytest.mark.parametrize("regime", ["shared", "honest"])
def test_predictions_are_those_of_models_of_the_other_folds(forest, regime):
    model = small(forest=forest, regime=regime)
    found = model.leave_one_fold_out(DX, DY, cv=FOLDS)
    expected = cross_val_predict(model, DX, DY, cv=FOLDS)
    np.testing.assert_array_equal(found.oof_prediction, expected)
    assert found.error == pytest.approx(np.sqrt(np.mean((expected - DY) ** 2)), rel=1e-12)
    for q, (_, test) in enumerate(FOLDS.split(DX)):
        own = np.sqrt(np.mean((expected[test] - DY[test]) ** 2))
        assert found.errors[q] == pytest.approx(own, rel=1e-12)
    parts = [part.predict(DX) for part in found.models]
    np.testing.assert_allclose(found.averaged.scores(DX)[:, 0], np.mean(parts, axis=0), rtol=1e-12)


def test_each_fit_is_ridge_at_the_same_number():
    found = small(tol=1e-22).leave_one_fold_out(DX, DY, cv=FOLDS)
    folds = zip(found.fits, found.averaged.blocks, FOLDS.split(DX), strict=True)
    for fit, block, (train, test) in folds:
        assert np.array_equal(fit.rows, train)
        assert fit.alpha == found.alpha == 0.1
        phi = fit.map.to_csr().toarray()
        other = Ridge(0.1, solver="cholesky").fit(phi, DY[train])
        at_test = fit.map.on(DX[test])
        predicted = other.predict(at_test.to_csr().toarray())
        np.testing.assert_allclose(found.oof_prediction[test], predicted, rtol=1e-8)
        np.testing.assert_allclose(fit.scores(at_test)[:, 0], predicted, rtol=1e-8)
        # The blocks of the average stand in the order of the folds, at a quarter each.
        close = {"rtol": 0, "atol": 1e-8 * np.abs(other.coef_).max()}
        np.testing.assert_allclose(4 * block.coef[0], other.coef_, **close)
        assert fit.share == 0.25
    mean = np.mean([fit.intercept[0] for fit in found.fits])
    assert found.averaged.intercept[0] == pytest.approx(mean, rel=1e-14)


def test_figures_of_the_folds_by_their_definitions():
    found = small().leave_one_fold_out(DX, DY, cv=FOLDS)
    for q, model in enumerate(found.models):
        assert isinstance(model.map_, PathMap)
        phi = model.map_.to_csr().toarray()
        gram = phi @ phi.T
        smoother = np.linalg.solve(gram + 0.1 * np.eye(len(gram)), gram)
        assert found.traces[q] == pytest.approx(np.trace(gram) / len(gram))
        assert found.effective_dimensions[q] == pytest.approx(np.trace(smoother) / len(gram))
        assert found.norms[q] == pytest.approx(np.linalg.norm(model.node_coef_))


@pytest.mark.parametrize("weight", [None, "balanced"])
def test_labels_of_a_fold_do_not_reach_its_predictions(weight):
    # Classes: those of one fold are changed, and its shares of the classes with them.
    model = small(KPPClassifier, alpha=1e-2, class_weight=weight)
    _, fold = list(FOLDS.split(IX))[2]
    other = IY.copy()
    other[fold] = 2 - other[fold] // 2
    before = model.leave_one_fold_out(IX, IY, cv=FOLDS).oof_prediction
    after = model.leave_one_fold_out(IX, other, cv=FOLDS).oof_prediction
    np.testing.assert_array_equal(after[fold], before[fold])
    rest = np.setdiff1d(np.arange(len(IY)), fold)
    assert not np.allclose(after[rest], before[rest])


@pytest.mark.parametrize("node_weight", ["gain", "variance"])
def test_numbers_of_a_fold_do_not_reach_its_predictions(node_weight):
    model = small(node_weight=node_weight, leaf_weight="variance")
    _, fold = list(FOLDS.split(DX))[1]
    other = DY.copy()
    other[fold] = other[fold][::-1] + 1e4
    before = model.leave_one_fold_out(DX, DY, cv=FOLDS).oof_prediction
    after = model.leave_one_fold_out(DX, other, cv=FOLDS).oof_prediction
    np.testing.assert_array_equal(after[fold], before[fold])
    rest = np.setdiff1d(np.arange(len(DY)), fold)
    assert not np.allclose(after[rest], before[rest])


def test_classes():
    names = np.array(["a", "b", "c"])[IY]
    model = small(KPPClassifier, alpha=1e-3)
    found = model.leave_one_fold_out(IX, names, cv=FOLDS)
    expected = cross_val_predict(model, IX, names, cv=FOLDS, method="predict_proba")
    np.testing.assert_array_equal(found.oof_prediction, expected)
    classes = cross_val_predict(model, IX, names, cv=FOLDS)
    assert found.error == np.mean(classes != names)
    errors = [np.mean(classes[test] != names[test]) for _, test in FOLDS.split(IX)]
    assert found.errors.tolist() == errors
    assert np.isnan(found.effective_dimensions).all()  # a figure of ridge
    scores = np.mean([part.decision_function(IX) for part in found.models], axis=0)
    np.testing.assert_allclose(found.averaged.scores(IX), scores, rtol=1e-9, atol=1e-12)
    assert found.averaged.classes.tolist() == ["a", "b", "c"]


def test_the_model_is_left_as_it_is():
    seed = np.random.RandomState(0)
    model = small(random_state=seed).fit(DX[:100], DY[:100])
    next_draw, kept = copy.deepcopy(seed).randint(2**31), dict(vars(model))
    model.leave_one_fold_out(DX, DY, cv=3)
    assert copy.deepcopy(seed).randint(2**31) == next_draw
    assert vars(model) == kept
    unfitted = small()
    unfitted.leave_one_fold_out(DX, DY, cv=3)
    assert vars(unfitted) == vars(clone(unfitted))


def test_which_alpha():
    auto = small(alpha="auto", cv=3)
    with pytest.raises(ValueError, match="alpha"):
        auto.leave_one_fold_out(DX, DY)
    assert auto.leave_one_fold_out(DX, DY, alpha=0.5).models[0].alpha_ == 0.5
    auto.fit(DX, DY)
    found = auto.leave_one_fold_out(DX, DY)
    assert {model.alpha_ for model in found.models} == {auto.alpha_}
    assert len(found.folds) == 3  # the model's own cv
    assert small().leave_one_fold_out(DX, DY, alpha=7.0).alpha == 7.0


def test_weights_count_in_fits_and_errors():
    # A row of weight 2 is the row twice, for a forest that sees every row and a penalty on sums.
    weight = np.arange(len(DY)) % 3
    forest = ExtraTreesRegressor(5, max_features=1.0, max_depth=3, random_state=0)
    found = small(forest=forest).leave_one_fold_out(DX, DY, cv=FOLDS, sample_weight=weight)
    for q, (train, test) in enumerate(FOLDS.split(DX)):
        own = small(forest=forest).fit(DX[train], DY[train], sample_weight=weight[train])
        predicted = own.predict(DX[test])
        np.testing.assert_array_equal(found.oof_prediction[test], predicted)
        errors = np.repeat((predicted - DY[test]) ** 2, weight[test])
        assert found.errors[q] == pytest.approx(np.sqrt(errors.mean()), rel=1e-12)
    errors = np.repeat((found.oof_prediction - DY) ** 2, weight)
    assert found.error == pytest.approx(np.sqrt(errors.mean()), rel=1e-12)


def test_a_fold_without_weight_has_no_error():
    weight = np.ones(len(DY))
    weight[next(iter(FOLDS.split(DX)))[1]] = 0
    found = small().leave_one_fold_out(DX, DY, cv=FOLDS, sample_weight=weight)
    assert np.isnan(found.errors).tolist() == [True, False, False, False]
    assert np.isfinite(found.error)


def test_groups_stay_whole():
    groups = np.arange(len(DY)) // 4
    for cv in (3, GroupKFold(3)):
        found = small().leave_one_fold_out(DX, DY, cv=cv, groups=groups)
        for train, test in found.folds:
            assert not set(groups[train]) & set(groups[test])
        assert found.models[0].fit_record_.is_grouped


def test_frames_lists_and_several_targets():
    frame = pd.DataFrame(DX).add_prefix("x")
    two = np.column_stack([DY, -DY])
    model = small(tol=1e-12)
    one = model.leave_one_fold_out(frame, pd.Series(DY), cv=FOLDS)
    assert one.models[0].feature_names_in_.tolist() == list(frame.columns)
    as_lists = model.leave_one_fold_out(DX.tolist(), DY.tolist(), cv=FOLDS)
    np.testing.assert_array_equal(as_lists.oof_prediction, one.oof_prediction)
    both = model.leave_one_fold_out(DX, two, cv=FOLDS)
    assert both.oof_prediction.shape == two.shape
    # The second target is the first turned round, and so are its errors.
    difference = both.oof_prediction[:, 0] - DY
    assert both.error == pytest.approx(np.sqrt(np.mean(difference**2)), rel=1e-8)


def test_a_fixed_forest_is_kept():
    grown = FrozenEstimator(ExtraTreesRegressor(5, random_state=0).fit(DX[:200], DY[:200]))
    model = KPPRegressor(grown, regime="fixed", alpha=0.1)
    found = model.leave_one_fold_out(DX[200:], DY[200:], cv=FOLDS)
    first, last = found.models[0].forest_, found.models[-1].forest_
    np.testing.assert_array_equal(first.threshold, last.threshold)


def test_refusals():
    with pytest.raises(ValueError, match="folds of its own"):
        small(regime="cross-fit").leave_one_fold_out(DX, DY)
    labels = np.where(np.arange(len(IY)) == 7, 9, IY)
    with pytest.raises(ValueError, match="class 9"):
        small(KPPClassifier).leave_one_fold_out(IX, labels, cv=FOLDS)
    with pytest.raises(ValueError, match="rows"):
        small().leave_one_fold_out(DX, DY[:-1])
    with pytest.raises(ValueError, match="exactly one test fold"):
        small().leave_one_fold_out(DX, DY, cv=[(np.arange(10), np.arange(10, 20))])
