"""The blend: one coefficient vector that is the sum of its candidates, learned out of fold."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils.class_weight import compute_sample_weight

import kpp
from kpp import KPPClassifier, KPPRegressor
from kpp._checks import RefusedError
from kpp.forest import Ladders
from kpp.forest.grow import named_forest
from kpp.forest.statistics import node_statistics
from kpp.geometry import path_weights
from kpp.models.blend import bare_fit
from kpp.models.blocks import blocks_of
from kpp.models.data import FitData
from kpp.models.grower import LARGEST_SEED, Grower
from kpp.models.plans import Splitter
from kpp.models.regimes import Shared
from kpp.reports.out_of_fold import out_of_fold_note
from kpp.solvers import LogLoss, SquaredLoss, stacking_weights

# On few rows a forest may have nothing to add to a constant.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The best alpha lies on:sklearn.exceptions.ConvergenceWarning"
)
N_ROWS = 120
TASKS = ["numbers", "outputs", "two", "many"]


def made_data(task, n_rows=N_ROWS, seed=0):
    common = {"n_samples": n_rows, "n_features": 5, "random_state": seed}
    if task in ("numbers", "outputs"):
        n_targets = 1 if task == "numbers" else 2
        return make_regression(n_targets=n_targets, noise=20, n_informative=4, **common)
    n_classes = 2 if task == "two" else 3
    X, y = make_classification(n_classes=n_classes, n_informative=4, n_redundant=0, **common)
    return X, np.array(["b", "a", "c"])[y]


def model_of(task, forest="blend", **parameters):
    kind = KPPRegressor if task in ("numbers", "outputs") else KPPClassifier
    return kind(forest, **({"n_estimators": 7, "random_state": 0, "cv": 3} | parameters))


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {task: model_of(task).fit(*made_data(task)) for task in TASKS}


def candidate_scores(model, X):
    """Scores of the candidates at rows, by name, each from its own layer or ensemble."""
    found, rows = {}, model.at(X)
    for (name, block), fit in zip(model.map_.blocks, model.fits_, strict=True):
        found[name] = fit.scores(block.on(rows))
    for fit in model.bare_fits_:
        (name,) = [name for name, block in model.map_.blocks if block is fit.part.whole]
        found[name + ", bare"] = fit.part.whole.forest.bare_scores(X)
    return found


def in_the_shape_of(scores, name, n_classes):
    """Shares of two classes have two columns, the model has the second's."""
    return scores[:, 1:] if n_classes == 2 and scores.shape[1] == 2 else scores


@pytest.mark.parametrize("task", TASKS)
def test_the_model_is_the_weighted_sum_of_its_candidates(fitted, task):
    model, X = fitted[task], made_data(task, seed=1)[0]
    n_classes = len(model.classes_) if is_classifier(model) else 0
    scores = candidate_scores(model, X)
    assert list(model.blend_weights_) == [
        *("trees", "trees, bare"),
        *("boosted", "boosted, bare"),
        *("ladders", "linear"),
    ]
    total = 0.0
    for name, theta in model.blend_weights_.items():
        assert np.shape(theta) == ((2,) if task == "outputs" else ())
        assert np.min(theta) >= 0
        total = total + theta * in_the_shape_of(scores[name], name, n_classes)
    # What is left is the constant c_0, the same for all rows.
    rest = model.at(X).scores - total
    size = np.abs(total).max()
    np.testing.assert_allclose(rest - rest[0], 0, atol=1e-12 * size)
    collapsed = model.collapse().scores(X)
    np.testing.assert_allclose(collapsed, model.at(X).scores, atol=1e-12 * size)


@pytest.mark.parametrize("task", ["numbers", "two"])
def test_every_layer_solves_its_own_problem(task):
    model = model_of(task, tol=1e-12).fit(*made_data(task))
    if task == "two":
        assert {name: fit.alpha for name, fit in zip(model.alpha_, model.fits_, strict=True)} == (
            model.alpha_
        )
        return
    y = made_data(task)[1]
    for fit in model.fits_:
        ridge = Ridge(fit.alpha, solver="cholesky").fit(fit.map.to_csr().toarray(), y)
        ours = fit.scores(fit.map)[:, 0]
        # An objective within 1e-12 of its minimum: scores within the root of that.
        expected = ridge.predict(fit.map.to_csr().toarray())
        np.testing.assert_allclose(ours, expected, atol=1e-6 * np.abs(y).max())


