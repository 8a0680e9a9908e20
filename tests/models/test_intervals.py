"""Cross-conformal intervals and sets, against a few obvious lines, and by their coverage."""

import math
from copy import copy
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut

import kpp
from kpp import KPPClassifier, KPPRegressor
from kpp.models import intervals
from kpp.models._rank_loops import rank_of_scaled_sums
from kpp.models.intervals import proven, shortfall

SMALL = {"n_estimators": 6, "cv": 3, "random_state": 0}


def numbers(n_targets=1):
    X, y = load_diabetes(return_X_y=True)
    return X, y if n_targets == 1 else np.column_stack([y, 300 * X[:, 2] - y])


@pytest.fixture(scope="module")
def regressor():
    X, y = numbers()
    return KPPRegressor(**SMALL).fit(X[:200], y[:200])


@pytest.fixture(scope="module")
def classifier():
    X, y = load_iris(return_X_y=True)
    return KPPClassifier(**SMALL).fit(X[::2], np.array(["a", "b", "c"])[y[::2]])


# The arithmetic.


@pytest.mark.parametrize("sizes", [[7], [3, 4], [5, 1, 9], [40] * 5, [1] * 30, [1, 300, 2], [6, 0]])
def test_ranks_of_sums(sizes):
    random = np.random.default_rng(len(sizes))
    n, n_rows = sum(sizes), 11
    steps = [np.sort(random.exponential(size=size).round(1)) for size in sizes]
    shift = random.normal(size=(len(sizes), n_rows)).round(1)
    scale = random.choice([0.0, 0.5, 1.0, 3.0], size=shift.shape)
    ones, starts = np.ones_like(shift), np.cumsum([0, *sizes])

    def ranked(scale):
        parts = zip(shift, scale, steps, strict=True)
        return np.sort(np.hstack([s[:, None] + c[:, None] * own for s, c, own in parts]), axis=1)

    for rank in range(1, n + 1):
        out = np.empty(n_rows)
        rank_of_scaled_sums(shift, ones, np.concatenate(steps), starts, rank, out)
        assert np.array_equal(out, ranked(ones)[:, rank - 1])
        rank_of_scaled_sums(shift, scale, np.concatenate(steps), starts, rank, out)
        assert np.array_equal(out, ranked(scale)[:, rank - 1])


def fold_predictions(model, X):
    """The prediction of each row of X by the predictor of each row of the fit: (n, n_fit, ...)."""
    own = model.fold_predictors_
    return np.array([model._task.answers(s) for s in own.scores(model.at(X))])[own.fold_of_row]


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.99])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"forest": "extra-trees"},
        {"regime": "honest"},
        {"regime": "cross-fit"},
        {"regime": "cross-validated"},
        {"forest": "random-forest", "alpha_selection": "regrown"},
    ],
    ids=str,
)
def test_intervals_are_those_of_a_few_lines(n_targets, coverage, given):
    X, y = numbers(n_targets)
    model = KPPRegressor(**SMALL, **given).fit(X[:250], y[:250])
    y, new = y[model.fit_rows_], fold_predictions(model, X[250:])
    residual, n = np.abs(y - model.oof_prediction_), len(y)
    high = math.ceil(round(coverage * (n + 1), 9))
    low = math.floor(round((1 - coverage) * (n + 1), 9))
    for width in ("constant", "adaptive"):
        own, there = np.ones(residual.shape), np.ones(new.shape)
        if width == "adaptive":
            # At the rows of the fit only the spread of the fold that they are in.
            fold, at = model.fold_predictors_.fold_of_row, model.fold_predictors_.spread
            own = at(model.at(X[model.fit_rows_]))[fold, :, np.arange(n)].reshape(own.shape)
            there = np.moveaxis(at(model.at(X[250:])), 1, 2)[fold].reshape(new.shape)
        reach = there * (residual / own)[:, None]
        found = model.predict_interval(X[250:], coverage, width=width)
        assert np.array_equal(found.lower, np.sort(new - reach, axis=0)[low - 1])
        assert np.array_equal(found.upper, np.sort(new + reach, axis=0)[high - 1])
        assert np.array_equal(found.prediction, model.predict(X[250:]))
        assert found.lower.shape == model.predict(X[250:]).shape
        assert (found.lower <= found.upper).all()
        assert (len(found), found.n_calibration, found.n_folds) == (len(X) - 250, n, 3)
        assert found.widths == width


