r"""Losses whose slope is a clipped error: Huber's, and the pinball loss of quantiles.

With :math:`e = y - g` both are

.. math::
    \ell(e) = \max_{l \le a \le u}\; a e - \tfrac h2 a^2 , \qquad
    \ell'(e) = \mathrm{clip}(e / h,\, l,\, u)

where Huber's loss of threshold d has h = 1 and :math:`u = -l = d`, and the pinball loss of a
quantile q has :math:`l = q - 1`, :math:`u = q` and h = 0. The layer

.. math::
    \min_{w, b}\; \sum_i s_i\, \ell\bigl(y_i - \langle w, \Phi_i \rangle - b\bigr)
    + \tfrac{\alpha}{2} \|w\|^2

has :math:`w = \Phi^\top r` with :math:`\alpha r_i = s_i a_i`, and a lower bound for every r in
that box which sums to 0 (without an intercept: for every r in the box),

.. math::
    \alpha\, r^\top y - \tfrac{\alpha}{2} r^\top G r - \tfrac{h}{2} \sum_i s_i a_i^2 .

For h > 0 it is solved by Newton's method among the rows whose slope is not clipped, for the others
have their r already. A kink, h = 0, is solved as a sequence of such problems: with a width c > 0
and the slopes :math:`a'` of the last of them,

.. math::
    \max_{l \le a \le u}\; a e - \tfrac c2 (a - a')^2, \qquad
    \text{whose slope is } \mathrm{clip}(a' + e / c,\, l,\, u) ,

which is the proximal point method for r. Its widths need not fall to the rounding error for its
solutions to be those of the kink, and the lower bound above says when they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kpp._parallel import one_blas_thread
from kpp._typing import AnyArray, FloatArray
from kpp.solvers.problem import (
    DENSE_ROWS,
    Embedding,
    Product,
    Solutions,
    check_alphas,
    row_weight,
)
from kpp.solvers.regression_losses import Clip, weighted_quantile

# A proximal problem is solved until its own gap is this share of the whole one; the next one has
# this share of its width. On simulated rows other numbers took up to twice the products.
NEARLY, NARROWER = 0.2, 0.5
# A Newton system is solved until what is left to gain is at most this share of what was gained.
FORCING = 1.0
# A start at the solution of another alpha has the first width times this.
NEXT_WIDTH = 0.3
MOST_STEPS = 1000
EPS = float(np.finfo(float).eps)


class ClippedProblem:
    """A linear layer with clipped slopes, for one set of alphas after another.

    An alpha starts where the next larger one that was solved has ended.

    Parameters
    ----------
    block : Embedding
        The embedding at the rows of the fit.
    target : array of shape (n_rows,)
        Numbers.
    sample_weight : array of shape (n_rows,), optional
        Nonnegative weights s.
    clips : sequence of Clip
        The loss of each score.
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
        clips: Sequence[Clip],
        offset: Any = None,
        fit_intercept: bool = True,
    ) -> None:
        n_rows = block.shape[0]
        weight = row_weight(sample_weight, n_rows)
        y = np.asarray(target, dtype=np.float64).reshape(n_rows, 1)
        rest = np.tile(y, len(clips)) if offset is None else y - np.asarray(offset)
        gram = block.gram() if n_rows <= DENSE_ROWS else None
        product: Product = block.gram_operator() if gram is None else gram.__matmul__
        self._columns = [
            _Column(product, gram, np.ascontiguousarray(own), weight, clip, fit_intercept)
            for own, clip in zip(rest.T, clips, strict=True)
        ]
        self._shape = (n_rows, len(clips))

    def start_at(self, dual: FloatArray, intercept: FloatArray) -> None:
        """Start the first alpha at a guess of r and b, instead of the null model."""
        for k, column in enumerate(self._columns):
            column.guess = (dual[:, k].copy(), float(intercept[k]))

    @one_blas_thread()
    def solve(
        self, alphas: Any, *, tol: float = 1e-4, max_iter: int = 1000, warn: bool = True
    ) -> Solutions:
        """Solve for every alpha, from the largest down; `residual` is the relative duality gap."""
        alphas = check_alphas(alphas)
        dual = np.zeros((len(alphas), *self._shape))
        intercept = np.zeros((len(alphas), self._shape[1]))
        n_iter, residual = np.zeros(len(alphas), dtype=np.int32), np.zeros(len(alphas))
        for k in np.argsort(-alphas, kind="stable"):
            for j, column in enumerate(self._columns):
                r, b, used, gap = column.solve(float(alphas[k]), tol, max_iter)
                dual[k, :, j], intercept[k, j] = r, b
                n_iter[k] += used
                residual[k] = max(residual[k], gap)
        converged = residual <= tol
        if warn and not converged.all():
            warnings.warn(
                f"The fit did not converge for alpha = {alphas[~converged].max():.3g}: the "
                f"relative duality gap is above tol={tol:.1g} after max_iter={max_iter} products. "
                "Raise alpha or max_iter, or loosen tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return Solutions(
            alphas, dual, intercept, int(n_iter.sum()), residual, converged, n_iter_by_alpha=n_iter
        )


