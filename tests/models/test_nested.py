"""Parts that choose for themselves: what they have seen, what they are, what may be said."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import check_random_state

import kpp
from kpp import KPPClassifier, KPPRegressor
from kpp.bounds import bounded_prediction, folds_binomial
from kpp.models.averages import fold_predictors
from kpp.models.grower import LARGEST_SEED
from kpp.models.nested import INNER_FOLDS
from kpp.models.penalties import kept_score

# Of so few rows the best alpha may lie anywhere.
pytestmark = pytest.mark.filterwarnings("ignore:The best alpha lies on")
FOLDS = KFold(3)
NESTED = {
    "regime": "cross-validated",
    "alpha_selection": "nested",
    "cv": FOLDS,
    "n_estimators": 10,
    "random_state": 0,
}
NAMES = ("trees", "blend", "joint", "blend, a given alpha", "trees, a given alpha")
TASKS = ("numbers", "several targets", "two", "three")


def rows_of(task, n_rows=90):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    y = X[:, 0] + X[:, 1] ** 2 + rng.normal(size=n_rows) / 3
    if task == "numbers":
        return X, y
    if task == "several targets":
        return X, np.column_stack([y, X[:, 2] + y**2])
    return X, np.digitize(y, np.quantile(y, [1 / 3, 2 / 3] if task == "three" else [0.5]))


def kind_of(task):
    return KPPRegressor if task in ("numbers", "several targets") else KPPClassifier


def forest_of(name, task):
    """The parameters of a forest; blends have few rounds, for every part has five boosters."""
    given = {"alpha": 0.1} if "given" in name else {}
    if name.startswith("trees"):
        return {"forest": "extra-trees"} | given
    numbers = kind_of(task) is KPPRegressor
    boosted = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    both = [("a", "extra-trees"), ("b", boosted(max_iter=4, min_samples_leaf=5))]
    own = {"combine": "joint"} if name == "joint" else {}
    return {"forest": both} | own | given


def fitted(task, **parameters):
    return kind_of(task)(**(NESTED | parameters)).fit(*rows_of(task))


# What a part is, and what it has seen.


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", NAMES)
def test_a_part_is_a_shared_model_of_the_rows_outside_its_fold(task, name):
    X, y = rows_of(task)
    model = fitted(task, **forest_of(name, task))
    random, parts = check_random_state(0), []
    scores = model.fold_predictors_.scores(model.at(X))
    for q, (train, test) in enumerate(FOLDS.split(X)):
        plain = NESTED | {
            "regime": "shared",
            "alpha_selection": "fold-grown",
            "cv": INNER_FOLDS,
            "random_state": int(random.randint(LARGEST_SEED)),
        }
        alone = kind_of(task)(**(plain | forest_of(name, task))).fit(X[train], y[train])
        parts.append(alone.at(X).scores)
        np.testing.assert_allclose(scores[q], parts[q], rtol=1e-12, atol=1e-12)
        by_part = alone.predict_proba(X[test]) if model.loss_ is None else alone.predict(X[test])
        np.testing.assert_allclose(
            model.oof_prediction_[test].reshape(by_part.shape), by_part, rtol=1e-12, atol=1e-12
        )
        alphas = model.alphas_ if isinstance(model.alphas_, dict) else {"": model.alphas_}
        chosen = alone.alpha_ if isinstance(alone.alpha_, dict) else {"": alone.alpha_}
        assert {block: own[q] for block, own in alphas.items()} == chosen
    np.testing.assert_allclose(model.at(X).scores, np.mean(parts, axis=0), rtol=1e-11, atol=1e-11)


LOSSES = {
    "squared": {},
    "huber": {"loss": "huber"},
    "quantiles": {"loss": "quantile", "quantile": [0.1, 0.9]},
    "poisson": {"loss": "poisson"},
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("selection", ["nested", "fold-grown"])
def test_the_scale_of_a_loss_does_not_know_the_fold(loss, selection, monkeypatch):
    # Relative alphas are relative to a scale of the target, a threshold is one of it.
    X, y = rows_of("numbers")
    y = np.abs(y)
    settings = NESTED | LOSSES[loss] | {"forest": "extra-trees", "alpha_selection": selection}
    if selection == "fold-grown":
        # All folds choose among relative alphas; of a single one there is no choice.
        monkeypatch.setattr("kpp.models.selection.COUNTED_TAUS", np.array([0.1]))
        if loss == "huber":
            settings |= {"huber_delta": 1.0}  # one that is read voids what is claimed
    before = KPPRegressor(**settings).fit(X, y)
    for p, (_, test) in enumerate(FOLDS.split(X)):
        moved = y.copy()
        moved[test] = 7 * y[test] + 3
        after = KPPRegressor(**settings).fit(X, moved)
        assert after.fits_[p].alpha == before.fits_[p].alpha
        one, two = (m.fold_predictors_.scores(m.at(X))[p] for m in (before, after))
        assert np.array_equal(one, two)


@pytest.mark.parametrize("task", ["numbers", "two"])
@pytest.mark.parametrize("name", ["trees", "blend"])
def test_choices_of_a_part_do_not_know_its_fold(task, name):
    X, y = rows_of(task)
    before = fitted(task, **forest_of(name, task))
    for p, (_, test) in enumerate(FOLDS.split(X)):
        moved_X, moved_y = X.copy(), y.copy()
        moved_X[test] = 3 - 2 * X[test]
        moved_y[test] = -y[test] if task == "numbers" else 1 - y[test]
        after = kind_of(task)(**(NESTED | forest_of(name, task))).fit(moved_X, moved_y)
        one, two = (m.fold_predictors_.scores(m.at(X)) for m in (before, after))
        assert [np.array_equal(*own) for own in zip(one, two, strict=True)] == [
            q == p for q in range(3)
        ]


def test_each_part_has_as_many_trees_as_were_asked_for():
    assert fitted("two", forest="extra-trees").additive_.n_trees == 3 * 10


def test_folds_of_a_part_keep_groups_whole(monkeypatch):
    X, y = rows_of("numbers")
    groups = np.arange(len(X)) // 3
    seen = []
    split = kpp.models.plans.Splitter.split

    def watched(self, data):
        found = split(self, data)
        seen.append([(data.groups[train], data.groups[test]) for train, test in found])
        return found

    monkeypatch.setattr(kpp.models.plans.Splitter, "split", watched)
    settings = NESTED | {"cv": GroupKFold(3), "forest": "extra-trees"}
    KPPRegressor(**settings).fit(X, y, groups=groups)
    assert [len(found) for found in seen] == [3] + [INNER_FOLDS] * 3
    for train, test in (pair for found in seen for pair in found):
        assert not set(train) & set(test)


# What the model is.


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", NAMES)
def test_a_file_holds_it(task, name, tmp_path):
    X, _ = rows_of(task)
    model = fitted(task, **forest_of(name, task))
    kpp.save(model, tmp_path / "model.kpp")
    again = kpp.load(tmp_path / "model.kpp")
    assert np.array_equal(again.at(X).scores, model.at(X).scores)
    one, two = (own.fold_predictors_.scores(own.at(X)) for own in (model, again))
    assert np.array_equal(one, two)
    assert again.fit_record_ == model.fit_record_
    for left, right in zip(fold_predictors(model), fold_predictors(again), strict=True):
        np.testing.assert_allclose(left.intercept, right.intercept, rtol=1e-12)


@pytest.mark.parametrize("name", ["trees", "blend"])
def test_parts_can_be_taken_apart(name):
    # Of a blend every part has weights and a constant of its own.
    X, _ = rows_of("two")
    model = fitted("two", **forest_of(name, "two"))
    scores = model.fold_predictors_.scores(model.at(X))
    for q, part in enumerate(fold_predictors(model)):
        at = part.map.on(model.at(X))
        found = np.column_stack([at.matvec(w) for w in part.node_coef]) + part.intercept
        np.testing.assert_allclose(found, scores[q], rtol=1e-10, atol=1e-10)


def test_what_else_is_asked_of_a_model():
    X, _ = rows_of("two")
    model = fitted("two", **forest_of("blend", "two"))
    attribution = kpp.explain(model, X)
    total = attribution.baseline + attribution.values.sum(axis=1)
    np.testing.assert_allclose(total, model.decision_function(X), rtol=1e-9, atol=1e-9)
    rows = kpp.explain_training_rows(model, X[0])
    total = rows.intercept + rows.partition + rows.all_contributions.sum()
    assert total == pytest.approx(model.decision_function(X[:1])[0], abs=1e-9)
    certificate = kpp.certify(model, X)
    assert (certificate.radius >= certificate.lipschitz).all()
    collapsed = model.collapse()
    np.testing.assert_allclose(collapsed.scores(X)[:, 0], model.decision_function(X), atol=1e-10)
    again = clone(model).fit(*rows_of("two"))
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert "on folds of its own rows" in model._repr_html_()


def test_a_table_with_words_and_gaps():
    X, y = rows_of("numbers")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["word"] = np.where(X[:, 0] > 0, "up", "down")
    frame.loc[3, ["a", "word"]] = None
    model = KPPRegressor(**NESTED, **forest_of("blend", "numbers")).fit(frame, y)
    scores = model.fold_predictors_.scores(model.at(frame))[:, :, 0]
    np.testing.assert_allclose(scores.mean(axis=0), model.predict(frame), rtol=1e-11)
    reasons = {own.name: own.holds for own in model.predict_interval(frame).conditions}
    assert reasons["one way from the other folds' rows"] is None  # lists of categories


# What may be said of it.


@pytest.mark.parametrize("name", ["trees", "blend"])
def test_nothing_was_chosen_by_the_folds_that_bound_it(name):
    X, y = rows_of("two")
    model = fitted("two", **forest_of(name, "two"))
    report = kpp.risk_bounds(model, X, y, unlabelled=np.random.default_rng(1).normal(size=(50, 3)))
    assert all(bound.details["N"] == 1 for bound in report)
    assert all(bound.is_guarantee for bound in report)
    counted = {own.name: own for own in report[0].assumptions}["choices counted"]
    assert counted.holds is True
    wrong = model.oof_prediction_.argmax(axis=1) != y
    errors = [int(wrong[test].sum()) for _, test in FOLDS.split(X)]
    assert report["cross-validated randomised"].total == folds_binomial(errors, [30] * 3)
    said = bounded_prediction(model, X, report["cross-validated model"])
    assert np.array_equal(said, model.predict(X))


def test_alphas_of_the_caller_are_the_callers_word():
    X, y = rows_of("numbers")
    one_alpha = forest_of("blend, a given alpha", "numbers")
    for given in ({"alphas": [0.1, 1.0], "forest": "extra-trees"}, one_alpha):
        model = fitted("numbers", **given)
        (bound,) = kpp.risk_bounds(model, X, y, y_range=(-10, 30))
        assert {own.name: own.holds for own in bound.assumptions}["choices counted"] is None
        intervals = model.predict_interval(X[:2])
        reasons = {own.name: own.holds for own in intervals.conditions}
        assert reasons["alpha fixed without these labels"] is None
        assert bound.is_guarantee
        assert intervals.is_guarantee


@pytest.mark.parametrize("name", ["trees", "blend"])
def test_intervals_and_sets_of_a_model_that_chose_are_guaranteed(name):
    X, y = rows_of("numbers")
    settings = NESTED | {"cv": 3} | forest_of(name, "numbers")
    found = KPPRegressor(**settings).fit(X, y).predict_interval(X, guaranteed=0.5)
    assert found.is_guarantee
    assert (
        not KPPRegressor(**(settings | {"alpha_selection": "fold-grown"}))
        .fit(X, y)
        .predict_interval(X)
        .is_guarantee
    )
    X, y = rows_of("three")
    settings |= forest_of(name, "three")
    assert KPPClassifier(**settings).fit(X, y).predict_set(X, guaranteed=0.5).is_guarantee


def test_the_score_that_is_shown_is_that_of_rows_not_seen():
    X, y = rows_of("numbers")
    weight = np.linspace(0.5, 2, len(y))
    for given in ({}, {"sample_weight": weight}):
        model = KPPRegressor("extra-trees", **NESTED).fit(X, y, **given)
        each = np.average(np.square(y - model.oof_prediction_), weights=given.get("sample_weight"))
        assert kept_score(model) == pytest.approx(-each, rel=1e-12)
    assert "KPP008" not in [own.code for own in kpp.diagnose(model, X, y, sample="fit").findings]


def test_a_file_whose_alphas_are_not_those_of_its_layers_is_refused(tmp_path):
    # As of a model that has chosen one alpha for all parts, and says otherwise.
    model = fitted("two", forest="extra-trees")
    model.alphas_ = model.alphas_ * 2
    kpp.save(model, tmp_path / "model.kpp")
    with pytest.raises(kpp.io.FileFormatError, match="alphas of the parts"):
        kpp.load(tmp_path / "model.kpp")


def test_balanced_classes_know_all_folds():
    X, y = rows_of("two")
    model = fitted("two", forest="extra-trees", class_weight="balanced")
    assert not any(bound.is_guarantee for bound in kpp.risk_bounds(model, X, y))


# What is refused.


def test_only_one_regime_has_parts_that_choose():
    X, y = rows_of("two")
    for regime in ("shared", "honest", "cross-fit"):
        with pytest.raises(ValueError, match="regime='cross-validated'"):
            KPPClassifier(**(NESTED | {"regime": regime})).fit(X, y)


def test_a_class_that_a_part_would_not_know():
    X, y = rows_of("two")
    y[3] = 2  # the only one of its class, in the first fold
    with pytest.raises(ValueError, match="Without fold 0 the rows lack one of the 3 classes"):
        KPPClassifier("extra-trees", **NESTED).fit(X, y)


@pytest.mark.parametrize(("field", "value"), [("n_candidates", 2), ("n_candidates", 0)])
def test_a_file_that_counts_what_was_not_chosen_is_refused(field, value, tmp_path):
    model = fitted("two", forest="extra-trees")
    model.fit_record_ = replace(model.fit_record_, **{field: value})
    kpp.save(model, tmp_path / "model.kpp")
    with pytest.raises(kpp.io.FileFormatError, match="n_candidates"):
        kpp.load(tmp_path / "model.kpp")


def test_whoever_pays_for_a_choice_is_told_how_not_to():
    X, y = rows_of("two")
    paid = KPPClassifier("extra-trees", **(NESTED | {"alpha_selection": "fold-grown"})).fit(X, y)
    notes = [
        [note for note in kpp.risk_bounds(model, X, y).notes if "alpha_selection='nested'" in note]
        for model in (paid, fitted("two", forest="extra-trees"))
    ]
    assert [len(own) for own in notes] == [1, 0]
    assert "N = 13" in notes[0][0]


def test_weights_of_its_fold_alone_are_none_to_a_part():
    X, y = rows_of("numbers")
    (_, fold), *_ = FOLDS.split(X)
    weight = np.ones(len(y))
    weight[fold] = 3.0
    plain = fitted("numbers", forest="random-forest")
    weighed = KPPRegressor(**NESTED, forest="random-forest").fit(X, y, sample_weight=weight)
    one, two = (m.fold_predictors_.scores(m.at(X)) for m in (plain, weighed))
    assert [np.array_equal(*own) for own in zip(one, two, strict=True)] == [True, False, False]


def test_a_class_of_rows_without_weight_is_one_that_a_part_does_not_know():
    X, y = rows_of("three")
    (train, _), *_ = FOLDS.split(X)
    weight = np.ones(len(y))
    weight[train[y[train] == 2]] = 0.0
    with pytest.raises(ValueError, match="Without fold 0 the rows lack one of the 3 classes"):
        KPPClassifier(**NESTED, forest="extra-trees").fit(X, y, sample_weight=weight)


def test_a_threshold_of_every_part_by_itself_voids_no_interval():
    X, y = rows_of("numbers")
    for selection, holds in (("nested", True), ("fold-grown", False)):
        settings = NESTED | {"alpha_selection": selection, "cv": 3, "loss": "huber"}
        model = KPPRegressor("extra-trees", **settings, alphas=[0.1]).fit(X, y)
        assert model.predict_interval(X + 1, 0.9).is_guarantee is holds


def test_a_part_with_too_few_rows_is_named():
    X, y = np.arange(6.0).reshape(3, 2), np.arange(3.0)
    model = KPPRegressor("extra-trees", **(NESTED | {"cv": 2}))
    with pytest.raises(ValueError, match=r"among the rows without fold 0 .*'nested'.*; got 1"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="at least 2 groups among the rows without fold 0"):
        model.fit(np.vstack([X, X]), np.tile(y, 2), groups=[0, 0, 0, 1, 1, 1])
