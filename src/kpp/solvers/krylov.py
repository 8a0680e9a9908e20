r"""Shifted systems :math:`(A + \alpha I) u = b` for many alphas, from products with A."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kpp._parallel import one_blas_thread
from kpp._typing import FloatArray
from kpp.solvers.vectors import NUMPY, Vectors


class KrylovSpace:
    r"""The Krylov space of a symmetric positive semidefinite A and a vector b.

    For every alpha it holds a good approximation to the minimum of

    .. math::
        P(u) = \tfrac12 \|b - A u\|^2 + \tfrac{\alpha}{2} u^\top A u ,

    which is ridge regression, :math:`w = \Phi^\top u` with :math:`A = \Phi \Phi^\top`; the minimum
    is at :math:`(A + \alpha I) u = b`. The Lanczos process gives an orthonormal basis V with
    :math:`b = \|b\| V e_1` and :math:`A V_k = V_k T_k + \beta_{k+1} v_{k+1} e_k^\top`, T
    tridiagonal, and it does not depend on alpha. In the span of V the iterate that minimises P is
    found from T alone (`_Iterates`), and so is the largest value of the dual problem

    .. math::
        D(u) = \alpha b^\top u - \tfrac{\alpha}{2} u^\top (A + \alpha I) u \le \min P .

    Their difference bounds how far P is from its minimum, and `solve` stops by it.

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
    >>> u, gap = space.solve(np.array([1.0]), tol=1e-12, max_products=3)
    >>> bool(np.allclose(u[0], [1 / 2, 1 / 3, 1 / 4]))
    True
    """

    @one_blas_thread()
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

    @one_blas_thread()
    def solve(
        self, alphas: FloatArray, tol: float, max_products: int
    ) -> tuple[FloatArray, FloatArray]:
        """Solve for every alpha, with further products where they are needed.

        Parameters
        ----------
        alphas : array of shape (n_alphas,)
            Shifts, positive.
        tol : float
            Relative duality gap to reach: P is then at most ``1 + tol`` times its minimum.
        max_products : int
            Most products, those of earlier calls included.

        Returns
        -------
        solution : array of shape (n_alphas, n_rows)
        gap : array of shape (n_alphas,)
            Relative duality gaps.
        """
        if self._norm == 0:
            shape = (len(alphas), len(self._right))
            return self._vectors.zeros(shape, axis=1), np.zeros(len(alphas))
        iterates = _Iterates(alphas, self._norm)
        # What earlier calls found serves these alphas too: the iterates cost numbers, not products.
        for theta, beta in zip(self._diagonal, self._beside, strict=True):
            iterates.append(theta, beta)
        while iterates.gap.max() > tol and self.n_products < max_products:
            iterates.append(*self._extend())
        return self._basis.combine(iterates.coordinates()), iterates.gap

    @one_blas_thread()
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
        later = self._vectors.dot_later(vector, following)
        # The three-term recurrence: A v_k = beta_k v_{k-1} + theta_k v_k + beta_{k+1} v_{k+1}.
        following -= later * vector
        if k:
            following -= self._beside[-1] * self._basis[k - 1]
        # In exact arithmetic nothing is left to remove; see the class on what rounding does without
        # it.
        self._basis.remove_from(following, k + 1)
        square = self._vectors.dot_later(following, following)
        theta, square = self._vectors.known(later, square)
        beta = float(np.sqrt(square))
        # Below the rounding of the product itself what is left is noise. With beta 0 the next z and
        # the residual are exactly 0, and `solve` stops.
        if beta <= np.finfo(float).eps * max(abs(theta), *self._diagonal[:1], 0.0):
            beta = 0.0  # the space is exhausted: the solutions are exact
        else:
            self._basis.append(following / beta)
        self._diagonal.append(theta)
        self._beside.append(beta)
        return theta, beta


class _Iterates:
    r"""For every alpha the iterate :math:`V_k c` that minimises P, and its duality gap, as k grows.

    With :math:`T_k + \alpha I = L \Delta L^\top`,

    .. math::
        \delta_k = \theta_k + \alpha - \beta_k \ell_k, \quad \ell_{k+1} = \beta_{k+1} / \delta_k,
        \quad z_{k+1} = -\ell_{k+1} z_k, \quad z_1 = \|b\| ,

    the iterate of conjugate gradients is :math:`a = L^{-\top} \Delta^{-1} z`. It maximises D, whose
    value is :math:`\tfrac{\alpha}{2} \sum_j z_j^2 / \delta_j`. The minimum of P over the same space
    has :math:`(T_k^2 + \beta_{k+1}^2 e_k e_k^\top + \alpha T_k)\, c = \|b\| T_k e_1`. Multiplied by
    the inverse of :math:`T_k` that is the system of a with one rank more, so that with
    :math:`q = (T_k + \alpha I)^{-1} e_k`, :math:`T_k = L_0 \Delta_0 L_0^\top` and
    :math:`h = L_0^{-\top} e_k`, the last pivots :math:`\delta` and :math:`\delta_0`, and
    :math:`\beta = \beta_{k+1}`,

    .. math::
        c = a - \frac{\beta^2 a_k}{N} (h - \delta_0 q), \quad
        P(c) - D(a) = \frac{\alpha \delta_0 \beta^2 a_k^2}{2 N}, \quad
        N = \alpha \delta_0 + \beta^2 (1 - \delta_0 / \delta) .

    Nothing is divided by :math:`\delta_0`, which is close to 0 where A is singular, and the gap is
    a product of numbers that are not negative: no digits are lost as it falls.
    """

    def __init__(self, alphas: FloatArray, norm: float) -> None:
        self._alphas = alphas
        self._norm = norm
        self._pivots: list[FloatArray] = []
        self._ratios: list[FloatArray] = []
        self._bare_pivot, self._bare_ratios = 0.0, [0.0]  # of T itself
        self._z = [np.full(len(alphas), norm)]
        self._beta = 0.0
        self._dual_value = np.zeros(len(alphas))
        # Before the first product P(0) is known and D is not: no tolerance is reached.
        self.gap = np.full(len(alphas), np.inf)

    def append(self, theta: float, beta: float) -> None:
        """Take the next column of T: its diagonal entry, and the one below."""
        ratio = self._ratios[-1] if self._ratios else 0.0
        # T + alpha I is positive definite for alpha > 0, so pivots are positive and nothing is
        # exchanged.
        pivot = theta + self._alphas - self._beta * ratio
        # T itself may be singular to rounding; its pivots are not negative.
        bare = max(theta - self._beta * self._bare_ratios[-1], np.finfo(float).eps * abs(theta))
        last = self._z[-1] / pivot  # the last coordinate of conjugate gradients
        self._dual_value += self._alphas / 2 * self._z[-1] * last
        self._pivots.append(pivot)
        self._ratios.append(beta / pivot)
        self._bare_pivot = bare
        self._bare_ratios.append(beta / bare if bare > 0 else 0.0)
        self._z.append(-self._ratios[-1] * self._z[-1])
        self._beta = beta
        gap = self._alphas * bare * np.square(beta * last) / (2 * self._scale())
        self.gap = gap / self._dual_value

    def coordinates(self) -> FloatArray:
        """Coordinates of each iterate in the basis, shape (n_alphas, k)."""
        n = len(self._pivots)
        out = np.zeros((n, len(self._alphas)))
        # Backward substitution in L' a = Delta^-1 z, L' q = e_k / delta and L_0' h = e_k.
        a = self._z[n - 1] / self._pivots[-1]
        q, h = 1.0 / self._pivots[-1], 1.0
        factor = self._beta**2 * a / self._scale()
        for k in range(n - 1, -1, -1):
            if k < n - 1:
                a = self._z[k] / self._pivots[k] - self._ratios[k] * a
                q, h = -self._ratios[k] * q, -self._bare_ratios[k + 1] * h
            out[k] = a - factor * (h - self._bare_pivot * q)
        return out.T

    def _scale(self) -> FloatArray:
        """N; 1 where the space is exhausted and A singular, when nothing is left to correct."""
        scale = self._alphas * self._bare_pivot
        scale = scale + self._beta**2 * (1.0 - self._bare_pivot / self._pivots[-1])
        return np.where(scale > 0, scale, 1.0)