def nonconformity(p, method):
    if method == "lac":
        return 1 - p
    each = [np.sort(p)[..., ::-1][..., : k + 1].sum(axis=-1) for k in range(p.shape[-1])]
    rank = np.argsort(np.argsort(-p, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.take_along_axis(np.stack(each, axis=-1), rank, axis=-1)


@pytest.mark.parametrize("method", ["lac", "aps"])
@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("coverage", [0.3, 0.8, 0.9])
def test_sets_are_those_of_a_few_lines(classifier, method, per_class, coverage):
    X, y = load_iris(return_X_y=True)
    fit, new, codes = X[::2], X[1::2], y[::2]
    found = classifier.predict_set(new, coverage, method=method, per_class=per_class)
    s = nonconformity(classifier.oof_prediction_, method)[np.arange(len(fit)), codes]
    at = nonconformity(fold_predictions(classifier, new), method)
    expected = np.empty((len(new), 3), dtype=bool)
    for k in range(3):
        own = codes == k if per_class else np.ones(len(fit), dtype=bool)
        below = (s[own, None] < at[own][:, :, k] - 1e-14).sum(axis=0)
        expected[:, k] = below < math.ceil(round(coverage * (own.sum() + 1), 9))
    assert np.array_equal(found.sets, expected)
    assert found.classes.tolist() == ["a", "b", "c"]
    assert found.mean_size == expected.sum() / len(new)
    assert found.n_empty == (~expected.any(axis=1)).sum()
    assert [own.tolist() for own in found.labels] == [
        np.array(["a", "b", "c"])[row].tolist() for row in expected
    ]


@pytest.mark.parametrize("per_class", [False, True])
def test_the_random_step_of_the_adaptive_score(classifier, per_class):
    X, y = load_iris(return_X_y=True)
    new, codes = X[1::2], y[::2]
    found = classifier.predict_set(new, 0.8, method="aps", per_class=per_class, random_state=7)
    assert found.random_state == 7
    u, v = (np.random.default_rng([7, k]).uniform(size=75) for k in (0, 1))
    p, at = classifier.oof_prediction_, fold_predictions(classifier, new)
    s = (nonconformity(p, "aps") - u[:, None] * p)[np.arange(75), codes]
    there = nonconformity(at, "aps") - v[:, None] * at
    for k in range(3):
        own = codes == k if per_class else np.ones(75, dtype=bool)
        below = (s[own, None] < there[own][:, :, k] - 1e-14).sum(axis=0)
        assert np.array_equal(found.sets[:, k], below < math.ceil(round(0.8 * (own.sum() + 1), 9)))
    # Smaller, and the same again; another seed is another draw.
    assert found.mean_size < classifier.predict_set(new, 0.8, method="aps").mean_size
    again = classifier.predict_set(new, 0.8, method="aps", per_class=per_class, random_state=7)
    other = classifier.predict_set(new, 0.8, method="aps", per_class=per_class, random_state=8)
    assert np.array_equal(again.sets, found.sets)
    assert not np.array_equal(other.sets, found.sets)
    for bad in (-1, 0.5, True, "1"):
        with pytest.raises(ValueError, match="random_state is a whole number"):
            classifier.predict_set(new, method="aps", random_state=bad)
    with pytest.raises(ValueError, match="method='aps' alone"):
        classifier.predict_set(new, random_state=0)


def test_a_score_that_equals_is_not_below(classifier, monkeypatch):
    X, y = load_iris(return_X_y=True)
    monkeypatch.setattr(intervals, "_nonconformity", lambda p, method: (1 - p).round(1))
    model = copy(classifier)
    model.fold_predictors_ = replace(classifier.fold_predictors_)  # nothing is sorted yet
    s = (1 - model.oof_prediction_).round(1)[np.arange(75), y[::2]]
    at = (1 - fold_predictions(model, X)).round(1)
    below, level = (s[:, None, None] < at).sum(axis=0), (s[:, None, None] <= at).sum(axis=0)
    found = model.predict_set(X, 0.9).sets
    assert np.array_equal(found, below < math.ceil(0.9 * 76))
    assert not np.array_equal(found, level < math.ceil(0.9 * 76))


def test_equal_probabilities_have_one_adaptive_score():
    p = np.array([[0.25, 0.5, 0.25], [0.4, 0.2, 0.4], [1 / 3] * 3, [0.5, 0.3, 0.2]])
    expected = [[1, 0.5, 1], [0.8, 1, 0.8], [1, 1, 1], [0.5, 0.8, 1]]
    np.testing.assert_allclose(intervals._nonconformity(p, "aps"), expected, rtol=1e-15)


def test_low_coverage_gives_intervals_all_the_same(regressor):
    X, _ = numbers()
    found = regressor.predict_interval(X[200:], 0.05)
    assert (found.lower <= found.upper).all()


def test_intervals_grow_with_their_level_and_rows_may_be_routed(regressor):
    X, _ = numbers()
    rows = regressor.at(X[200:])
    narrow, wide = (regressor.predict_interval(rows, c) for c in (0.7, 0.95))
    assert (wide.lower <= narrow.lower).all()
    assert (wide.upper >= narrow.upper).all()
    assert (wide.width > narrow.width).any()
    assert np.array_equal(regressor.predict_interval(X[200:], 0.7).lower, narrow.lower)


def test_threads_give_the_same_bits(regressor, monkeypatch):
    X, _ = numbers()
    one = regressor.predict_interval(X[200:], 0.9)
    monkeypatch.setattr(intervals, "ROWS_OF_BLOCK", 7)
    several = copy(regressor).set_params(n_jobs=2).predict_interval(X[200:], 0.9)
    assert np.array_equal(one.lower, several.lower)
    assert np.array_equal(one.upper, several.upper)


# Coverage.


def draw(random, n):
    """Errors that grow with a column; a known distribution."""
    X = random.uniform(-1, 1, size=(n, 3))
    return X, np.sin(3 * X[:, 0]) + (0.2 + np.abs(X[:, 1])) * random.standard_normal(n)


def test_coverage_by_simulation():
    random, inside, n_new, widths = np.random.default_rng(0), 0, 40, []
    n_draws = 100
    for seed in range(n_draws):
        X, y = draw(random, 100)
        new, target = draw(random, n_new)
        model = KPPRegressor(
            "extra-trees", n_estimators=10, alphas=[1.0], cv=5, random_state=seed, main_effects=None
        ).fit(X, y)
        found = model.predict_interval(new, 0.9)
        inside += int(((found.lower <= target) & (target <= found.upper)).sum())
        widths.append(found.width.mean())
    share = inside / (n_draws * n_new)
    # New rows of a draw share its fit: as if each draw were a few rows only, five sigma.
    slack = 5 * math.sqrt(0.09 / (n_draws * 10))
    assert share > 0.9 - slack
    assert share < 0.96 + slack  # and not by being endless
    assert np.mean(widths) < 6


@pytest.mark.parametrize("width", ["constant", "adaptive"])
def test_a_guarantee_is_kept_by_simulation(width):
    # All conditions hold: a forest of other rows, a given alpha, five equal folds at random.
    random = np.random.default_rng(1)
    other, y = draw(random, 200)
    forest = kpp.Forest.from_model(RandomForestRegressor(5, random_state=0).fit(other, y))
    inside, seen = [], []
    for seed in range(150):
        (X, y), (new, target) = draw(random, 50), draw(random, 40)
        model = KPPRegressor(
            forest,
            regime="fixed",
            alphas=[1e-3],
            cv=KFold(5, shuffle=True, random_state=seed),
            main_effects=None,
        ).fit(X, y)
        found = model.predict_interval(new, guaranteed=0.7, width=width)
        assert found.is_guarantee
        inside.append(np.mean((found.lower <= target) & (target <= found.upper)))
        reach = np.quantile(np.abs(y - model.predict(X)), 0.8)
        seen.append(np.mean(np.abs(target - model.predict(new)) <= reach))
    error = np.std(inside) / math.sqrt(len(inside))
    assert np.mean(inside) > 0.7 - 4 * error
    # It pays for being sure, and covers what its level says, or a little more.
    assert found.coverage - 0.03 < np.mean(inside) < found.coverage + 0.06
    # The simulation tells a wrong way: errors of rows that the model was fitted on.
    assert np.mean(seen) < 0.7


def test_sets_cover_by_simulation_in_every_class():
    random = np.random.default_rng(0)
    hits, rows, n_draws = np.zeros((2, 2)), np.zeros(2), 40
    for seed in range(n_draws):
        X = random.uniform(size=(240, 2))
        y = (random.uniform(size=240) < np.where(X[:, 0] < 0.7, 0.1, 0.5)).astype(int)
        model = KPPClassifier("extra-trees", n_estimators=8, alphas=[0.1], random_state=seed)
        model.fit(X[:160], y[:160])
        rows += np.bincount(y[160:], minlength=2)
        for k, per_class in enumerate((False, True)):
            sets = model.predict_set(X[160:], 0.8, per_class=per_class).sets
            hits[k] += np.bincount(y[160:], sets[np.arange(80), y[160:]], minlength=2)
    assert hits[0].sum() > binom.ppf(1e-6, rows.sum() / 4, 0.8) * 4
    # The rarer class is left out where ranks are among all rows, and not within each.
    each = hits / rows
    assert each[0, 1] < 0.7
    assert each[1, 1] > 0.75
    assert each[1, 0] > 0.75


# Levels.


def test_the_shortfall_is_that_of_the_theorem():
    for n, q in ((100, 5), (1000, 5), (60, 20), (30, 30)):
        first, second = 2 * (1 - 1 / q) / (n / q + 1), (1 - q / n) / (q + 1)
        assert float(shortfall(n, q)) == pytest.approx(min(first, second), rel=1e-14, abs=0)
    # Of folds that are not equal the first alone is proven, here the larger one.
    assert float(shortfall(61, 20)) == pytest.approx(2 * 19 / 81, rel=1e-14)
    assert shortfall(60, 20) < shortfall(61, 20)


def test_weighted_means_of_shares_however_they_depend():
    # What the proof for unequal folds rests on: P(mean <= b) <= 2 b, and no less would do. Shares
    # that are small by turns: within an event of probability 2 b one is b - x where another is x.
    rng, b = np.random.default_rng(0), 0.05
    together = rng.random(400_000) < 2 * b
    place = rng.random(400_000)
    one = np.where(together, 2 * b * place, 2 * b + (1 - 2 * b) * place)
    other = np.where(together, 2 * b * (1 - place), 2 * b + (1 - 2 * b) * place)
    assert np.mean((one + other) / 2 <= b * (1 + 1e-12)) == pytest.approx(2 * b, abs=0.002)
    for weight in (0.5, 0.2):
        for second in (one, other, rng.random(400_000)):
            share = np.mean(weight * one + (1 - weight) * second <= b)
            assert share <= 2 * b + 0.002


def test_a_guaranteed_level(regressor):
    X, _ = numbers()
    found = regressor.predict_interval(X, guaranteed=0.75)
    n, q = 200, 3
    a = (1 - 0.75 - min(2 * (1 - 1 / q) / (n / q + 1), (1 - q / n) / (q + 1))) / 2
    assert found.coverage == pytest.approx(1 - a, rel=1e-14)
    assert found.proven_coverage == pytest.approx(0.75, rel=1e-14)
    same = regressor.predict_interval(X, found.coverage)
    assert np.array_equal(found.lower, same.lower)


def test_a_level_is_the_decimal_that_was_written():
    # 0.9 of 10 is 9: the smallest and the largest of nine rows. In binary it would be more.
    X, y = numbers()
    model = KPPRegressor("extra-trees", regime="honest", alphas=[1.0], **SMALL)
    model.fit(X[:18], y[:18])
    found = model.predict_interval(X[18:], 0.9, width="constant")
    assert found.n_calibration == 9
    residual = np.abs(y[model.fit_rows_] - model.oof_prediction_)[:, None]
    new = fold_predictions(model, X[18:])
    assert np.array_equal(found.lower, (new - residual).min(axis=0))
    assert np.array_equal(found.upper, (new + residual).max(axis=0))
    with pytest.raises(ValueError, match=r"at least 10 rows; the fit had 9"):
        model.predict_interval(X, 0.905)


def test_what_is_neither_true_nor_false_is_refused(regressor, classifier):
    X = load_iris().data
    for name in ("per_class", "independent_duplicates"):
        for value in ("yes", "no", 1, None):
            with pytest.raises(ValueError, match=f"{name} must be True or False"):
                classifier.predict_set(X, **{name: value})
    assert classifier.predict_set(X, 0.5, per_class=np.bool_(True)).per_class
    with pytest.raises(ValueError, match="independent_duplicates must be True or False"):
        regressor.predict_interval(numbers()[0], independent_duplicates="yes")


def test_a_guaranteed_share_comes_before_the_coverage(regressor):
    X, _ = numbers()
    both = regressor.predict_interval(X, 0.5, guaranteed=0.75)
    assert both.coverage == regressor.predict_interval(X, guaranteed=0.75).coverage > 0.75


def test_the_method_of_the_other_task_is_absent_and_says_what_is_there(regressor, classifier):
    for model, there, absent in (
        (regressor, "predict_interval", "predict_set"),
        (classifier, "predict_set", "predict_interval"),
    ):
        for own in (model, type(model)):
            assert hasattr(own, there)
            assert not hasattr(own, absent)
            with pytest.raises(AttributeError, match=f"{type(model).__name__} has no {absent}.*"):
                getattr(own, absent)
        with pytest.raises(AttributeError, match=f"use {there}"):
            getattr(model, absent)


@pytest.mark.parametrize("n_folds", [2, 3, 5, 7, 20])
def test_the_fewest_rows_are_the_fewest(regressor, n_folds):
    def is_enough(asked, n):
        return (1 - asked - shortfall(n, n_folds)) / 2 * (n + 1) >= 1

    n_said = 0
    for asked in ("0.3", "0.7", "0.9", "0.95", "0.97"):
        asked = Fraction(asked)
        for n_rows in range(n_folds, 120, 7):
            if is_enough(asked, n_rows):
                continue
            needs = next(n for n in range(n_rows + 1, 10**6) if is_enough(asked, n))
            with pytest.raises(ValueError, match=rf"{n_folds} folds need {needs} rows"):
                intervals._level(0.9, float(asked), n_rows, n_folds)
            n_said += 1
    assert n_said > 10


def test_196_rows_are_enough_for_five_folds_and_billions_are_found():
    with pytest.raises(ValueError, match="5 folds need 196 rows"):
        intervals._level(0.9, 0.95, 195, 5)
    assert intervals._level(0.9, 0.95, 196, 5) < 1
    with pytest.raises(ValueError, match=r"5 folds need \d{10} rows"):
        intervals._level(0.9, 1 - 1e-9, 195, 5)


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 1.5, np.nan, "0.9", None, True])
def test_what_is_no_share_is_refused(regressor, classifier, coverage):
    for ask in (regressor.predict_interval, classifier.predict_set):
        with pytest.raises(ValueError, match="coverage is a share"):
            ask(np.zeros((1, 10)), coverage)
    if coverage is not None:
        with pytest.raises(ValueError, match="guaranteed is a share"):
            regressor.predict_interval(np.zeros((1, 10)), guaranteed=coverage)


