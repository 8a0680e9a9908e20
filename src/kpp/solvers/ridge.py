r"""Ridge regression on a map, for a whole grid of alphas, from products with its Gram.

.. math::
    \min_{w, b}\; \tfrac12 \sum_i s_i \bigl(y_i - \langle w, \Phi_i \rangle - b\bigr)^2
    + \tfrac{\alpha}{2} \|w\|^2

With :math:`D = \mathrm{diag}(s)` and rows centred by their weighted mean, the solution is
:math:`w = \Phi^\top r`, :math:`r = D^{1/2} u`, where u solves

.. math::
    (A + \alpha I)\, u = D^{1/2} (y - \bar y), \qquad
    A = D^{1/2} (\Phi - 1 \bar\phi^\top)(\Phi - 1 \bar\phi^\top)^\top D^{1/2} .

Everything happens among vectors of length n. The right-hand side is orthogonal to
:math:`D^{1/2} 1`, which A maps to 0, so the iterates stay orthogonal to it; hence r sums to 0,
and centring costs one subtraction.

The alphas share one Krylov space, which does not depend on alpha (`kpp.solvers.krylov`): a hundred
alphas cost as many products as the smallest one alone.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kpp._parallel import one_blas_thread
from kpp._typing import FloatArray
from kpp.solvers.krylov import KrylovSpace
from kpp.solvers.problem import (
    DENSE_ROWS,
    Embedding,
    Product,
    Solutions,
    check_alphas,
    row_weight,
)
from kpp.solvers.vectors import vectors_of


def ridge_path(
    block: Embedding,
    y: Any,
    alphas: Any,
    sample_weight: Any = None,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> Solutions:
    r"""Solve ridge regression for every alpha.

    Parameters
    ----------
    block : Embedding
        The embedding at the rows of the fit.
    y : array of shape (n_rows,) or (n_rows, n_targets)
        Targets.
    alphas : array-like of shape (n_alphas,)
        Penalties, positive. The loss is summed: scikit-learn's ``Ridge(alpha=...)``.
    sample_weight : array of shape (n_rows,), optional
        Nonnegative weights.
    fit_intercept : bool
        Whether b is fitted, unpenalised; otherwise it is 0.
    tol : float
        An alpha is done when its objective is at most ``1 + tol`` times the minimum, as a duality
        gap shows.
    max_iter : int
        Most products with the Gram, per target.

    Returns
    -------
    path : Solutions

    Warns
    -----
    ConvergenceWarning
        If some alpha is not done after `max_iter` products.

    References
    ----------
    Appendix on the ridge primal-dual identity.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from kpp import KPPEmbedding
    >>> from kpp.solvers import ridge_path
    >>> X, y = load_diabetes(return_X_y=True)
    >>> phi = KPPEmbedding(n_estimators=10, random_state=0).fit(X, y).map_.on(X)
    >>> path = ridge_path(phi, y, [0.1, 1.0])
    >>> w = phi.T @ path.dual[1, :, 0]
    >>> other = Ridge(alpha=1.0, tol=1e-10).fit(phi.to_csr(), y)
    >>> bool(abs(phi @ w + path.intercept[1] - other.predict(phi.to_csr())).max() < 1e-4)
    True
    """
    problem = RidgeProblem(block, y, sample_weight, fit_intercept=fit_intercept)
    return problem.solve(alphas, tol=tol, max_iter=max_iter)


class RidgeProblem:
    """Ridge regression of given rows, for one set of alphas after another.

    What was learned for some alphas serves the next ones: a smaller tolerance, more products or
    other alphas go on where the last call stopped.

    Parameters
    ----------
    block, y, sample_weight, fit_intercept
        As in `ridge_path`.
    """

    @one_blas_thread()
    def __init__(
        self, block: Embedding, y: Any, sample_weight: Any = None, *, fit_intercept: bool = True
    ) -> None:
        vectors = vectors_of(block)
        y = vectors.floats(y)
        targets = y.reshape(len(y), -1)
        n_rows = block.shape[0]
        weight = row_weight(sample_weight, n_rows, vectors)
        self._vectors, self._has_intercept = vectors, fit_intercept
        self._root = np.sqrt(weight)
        self._share = weight / vectors.total(weight) if fit_intercept else vectors.zeros((n_rows,))
        self._center = self._share @ targets
        if fit_intercept:
            # The mean of equal numbers is rounded; what is left of them is 0, not noise.
            least = targets.min(axis=0)
            self._center = np.where(least == targets.max(axis=0), least, self._center)
        # D^(1/2) (y - mean): orthogonal to D^(1/2) 1, and with it the whole Krylov space.
        right = self._root[:, None] * (targets - self._center)
        self._dense, self._spaces = None, []
        if n_rows <= DENSE_ROWS and vectors.writes_grams:
            gram_product: Product = block.gram_matvec
            self._dense = _Diagonalised(block.gram(), self._root, self._share, right)
        else:
            gram_product = block.gram_operator()
            # No reference back to this object: bases are large, and go when it goes.
            product = partial(_centred_product, gram_product, self._root, self._share)
            columns = [right[:, k] for k in range(right.shape[1])]
            self._spaces = [KrylovSpace(product, column, vectors) for column in columns]
        # b = mean(y) - <w, mean row>; with w = Phi' r the mean of Phi w is share' G r.
        self._mean_gram = gram_product(self._share) if fit_intercept else self._share

    def start_at(self, dual: FloatArray, intercept: FloatArray) -> None:
        """Do nothing: the Krylov space starts at the target, and serves every alpha."""

    @one_blas_thread()
    def solve(
        self, alphas: Any, *, tol: float = 1e-4, max_iter: int = 1000, warn: bool = True
    ) -> Solutions:
        """Solve for every alpha; parameters, result and warning as in `ridge_path`."""
        alphas = check_alphas(alphas)
        if self._dense is not None:
            solutions = self._dense.solve(alphas)
            n_iter, residual = 0, np.zeros(len(alphas))
        else:
            solved = [space.solve(alphas, tol, max_iter) for space in self._spaces]
            solutions = np.stack([u for u, _ in solved], axis=2)
            n_iter = max(space.n_products for space in self._spaces)
            residual = np.maximum.reduce([left for _, left in solved])
        converged = residual <= tol
        if warn and not converged.all():
            warnings.warn(
                f"Ridge did not converge for alpha = {alphas[~converged].max():.3g} and below: "
                f"the relative duality gap is above tol={tol:.1g} after max_iter={max_iter} "
                "products. Raise alpha or max_iter, or loosen tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        if self._has_intercept:
            # The solution is orthogonal to D^(1/2) 1, which A maps to 0. For a tiny alpha rounding
            # along it is divided by alpha, and G, unlike A, does not map it to 0.
            unit = self._root / np.sqrt(self._vectors.dot(self._root, self._root))
            solutions -= unit[None, :, None] * np.einsum("i,aij->aj", unit, solutions)[:, None]
        dual = self._root[None, :, None] * solutions
        intercept = self._center - np.einsum("i,aij->aj", self._mean_gram, dual)
        return Solutions(alphas, dual, intercept, n_iter, residual, converged)


def _centred_product(
    gram_product: Product,
    root: FloatArray,
    share: FloatArray,
    u: FloatArray,
) -> FloatArray:
    """A u."""
    # A = D^(1/2) C G C' D^(1/2) with C = I - 1 share'. The inner C' does nothing here: root * u
    # sums to 0 for every u that the process meets.
    product = gram_product(root * u)
    return root * (product - share @ product)


class _Diagonalised:
    """Diagonalise A once; every alpha is then a division."""

    def __init__(
        self, gram: FloatArray, root: FloatArray, share: FloatArray, right: FloatArray
    ) -> None:
        # C G, then (C G) C'. In place: this Gram was written out for us.
        gram -= share @ gram
        gram -= (gram @ share)[:, None]
        values, self._vectors = np.linalg.eigh(root[:, None] * gram * root)
        # A is positive semidefinite; a negative rounding error close to -alpha would blow up.
        self._values = np.maximum(values, 0.0)
        self._right = self._vectors.T @ right

    def solve(self, alphas: FloatArray) -> FloatArray:
        inverse = 1.0 / (self._values + alphas[:, None])
        return np.einsum("ij,aj,jt->ait", self._vectors, inverse, self._right, optimize=True)