def plan_for(task, cv=None, y=None, **parameters):
    X, own = made_data(task)
    y = own if y is None else y
    model = model_of(task, **parameters)
    model.n_features_in_ = X.shape[1]
    read, labels, target = model._read_target(y, len(X))
    data = FitData(X, labels, target, np.ones(len(X)), is_weighted=False)
    blocks = blocks_of(model)
    n_classes = 2 if read.classes is None else len(read.classes)
    grower = Grower.of(
        model, classification=is_classifier(model), blocks=blocks, n_classes=n_classes
    )
    splitter = Splitter(KFold(3) if cv is None else cv, 0, is_stratified=False)
    rows = np.arange(len(X))
    plan = Shared(splitter, chooses_alpha=True).plan_blend(data, grower, rows, rows)
    return plan, data, read


@pytest.mark.parametrize("task", ["numbers", "two", "many"])
def test_bare_scores_out_of_fold_are_scikit_learns(task):
    plan, data, _ = plan_for(task)
    trees, boosted, ladders, linear = plan.blocks
    assert ladders.bare is None
    assert linear.bare is None
    random = np.random.RandomState(0)
    for fold, (train, test) in enumerate(plan.splits):
        seeds = [int(random.randint(LARGEST_SEED)) for _ in range(3)]
        classes = task != "numbers"
        extra = ExtraTreesClassifier if classes else ExtraTreesRegressor
        # Two or three times seven trees, in three groups.
        n_trees = 7 if classes else [5, 5, 4][fold]
        own = extra(n_trees, random_state=seeds[0]).fit(data.X[train], data.labels[train])
        expected = own.predict_proba(data.X[test]) if classes else own.predict(data.X[test])
        expected = expected[:, 1:] if task == "two" else expected.reshape(len(test), -1)
        np.testing.assert_allclose(trees.bare[test], expected, rtol=1e-12, atol=1e-12)
        hist = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
        own = hist(
            learning_rate=0.05 if task == "two" else 0.1,
            max_iter=14 if task == "two" else 7,
            max_leaf_nodes=16,
            max_features=0.5,
            min_samples_leaf=8 if classes else 5,
            early_stopping=False,
            random_state=seeds[1],
        ).fit(data.X[train], data.labels[train])
        expected = own.decision_function(data.X[test]) if classes else own.predict(data.X[test])
        expected = expected.reshape(len(test), -1)
        np.testing.assert_allclose(boosted.bare[test], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("task", ["numbers", "two", "many"])
def test_no_candidate_has_seen_the_labels_of_the_fold_that_it_scores(task, monkeypatch):
    # One relative alpha: the choice among several looks at all scores.
    monkeypatch.setattr("kpp.models.selection.DEFAULT_TAUS", np.array([1e-2]))
    # And solved to the end: how far the search goes also depends on all scores.
    for loss in (LogLoss, SquaredLoss):
        for tolerance in ("search_tol", "final_tol"):
            monkeypatch.setattr(loss, tolerance, 1e-12)
    seen = {}

    def spy(loss, scores, target, weight, **parameters):
        seen.setdefault("scores", scores)
        return stacking_weights(loss, scores, target, weight, **parameters)

    monkeypatch.setattr("kpp.models.blend.stacking_weights", spy)
    y = made_data(task)[1]
    found, everything = {}, {}
    for poisoned in (None, 0, 1, 2):
        seen.clear()
        labels = y.copy()
        test = list(KFold(3).split(y))[poisoned or 0][1]
        if poisoned is not None:
            labels[test] = np.roll(labels[test], 7)
        model = model_of(task, cv=KFold(3)).fit(made_data(task)[0], labels)
        everything[poisoned] = seen["scores"]
        found[poisoned] = seen["scores"][:, test] if poisoned is not None else seen["scores"]
        assert len(model.blend_weights_) == len(seen["scores"]) == 6
    for q, (_, test) in enumerate(KFold(3).split(y)):
        expected = found[None][:, test]
        np.testing.assert_allclose(found[q], expected, atol=1e-5 * np.abs(expected).max())
        # The test can fail: other folds do see these labels.
        assert np.abs(everything[(q + 1) % 3][:, test] - expected).max() > 0.01


@pytest.mark.parametrize("task", TASKS)
def test_out_of_fold_predictions_are_blended_without_their_fold(task, monkeypatch):
    calls = []

    def spy(loss, scores, target, weight, **parameters):
        result = stacking_weights(loss, scores, target, weight, **parameters)
        calls.append((scores, target, result))
        return result

    monkeypatch.setattr("kpp.models.blend.stacking_weights", spy)
    plan, _, read = plan_for(task)
    model = model_of(task, cv=KFold(3)).fit(*made_data(task))
    scores, target, (theta, _) = calls[0]
    shown = [np.atleast_1d(weight) for weight in model.blend_weights_.values()]
    np.testing.assert_array_equal(theta[:, : shown[0].size], shown)
    expected = np.empty(scores.shape[1:])
    for train, test in plan.splits:
        own, constant = stacking_weights(
            read.loss, scores[:, train], target[train], np.ones(len(train))
        )
        expected[test] = np.einsum("jk,jik->ik", own, scores[:, test]) + constant
    np.testing.assert_allclose(model.oof_prediction_, read.answers(expected), rtol=1e-12)
    assert model.blend_score_ == read.merit(target, expected, np.ones(len(target)), None)


@pytest.mark.parametrize("normalize", ["forest", "tree"])
@pytest.mark.parametrize("coordinates", ["path", "leaf"])
@pytest.mark.parametrize("task", TASKS)
def test_a_bare_ensemble_is_linear_in_the_map(task, coordinates, normalize):
    plan, data, read = plan_for(task, coordinates=coordinates, normalize=normalize)
    n_bare = 0
    for block in plan.blocks:
        if block.bare is None:
            continue
        n_bare += 1
        fit = bare_fit(block.map, read.classes, np.ones(read.loss.n_scores))
        expected = block.map.forest.bare_scores(data.X)
        n_classes = 0 if read.classes is None else len(read.classes)
        expected = in_the_shape_of(expected, block.name, n_classes)
        ours = fit.scores(block.map)
        np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-10)
    assert n_bare == 2


