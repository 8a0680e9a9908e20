r"""Non-negative weights of several predictors, from scores of rows that they have not seen.

The blend of candidates :math:`c_1, \dots, c_J` is :math:`c_0 + \sum_j \theta_j c_j` with
:math:`\theta_j \ge 0`. It has few numbers to learn, and candidates of one target are alike: the
weights are held in check by a penalty that many rows do not feel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize, nnls

from kpp._parallel import one_blas_thread
from kpp._typing import AnyArray, FloatArray
from kpp.solvers.losses import Loss, SquaredLoss
from kpp.solvers.regression_losses import Clip, ClippedLoss, weighted_quantile

# Squared loss: what a sum of weights that misses 1 by 1 costs, as a share of the spread of the
# target.
SUM_PENALTY = 1e-2
# Log loss: the weights of candidates in units of their spread are shrunk like the log-odds of a
# tenth of a row, so that classes that are told apart without a mistake leave them finite.
SCALE_PENALTY = 0.1
# Widths of the round part in place of a kink, one after the other, in units of the target's spread.
WIDTHS = (0.3, 0.1, 0.03, 0.01, 0.003)
MOST_STEPS = 1000
# Scores that differ by less, relative to their size, do not differ.
ROUNDING = 1e-10


@one_blas_thread()
def stacking_weights(
    loss: Loss,
    scores: FloatArray,
    target: AnyArray,
    weight: FloatArray,
    *,
    fit_intercept: bool = True,
) -> tuple[FloatArray, FloatArray]:
    r"""Learn the weights of a blend.

    For the squared loss, each target for itself,

    .. math::
        \min_{\theta \ge 0, c_0} \sum_i s_i \Bigl(y_i - c_0 - \sum_j \theta_j c_{ij}\Bigr)^2
        + \rho \Bigl(\sum_j \theta_j - 1\Bigr)^2, \qquad
        \rho = \frac{1}{100} \sum_i s_i (y_i - \bar y)^2

    and for another loss, with the same weights for all scores and a constant for each (several
    quantiles have weights each),

    .. math::
        \min_{\theta \ge 0, c_0} \frac{1}{\sum_i s_i} \sum_i s_i\,
        \ell\Bigl(y_i, c_0 + \sum_j \theta_j c_{ij}\Bigr)
        + \frac{1}{20\, n} \sum_j (\theta_j \sigma_j)^2

    with :math:`\sigma_j` the standard deviation of candidate j's scores and n the number of rows,
    :math:`(\sum_i s_i)^2 / \sum_i s_i^2` where they have weights; the penalty is in units of alpha.

    Parameters
    ----------
    loss : Loss
        Any.
    scores : array of shape (n_candidates, n_rows, n_scores)
        Out-of-fold scores.
    target : array of shape (n_rows,) or (n_rows, n_targets)
        As the loss takes it.
    weight : array of shape (n_rows,)
        Weights of the rows, not all 0.
    fit_intercept : bool
        Whether there is a :math:`c_0`; otherwise it is 0.

    Returns
    -------
    theta : array of shape (n_candidates, n_scores)
        Weights; of a candidate without spread 0.
    constant : array of shape (n_scores,)
        :math:`c_0`.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.solvers import SquaredLoss, stacking_weights
    >>> y = np.arange(8.0)[:, None]
    >>> noise = np.array([1.0, -1, -1, 1, 1, -1, -1, 1])[:, None]
    >>> theta, constant = stacking_weights(SquaredLoss(), np.array([y + 1, noise]), y, np.ones(8))
    >>> theta.ravel().round(12).tolist(), constant.round(12).tolist()
    ([1.0, 0.0], [-1.0])
    """
    share = weight / weight.sum()
    middle = np.einsum("i,jik->jk", share, scores) if fit_intercept else np.zeros(scores.shape[::2])
    centered = scores - middle[:, None]
    # A candidate without spread says nothing; what rounding leaves of it must not be blown up.
    largest = np.abs(scores).max(axis=1)
    centered *= (np.abs(centered).max(axis=1) > ROUNDING * largest)[:, None]
    if isinstance(loss, SquaredLoss):
        target = loss.prepare(target)
        level = share @ target if fit_intercept else np.zeros(target.shape[1])
        columns = range(target.shape[1])
        theta = np.column_stack(
            [_squared(centered[:, :, k], target[:, k] - level[k], share) for k in columns]
        )
        return theta, level - (theta * middle).sum(axis=0)
    if isinstance(loss, ClippedLoss):
        columns = range(loss.n_scores)
        each = [_clipped(loss, k, centered, target, share, fit_intercept) for k in columns]
        theta = np.column_stack([own for own, _ in each])
        return theta, np.array([b for _, b in each]) - (theta * middle).sum(axis=0)
    theta, constant = _by_loss(loss, centered, target, share, fit_intercept)
    return theta, constant - (theta * middle).sum(axis=0)


def _squared(scores: FloatArray, target: FloatArray, share: FloatArray) -> FloatArray:
    """Weights of one target, shape (n_candidates,), from centred scores (n_candidates, n_rows)."""
    root = np.sqrt(share)
    rho = np.sqrt(SUM_PENALTY * (share @ np.square(target)))
    # The penalty is one more row, which asks for a sum of 1.
    theta = np.zeros(len(scores))
    # One without spread would take the sum's part for nothing.
    known = scores.any(axis=1)
    rows = np.column_stack([(scores[known] * root).T, root * target])
    rows = np.vstack([rows, np.full(rows.shape[1], rho)])
    # A triangle of as many rows as candidates has the same sums of squares.
    triangle: Any = np.linalg.qr(rows, mode="r")
    size = np.abs(triangle).max()
    if size > 0 and known.any():
        theta[known] = nnls(triangle[:, :-1] / size, triangle[:, -1] / size)[0]
    return theta


def _clipped(
    loss: ClippedLoss,
    k: int,
    scores: FloatArray,
    target: AnyArray,
    share: FloatArray,
    fit_intercept: bool,
) -> tuple[FloatArray, float]:
    """Weights of one score by Huber's or the pinball loss, and the constant."""
    clip = loss.clips[k]
    # In units of the target: the search must not depend on them.
    size = clip.high if clip.width > 0 else 1 / loss.unit(1.0, share)
    own, y = scores[:, :, k : k + 1] / size, loss.prepare(target) / size
    # A kink is a hard turn for the search: it goes through losses that are rounder, less and less.
    clips = [replace(clip, width=width) for width in WIDTHS]
    if clip.width > 0:
        clips = [Clip(-1.0, 1.0, 1.0)]
    middle = sum(weighted_quantile(y[:, 0], share, 0.5)) / 2 if fit_intercept else 0.0
    found = np.append(np.full(len(own), 1 / len(own)), middle)
    for rounder in clips:
        theta, constant = _by_loss(_OneClip(rounder), own, y, share, fit_intercept, found)
        found = np.append(theta[:, 0], constant)
    if clip.width == 0 and fit_intercept:
        rest = y[:, 0] - np.einsum("j,ji->i", found[:-1], own[:, :, 0])
        found[-1] = np.clip(found[-1], *weighted_quantile(rest, share, clip.high))
    return found[:-1], float(size * found[-1])


