"""The seam between solvers and vectors: a map may bring vectors of its own."""

import numpy as np
import pytest
from zoo import random_forest, random_node_weight, random_rows

import kpp.solvers.newton
import kpp.solvers.ridge
from kpp.geometry import PathMap, path_weights
from kpp.solvers import KrylovSpace, logistic_path, ridge_path
from kpp.solvers.vectors import NumpyBasis, NumpyVectors


class CountingVectors(NumpyVectors):
    """Adds up rows in two parts, as two workers would, and counts what it is asked."""

    def __init__(self):
        self.n_dots = self.n_bases = 0

    def dot(self, a, b):
        self.n_dots += 1
        half = len(a) // 2
        return float(np.vdot(a[:half], b[:half]) + np.vdot(a[half:], b[half:]))

    def column_sums(self, a):
        half = len(a) // 2
        return a[:half].sum(axis=0) + a[half:].sum(axis=0)

    def basis(self):
        self.n_bases += 1
        return NumpyBasis()


@pytest.fixture
def phi(monkeypatch):
    for solver in (kpp.solvers.newton, kpp.solvers.ridge):
        monkeypatch.setattr(solver, "DENSE_ROWS", 0)
    forest = random_forest(0, n_trees=6)
    return PathMap(forest, path_weights(forest, random_node_weight(0, forest))).on(
        random_rows(0, n_rows=80)
    )


@pytest.mark.parametrize("path", [ridge_path, logistic_path])
def test_solvers_ask_the_vectors_of_the_map(phi, path):
    y = (np.arange(80) % 3 == 0).astype(int)
    expected = path(phi, y, [1e-2], tol=1e-10)
    phi.vectors = CountingVectors()
    solved = path(phi, y, [1e-2], tol=1e-10)
    np.testing.assert_allclose(solved.dual, expected.dual, atol=1e-9 * np.abs(expected.dual).max())
    assert phi.vectors.n_dots > solved.n_iter
    assert phi.vectors.n_bases == (path is ridge_path)


def test_the_tridiagonal_matrix_is_the_projection():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(12, 12))
    A, b = root @ root.T, rng.normal(size=12)
    diagonal, beside = KrylovSpace(lambda u: A @ u, b).tridiagonal(5)
    T = np.diag(diagonal) + np.diag(beside[:4], 1) + np.diag(beside[:4], -1)
    # The first moments b' A^p b are those of T, by which it is defined.
    for power in range(9):
        moment = b @ np.linalg.matrix_power(A, power) @ b
        assert moment == pytest.approx(b @ b * np.linalg.matrix_power(T, power)[0, 0], rel=1e-10)


def test_an_exhausted_space_ends():
    A = np.diag([1.0, 1.0, 2.0])
    diagonal, beside = KrylovSpace(lambda u: A @ u, np.ones(3)).tridiagonal(3)
    assert len(diagonal) == 2  # two different eigenvalues
    assert beside[-1] == 0