def test_splits_that_weigh_nothing_but_move_a_booster_get_a_coordinate():
    # Classes without noise: many nodes are pure, and the booster goes on splitting them.
    X = np.random.default_rng(0).normal(size=(150, 3))
    y = X.sum(axis=1) > 0
    model = model_of("two", n_estimators=20).fit(X, y)
    boosted = dict(model.map_.blocks)["boosted"]
    forest = boosted.forest
    statistics = node_statistics(forest, X, y, classification=True)
    unraised = path_weights(forest, statistics=statistics).node
    values = forest.bare.values[0]
    moving = np.zeros(forest.n_nodes, dtype=bool)
    splits = np.flatnonzero(forest.left >= 0)
    children = values[forest.left[splits]], values[forest.right[splits]]
    moving[splits] = (children[0] != values[splits]) | (children[1] != values[splits])
    least = 1e-3 * unraised[unraised > 0].mean()
    # There are some of both kinds, or the test would say nothing.
    assert (unraised[moving] == 0).any()
    assert ((unraised > 0) & (unraised < least) & moving).any()
    expected = np.where(moving & (unraised < least), least, unraised)
    np.testing.assert_allclose(boosted.weights.node, expected, rtol=1e-12)
    (fit,) = [fit for fit in model.bare_fits_ if fit.part.whole is boosted]
    bare = forest.bare_scores(X)
    np.testing.assert_allclose(fit.scores(boosted), bare, rtol=1e-12, atol=1e-12)


def test_the_layer_of_the_trees_is_that_of_extra_trees_alone():
    X, y = made_data("numbers")
    forest = ExtraTreesRegressor(6, random_state=3)
    alone = KPPRegressor(forest, random_state=0, cv=3, tol=1e-10).fit(X, y)
    blended = KPPRegressor(
        [("trees", forest)], combine="blend", main_effects=None, random_state=0, cv=3, tol=1e-10
    ).fit(X, y)
    (fit,) = blended.fits_
    assert fit.alpha == alone.alpha_
    np.testing.assert_array_equal(fit.node_coef[0], alone.node_coef_)
    assert list(blended.blend_weights_) == ["trees", "trees, bare"]


def test_a_users_list_is_blended_unless_it_is_to_be_joint():
    X, y = made_data("numbers")
    forests = [("a", ExtraTreesRegressor(6)), ("b", RandomForestRegressor(6))]
    joint = KPPRegressor(forests, combine="joint", random_state=0).fit(X, y)
    assert joint.blend_weights_ is None
    assert isinstance(joint.alpha_, float)
    blend = KPPRegressor(forests, random_state=0).fit(X, y)
    assert list(blend.blend_weights_) == ["a", "a, bare", "b", "b, bare", "ladders", "linear"]
    names = ["a", "b", "ladders", "linear"]
    assert list(blend.alpha_) == list(blend.alphas_) == list(blend.cv_scores_) == names
    # Fitting anew as another kind leaves nothing behind.
    again = blend.set_params(combine="joint").fit(X, y)
    assert again.blend_weights_ is again.bare_fits_ is again.blend_score_ is None
    np.testing.assert_array_equal(again.predict(X), joint.predict(X))


