"""A blend in every regime: what each part of it may see, shown by changing the rest."""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

import kpp
from kpp import KPPClassifier, KPPRegressor
from kpp.forest import Ladders
from kpp.geometry import LinearMap
from kpp.models.averages import fold_predictors
from kpp.models.blend_plans import of_fold

# On few rows a forest may have nothing to add to a constant.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The best alpha lies on:sklearn.exceptions.ConvergenceWarning"
)
N_ROWS, N_FOLDS = 150, 3
TASKS = ["numbers", "two", "many"]


def made_data(task, seed=0):
    common = {"n_samples": N_ROWS, "n_features": 5, "random_state": seed}
    if task == "numbers":
        return make_regression(noise=20, n_informative=4, **common)
    n_classes = 2 if task == "two" else 3
    return make_classification(n_classes=n_classes, n_informative=4, n_redundant=0, **common)


def model_of(task, regime, forest="blend", **parameters):
    kind = KPPRegressor if task == "numbers" else KPPClassifier
    own = {"n_estimators": 6, "random_state": 0, "cv": KFold(N_FOLDS), "regime": regime}
    return kind(forest, **own | parameters)


def poisoned(y, rows):
    """Other labels for some rows; every class stays."""
    y = y.copy()
    y[rows] = 1e3 - 7 * y[rows] if y.dtype.kind == "f" else np.roll(y[rows], 1)
    return y


def trees_of(model):
    """All that is known of the trees, by block: splits, weights, and what bare ensembles say."""
    found = {}
    for name, block in model.map_.blocks:
        if isinstance(block, LinearMap):
            terms = block.terms
            found[name] = (terms.column, terms.low, terms.high, terms.mean, terms.sd)
            continue
        forest = block.forest
        values = np.zeros(1) if forest.bare is None else forest.bare.node_values(forest.statistics)
        found[name] = (forest.left, forest.feature, forest.threshold, block.scale, values)
    return found


def same(these, those):
    return {
        name: all(
            np.array_equal(a, b, equal_nan=True)
            for a, b in zip(these[name], those[name], strict=True)
        )
        for name in these
    }


@pytest.mark.parametrize("task", TASKS)
def test_honest_forests_have_not_seen_the_rows_of_the_fit(task):
    X, y = made_data(task)
    model = model_of(task, "honest").fit(X, y)
    trees, rows = trees_of(model), model.fit_rows_
    other = model_of(task, "honest").fit(X, poisoned(y, rows))
    assert all(same(trees, trees_of(other)).values())
    assert np.abs(np.subtract(other.node_coef_, model.node_coef_)).max() > 0
    # Nor their columns: the ladders, which no label has grown, are those of the partition rows.
    moved = X.copy()
    moved[rows] = 3.0 - 2.0 * moved[rows]
    assert all(same(trees, trees_of(model_of(task, "honest").fit(moved, y))).values())
    # What grows the trees does change them.
    grown = model_of(task, "honest").fit(X, poisoned(y, model.partition_rows_))
    changed = same(trees, trees_of(grown))
    assert changed == {"trees": False, "boosted": False, "ladders": True, "linear": True}


@pytest.mark.parametrize("task", TASKS)
def test_cross_fit_forests_have_seen_neither_their_fold_nor_that_of_their_layer(task):
    X, y = made_data(task)
    model = model_of(task, "cross-fit").fit(X, y)
    trees = trees_of(model)
    names = ["trees", "boosted", "ladders", "linear"]
    assert list(trees) == [of_fold(name, q) for q in range(N_FOLDS) for name in names]
    for p, (_, test) in enumerate(KFold(N_FOLDS).split(X)):
        unchanged = same(trees, trees_of(model_of(task, "cross-fit").fit(X, poisoned(y, test))))
        for q in range(N_FOLDS):
            # The layer of fold q is fitted on fold q + 1.
            unseen = p in (q, (q + 1) % N_FOLDS)
            found = [unchanged[of_fold(name, q)] for name in names]
            assert found == [unseen, unseen, True, True]
        moved = X.copy()
        moved[test] = 3.0 - 2.0 * moved[test]
        unchanged = same(trees, trees_of(model_of(task, "cross-fit").fit(moved, y)))
        for q in range(N_FOLDS):
            unseen = p in (q, (q + 1) % N_FOLDS)
            assert [unchanged[of_fold(name, q)] for name in names] == [unseen] * 4


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("regime", ["honest", "cross-fit"])
def test_scores_of_a_fold_do_not_know_its_labels(task, regime):
    """At a given alpha; only a fold's own candidates, the weights are learned on all."""
    X, y = made_data(task)
    seen = []

    class Spy:
        def __init__(self, weights):
            self.weights = weights

        def __call__(self, loss, candidates, *rest, **named):
            if candidates.shape[1] == len(rows):
                seen.append(np.array(candidates))
            return self.weights(loss, candidates, *rest, **named)

    import kpp.models.blend as blending

    model = model_of(task, regime, alpha=0.1)
    rows = model.fit(X, y).fit_rows_
    original = blending.stacking_weights
    blending.stacking_weights = Spy(original)
    try:
        model_of(task, regime, alpha=0.1).fit(X, y)
        for _, test in KFold(N_FOLDS).split(rows):
            model_of(task, regime, alpha=0.1).fit(X, poisoned(y, rows[test]))
    finally:
        blending.stacking_weights = original
    plain, *others = seen
    for (train, test), other in zip(KFold(N_FOLDS).split(rows), others, strict=True):
        # Up to rounding: alpha is divided by the scale of a map and multiplied by it again.
        np.testing.assert_allclose(other[:, test], plain[:, test], rtol=1e-11, atol=1e-13)
        assert np.abs(other[:, train] - plain[:, train]).max() > 0


