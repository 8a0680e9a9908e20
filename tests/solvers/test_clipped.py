"""Huber, pinball and Poisson losses against generic solvers on the explicit embedding."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import PoissonRegressor
from zoo import random_forest, random_node_weight, random_rows

from kpp.geometry import PathMap, path_weights
from kpp.solvers import HuberLoss, PinballLoss, PoissonLoss, SquaredLoss, pose
from kpp.solvers.regression_losses import weighted_quantile

N_ROWS = 40
QUANTILES = [0.1, 0.5, 0.9]


def world(seed, n_rows=N_ROWS, n_trees=4):
    forest = random_forest(seed, n_trees=n_trees)
    phi = PathMap(forest, path_weights(forest, random_node_weight(seed, forest))).on(
        random_rows(seed, n_rows=n_rows)
    )
    rng = np.random.default_rng(seed)
    return phi, rng.standard_t(2, n_rows), rng.integers(0, 3, n_rows) + rng.random(n_rows), rng


def objective(loss, phi, y, weight, alpha, w, b, offset=0.0):
    scores = (phi.to_csr() @ w + b)[:, None] + offset
    values = loss.values(loss.prepare(y), scores)
    return float(weight @ values.sum(axis=1)) + alpha / 2 * float(w @ w)


def by_quadratic_program(phi, y, weight, q, alpha, fit_intercept):
    """The pinball objective by SLSQP, errors as differences of numbers of at least 0."""
    dense = phi.to_csr().toarray()
    # The solution is in the span of the rows: fewer numbers, the same problem.
    _, size, span = np.linalg.svd(dense, full_matrices=False)
    span = span[size > 1e-10 * size[0]]
    rows = dense @ span.T
    n, m = rows.shape
    cost = np.concatenate([np.zeros(m + 1), q * weight, (1 - q) * weight])
    curve = np.concatenate([np.full(m, alpha), np.zeros(1 + 2 * n)])
    equal = np.hstack([rows, np.ones((n, 1)), np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * m + [(None, None) if fit_intercept else (0, 0)] + [(0, None)] * 2 * n
    start = np.concatenate([np.zeros(m + 1), np.maximum(y, 0), np.maximum(-y, 0)])
    found = minimize(
        lambda x: cost @ x + curve @ x**2 / 2,
        start,
        jac=lambda x: cost + curve * x,
        bounds=bounds,
        constraints={"type": "eq", "fun": lambda x: equal @ x - y, "jac": lambda x: equal},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-13},
    )
    # 8: no step along the slope is large enough to see. What it found is compared below.
    assert found.status in (0, 8)
    return found.fun, rows @ found.x[:m] + found.x[m]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.03, 1.0])
@pytest.mark.parametrize("q", QUANTILES)
def test_pinball_is_what_a_quadratic_program_finds(q, alpha, fit_intercept):
    phi, y, weight, _ = world(0)
    loss = PinballLoss([q])
    problem = pose(loss, phi, y, weight, fit_intercept=fit_intercept)
    found = problem.solve([alpha], tol=1e-10, max_iter=5000)
    w, b = phi.T @ found.dual[0, :, 0], found.intercept[0, 0]
    assert (b == 0) or fit_intercept
    other, scores = by_quadratic_program(phi, y, weight, q, alpha, fit_intercept)
    mine = objective(loss, phi, y, weight, alpha, w, b)
    assert mine == pytest.approx(other, rel=1e-7)
    assert mine <= other * (1 + 1e-9)
    # The objective is strongly convex in w, by alpha: predictions agree to its root. b may be any
    # number of an interval where no row is met exactly.
    mine_scores = phi @ w
    mean = np.average(mine_scores - scores, weights=weight) if fit_intercept else 0.0
    if fit_intercept:
        np.testing.assert_allclose(mine_scores - scores, mean, atol=2e-3)
    else:
        np.testing.assert_allclose(mine_scores, scores, atol=2e-3)


@pytest.mark.parametrize("dense_rows", [0, 256])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loss", [PinballLoss([0.2]), PinballLoss([0.7]), HuberLoss(0.8)])
def test_the_dual_is_in_its_box_and_the_gap_is_what_it_says(loss, seed, dense_rows, monkeypatch):
    monkeypatch.setattr("kpp.solvers.clipped.DENSE_ROWS", dense_rows)
    phi, y, weight, rng = world(seed)
    weight[:3] = 0.0
    alpha, (clip,) = float(rng.choice([0.1, 1.0])), loss.clips
    found = pose(loss, phi, y, weight).solve([alpha], tol=1e-8, max_iter=10_000)
    r, b = found.dual[0, :, 0], found.intercept[0, 0]
    assert found.residual[0] <= 1e-8
    a = alpha * r
    assert (a[:3] == 0).all()
    # The primal point that is kept may be one whose r is not quite in the box.
    inside = np.clip(a, clip.low * weight, clip.high * weight)
    assert np.abs(a - inside).max() < 1e-3
    assert abs(a.sum()) < 1e-6
    gram = phi.gram()
    value = objective(loss, phi, y, weight, alpha, phi.T @ r, b)
    known = weight > 0
    squares = clip.width / 2 * np.sum(np.square(inside[known]) / weight[known])
    lower = inside @ y - inside @ gram @ inside / (2 * alpha) - squares
    assert value - lower <= 1e-3 * value
    # Subgradients: rows off the kink have the slope of their side.
    error = y - gram @ r - b
    far = (np.abs(error) > 1e-2) & known
    slope = clip.slopes(error)
    np.testing.assert_allclose((a / np.where(known, weight, 1))[far], slope[far], atol=5e-3)


def test_huber_is_what_a_quasi_newton_method_finds():
    phi, y, weight, _ = world(1)
    loss, alpha = HuberLoss(0.7), 0.05
    found = pose(loss, phi, y, weight).solve([alpha], tol=1e-12, max_iter=1000)
    dense = phi.to_csr().toarray()

    def value(x):
        e = y - dense @ x[:-1] - x[-1]
        slope = np.clip(e, -0.7, 0.7)
        size = weight @ (slope * e - slope**2 / 2) + alpha / 2 * x[:-1] @ x[:-1]
        return size, np.append(alpha * x[:-1] - dense.T @ (weight * slope), -weight @ slope)

    other = minimize(value, np.zeros(dense.shape[1] + 1), jac=True, tol=1e-12)
    w, b = phi.T @ found.dual[0, :, 0], found.intercept[0, 0]
    assert objective(loss, phi, y, weight, alpha, w, b) <= other.fun * (1 + 1e-10)
    np.testing.assert_allclose(dense @ w + b, dense @ other.x[:-1] + other.x[-1], atol=1e-5)


@pytest.mark.parametrize("dense_rows", [0, 256])
def test_huber_of_a_large_threshold_is_ridge(dense_rows, monkeypatch):
    monkeypatch.setattr("kpp.solvers.clipped.DENSE_ROWS", dense_rows)
    phi, y, weight, _ = world(2)
    alphas = [0.1, 1.0]
    found = pose(HuberLoss(1e6), phi, y, weight).solve(alphas, tol=1e-14, max_iter=2000)
    ridge = pose(SquaredLoss(), phi, y, weight).solve(alphas, tol=1e-14, max_iter=2000)
    for k in range(2):
        mine, other = (phi @ (phi.T @ one.dual[k]) + one.intercept[k] for one in (found, ridge))
        np.testing.assert_allclose(mine, other, atol=1e-6)
        np.testing.assert_allclose(found.dual[k], ridge.dual[k], atol=1e-4)


@pytest.mark.parametrize("offset", [False, True])
def test_poisson_is_that_of_scikit_learn(offset):
    phi, _, weight, rng = world(3)
    exposure = rng.random(N_ROWS) + 0.5 if offset else np.ones(N_ROWS)
    y = rng.poisson(2 * exposure).astype(float)
    alpha = 0.3
    shift = np.log(exposure)[:, None] if offset else None
    problem = pose(PoissonLoss(), phi, y, weight, shift)
    found = problem.solve([alpha], tol=1e-12, max_iter=1000)
    scores = phi @ (phi.T @ found.dual[0, :, 0]) + found.intercept[0, 0]
    # With an exposure as an offset, rates with the exposure as a weight: the same minimum.
    own = weight * exposure
    other = PoissonRegressor(alpha=alpha / own.sum(), tol=1e-12, solver="newton-cholesky")
    other.fit(phi.to_csr().toarray(), y / exposure, sample_weight=own)
    np.testing.assert_allclose(np.exp(scores), other.predict(phi.to_csr().toarray()), rtol=1e-6)


@pytest.mark.parametrize(
    "loss", [PinballLoss([0.3]), PinballLoss([0.1, 0.8]), HuberLoss(0.9), PoissonLoss()]
)
def test_weights_are_repeated_rows(loss):
    phi, y, _, rng = world(4)
    y = np.abs(y)
    times = rng.integers(0, 4, N_ROWS)
    rows = np.repeat(np.arange(N_ROWS), times)
    options = {"tol": 1e-11, "max_iter": 5000}
    weighted = pose(loss, phi, y, times.astype(float)).solve([0.2], **options)
    repeated = pose(loss, phi.rows(rows), y[rows], np.ones(len(rows))).solve([0.2], **options)
    mine = phi.to_csr().T @ weighted.dual[0]
    other = phi.rows(rows).to_csr().T @ repeated.dual[0]
    np.testing.assert_allclose(mine, other, atol=1e-4)
    np.testing.assert_allclose(weighted.intercept, repeated.intercept, atol=1e-4)


@pytest.mark.parametrize("q", QUANTILES)
def test_a_share_q_of_the_rows_is_below_its_quantile(q):
    phi, y, _, _ = world(5, n_rows=100)
    for alpha in (0.05, 50.0):
        found = pose(PinballLoss([q]), phi, y, np.ones(100)).solve(
            [alpha], tol=1e-10, max_iter=9000
        )
        error = y - phi @ (phi.T @ found.dual[0, :, 0]) - found.intercept[0, 0]
        # The intercept is best: the numbers below and above leave room for those on the kink.
        assert (error < -1e-9).mean() <= q
        assert (error > 1e-9).mean() <= 1 - q + 1e-12


@pytest.mark.parametrize("loss", [PinballLoss([0.3]), HuberLoss(0.9)])
def test_targets_in_other_units(loss):
    # The pinball loss grows with the unit and the norm with its square; Huber's loss grows likewise
    # where its threshold has the same unit.
    phi, y, weight, _ = world(6)
    unit = 1000.0
    options = {"tol": 1e-10, "max_iter": 5000}
    larger, factor = (loss, 1 / unit) if isinstance(loss, PinballLoss) else (HuberLoss(900.0), 1.0)
    small = pose(loss, phi, y, weight).solve([0.1], **options)
    large = pose(larger, phi, unit * y + 5, weight).solve([0.1 * factor], **options)
    mine, other = (phi @ (phi.T @ one.dual[0]) + one.intercept[0] for one in (small, large))
    np.testing.assert_allclose(unit * mine + 5, other, atol=unit * 1e-4)


def test_several_quantiles_are_as_many_problems():
    phi, y, weight, _ = world(7)
    both = pose(PinballLoss([0.2, 0.9]), phi, y, weight).solve([1.0, 0.1], tol=1e-6, max_iter=5000)
    for k, q in enumerate([0.2, 0.9]):
        one = pose(PinballLoss([q]), phi, y, weight).solve([1.0, 0.1], tol=1e-6, max_iter=5000)
        np.testing.assert_array_equal(both.dual[:, :, k], one.dual[:, :, 0])
        np.testing.assert_array_equal(both.intercept[:, k], one.intercept[:, 0])


def test_a_limit_of_products_is_kept_and_said():
    phi, y, weight, _ = world(8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kpp.solvers.clipped.DENSE_ROWS", 0)
        problem = pose(PinballLoss([0.5]), phi, y, weight)
        with pytest.warns(ConvergenceWarning, match="duality gap"):
            found = problem.solve([1e-4], tol=1e-12, max_iter=5)
        assert not found.converged.any()
        assert found.n_iter <= 6
        # More products go on where the last ones ended.
        further = problem.solve([1e-4], tol=1e-2, max_iter=20_000)
    assert further.converged.all()


@pytest.mark.parametrize("loss", [PinballLoss([0.5]), HuberLoss(1.0), PoissonLoss()])
def test_equal_targets_are_met_by_the_intercept(loss):
    phi, _, weight, _ = world(9)
    found = pose(loss, phi, np.full(N_ROWS, 3.0), weight).solve([0.1], tol=1e-6, max_iter=500)
    scores = phi @ (phi.T @ found.dual[0]) + found.intercept[0]
    np.testing.assert_allclose(loss.link(scores), 3.0, rtol=1e-6)


def test_quantiles_of_weights_by_hand():
    values, weight = np.array([1.0, 2.0, 3.0, 9.0]), np.array([1.0, 2.0, 1.0, 0.0])
    assert weighted_quantile(values, weight, 0.25) == (1.0, 2.0)
    assert weighted_quantile(values, weight, 0.5) == (2.0, 2.0)
    assert weighted_quantile(values, weight, 0.75) == (2.0, 3.0)
    assert weighted_quantile(values, weight, 0.99) == (3.0, 3.0)
