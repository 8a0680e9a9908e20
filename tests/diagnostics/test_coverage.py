"""Measured coverage against a few lines, and its display."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpp import KPPClassifier, KPPRegressor, risk_bounds
from kpp._checks import RefusedError
from kpp.diagnostics import CoverageDisplay, measure_coverage

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


@pytest.mark.parametrize("width", ["adaptive", "constant"])
def test_intervals(regressor, width):
    X, y = (own[200:] for own in numbers())
    measured = measure_coverage(regressor, X, y, 0.8, levels=[0.9, 0.6], n_bins=4, width=width)
    assert [one.at for one in measured.by_level] == [0.6, 0.9]
    for one in (measured.overall, *measured.by_level):
        found = regressor.predict_interval(X, one.at, width=width)
        inside = (found.lower <= y) & (y <= found.upper)
        assert (one.share, one.n_rows) == (inside.mean(), len(y))
        assert one.size == pytest.approx(found.width.mean(), rel=1e-12)
        wilson = binomtest(int(inside.sum()), len(y)).proportion_ci(method="wilson")
        assert (one.low, one.high) == pytest.approx((wilson.low, wilson.high), rel=1e-9)
    found = regressor.predict_interval(X, 0.8, width=width)
    inside = (found.lower <= y) & (y <= found.upper)
    bins = np.array_split(np.argsort(found.prediction, kind="stable"), 4)
    assert [one.share for one in measured.by_prediction] == [inside[b].mean() for b in bins]
    means = [found.prediction[b].mean() for b in bins]
    assert [one.at for one in measured.by_prediction] == pytest.approx(means, rel=1e-12)
    assert not measured.is_sets
    assert repr(measured).startswith("MeasuredCoverage(n_rows=242, asked=0.8")


@pytest.mark.parametrize("options", [{}, {"method": "aps"}, {"per_class": True}])
def test_sets(classifier, options):
    X, y = load_iris(return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    measured = measure_coverage(classifier, X[1::2], labels[1::2], 0.8, **options)
    found = classifier.predict_set(X[1::2], 0.8, **options)
    assert measured.overall.share == found.sets[np.arange(75), y[1::2]].mean()
    assert measured.overall.size == found.mean_size
    assert measured.is_sets


def test_several_targets_and_a_pipeline():
    X, y = numbers(2)
    model = make_pipeline(StandardScaler(), KPPRegressor("extra-trees", **SMALL))
    model.fit(X[:100], y[:100])
    found = model[-1].predict_interval(model[0].transform(X[100:]), 0.9)
    inside = (found.lower <= y[100:]) & (y[100:] <= found.upper)
    for target in (0, 1):
        measured = measure_coverage(model, X[100:], y[100:], target=target)
        assert measured.overall.share == inside[:, target].mean()
    for target in (2, -1, "0"):
        with pytest.raises(ValueError, match="from 0 to 1"):
            measure_coverage(model, X[100:], y[100:], target=target)


def test_what_a_preparation_has_learned_fails_as_it_does_for_bounds():
    X, y = numbers()
    given = SMALL | {"regime": "cross-validated", "alphas": [1.0]}
    learned = make_pipeline(StandardScaler(), KPPRegressor("extra-trees", **given))
    nothing = make_pipeline("passthrough", KPPRegressor("extra-trees", **given))
    for model, failing in ((learned, ["columns prepared without these rows"]), (nothing, [])):
        model.fit(X[:200], y[:200])
        found = measure_coverage(model, X[200:], y[200:]).found
        assert [own.name for own in found.failing] == failing
        assert found.is_guarantee == (not failing)
        of_bounds = risk_bounds(model, X[:200], y[:200], y_range=(0, 400))
        assert of_bounds[0].is_guarantee == found.is_guarantee
    labels = (y > 140).astype(int)
    sets = make_pipeline(StandardScaler(), KPPClassifier("extra-trees", **given))
    found = measure_coverage(sets.fit(X[:200], labels[:200]), X[200:], labels[200:]).found
    assert [own.name for own in found.failing] == ["columns prepared without these rows"]


def test_copies_that_are_draws():
    X, y = numbers()
    rows = np.r_[np.arange(100), np.arange(5)]
    model = KPPRegressor("extra-trees", regime="cross-validated", alphas=[1.0], **SMALL)
    model.fit(X[rows], y[rows])
    found = measure_coverage(model, X[100:], y[100:]).found
    assert [own.name for own in found.failing] == ["exchangeable rows"]
    said = measure_coverage(model, X[100:], y[100:], independent_duplicates=True)
    assert said.found.is_guarantee


@pytest.mark.parametrize("width", ["adaptive", "constant"])
@pytest.mark.parametrize(
    "given",
    [
        {"loss": "quantile", "quantile": [0.9, 0.2]},
        {"loss": "quantile", "quantile": 0.6},
        {"loss": "poisson"},
    ],
    ids=str,
)
def test_other_losses(given, width):
    X, y = numbers()
    model = KPPRegressor("extra-trees", **SMALL, **given).fit(X[:100], y[:100])
    X, y = X[100:], y[100:]
    options = {"width": width}
    if given["loss"] == "poisson":
        options["offset"] = np.linspace(-1, 1, len(y))
    measured = measure_coverage(model, X, y, 0.8, levels=[0.6], **options)
    for one in (measured.overall, *measured.by_level):
        found = model.predict_interval(X, one.at, **options)
        assert one.share == ((found.lower <= y) & (y <= found.upper)).mean()
        assert one.size == pytest.approx(found.width.mean(), rel=1e-12)
    assert measured.found.widths == width
    # Bins are by the prediction, not by its logarithm; of several quantiles by their mean.
    by = model.predict(X, options.get("offset")).reshape(len(X), -1).mean(axis=1)
    means = [by[own].mean() for own in np.array_split(np.argsort(by, kind="stable"), 5)]
    assert [one.at for one in measured.by_prediction] == pytest.approx(means, rel=1e-12)
    with pytest.raises(ValueError, match="from 0 to 0"):
        measure_coverage(model, X, y, target=1)
    with pytest.raises(ValueError, match="width must be one of"):
        measure_coverage(model, X, y, width="wide")
    with pytest.raises(ValueError, match="target"):
        measure_coverage(model, X, np.column_stack([y, y]))


def test_levels_that_the_rows_are_too_few_for_are_left_out():
    X, y = numbers()
    model = KPPRegressor("extra-trees", **SMALL).fit(X[:12], y[:12])
    measured = measure_coverage(model, X[12:], y[12:], 0.8)
    # 0.9 of 13 is 12 of 12 rows; 0.95 would be a 13th.
    assert [one.at for one in measured.by_level][-1] == 0.9
    with pytest.raises(RefusedError, match="at least 19 rows"):
        measure_coverage(model, X[12:], y[12:], 0.95)
    with pytest.raises(ValueError, match="coverage is a share"):
        measure_coverage(model, X[12:], y[12:], 1.5)
    given = KPPRegressor("extra-trees", alpha=1.0, **SMALL).fit(X, y)
    with pytest.raises(RefusedError, match=r"alphas=\[alpha\]"):
        measure_coverage(given, X, y)


def test_display(regressor, classifier):
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = (own[200:] for own in numbers())
    _, ax = plt.subplots()
    display = CoverageDisplay.from_estimator(regressor, X, y, ax=ax)
    assert display.ax_ is ax
    line = next(own for own in ax.lines if own.get_label().startswith("covered"))
    shown = display.measured.by_level
    assert np.array_equal(line.get_xdata(), [one.at for one in shown])
    assert np.array_equal(line.get_ydata(), [one.share for one in shown])
    display.plot(kind="prediction")
    assert display.ax_ is not ax
    (bars,) = display.ax_.containers
    assert np.array_equal(
        bars.lines[0].get_ydata(), [one.share for one in display.measured.by_prediction]
    )
    ends = np.array([own[:, 1] for own in bars.lines[2][0].get_segments()])
    expected = [(one.low, one.high) for one in display.measured.by_prediction]
    np.testing.assert_allclose(ends, expected, rtol=0, atol=1e-12)
    assert display.ax_.get_xlabel() == "prediction, mean of a bin"
    labels = np.array(["a", "b", "c"])[load_iris().target]
    other = CoverageDisplay.from_estimator(
        classifier, load_iris().data, labels, kind="prediction", method="aps"
    )
    assert other.measured.found.method == "aps"
    assert "probability" in other.ax_.get_xlabel()
    with pytest.raises(ValueError, match="kind"):
        CoverageDisplay.from_estimator(regressor, X, y, kind="other")
    plt.close("all")


@pytest.mark.parametrize("n_bins", [0, -1, 2.5, True, "5"])
def test_bins_are_counted(regressor, n_bins):
    X, y = (own[200:] for own in numbers())
    with pytest.raises(ValueError, match="n_bins is a whole number of at least 1"):
        measure_coverage(regressor, X, y, n_bins=n_bins)