@pytest.mark.parametrize("task", TASKS)
def test_fixed_takes_frozen_ensembles_and_adds_nothing_of_the_fit(task):
    X, y = made_data(task)
    old, new = np.arange(70), np.arange(70, N_ROWS)
    extra = ExtraTreesRegressor if task == "numbers" else ExtraTreesClassifier
    hist = HistGradientBoostingRegressor if task == "numbers" else HistGradientBoostingClassifier
    trees = extra(10, random_state=0).fit(X[old], y[old])
    booster = hist(max_iter=10, min_samples_leaf=5).fit(X[old], y[old])
    forests = [
        ("trees", FrozenEstimator(trees)),
        ("booster", FrozenEstimator(booster)),
        ("ladders", FrozenEstimator(Ladders().fit(X[old]))),
    ]
    own = {"node_weight": "uniform"}
    model = model_of(task, "fixed", forests, **own).fit(X[new], y[new])
    assert [name for name, _ in model.forest_] == ["trees", "booster", "ladders"]
    other = model_of(task, "fixed", forests, **own).fit(X[new], poisoned(y[new], np.arange(40)))
    assert all(same(trees_of(model), trees_of(other)).values())
    without = model_of(task, "fixed", forests[:2], **own).fit(X[new], y[new])
    assert [name for name, _ in without.forest_] == ["trees", "booster"]
    bare, boosted = model.bare_fits_
    at = model.map_.on(X[new]).blocks
    shares = trees.predict(X[new]) if task == "numbers" else trees.predict_proba(X[new])
    shares = shares[:, 1:] if task == "two" else shares.reshape(len(new), -1)
    np.testing.assert_allclose(bare.scores(at[0][1]), shares, rtol=1e-9, atol=1e-9)
    raw = booster.predict(X[new]) if task == "numbers" else booster.decision_function(X[new])
    np.testing.assert_allclose(
        boosted.scores(at[1][1]), raw.reshape(len(new), -1), rtol=1e-9, atol=1e-9
    )


def test_ladders_of_the_fit_do_not_go_with_given_forests():
    X, y = made_data("numbers")
    frozen = FrozenEstimator(ExtraTreesRegressor(5, random_state=0).fit(X[:70], y[:70]))
    with pytest.raises(ValueError, match="fitted on other data"):
        model_of("numbers", "fixed", frozen, main_effects="ladders").fit(X[70:], y[70:])


@pytest.mark.parametrize("regime", ["honest", "cross-fit"])
def test_every_layer_solves_its_own_problem(regime):
    X, y = made_data("numbers")
    model = model_of("numbers", regime, tol=1e-12).fit(X, y)
    n_layers = 4 if regime == "honest" else 12
    assert len(model.fits_) == n_layers
    for fit in model.fits_:
        rows = fit.map.to_csr().toarray()
        ridge = Ridge(fit.alpha, solver="cholesky").fit(rows, y[fit.rows])
        # An objective within 1e-12 of its minimum: scores within the root of that.
        size = 1e-6 * np.abs(y).max()
        np.testing.assert_allclose(fit.scores(fit.map)[:, 0], ridge.predict(rows), atol=size)