def test_too_few_rows_are_told_how_many(regressor, classifier):
    X, _ = numbers()
    with pytest.raises(ValueError, match="at least 999 rows; the fit had 200"):
        regressor.predict_interval(X, 0.999)
    with pytest.raises(ValueError, match="at least 99 rows of class 'a'; the fit had 25"):
        classifier.predict_set(load_iris().data, 0.99, per_class=True)
    with pytest.raises(ValueError, match=r"3 folds need \d+ rows") as error:
        regressor.predict_interval(X, guaranteed=0.98)
    needs = int(str(error.value).split("folds need ")[1].split()[0])

    def reached(n):
        a = (1 - 0.98 - float(shortfall(n, 3))) / 2
        return a * (n + 1) >= 1

    assert reached(needs)
    assert not any(map(reached, range(201, needs)))
    with pytest.raises(ValueError, match="more than 200 rows"):
        regressor.predict_interval(X, guaranteed=1 - 1e-9)
    with pytest.raises(ValueError, match="per_class"):
        classifier.predict_set(load_iris().data, per_class=True, guaranteed=0.5)
    with pytest.raises(ValueError, match="width"):
        regressor.predict_interval(X, width="other")
    with pytest.raises(ValueError, match="method"):
        classifier.predict_set(load_iris().data, method="other")


