r"""Any smooth convex loss on a map, by Newton's method, from products with its Gram.

.. math::
    \min_{w, b}\; \frac{1}{\sum_i s_i} \sum_i s_i\,
    \ell\bigl(y_i, \langle w, \Phi_i \rangle + b\bigr) + \tfrac{\alpha}{2} \|w\|^2

and without the division by :math:`\sum_i s_i` for a loss that is summed. The minimum has
:math:`w = \Phi^\top v`, and every iterate of Newton's method started at such a w has that form too.
So Newton's steps are found by conjugate gradients in the space of w, but written in v: with G the
Gram, the inner product of :math:`\Phi^\top a` and :math:`\Phi^\top b` is :math:`a^\top G b`, the
gradient is :math:`\Phi^\top e` with :math:`e = \gamma + \alpha v`, and the Hessian takes
:math:`\Phi^\top p` to :math:`\Phi^\top (D G p + \alpha p)`. One product with the Gram per step,
vectors of length n, and nothing is divided by a curvature.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kpp._parallel import one_blas_thread
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
# A Newton system is solved until a round of conjugate gradients, times their number, gains this
# share of what all rounds gained.
FORCING = 0.3


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

    @one_blas_thread()
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
        n_rows, vectors = block.shape[0], vectors_of(block)
        weight = row_weight(sample_weight, n_rows, vectors)
        shape = (n_rows, loss.n_scores)
        self._objective = _Objective(
            product=_gram_product(block),
            loss=loss,
            target=loss.prepare(target),
            offset=vectors.zeros(shape) if offset is None else vectors.floats(offset),
            share=(weight / vectors.total(weight))[:, None],
            fit_intercept=fit_intercept,
            vectors=vectors,
        )
        # A loss that is summed has its alpha here relative to the sum of the weights.
        self._total = 1.0 if loss.is_averaged else float(weight.sum())
        self._known: dict[float, tuple[FloatArray, FloatArray]] = {}
        self._guess: tuple[FloatArray, FloatArray] | None = None

    @one_blas_thread()
    def solve(
        self, alphas: Any, *, tol: float = 1e-4, max_iter: int = 1000, warn: bool = True
    ) -> Solutions:
        """Solve for every alpha, each from the next larger ones; as in `logistic_path`."""
        alphas = check_alphas(alphas)
        n_scores = self._objective.offset.shape[1]
        duals: list[FloatArray] = [self._objective.offset] * len(alphas)
        intercept = np.zeros((len(alphas), n_scores))
        n_iter, residual = np.zeros(len(alphas), dtype=np.int32), np.zeros(len(alphas))
        for k in np.argsort(-alphas, kind="stable"):
            alpha = float(alphas[k])
            v, b, n_iter[k], residual[k] = _newton(
                self._objective, alpha / self._total, *self._start(alpha), tol, max_iter
            )
            duals[k], intercept[k] = v, b
            self._known[alpha] = (v.astype(np.float32), b)  # a start needs no more digits
        converged = residual <= tol
        if warn and not converged.all():
            warnings.warn(
                f"The fit of the {self._objective.loss.name} did not converge for alpha = "
                f"{alphas[~converged].max():.3g}: "
                f"the objective may be more than tol={tol:.1g} of itself above its minimum after "
                f"max_iter={max_iter} products. Raise alpha or max_iter, or loosen tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return Solutions(
            alphas,
            duals[0][None] if len(duals) == 1 else np.stack(duals),
            intercept,
            int(n_iter.sum()),
            residual,
            converged,
            n_iter_by_alpha=n_iter,
        )

    def start_at(self, dual: FloatArray, intercept: FloatArray) -> None:
        """Start the first alpha at a guess of v and b, instead of the null model."""
        self._guess = (dual, intercept)

    def _start(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Where to start: what is known of this alpha, or of the next larger ones."""
        if alpha in self._known:
            v, b = self._known[alpha]
            return v.astype(np.float64), b
        larger = sorted(a for a in self._known if a > alpha)[:EXTRAPOLATED]
        if not larger:
            return self._objective.null_model() if self._guess is None else self._guess
        weight = extrapolation(np.log(larger), np.log(alpha))
        v, b = self._objective.null_model()
        b = np.zeros_like(b)
        for share, a in zip(weight, larger, strict=True):
            v += share * self._known[a][0]
            b = b + share * self._known[a][1]
        return v, b


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

    def loss_and_gradient(self, score: FloatArray) -> tuple[float, FloatArray]:
        """The mean loss of scores, and its derivative by each."""
        values, gradient = self.loss.values_and_gradient(self.target, score)
        gradient *= self.share
        return self.vectors.total(self.share * values), gradient

    @cached_property
    def _null(self) -> tuple[FloatArray, float]:
        """The best intercept at v = 0, and the least curvature of the mean loss along it."""
        shape = self.offset.shape
        n_scores = shape[1]
        b = np.zeros(n_scores)
        if not self.fit_intercept:
            return b, np.inf
        if not self.offset.any():
            b = self.loss.best_constant(self.target, self.share)
        value, flattest = self.value(self.offset + b), np.inf
        for _ in range(100):  # damped Newton in at most a few numbers
            score = self.offset + b
            slope = self.vectors.column_sums(self.gradient(score))
            curvature = self.loss.curvature(score, self.share)
            hessian = np.column_stack(
                [
                    self.vectors.column_sums(curvature(self.vectors.zeros(shape) + unit))
                    for unit in np.eye(n_scores)
                ]
            )
            # The softmax's Hessian is singular along a common shift of all scores.
            steepness = np.linalg.eigvalsh(hessian)[min(1, n_scores - 1) :]
            flattest = float(steepness.min())
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
        return b, flattest

    def null_model(self) -> tuple[FloatArray, FloatArray]:
        """Start: v = 0 and the best intercept."""
        return self.vectors.zeros(self.offset.shape), self._null[0]

    @cached_property
    def null_value(self) -> float:
        """The objective of the null model, for any alpha."""
        return self.value(self.offset + self._null[0])

    def intercept_unit(self, alpha: float) -> float:
        """Factor of the intercept's part of inner products: 1 but for very large alphas."""
        # An eigenvalue below alpha would make the bound of what is left wrong. Measured in units
        # of 1/c, the curvature along the intercept is c^2 times what it was.
        flattest = self._null[1]
        return max(1.0, 10 * alpha / flattest) if flattest > 0 else 1.0


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
    if block.shape[0] <= DENSE_ROWS and vectors_of(block).writes_grams:
        gram = block.gram()
        return lambda columns: gram @ columns
    return block.gram_operator()


