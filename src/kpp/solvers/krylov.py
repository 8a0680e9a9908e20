r"""Shifted systems :math:`(A + \alpha I) u = b` for many alphas, from products with A."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kpp._typing import FloatArray

# Most vectors that are kept. A basis of n_rows x 300 is a fraction of an unpruned forest's tables.
MAX_BASIS = 300


class KrylovSpace:
    r"""The Krylov space of a symmetric positive semidefinite A and a vector b.

    The Lanczos process gives an orthonormal basis V with :math:`b = \|b\| V e_1` and
    :math:`A V_k = V_k T_k + \beta_{k+1} v_{k+1} e_k^\top`, T tridiagonal. For every alpha the
    iterate of conjugate gradients is :math:`u_k = \|b\| V_k (T_k + \alpha I)^{-1} e_1`, and its
    residual is a multiple of :math:`v_{k+1}`.

    Every new vector is made orthogonal to all before it. In floating point the process otherwise
    finds the same directions again and again: on real data that doubles the number of products,
    and the products are what costs. When the basis is full it starts anew from :math:`v_{k+1}`,
    which is the residual of every alpha.

    Parameters
    ----------
    product : callable
        ``u -> A u``.
    right : array of shape (n_rows,)
        b.
    """

    def __init__(self, product: Callable[[FloatArray], FloatArray], right: FloatArray) -> None:
        self._product = product
        self._right = right
        self._norm = float(np.linalg.norm(right))
        self.n_products = 0
        self._start(right, self._norm)
        # Alphas whose earlier bases were given up, and what those had solved and left.
        self._solved: dict[float, tuple[FloatArray, float]] = {}

    def _start(self, vector: FloatArray, norm: float) -> None:
        self._basis = np.empty((MAX_BASIS + 1, len(vector)))  # untouched pages take no memory
        if norm > 0:
            self._basis[0] = vector / norm
        self._diagonal: list[float] = []
        self._beside: list[float] = []  # beta_2, beta_3, ...

    def solve(
        self, alphas: FloatArray, tol: float, max_products: int
    ) -> tuple[FloatArray, FloatArray]:
        r"""Solve for every alpha, with further products where they are needed.

        Parameters
        ----------
        alphas : array of shape (n_alphas,)
            Shifts, positive.
        tol : float
            Relative residual to reach.
        max_products : int
            Most products, those of earlier calls included.

        Returns
        -------
        solution : array of shape (n_alphas, n_rows)
        residual : array of shape (n_alphas,)
            Relative to b.
        """
        if self._norm == 0:
            return np.zeros((len(alphas), len(self._right))), np.zeros(len(alphas))
        if self._solved and not all(alpha in self._solved for alpha in alphas):
            # The bases that these alphas would need are gone.
            self._solved.clear()
            self._start(self._right, self._norm)
        before = [self._solved.get(alpha, (0.0, self._norm)) for alpha in alphas]
        earlier, start = np.array([s for s, _ in before]), np.array([left for _, left in before])
        factors = _Factors(alphas, start)
        for theta, beta in zip(self._diagonal, self._beside, strict=True):
            factors.append(theta, beta)
        while factors.residual.max() > tol * self._norm and self.n_products < max_products:
            if len(self._diagonal) == MAX_BASIS:
                earlier = earlier.reshape(len(alphas), -1) + self._combine(factors)
                self._solved = {
                    alpha: (u, left)
                    for alpha, u, left in zip(alphas, earlier, factors.last, strict=True)
                }
                self._start(self._basis[MAX_BASIS], 1.0)
                factors = _Factors(alphas, factors.last)
            factors.append(*self._extend())
        solution = earlier.reshape(len(alphas), -1) + self._combine(factors)
        return solution, factors.residual / self._norm

    def _extend(self) -> tuple[float, float]:
        """One product more: the next column of T, and the next vector."""
        k = len(self._diagonal)
        vector = self._basis[k]
        following = self._product(vector)
        self.n_products += 1
        theta = float(vector @ following)
        following -= theta * vector
        if k:
            following -= self._beside[-1] * self._basis[k - 1]
        known = self._basis[: k + 1]
        following -= (known @ following) @ known
        beta = float(np.sqrt(following @ following))
        if beta <= np.finfo(float).eps * max(abs(theta), *self._diagonal[:1], 0.0):
            beta = 0.0  # the space is exhausted: the solutions are exact
        else:
            self._basis[k + 1] = following / beta
        self._diagonal.append(theta)
        self._beside.append(beta)
        return theta, beta

    def _combine(self, factors: _Factors) -> FloatArray:
        return factors.coordinates() @ self._basis[: len(factors)]


class _Factors:
    r"""The factors of :math:`T_k + \alpha I = L \Delta L^\top` for every alpha, as k grows.

    .. math::
        \delta_k = \theta_k + \alpha - \beta_k \ell_k, \quad \ell_{k+1} = \beta_{k+1} / \delta_k,
        \quad z_{k+1} = -\ell_{k+1} z_k

    with :math:`z_1` the norm of b. The residual of :math:`u_k` is :math:`|z_{k+1}|`.
    """

    def __init__(self, alphas: FloatArray, start: FloatArray) -> None:
        self._alphas = alphas
        self._pivots: list[FloatArray] = []
        self._ratios: list[FloatArray] = []
        self._z = [start]
        self._beta = 0.0

    def __len__(self) -> int:
        return len(self._pivots)

    def append(self, theta: float, beta: float) -> None:
        ratio = self._ratios[-1] if self._ratios else 0.0
        pivot = theta + self._alphas - self._beta * ratio
        self._pivots.append(pivot)
        self._ratios.append(beta / pivot)
        self._z.append(-self._ratios[-1] * self._z[-1])
        self._beta = beta

    @property
    def last(self) -> FloatArray:
        """Factor of the next vector in the residual of each alpha."""
        return self._z[-1]

    @property
    def residual(self) -> FloatArray:
        return np.abs(self.last)

    def coordinates(self) -> FloatArray:
        """Coordinates of each solution in the basis, shape (n_alphas, k)."""
        out = np.zeros((len(self), len(self._alphas)))
        following: FloatArray | float = 0.0
        for k in range(len(self) - 1, -1, -1):
            out[k] = following = self._z[k] / self._pivots[k] - self._ratios[k] * following
        return out.T