# What has no predictors of folds.


def test_models_without_them_say_what_has_them(tmp_path):
    X, y = numbers()
    with pytest.raises(NotFittedError):
        KPPRegressor().predict_interval(X)
    for regime in ("shared", "honest", "cross-fit"):
        model = KPPRegressor("extra-trees", alpha=0.1, regime=regime, **SMALL).fit(X, y)
        with pytest.raises(kpp._checks.RefusedError, match=r"alphas=\[alpha\]"):
            model.predict_interval(X)
    model = KPPRegressor("extra-trees", alpha_selection="frozen", alphas=[1.0], **SMALL).fit(X, y)
    with pytest.raises(kpp._checks.RefusedError, match="the trees have seen all rows"):
        model.predict_interval(X)
    model = KPPRegressor("extra-trees", alpha_selection="regrown", alphas=[1.0], **SMALL).fit(X, y)
    model.predict_interval(X)
    kpp.save(model, tmp_path / "model.kpp")
    with pytest.raises(kpp._checks.RefusedError, match="refit"):
        kpp.load(tmp_path / "model.kpp").predict_interval(X)


def test_a_model_of_an_older_file_says_refit(regressor):
    older = copy(regressor)
    older.fold_predictors_ = None
    with pytest.raises(kpp._checks.RefusedError, match=r"older version.*refit"):
        older.predict_interval(numbers()[0])


