"""The regime that leaves every fold out once: what each part has seen, what their average is."""

from math import comb

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, StratifiedKFold

import kpp
from kpp import KPPClassifier, KPPRegressor
from kpp.models.blend_plans import of_fold
from kpp.models.grower import LARGEST_SEED
from kpp.models.lattice import STEPS, lattice_weights, simplex_lattice
from kpp.solvers import pose

FOLDS = KFold(3)
LABEL_DEPENDENT = "KPP009"
FEW = {"n_estimators": 6, "regime": "cross-validated", "cv": FOLDS, "random_state": 0}


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:120], y[:120]


def rows_of(task, n_rows=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    y = X[:, 0] + X[:, 1] ** 2 + rng.normal(size=n_rows) / 3
    if task == "numbers":
        return X, y
    if task == "several targets":
        return X, np.column_stack([y, X[:, 2] + y**2])
    return X, np.digitize(y, np.quantile(y, [1 / 3, 2 / 3] if task == "three" else [0.5]))


def model_of(task, **parameters):
    kind = KPPRegressor if task in ("numbers", "several targets") else KPPClassifier
    return kind(**(FEW | {"forest": "extra-trees"} | parameters))


TASKS = ("numbers", "several targets", "two", "three")
FORESTS = {
    "trees": {},
    "a given alpha": {"alpha": 0.1},
    "given alphas": {"alphas": [0.1, 1.0]},
    "blend": {"forest": "blend"},
    "joint": {"forest": [("a", "extra-trees"), ("b", "boosted-small")], "combine": "joint"},
}


# What each part has seen.


@pytest.mark.parametrize("forest", ["extra-trees", "boosted-small"])
@pytest.mark.parametrize("effects", [None, "ladders", "linear"])
def test_a_part_is_the_same_whatever_its_fold_holds(forest, effects):
    X, y = rows_of("numbers")
    model = model_of("numbers", forest=forest, main_effects=effects, alpha=0.1).fit(X, y)
    for p, (_, test) in enumerate(FOLDS.split(X)):
        moved_X, moved_y = X.copy(), y.copy()
        moved_X[test], moved_y[test] = 3 - 2 * X[test], -y[test]
        moved = model_of("numbers", forest=forest, main_effects=effects, alpha=0.1)
        moved.fit(moved_X, moved_y)
        for q, (fit, other) in enumerate(zip(model.fits_, moved.fits_, strict=True)):
            same = np.array_equal(fit.node_coef, other.node_coef)
            assert same == (p == q)
            assert np.array_equal(fit.intercept, other.intercept) == (p == q)
            one, two = (
                [forest.threshold for name, forest in own.forest_ if name.endswith(of_fold("", q))]
                for own in (model, moved)
            )
            same = [np.array_equal(*pair, equal_nan=True) for pair in zip(one, two, strict=True)]
            assert same == [p == q] * len(same)


@pytest.mark.parametrize("task", ["two", "three"])
def test_a_part_does_not_know_the_way_of_the_search(task):
    # A search leaves solvers at numbers that depend on all folds. The parts are solved anew: bit
    # for bit what a solver finds that has never seen another alpha.
    X, y = rows_of(task)
    model = model_of(task).fit(X, y)
    assert len(model.alphas_) > 1
    for fit in model.fits_:
        rows = fit.rows
        problem = pose(
            model._task.loss, fit.map, y[rows], np.ones(len(rows)), None, fit_intercept=True
        )
        found = problem.solve(np.array([fit.alpha]), tol=model.tol, max_iter=model.max_iter)
        assert np.array_equal(found.dual[0], fit.dual)
        assert np.array_equal(found.intercept[0], fit.intercept)


def test_each_part_is_a_plain_fit_of_the_other_rows(diabetes):
    X, y = diabetes
    forest = ExtraTreesRegressor(6, random_state=3)
    model = KPPRegressor(forest, alpha=0.4, tol=1e-12, **(FEW | {"n_estimators": 100})).fit(X, y)
    seeds = np.random.RandomState(3).randint(LARGEST_SEED, size=3)
    parts = []
    for (train, test), seed in zip(FOLDS.split(X), seeds, strict=True):
        grown = ExtraTreesRegressor(2, random_state=int(seed)).fit(X[train], y[train])
        given = KPPRegressor(FrozenEstimator(grown), regime="fixed", alpha=0.4, tol=1e-12)
        # Ridge by hand, on the embedding of the plain forest.
        phi = given.fit(X[train], y[train]).map_
        dense = np.array([phi.matvec(e) for e in np.eye(phi.shape[1])]).T
        centred, middle = dense - dense.mean(axis=0), y[train].mean()
        inside = centred.T @ centred + 0.4 * np.eye(dense.shape[1])
        w = np.linalg.solve(inside, centred.T @ (y[train] - middle))
        at = phi.on(given.at(X))
        parts.append(at.matvec(w) + middle - dense.mean(axis=0) @ w)
        np.testing.assert_allclose(model.oof_prediction_[test], parts[-1][test], rtol=1e-7)
    np.testing.assert_allclose(model.predict(X), np.mean(parts, axis=0), rtol=1e-7)


# What the model is.


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", FORESTS)
def test_the_model_is_the_average_of_its_folds_and_a_file_holds_both(task, name, tmp_path):
    X, y = rows_of(task)
    model = model_of(task, **FORESTS[name]).fit(X, y)
    scores = model.fold_predictors_.scores(model.at(X))
    np.testing.assert_allclose(scores.mean(axis=0), model.at(X).scores, rtol=1e-9, atol=1e-9)
    own = scores[model.fold_predictors_.fold_of_row, np.arange(len(X))]
    np.testing.assert_allclose(
        model._task.answers(own), model.oof_prediction_, rtol=1e-9, atol=1e-9
    )
    assert model.dual_coef_ is None
    kpp.save(model, tmp_path / "model.kpp")
    again = kpp.load(tmp_path / "model.kpp")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.fold_predictors_.scores(again.at(X)), scores)
    assert again.fit_record_ == model.fit_record_


