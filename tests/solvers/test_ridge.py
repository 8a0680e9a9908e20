"""Ridge against scikit-learn's Ridge on the CSR and KernelRidge on the Gram."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from zoo import random_forest, random_node_weight, random_rows

import kpp.solvers.ridge
import kpp.solvers.vectors
from kpp.forest import Forest
from kpp.geometry import PathMap, path_weights
from kpp.solvers import RidgeProblem, ridge_path

ALPHAS = np.array([1e-2, 1e-3, 1.0])


def make(n_rows=400, n_targets=1):
    forest = random_forest(0, n_trees=8, most_splits=40)
    X = random_rows(0, n_rows=n_rows)
    phi = PathMap(forest, path_weights(forest, random_node_weight(0, forest))).on(X)
    rng = np.random.default_rng(0)
    y = 5 + X @ rng.normal(size=(3, n_targets)) + 0.1 * rng.normal(size=(n_rows, n_targets))
    return phi, y, rng.integers(0, 3, n_rows).astype(float)


@pytest.fixture(params=["dense", "krylov"])
def way(request, monkeypatch):
    set_way(monkeypatch, request.param)
    return request.param


def set_way(monkeypatch, way):
    monkeypatch.setattr(kpp.solvers.ridge, "DENSE_ROWS", 10**6 if way == "dense" else 0)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_against_scikit_learns_ridge(way, fit_intercept, weighted):
    phi, y, weight = make(n_targets=2)
    weight = weight if weighted else None
    path = ridge_path(phi, y, ALPHAS, weight, fit_intercept=fit_intercept, tol=1e-24)
    assert path.converged.all()
    dense = phi.to_csr().toarray()
    for k, alpha in enumerate(ALPHAS):
        other = Ridge(alpha, fit_intercept=fit_intercept, solver="svd").fit(dense, y, weight)
        w = phi.T @ path.dual[k]
        np.testing.assert_allclose(w.T, other.coef_, atol=1e-8 * np.abs(other.coef_).max())
        np.testing.assert_allclose(path.intercept[k], other.intercept_, atol=1e-8)
        # w = Phi' r, so predictions also come from the Gram: primal equals dual.
        np.testing.assert_allclose(phi @ w, phi.gram() @ path.dual[k], atol=1e-11)


def test_against_kernel_ridge(way):
    phi, y, weight = make()
    path = ridge_path(phi, y, ALPHAS, weight, fit_intercept=False, tol=1e-24)
    for k, alpha in enumerate(ALPHAS):
        other = KernelRidge(alpha=alpha, kernel="precomputed").fit(phi.gram(), y, weight)
        np.testing.assert_allclose(phi.gram() @ path.dual[k], other.predict(phi.gram()), atol=1e-8)


def test_rows_of_weight_zero_are_as_removed(way):
    phi, y, weight = make()
    kept = weight > 0
    a = ridge_path(phi, y, [0.1], weight, tol=1e-24)
    b = ridge_path(phi.rows(kept), y[kept], [0.1], weight[kept], tol=1e-24)
    assert not a.dual[0, ~kept].any()
    np.testing.assert_allclose(a.dual[0, kept], b.dual[0], atol=1e-9)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8, 13, 21, 34])
def test_the_objective_is_the_least_in_the_krylov_space_and_the_gap_is_true(monkeypatch, most):
    set_way(monkeypatch, "krylov")
    phi, y, _ = make()
    gram = phi.gram()
    gram -= gram.mean(axis=0)
    gram -= gram.mean(axis=1, keepdims=True)
    right = (y - y.mean(axis=0))[:, 0]
    # The space written out: b, A b, ..., A^(k-1) b, orthonormal.
    space = np.linalg.qr(krylov_vectors(gram, right, most))[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = ridge_path(phi, y, ALPHAS, tol=1e-30, max_iter=most)
    for k, alpha in enumerate(ALPHAS):

        def primal(u, alpha=alpha):
            return np.sum((right - gram @ u) ** 2) / 2 + alpha / 2 * u @ gram @ u

        def dual(u, alpha=alpha):
            return alpha * right @ u - alpha / 2 * (u @ gram @ u + alpha * u @ u)

        # The minimum over the space, as one least-squares problem: |b - A V c|^2 + alpha |R V c|^2.
        values, vectors = np.linalg.eigh(gram)
        root = np.sqrt(alpha * np.maximum(values, 0))[:, None] * vectors.T
        stacked = np.vstack([gram @ space, root @ space])
        best = np.linalg.lstsq(stacked, np.append(right, np.zeros(len(root))), rcond=None)[0]
        least = primal(space @ best)
        found = primal(path.dual[k, :, 0])
        assert found == pytest.approx(least, rel=1e-9)
        largest = dual(
            space
            @ np.linalg.solve(
                space.T @ gram @ space + alpha * np.eye(space.shape[1]), space.T @ right
            )
        )
        minimum = primal(np.linalg.solve(gram + alpha * np.eye(len(gram)), right))
        assert largest <= minimum * (1 + 1e-12) <= found * (1 + 1e-9)
        # The gap that is said is the difference of the two values, over the lower one.
        assert path.residual[k] == pytest.approx((least - largest) / largest, rel=1e-5, abs=1e-9)


def krylov_vectors(gram, right, n_vectors):
    """Lanczos vectors by plain Gram-Schmidt, done twice."""
    vectors = [right / np.linalg.norm(right)]
    for _ in range(n_vectors - 1):
        new = gram @ vectors[-1]
        for _ in range(2):
            for v in vectors:
                new = new - (v @ new) * v
        vectors.append(new / np.linalg.norm(new))
    return np.column_stack(vectors)


def test_the_gap_is_what_was_asked_for(monkeypatch):
    set_way(monkeypatch, "krylov")
    phi, y, _ = make()
    gram = phi.gram()
    gram -= gram.mean(axis=0)
    gram -= gram.mean(axis=1, keepdims=True)
    right = y - y.mean(axis=0)
    n_products = []
    for tol in (1e-1, 1e-4, 1e-8):
        path = ridge_path(phi, y, ALPHAS, tol=tol)
        n_products.append(path.n_iter)
        for k, alpha in enumerate(ALPHAS):
            exact = np.linalg.solve(gram + alpha * np.eye(len(gram)), right)
            values = [
                np.sum((right - gram @ u) ** 2) / 2 + alpha / 2 * np.sum(u * (gram @ u))
                for u in (path.dual[k], exact)
            ]
            assert values[0] <= (1 + tol) * values[1]
    assert n_products == sorted(set(n_products))


def test_one_alpha_more_costs_no_product(monkeypatch):
    set_way(monkeypatch, "krylov")
    phi, y, _ = make()
    alone = ridge_path(phi, y, [1e-4])
    many = ridge_path(phi, y, np.logspace(-4, 2, 30))
    assert many.n_iter == alone.n_iter
    np.testing.assert_allclose(many.dual[0], alone.dual[0], rtol=1e-12)


def test_a_second_call_goes_on_where_the_first_stopped(monkeypatch):
    set_way(monkeypatch, "krylov")
    monkeypatch.setattr(kpp.solvers.vectors, "VECTORS_AT_ONCE", 7)
    phi, y, weight = make(n_targets=2)
    dense = phi.to_csr().toarray()
    problem = RidgeProblem(phi, y, weight)
    with pytest.warns(ConvergenceWarning):
        first = problem.solve([*ALPHAS, 1e-5], tol=1e-2, max_iter=5)
    assert first.n_iter == 5
    later = problem.solve(ALPHAS[:2], tol=1e-20)  # the rest of some
    once = RidgeProblem(phi, y, weight).solve(ALPHAS[:2], tol=1e-20)
    assert later.n_iter == once.n_iter > 5
    np.testing.assert_allclose(later.dual, once.dual, rtol=1e-7, atol=1e-12)
    again = problem.solve(ALPHAS[:1], tol=1e-20)  # nothing is left to do
    assert again.n_iter == later.n_iter
    np.testing.assert_allclose(again.dual, later.dual[:1], rtol=1e-12)
    tighter = problem.solve(ALPHAS[:1], tol=1e-26)
    other = problem.solve([0.3], tol=1e-20)
    for path in (later, tighter, other):
        for k, alpha in enumerate(path.alphas):
            svd = Ridge(alpha, solver="svd").fit(dense, y, weight)
            fitted = phi @ (phi.T @ path.dual[k]) + path.intercept[k]
            np.testing.assert_allclose(fitted, svd.predict(dense), atol=1e-8)


@pytest.mark.parametrize("alpha", [1e-10, 1e-13])
def test_a_tiny_alpha_interpolates(way, alpha):
    # Deep trees tell all rows apart: the limit of alpha to 0 goes through every target.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 4)), 100 + 10 * rng.normal(size=80)
    forest = Forest.from_model(ExtraTreesRegressor(20, random_state=0).fit(X, y))
    phi = PathMap(forest, path_weights(forest)).on(X)
    path = ridge_path(phi, y, [alpha], tol=1e-9)
    fitted = phi @ (phi.T @ path.dual[0, :, 0]) + path.intercept[0]
    np.testing.assert_allclose(fitted, y, atol=1e-4)


def test_not_converged_is_said(monkeypatch):
    set_way(monkeypatch, "krylov")
    phi, y, _ = make()
    with pytest.warns(ConvergenceWarning, match=r"alpha = 1e-09 and below.*max_iter=5"):
        path = ridge_path(phi, y, [1e-9, 1e6], max_iter=5)
    assert path.converged.tolist() == [False, True]


def test_a_solution_without_a_gap_meets_any_tolerance():
    phi, y, _ = make()
    path = ridge_path(phi, y, [1.0], tol=0.0)  # few rows: diagonalised
    assert path.residual.tolist() == [0.0]
    assert path.converged.all()


def test_constant_targets(way):
    phi, y, _ = make()
    path = ridge_path(phi, np.full(len(y), 7.0), [0.1])
    assert not path.dual.any()
    assert path.intercept.tolist() == [[7.0]]


@pytest.mark.parametrize("alphas", [[], [0.0], [-1.0], [np.nan], [np.inf]])
def test_refused_alphas(alphas):
    phi, y, _ = make()
    with pytest.raises(ValueError, match="alpha must be positive and finite"):
        ridge_path(phi, y, alphas)
