"""What a path of bounds says of itself, by hand; the bounds themselves are those of the terms."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.frozen import FrozenEstimator

from bounds.betting_by_hand import REL, betting_limit
from kpp import KPPClassifier, KPPRegressor
from kpp.bounds import BoundPath, bound_path, kl_inverse

PATH = BoundPath(
    name="PAC-Bayes-kl, row margins",
    quantity="0/1 error",
    alphas=np.array([0.1, 1.0, np.inf]),
    radius=np.array([2.0, 1.0, 0.0]),
    bound=np.array([0.5, 0.25, 0.4]),
    fit_risk=np.array([0.05, 0.1, 0.2]),
    test_risk=None,
    chosen=0,
    center_bound=0.3,
    trivial_level=0.4,
    n_rows=50,
    n_cells=60,
    delta=0.04,
    regime="honest",
    assumptions=(),
)


def test_the_floor_is_the_bound_of_no_loss():
    # kl(0 || p) = -log(1 - p) = log(2 / delta) / n, so p = 1 - (delta / 2)^(1/n).
    assert PATH.floor == pytest.approx(1 - 0.02 ** (1 / 50), rel=1e-12)
    assert replace(PATH, scale=9.0).floor == pytest.approx(9 * (1 - 0.02 ** (1 / 50)), rel=1e-12)
    ramp = replace(PATH, name="ramp")
    assert ramp.floor == pytest.approx(np.sqrt(np.log(60 / 0.04) / 100), rel=1e-12)
    assert replace(ramp, scale=9.0).floor == pytest.approx(9 * ramp.floor, rel=1e-12)


def test_a_level_at_the_floor_cannot_be_beaten():
    assert PATH.infeasible is None
    assert "not below" in replace(PATH, trivial_level=PATH.floor).infeasible
    assert replace(PATH, trivial_level=np.nextafter(PATH.floor, 1)).infeasible is None


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_rows_needed_is_the_first_number_of_rows_that_does(scale):
    # Of the centre, whose risk is the last, with half of delta; in units of the largest loss.
    path = replace(PATH, scale=scale, fit_risk=PATH.fit_risk * scale, trivial_level=0.4 * scale)
    enough = [n for n in range(1, 200) if float(kl_inverse(0.2, np.log(50) / n)) < 0.4]
    assert path.rows_needed == enough[0]
    # A risk above every loss is cut at 1, and never falls below anything.
    assert replace(path, fit_risk=np.array([2.0 * scale])).rows_needed is None
    high = replace(path, trivial_level=2 * scale)
    enough = [n for n in range(1, 200) if float(kl_inverse(0.2, np.log(50) / n)) < 1]
    assert high.rows_needed == enough[0]


def test_best_and_trivial():
    assert PATH.best == 1
    assert PATH.is_trivial.tolist() == [True, False, True]  # at the level is trivial
    frame = PATH.to_frame()
    assert frame["chosen"].tolist() == [True, False, False]
    assert frame["best"].tolist() == [False, True, False]


def test_the_default_alphas():
    # 17 steps, half a power of 10 apart, from a hundredth of the fit's alpha; and infinity.
    X, y = load_breast_cancer(return_X_y=True)
    model = KPPClassifier(
        "extra-trees", n_estimators=3, regime="honest", alpha=0.01, random_state=0
    )
    path = bound_path(model.fit(X[:200], y[:200]), X[:200], y[:200])
    expected = [0.01 * 10 ** (k / 2) for k in range(-4, 13)]
    np.testing.assert_allclose(path.alphas[:-1], expected, rtol=1e-12)
    assert path.alphas[-1] == np.inf
    assert path.alphas[path.chosen] == 0.01
    # A model without a centre has the blunt grid: 10 sigmas, 5 quantiles.
    assert path.n_cells == 50
    assert path.scale == 1


def test_the_scale_of_squared_losses_is_the_squared_width():
    X, y = load_diabetes(return_X_y=True)
    model = KPPRegressor("extra-trees", n_estimators=3, regime="honest", alpha=1.0, random_state=0)
    model.fit(X[:150], y[:150])
    path = bound_path(model, X[:150], y[:150], alphas=[1.0], y_range=(0.0, 400.0))
    assert path.scale == 400.0**2
    assert path.n_cells == 12 * 4  # sigmas and widths, around a centre that was fitted
    assert path.alphas.tolist() == [1.0, np.inf]
    # The centre alone was fixed before the fit fold: betting, in units of the scale.
    said, rows = y[model.partition_rows_].mean(), model.fit_rows_
    losses = np.square((y[rows] - said) / 400.0)
    assert path.fit_risk[-1] == pytest.approx(losses.mean() * 400.0**2)
    assert path.center_bound == pytest.approx(betting_limit(losses) * 400.0**2, rel=REL)


def test_a_given_range_is_the_callers_word_in_every_regime():
    X, y = load_diabetes(return_X_y=True)
    forest = ExtraTreesRegressor(3, max_leaf_nodes=8, random_state=0).fit(X[:100], y[:100])
    model = KPPRegressor(FrozenEstimator(forest), regime="fixed", alpha=1.0)
    model.fit(X[100:250], y[100:250])
    path = bound_path(model, X[100:250], y[100:250], alphas=[1.0], y_range=(0.0, 400.0))
    (found,) = [one for one in path.assumptions if one.name == "range of Y"]
    assert found.holds is None
    outside = bound_path(model, X[100:250], y[100:250], alphas=[1.0], y_range=(100.0, 200.0))
    (found,) = [one for one in outside.assumptions if one.name == "range of Y"]
    assert found.holds is False
