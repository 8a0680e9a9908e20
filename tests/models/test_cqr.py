"""Conformalised quantiles: by the definition, their coverage, and their guarantee."""

from math import floor

import numpy as np
import pytest
from sklearn.model_selection import KFold

import kpp
from kpp import KPPRegressor
from kpp.models.cqr import QuantileIntervals

pytestmark = pytest.mark.filterwarnings(
    "ignore:The best alpha lies on:sklearn.exceptions.ConvergenceWarning"
)


def draw(rng, n_rows):
    X = rng.normal(size=(n_rows, 2))
    return X, X[:, 0] + (0.2 + np.abs(X[:, 1])) * rng.normal(size=n_rows)


def fitted(X, y, **parameters):
    parameters = {"n_estimators": 10, "random_state": 0, "quantile": [0.1, 0.9]} | parameters
    return KPPRegressor("extra-trees", loss="quantile", **parameters).fit(X, y)


def counted(rng, n_rows):
    """Counts of rows that were watched for different times, and these times."""
    X = rng.normal(size=(n_rows, 2))
    exposure = np.exp(rng.uniform(-1.5, 1.5, n_rows))
    return X, rng.poisson(exposure * np.exp(0.5 + 0.7 * X[:, 0])).astype(float), exposure


def spreads(model, X, X_new, width):
    """At every row of the fit the spread of its own fold, and at new rows that of each fold."""
    own = model.fold_predictors_
    at_rows, at_new = (own.spread(model.at(rows))[:, 0] for rows in (X, X_new))
    if width == "constant":
        return np.ones(len(X)), np.ones_like(at_new)
    return at_rows[own.fold_of_row, np.arange(len(X))], at_new


def ends_by_loops(fold, lows, highs, reach, coverage):
    """Both ends of each new row, from its distances by every row of the fit, one by one."""
    n, n_new = reach.shape
    k = floor(round((1 - coverage) * (n + 1), 9))
    found = []
    for i in range(n_new):
        down = sorted(lows[fold[j], i] - reach[j, i] for j in range(n))[k - 1]
        up = sorted(highs[fold[j], i] + reach[j, i] for j in range(n))[n - k]
        found.append((min(down, up), max(down, up)))
    return np.array(found).T


@pytest.mark.parametrize("width", ["adaptive", "constant"])
@pytest.mark.parametrize("quantiles", [[0.1, 0.9], [0.9, 0.5, 0.1]])
@pytest.mark.parametrize("forest", ["extra-trees", "blend"])
def test_the_ends_are_those_of_the_definition(quantiles, width, forest):
    rng = np.random.default_rng(0)
    X, y = draw(rng, 100)
    X_new, _ = draw(rng, 7)
    model = KPPRegressor(
        forest, n_estimators=10, random_state=0, loss="quantile", quantile=quantiles
    ).fit(X, y)
    found = model.predict_interval(X_new, 0.75, width=width)
    predictors = model.fold_predictors_
    fold = predictors.fold_of_row

    def quantiles_of(rows):
        # Of each fold's predictor, the least and the largest of the quantiles.
        scores = np.sort(predictors.scores(model.at(rows)), axis=2)
        return scores[:, :, 0], scores[:, :, -1]

    low, high = (side[fold, np.arange(100)] for side in quantiles_of(X))
    own, at_new = spreads(model, X, X_new, width)
    R = np.maximum(low - y, y - high) / own
    assert (R < 0).any()  # rows that are well within make the interval narrower
    lower, upper = ends_by_loops(
        fold, *quantiles_of(X_new), at_new[fold] * R[:, None], coverage=0.75
    )
    # An end may be a small difference of numbers of size 1.
    np.testing.assert_allclose(found.lower, lower, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.upper, upper, rtol=1e-12, atol=1e-12)
    assert isinstance(found, QuantileIntervals)
    assert "CQR" in str(found)
    assert found.widths == width
    assert f"({width} widths)" in str(found)
    np.testing.assert_array_equal(found.prediction, model.predict(X_new))