@dataclass(eq=False)
class _State:
    """Where Newton's method is: v, its product with the Gram, b and the errors."""

    v: FloatArray
    gram_v: FloatArray
    b: float
    error: FloatArray


@dataclass(frozen=True, eq=False)
class _Prox:
    """A width, and the slopes that those of this width are kept close to."""

    width: float
    a: FloatArray


@dataclass(frozen=True, eq=False)
class _Found:
    """r, the best b for it, the objective, and how far rounding may have moved that."""

    r: FloatArray
    b: float
    value: float
    rounding: float


@dataclass(frozen=True, eq=False)
class _Toward:
    """From v to a point of the box: the way, its product, the slopes there, the rows inside."""

    d: FloatArray
    gram_d: FloatArray
    a: FloatArray
    inside: AnyArray


class _Column:
    """One score."""

    def __init__(
        self,
        product: Product,
        gram: FloatArray | None,
        y: FloatArray,
        weight: FloatArray,
        clip: Clip,
        fit_intercept: bool,
    ) -> None:
        self._product, self._gram = product, gram
        self._y, self._s, self._clip, self._fit_intercept = y, weight, clip, fit_intercept
        # By alpha: r, b, the last width and slopes.
        self._known: dict[float, tuple[FloatArray, float, float, FloatArray]] = {}
        self.guess: tuple[FloatArray, float] | None = None
        self._used = 0

    def solve(
        self, alpha: float, tol: float, max_iter: int
    ) -> tuple[FloatArray, float, int, float]:
        """Return r, b, the number of products and the relative duality gap."""
        self._used, clip = 0, self._clip
        state, width, a = self._start(alpha)
        prox = _Prox(clip.width or width, np.zeros_like(a) if clip.width else a)
        for _ in range(MOST_STEPS):
            toward, own_gap = self._toward(state, alpha, prox)
            lower = self._lower(state, toward, alpha)
            # Of the two points the better one; the other's lower bound is valid for it, too.
            found = min(
                self._upper(state.v, state.gram_v, state.b, alpha),
                self._upper(state.v + toward.d, state.gram_v + toward.gram_d, state.b, alpha),
                key=lambda one: one.value,
            )
            gap = found.value - lower
            if gap <= max(tol * found.value, found.rounding) or self._used >= max_iter:
                break
            if clip.width == 0 and own_gap <= NEARLY * gap:
                prox = _Prox(NARROWER * prox.width, toward.a)
                continue
            self._step(state, alpha, prox, toward, max_iter)
        self._known[alpha] = (found.r, found.b, prox.width, toward.a)
        gap = 0.0 if gap <= found.rounding else gap
        return found.r, found.b, self._used, gap / found.value if gap > 0 else 0.0

    def _start(self, alpha: float) -> tuple[_State, float, FloatArray]:
        """From this alpha, the next larger one, a guess, or nothing: v and b, a width, slopes."""
        larger = [own for own in self._known if own >= alpha]
        middle = sum(weighted_quantile(self._y, self._s, 0.5)) / 2
        spread = float(np.average(np.abs(self._y - middle), weights=self._s))
        width = spread if spread > 0 else 1.0
        v, b, a = np.zeros_like(self._y), 0.0, np.zeros_like(self._y)
        if larger:
            nearest = min(larger)
            v, b, known, a = self._known[nearest]
            # An alpha that was solved before is taken up where it was left.
            width = known if nearest == alpha else NEXT_WIDTH * width
        elif self.guess is not None:
            v, b = self.guess
            a = np.divide(alpha * v, self._s, out=a, where=self._s > 0)
            np.clip(a, self._clip.low, self._clip.high, out=a)
            width *= NEXT_WIDTH
        gram_v = np.zeros_like(v)
        if v.any():
            gram_v = self._product(v)
            self._used += 1
        return _State(v, gram_v, b, self._y - gram_v - b), width, a

    def _toward(self, at: _State, alpha: float, prox: _Prox) -> tuple[_Toward, float]:
        """The point of the box that belongs to the errors, and the gap of the proximal problem."""
        clip, s, h = self._clip, self._s, prox.width
        e0 = self._y - at.gram_v
        if self._fit_intercept:
            at.b = _best_shift(e0 + h * prox.a, s, clip, h, at.b)
        at.error = e0 - at.b
        a = np.clip(at.error / h + prox.a, clip.low, clip.high)
        inside = np.flatnonzero((a > clip.low) & (a < clip.high) & (s > 0))
        d = s * a / alpha - at.v
        gram_d = self._product(d)
        self._used += 1
        # The gradient of the proximal objective is alpha Phi' d, which bends by alpha or more.
        return _Toward(d, gram_d, a, inside), alpha / 2 * float(d @ gram_d)

    def _step(self, at: _State, alpha: float, prox: _Prox, toward: _Toward, max_iter: int) -> None:
        """One step of Newton's method, as long as it is best to be."""
        clip, s, h = self._clip, self._s, prox.width
        if not len(toward.inside):
            p, gram_p, p_b = toward.d, toward.gram_d, 0.0
        elif self._gram is not None:
            p, p_b = self._direct(toward, alpha * h / s[toward.inside])
            gram_p = self._product(p)
            self._used += 1
        else:
            bent = np.zeros_like(s)
            bent[toward.inside] = s[toward.inside] / h
            p, gram_p, p_b = self._conjugate_gradients(toward, alpha, bent, max_iter)
        # The objective along the step is convex, and its slope piecewise linear.
        moves = gram_p + p_b
        linear, square = alpha * float(at.v @ gram_p), alpha * float(p @ gram_p)
        start = at.error / h + prox.a

        def along(t: float) -> float:
            own = np.clip(start - t / h * moves, clip.low, clip.high)
            return linear + t * square - float((s * own) @ moves)

        t = _root(along)
        at.v = at.v + t * p
        at.gram_v = at.gram_v + t * gram_p
        at.b += t * p_b

    def _direct(self, toward: _Toward, ridge: FloatArray) -> tuple[FloatArray, float]:
        """Newton's step from the Gram of the rows inside, and the change of b."""
        # Among these rows (G + alpha h / s) (v + p) + b = y + h a'; d solves it but for G d.
        assert self._gram is not None
        inside = toward.inside
        system = self._gram[np.ix_(inside, inside)].copy()
        system[np.diag_indices(len(inside))] += ridge
        right = np.column_stack([-toward.gram_d[inside], np.ones(len(inside))])
        found: FloatArray = np.linalg.solve(system, right)
        # r sums to 0 as it stands, and so must the change.
        b = float(found[:, 0].sum() / found[:, 1].sum()) if self._fit_intercept else 0.0
        p = toward.d.copy()
        p[inside] += found[:, 0] - b * found[:, 1]
        return p, b

    def _conjugate_gradients(
        self, toward: _Toward, alpha: float, bent: FloatArray, max_iter: int
    ) -> tuple[FloatArray, FloatArray, float]:
        r"""Newton's step by products in the space of w, its product, and the change of b.

        With b at its best the Hessian takes :math:`\Phi^\top p` to
        :math:`\Phi^\top (C G p + \alpha p)`, :math:`C = D - D 1 1^\top D / 1^\top D 1`.
        """
        total = float(bent.sum()) if self._fit_intercept else np.inf
        rest, gram_rest = alpha * toward.d, alpha * toward.gram_d
        direction, gram_direction = rest.copy(), gram_rest.copy()
        p, gram_p = np.zeros_like(rest), np.zeros_like(rest)
        rho, gained = float(rest @ gram_rest), 0.0
        radau = 1 / alpha
        while rho > 0:
            middle = float(bent @ gram_direction) / total
            product = bent * (gram_direction - middle) + alpha * direction
            length = rho / float(gram_direction @ product)
            p += length * direction
            gram_p += length * gram_direction
            gained += length * rho
            if self._used >= max_iter:
                break
            rest -= length * product
            gram_rest = self._product(rest)
            self._used += 1
            rho, last = float(rest @ gram_rest), rho
            # Gauss and Radau, as in `kpp.solvers.newton`: no eigenvalue is below alpha.
            weight = radau - length
            inverse = alpha * weight + rho / last
            radau = weight / inverse if inverse > 0 and weight > 0 else 1 / alpha
            if radau * rho <= FORCING * gained:
                break
            direction = rest + rho / last * direction
            gram_direction = gram_rest + rho / last * gram_direction
        return p, gram_p, -float(bent @ gram_p) / total

    def _lower(self, at: _State, toward: _Toward, alpha: float) -> float:
        """The lower bound of the objective from a point of the box."""
        r, gram_r = at.v + toward.d, at.gram_v + toward.gram_d
        squares = self._clip.width / 2 * float(self._s @ np.square(toward.a))
        return alpha * float(r @ self._y) - alpha / 2 * float(r @ gram_r) - squares

    def _upper(self, r: FloatArray, gram_r: FloatArray, b: float, alpha: float) -> _Found:
        """The objective at r with the best b for it."""
        clip, s = self._clip, self._s
        e0 = self._y - gram_r
        if self._fit_intercept:
            if clip.width > 0:
                b = _best_shift(e0, s, clip, clip.width, b)
            else:
                # Any number between two of the errors is as good.
                b = float(np.clip(b, *weighted_quantile(e0, s, clip.high)))
        error = e0 - b
        value = float(s @ clip.values(error)) + alpha / 2 * float(r @ gram_r)
        size = float((s * np.abs(clip.slopes(error))) @ (np.abs(self._y) + np.abs(gram_r)))
        return _Found(r, b, value, 8 * EPS * size)