# What it is worth.


def state(model, X):
    found = model.predict_interval(X)
    return found.is_guarantee, [own.name for own in found.failing]


GUARANTEED = {"alphas": [1.0], "cv": 5, "n_estimators": 5, "random_state": 0}
FORESTS = {
    "honest": {"regime": "honest"},
    "regrown": {"alpha_selection": "regrown"},
}


@pytest.mark.parametrize("name", FORESTS)
def test_what_holds_where_alpha_is_fixed(name):
    X, y = (own[:200] for own in numbers())
    model = KPPRegressor("extra-trees", **FORESTS[name], **GUARANTEED).fit(X, y)
    assert state(model, X) == (True, [])
    text = str(model.predict_interval(X, guaranteed=0.8))
    assert "guaranteed for at least 0.8" in text
    assert "trusted exchangeable rows" in text


RANDOM, ALPHA = "random folds", "alpha fixed without these labels"
OTHERS, ROWS = "one way from the other folds' rows", "exchangeable rows"


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        ({"alphas": None}, [ALPHA]),
        ({"alphas": [0.5, 1.0]}, [ALPHA]),
        ({"regime": "shared"}, [OTHERS]),
        ({"regime": "cross-fit"}, [OTHERS]),
        ({"forest": "blend"}, [ALPHA]),
        (
            {"cv": [(np.arange(50), np.arange(50, 100)), (np.arange(50, 100), np.arange(50))]},
            [RANDOM],
        ),
        ({"weight": np.arange(1.0, 201.0)}, [ROWS]),
        ({"groups": np.arange(200) // 2}, [ROWS, RANDOM]),
    ],
    ids=lambda own: " ".join(own),
)
def test_what_fails_is_said(changed, failing):
    X, y = (own[:200] for own in numbers())
    changed = dict(changed)
    weight, groups = changed.pop("weight", None), changed.pop("groups", None)
    given = GUARANTEED | {"forest": "extra-trees", "regime": "honest"} | changed
    model = KPPRegressor(**given).fit(X, y, sample_weight=weight, groups=groups)
    assert state(model, X) == (False, failing)
    assert "not a guarantee" in str(model.predict_interval(X))