@pytest.mark.parametrize("width", ["adaptive", "constant"])
def test_one_quantile_has_cv_plus_around_it(width):
    rng = np.random.default_rng(4)
    X, y = draw(rng, 100)
    X_new, _ = draw(rng, 7)
    model = fitted(X, y, quantile=0.8)
    found = model.predict_interval(X_new, 0.75, width=width)
    fold = model.fold_predictors_.fold_of_row
    own, at_new = spreads(model, X, X_new, width)
    around = model.fold_predictors_.scores(model.at(X_new))[:, :, 0]
    R = np.abs(y - model.oof_prediction_) / own
    lower, upper = ends_by_loops(fold, around, around, at_new[fold] * R[:, None], 0.75)
    np.testing.assert_allclose(found.lower, lower, rtol=1e-12)
    np.testing.assert_allclose(found.upper, upper, rtol=1e-12)
    assert found.widths == width


@pytest.mark.parametrize("width", ["adaptive", "constant"])
@pytest.mark.parametrize("forest", ["extra-trees", "blend"])
def test_poisson_intervals_are_of_means(width, forest):
    rng = np.random.default_rng(1)
    X, counts, exposure = counted(rng, 120)
    X_new, _, e = counted(rng, 9)
    model = KPPRegressor(forest, n_estimators=10, loss="poisson", random_state=0)
    model.fit(X, counts, offset=np.log(exposure))
    fold = model.fold_predictors_.fold_of_row
    own, at_new = spreads(model, X, X_new, width)
    means = np.exp(model.fold_predictors_.scores(model.at(X_new))[:, :, 0])
    away = np.abs(counts / exposure - model.oof_prediction_) / own
    # Of rates.
    found = model.predict_interval(X_new, 0.75, width=width)
    lower, upper = ends_by_loops(fold, means, means, at_new[fold] * away[:, None], 0.75)
    assert (lower < 0).any()
    np.testing.assert_allclose(found.lower, np.maximum(lower, 0), rtol=1e-12)
    np.testing.assert_allclose(found.upper, upper, rtol=1e-12)
    np.testing.assert_array_equal(found.prediction, model.predict(X_new))
    assert found.widths == width
    # Of counts: their noise grows with the root of the exposure, and that of rates falls with it.
    found = model.predict_interval(X_new, 0.75, width=width, offset=np.log(e))
    if width == "adaptive":
        reach = np.sqrt(e) * at_new[fold] * (np.sqrt(exposure) * away)[:, None]
    else:
        reach = e * away[:, None]
    lower, upper = ends_by_loops(fold, e * means, e * means, reach, 0.75)
    np.testing.assert_allclose(found.lower, np.maximum(lower, 0), rtol=1e-12)
    np.testing.assert_allclose(found.upper, upper, rtol=1e-12)
    expected = model.predict(X_new, offset=np.log(e))
    np.testing.assert_allclose(found.prediction, expected, rtol=1e-14)


def test_without_an_exposure_in_the_fit_one_at_prediction_is_taken():
    # All weights are 1: at an exposure of 1 nothing changes, at 4 the noise is twice as large.
    rng = np.random.default_rng(5)
    X, counts, _ = counted(rng, 80)
    model = KPPRegressor("extra-trees", n_estimators=5, loss="poisson", random_state=0)
    model.fit(X, counts)
    plain = model.predict_interval(X)
    same = model.predict_interval(X, offset=np.zeros(80))
    np.testing.assert_array_equal(same.lower, plain.lower)
    np.testing.assert_array_equal(same.upper, plain.upper)
    more = model.predict_interval(X, offset=np.full(80, np.log(4.0)))
    assert (more.upper - more.prediction < 4 * (plain.upper - plain.prediction)).all()


