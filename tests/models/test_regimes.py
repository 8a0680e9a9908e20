"""Regimes, growers and folds, each on its own."""

import warnings
from typing import ClassVar

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold, KFold

from kpp import KPPClassifier, KPPRegressor
from kpp.models.data import FitData
from kpp.models.grower import Grower, seeds_for
from kpp.models.plans import Splitter
from kpp.models.regimes import REGIMES, CrossFit, Fixed, Honest, Shared, regime_of

N_ROWS = 90


@pytest.fixture(scope="module")
def data():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:N_ROWS], y[:N_ROWS]
    return FitData(X, y, y[:, None], np.ones(N_ROWS), is_weighted=False)


def grower_of(forest="extra-trees", **parameters):
    model = KPPRegressor(forest, **({"n_estimators": 7, "random_state": 0} | parameters))
    model.n_features_in_ = 10
    return Grower.of(model, classification=False)


def regime(kind, cv=3, **parameters):
    splitter = Splitter(cv, 0, is_stratified=False)
    return kind(splitter, **({"chooses_alpha": True, "random_state": 0} | parameters))


class Spy(ExtraTreesRegressor):
    """Extra trees that remember the target of every fit."""

    seen: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        Spy.seen.append(np.asarray(y).copy())
        return super().fit(X, y, sample_weight)


@pytest.fixture
def spy():
    Spy.seen.clear()
    return Spy(7)


def rows_of(seen, data):
    """Row numbers of a target; its values differ enough to tell rows apart."""
    place = {value: k for k, value in enumerate(data.labels.tolist())}
    return {place[value] for value in seen.tolist()}


@pytest.fixture(scope="module")
def told_apart(data):
    y = np.arange(N_ROWS) + data.labels / 1000
    return FitData(data.X, y, y[:, None], data.weight, is_weighted=False)


def test_every_regime_says_who_saw_what():
    numbers = ["PB-04", "PB-02", "PB-03", "after PB-03", "PB-01"]
    assert [r.number for r in REGIMES.values()] == numbers
    for kind in REGIMES.values():
        for sentence in (kind.saw, kind.may_claim, kind.may_not_claim, kind.on_bounds):
            assert sentence.endswith(".")
        assert kind.independence[1]


def test_the_regime_of_a_fitted_model():
    X, y = load_diabetes(return_X_y=True)
    model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, regime="honest").fit(X, y)
    assert regime_of(model) is Honest


def test_fold_grown_groups_never_see_their_fold(told_apart, spy):
    kind = regime(Shared)
    plan = kind.plan(told_apart, grower_of(spy), *kind.rows(N_ROWS))
    assert kind.selection == "fold-grown"
    assert plan.is_relative
    assert len(Spy.seen) == len(plan.folds) == 3
    for seen, fold in zip(Spy.seen, plan.folds, strict=True):
        assert rows_of(seen, told_apart) == set(fold.train_rows.tolist())
        assert fold.part.make().shape == fold.train.shape
    assert sum(fold.train.forest.n_trees for fold in plan.folds) == plan.map.forest.n_trees == 7


def test_estimated_weights_of_a_group_do_not_see_its_fold(data):
    kind, grower = regime(Shared), grower_of("boosted", n_estimators=3)
    plan = kind.plan(data, grower, *kind.rows(N_ROWS))
    poisoned = data.labels.copy()
    poisoned[plan.folds[0].test_rows] = 1e6
    other = FitData(data.X, poisoned, poisoned[:, None], data.weight, is_weighted=False)
    again = kind.plan(other, grower, *kind.rows(N_ROWS))
    mine, theirs = plan.folds[0].train, again.folds[0].train
    assert np.array_equal(mine.weights.edge, theirs.weights.edge)
    assert not np.array_equal(plan.folds[1].train.weights.edge, again.folds[1].train.weights.edge)


def test_regrown_folds_have_forests_of_their_own(told_apart, spy):
    kind = regime(Shared, alpha_selection="regrown")
    plan = kind.plan(told_apart, grower_of(spy), *kind.rows(N_ROWS))
    assert rows_of(Spy.seen[0], told_apart) == set(range(N_ROWS))
    for seen, fold in zip(Spy.seen[1:], plan.folds, strict=True):
        assert rows_of(seen, told_apart) == set(fold.train_rows.tolist())
        assert fold.train.forest.n_trees == 7
    assert not plan.is_relative


