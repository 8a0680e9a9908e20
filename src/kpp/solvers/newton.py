r"""Any smooth convex loss on a map, by Newton's method, from products with its Gram.

.. math::
    \min_{w, b}\; \frac{1}{\sum_i s_i} \sum_i s_i\,
    \ell\bigl(y_i, \langle w, \Phi_i \rangle + b\bigr) + \tfrac{\alpha}{2} \|w\|^2

The minimum has :math:`w = \Phi^\top v`, and every iterate of Newton's method started at such a w
has that form too. So Newton's steps are found by conjugate gradients in the space of w, but written
in v: with G the Gram, the inner product of :math:`\Phi^\top a` and :math:`\Phi^\top b` is
:math:`a^\top G b`, the gradient is :math:`\Phi^\top e` with :math:`e = \gamma + \alpha v`, and the
Hessian takes :math:`\Phi^\top p` to :math:`\Phi^\top (D G p + \alpha p)`. One product with the Gram
per step, vectors of length n, and nothing is divided by a curvature.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kpp._typing import FloatArray
from kpp.solvers.losses import Loss
from kpp.solvers.problem import (
    DENSE_ROWS,
    Embedding,
    Product,
    Solutions,
    check_alphas,
    row_weight,
)
from kpp.solvers.vectors import Vectors, vectors_of

# How many solutions the start of the next alpha is extrapolated from, in the logarithm of alpha.
# Against starting at the last one, two make half the products on real data, three a little less.
EXTRAPOLATED = 3


class NewtonProblem:
    """A linear layer with a smooth loss, for one set of alphas after another.

    An alpha that was solved before, to a larger tolerance, is taken up where it was left.

    Parameters
    ----------
    block : Embedding
        The embedding at the rows of the fit.
    target : array of shape (n_rows,)
        As the loss takes it.
    sample_weight : array of shape (n_rows,), optional
        Nonnegative weights s.
    loss : Loss
        The loss.
    offset : array of shape (n_rows, n_scores), optional
        Scores that are added to the fitted ones, and not penalised.
    fit_intercept : bool
        Whether b is fitted, unpenalised; otherwise it is 0.
    """

    def __init__(
        self,
        block: Embedding,
        target: Any,
        sample_weight: Any = None,
        *,
        loss: Loss,
        offset: Any = None,
        fit_intercept: bool = True,
    ) -> None:
        n_rows = block.shape[0]
        weight = row_weight(sample_weight, n_rows)
        self._objective = _Objective(
            product=_gram_product(block),
            loss=loss,
            target=loss.prepare(target),
            offset=np.zeros((n_rows, loss.n_scores)) if offset is None else np.asarray(offset),
            share=(weight / weight.sum())[:, None],
            fit_intercept=fit_intercept,
            vectors=vectors_of(block),
        )
        # No gradient at w = 0 is larger for the log loss (`logistic_path`); 1 where all rows are at
        # 0.
        self._scale = float(np.sqrt(weight @ block.row_norms(squared=True) / weight.sum())) or 1.0
        self._known: dict[float, tuple[FloatArray, FloatArray]] = {}

    def solve(self, alphas: Any, *, tol: float = 1e-8, max_iter: int = 1000) -> Solutions:
        """Solve for every alpha, each from the next larger ones; as in `logistic_path`."""
        alphas = check_alphas(alphas)
        start = self._objective.null_model()
        dual = np.zeros((len(alphas), *start[0].shape))
        intercept = np.zeros((len(alphas), len(start[1])))
        n_iter, residual = np.zeros(len(alphas), dtype=np.int32), np.zeros(len(alphas))
        behind: list[int] = []  # the last alphas that were solved, falling
        for k in np.argsort(-alphas, kind="stable"):
            alpha = float(alphas[k])
            if alpha in self._known:
                v, b = self._known[alpha][0].astype(np.float64), self._known[alpha][1]
            elif behind:
                weight = extrapolation(np.log(alphas[behind]), np.log(alpha))
                v, b = (np.tensordot(weight, a[behind], 1) for a in (dual, intercept))
            else:
                v, b = start
            v, b, n_iter[k], norm = _newton(
                self._objective, alpha, v, b, tol * self._scale, max_iter
            )
            dual[k], intercept[k], residual[k] = v, b, norm / self._scale
            self._known[alpha] = (v.astype(np.float32), b)  # a start needs no more digits
            # A repeated alpha would put two points of the extrapolation in one place.
            if not behind or alpha < alphas[behind[-1]]:
                behind = [*behind, int(k)][-EXTRAPOLATED:]
        converged = residual <= tol
        if not converged.all():
            warnings.warn(
                f"The fit of the {self._objective.loss.name} did not converge for alpha = "
                f"{alphas[~converged].max():.3g}: "
                f"the gradient is above tol={tol:.1g} of its scale after max_iter={max_iter} "
                "products. Raise alpha or max_iter, or loosen tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return Solutions(
            alphas, dual, intercept, int(n_iter.sum()), residual, converged, n_iter_by_alpha=n_iter
        )


@dataclass(frozen=True, eq=False)
class _Objective:
    """What stays the same for every alpha."""

    product: Product
    loss: Loss
    target: Any
    offset: FloatArray
    share: FloatArray
    fit_intercept: bool
    vectors: Vectors

    def value(self, score: FloatArray) -> float:
        """The mean loss of scores."""
        return self.vectors.total(self.share * self.loss.values(self.target, score))

    def gradient(self, score: FloatArray) -> FloatArray:
        """The derivative of the mean loss by each score."""
        return self.share * self.loss.gradient(self.target, score)

    def null_model(self) -> tuple[FloatArray, FloatArray]:
        """Start: v = 0 and the best intercept."""
        n_scores = self.loss.n_scores
        v, b = np.zeros((len(self.share), n_scores)), np.zeros(n_scores)
        if self.fit_intercept:
            value = self.value(self.offset + b)
            for _ in range(100):  # damped Newton in at most a few numbers
                score = self.offset + b
                slope = self.vectors.column_sums(self.gradient(score))
                curvature = self.loss.curvature(score, self.share)
                hessian = np.column_stack(
                    [
                        self.vectors.column_sums(curvature(np.tile(unit, (len(v), 1))))
                        for unit in np.eye(n_scores)
                    ]
                )
                # Least squares: the softmax's Hessian is singular along a common shift of all
                # scores.
                step = np.linalg.lstsq(hessian, slope, rcond=1e-12)[0]
                # From where the loss is nearly flat a full step shoots far beyond: at most 5
                # log-odds at once.
                step /= max(1.0, np.abs(step).max() / 5)
                while (new := self.value(self.offset + (b - step))) > value and (
                    np.abs(step).max() > 1e-12
                ):
                    step /= 2
                b, value = b - step, new
                if np.abs(step).max() < 1e-12:
                    break
            if n_scores > 1:
                b = b - b.mean()  # the softmax does not see a common shift
        return v, b


def extrapolation(known: FloatArray, at: float) -> FloatArray:
    """Weights of values at known places in the polynomial through them, taken elsewhere."""
    # Lagrange's weights, prod over j != i of (at - x_j) / (x_i - x_j); the ones on the diagonal
    # keep the division defined until its result is replaced.
    gaps = known[:, None] - known + np.eye(len(known))
    ratios = (at - known) / gaps
    np.fill_diagonal(ratios, 1.0)
    return ratios.prod(axis=1)


def _gram_product(block: Embedding) -> Product:
    """Products with several columns, through a dense Gram where it is small."""
    if block.shape[0] <= DENSE_ROWS:
        gram = block.gram()
        return lambda columns: gram @ columns
    return block.gram_operator()


def _newton(
    objective: _Objective,
    alpha: float,
    v: FloatArray,
    b: FloatArray,
    target_norm: float,
    max_iter: int,
) -> tuple[FloatArray, FloatArray, int, float]:
    """Newton's method with conjugate gradients, until the gradient's norm is `target_norm`."""
    dot = objective.vectors.dot
    gram_v = objective.product(v)
    n_products = 1
    score = objective.offset + gram_v + b
    value = objective.value(score) + alpha / 2 * dot(v, gram_v)
    while True:
        gradient = objective.gradient(score)
        e = gradient + alpha * v
        e_b = objective.vectors.column_sums(gradient) * float(objective.fit_intercept)
        gram_e = objective.product(e)
        n_products += 1
        # |Phi' e|^2 = e' G e, and the intercept's own slope.
        norm = float(np.sqrt(max(dot(e, gram_e), 0.0) + e_b @ e_b))
        if norm <= target_norm or n_products >= max_iter:
            return v, b, n_products, norm
        # Solve less exactly far from the minimum: the error falls like the square of the norm.
        forcing = norm * min(0.5, np.sqrt(norm))
        step, gram_step, step_b, used = _conjugate_gradients(
            objective,
            alpha,
            score,
            (-e, -gram_e, -e_b),
            max(forcing, target_norm / 2),
            max_iter - n_products,
        )
        n_products += used
        # <gradient, step>: the inner product of Phi' e and Phi' step is e' G step.
        slope = dot(e, gram_step) + e_b @ step_b
        # |w + l d|^2 = v'Gv + 2 l v'G step + l^2 step'G step: trying a length costs no product.
        cross, square = dot(gram_v, step), dot(step, gram_step)
        length, quadratic = 1.0, dot(v, gram_v)
        while True:  # halve the step until the objective falls as its slope promises
            new_score = score + length * (gram_step + step_b)
            penalty = quadratic + 2 * length * cross + length**2 * square
            new_value = objective.value(new_score) + alpha / 2 * penalty
            # A loss is a difference of scores: below their rounding no decrease can be seen.
            rounding = 8 * np.finfo(float).eps * (abs(value) + objective.vectors.largest(score))
            allowed = 1e-4 * length * slope + rounding
            if new_value <= value + allowed or length < 1e-10:
                break
            length /= 2
        v, b = v + length * step, b + length * step_b
        gram_v = gram_v + length * gram_step
        score, value = new_score, new_value


def _conjugate_gradients(
    objective: _Objective,
    alpha: float,
    score: FloatArray,
    right: tuple[FloatArray, FloatArray, FloatArray],
    target_norm: float,
    max_iter: int,
) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Solve the Newton system; the step, its product with the Gram, and its intercept."""
    vectors = objective.vectors
    curvature = objective.loss.curvature(score, objective.share)
    # Every vector is carried with its product with G, so that inner products a'Gb are plain sums; r
    # alone needs a new product in each round.
    r, gram_r, r_b = (part.copy() for part in right)
    p, gram_p, p_b = r.copy(), gram_r.copy(), r_b
    rho = vectors.dot(r, gram_r) + r_b @ r_b
    step, gram_step, step_b = np.zeros_like(r), np.zeros_like(r), np.zeros_like(r_b)
    bent, q = np.empty_like(r), np.empty_like(r)
    used = 0
    # In place: above some thousand rows fresh memory costs as much as the arithmetic.
    while rho > target_norm**2 and used < max(max_iter, 1):
        # The Hessian takes Phi' p to Phi' q, q = D (G p + p_b) + alpha p.
        curvature(np.add(gram_p, p_b, out=bent))
        q_b = vectors.column_sums(bent) * float(objective.fit_intercept)
        np.multiply(p, alpha, out=q)
        q += bent
        length = rho / (vectors.dot(gram_p, q) + p_b @ q_b)
        step += np.multiply(p, length, out=bent)
        gram_step += np.multiply(gram_p, length, out=bent)
        step_b = step_b + length * p_b
        q *= length
        r -= q
        r_b = r_b - length * q_b
        gram_r = objective.product(r)
        used += 1
        rho, before = vectors.dot(r, gram_r) + r_b @ r_b, rho
        for direction, rest in ((p, r), (gram_p, gram_r)):
            direction *= rho / before
            direction += rest
        p_b = r_b + rho / before * p_b
    return step, gram_step, step_b, used