def test_an_exposure_has_no_guarantee():
    rng = np.random.default_rng(9)
    X, counts, exposure = counted(rng, 200)
    options = {"regime": "honest", "alphas": [0.5], "cv": KFold(5, shuffle=True, random_state=0)}
    model = KPPRegressor("extra-trees", n_estimators=5, loss="poisson", random_state=0, **options)
    model.fit(X, counts)
    assert model.predict_interval(X, 0.9).is_guarantee
    assert model.predict_interval(X, 0.9, offset=np.zeros(200)).is_guarantee
    # Rows of the fit had an exposure of 1: new ones are no such draws.
    for offset in (np.log(exposure), np.append(0.5, np.zeros(len(X) - 1))):
        (failing,) = model.predict_interval(X, 0.9, offset=offset).failing
        assert failing.name == "exposures drawn as in the fit"
    # Exposures of the fit are weights, and ranks count every row once.
    model.fit(X, counts, offset=np.log(exposure))
    (failing,) = model.predict_interval(X, 0.9, offset=np.log(exposure)).failing
    assert failing.name == "exchangeable rows"


@pytest.mark.parametrize(
    "given",
    [
        {"loss": "quantile", "quantile": 0.7},
        {"loss": "quantile", "quantile": [0.2, 0.7]},
        {"loss": "poisson"},
        {"loss": "huber"},
    ],
    ids=str,
)
def test_width_means_the_same_of_every_loss(given, tmp_path):
    rng = np.random.default_rng(6)
    X, y, _ = counted(rng, 120)
    model = KPPRegressor("extra-trees", n_estimators=5, random_state=0, **given).fit(X, y)
    kpp.save(model, tmp_path / "model.kpp")
    again = kpp.load(tmp_path / "model.kpp")
    made = {}
    for width in ("adaptive", "constant"):
        made[width] = model.predict_interval(X, width=width)
        back = again.predict_interval(X, width=width)
        for end in ("lower", "upper", "prediction"):
            np.testing.assert_array_equal(getattr(back, end), getattr(made[width], end))
        assert back.widths == width
    np.testing.assert_array_equal(model.predict_interval(X).upper, made["adaptive"].upper)
    assert not (made["adaptive"].upper == made["constant"].upper).all()
    for wrong in ("wide", None, 1.0, ["adaptive"]):
        with pytest.raises(ValueError, match="width must be one of 'adaptive', 'constant'"):
            model.predict_interval(X, width=wrong)
    offset = np.zeros(len(X))
    if given["loss"] != "poisson":
        with pytest.raises(ValueError, match="goes with loss='poisson'"):
            model.predict_interval(X, offset=offset)
    else:
        model.fit(X, y, offset=rng.normal(size=len(X)))
        kpp.save(model, tmp_path / "model.kpp")
        ends = [
            own.predict_interval(X, offset=offset).upper
            for own in (model, kpp.load(tmp_path / "model.kpp"))
        ]
        np.testing.assert_array_equal(*ends)
        with pytest.raises(ValueError, match="one number for each of the 120 rows"):
            model.predict_interval(X, offset=offset[1:])


def test_long_and_short_exposures_are_covered_alike():
    # Mean coverage over draws. Rates of short exposures are far off more often: an interval that
    # does not know the exposure covers too few of these and nearly all of the others.
    rng = np.random.default_rng(7)
    covered = {False: [], True: []}
    for _ in range(12):
        X, counts, exposure = counted(rng, 150)
        X_new, new, e = counted(rng, 600)
        model = KPPRegressor(
            "extra-trees", n_estimators=5, loss="poisson", alphas=[0.3], random_state=0
        ).fit(X, counts, offset=np.log(exposure))
        short = e < np.median(e)
        for knows, own in covered.items():
            if knows:
                found = model.predict_interval(X_new, 0.8, offset=np.log(e))
                hit = (found.lower <= new) & (new <= found.upper)
            else:
                found = model.predict_interval(X_new, 0.8)
                hit = (found.lower <= new / e) & (new / e <= found.upper)
            own.append((hit.mean(), hit[short].mean(), hit[~short].mean()))
    whole, short, long = np.mean(covered[True], axis=0)
    assert 0.78 < whole < 0.9
    assert abs(short - long) < 0.08
    whole, short, long = np.mean(covered[False], axis=0)
    assert 0.78 < whole < 0.9
    assert long - short > 0.15