def test_ladders_of_the_user_are_main_effects_already():
    forests = [("trees", "extra-trees"), ("steps", Ladders(4))]
    model = KPPRegressor(forests, combine="blend", n_estimators=6, random_state=0, cv=3)
    model.fit(*made_data("numbers"))
    assert list(model.blend_weights_) == ["trees", "trees, bare", "steps"]


def test_the_blends_forests_in_one_layer():
    X, y = made_data("numbers")
    model = model_of("numbers", combine="joint").fit(X, y)
    assert [name for name, _ in model.forest_] == ["trees", "boosted"]
    assert model.blend_weights_ is None
    assert len(model.fits_) == 1


@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit", "cross-validated"])
def test_main_effects_beside_one_forest(regime):
    X, y = made_data("two")
    model = model_of("two", "extra-trees", main_effects="ladders", regime=regime).fit(X, y)
    names = {name.removesuffix(f"fold{q}") for name, _ in model.forest_ for q in range(3)} & {
        *("forest", "ladders")
    }
    assert names == {"forest", "ladders"}
    assert model.blend_weights_ is None
    ladders = [block for name, block in model.map_.blocks if name.startswith("ladders")]
    for block in ladders:
        # Label-free splits count alike.
        assert set(block.weights.node[~block.forest.is_leaf].tolist()) == {1.0}
    if regime == "shared":
        assert [block.forest.n_trees for block in ladders] == [5]  # once, not for every fold


def test_a_given_alpha_is_that_of_every_layer():
    X, y = made_data("numbers")
    model = model_of("numbers", alpha=0.3).fit(X, y)
    np.testing.assert_allclose([fit.alpha for fit in model.fits_], 0.3)
    assert model.alpha_selection_ == "given"
    assert model.oof_prediction_.shape == y.shape
    assert len(model.blend_weights_) == 6


@pytest.mark.parametrize("task", ["numbers", "two", "many"])
def test_missing_values(task):
    X, y = made_data(task)
    X = X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = model_of(task).fit(X, y)
    assert np.isfinite(model.at(X).scores).all()
    fresh = np.full((1, X.shape[1]), np.nan)
    assert np.isfinite(model.at(fresh).scores).all()


def test_class_weights_are_weights_of_rows():
    X, y = made_data("two")
    X, y = X[20:], y[20:]
    kept = (y == "a") | (np.arange(len(y)) % 2 == 0)
    X, y = X[kept], y[kept]
    weight = compute_sample_weight("balanced", y)
    a = model_of("two", class_weight="balanced").fit(X, y)
    b = model_of("two").fit(X, y, sample_weight=weight)
    assert a.blend_weights_ == b.blend_weights_
    assert a.blend_weights_ != model_of("two").fit(X, y).blend_weights_


def test_groups_stay_whole():
    X, y = made_data("numbers")
    groups = np.arange(len(y)) // 4
    model = model_of("numbers").fit(X, y, groups=groups)
    for train, test in model.folds_:
        assert not np.intersect1d(groups[train], groups[test]).size
    assert model.fit_record_.folds == "grouped"
    other = model_of("numbers", cv=GroupKFold(3)).fit(X, y, groups=groups)
    assert len(other.folds_) == 3


def test_without_an_intercept_there_is_none():
    X, y = made_data("numbers")
    model = model_of("numbers", fit_intercept=False).fit(X, y)
    assert model.intercept_ == 0
    assert list(model.blend_weights_) == ["trees", "boosted", "ladders", "linear"]