def test_frozen_folds_share_the_map(told_apart, spy):
    kind = regime(Shared, alpha_selection="frozen")
    plan = kind.plan(told_apart, grower_of(spy), *kind.rows(N_ROWS))
    assert len(Spy.seen) == 1
    assert all(fold.train.forest is plan.map.forest for fold in plan.folds)


def test_an_honest_forest_sees_its_own_rows_only(told_apart, spy):
    kind = regime(Honest, honest_fraction=0.3)
    partition, fit = kind.rows(N_ROWS)
    plan = kind.plan(told_apart, grower_of(spy), partition, fit)
    assert len(fit) == 27
    assert set(partition.tolist()).isdisjoint(fit.tolist())
    assert [rows_of(seen, told_apart) for seen in Spy.seen] == [set(partition.tolist())]
    assert plan.map.shape[0] == len(fit)
    assert kind.selection == "frozen"
    tested = np.concatenate([fold.test_rows for fold in plan.folds])
    assert np.array_equal(np.sort(tested), np.arange(27))


def test_the_center_of_an_honest_fit_sees_the_partition_only(told_apart, spy):
    kind = regime(Honest, center="partition")
    partition, fit = kind.rows(N_ROWS)
    plan = kind.plan(told_apart, grower_of(spy), partition, fit)
    assert plan.center is not None
    assert np.array_equal(plan.center.fit_rows, partition)
    for seen in Spy.seen:
        assert rows_of(seen, told_apart) <= set(partition.tolist())
    assert plan.map.forest is plan.center.map.forest


def test_cross_fit_trees_miss_the_fold_and_the_one_that_is_fitted(told_apart, spy):
    kind = regime(CrossFit, cv=4)
    plan = kind.plan(told_apart, grower_of(spy), *kind.rows(N_ROWS))
    assert len(plan.layers) == len(plan.folds) == 4
    for q, (seen, layer, fold) in enumerate(zip(Spy.seen, plan.layers, plan.folds, strict=True)):
        inside = rows_of(seen, told_apart)
        assert inside.isdisjoint(layer.rows.tolist())
        assert inside.isdisjoint(fold.test_rows.tolist())
        assert np.array_equal(layer.rows, plan.folds[(q + 1) % 4].test_rows)


def test_cross_fit_needs_three_folds(data):
    kind = regime(CrossFit, cv=2)
    with pytest.raises(ValueError, match="at least 3 folds"):
        kind.plan(data, grower_of(), *kind.rows(N_ROWS))


def test_fixed_takes_grown_forests_and_no_labels(data):
    grown = RandomForestRegressor(5, random_state=0).fit(data.X, data.labels)
    kind = regime(Fixed, chooses_alpha=False)
    kind.check_forest(FrozenEstimator(grown))
    with pytest.raises(ValueError, match="takes a forest that was fitted on other data"):
        kind.check_forest(RandomForestRegressor())
    with pytest.raises(ValueError, match="grows its forest"):
        regime(Shared).check_forest(FrozenEstimator(grown))
    plan = kind.plan(data, grower_of(FrozenEstimator(grown)), *kind.rows(N_ROWS))
    assert plan.partition_rows is None
    assert plan.folds == []


# Growers.


def test_shares_of_trees_differ_by_one(data):
    rows = [np.arange(30 * q, 30 * q + 30) for q in range(3)]
    forests = grower_of(n_estimators=8).in_groups(data, rows)
    assert [group[0].n_trees for group in forests] == [3, 3, 2]
    boosted = grower_of("boosted", n_estimators=4).in_groups(data, rows)
    assert [group[0].n_trees for group in boosted] == [4, 4, 4]


def test_more_groups_than_trees_grow_one_each(data):
    rows = [np.arange(N_ROWS)] * 3
    assert [g[0].n_trees for g in grower_of(n_estimators=2).in_groups(data, rows)] == [1, 1, 1]


def test_seeds():
    assert seeds_for(7, 1) == [7]
    assert seeds_for(None, 1) == [None]
    assert len(set(seeds_for(7, 3))) == 3
    assert seeds_for(7, 3) == seeds_for(7, 3)
    assert seeds_for(np.random.RandomState(0), 1) == seeds_for(np.random.RandomState(0), 1)