def test_a_class_that_one_part_has_not_seen(tmp_path):
    X, y = rows_of("two")
    y = y.astype(int)
    y[3] = 2  # the only one of its class, in the first fold
    model = model_of("three").fit(X, y)
    scores = model.fold_predictors_.scores(model.at(X))
    np.testing.assert_allclose(scores.mean(axis=0), model.at(X).scores, rtol=1e-9, atol=1e-9)
    # The part without that row knows the class as one that does not occur.
    assert (scores[0, :, 2] < scores[0, :, :2].min(axis=1) - 10).all()
    assert np.isfinite(kpp.risk_bounds(model, X, y)["cross-validated vote"].total)
    kpp.save(model, tmp_path / "model.kpp")
    assert np.array_equal(kpp.load(tmp_path / "model.kpp").predict(X), model.predict(X))


def test_parts_have_equally_many_trees():
    X, y = rows_of("numbers")
    model = model_of("numbers", n_estimators=7, alpha=1.0).fit(X, y)
    assert [forest.n_trees for _, forest in model.forest_] == [3, 3, 3]
    crossed = model_of("numbers", n_estimators=7, alpha=1.0, regime="cross-fit").fit(X, y)
    assert [forest.n_trees for _, forest in crossed.forest_] == [3, 2, 2]


# Folds and alphas.


def test_folds_of_a_number_do_not_look_at_classes():
    X, y = rows_of("two")
    model = model_of("two", cv=4).fit(X, y)
    found = [test.tolist() for _, test in model.folds_]
    assert found == [t.tolist() for _, t in KFold(4, shuffle=True, random_state=0).split(X)]
    assert model.fit_record_.folds == "random"
    by_class = model_of("two", cv=StratifiedKFold(4)).fit(X, y)
    assert by_class.fit_record_.folds == "stratified"