def copied(n=100):
    X, y = (own[:n] for own in numbers())
    return np.vstack([X, X[:7]]), np.concatenate([y, y[:7]])


@pytest.mark.parametrize(
    "given",
    [
        {"regime": "cross-validated"},
        {"regime": "cross-validated", "loss": "quantile", "quantile": [0.1, 0.9]},
        {"alpha_selection": "regrown"},
    ],
    ids=str,
)
def test_copies_of_rows_void_it_unless_they_are_draws(given, tmp_path):
    X, y = copied()
    model = KPPRegressor("extra-trees", **GUARANTEED, **given).fit(X, y)
    (failing,) = model.predict_interval(X[:5]).failing
    assert failing.name == ROWS
    assert failing.why.startswith("14 of the 107 rows of the fit equal another")
    assert "independent_duplicates=True" in failing.why
    found = model.predict_interval(X[:5], independent_duplicates=True)
    assert found.is_guarantee
    trusted = next(own for own in found.conditions if own.name == ROWS)
    assert trusted.holds is None
    assert "the caller says that they are independent draws" in trusted.why
    assert np.array_equal(found.upper, model.predict_interval(X[:5]).upper)
    if given.get("alpha_selection") != "regrown":  # a file does not hold its forests
        kpp.save(model, tmp_path / "model.kpp")
        loaded = kpp.load(tmp_path / "model.kpp")
        assert loaded.duplicate_rows_ == 14
        assert loaded.predict_interval(X[:5]).failing == (failing,)


