r"""Shifted systems :math:`(A + \alpha I) u = b` for many alphas, from products with A."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kpp._typing import FloatArray
from kpp.solvers.vectors import NUMPY, Vectors


class KrylovSpace:
    r"""The Krylov space of a symmetric positive semidefinite A and a vector b.

    The Lanczos process gives an orthonormal basis V with :math:`b = \|b\| V e_1` and
    :math:`A V_k = V_k T_k + \beta_{k+1} v_{k+1} e_k^\top`, T tridiagonal, and it does not depend on
    alpha. For every alpha the iterate of conjugate gradients is
    :math:`u_k = \|b\| V_k (T_k + \alpha I)^{-1} e_1`.

    The basis is kept, and every new vector is made orthogonal to all before it. In floating point
    the process otherwise finds the same directions again and again: on real data that doubles or
    triples the number of products, and the products are what costs. Alphas that come later, and
    smaller tolerances, need no product that was made before.

    Parameters
    ----------
    product : callable
        ``u -> A u``.
    right : array of shape (n_rows,)
        b.
    vectors : Vectors
        How vectors over rows are added up.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.solvers import KrylovSpace
    >>> A = np.diag([1.0, 2.0, 3.0])
    >>> space = KrylovSpace(lambda u: A @ u, np.ones(3))
    >>> u, residual = space.solve(np.array([1.0]), tol=1e-12, max_products=3)
    >>> bool(np.allclose(u[0], [1 / 2, 1 / 3, 1 / 4]))
    True
    """

    def __init__(
        self,
        product: Callable[[FloatArray], FloatArray],
        right: FloatArray,
        vectors: Vectors = NUMPY,
    ) -> None:
        self._product = product
        self._right = right
        self._vectors = vectors
        self._norm = float(np.sqrt(vectors.dot(right, right)))
        self.n_products = 0
        self._basis = vectors.basis()
        self._diagonal: list[float] = []  # theta_1, theta_2, ...
        self._beside: list[float] = []  # beta_2, beta_3, ...
        if self._norm > 0:
            self._basis.append(right / self._norm)

    def solve(
        self, alphas: FloatArray, tol: float, max_products: int
    ) -> tuple[FloatArray, FloatArray]:
        """Solve for every alpha, with further products where they are needed.

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
        factors = _Factors(alphas, self._norm)
        # What earlier calls found serves these alphas too: factors cost numbers, not products.
        for theta, beta in zip(self._diagonal, self._beside, strict=True):
            factors.append(theta, beta)
        while factors.residual.max() > tol * self._norm and self.n_products < max_products:
            factors.append(*self._extend())
        return self._basis.combine(factors.coordinates()), factors.residual / self._norm

    def tridiagonal(self, n_steps: int) -> tuple[FloatArray, FloatArray]:
        r"""Return the first rows of T, with further products where they are needed.

        Parameters
        ----------
        n_steps : int
            k; fewer where the space is exhausted before.

        Returns
        -------
        diagonal : array of shape (k,)
            :math:`\theta_1, \dots, \theta_k`.
        beside : array of shape (k,)
            :math:`\beta_2, \dots, \beta_{k+1}`; the last is 0 where the space is exhausted.
        """
        while self._norm > 0 and len(self._diagonal) < n_steps and not self._is_exhausted:
            self._extend()
        return np.array(self._diagonal[:n_steps]), np.array(self._beside[:n_steps])

    @property
    def _is_exhausted(self) -> bool:
        return bool(self._beside) and self._beside[-1] == 0.0

    def _extend(self) -> tuple[float, float]:
        """One product more: the next column of T, and the next vector."""
        k = len(self._diagonal)
        vector = self._basis[k]
        following = self._product(vector)
        self.n_products += 1
        theta = self._vectors.dot(vector, following)
        # The three-term recurrence: A v_k = beta_k v_{k-1} + theta_k v_k + beta_{k+1} v_{k+1}.
        following -= theta * vector
        if k:
            following -= self._beside[-1] * self._basis[k - 1]
        # In exact arithmetic nothing is left to remove; see the class on what rounding does without
        # it.
        self._basis.remove_from(following, k + 1)
        beta = float(np.sqrt(self._vectors.dot(following, following)))
        # Below the rounding of the product itself what is left is noise. With beta 0 the next z and
        # the residual are exactly 0, and `solve` stops.
        if beta <= np.finfo(float).eps * max(abs(theta), *self._diagonal[:1], 0.0):
            beta = 0.0  # the space is exhausted: the solutions are exact
        else:
            self._basis.append(following / beta)
        self._diagonal.append(theta)
        self._beside.append(beta)
        return theta, beta


class _Factors:
    r"""The factors of :math:`T_k + \alpha I = L \Delta L^\top` for every alpha, as k grows.

    .. math::
        \delta_k = \theta_k + \alpha - \beta_k \ell_k, \quad \ell_{k+1} = \beta_{k+1} / \delta_k,
        \quad z_{k+1} = -\ell_{k+1} z_k

    with :math:`z_1 = \|b\|`. The residual of :math:`u_k` is :math:`|z_{k+1}|`.
    """

    def __init__(self, alphas: FloatArray, norm: float) -> None:
        self._alphas = alphas
        self._pivots: list[FloatArray] = []
        self._ratios: list[FloatArray] = []
        self._z = [np.full(len(alphas), norm)]
        self._beta = 0.0

    def append(self, theta: float, beta: float) -> None:
        ratio = self._ratios[-1] if self._ratios else 0.0
        # T + alpha I is positive definite for alpha > 0, so pivots are positive and nothing is
        # exchanged.
        pivot = theta + self._alphas - self._beta * ratio
        self._pivots.append(pivot)
        self._ratios.append(beta / pivot)
        self._z.append(-self._ratios[-1] * self._z[-1])
        self._beta = beta

    @property
    def residual(self) -> FloatArray:
        return np.abs(self._z[-1])

    def coordinates(self) -> FloatArray:
        """Coordinates of each solution in the basis, shape (n_alphas, k)."""
        out = np.zeros((len(self._pivots), len(self._alphas)))
        # Backward substitution in L' x = Delta^-1 z.
        following: FloatArray | float = 0.0
        for k in range(len(self._pivots) - 1, -1, -1):
            out[k] = following = self._z[k] / self._pivots[k] - self._ratios[k] * following
        return out.T
