"""Losses against finite differences, and a loss that the package does not have."""

import numpy as np
import pytest
from scipy.optimize import minimize
from zoo import random_forest, random_node_weight, random_rows

from kpp.geometry import PathMap, path_weights
from kpp.solvers import Loss, NewtonProblem, SquaredLoss, log_loss, pose
from kpp.solvers.problem import mean_squared_spread

N_ROWS = 30


def random_target(loss, rng):
    if isinstance(loss, SquaredLoss):
        return rng.normal(size=(N_ROWS, loss.n_scores))
    return rng.integers(0, loss.n_classes, N_ROWS)


@pytest.mark.parametrize("loss", [SquaredLoss(1), SquaredLoss(2), log_loss(2), log_loss(4)])
def test_gradient_and_curvature_are_derivatives(loss):
    rng = np.random.default_rng(0)
    target = loss.prepare(random_target(loss, rng))
    scores = rng.normal(size=(N_ROWS, loss.n_scores))
    change = rng.normal(size=scores.shape)
    share = rng.random((N_ROWS, 1))
    share /= share.sum()
    h = 1e-5

    def value(at):
        return (share * loss.values(target, at)).sum()

    def slope(at):
        return share * loss.gradient(target, at)

    # Central differences are right to h squared.
    along = (value(scores + h * change) - value(scores - h * change)) / (2 * h)
    assert along == pytest.approx((slope(scores) * change).sum(), abs=1e-8)
    bent = (slope(scores + h * change) - slope(scores - h * change)) / (2 * h)
    np.testing.assert_allclose(loss.curvature(scores, share)(change.copy()), bent, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_loss_is_minus_the_log_of_the_link(n_classes):
    rng = np.random.default_rng(1)
    loss, weight = log_loss(n_classes), rng.random(N_ROWS)
    codes = random_target(loss, rng)
    scores = rng.normal(size=(N_ROWS, loss.n_scores))
    p = loss.link(scores)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-14)
    own = p[np.arange(N_ROWS), codes]
    values = loss.values(loss.prepare(codes), scores)[:, 0]
    np.testing.assert_allclose(values, -np.log(own), rtol=1e-12)
    assert loss.merit(codes, scores, weight) == pytest.approx(
        np.average(np.log(own), weights=weight), rel=1e-12
    )
    assert (loss.classes(scores) == p.argmax(axis=1)).all()


def test_a_score_of_zero_is_the_first_class():
    assert log_loss(2).classes(np.array([[0.0], [1e-300], [-1.0]])).tolist() == [0, 1, 0]


def test_the_unit_of_alpha():
    weight = np.array([1.0, 2.0, 5.0])
    assert SquaredLoss().unit(3.0, weight) == 3.0  # the loss is summed
    assert log_loss(2).unit(3.0, weight) == 3.0 / 8  # the loss is averaged


class PseudoHuber(Loss):
    """sqrt(1 + e^2) - 1: one object, and nothing else is needed."""

    name, n_scores, is_averaged = "pseudo-Huber loss", 1, True
    search_tol, final_tol = 1e-5, 1e-6

    def prepare(self, target):
        return np.asarray(target, dtype=float)[:, None]

    def values(self, target, scores):
        return np.hypot(1.0, target - scores) - 1

    def gradient(self, target, scores):
        return (scores - target) / np.hypot(1.0, target - scores)

    def curvature(self, scores, share):
        # An upper bound of the second derivative keeps Newton's steps safe far away.
        return lambda change: np.multiply(change, share, out=change)

    def merit(self, target, scores, weight):
        return -float(np.average(self.values(self.prepare(target), scores)[:, 0], weights=weight))

    def link(self, scores):
        return scores


