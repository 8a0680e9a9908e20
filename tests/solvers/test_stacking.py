"""The weights of a blend, against other people's minimisers of the documented objective."""

import numpy as np
import pytest
from scipy.optimize import minimize, nnls
from sklearn.metrics import log_loss as sklearn_log_loss

from kpp.solvers import SquaredLoss, log_loss, stacking_weights


def candidates(seed, n_rows=80, n_scores=1, n_candidates=4):
    """A target, and predictors of it that are alike, biased and of different scale."""
    rng = np.random.default_rng(seed)
    target = 3 + rng.normal(size=(n_rows, n_scores))
    noise = rng.normal(size=(n_candidates, n_rows, n_scores)) * rng.uniform(
        0.3, 3, (n_candidates, 1, 1)
    )
    factor = rng.choice([-0.3, 0.5, 1.0, 2.0], (n_candidates, 1, 1))
    return factor * target + noise + rng.normal(size=(n_candidates, 1, 1)), target, rng


def squared_objective(scores, target, weight):
    middle = np.average(target, weights=weight)
    rho = 0.01 * (weight * (target - middle) ** 2).sum()

    def objective(x):
        theta, constant = x[:-1], x[-1]
        rest = target - constant - theta @ scores
        return (weight * rest**2).sum() + rho * (theta.sum() - 1) ** 2

    return objective


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_squared_loss(seed, weighted):
    scores, target, rng = candidates(seed)
    weight = rng.uniform(0, 3, len(target)) if weighted else np.ones(len(target))
    theta, constant = stacking_weights(SquaredLoss(), scores, target, weight)
    assert (theta >= 0).all()
    objective = squared_objective(scores[:, :, 0], target[:, 0], weight)
    found = objective(np.append(theta[:, 0], constant))
    bounds = [(0, None)] * len(scores) + [(None, None)]
    for start in (np.zeros(len(scores) + 1), np.ones(len(scores) + 1)):
        best = minimize(objective, start, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15})
        assert found <= best.fun * (1 + 1e-12)
    # The best is no accident of the penalty: a step in any allowed direction makes it worse.
    for _ in range(50):
        step = np.append(np.maximum(theta[:, 0] + 0.01 * rng.normal(size=len(theta)), 0), constant)
        assert objective(step) >= found


def test_without_a_penalty_it_is_plain_nnls(monkeypatch):
    monkeypatch.setattr("kpp.solvers.stacking.SUM_PENALTY", 0.0)
    scores, target, _ = candidates(1)
    theta, constant = stacking_weights(
        SquaredLoss(), scores, target, np.ones(len(target)), fit_intercept=False
    )
    expected = nnls(scores[:, :, 0].T, target[:, 0])[0]
    np.testing.assert_allclose(theta[:, 0], expected, rtol=1e-10, atol=1e-12)
    assert constant == 0


def test_targets_have_weights_of_their_own():
    scores, target, _ = candidates(2, n_scores=3)
    weight = np.ones(len(target))
    theta, constant = stacking_weights(SquaredLoss(3), scores, target, weight)
    for k in range(3):
        own = stacking_weights(SquaredLoss(), scores[:, :, [k]], target[:, [k]], weight)
        np.testing.assert_allclose(theta[:, [k]], own[0], rtol=1e-12)
        np.testing.assert_allclose(constant[[k]], own[1], rtol=1e-12)


def log_objective(scores, target, weight, n_classes):
    middle = np.average(scores, axis=1, weights=weight)
    deviation = (scores - middle[:, None]) ** 2
    sigma = np.sqrt(np.average(deviation.mean(axis=2), axis=1, weights=weight))
    n = weight.sum() ** 2 / (weight**2).sum()

    def objective(x):
        theta, constant = x[: len(scores)], x[len(scores) :]
        g = np.einsum("j,jik->ik", theta, scores) + constant
        if n_classes == 2:
            g = np.hstack([np.zeros_like(g), g])
        p = np.exp(g - g.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        loss = sklearn_log_loss(target, p, sample_weight=weight, labels=np.arange(n_classes))
        return loss + ((theta * sigma) ** 2).sum() / (20 * n)

    return objective


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_log_loss(seed, n_classes, weighted):
    rng = np.random.default_rng(seed)
    target = rng.integers(0, n_classes, 90)
    truth = (target[:, None] == np.arange(n_classes)).astype(float)
    truth = truth[:, 1:] if n_classes == 2 else truth
    scores = np.array([a * truth + rng.normal(size=truth.shape) for a in (2, 1, 0, -1)])
    weight = rng.uniform(0, 3, len(target)) if weighted else np.ones(len(target))
    theta, constant = stacking_weights(log_loss(n_classes), scores, target, weight)
    assert (theta == theta[:, :1]).all()
    objective = log_objective(scores, target, weight, n_classes)
    found = objective(np.append(theta[:, 0], constant))
    bounds = [(0, None)] * 4 + [(None, None)] * truth.shape[1]
    start = np.full(4 + truth.shape[1], 0.3)
    best = minimize(objective, start, bounds=bounds, method="SLSQP", options={"ftol": 1e-14})
    assert found <= best.fun + 1e-9
    assert theta[3, 0] == 0  # the one that points the wrong way


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_that_are_told_apart_leave_the_weights_finite(n_classes):
    target = np.arange(30) % n_classes
    truth = (target[:, None] == np.arange(n_classes)) * 10.0
    truth = truth[:, 1:] if n_classes == 2 else truth
    theta, constant = stacking_weights(log_loss(n_classes), truth[None], target, np.ones(30))
    assert 0 < theta[0, 0] < 10
    assert np.isfinite(constant).all()


@pytest.mark.parametrize("loss", [SquaredLoss(), log_loss(2)])
def test_a_row_of_weight_2_is_two_rows(loss, monkeypatch):
    # The penalty of the log loss counts rows of different weight as fewer, the loss does not.
    monkeypatch.setattr("kpp.solvers.stacking.SCALE_PENALTY", 0.0)
    scores, target, rng = candidates(3)
    if not isinstance(loss, SquaredLoss):
        target = (target[:, 0] > 3).astype(int)
    weight = rng.integers(0, 4, len(target))
    a = stacking_weights(loss, scores, target, weight.astype(float))
    repeated = np.repeat(scores, weight, axis=1), np.repeat(target, weight, axis=0)
    b = stacking_weights(loss, *repeated, np.ones(weight.sum()))
    # The log loss is minimised by steps, which stop where its slope is 1e-9.
    rtol = 1e-9 if isinstance(loss, SquaredLoss) else 1e-4
    np.testing.assert_allclose(a[0], b[0], rtol=rtol)


def test_constant_candidates_and_targets():
    target = np.arange(6.0)[:, None]
    scores = np.array([np.ones((6, 1)), target])
    theta, constant = stacking_weights(SquaredLoss(), scores, target, np.ones(6))
    np.testing.assert_allclose(theta[:, 0], [0, 1], atol=1e-12)
    np.testing.assert_allclose(constant, 0, atol=1e-12)
    theta, constant = stacking_weights(SquaredLoss(), scores, np.full((6, 1), 2.0), np.ones(6))
    np.testing.assert_allclose(theta, 0, atol=1e-12)
    np.testing.assert_allclose(constant, 2)
    # A mean of numbers that are no binary fractions is off by a rounding.
    scores[0] = 0.1
    theta, _ = stacking_weights(log_loss(2), scores, np.arange(6) > 2, np.ones(6))
    assert theta[0] == 0
    assert theta[1] > 0