@pytest.mark.parametrize("width", ["adaptive", "constant"])
def test_coverage_of_new_rows_over_many_draws(width):
    # Mean coverage over draws of the rows of the fit; its standard error is about 0.009.
    rng = np.random.default_rng(2)
    inside, widths = [], []
    for _ in range(16):
        X, y = draw(rng, 100)
        model = fitted(X, y, n_estimators=5, alphas=[0.02])
        X_new, y_new = draw(rng, 400)
        found = model.predict_interval(X_new, 0.8, width=width)
        inside.append(((found.lower <= y_new) & (y_new <= found.upper)).mean())
        far, near = np.abs(X_new[:, 1]) > 1.5, np.abs(X_new[:, 1]) < 0.3
        widths.append(found.width[far].mean() / found.width[near].mean())
    assert 0.77 < np.mean(inside) < 0.88
    assert np.mean(widths) > 1.2


@pytest.mark.parametrize(
    "given",
    [
        {"loss": "quantile", "quantile": 0.5},
        {"loss": "quantile", "quantile": [0.4, 0.6]},
        {"loss": "poisson"},
    ],
    ids=str,
)
def test_adaptive_widths_follow_the_noise(given):
    # Noise is where x1 > 0. Quantiles well within the interval leave most of its width to R. The
    # interval score is less by a tenth or more, some ten standard errors of the mean over draws.
    rng = np.random.default_rng(8)

    def draw_two(n_rows):
        X = rng.uniform(-1, 1, size=(n_rows, 2))
        loud = X[:, 1] > 0
        noise = np.where(loud, 2.0, 0.2) * rng.standard_normal(n_rows)
        if given["loss"] == "poisson":  # counts of mean 6, some of them in heaps of ten
            return X, np.where(loud, 10 * rng.poisson(0.6, n_rows), 6 + np.rint(noise)), loud
        return X, X[:, 0] + noise, loud

    found = {"constant": [], "adaptive": []}
    for _ in range(5):
        (X, y, _), (X_new, y_new, loud) = draw_two(200), draw_two(500)
        model = KPPRegressor(
            "extra-trees", n_estimators=10, alphas=[0.1], random_state=0, **given
        ).fit(X, y)
        for width, own in found.items():
            ends = model.predict_interval(X_new, 0.8, width=width)
            hit = (ends.lower <= y_new) & (y_new <= ends.upper)
            outside = np.maximum(ends.lower - y_new, 0) + np.maximum(y_new - ends.upper, 0)
            ratio = np.median(ends.width[loud]) / np.median(ends.width[~loud])
            own.append((hit.mean(), ratio, np.mean(ends.width + 2 / 0.2 * outside)))
    (before, narrow, worse), (after, wide, better) = (
        np.mean(found[width], axis=0) for width in ("constant", "adaptive")
    )
    assert 0.77 < before < 0.9
    assert 0.77 < after < 0.9
    assert wide > 1.3 * narrow
    assert better < 0.95 * worse


def test_the_guarantee_has_the_conditions_of_cv_plus():
    rng = np.random.default_rng(3)
    X, y = draw(rng, 200)
    options = {"regime": "honest", "alphas": [0.02], "cv": KFold(5, shuffle=True, random_state=0)}
    model = fitted(X, y, **options)
    found = model.predict_interval(X[:5], 0.9)
    assert found.is_guarantee
    squared = KPPRegressor("extra-trees", n_estimators=10, random_state=0, **options).fit(X, y)
    other = squared.predict_interval(X[:5], 0.9)
    assert found.proven_coverage == other.proven_coverage
    assert [own.name for own in found.conditions] == [own.name for own in other.conditions]
    assert not fitted(X, y).predict_interval(X[:5], 0.9).is_guarantee
    # A threshold that is read from all labels has seen every fold.
    huber = {"loss": "huber", "alpha_selection": "regrown", "alphas": [1.0], "random_state": 0}
    read, given = (
        KPPRegressor("extra-trees", n_estimators=10, cv=options["cv"], huber_delta=d, **huber)
        .fit(X, y)
        .predict_interval(X[:5], 0.9)
        for d in (None, 1.0)
    )
    assert [own.why for own in read.failing if "threshold" in own.why]
    assert not [own.why for own in given.failing if "threshold" in own.why]