def test_a_new_loss_is_one_object():
    rng = np.random.default_rng(2)
    forest = random_forest(0, n_trees=4)
    X = random_rows(0, n_rows=N_ROWS)
    phi = PathMap(forest, path_weights(forest, random_node_weight(0, forest))).on(X)
    y, weight, alpha = rng.standard_cauchy(N_ROWS), rng.random(N_ROWS), 1e-2
    problem = pose(PseudoHuber(), phi, y, weight)
    assert isinstance(problem, NewtonProblem)
    solved = problem.solve([alpha], tol=1e-20, max_iter=5000)
    dense = phi.to_csr().toarray()
    share = weight / weight.sum()

    def objective(parameters):
        w, b = parameters[:-1], parameters[-1]
        return share @ (np.hypot(1, y - dense @ w - b) - 1) + alpha / 2 * w @ w

    w = dense.T @ solved.dual[0, :, 0]
    mine = objective(np.append(w, solved.intercept[0]))
    other = minimize(objective, np.zeros(dense.shape[1] + 1), method="BFGS", tol=1e-12)
    assert mine <= other.fun + 1e-12


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("present", [[1], [0, 2], [0, 1, 2]])
def test_classes_without_rows_are_almost_impossible(present, fit_intercept):
    # Log-odds of -30 against the classes that there are; these have their own regression.
    forest = random_forest(0, n_trees=4)
    phi = PathMap(forest, path_weights(forest, random_node_weight(0, forest))).on(
        random_rows(0, N_ROWS)
    )
    rng = np.random.default_rng(0)
    codes, weight = rng.choice(present, N_ROWS), rng.random(N_ROWS) + 0.1
    codes[0], weight[0] = 3, 0.0  # a class whose rows have no weight is not there
    options = {"tol": 1e-10, "max_iter": 500}
    problem = pose(log_loss(4), phi, codes, weight, fit_intercept=fit_intercept)
    found = problem.solve(np.array([0.01, 0.1]), **options)
    absent = [k for k in range(4) if k not in present]
    assert (found.dual[:, :, absent] == 0).all()
    assert (found.dual[:, 0] == 0).all()
    assert (found.intercept[:, absent] == -30).all()
    if len(present) == 1:
        assert (found.dual == 0).all()
        assert (found.intercept[:, present] == 0).all()
        assert found.converged.all()
        return
    kept = phi.rows(weight > 0)
    own = NewtonProblem(
        kept,
        np.searchsorted(present, codes[1:]),
        weight[1:],
        loss=log_loss(len(present)),
        fit_intercept=fit_intercept,
    ).solve([0.01, 0.1], **options)
    for k in range(2):
        score = kept @ (kept.T @ found.dual[k, 1:]) + found.intercept[k]
        theirs = kept @ (kept.T @ own.dual[k]) + own.intercept[k]
        p = log_loss(4).link(score)
        np.testing.assert_allclose(p[:, present], log_loss(len(present)).link(theirs), atol=1e-9)
        assert (p[:, absent] < 1e-9).all()


@pytest.mark.parametrize("only", [0, 1])
def test_one_class_of_two_is_certain(only):
    forest = random_forest(0, n_trees=4)
    phi = PathMap(forest, path_weights(forest, random_node_weight(0, forest))).on(
        random_rows(0, N_ROWS)
    )
    problem = pose(log_loss(2), phi, np.full(N_ROWS, only), np.ones(N_ROWS))
    found = problem.solve(np.array([0.1]), tol=1e-8, max_iter=10)
    assert (found.dual == 0).all()
    assert found.intercept.tolist() == [[30.0 if only else -30.0]]


def test_tolerances_of_the_losses():
    # Of the search for alpha and of the fit that is kept, relative to the objective.
    assert (SquaredLoss.search_tol, SquaredLoss.final_tol) == (1e-2, 1e-3)
    for loss in (log_loss(2), log_loss(3)):
        assert (loss.search_tol, loss.final_tol) == (5e-3, 1e-3)
        assert loss.is_averaged
    assert not SquaredLoss.is_averaged


def test_the_spread_of_rows_by_hand():
    forest = random_forest(0, n_trees=4)
    phi = PathMap(forest, path_weights(forest, random_node_weight(0, forest))).on(
        random_rows(0, N_ROWS)
    )
    weight = np.random.default_rng(0).integers(0, 4, N_ROWS).astype(float)
    dense = phi.to_csr().toarray()
    mean = np.average(dense, axis=0, weights=weight)
    spread = np.average(np.square(dense - mean).sum(axis=1), weights=weight)
    expected = spread * weight[weight > 0].mean()
    assert mean_squared_spread(phi, weight) == pytest.approx(expected, rel=1e-10)
    # All rows in one place: 1, times the mean weight.
    same = phi.rows(np.zeros(N_ROWS, dtype=int))
    assert mean_squared_spread(same, weight) == pytest.approx(weight[weight > 0].mean(), rel=1e-12)


@pytest.mark.parametrize("loss", [SquaredLoss(1), log_loss(2), log_loss(3)])
def test_whether_one_more_alpha_costs_products(loss, monkeypatch):
    monkeypatch.setattr("kpp.solvers.ridge.DENSE_ROWS", 0)
    forest = random_forest(0, n_trees=5, most_splits=20)
    weights = path_weights(forest, random_node_weight(0, forest))
    phi = PathMap(forest, weights).on(random_rows(0, n_rows=N_ROWS))
    target = random_target(loss, np.random.default_rng(0))
    alone, both = (
        pose(loss, phi, target, np.ones(N_ROWS)).solve(alphas, tol=1e-10).n_iter
        for alphas in ([0.01], [0.02, 0.01])
    )
    assert (both == alone) == loss.alphas_share_products