def test_a_relative_alpha_is_relative_to_the_other_rows_alone():
    X, y = rows_of("numbers")
    y = y * np.linspace(1, 3, len(y))
    model = model_of("numbers").fit(X, y)
    # Ridge: tau is alpha over the mean squared norm of the centred embedding.
    spread = []
    for fit in model.fits_:
        phi = fit.map
        dense = np.array([phi.matvec(e) for e in np.eye(phi.shape[1])]).T
        spread.append(np.square(dense - dense.mean(axis=0)).sum() / len(dense))
    tau = np.array([fit.alpha for fit in model.fits_]) / spread
    np.testing.assert_allclose(tau, tau[0])
    assert np.min(np.abs(np.log10(tau[0]) * 2 - np.arange(-8, 5))) < 1e-6


def test_given_alphas_are_the_same_number_in_every_part():
    X, y = rows_of("numbers")
    model = model_of("numbers", alphas=[0.3, 1.7, 0.3]).fit(X, y)
    assert {fit.alpha for fit in model.fits_} <= {0.3, 1.7}
    assert model.alphas_.tolist() == [0.3, 1.7]
    assert model.fit_record_.n_candidates == 2
    blend = model_of("numbers", forest="blend", alpha=0.3).fit(X, y)
    assert {fit.alpha for fit in blend.fits_} == {0.3}


def test_given_alphas_are_scored_as_they_are_fitted():
    # Were they relative, another alpha would be scored than the one that is then fitted.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = X[:, 0] + rng.normal(size=90)
    own = {"forest": "extra-trees", "n_estimators": 9, "regime": "cross-validated", "cv": 3}
    alphas = [0.01, 1.0, 100.0]
    model = KPPRegressor(**own, alphas=alphas, random_state=0, tol=1e-10).fit(X, y)
    for alpha, score in zip(model.alphas_, model.cv_scores_, strict=True):
        alone = KPPRegressor(**own, alphas=[alpha], random_state=0, tol=1e-10).fit(X, y)
        assert score == pytest.approx(-np.mean((y - alone.oof_prediction_) ** 2), rel=1e-8)


def test_candidates_are_counted():
    X, y = rows_of("numbers")

    def counted(task="numbers", **parameters):
        return model_of(task, **parameters).fit(*rows_of(task)).fit_record_.n_candidates

    assert counted(alpha=1.0) == 1
    assert counted() == counted("three") == counted("two", scoring="accuracy") == 13
    # Four layers, of which two have bare ensembles as well, and five alphas each.
    assert counted(forest="blend") == 5**4 * comb(6 + STEPS - 1, STEPS)
    # Shares of classes are no candidates: of two bare ensembles the booster is left.
    assert counted("two", forest="blend") == 5**4 * comb(5 + STEPS - 1, STEPS)
    assert counted(forest="blend", alpha=0.1) == comb(6 + STEPS - 1, STEPS)
    shared = KPPRegressor("extra-trees", n_estimators=6).fit(X, y)
    assert shared.fit_record_.n_candidates == 1


def test_the_grid_does_not_grow():
    # Noise: the largest alpha is best, and where grids grow they do so here.
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(90, 2)), rng.normal(size=90)
    model = model_of("numbers").fit(X, y)
    assert len(model.alphas_) == 13
    assert model.cv_scores_.argmax() == 12


def test_weights_of_a_blend_are_points_of_a_lattice_and_the_same_in_every_fold():
    X, y = rows_of("numbers")
    model = model_of("numbers", forest="blend").fit(X, y)
    weights = np.array(list(model.blend_weights_.values()))
    np.testing.assert_allclose(weights * STEPS, np.round(weights * STEPS), atol=1e-12)
    assert weights.sum() == pytest.approx(1)
    assert not model.fold_predictors_.constant.any()
    shares = np.array([fit.share for fit in model.fold_predictors_.fits]).reshape(3, -1)
    assert (shares == shares[0]).all()