def test_a_class_that_a_fold_lacks():
    X, y = made_data("two")
    y = y.astype("<U6")
    y[:2] = "rare"
    model = model_of("two", cv=KFold(3)).fit(X, y)
    # Boosters of different classes have no mean; shares of classes do.
    assert list(model.blend_weights_) == ["trees", "trees, bare", "boosted", "ladders", "linear"]
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.oof_prediction_).all()


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"combine": "blend", "alpha_selection": "frozen"}, "fold-grown"),
        ({"combine": "blend", "alpha_selection": "regrown"}, "fold-grown"),
        ({"combine": "blend", "max_norm": 1.0}, "max_norm"),
        ({"main_effects": "other"}, "main_effects"),
        ({"combine": "other"}, "combine"),
        ({"combine": None}, "combine"),
    ],
)
def test_what_a_blend_does_not_have_is_refused_by_name(parameters, named):
    with pytest.raises(ValueError, match=named):
        model_of("numbers", **parameters).fit(*made_data("numbers"))


def test_an_embedding_does_not_blend():
    with pytest.raises(ValueError, match="extra-trees"):
        kpp.KPPEmbedding("blend").fit(*made_data("numbers"))


@pytest.mark.parametrize("task", TASKS)
def test_a_file_gives_it_back(fitted, task, tmp_path):
    model, X = fitted[task], made_data(task, seed=2)[0]
    kpp.save(model, tmp_path / "model.kpp")
    again = kpp.load(tmp_path / "model.kpp")
    np.testing.assert_array_equal(again.at(X).scores, model.at(X).scores)
    for name in ("blend_weights_", "alpha_", "alphas_", "cv_scores_"):
        np.testing.assert_equal(getattr(again, name), getattr(model, name))
    assert again.blend_score_ == model.blend_score_
    np.testing.assert_array_equal(again.oof_prediction_, model.oof_prediction_)
    for mine, theirs in zip(model.fits_, again.fits_, strict=True):
        np.testing.assert_array_equal(mine.node_coef, theirs.node_coef)
        np.testing.assert_array_equal(mine.share, theirs.share)
    for mine, theirs in zip(model.bare_fits_, again.bare_fits_, strict=True):
        np.testing.assert_array_equal(mine.node_coef, theirs.node_coef)
        np.testing.assert_array_equal(mine.share, theirs.share)
    if task == "numbers":
        a, b = (kpp.explain_training_rows(m, X[0]) for m in (model, again))
        np.testing.assert_array_equal(a.all_contributions, b.all_contributions)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_attribution_by_block(fitted, task, centered):
    model, X = fitted[task], made_data(task, seed=1)[0]
    by_block = kpp.explain(model, X, level="block", centered=centered)
    assert by_block.feature_names == tuple(name for name, _ in model.map_.blocks)
    by_node = kpp.explain(model, X, level="node", centered=True)
    values = by_node.values if isinstance(by_node.values, list) else [by_node.values]
    if by_node.scores.ndim == 2 and not isinstance(by_node.values, list):
        values = [by_node.values[..., k] for k in range(by_node.scores.shape[1])]
    for k, own in enumerate(values):
        parts = np.split(np.asarray(own), model.map_.offsets[1:-1], axis=1)
        expected = np.column_stack([part.sum(axis=1) for part in parts])
        found = by_block.values if by_block.values.ndim == 2 else by_block.values[..., k]
        if not centered:
            # Blocks of uncentred values differ from centred ones by a constant each.
            expected = expected - expected[0] + found[0]
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(found).max())


@pytest.mark.parametrize("task", TASKS)
def test_training_rows_and_bare_ensembles_add_up(fitted, task):
    model, X = fitted[task], made_data(task, seed=1)[0]
    outputs = {"outputs": (0, 1), "two": (None, "a", "b")}.get(task, (None,))
    for output in outputs:
        found = kpp.explain_training_rows(model, X[0], output=output)
        total = found.intercept + found.partition + found.all_contributions.sum()
        # What rounding allows is relative to the terms, which nearly cancel.
        size = 1e-12 * np.abs(found.all_contributions).sum()
        np.testing.assert_allclose(total, found.score, rtol=1e-12, atol=size)
        assert np.isnan(found.dual_coef).all()
        if output is None:
            bare = sum(
                (fit.share * (fit.scores(fit.part.whole.on(X[:1])) - fit.intercept))[0]
                for fit in model.bare_fits_
            )
            k = int(np.argmax(model.at(X[:1]).scores[0])) if task == "many" else 0
            np.testing.assert_allclose(abs(found.partition), abs(bare[k]), rtol=1e-9, atol=size)


