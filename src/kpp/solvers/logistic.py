r"""Logistic regression on a map, binary and multinomial, from products with its Gram.

.. math::
    \min_{w, b}\; \frac{1}{\sum_i s_i} \sum_i s_i\,
    \ell\bigl(y_i, \langle w, \Phi_i \rangle + b\bigr) + \tfrac{\alpha}{2} \|w\|^2

The minimum has :math:`w = \Phi^\top v`, and every iterate of Newton's method started at such a w
has that form too. So Newton's steps are found by conjugate gradients in the space of w, but written
in v: with G the Gram, the inner product of :math:`\Phi^\top a` and :math:`\Phi^\top b` is
:math:`a^\top G b`, the gradient is :math:`\Phi^\top e` with :math:`e = \gamma + \alpha v`, and the
Hessian takes :math:`\Phi^\top p` to :math:`\Phi^\top (D G p + \alpha p)`. One product with the Gram
per step, vectors of length n, and nothing is divided by a probability.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax
from sklearn.exceptions import ConvergenceWarning

from kpp._typing import AnyArray, BoolArray, FloatArray
from kpp.geometry.maps import MapBlock
from kpp.solvers.ridge import DENSE_ROWS

# How many solutions the start of the next alpha is extrapolated from, in the logarithm of alpha.
# Against starting at the last one, two make half the products on real data, three a little less.
EXTRAPOLATED = 3

Product = Callable[[FloatArray], FloatArray]
# Takes a change of the scores to the change of the gradient, in place.
Bend = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class LogisticPath:
    r"""Solutions for each alpha.

    Parameters
    ----------
    alphas : array of shape (n_alphas,)
        In the order given.
    dual : array of shape (n_alphas, n_rows, n_scores)
        v, with :math:`w = \Phi^\top v`. One score for two classes, otherwise one per class.
    intercept : array of shape (n_alphas, n_scores)
        b.
    n_iter : int array of shape (n_alphas,)
        Products with the Gram that each alpha took.
    residual : array of shape (n_alphas,)
        Norm of the gradient relative to its scale.
    converged : bool array of shape (n_alphas,)
        Whether it fell below the tolerance.
    """

    alphas: FloatArray
    dual: FloatArray
    intercept: FloatArray
    n_iter: AnyArray
    residual: FloatArray
    converged: BoolArray


def logistic_path(
    block: MapBlock,
    codes: Any,
    alphas: Any,
    sample_weight: Any = None,
    *,
    n_classes: int = 2,
    offset: Any = None,
    fit_intercept: bool = True,
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> LogisticPath:
    r"""Solve logistic regression for every alpha, each from the next larger one.

    Parameters
    ----------
    block : MapBlock
        The embedding at the rows of the fit.
    codes : int array of shape (n_rows,)
        Classes as 0, ..., n_classes - 1.
    alphas : array-like of shape (n_alphas,)
        Penalties, positive. The loss is averaged: scikit-learn's ``C = 1 / (sum(s) alpha)``.
    sample_weight : array of shape (n_rows,), optional
        Nonnegative weights s.
    n_classes : int
        Two: one score, the log-odds of class 1. More: one score per class and the softmax.
    offset : array of shape (n_rows, n_scores), optional
        Scores that are added to the fitted ones, and not penalised.
    fit_intercept : bool
        Whether b is fitted, unpenalised; otherwise it is 0.
    tol : float
        An alpha is done when the norm of the gradient is at most `tol` times the root mean
        square of the rows' norms, which no gradient at w = 0 exceeds.
    max_iter : int
        Most products with the Gram for one alpha, per score.

    Returns
    -------
    path : LogisticPath

    Warns
    -----
    ConvergenceWarning
        If some alpha is not done after `max_iter` products.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from kpp import KPPEmbedding
    >>> from kpp.solvers import logistic_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> phi = KPPEmbedding(n_estimators=10, random_state=0).fit(X, y).map_.on(X)
    >>> path = logistic_path(phi, y, [1e-3])
    >>> score = phi @ (phi.T @ path.dual[0, :, 0]) + path.intercept[0]
    >>> other = LogisticRegression(C=1 / (len(y) * 1e-3), tol=1e-10).fit(phi.to_csr(), y)
    >>> bool(abs(score - other.decision_function(phi.to_csr())).max() < 1e-4)
    True
    """
    problem = LogisticProblem(
        block,
        codes,
        sample_weight,
        n_classes=n_classes,
        offset=offset,
        fit_intercept=fit_intercept,
    )
    return problem.solve(alphas, tol=tol, max_iter=max_iter)


class LogisticProblem:
    """Logistic regression of given rows, for one set of alphas after another.

    An alpha that was solved before, to a larger tolerance, is taken up where it was left.

    Parameters
    ----------
    block, codes, sample_weight, n_classes, offset, fit_intercept
        As in `logistic_path`.
    """

    def __init__(
        self,
        block: MapBlock,
        codes: Any,
        sample_weight: Any = None,
        *,
        n_classes: int = 2,
        offset: Any = None,
        fit_intercept: bool = True,
    ) -> None:
        n_rows = block.shape[0]
        weight = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, float)
        loss = _Binary(codes) if n_classes == 2 else _Multinomial(codes, n_classes)
        self._loss = _Loss(
            product=_gram_product(block),
            loss=loss,
            offset=np.zeros((n_rows, loss.n_scores)) if offset is None else np.asarray(offset),
            share=(weight / weight.sum())[:, None],
            fit_intercept=fit_intercept,
        )
        self._scale = float(np.sqrt(weight @ block.row_norms(squared=True) / weight.sum())) or 1.0
        self._known: dict[float, tuple[FloatArray, FloatArray]] = {}

    def solve(self, alphas: Any, *, tol: float = 1e-8, max_iter: int = 1000) -> LogisticPath:
        """Solve for every alpha; parameters, result and warning as in `logistic_path`."""
        alphas = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
        if alphas.size == 0 or not (alphas > 0).all() or not np.isfinite(alphas).all():
            raise ValueError(f"alpha must be positive and finite; got {alphas}.")
        start = self._loss.null_model()
        dual = np.zeros((len(alphas), *start[0].shape))
        intercept = np.zeros((len(alphas), len(start[1])))
        n_iter, residual = np.zeros(len(alphas), dtype=int), np.zeros(len(alphas))
        behind: list[int] = []
        for k in np.argsort(-alphas, kind="stable"):
            alpha = float(alphas[k])
            if alpha in self._known:
                v, b = self._known[alpha][0].astype(np.float64), self._known[alpha][1]
            elif behind:
                weight = _extrapolation(np.log(alphas[behind]), np.log(alpha))
                v, b = (np.tensordot(weight, a[behind], 1) for a in (dual, intercept))
            else:
                v, b = start
            v, b, n_iter[k], norm = _newton(self._loss, alpha, v, b, tol * self._scale, max_iter)
            dual[k], intercept[k], residual[k] = v, b, norm / self._scale
            self._known[alpha] = (v.astype(np.float32), b)  # a start needs no more digits
            if not behind or alpha < alphas[behind[-1]]:
                behind = [*behind, int(k)][-EXTRAPOLATED:]
        converged = residual <= tol
        if not converged.all():
            warnings.warn(
                f"Logistic regression did not converge for alpha = {alphas[~converged].max():.3g}: "
                f"the gradient is above tol={tol:.1g} of its scale after max_iter={max_iter} "
                "products. Raise alpha or max_iter, or loosen tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return LogisticPath(alphas, dual, intercept, n_iter, residual, converged)


class _Binary:
    """Log-loss of one score; labels 0 and 1."""

    n_scores = 1

    def __init__(self, codes: Any) -> None:
        self.sign = np.where(np.asarray(codes) == 1, 1.0, -1.0)[:, None]

    def values(self, score: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, -self.sign * score)

    def gradient(self, score: FloatArray) -> FloatArray:
        return -self.sign * expit(-self.sign * score)

    def curvature(self, score: FloatArray, share: FloatArray) -> Bend:
        slope = expit(score) * expit(-score) * share
        return lambda change: np.multiply(change, slope, out=change)


class _Multinomial:
    """Log-loss of the softmax of one score per class."""

    def __init__(self, codes: Any, n_classes: int) -> None:
        self.n_scores = n_classes
        self.codes = np.asarray(codes)[:, None]
        self.target = (self.codes == np.arange(n_classes)).astype(np.float64)

    def values(self, score: FloatArray) -> FloatArray:
        return -np.take_along_axis(log_softmax(score, axis=1), self.codes, axis=1)

    def gradient(self, score: FloatArray) -> FloatArray:
        return np.exp(log_softmax(score, axis=1)) - self.target

    def curvature(self, score: FloatArray, share: FloatArray) -> Bend:
        p = np.exp(log_softmax(score, axis=1))
        weighted = p * share

        def bend(change: FloatArray) -> FloatArray:
            change -= (p * change).sum(axis=1, keepdims=True)
            return np.multiply(change, weighted, out=change)

        return bend


@dataclass(frozen=True, eq=False)
class _Loss:
    """What stays the same for every alpha."""

    product: Product
    loss: _Binary | _Multinomial
    offset: FloatArray
    share: FloatArray
    fit_intercept: bool

    def _value(self, b: FloatArray) -> float:
        """The loss of an intercept alone."""
        return float((self.share * self.loss.values(self.offset + b)).sum())

    def null_model(self) -> tuple[FloatArray, FloatArray]:
        """Start: v = 0 and the best intercept."""
        v, b = np.zeros((len(self.share), self.loss.n_scores)), np.zeros(self.loss.n_scores)
        if self.fit_intercept:
            value = self._value(b)
            for _ in range(100):  # damped Newton in at most a few numbers
                score = self.offset + b
                slope = (self.share * self.loss.gradient(score)).sum(axis=0)
                bend = self.loss.curvature(score, self.share)
                hessian = np.column_stack(
                    [bend(np.tile(unit, (len(v), 1))).sum(axis=0) for unit in np.eye(len(b))]
                )
                step = np.linalg.lstsq(hessian, slope, rcond=1e-12)[0]
                step /= max(1.0, np.abs(step).max() / 5)
                while (new := self._value(b - step)) > value and np.abs(step).max() > 1e-12:
                    step /= 2
                b, value = b - step, new
                if np.abs(step).max() < 1e-12:
                    break
            if len(b) > 1:
                b = b - b.mean()  # the softmax does not see a common shift
        return v, b


def _extrapolation(known: FloatArray, at: float) -> FloatArray:
    """Weights of values at known places in the polynomial through them, taken elsewhere."""
    gaps = known[:, None] - known + np.eye(len(known))
    ratios = (at - known) / gaps
    np.fill_diagonal(ratios, 1.0)
    return ratios.prod(axis=1)


def _gram_product(block: MapBlock) -> Product:
    """Products with several columns, through a dense Gram where it is small."""
    if block.shape[0] <= DENSE_ROWS:
        gram = block.gram()
        return lambda columns: gram @ columns
    return block.gram_operator()


def _newton(
    problem: _Loss, alpha: float, v: FloatArray, b: FloatArray, target: float, max_iter: int
) -> tuple[FloatArray, FloatArray, int, float]:
    """Newton's method with conjugate gradients; `target` is the norm of the gradient to reach."""
    share, loss, product = problem.share, problem.loss, problem.product
    gram_v = product(v)
    n_products = 1
    score = problem.offset + gram_v + b
    value = (share * loss.values(score)).sum() + alpha / 2 * np.vdot(v, gram_v)
    while True:
        gradient = share * loss.gradient(score)
        e = gradient + alpha * v
        e_b = gradient.sum(axis=0) * float(problem.fit_intercept)
        gram_e = product(e)
        n_products += 1
        norm = float(np.sqrt(max(np.vdot(e, gram_e), 0.0) + e_b @ e_b))
        if norm <= target or n_products >= max_iter:
            return v, b, n_products, norm
        # Solve less exactly far from the minimum: the error falls like the square of the norm.
        forcing = norm * min(0.5, np.sqrt(norm))
        step, gram_step, step_b, used = _conjugate_gradients(
            problem,
            alpha,
            score,
            (-e, -gram_e, -e_b),
            max(forcing, target / 2),
            max_iter - n_products,
        )
        n_products += used
        slope = np.vdot(e, gram_step) + e_b @ step_b
        cross, square = np.vdot(gram_v, step), np.vdot(step, gram_step)
        length, quadratic = 1.0, np.vdot(v, gram_v)
        while True:
            new_score = score + length * (gram_step + step_b)
            penalty = quadratic + 2 * length * cross + length**2 * square
            new_value = (share * loss.values(new_score)).sum() + alpha / 2 * penalty
            # A loss is a difference of scores: below their rounding no decrease can be seen.
            rounding = 8 * np.finfo(float).eps * (abs(value) + np.abs(score).max())
            allowed = 1e-4 * length * slope + rounding
            if new_value <= value + allowed or length < 1e-10:
                break
            length /= 2
        v, b = v + length * step, b + length * step_b
        gram_v = gram_v + length * gram_step
        score, value = new_score, new_value


