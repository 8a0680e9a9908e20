"""Logistic regression against scikit-learn's on the CSR, and against its own optimality."""

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from zoo import random_forest, random_node_weight, random_rows

import kpp.solvers.newton
from kpp import KPPEmbedding
from kpp.geometry import PathMap, path_weights
from kpp.solvers import NewtonProblem, log_loss, logistic_path

ALPHAS = np.array([1e-3, 1e-5, 1e-1])


def make(n_classes, n_rows=300):
    forest = random_forest(0, n_trees=8, most_splits=40)
    X = random_rows(0, n_rows=n_rows)
    phi = PathMap(forest, path_weights(forest, random_node_weight(0, forest))).on(X)
    rng = np.random.default_rng(0)
    noisy = X[:, 0] + X[:, 1] + rng.normal(size=n_rows)
    codes = np.digitize(noisy, np.quantile(noisy, np.arange(1, n_classes) / n_classes))
    return phi, codes, rng.integers(0, 3, n_rows).astype(float)


@pytest.fixture(params=["dense", "products"])
def way(request, monkeypatch):
    rows = 10**6 if request.param == "dense" else 0
    monkeypatch.setattr(kpp.solvers.newton, "DENSE_ROWS", rows)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_against_scikit_learns_logistic_regression(way, n_classes, fit_intercept, weighted):
    phi, codes, weight = make(n_classes)
    weight = weight if weighted else np.ones(len(codes))
    path = logistic_path(
        phi, codes, ALPHAS, weight, n_classes=n_classes, fit_intercept=fit_intercept, tol=1e-20
    )
    assert path.converged.all()
    dense = phi.to_csr().toarray()
    for k, alpha in enumerate(ALPHAS):
        other = LogisticRegression(
            C=1 / (weight.sum() * alpha),
            fit_intercept=fit_intercept,
            solver="newton-cg",
            tol=1e-10,
            max_iter=10_000,
        ).fit(dense, codes, weight)
        score = phi @ (phi.T @ path.dual[k]) + path.intercept[k]
        mine = expit(score[:, 0]) if n_classes == 2 else softmax(score, axis=1)
        theirs = other.predict_proba(dense)
        theirs = theirs[:, 1] if n_classes == 2 else theirs
        np.testing.assert_allclose(mine, theirs, atol=2e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_gradient_vanishes(way, n_classes):
    phi, codes, weight = make(n_classes)
    path = logistic_path(phi, codes, ALPHAS, weight, n_classes=n_classes, tol=1e-22)
    share = weight / weight.sum()
    dense = phi.to_csr().toarray()
    for k, alpha in enumerate(ALPHAS):
        w = dense.T @ path.dual[k]
        score = dense @ w + path.intercept[k]
        if n_classes == 2:
            error = (expit(score[:, 0]) - codes)[:, None]
        else:
            error = softmax(score, axis=1) - (codes[:, None] == np.arange(n_classes))
        gradient = dense.T @ (share[:, None] * error) + alpha * w
        assert np.abs(gradient).max() < 1e-10
        assert np.abs((share[:, None] * error).sum(axis=0)).max() < 1e-10


def test_rows_of_weight_zero_are_as_removed(way):
    phi, codes, weight = make(2)
    kept = weight > 0
    a = logistic_path(phi, codes, [1e-3], weight, tol=1e-22)
    b = logistic_path(phi.rows(kept), codes[kept], [1e-3], weight[kept], tol=1e-22)
    np.testing.assert_allclose(phi.T @ a.dual[0], phi.rows(kept).T @ b.dual[0], atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_start_is_the_best_constant(n_classes):
    # The minimum is the same from any start; from another one it takes more products.
    phi, codes, weight = make(n_classes, n_rows=60)
    weight[codes == 1] *= 5
    problem = NewtonProblem(phi, codes, weight, loss=log_loss(n_classes))
    v, b = problem._objective.null_model()
    logs = np.log(np.bincount(codes, weights=weight) / weight.sum())
    expected = [logs[1] - logs[0]] if n_classes == 2 else logs - logs.mean()
    np.testing.assert_allclose(b, expected, atol=1e-9)
    assert not v.any()
    # Beside scores that are given, a constant makes up for them.
    offset = np.tile(np.arange(len(b)) + 2.0, (60, 1))
    given = NewtonProblem(phi, codes, weight, loss=log_loss(n_classes), offset=offset)
    moved = given._objective.null_model()[1] + offset[0]
    centred = moved - (0 if n_classes == 2 else moved.mean())
    np.testing.assert_allclose(centred, expected, atol=1e-9)
    none = NewtonProblem(phi, codes, weight, loss=log_loss(n_classes), fit_intercept=False)
    assert not none._objective.null_model()[1].any()


def test_separable_classes_with_a_tiny_alpha():
    phi, _, _ = make(2)
    codes = (phi.leaf_ids[0] > np.median(phi.leaf_ids[0])).astype(int)
    path = logistic_path(phi, codes, np.logspace(-10, 0, 20))
    assert path.converged.all()
    score = (phi @ (phi.T @ path.dual[0]) + path.intercept[0])[:, 0]
    assert ((score > 0) == codes).all()


def test_the_order_of_alphas_does_not_matter():
    phi, codes, _ = make(2)
    up = logistic_path(phi, codes, np.sort(ALPHAS), tol=1e-22)
    down = logistic_path(phi, codes, np.sort(ALPHAS)[::-1], tol=1e-22)
    assert np.array_equal(up.dual, down.dual[::-1])
    assert np.array_equal(up.n_iter_by_alpha, down.n_iter_by_alpha[::-1])


@pytest.mark.parametrize("n_known", [1, 2, 3])
def test_the_start_of_an_alpha_is_extrapolated(n_known):
    """The polynomial through the last solutions: exact for polynomials of that degree."""
    rng = np.random.default_rng(0)
    known, at = np.sort(rng.normal(size=n_known)), float(rng.normal())
    weight = kpp.solvers.newton.extrapolation(known, at)
    for degree in range(n_known):
        np.testing.assert_allclose(weight @ known**degree, at**degree, rtol=1e-12)


def test_extrapolating_saves_products_on_a_path(monkeypatch):
    phi, codes, weight = make(2)
    alphas = np.logspace(-2, -5, 15)
    path = logistic_path(phi, codes, alphas, weight, tol=1e-8)
    monkeypatch.setattr(kpp.solvers.newton, "EXTRAPOLATED", 1)
    from_the_last = logistic_path(phi, codes, alphas, weight, tol=1e-8)
    assert path.n_iter_by_alpha.sum() < 0.8 * from_the_last.n_iter_by_alpha.sum()
    scores = [phi @ (phi.T @ found.dual[:, :, 0].T) for found in (path, from_the_last)]
    np.testing.assert_allclose(*scores, atol=2e-3)


def test_not_converged_is_said(monkeypatch):
    monkeypatch.setattr(kpp.solvers.newton, "DENSE_ROWS", 0)
    phi, codes, _ = make(2)
    with pytest.warns(ConvergenceWarning, match="did not converge for alpha = 1e-06"):
        path = logistic_path(phi, codes, [1e-6], max_iter=5)
    assert not path.converged.any()


@pytest.mark.parametrize("max_iter", [3, 4, 6, 9, 14])
def test_max_iter_limits_the_products_within_a_step_too(way, max_iter):
    # A step takes conjugate gradients, one product each, as many as are left; the gradient at its
    # end takes one more. Without a limit the steps of this fit take dozens.
    phi, codes, _ = make(2)
    with pytest.warns(ConvergenceWarning):
        path = logistic_path(phi, codes, [1e-9], tol=1e-14, max_iter=max_iter)
    assert max_iter <= path.n_iter_by_alpha[0] <= max_iter + 1


def radau_bound(matrix, vector, n_steps, node):
    """Gauss and Radau's upper bound of x' A^-1 x, as Golub and Meurant have it: by Lanczos."""
    basis, diagonal, beside = [vector / np.linalg.norm(vector)], [], []
    for _ in range(n_steps):
        following = matrix @ basis[-1]
        diagonal.append(following @ basis[-1])
        for other in basis * 2:
            following = following - (following @ other) * other
        beside.append(np.linalg.norm(following))
        basis.append(following / beside[-1])
    T = np.diag([*diagonal, 0.0]) + np.diag(beside, 1) + np.diag(beside, -1)
    # The last entry that makes `node` an eigenvalue.
    last = np.eye(n_steps)[-1] * beside[-1] ** 2
    T[-1, -1] = node + np.linalg.solve(T[:-1, :-1] - node * np.eye(n_steps), last)[-1]
    return np.linalg.inv(T)[0, 0] * (vector @ vector)


@pytest.mark.parametrize("n_steps", [1, 2, 3, 5])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_conjugate_gradients_say_what_they_gained_and_what_is_left(
    monkeypatch, n_steps, fit_intercept
):
    # Against the quadratic model of the objective in w and b, written out.
    monkeypatch.setattr(kpp.solvers.newton, "FORCING", 0.0)
    phi, codes, _ = make(2, n_rows=60)
    problem = NewtonProblem(phi, codes, loss=log_loss(2), fit_intercept=fit_intercept)
    alpha, rng = 1e-4, np.random.default_rng(1)
    v, b = rng.normal(size=(60, 1)), rng.normal(size=1) * fit_intercept
    gram = phi.gram()
    score = gram @ v + b
    gradient = (expit(score) - codes[:, None]) / 60
    e, e_b = gradient + alpha * v, gradient.sum(axis=0) * fit_intercept
    step, gram_step, step_b, promised, left, used = kpp.solvers.newton._conjugate_gradients(
        problem._objective, alpha, score, (-e, -gram @ e, -e_b), 0.0, n_steps
    )
    assert used == n_steps
    features = np.column_stack([phi.to_csr().toarray(), np.full(60, float(fit_intercept))])
    penalty = np.eye(features.shape[1]) * alpha
    penalty[-1, -1] = 0.0 if fit_intercept else 1.0  # what is not there stays
    curvature = expit(score) * expit(-score) / 60
    hessian = features.T @ (curvature * features) + penalty
    slope = features.T @ gradient[:, 0]
    slope[:-1] += alpha * (phi.T @ v)[:, 0]

    def model(change):
        return slope @ change + change @ hessian @ change / 2

    found = np.append((phi.T @ step)[:, 0], step_b)
    assert gram_step == pytest.approx(gram @ step, abs=1e-12)
    assert -model(found) == pytest.approx(promised, rel=1e-9)
    more = model(found) - model(-np.linalg.solve(hessian, slope))
    # No eigenvalue is below alpha. With an intercept, whose direction rows of norm 1 can undo with
    # coefficients of norm 1, none is below half of it.
    assert 0 < more <= left * (2 if fit_intercept else 1 + 1e-9)
    if not fit_intercept:
        assert left + promised == pytest.approx(radau_bound(hessian, slope, n_steps, alpha) / 2)


def test_conjugate_gradients_where_the_loss_is_flat():
    # Scores so far out that the curvature is exactly 0: the Hessian is alpha times the identity.
    phi, codes, _ = make(2, n_rows=60)
    problem = NewtonProblem(phi, codes, loss=log_loss(2), fit_intercept=False)
    alpha, e = 0.5, np.random.default_rng(1).normal(size=(60, 1))
    gram = phi.gram()
    flat = np.full((60, 1), 1e4)
    step, _, _, promised, left, used = kpp.solvers.newton._conjugate_gradients(
        problem._objective, alpha, flat, (-e, -gram @ e, np.zeros(1)), 0.0, 5
    )
    assert used == 1
    np.testing.assert_array_equal(step, -e / alpha)
    assert promised == pytest.approx((e.T @ gram @ e).item() / (2 * alpha), rel=1e-12)
    assert left == 0.0


@pytest.mark.parametrize("alpha", [1e-6, 1.0, 1e3])
def test_no_direction_of_the_intercepts_is_flatter_than_alpha(alpha):
    # At the null model the Hessian of three intercepts is diag(p) - p p'.
    codes = np.repeat([0, 1, 2], [150, 147, 3])
    phi, _, _ = make(3)
    share = np.array([150, 147, 3]) / 300
    flattest = np.linalg.eigvalsh(np.diag(share) - np.outer(share, share))[1]
    objective = NewtonProblem(phi, codes, loss=log_loss(3))._objective
    assert objective.intercept_unit(alpha) * flattest >= alpha
    assert objective.intercept_unit(1e-6) == 1.0  # small alphas need no other unit


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3, 1e-4, 1e-6])
def test_the_objective_is_within_the_tolerance_of_its_minimum(way, tol):
    # Classes that a row's own leaf tells: the objective is small, and the tolerance is of itself.
    phi, _, _ = make(2)
    codes, alpha = phi.leaf_ids[0] % 2, 1e-9
    sign = np.where(codes == 1, 1.0, -1.0)

    def objective(path):
        w = phi.T @ path.dual[0, :, 0]
        score = phi @ w + path.intercept[0, 0]
        return np.logaddexp(0, -sign * score).mean() + alpha / 2 * w @ w

    least = objective(logistic_path(phi, codes, [alpha], tol=1e-13))
    path = logistic_path(phi, codes, [alpha], tol=tol)
    gap = objective(path) / least - 1
    assert least < 0.1
    assert -1e-12 <= gap <= path.residual[0] + 1e-12
    assert path.residual[0] <= tol


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("size", [10.0, 1e3, 1e5])
def test_a_start_far_off_does_not_matter(way, size, fit_intercept):
    # Where scores are large the loss is flat, and Newton's steps from there lead further away.
    phi, codes, _ = make(2)
    problem = NewtonProblem(phi, codes, loss=log_loss(2), fit_intercept=fit_intercept)
    problem.start_at(np.where(codes == 0, size, 0.0)[:, None], np.zeros(1))
    found = problem.solve([1e-3], tol=1e-15)
    expected = logistic_path(phi, codes, [1e-3], tol=1e-15, fit_intercept=fit_intercept)
    assert found.converged.all()
    assert found.dual == pytest.approx(expected.dual, abs=1e-5)