def _newton(
    objective: _Objective,
    alpha: float,
    v: FloatArray,
    b: FloatArray,
    tol: float,
    max_iter: int,
) -> tuple[FloatArray, FloatArray, int, float]:
    """Newton's method with conjugate gradients, until a step gains less than `tol` of the value."""
    dot, dot_later = objective.vectors.dot, objective.vectors.dot_later
    gram_v = objective.product(v) if v.any() else np.zeros_like(v)
    n_products = int(v.any())
    score = objective.offset + gram_v + b
    loss, gradient = objective.loss_and_gradient(score)
    value = loss + alpha / 2 * dot(v, gram_v)
    if n_products and value > objective.null_value:
        # A guess, or what is extrapolated to an alpha far below the others, may lie where the loss
        # is flat, and no step leads back.
        v, b = objective.null_model()
        gram_v, score = np.zeros_like(v), objective.offset + b
        value, gradient = objective.loss_and_gradient(score)
    while True:
        e = gradient + alpha * v
        e_b = objective.vectors.column_sums(gradient) * float(objective.fit_intercept)
        gram_e = objective.product(e)
        n_products += 1
        step, gram_step, step_b, promised, left, used = _conjugate_gradients(
            objective, alpha, score, (-e, -gram_e, -e_b), tol * value, max_iter - n_products
        )
        n_products += used
        # <gradient, step>: the inner product of Phi' e and Phi' step is e' G step.
        # |w + l d|^2 = v'Gv + 2 l v'G step + l^2 step'G step: trying a length costs no product.
        slope, cross, square, quadratic = objective.vectors.known(
            dot_later(e, gram_step),
            dot_later(gram_v, step),
            dot_later(step, gram_step),
            dot_later(v, gram_v),
        )
        slope, length = slope + e_b @ step_b, 1.0
        while True:  # halve the step until the objective falls as its slope promises
            new_score = score + length * (gram_step + step_b)
            penalty = quadratic + 2 * length * cross + length**2 * square
            loss, gradient = objective.loss_and_gradient(new_score)
            new_value = loss + alpha / 2 * penalty
            # A loss is a difference of scores: below their rounding no decrease can be seen.
            rounding = 8 * np.finfo(float).eps * (abs(value) + objective.vectors.largest(score))
            allowed = 1e-4 * length * slope + rounding
            if new_value <= value + allowed or length < 1e-10:
                break
            length /= 2
        v, b = v + length * step, b + length * step_b
        gram_v = gram_v + length * gram_step
        score, value = new_score, new_value
        # The Hessian changes by at most e^s where no score moves by more than s, so that a full
        # step leaves (s / 2)^2 e^s of what it promised, and what the conjugate gradients left.
        moved = objective.vectors.largest(gram_step + step_b)
        left += promised * (min(moved, 1.0) / 2) ** 2 * np.exp(min(moved, 1.0))
        gap = left / max(value, np.finfo(float).tiny) if length == 1.0 and moved < 1.0 else np.inf
        if gap <= tol or n_products >= max_iter:
            return v, b, n_products, gap