@pytest.mark.parametrize(("n", "steps"), [(1, 4), (2, 4), (3, 2), (5, 4)])
def test_all_points_of_a_lattice(n, steps):
    points = simplex_lattice(n, steps)
    expected = {p for p in np.ndindex(*[steps + 1] * n) if sum(p) == steps}
    assert {tuple(p) for p in (points * steps).astype(int).tolist()} == expected
    assert len(points) == len(expected)


def test_the_best_point_of_a_lattice_is_chosen():
    y = rows_of("numbers")[1]
    rng = np.random.default_rng(0)
    one, two = y + rng.normal(size=(2, len(y)))
    candidates = np.array([one, two])[:, :, None]

    class Settings:
        scoring = None

        class task:  # noqa: N801
            @staticmethod
            def merit(target, scores, weight, scoring):
                return -np.mean(np.square(target - scores))

    theta, constant, n_points = lattice_weights(candidates, y[:, None], np.ones(len(y)), Settings)
    errors = [np.mean((y - t * one - (1 - t) * two) ** 2) for t in (0, 0.25, 0.5, 0.75, 1)]
    assert theta[:, 0].tolist() == [np.argmin(errors) / 4, 1 - np.argmin(errors) / 4]
    assert n_points == 5
    assert constant.tolist() == [0.0]


# Questions.


def test_intervals_and_sets_are_guarantees_where_alpha_is_given():
    X, y = rows_of("numbers")
    model = model_of("numbers", alpha=1.0).fit(X, y)
    intervals = model.predict_interval(X[:5], coverage=0.8, width="constant")
    assert intervals.is_guarantee
    # By hand: the rule of CV+ on the predictors of the folds.
    at = model.fold_predictors_.scores(model.at(X[:5]))[:, :, 0]
    fold, residual = model.fold_predictors_.fold_of_row, np.abs(y - model.oof_prediction_)
    upper = np.sort(at[fold] + residual[:, None], axis=0)[int(np.ceil(0.8 * 121)) - 1]
    np.testing.assert_allclose(intervals.upper, upper, rtol=1e-12)
    assert not model_of("numbers").fit(X, y).predict_interval(X[:5], coverage=0.8).is_guarantee
    assert model_of("numbers", alphas=[1.0]).fit(X, y).predict_interval(X).is_guarantee
    uneven = model_of("numbers", alpha=1.0).fit(X[:119], y[:119])
    assert uneven.predict_interval(X).is_guarantee
    X, y = rows_of("two")
    assert model_of("two", alpha=0.1).fit(X, y).predict_set(X, coverage=0.8).is_guarantee
    balanced = model_of("two", alpha=0.1, class_weight="balanced").fit(X, y)
    assert not balanced.predict_set(X, coverage=0.8).is_guarantee


@pytest.mark.parametrize("name", ["trees", "blend"])
@pytest.mark.parametrize("task", ["numbers", "three"])
def test_all_questions_have_answers(name, task):
    X, y = rows_of(task)
    model = model_of(task, **FORESTS[name]).fit(X, y)
    explained = kpp.explain(model, X[:2])
    assert np.abs(explained.residual).max() < 1e-9
    assert np.allclose(model.collapse().scores(X), model.at(X).scores)
    rows = kpp.explain_training_rows(model, X[0])
    assert rows.residual < 1e-9
    assert np.isnan(rows.dual_coef).all()
    if task == "three":
        assert len(kpp.certify(model, X[:3]).radius) == 3
    found = kpp.diagnose(model, X, y, sample="train")
    assert found.regime == "cross-validated"
    codes = [finding.code for finding in found.findings]
    shared = model_of(task, **FORESTS[name], regime="shared").fit(X, y)
    said = [finding.code for finding in kpp.diagnose(shared, X, y, sample="train").findings]
    assert LABEL_DEPENDENT in said
    assert LABEL_DEPENDENT not in codes
    with pytest.raises((ValueError, TypeError)):
        kpp.explanations.leave_one_out(model, y)


def test_it_leaves_folds_out_by_itself():
    X, y = rows_of("numbers")
    with pytest.raises(ValueError, match="folds of its own"):
        model_of("numbers", alpha=1.0).leave_one_fold_out(X, y)
