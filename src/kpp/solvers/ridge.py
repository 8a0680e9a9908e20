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

The alphas share one Krylov space: the Lanczos process does not depend on alpha, and for each
alpha the factors of its tridiagonal matrix give the iterate of conjugate gradients by a short
recurrence. A hundred alphas cost as many products as the smallest one alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kpp._typing import BoolArray, FloatArray
from kpp.geometry.maps import MapBlock
from kpp.solvers._loops import advance

# Up to this many rows the Gram is diagonalised: exact for every alpha, and faster than iterating.
DENSE_ROWS = 256


@dataclass(frozen=True, eq=False)
class RidgePath:
    r"""Solutions for each alpha and target.

    Parameters
    ----------
    alphas : array of shape (n_alphas,)
        In the order given.
    dual : array of shape (n_alphas, n_rows, n_targets)
        r, with :math:`w = \Phi^\top r`.
    intercept : array of shape (n_alphas, n_targets)
        b.
    n_iter : int
        Products with the Gram, 0 for the dense way.
    residual : array of shape (n_alphas,)
        Residual of the linear system relative to its right-hand side, the largest over targets.
    converged : bool array of shape (n_alphas,)
        Whether it fell below the tolerance.
    """

    alphas: FloatArray
    dual: FloatArray
    intercept: FloatArray
    n_iter: int
    residual: FloatArray
    converged: BoolArray


def ridge_path(
    block: MapBlock,
    y: Any,
    alphas: Any,
    sample_weight: Any = None,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> RidgePath:
    r"""Solve ridge regression for every alpha.

    Parameters
    ----------
    block : MapBlock
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
        An alpha is done when the residual of its linear system is at most `tol` times the
        right-hand side.
    max_iter : int
        Most products with the Gram, per target.

    Returns
    -------
    path : RidgePath

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
    y = np.asarray(y, dtype=np.float64)
    targets = y.reshape(len(y), -1)
    alphas = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    if alphas.size == 0 or not (alphas > 0).all() or not np.isfinite(alphas).all():
        raise ValueError(f"alpha must be positive and finite; got {alphas}.")
    n_rows = block.shape[0]
    weight = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, float)
    root = np.sqrt(weight)
    share = weight / weight.sum() if fit_intercept else np.zeros(n_rows)
    center = share @ targets
    constant = np.ptp(targets, axis=0) == 0
    if fit_intercept:
        # The mean of equal numbers is rounded; what is left of them is 0, not noise.
        center = np.where(constant, targets[0], center)
    right = root[:, None] * (targets - center)

    def operator(u: FloatArray) -> FloatArray:
        product = block.gram_matvec(root * u)
        return root * (product - share @ product)

    if n_rows <= DENSE_ROWS:
        solutions = _solve_dense(block, root, share, right, alphas)
        n_iter, residual = 0, np.zeros(len(alphas))
    else:
        solved = [_solve_krylov(operator, b, alphas, tol, max_iter) for b in right.T]
        solutions = np.stack([u for u, _, _ in solved], axis=2)
        n_iter = max(k for _, k, _ in solved)
        residual = np.maximum.reduce([left for _, _, left in solved])
    converged = residual <= tol
    if not converged.all():
        warnings.warn(
            f"Ridge did not converge for alpha = {alphas[~converged].max():.3g} and below: the "
            f"relative residual is above tol={tol:.1g} after max_iter={max_iter} products. "
            "Raise alpha or max_iter, or loosen tol.",
            ConvergenceWarning,
            stacklevel=2,
        )
    dual = root[None, :, None] * solutions
    # b = mean(y) - <w, mean row>; with w = Phi' r the mean of Phi w is share' G r.
    intercept = np.zeros((len(alphas), targets.shape[1]))
    if fit_intercept:
        mean_gram = block.gram_matvec(share)
        intercept = center - np.einsum("i,aij->aj", mean_gram, dual)
    return RidgePath(alphas, dual, intercept, n_iter, residual, converged)


def _solve_dense(
    block: MapBlock, root: FloatArray, share: FloatArray, right: FloatArray, alphas: FloatArray
) -> FloatArray:
    """Diagonalise A once; every alpha is then a division."""
    gram = block.gram()
    gram -= share @ gram
    gram -= (gram @ share)[:, None]
    values, vectors = np.linalg.eigh(root[:, None] * gram * root)
    inverse = 1.0 / (np.maximum(values, 0.0) + alphas[:, None])
    return np.einsum("ij,aj,jt->ait", vectors, inverse, vectors.T @ right, optimize=True)


def _solve_krylov(
    operator: Callable[[FloatArray], FloatArray],
    right: FloatArray,
    alphas: FloatArray,
    tol: float,
    max_iter: int,
) -> tuple[FloatArray, int, FloatArray]:
    r"""Solve :math:`(A + \alpha I) u = b` for every alpha from one Lanczos process.

    With :math:`A V_k = V_k T_k + \beta_{k+1} v_{k+1} e_k^\top` and
    :math:`T_k + \alpha I = L \Delta L^\top`, the iterate is
    :math:`u_k = u_{k-1} + (z_k / \delta_k)\, p_k` with

    .. math::
        \delta_k = \theta_k + \alpha - \beta_k^2 / \delta_{k-1}, \quad
        \ell_k = \beta_k / \delta_{k-1}, \quad
        p_k = v_k - \ell_k p_{k-1}, \quad z_k = -\ell_k z_{k-1}

    and its residual is :math:`\beta_{k+1} |z_k| / \delta_k`: conjugate gradients.
    """
    n_alphas, n_rows = len(alphas), len(right)
    solution = np.zeros((n_alphas, n_rows))
    norm = float(np.linalg.norm(right))
    if norm == 0:
        return solution, 0, np.zeros(n_alphas)
    # In rising order: the systems that are not done are always the first ones.
    order = np.argsort(alphas, kind="stable")
    shift = alphas[order]
    v, v_before, beta = right / norm, np.zeros(n_rows), 0.0
    direction = np.zeros((n_alphas, n_rows))
    ratio, z = np.zeros(n_alphas), np.full(n_alphas, norm)
    n_active, n_iter, residual = n_alphas, 0, np.ones(n_alphas)
    while n_active and n_iter < max_iter:
        n_iter += 1
        following = operator(v) - beta * v_before
        theta = float(v @ following)
        following -= theta * v
        pivot = theta + shift - beta * ratio
        advance(v, ratio, z / pivot, n_active, direction, solution)
        beta = float(np.sqrt(following @ following))
        ratio = beta / pivot
        z = -ratio * z
        # The residual of this iterate is |z| of the next one.
        residual[:n_active] = np.abs(z[:n_active]) / norm
        if beta <= np.finfo(float).eps * abs(theta):
            residual[:n_active] = 0.0  # the Krylov space is exhausted: the solution is exact
        while n_active and residual[n_active - 1] <= tol:
            n_active -= 1
        if n_active:
            v_before, v = v, following / beta
    by_alpha, residual_by_alpha = np.empty_like(solution), np.empty(n_alphas)
    by_alpha[order], residual_by_alpha[order] = solution, residual
    return by_alpha, n_iter, residual_by_alpha