class _OneClip(ClippedLoss):
    """The loss of one score."""

    name, n_scores = "mean loss", 1

    def __init__(self, clip: Clip) -> None:
        self.clips = (clip,)


def _by_loss(
    loss: Loss,
    scores: FloatArray,
    target: AnyArray,
    share: FloatArray,
    fit_intercept: bool,
    first: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Weights, the same for all scores, by the loss of centred scores; from `first`, if given."""
    n_candidates, _, n_scores = scores.shape
    spread = np.sqrt(np.einsum("i,jik->j", share, np.square(scores)) / n_scores)
    known = spread > 0
    # In units of their spread: steps of the search are then of one size in all directions.
    units = scores[known] / spread[known, None, None]
    prepared: Any = loss.prepare(target)
    # Relative to how much the loss bends, as alpha is.
    penalty = SCALE_PENALTY * float(np.square(share).sum()) * loss.unit(1.0, np.ones(1))
    n_known = len(units)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        t, constant = x[:n_known], x[n_known:]
        blend = np.einsum("j,jik->ik", t, units) + constant
        values, slope = loss.values_and_gradient(prepared, blend)
        slope = slope * share[:, None]
        slopes = np.concatenate([np.einsum("jik,ik->j", units, slope) + penalty * t, slope.sum(0)])
        if not fit_intercept:
            slopes[n_known:] = 0.0
        return float(share @ values.sum(axis=1) + penalty / 2 * (t @ t)), slopes

    start = np.zeros(n_known + n_scores)
    start[:n_known] = 1.0 / max(1, n_known)
    if fit_intercept:
        start[n_known:] = loss.best_constant(prepared, share[:, None])
    if first is not None:
        start = np.append(first[:-1][known] * spread[known], first[-1])
    bounds = [(0.0, None)] * n_known + [(None, None)] * n_scores
    options = {"maxiter": MOST_STEPS, "ftol": 1e-13, "gtol": 1e-9}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    theta = np.zeros(n_candidates)
    theta[known] = found.x[:n_known] / spread[known]
    return np.tile(theta[:, None], n_scores), found.x[n_known:]