def _best_shift(
    error: FloatArray, s: FloatArray, clip: Clip, h: float, start: float, sum_to: float = 0.0
) -> float:
    """The b at which the weighted slopes of ``error - b`` sum to 0, or to another number."""
    low = float(error.min()) - h * clip.high
    high = float(error.max()) - h * clip.low
    b = min(max(start, low), high)
    for _ in range(200):
        slope = np.clip((error - b) / h, clip.low, clip.high)
        total = float(s @ slope) - sum_to
        if total > 0:
            low = b
        elif total < 0:
            high = b
        else:
            return b
        bent = float(s @ ((slope > clip.low) & (slope < clip.high))) / h
        new = b + total / bent if bent > 0 else (low + high) / 2
        if not low < new < high:
            new = (low + high) / 2
        if new == b or not low < new < high:
            return b
        b = new
    return b


def _root(along: Callable[[float], float]) -> float:
    """Where a rising function passes 0, from 1: 1 itself where it is nearly there."""
    first, at_one = along(0.0), along(1.0)
    if first >= 0:
        return 0.0 if at_one > 0 else 1.0
    if abs(at_one) <= 0.1 * abs(first):
        return 1.0
    low, high, f_low, f_high = 0.0, 1.0, first, at_one
    while f_high < 0 and high < 2**20:
        low, f_low = high, f_high
        high *= 2
        f_high = along(high)
    for _ in range(60):
        if f_high <= 0:
            return high
        # The secant's root, kept off the ends.
        share = min(max(f_low / (f_low - f_high), 0.1), 0.9)
        middle = low + share * (high - low)
        f = along(middle)
        if abs(f) <= 1e-2 * abs(first):
            return middle
        if f < 0:
            low, f_low = middle, f
        else:
            high, f_high = middle, f
    return low