@pytest.mark.parametrize("last", [1e-6, 1e-8, 1e-10])
def test_an_alpha_far_below_the_others_is_solved_as_if_alone(last):
    # What is extrapolated from 1, 0.9 and 0.8 is far from anything there.
    X, codes = load_breast_cancer(return_X_y=True)
    phi = KPPEmbedding(n_estimators=10, random_state=0).fit(X, codes).map_.on(X)
    path = logistic_path(phi, codes, [1.0, 0.9, 0.8, last])
    alone = logistic_path(phi, codes, [last])
    assert path.converged.all()
    sign = np.where(codes == 1, 1.0, -1.0)
    found, expected = (
        np.logaddexp(0, -sign * (phi @ (phi.T @ v) + b)).mean()
        + last / 2 * np.square(phi.T @ v).sum()
        for v, b in (
            (path.dual[-1, :, 0], path.intercept[-1]),
            (alone.dual[0, :, 0], alone.intercept[0]),
        )
    )
    assert found == pytest.approx(expected, rel=2e-4)  # both within tol = 1e-4 of the least


def test_refused_alphas():
    phi, codes, _ = make(2)
    with pytest.raises(ValueError, match="alpha must be positive and finite"):
        logistic_path(phi, codes, [0.0])


def test_an_alpha_is_taken_up_where_it_was_left():
    phi, codes, weight = make(2)
    problem = NewtonProblem(phi, codes, weight, loss=log_loss(2))
    loose = problem.solve(ALPHAS, tol=1e-3)
    after = problem.solve([ALPHAS[0]], tol=1e-20)
    once = logistic_path(phi, codes, [ALPHAS[0]], weight, tol=1e-20)
    assert loose.residual.max() > 1e-20 >= after.residual.max()
    assert after.n_iter_by_alpha[0] < once.n_iter_by_alpha[0]
    np.testing.assert_allclose(phi.T @ after.dual[0], phi.T @ once.dual[0], atol=1e-7)