@pytest.mark.parametrize("task", ["numbers", "two", "many"])
def test_certificates_hold(fitted, task):
    model, X = fitted[task], made_data(task, seed=1)[0][:20]
    near = np.concatenate([made_data(task)[0], made_data(task, seed=3)[0]])
    distance = kpp.path_distance(model, X, near)
    if task == "numbers":
        epsilon = 5.0
        certificate = kpp.certify(model, X, epsilon=epsilon)
        moved = np.abs(model.predict(near)[None] - model.predict(X)[:, None]) > epsilon
        raw = kpp.certify_raw(model, X[:4], epsilon=epsilon)
    else:
        certificate = kpp.certify(model, X)
        moved = model.predict(near)[None] != model.predict(X)[:, None]
        raw = kpp.certify_raw(model, X[:4])
    assert moved.any()
    assert (distance[moved] >= np.repeat(certificate.radius, moved.sum(axis=1))).all()
    assert (certificate.radius > 0).any()
    rng = np.random.default_rng(0)
    for x, radius in zip(X[:4], raw.radius, strict=True):
        box = x + raw.scale * radius * rng.uniform(-1, 1, (500, X.shape[1])) * (1 - 1e-9)
        if task == "numbers":
            assert (np.abs(model.predict(box) - model.predict(x[None])) <= epsilon).all()
        else:
            assert (model.predict(box) == model.predict(x[None])).all()


@pytest.mark.parametrize("task", ["numbers", "two", "many"])
def test_the_other_questions_have_answers(fitted, task, tmp_path):
    model, (X, y) = fitted[task], made_data(task)
    fresh, labels = made_data(task, seed=1)
    assert kpp.audit(model, fresh).holds
    assert len(kpp.risk_bounds(model, X, y)) > 0
    assert not any(bound.is_guarantee for bound in kpp.risk_bounds(model, X, y))
    diagnosed = kpp.diagnose(model, fresh, labels)
    assert "trace_per_row" in {observable.name for observable in diagnosed.observables}
    assert kpp.robustness_curve(model, fresh[:10], labels[:10]).values.size
    assert kpp.explain(model, fresh[:3]).residual < 1e-9 * np.abs(model.at(fresh[:3]).scores).max()
    assert kpp.explain_rules(model, fresh[0]).rules
    assert model.feature_importances_.sum() == pytest.approx(1)
    page = kpp.report(model, fresh, labels, tmp_path / "page.html").read_text()
    assert "blend of 3 forests" in page
    assert "weights of the blend" in model._repr_html_()
    assert "weights learned on the other folds" in out_of_fold_note(model)
    outline = kpp.io.outline(kpp.save(model, tmp_path / "model.kpp"))
    assert outline.alpha is None


def test_questions_of_one_layer_are_refused(fitted):
    X, y = made_data("numbers")
    model = fitted["numbers"]
    for ask in (
        lambda: kpp.explanations.leave_one_out(model, y),
        lambda: kpp.bounds.effective_dimension(model, X),
        lambda: kpp.bounds.bias_variance(model, X, y),
    ):
        with pytest.raises(RefusedError, match="blend"):
            ask()
    with pytest.raises(ValueError, match="blend"):
        model.leave_one_fold_out(X, y)


def test_the_same_seed_gives_the_same_model_whatever_the_threads():
    X, y = made_data("many")
    a, b = (model_of("many", n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(a.node_coef_, b.node_coef_)
    assert clone(a).get_params() == a.get_params()


def test_rounds_follow_the_number_of_trees_and_of_classes():
    def small(n_classes, n_estimators=100):
        return named_forest(
            "boosted-small",
            classification=n_classes > 0,
            n_rows=99,
            n_estimators=n_estimators,
            n_classes=n_classes,
        )

    found = {k: (small(k).max_iter, small(k).learning_rate) for k in (0, 2, 3, 10, 100)}
    assert found == {0: (100, 0.1), 2: (200, 0.05), 3: (100, 0.1), 10: (50, 0.2), 100: (10, 0.2)}
    assert small(100, 4).max_iter == 4
    for task, expected in (("numbers", [2 * 4, 3 * 4, 5]), ("two", [3 * 4, 3 * 8, 5])):
        model = model_of(task, n_estimators=4).fit(*made_data(task))
        assert [forest.n_trees for _, forest in model.forest_] == expected


def test_ladders_are_those_of_every_fold_and_other_trees_of_one():
    plan, _, _ = plan_for("numbers")
    for block in plan.blocks:
        if block.name == "linear":
            continue
        folds = block.plan(plan.splits).folds
        n_trees = [fold.train.forest.n_trees for fold in folds]
        if block.name == "ladders":
            assert n_trees == [5, 5, 5]
        else:
            assert sum(n_trees) == block.map.forest.n_trees