def _conjugate_gradients(
    problem: _Loss,
    alpha: float,
    score: FloatArray,
    right: tuple[FloatArray, FloatArray, FloatArray],
    target: float,
    max_iter: int,
) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Solve the Newton system; the step, its product with the Gram, and its intercept."""
    bend = problem.loss.curvature(score, problem.share)
    r, gram_r, r_b = (part.copy() for part in right)
    p, gram_p, p_b = r.copy(), gram_r.copy(), r_b
    rho = np.vdot(r, gram_r) + r_b @ r_b
    step, gram_step, step_b = np.zeros_like(r), np.zeros_like(r), np.zeros_like(r_b)
    bent, q = np.empty_like(r), np.empty_like(r)
    used = 0
    # In place: above some thousand rows fresh memory costs as much as the arithmetic.
    while rho > target**2 and used < max(max_iter, 1):
        bend(np.add(gram_p, p_b, out=bent))
        q_b = bent.sum(axis=0) * float(problem.fit_intercept)
        np.multiply(p, alpha, out=q)
        q += bent
        length = rho / (np.vdot(gram_p, q) + p_b @ q_b)
        step += np.multiply(p, length, out=bent)
        gram_step += np.multiply(gram_p, length, out=bent)
        step_b = step_b + length * p_b
        q *= length
        r -= q
        r_b = r_b - length * q_b
        gram_r = problem.product(r)
        used += 1
        rho, before = np.vdot(r, gram_r) + r_b @ r_b, rho
        for direction, rest in ((p, r), (gram_p, gram_r)):
            direction *= rho / before
            direction += rest
        p_b = r_b + rho / before * p_b
    return step, gram_step, step_b, used