@pytest.mark.parametrize("task", TASKS)
def test_a_cross_fit_blend_is_the_mean_of_its_folds(task):
    X, y = made_data(task)
    model = model_of(task, "cross-fit").fit(X, y)
    predictors = fold_predictors(model)
    assert len(predictors) == N_FOLDS
    new = made_data(task, seed=1)[0]
    scores = [
        np.column_stack([part.map.on(new).matvec(w) for w in part.node_coef]) + part.intercept
        for part in predictors
    ]
    size = np.abs(scores).max()
    np.testing.assert_allclose(np.mean(scores, axis=0), model.at(new).scores, atol=1e-11 * size)
    # The same weights and the same constant in every fold.
    constants = []
    for q, part in enumerate(predictors):
        total = 0.0
        for fit in model.fits_[4 * q : 4 * q + 4]:
            total = total + N_FOLDS * fit.share * fit.scores(fit.map.on(new))
        for bare in model.bare_fits_[2 * q : 2 * q + 2]:
            total = total + N_FOLDS * bare.share * bare.scores(bare.part.whole.on(new))
        rest = scores[q] - total
        assert np.abs(rest - rest[0]).max() <= 1e-11 * size
        constants.append(rest[0])
        np.testing.assert_allclose(constants[q], constants[0], atol=1e-11 * size)
        np.testing.assert_array_equal(part.rows, model.folds_[q][0])


def test_shrinking_to_a_blend_of_the_partition_rows():
    X, y = made_data("numbers")
    model = model_of("numbers", "honest", center="partition").fit(X, y)
    own = model.partition_rows_
    alone = model_of("numbers", "shared").fit(X[own], y[own])
    (fit,) = model.fits_
    np.testing.assert_array_equal(fit.center.node_coef[0], alone.node_coef_)
    np.testing.assert_array_equal(fit.center.intercept, np.atleast_1d(alone.intercept_))
    assert model.blend_weights_ is None
    # Far from the labels of the fit it is the centre.
    near = model_of("numbers", "honest", center="partition", alpha=1e12).fit(X, y)
    shift = near.predict(X) - model_of("numbers", "shared", alpha=1e12).fit(X[own], y[own]).predict(
        X
    )
    np.testing.assert_allclose(shift, shift[0], atol=1e-6)


@pytest.mark.parametrize(
    "parameters",
    [{"alpha_selection": "frozen"}, {"alpha_selection": "regrown"}, {"max_norm": 50.0}],
    ids=["frozen", "regrown", "max_norm"],
)
def test_where_there_are_no_weights_to_learn_auto_is_one_layer(parameters):
    X, y = made_data("numbers")
    model = model_of("numbers", "shared", **parameters).fit(X, y)
    assert model.blend_weights_ is None
    assert len(model.fits_) == 1
    assert [name for name, _ in model.forest_] == ["trees", "boosted"]
    with pytest.raises(ValueError, match=next(iter(parameters))):
        model_of("numbers", "shared", combine="blend", **parameters).fit(X, y)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("regime", ["honest", "cross-fit"])
def test_files_hold_them(task, regime, tmp_path):
    X, y = made_data(task)
    model = model_of(task, regime).fit(X, y)
    kpp.save(model, tmp_path / "model.kpp")
    loaded = kpp.load(tmp_path / "model.kpp")
    assert loaded.blend_weights_ == model.blend_weights_
    np.testing.assert_array_equal(loaded.at(X).scores, model.at(X).scores)
    for mine, theirs in zip(model.fits_, loaded.fits_, strict=True):
        np.testing.assert_array_equal(mine.node_coef, theirs.node_coef)
        np.testing.assert_array_equal(mine.share, theirs.share)
    for mine, theirs in zip(model.bare_fits_, loaded.bare_fits_, strict=True):
        np.testing.assert_array_equal(mine.node_coef, theirs.node_coef)
    if task == "numbers":
        limits = {"y_range": (-1e3, 1e3)}
        these = kpp.risk_bounds(model, X, y, **limits).to_frame()
        those = kpp.risk_bounds(loaded, X, y, **limits).to_frame()
        np.testing.assert_allclose(these["total"], those["total"], rtol=1e-9)


def test_bounds_of_honest_blends_can_be_guarantees():
    X, y = made_data("two")
    honest = kpp.risk_bounds(model_of("two", "honest").fit(X, y), X, y)
    assert {bound.name for bound in honest if bound.is_guarantee} >= {"ramp", "PAC-Bayes-kl"}
    shared = kpp.risk_bounds(model_of("two", "shared").fit(X, y), X, y)
    assert not any(bound.is_guarantee for bound in shared)
    folds = kpp.risk_bounds(model_of("two", "cross-fit").fit(X, y), X, y)
    names = [bound.name for bound in folds if bound.is_guarantee]
    assert sum(name.startswith("ramp, fold") for name in names) == N_FOLDS