def test_copies_of_rows_void_sets():
    X, y = copied()
    model = KPPClassifier("extra-trees", regime="cross-validated", **GUARANTEED)
    model.fit(X, (y > 140).astype(int))
    assert [own.name for own in model.predict_set(X).failing] == [ROWS]
    assert model.predict_set(X, independent_duplicates=True).is_guarantee


def test_a_copy_of_a_row_that_grew_the_trees_counts():
    X, y = (own[:200] for own in numbers())
    model = KPPRegressor("extra-trees", regime="honest", **GUARANTEED).fit(X, y)
    X[model.fit_rows_[0]] = X[model.partition_rows_[0]]
    model.fit(X, y)
    (failing,) = model.predict_interval(X).failing
    assert failing.why.startswith("1 of the 100 rows")


@pytest.mark.parametrize("regime", ["honest", "cross-validated"])
def test_groups_of_one_row_are_rows(regime):
    X, y = (own[:200] for own in numbers())
    model = KPPRegressor("extra-trees", regime=regime, **GUARANTEED)
    assert state(model.fit(X, y, groups=np.arange(200)), X) == (True, [])
    assert model.fit_record_.folds == "grouped"
    # A fixed order of folds by the groups is the caller's, and not known to be without labels.
    model.set_params(cv=GroupKFold(5)).fit(X, y, groups=np.arange(200))
    assert state(model, X) == (False, [RANDOM])


@pytest.mark.parametrize("forest", ["blend", "extra-trees"])
@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit", "cross-validated"])
def test_the_way_that_is_named_works(forest, regime):
    X, y = (own[:150] for own in numbers())
    model = KPPRegressor(forest, **SMALL, regime=regime).fit(X, y)
    for own in model.predict_interval(X).failing:
        advice = own.why.partition("; ")[2]
        assert "regime='cross-validated' with alpha_selection='nested'" in advice
        # What else is named must do for this model: for a blend nothing else does.
        assert ("honest" in advice or "alphas=[alpha]" in advice) == (forest != "blend")
    model.set_params(regime="cross-validated", alpha_selection="nested").fit(X, y)
    assert state(model, X) == (True, [])


def test_folds_need_not_be_equal():
    X, y = (own[:201] for own in numbers())
    model = KPPRegressor("extra-trees", regime="honest", **(GUARANTEED | {"cv": 3})).fit(X, y)
    assert state(model, X) == (True, [])
    found = model.predict_interval(X, guaranteed=0.8)
    assert found.n_calibration == 101
    a = (1 - 0.8 - 2 * 2 / 104) / 2
    assert found.coverage == pytest.approx(1 - a, rel=1e-14)
    assert "3 folds of 33 to 34 rows" in str(found)


