"""The steps of the informed bounds' proofs, each checked on its own."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from kpp.bounds.kl import kl_inverse
from kpp.bounds.terms import (
    Grid,
    _clipped_square,
    clipped_bound,
    pac_bayes_bound,
    pac_bayes_squared_bound,
    ramp,
    ramp_bound,
)

RNG = np.random.default_rng(0)
GRID = Grid.scaled(1.0, 0.5)


def test_the_ramp_lies_above_the_error_and_has_its_slope():
    margins = np.linspace(-3, 3, 301)
    values = ramp(margins, 0.7)
    assert (values >= (margins <= 0)).all()
    assert (values <= (margins < 0.7)).all()
    assert np.abs(np.diff(values)).max() <= np.diff(margins)[0] / 0.7 + 1e-12


def test_an_error_costs_at_least_the_quantile_under_noise():
    # The step from the randomised to the deterministic predictor, binary.
    sigma, t, psi = 0.8, 1.5, RNG.uniform(0.1, 2, 1000)
    g = RNG.normal(size=1000)
    for rho in (t * sigma * psi, t * sigma * psi.max()):
        cost = norm.cdf((rho - g) / (sigma * psi))
        assert (cost[g <= 0] >= norm.cdf(t) - 1e-12).all()


def test_multiclass_union_bounds_the_noisy_error():
    sigma, t, psi = 0.5, 1.0, 0.9
    scores = np.array([[1.0, 0.6, 0.2], [0.1, 0.5, 0.3]])
    y = np.array([0, 0])
    noisy = scores[None] + sigma * psi * RNG.normal(size=(200_000, 2, 3))
    least = (noisy[:, :, :1] - noisy[:, :, 1:]).min(axis=2)
    exact = (least <= t * sigma * np.sqrt(2) * psi).mean(axis=0)
    margins = scores[:, :1] - scores[:, 1:]
    union = norm.cdf(t - margins / (sigma * np.sqrt(2) * psi)).sum(axis=1)
    assert (np.minimum(union, 1) >= exact - 0.005).all()
    assert exact[1] >= norm.cdf(t)  # the second row is an error
    assert (y == 0).all()


def test_expected_clipped_square_against_simulation():
    y, g = np.array([0.2, 0.9, 0.5, 0.0]), np.array([0.4, 1.3, -0.7, 1.0])
    noise = np.array([0.3, 0.5, 0.1, 0.0])
    low, high = np.full(4, -0.2), np.full(4, 1.2)
    z = RNG.normal(size=(400_000, 4))
    drawn = np.square(y - np.clip(g + noise * z, low, high)).mean(axis=0)
    np.testing.assert_allclose(_clipped_square(y, g, noise, low, high), drawn, atol=3e-3)


def test_noise_does_not_hide_squared_loss():
    # The step of the squared-loss theorem: loss of the clipped g <= noisy loss / (2 Phi(t) - 1).
    y, g = RNG.uniform(0, 1, 5000), RNG.normal(0.5, 1.5, 5000)
    for sigma in (0.01, 0.1, 1.0, 5.0):
        for t in (1.0, 2.0, 3.0):
            noise = sigma * RNG.uniform(0.2, 1, 5000)
            tau = t * noise
            noisy = _clipped_square(y, g, noise, -tau, 1 + tau)
            plain = np.square(y - np.clip(g, 0, 1))
            assert (plain <= noisy / (2 * norm.cdf(t) - 1) + 1e-12).all()
            assert (noisy <= np.square(1 + tau)).all()


def test_ramp_bound_by_hand():
    margins = np.array([0.4, -0.1, 2.0, 0.05] * 25)
    parts = ramp_bound(margins, 0.3, 0.1, 0.5, GRID, 0.05)
    B, beta, rho = parts.cell["B"], parts.cell["beta"], parts.cell["rho"]
    assert B >= 0.3 > B / 2
    assert beta >= 0.1 > beta / 2
    expected = ramp(margins, rho).mean() + 2 * (B * 0.5 + beta) / (rho * 10)
    expected += np.sqrt(np.log(GRID.n_ramp / 0.05) / 200)
    assert parts.total == pytest.approx(expected)
    assert parts.empirical_risk == 0.25
    four = ramp_bound(margins, 0.3, 0.1, 0.5, GRID, 0.05, n_classes=4)
    assert four.total > parts.total


def test_pac_bayes_by_hand():
    margins, norms = np.array([0.4, -0.1, 2.0, 0.05] * 25), np.full(100, 0.6)
    parts = pac_bayes_bound(margins[:, None], norms, 0.2, GRID, 0.05)
    sigma, t = parts.cell["sigma"], parts.cell["t"]
    smooth = norm.cdf(t - margins / (sigma * 0.6)).mean()
    budget = (0.2**2 / (2 * sigma**2) + np.log(2 * 10 * 2 * GRID.n_pac / 0.05)) / 100
    assert parts.total == pytest.approx(float(kl_inverse(smooth, budget)) / norm.cdf(t))
    without = float(kl_inverse(smooth, 0.2**2 / (2 * sigma**2) / 100)) / norm.cdf(t)
    assert parts.empirical_risk == 0.25
    assert parts.complexity == pytest.approx(without - 0.25)
    assert parts.confidence == pytest.approx(parts.total - without)
    same = pac_bayes_bound(margins[:, None], norms, 0.2, GRID, 0.05, sup_norm=0.6)
    assert same.total == pytest.approx(parts.total)
    wider = pac_bayes_bound(margins[:, None], norms, 0.2, GRID, 0.05, sup_norm=1.2)
    assert wider.total >= parts.total
    assert parts.complexity >= 0
    assert parts.confidence >= 0


def test_the_grid_by_hand():
    # Scores of size 4 and rows of norm 2: the unit of w is 2. N is in every bound.
    grid = Grid.scaled(4.0, 2.0)
    halves = [2.0 * 2.0**k for k in range(-8, 8)]
    assert grid.radii.tolist() == [0.0, *halves]
    assert grid.shifts.tolist() == [0.0, *(4.0 * 2.0**k for k in range(-6, 4))]
    assert grid.margins.tolist() == [4.0 * 2.0**k for k in range(-5, 4)]
    assert grid.sigmas.tolist() == [2.0 * 2.0**k for k in range(-9, 3)]
    assert grid.quantiles.tolist() == [0.5, 1.0, 1.5, 2.0, 3.0]
    assert grid.widths.tolist() == [2.0, 2.5, 3.0, 3.5]
    assert (grid.n_ramp, grid.n_clipped) == (17 * 11 * 9, 17 * 11)
    assert (grid.n_pac, grid.n_pac_squared) == (12 * 5, 12 * 4)
    blunt = Grid.scaled(4.0, 2.0, intercept=False, sharp=False)
    assert blunt.shifts.tolist() == [0.0]
    assert blunt.sigmas.tolist() == [2.0 * 2.0**k for k in range(-5, 5)]
    # Rows that all lie in one place have no norm; the scores' size is then the unit.
    assert Grid.scaled(4.0, 0.0).radii[-1] == 4.0 * 2.0**7


def test_a_tie_is_an_error():
    margins, norms = np.array([0.0, 1.0, 2.0, 3.0]), np.full(4, 0.6)
    assert ramp_bound(margins, 0.0, 0.0, 0.5, GRID, 0.05).empirical_risk == 0.25
    assert pac_bayes_bound(margins[:, None], norms, 0.1, GRID, 0.05).empirical_risk == 0.25


def test_four_classes_cost_two_roots_of_four():
    margins = np.array([0.4, -0.1, 2.0, 0.05] * 25)
    grid = one_cell(radii=[0.0, 0.5], shifts=[0.0, 0.25], margins=[2.0])
    two = ramp_bound(margins, 0.4, 0.2, 3.0, grid, 0.05)
    four = ramp_bound(margins, 0.4, 0.2, 3.0, grid, 0.05, n_classes=4)
    # 2 (0.5 * 3 + 0.25) / (2 * 10) = 0.175, and four times as much.
    assert four.total - two.total == pytest.approx(3 * 0.175, rel=1e-12)
    assert two.total - two.confidence - ramp(margins, 2.0).mean() == pytest.approx(0.175)


def one_cell(**values):
    """A grid of one cell: no minimum over cells can hide a constant."""
    given = {"radii": [0.0], "shifts": [0.0], "margins": [1.0], "sigmas": [1.0]}
    given |= {"quantiles": [1.0], "widths": [2.0]} | values
    return Grid(**{name: np.array(value) for name, value in given.items()})


def test_clipped_bound_by_hand():
    # W = 3, B = 0.5, R = 2, beta = 0.25, n = 4: 4 * 3 * (0.5 * 2 + 0.25) / 2 = 7.5. The loss has
    # slope 2 W in g and Rademacher averages double it.
    y, g = np.array([-1.0, 0.0, 1.0, 2.0]), np.array([-5.0, 1.0, 1.0, 9.0])
    grid = one_cell(radii=[0.0, 0.5], shifts=[0.0, 0.25])
    parts = clipped_bound(y, g, (-1.0, 2.0), 0.4, 0.2, 2.0, grid, 0.05)
    assert parts.complexity == pytest.approx(7.5, rel=1e-14)
    assert parts.empirical_risk == 0.25  # of the clipped g: 0, 1, 0, 0
    assert parts.confidence == pytest.approx(9 * np.sqrt(np.log(80) / 8), rel=1e-14)
    assert parts.total == pytest.approx(7.75 + 9 * np.sqrt(np.log(80) / 8), rel=1e-14)


def test_pac_bayes_squared_by_hand():
    # Target in [-1, 2], sigma = 0.5, t = 2, R = 1.5: V = 3 + 2 * 0.5 * 1.5 = 4.5.
    y, g = np.array([-1.0, 0.2, 1.5, 2.0]), np.array([-1.4, 0.6, 0.3, 2.2])
    psi = np.array([0.5, 1.0, 1.5, 0.8])
    sigma, t, delta, distance = 0.5, 2.0, 0.05, 0.3
    parts = pac_bayes_squared_bound(
        y, g, psi, (-1.0, 2.0), distance, 1.5, one_cell(sigmas=[sigma], widths=[t]), delta
    )
    noisy = []
    for target, score, size in zip(y, g, sigma * psi, strict=True):
        low, high = -1 - t * size, 2 + t * size
        ends = np.square(target - low) * norm.cdf((low - score) / size)
        ends += np.square(target - high) * norm.sf((high - score) / size)

        def density(z, target=target, score=score, size=size):
            return np.square(target - z) * norm.pdf(z, score, size)

        noisy.append(ends + quad(density, low, high, epsabs=1e-12)[0])
    budget = (distance**2 / (2 * sigma**2) + np.log(2 * 2 * 2 / delta)) / 4
    inverse = float(kl_inverse(np.mean(noisy) / 4.5**2, budget))
    assert parts.total == pytest.approx(4.5**2 / (2 * norm.cdf(t) - 1) * inverse, rel=1e-9)
    assert parts.cell["smoothed"] == pytest.approx(np.mean(noisy), rel=1e-9)
    assert parts.cell["kl"] == pytest.approx(0.18, rel=1e-14)
    without = float(kl_inverse(np.mean(noisy) / 4.5**2, 0.18 / 4)) * 4.5**2 / (2 * norm.cdf(t) - 1)
    assert parts.empirical_risk + parts.complexity == pytest.approx(without, rel=1e-9)


def inverse_by_root(q, c):
    """The largest p whose relative entropy is the budget, by another method."""

    def above(p):
        first = q * np.log(q / p) if q > 0 else 0.0
        return first + (1 - q) * np.log((1 - q) / (1 - p)) - c

    return brentq(above, q, 1 - 1e-16, xtol=1e-15) if q < 1 and c > 0 else max(q, float(q >= 1))


@pytest.mark.parametrize("n_others", [1, 2])
@pytest.mark.parametrize("sup_norm", [None, 1.5])
def test_pac_bayes_is_the_least_over_the_grid(n_others, sup_norm):
    # Cell by cell and row by row, as the formula says; rows without an embedding have no noise.
    rng = np.random.default_rng(3)
    margins = rng.normal(1.0, 1.0, size=(60, n_others))
    psi = rng.uniform(0.2, 1.4, 60)
    psi[:2], margins[0], margins[1] = 0.0, 2.0, -2.0
    grid = one_cell(sigmas=[0.1, 0.25, 0.5, 1.0, 2.0], quantiles=[0.5, 1.0, 2.0])
    parts = pac_bayes_bound(margins, psi, 0.7, grid, 0.05, sup_norm=sup_norm)
    found = {}
    for sigma in grid.sigmas:
        kl = 0.7**2 / (2 * sigma**2)
        for t in grid.quantiles:
            losses = []
            for row, size in zip(margins, psi, strict=True):
                # Scores have noise sigma |psi|; a difference of two has sqrt 2 times as much, and
                # its slack t too.
                noise = sigma * size * (np.sqrt(2) if n_others > 1 else 1)
                if size == 0:
                    losses.append(float((row <= 0).any()))
                    continue
                slack = t * noise if sup_norm is None else t * noise * sup_norm / size
                losses.append(min(1.0, norm.cdf((slack - row) / noise).sum()))
            budget = (kl + np.log(2 * np.sqrt(60) * 2 * 15 / 0.05)) / 60
            smooth = float(np.mean(losses))
            found[sigma, t] = (inverse_by_root(smooth, budget) / norm.cdf(t), kl, smooth)
    (sigma, t), (total, kl, smooth) = min(found.items(), key=lambda one: one[1][0])
    assert parts.total == pytest.approx(total, rel=1e-9)
    assert parts.cell == pytest.approx(
        {"sigma": sigma, "t": t, "smoothed": smooth, "kl": kl, "N": 15}, rel=1e-9
    )
    assert parts.empirical_risk == (margins <= 0).any(axis=1).mean()
    # N may be the caller's: cells of several grids share delta.
    more = pac_bayes_bound(margins, psi, 0.7, grid, 0.05, sup_norm=sup_norm, n_cells=150)
    assert more.cell["N"] == 150
    assert more.total > parts.total


def test_the_ramp_bound_is_the_least_over_the_margins():
    margins = np.random.default_rng(4).normal(1.0, 1.0, size=50)
    grid = one_cell(radii=[0.0, 0.5, 1.0], shifts=[0.0, 0.1, 0.3], margins=[0.5, 1.0, 2.0, 4.0])
    parts = ramp_bound(margins, 0.5, 0.2, 0.8, grid, 0.05)
    found = {}
    for rho in grid.margins.tolist():
        losses = [1.0 if m <= 0 else max(0.0, 1 - m / rho) for m in margins]
        found[rho] = np.mean(losses) + 2 * (0.5 * 0.8 + 0.3) / (rho * np.sqrt(50))
    best = min(found, key=found.__getitem__)
    confidence = np.sqrt(np.log(3 * 3 * 4 / 0.05) / 100)
    assert parts.cell["rho"] == best
    assert (parts.cell["B"], parts.cell["beta"]) == (0.5, 0.3)  # 0.5 is in its own cell
    assert parts.total == pytest.approx(found[best] + confidence, rel=1e-12)
    assert parts.confidence == pytest.approx(confidence, rel=1e-12)
    given = ramp_bound(margins, 0.5, 0.2, 0.8, grid, 0.05, n_cells=7)
    assert given.confidence == pytest.approx(np.sqrt(np.log(7 / 0.05) / 100), rel=1e-12)


def test_the_squared_bound_is_the_least_over_the_grid():
    rng = np.random.default_rng(5)
    y, g, psi = rng.uniform(0, 1, 40), rng.normal(0.5, 0.5, 40), rng.uniform(0.1, 1, 40)
    sigmas, widths = [0.05, 0.1, 0.4, 1.0], [2.0, 2.5, 3.0]
    grid = one_cell(sigmas=sigmas, widths=widths)
    parts = pac_bayes_squared_bound(y, g, psi, (0.0, 1.0), 0.2, 1.0, grid, 0.05)
    # A grid of one cell pays for one; N enters by its logarithm only, so 1/N of delta makes up.
    alone = {
        (sigma, t): pac_bayes_squared_bound(
            y, g, psi, (0.0, 1.0), 0.2, 1.0, one_cell(sigmas=[sigma], widths=[t]), 0.05 / 12
        ).total
        for sigma in sigmas
        for t in widths
    }
    best = min(alone, key=alone.__getitem__)
    assert parts.total == pytest.approx(alone[best], rel=1e-12)
    assert (parts.cell["sigma"], parts.cell["t"], parts.cell["N"]) == (*best, 12)


def test_at_the_centre_half_of_delta_is_its_own():
    margins, norms = np.array([0.4, -0.1, 2.0, 0.5] * 25), np.full(100, 0.6)
    parts = pac_bayes_bound(margins[:, None], norms, 0.0, GRID, 0.05)
    assert parts.total == pytest.approx(float(kl_inverse(0.25, np.log(40) / 100)))
    assert parts.complexity == 0
    assert parts.cell == {"sigma": 0.0, "t": np.inf, "kl": 0.0, "N": 60}
    y, g = RNG.uniform(0, 1, 100), RNG.uniform(0, 1, 100)
    parts = pac_bayes_squared_bound(y, g, norms, (0.0, 1.0), 0.0, 0.6, GRID, 0.05)
    assert parts.total == pytest.approx(float(kl_inverse(np.mean((y - g) ** 2), np.log(40) / 100)))


def test_the_centre_in_units_of_the_target():
    # Losses of a target in [-1, 2] lie in [0, 9]: 0.25 on average here, a share of 1/36.
    y, g = np.array([-1.0, 0.0, 1.0, 2.0] * 10), np.array([-5.0, 1.0, 1.0, 9.0] * 10)
    parts = pac_bayes_squared_bound(y, g, np.ones(40), (-1.0, 2.0), 0.0, 1.0, GRID, 0.05)
    assert parts.empirical_risk == 0.25
    assert parts.total == pytest.approx(9 * inverse_by_root(1 / 36, np.log(2 / 0.05) / 40))
    assert parts.cell["sigma"] == 0.0


def test_bounds_grow_with_the_distance_and_end_at_infinity():
    margins, norms = np.array([0.4, -0.1, 2.0, 0.05] * 25), np.full(100, 0.6)
    y, g = RNG.uniform(0, 1, 100), RNG.uniform(0, 1, 100)
    for bound in (
        lambda d: ramp_bound(margins, d, 0.0, 0.5, GRID, 0.05).total,
        lambda d: pac_bayes_bound(margins[:, None], norms, d, GRID, 0.05).total,
        lambda d: clipped_bound(y, g, (0, 1), d, 0.0, 0.5, GRID, 0.05).total,
        lambda d: pac_bayes_squared_bound(y, g, norms, (0, 1), d, 0.6, GRID, 0.05).total,
    ):
        totals = [bound(d) for d in (0.0, 0.01, 0.1, 1.0, 10.0)]
        assert (np.diff(totals) >= -1e-12).all()
        assert bound(1e9) >= 1


def test_rows_without_an_embedding():
    parts = pac_bayes_bound(np.array([[1.0], [-1.0]] * 50), np.zeros(100), 0.1, GRID, 0.05)
    assert parts.cell["smoothed"] == 0.5


def test_beyond_the_grid_nothing_is_promised():
    margins, norms = np.array([0.4, -0.1, 2.0, 0.05] * 25), np.full(100, 0.6)
    far = pac_bayes_bound(margins[:, None], norms, 1e9, GRID, 0.05)
    y = np.linspace(0, 1, 100)
    squared = pac_bayes_squared_bound(y, 1 - y, norms, (0.0, 1.0), 1e9, 0.6, GRID, 0.05)
    for parts, risk, N in ((far, 0.25, 60), (squared, np.mean((2 * y - 1) ** 2), 48)):
        assert parts.empirical_risk == pytest.approx(risk, rel=1e-14)
        assert (parts.complexity, parts.confidence, parts.cell["N"]) == (np.inf, 0.0, N)
        assert np.isnan([parts.cell["sigma"], parts.cell["t"]]).all()


@pytest.mark.parametrize(("divergence", "promised"), [(19.9, True), (20.1, False)])
def test_a_cell_of_20_nats_a_row_promises_nothing(divergence, promised):
    # The inverse of kl is 1 there to the last digit: such a cell is passed over.
    distance = np.sqrt(2 * divergence * 4)
    margins, norms = np.array([0.4, -0.1, 2.0, 0.05]), np.full(4, 0.6)
    found = pac_bayes_bound(margins[:, None], norms, distance, one_cell(), 0.05)
    y = np.linspace(0, 1, 4)
    squared = pac_bayes_squared_bound(y, y, norms, (0.0, 1.0), distance, 0.6, one_cell(), 0.05)
    assert np.isfinite(found.total) == np.isfinite(squared.total) == promised
    assert min(found.total, squared.total) >= 1


def test_beyond_the_last_ball_rows_at_zero_do_not_help():
    # An infinite ball times rows of norm 0 is not a number, and nothing was promised of it.
    margins, y = np.ones(10), np.linspace(0, 1, 10)
    for radius, shift in ((1e9, 0.0), (0.0, 1e9)):
        assert ramp_bound(margins, radius, shift, 0.0, GRID, 0.05).total == np.inf
        assert clipped_bound(y, y, (0.0, 1.0), radius, shift, 0.0, GRID, 0.05).total == np.inf
