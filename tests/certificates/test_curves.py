"""The curves against their definitions, and against every combination of leaves."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from zoo import random_rows

from kpp import Forest, KPPClassifier, KPPRegressor, path_distance
from kpp.certificates import (
    RobustnessCurveDisplay,
    certify,
    combine_curves,
    lipschitz_constant,
    robustness_curve,
)
from kpp.certificates.deviations import RATIO, deviations
from kpp.certificates.node_tables import NodeTables
from kpp.forest import Tree

X, Y = load_breast_cancer(return_X_y=True)
DX, DY = load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def classifier():
    return KPPClassifier("extra-trees", n_estimators=15, alpha=1e-3, random_state=0).fit(
        X[::2], Y[::2]
    )


@pytest.fixture(scope="module")
def regressor():
    return KPPRegressor("extra-trees", n_estimators=15, alpha=0.1, random_state=0).fit(
        DX[::2], DY[::2]
    )


def test_robust_accuracy_is_as_defined(classifier):
    curve = robustness_curve(classifier, X, Y, method="lipschitz")
    norm = np.linalg.norm(classifier.node_coef_)
    margin = np.where(Y == 1, 1, -1) * classifier.decision_function(X)
    u = np.random.default_rng(0).uniform(0, curve.u_max, 200)
    expected = (margin[:, None] > norm * np.sqrt(u)).mean(axis=0)
    assert np.array_equal(curve(u), expected)
    assert curve.u_max == pytest.approx((np.abs(margin).max() / norm) ** 2)
    assert curve(0.0) == classifier.score(X, Y)
    assert curve(curve.u_max) == 0.0  # also in floating point
    assert curve.values[-1] == 0.0
    np.testing.assert_allclose(curve.radii, curve.u_max * np.arange(201) / 200, rtol=1e-12)


def test_leafwise_accuracy_ends_at_the_rows_that_never_flip(make_model):
    shares = []
    for seed in range(10):
        model = make_model(seed)
        rows = random_rows(seed, 40)
        labels = np.where(np.arange(40) % 5 == 0, 1 - model.predict(rows), model.predict(rows))
        curve = robustness_curve(model, rows, labels)
        certificate = certify(model, rows)
        right = labels == model.predict(rows)
        expected = (right & certificate.never_flips).mean()
        assert curve.never_flips == expected
        if np.isfinite(curve.u_max):
            assert curve(curve.u_max) == expected
            assert curve.u_max == certificate.radius[np.isfinite(certificate.radius)].max()
        assert curve(np.inf) == curve(1e300) == expected
        shares.append(expected)
    assert 0 < np.mean(shares) < 0.8


@pytest.mark.parametrize("method", ["leafwise", "lipschitz"])
def test_u_half_is_exact(classifier, method):
    iris = load_iris(return_X_y=True)
    three = KPPClassifier("extra-trees", n_estimators=8, alpha=1e-3, random_state=0).fit(*iris)
    for model, rows, labels in (
        (classifier, X, Y),
        (classifier, X[:6], Y[:6]),
        (classifier, X[:7], Y[:7]),
        (three, *iris),
    ):
        curve = robustness_curve(model, rows, labels, radii=[0.0, 0.5], method=method)
        half = curve(0.0) / 2
        assert curve(curve.u_half) <= half < curve(np.nextafter(curve.u_half, 0))


def test_accuracy_of_rows_that_are_all_wrong(classifier):
    curve = robustness_curve(classifier, X, 1 - classifier.predict(X))
    assert curve.values.max() == 0.0
    assert curve.u_half == 0.0


def test_robust_squared_error_is_as_defined(regressor):
    curve = robustness_curve(regressor, DX, DY, method="lipschitz")
    e = DY - regressor.predict(DX)
    norm = np.linalg.norm(regressor.node_coef_)
    u = curve.radii
    mse, mae = np.square(e).mean(), np.abs(e).mean()
    assert curve.values == pytest.approx(mse + 2 * mae * norm * np.sqrt(u) + norm**2 * u)
    assert curve.u_max == pytest.approx((np.abs(DY).max() / norm) ** 2)
    assert curve(curve.u_half) == pytest.approx(2 * mse, rel=1e-12)
    assert np.isnan(curve.never_flips)


def test_leafwise_squared_error_is_below(regressor):
    ours = robustness_curve(regressor, DX, DY)
    paper = robustness_curve(regressor, DX, DY, method="lipschitz")
    assert ours(0.0) == paper(0.0) == pytest.approx(np.square(DY - regressor.predict(DX)).mean())
    assert (ours.values <= paper.values).all()
    assert (np.diff(ours.values) >= 0).all()
    assert ours.u_half > 2 * paper.u_half
    assert ours(ours.u_half) == pytest.approx(2 * ours(0.0), rel=1e-12)
    assert ours(ours.u_half * (1 - 1e-9)) < 2 * ours(0.0)


@pytest.mark.parametrize("task", ["regression", "targets"])
def test_squared_error_covers_every_combination_of_leaves(
    make_model, leaves_of, combinations_of, task
):
    for seed in range(8):
        model = make_model(seed, task=task)
        rows = random_rows(seed, 8)
        rng = np.random.default_rng(seed)
        prediction = model.predict(rows).reshape(8, -1)
        target = prediction + rng.normal(size=prediction.shape)
        y = target[:, 0] if task == "regression" else target
        curve = robustness_curve(model, rows, y)
        paper = robustness_curve(model, rows, y, method="lipschitz")
        tables = leaves_of(model)
        for u in (1e-9, 0.01, 0.1, 0.4, 1.0, 5.0):
            worst = []
            for i, leaves in enumerate(model.apply(rows)):
                total, combined = combinations_of(tables, leaves)
                new = combined.T[total <= u] + np.atleast_1d(model.intercept_)
                worst.append(np.square(target[i] - new).max(axis=0).mean())
            assert np.mean(worst) <= curve(u) <= paper(u) * (1 + 1e-12)
        # Beyond every distance it is the worst combination, not more.
        assert curve(1e6) == pytest.approx(np.mean(worst), rel=1e-6)


def test_the_rise_is_within_a_grid_step_of_the_best():
    # One stump: within u of the distance the output rises by at most its share of the jump.
    stump = Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0] * 3, threshold=[0.0] * 3)
    forest = Forest.from_trees([stump], n_features=1)
    model = KPPRegressor(forest, regime="fixed", alpha=1e-3, node_weight="uniform")
    model.fit([[-1.0], [1.0]] * 10, [0.0, 1.0] * 10)
    row, beyond = np.array([[-1.0]]), np.array([[1.0]])
    jump = model.predict(beyond)[0] - model.predict(row)[0]
    distance = path_distance(model, row, beyond)[0, 0]
    leaf_ids = model.at(row).joined_leaf_ids
    rise = deviations(NodeTables.of(model.additive_), leaf_ids, lipschitz_constant(model))[0].rise
    share = np.linspace(0.02, 0.98, 200)
    over = [rise(u)[0] / (s * jump) for u, s in zip(share * distance, share, strict=True)]
    assert min(over) >= 1
    assert 1.1 < max(over) <= RATIO * (1 + 1e-9)


def test_without_coefficients(make_model, make_linear):
    rows = random_rows(0, 10)
    model = make_model(0, task="regression")
    make_linear(model, 0 * model.node_coef_, [0.5])
    for method in ("leafwise", "lipschitz"):
        curve = robustness_curve(model, rows, np.ones(10), method=method)
        assert curve.u_max == curve.u_half == np.inf
        assert curve([0.0, 1.0, 1e9]).tolist() == [0.25] * 3
    model = make_model(0)
    make_linear(model, 0 * model.node_coef_, [0.5])
    for method in ("leafwise", "lipschitz"):
        curve = robustness_curve(model, rows, [1] * 5 + [0] * 5, method=method)
        assert curve.u_max == curve.u_half == np.inf
        assert curve([0.0, 1.0]).tolist() == [0.5, 0.5]
        assert curve.never_flips == 0.5


def test_perfect_predictions_double_at_once(regressor):
    curve = robustness_curve(regressor, DX, regressor.predict(DX))
    assert curve.u_half == 0.0


def test_bands():
    curves = [
        robustness_curve(
            KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=seed).fit(DX, DY),
            DX,
            DY,
        )
        for seed in range(3)
    ]
    band = combine_curves(curves)
    assert band.values.shape == (3, 201)
    assert band.radii[-1] == max(curve.u_max for curve in curves)
    assert band.mean == pytest.approx(np.mean([c(band.radii) for c in curves], axis=0))
    assert band.std == pytest.approx(np.std([c(band.radii) for c in curves], axis=0, ddof=1))
    assert combine_curves(curves[:1], radii=[0.0, 0.1]).std.tolist() == [0, 0]
    with pytest.raises(ValueError, match="one metric and one method"):
        combine_curves([])
    other = robustness_curve(
        KPPRegressor("extra-trees", n_estimators=5, alpha=1.0).fit(DX, DY),
        DX,
        DY,
        method="lipschitz",
    )
    with pytest.raises(ValueError, match="one metric and one method"):
        combine_curves([*curves, other])


def test_display(classifier, regressor):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    display = RobustnessCurveDisplay.from_estimator(classifier, X, Y)
    assert len(display.lines_) == 2
    assert display.ax_.get_ylabel() == "certified accuracy"
    curve = robustness_curve(regressor, DX, DY)
    band = combine_curves([curve, curve])
    again = RobustnessCurveDisplay([band, curve], labels=["band", "one"]).plot(ax=display.ax_)
    assert again.figure_ is display.figure_
    assert again.labels == ["band", "one"]
    with pytest.raises(ValueError, match="One plot shows one metric"):
        RobustnessCurveDisplay([curve, *display.curves]).plot()
    matplotlib.pyplot.close("all")


def test_a_band_is_drawn_one_deviation_around_the_mean():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    curves = [
        robustness_curve(
            KPPClassifier("extra-trees", n_estimators=5, alpha=1e-3, random_state=seed).fit(
                X[::2], Y[::2]
            ),
            X,
            Y,
        )
        for seed in range(3)
    ]
    u = np.linspace(0, max(curve.u_max for curve in curves), 9)
    ax = RobustnessCurveDisplay([combine_curves(curves, radii=u)]).plot().ax_
    (band,) = ax.collections
    values = np.array([curve(u) for curve in curves])
    middle, spread = values.mean(axis=0), values.std(axis=0, ddof=1)
    assert (spread[:5] > 0).all()
    corners = band.get_paths()[0].vertices
    for radius, m, s in zip(u, middle, spread, strict=True):
        at = corners[corners[:, 0] == radius, 1]
        assert (at.min(), at.max()) == pytest.approx((max(m - s, 0.0), m + s), abs=1e-12)
    assert 0 < band.get_alpha() < 1  # to be seen, and seen through
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("method", ["leafwise", "lipschitz"])
def test_a_tie_is_not_robust(make_model, make_linear, method):
    # One leaf alone has a coefficient: elsewhere the score is 0, and the label is right by
    # convention, not by a margin.
    model, rows = make_model(0), random_rows(0, 40)
    leaf = model.map_.on(rows).leaf_ids[0, 0]
    coefficients = np.zeros(model.map_.forest.n_nodes)
    coefficients[leaf] = 1.0
    make_linear(model, coefficients, 0.0)
    labels, score = model.predict(rows), model.decision_function(rows)
    assert set((score > 0).tolist()) == {True, False} == set((score == 0).tolist())
    curve = robustness_curve(model, rows, labels, method=method)
    assert curve(0.0) == (score != 0).mean() < 1.0
    assert model.score(rows, labels) == 1.0


def test_display_names_the_extra(classifier, monkeypatch):
    display = RobustnessCurveDisplay([robustness_curve(classifier, X, Y)])
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"RobustnessCurveDisplay.plot needs .*kpp\[plot\]"):
        display.plot()


def test_bad_input(classifier, regressor):
    with pytest.raises(ValueError, match="method must be one of"):
        robustness_curve(classifier, X, Y, method="raw")
    with pytest.raises(ValueError, match="does not know: \\[7\\]"):
        robustness_curve(classifier, X, np.full(len(X), 7))
    with pytest.raises(ValueError, match=r"one label per row, shape \(569,\); got \(3,\)"):
        robustness_curve(classifier, X, Y[:3])
    with pytest.raises(ValueError, match=r"shape of the predictions, \(442,\); got \(3,\)"):
        robustness_curve(regressor, DX, DY[:3])
    with pytest.raises(ValueError, match="must not be negative"):
        robustness_curve(classifier, X, Y, radii=[-1.0])
    with pytest.raises(ValueError, match="must not be negative"):
        robustness_curve(classifier, X, Y)(np.nan)
    for radii, shape in (([[0.0, 0.1]], r"\(1, 2\)"), ([], r"\(0,\)")):
        with pytest.raises(ValueError, match=rf"shape \(n_radii,\); got shape {shape}"):
            robustness_curve(classifier, X, Y, radii=radii)
        with pytest.raises(ValueError, match=rf"shape \(n_radii,\); got shape {shape}"):
            combine_curves([robustness_curve(classifier, X, Y)], radii=radii)
    assert robustness_curve(classifier, X, Y, radii=0.1).radii.tolist() == [0.1]
    mixed = np.array([0, "a", None] + [1] * (len(X) - 3), dtype=object)
    with pytest.raises(ValueError, match=r"does not know: \['a', None\]"):
        robustness_curve(classifier, X, mixed)
    assert repr(robustness_curve(classifier, X, Y)).startswith("RobustnessCurve(accuracy")


def test_one_plot_and_one_band_have_one_normalisation(make_model):
    curves = []
    for normalize in ("forest", "tree"):
        model = make_model(3, normalize=normalize)
        rows = random_rows(3, 20)
        curves.append(robustness_curve(model, rows, model.predict(rows)))
    with pytest.raises(ValueError, match="in one normalisation"):
        combine_curves(curves)
    with pytest.raises(ValueError, match="radii of one normalisation"):
        RobustnessCurveDisplay(curves).plot()
    assert combine_curves(curves[1:]).normalize == "tree"
    assert "delta_K" in RobustnessCurveDisplay(curves[1:]).plot().ax_.get_xlabel()


@pytest.mark.parametrize("method", ["leafwise", "lipschitz"])
@pytest.mark.parametrize("task", ["regression", "targets"])
def test_pointwise_bounds_hold_for_every_combination_of_leaves(
    make_model, leaves_of, combinations_of, task, method
):
    tightness = []
    for seed in range(8):
        model = make_model(seed, task=task, n_trees=3)
        rows = random_rows(seed, 12)
        prediction = model.predict(rows).reshape(len(rows), -1)
        rng = np.random.default_rng(seed)
        target = prediction + rng.normal(size=prediction.shape)
        curve = robustness_curve(model, rows, np.squeeze(target), method=method)
        tables = leaves_of(model)
        radii = np.array([0.0, 0.003, 0.05, 0.4, np.inf])
        bounds = curve.pointwise(radii).reshape(len(radii), len(rows), -1)
        for i, leaves in enumerate(model.apply(rows)):
            total, scores = combinations_of(tables, leaves)
            errors = np.square(target[i] - scores.T - np.atleast_1d(model.intercept_))
            for u, bound in zip(radii, bounds[:, i], strict=True):
                worst = errors[total <= u].max(axis=0)
                assert (worst <= bound * (1 + 1e-12) + 1e-12).all()
                tightness.append((worst / bound).min())
        np.testing.assert_allclose(bounds[0], np.square(target - prediction), rtol=1e-9)
        # The curve is their mean.
        np.testing.assert_allclose(bounds.mean(axis=(1, 2)), curve(radii), rtol=1e-13)
    if method == "leafwise":
        assert np.median(tightness) > 0.8
        assert max(tightness[4::5]) == pytest.approx(1)  # anywhere at all: the worst leaves


def test_pointwise_bound_of_the_paper(regressor):
    curve = robustness_curve(regressor, DX, DY, method="lipschitz")
    e, L = DY - regressor.predict(DX), np.linalg.norm(regressor.node_coef_)
    for u in (0.0, 0.01, 0.3):
        expected = e**2 + 2 * np.abs(e) * L * np.sqrt(u) + L**2 * u
        np.testing.assert_allclose(curve.pointwise(u), expected, rtol=1e-12)
        leafwise = robustness_curve(regressor, DX, DY).pointwise(u)
        assert (leafwise <= curve.pointwise(u) * (1 + 1e-12)).all()
    assert curve.pointwise([[0.1, 0.2]]).shape == (1, 2, len(DX))
    with pytest.raises(ValueError, match="must not be negative"):
        curve.pointwise(-1.0)


def test_pointwise_accuracy_counts_rows(classifier):
    curve = robustness_curve(classifier, X, Y)
    u = curve.u_half
    each = curve.pointwise(u)
    assert each.dtype == bool
    assert each.mean() == curve(u)
    assert np.array_equal(each, (classifier.predict(X) == Y) & (certify(classifier, X).radius > u))


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_the_end_of_an_error_curve_in_any_unit(unit):
    # At u_max the Lipschitz bound alone allows an error as large as the largest target.
    model = KPPRegressor("extra-trees", n_estimators=5, alpha=0.1, random_state=0).fit(
        DX[::2], unit * DY[::2]
    )
    y = unit * DY
    curve = robustness_curve(model, DX, y, method="lipschitz")
    norm = np.linalg.norm(model.node_coef_)
    assert (norm < 1) == (unit < 1)
    assert curve.u_max == pytest.approx((y.max() / norm) ** 2, rel=1e-9)
    error = np.abs(y - model.predict(DX))
    for u in (0.0, 0.01, 1.0):
        expected = np.square(error + norm * np.sqrt(u)).mean()
        assert curve(u) == pytest.approx(expected, rel=1e-9)
    # Where a quadratic in the root of u doubles.
    at = np.sqrt(curve.u_half)
    mse, mae = np.square(error).mean(), error.mean()
    assert norm**2 * at**2 + 2 * mae * norm * at == pytest.approx(mse, rel=1e-9)
    # A column of targets is the same targets.
    column = robustness_curve(model, DX, y[:, None], method="lipschitz")
    assert np.array_equal(column.values, curve.values)


def test_neighbours_on_the_grid_of_mu_are_19_percent_apart():
    # The page on certificates promises that a bound is at most so far above the best one.
    assert pytest.approx(1.189207115002721, rel=1e-15) == RATIO


def test_a_plot_reaches_as_far_as_its_longest_curve(classifier):
    short, long = (robustness_curve(classifier, X, Y, radii=[0.0, end]) for end in (0.1, 0.4))
    for curves in ([short, long], [long, short]):
        display = RobustnessCurveDisplay(curves).plot()
        assert display.ax_.get_xlim() == (0, 0.4)