def _conjugate_gradients(
    objective: _Objective,
    alpha: float,
    score: FloatArray,
    right: tuple[FloatArray, FloatArray, FloatArray],
    target: float,
    max_iter: int,
) -> tuple[FloatArray, FloatArray, FloatArray, float, float, int]:
    """Solve the Newton system.

    Returns the step, its product with the Gram, its intercept, by how much it lowers the quadratic
    model of the objective, by how much more the solution would at most, and the products made.
    """
    vectors = objective.vectors
    curvature = objective.loss.curvature(score, objective.share)
    # Every vector is carried with its product with G, so that inner products a'Gb are plain sums; r
    # alone needs a new product in each round.
    r, gram_r, r_b = (part.copy() for part in right)
    p, gram_p = r.copy(), gram_r.copy()
    # The intercept is measured in a unit in which the Hessian is not flatter along it than alpha.
    unit = objective.intercept_unit(alpha)
    p_b = unit * r_b
    rho = vectors.dot(r, gram_r) + unit * float(r_b @ r_b)
    step, gram_step, step_b = np.zeros_like(r), np.zeros_like(r), np.zeros_like(r_b)
    bent, q = np.empty_like(r), np.empty_like(r)
    used, promised = 0, 0.0
    radau = 1 / alpha
    left = radau * rho / 2
    # In place: above some thousand rows fresh memory costs as much as the arithmetic.
    while rho > 0:
        # The Hessian takes Phi' p to Phi' q, q = D (G p + p_b) + alpha p.
        curvature(np.add(gram_p, p_b, out=bent))
        sums = vectors.column_sums_later(bent)
        np.multiply(p, alpha, out=q)
        q += bent
        sums, bend = vectors.known(sums, vectors.dot_later(gram_p, q))
        q_b = sums * float(objective.fit_intercept)
        bend += float(p_b @ q_b)
        if not bend > 4 * np.finfo(float).eps * float(p_b @ p_b):
            # A shift of all scores of a row, which moves no probability: what is left of the
            # gradient there is rounding. Rows that share all leaves leave nothing else.
            left = 0.0
            break
        length = rho / bend
        step += np.multiply(p, length, out=bent)
        gram_step += np.multiply(gram_p, length, out=bent)
        step_b = step_b + length * p_b
        # Each round lowers the quadratic model by half of length times rho.
        gained = length * rho / 2
        promised += gained
        q *= length
        r -= q
        r_b = r_b - length * q_b
        gram_r = objective.product(r)
        used += 1
        rho, before = vectors.dot(r, gram_r) + unit * float(r_b @ r_b), rho
        # Gauss and Radau: no eigenvalue of the Hessian is below alpha, which bounds what is left
        # (Meurant and Tichy's recurrence). With an intercept, whose direction is not penalised, it
        # is an estimate: the least eigenvalue can be somewhat below.
        rest_weight = radau - length
        inverse = alpha * rest_weight + rho / before
        # Where the loss is flat to the last digit alpha is all there is.
        radau = rest_weight / inverse if inverse > 0 else 1 / alpha
        left = radau * rho / 2
        # The model is worth solving as far as it is true.
        if left <= max(FORCING * promised, target / 2) or used >= max_iter:
            break
        for direction, rest in ((p, r), (gram_p, gram_r)):
            direction *= rho / before
            direction += rest
        p_b = unit * r_b + rho / before * p_b
    return step, gram_step, step_b, promised, left, used