def test_classes_need_folds_without_labels():
    X, y = load_iris(return_X_y=True)
    given = GUARANTEED | {"regime": "honest", "honest_fraction": 100 / 150}
    X = X + np.linspace(0, 1e-3, 150)[:, None]  # two of its rows are equal
    model = KPPClassifier("extra-trees", **given).fit(X, y)
    assert [own.name for own in model.predict_set(X).failing] == [RANDOM]
    given["cv"] = KFold(5, shuffle=True, random_state=0)
    model = KPPClassifier("extra-trees", **given).fit(X, y)
    assert model.predict_set(X).is_guarantee
    assert not model.predict_set(X, 0.7, per_class=True).is_guarantee
    balanced = KPPClassifier(
        "extra-trees",
        **(given | {"regime": "shared"}),
        alpha_selection="regrown",
        class_weight="balanced",
    ).fit(X, y)
    assert [own.name for own in balanced.predict_set(X).failing] == [OTHERS]


def test_nothing_is_promised_below_the_loss(regressor):
    found = regressor.predict_interval(numbers()[0], 0.5)
    assert found.proven_coverage == 0.0
    assert not found.is_guarantee
    assert proven(shortfall(200, 3) * 0 + 1, 200, 3) == pytest.approx(1 - float(shortfall(200, 3)))


def test_leave_one_out_and_a_forest_from_elsewhere():
    X, y = (own[:60] for own in numbers())
    grown = RandomForestRegressor(5, random_state=0).fit(*(own[60:200] for own in numbers()))
    model = KPPRegressor(
        kpp.Forest.from_model(grown),
        regime="fixed",
        alphas=[1.0],
        cv=LeaveOneOut(),
        main_effects=None,
    ).fit(X, y)
    found = model.predict_interval(X, guaranteed=0.8, width="constant")
    assert found.coverage == pytest.approx(0.9, rel=1e-14)  # the jackknife+: nothing is lost
    assert found.is_guarantee
    residual = np.abs(y - model.oof_prediction_)[:, None]
    expected = np.sort(fold_predictions(model, X) + residual, axis=0)[math.ceil(0.9 * 61) - 1]
    assert np.array_equal(found.upper, expected)


def test_results_print(regressor, classifier):
    found = regressor.predict_interval(numbers()[0])
    assert repr(found).startswith("PredictionIntervals(n_rows=442, coverage=0.9")
    assert str(found).count("\n") == 1 + len(found.conditions)
    sets = classifier.predict_set(load_iris().data)
    assert f"{sets.n_empty} empty" in str(sets)
    assert repr(sets).startswith("PredictionSets(n_rows=150")
    assert "FAILS" in str(sets)
    assert found._repr_html_()


@pytest.mark.parametrize("loss", ["squared", "huber", "quantile", "poisson", "log"])
@pytest.mark.parametrize("way", ["honest", "regrown"])
def test_the_fit_of_a_fold_at_one_given_alpha_does_not_know_its_labels(way, loss):
    # How far a search goes depends on the labels of all folds: where there is one alpha, none is.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = rng.poisson(np.exp(0.5 * X[:, 0])).astype(float)
    own = {"regime": "honest"} if way == "honest" else {"alpha_selection": way}
    own |= {"n_estimators": 5, "alphas": [0.1], "cv": KFold(4), "random_state": 0}
    kind, given = (KPPClassifier, {}) if loss == "log" else (KPPRegressor, {"loss": loss})
    given |= {"huber_delta": 1.0} if loss == "huber" else {}
    y = (y > 0).astype(int) if loss == "log" else y
    before = kind("extra-trees", **own, **given).fit(X, y)
    for p, (_, test) in enumerate(before.folds_):
        moved = y.copy()
        moved[test] = 1 - y[test] if loss == "log" else 3 * y[test] + 1
        after = kind("extra-trees", **own, **given).fit(X, moved)
        one, two = (m.fold_predictors_.scores(m.at(X)) for m in (before, after))
        assert one[p] == pytest.approx(two[p], rel=1e-12)
        assert not np.allclose(one[p - 1], two[p - 1], rtol=1e-6)