def test_weights_reach_forests_only_where_there_are_some(data):
    class Weighted(ExtraTreesRegressor):
        given: ClassVar[list] = []

        def fit(self, X, y, sample_weight=None):
            Weighted.given.append(sample_weight)
            return super().fit(X, y, sample_weight)

    grower = grower_of(Weighted(3))
    grower.plain(data)
    grower.plain(FitData(data.X, data.labels, data.target, 2 * data.weight))
    assert Weighted.given[0] is None
    assert (Weighted.given[1] == 2).all()


def test_a_forest_of_other_columns_is_refused(data):
    grown = RandomForestRegressor(2).fit(data.X[:, :3], data.labels)
    with pytest.raises(ValueError, match="expecting 3 features"):
        grower_of(FrozenEstimator(grown)).plain(data)


# Data and folds.


def test_taking_rows_takes_everything(data):
    groups = np.arange(N_ROWS) // 10
    whole = FitData(data.X, data.labels, data.target, data.weight, groups)
    part = whole.take(np.array([5, 3]))
    assert len(part) == 2
    assert part.labels.tolist() == data.labels[[5, 3]].tolist()
    assert part.groups.tolist() == [0, 0]
    assert (data.X[[5, 3]] == part.X).all()
    assert whole.take(np.arange(N_ROWS)) is whole


def test_folds_keep_groups_whole(data):
    groups = np.arange(N_ROWS) % 9
    whole = FitData(data.X, data.labels, data.target, data.weight, groups)
    for train, test in Splitter(GroupKFold(3), 0, is_stratified=False).split(whole):
        assert set(groups[train]).isdisjoint(groups[test])


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ([(np.arange(45, 90), np.arange(45))], "exactly one test fold"),
        ([(np.arange(90), np.arange(45)), (np.arange(45), np.arange(45, 90))], "keep the rows"),
    ],
)
def test_folds_that_do_not_partition_are_refused(data, splits, message):
    with pytest.raises(ValueError, match=message):
        Splitter(splits, 0, is_stratified=False).split(data)


def test_a_fold_without_weight_to_fit_on_is_refused(data):
    weight = np.zeros(N_ROWS)
    weight[:30] = 1
    heavy = FitData(data.X, data.labels, data.target, weight)
    with pytest.raises(ValueError, match="All sample weight lies in one fold"):
        Splitter(KFold(3), 0, is_stratified=False).split(heavy)


@pytest.mark.parametrize(
    ("cv", "labels", "groups", "said"),
    [
        (41, np.arange(40), None, "need as many rows; got 40"),
        (21, [0, 1] * 20, None, "a class of as many rows, and the largest has 20"),
        (9, [0, 1] * 20, np.arange(40) // 5, "need as many groups; got 8"),
    ],
)
def test_more_folds_than_there_can_be_are_refused(cv, labels, groups, said):
    """As scikit-learn's splitters do; fewer would cost as many fits without a word."""
    X, y = np.arange(80.0).reshape(40, 2), np.array(labels)
    data = FitData(X, y, y[:, None], np.ones(40), is_weighted=False, groups=groups)
    stratified = len(np.unique(y)) == 2
    with pytest.raises(ValueError, match=said):
        Splitter(cv, 0, is_stratified=stratified).split(data)
    assert len(Splitter(cv - 1, 0, is_stratified=stratified).split(data)) == cv - 1


def test_the_usual_folds_are_fewer_of_very_few_rows():
    X, y = np.arange(6.0).reshape(3, 2), np.arange(3.0)
    data = FitData(X, y, y[:, None], np.ones(3), is_weighted=False)
    assert len(Splitter(5, 0, is_stratified=False).split(data)) == 3


def test_folds_whose_rows_share_all_leaves_are_fitted():
    # Their map is a constant, and all scores of a row may be shifted: what is left of the gradient
    # along that is rounding.
    random = np.random.RandomState(4)
    X, y = random.normal(size=(10, 4)), random.randint(0, 3, 10)
    model = KPPClassifier("random-forest", n_estimators=3, regime="cross-fit", random_state=0)
    with warnings.catch_warnings(), np.errstate(invalid="raise"):
        warnings.simplefilter("ignore")
        found = model.fit(X, y).predict_proba(X)  # a step of any length ends in no number
    assert np.allclose(found.sum(axis=1), 1)
