"""Losses of numbers beyond the squared error: Huber's, the pinball loss, Poisson's deviance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from kpp._typing import AnyArray, FloatArray
from kpp.solvers.losses import Curvature, Loss

EPS = float(np.finfo(float).eps)
# Beyond this score the mean is not a number any more that can be squared.
LARGEST_LOG = 300.0


@dataclass(frozen=True)
class Clip:
    r"""A loss of the error :math:`e = y - g` whose slope is clipped.

    .. math:: \ell(e) = \max_{l \le a \le u}\; a e - \tfrac h2 a^2

    Parameters
    ----------
    low, high : float
        l < 0 < u.
    width : float
        h; 0 for a loss with a kink at 0.
    """

    low: float
    high: float
    width: float

    def values(self, error: FloatArray) -> FloatArray:
        """Return the losses of errors."""
        if self.width == 0:
            return np.maximum(self.high * error, self.low * error)
        slope = np.clip(error / self.width, self.low, self.high)
        return slope * error - self.width / 2 * np.square(slope)

    def slopes(self, error: FloatArray) -> FloatArray:
        """Return their derivatives; at a kink 0, which is among the possible ones."""
        if self.width == 0:
            return np.where(error > 0, self.high, np.where(error < 0, self.low, 0.0))
        return np.clip(error / self.width, self.low, self.high)

    @property
    def lipschitz(self) -> float:
        """The largest slope: by how much the loss changes at most with the score."""
        return max(self.high, -self.low)


class ClippedLoss(Loss):
    """What losses of a clipped slope share; `kpp.solvers.ClippedProblem` solves them.

    The objective is the sum over rows, as for the squared loss, so that alpha means the same.

    Attributes
    ----------
    clips : tuple of Clip
        One for each score.
    """

    is_averaged = False
    search_tol, final_tol = 1e-2, 1e-3
    clips: tuple[Clip, ...]

    def prepare(self, target: AnyArray) -> FloatArray:
        """Return the target as float64 of shape (n_rows, 1)."""
        return np.asarray(target, dtype=np.float64).reshape(-1, 1)

    def values(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Return the losses, shape (n_rows, n_scores)."""
        error = target - scores
        return np.column_stack(
            [clip.values(e) for clip, e in zip(self.clips, error.T, strict=True)]
        )

    def gradient(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Return minus the slopes, shape (n_rows, n_scores)."""
        columns = zip(self.clips, (target - scores).T, strict=True)
        return -np.column_stack([clip.slopes(error) for clip, error in columns])

    def curvature(self, scores: FloatArray, share: FloatArray) -> Curvature:
        """Refuse: it is not known from the scores alone, and these losses have their own solver."""
        raise NotImplementedError("Losses of clipped slopes are solved by ClippedProblem.")

    def merit(self, target: AnyArray, scores: FloatArray, weight: FloatArray) -> float:
        """Return minus the mean loss over rows and scores."""
        values = self.values(self.prepare(target), scores)
        return -float(np.average(values.mean(axis=1), weights=weight))

    def link(self, scores: FloatArray) -> FloatArray:
        """Return the scores: they are the prediction."""
        return scores


class HuberLoss(ClippedLoss):
    r"""Huber's loss: half the squared error up to a threshold d, and linear beyond.

    .. math:: \ell(e) = \tfrac12 e^2 \text{ for } |e| \le d, \qquad
        d |e| - \tfrac12 d^2 \text{ beyond}

    Parameters
    ----------
    delta : float
        d, positive, in units of the target.
    is_read : bool
        Whether it was read from the target, and not given.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.solvers import HuberLoss
    >>> HuberLoss(1.0).values(np.zeros((3, 1)), np.array([[0.5], [1.0], [3.0]])).ravel().tolist()
    [0.125, 0.5, 2.5]
    """

    name, n_scores = "mean Huber loss", 1

    def __init__(self, delta: float, *, is_read: bool = False) -> None:
        self.delta, self.is_read = float(delta), is_read
        self.clips = (Clip(-self.delta, self.delta, 1.0),)

    def best_constant(self, target: FloatArray, share: FloatArray) -> FloatArray:
        """Return the number whose errors, clipped, have the mean 0."""
        y, s = target[:, 0], share[:, 0]
        low, high = float(y[s > 0].min()), float(y[s > 0].max())
        for _ in range(200):
            middle = (low + high) / 2
            if not low < middle < high:
                break
            if s @ np.clip(y - middle, -self.delta, self.delta) > 0:
                low = middle
            else:
                high = middle
        return np.array([(low + high) / 2])


class PinballLoss(ClippedLoss):
    r"""The pinball loss of one or several quantiles q, a score each.

    .. math:: \ell_q(e) = q \max(e, 0) + (1 - q) \max(-e, 0)

    Parameters
    ----------
    quantiles : sequence of float
        Strictly between 0 and 1.
    scale : float
        Size of the target, by which alpha is made relative: this loss does not grow with its
        square.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.solvers import PinballLoss
    >>> PinballLoss([0.9]).values(np.zeros((2, 1)), np.array([[-1.0], [1.0]])).round(12).tolist()
    [[0.9], [0.1]]
    """

    name = "mean pinball loss"

    def __init__(self, quantiles: Sequence[float], scale: float = 1.0) -> None:
        self.quantiles = tuple(float(q) for q in quantiles)
        self.n_scores = len(self.quantiles)
        self.scale = float(scale)
        self.clips = tuple(Clip(q - 1, q, 0.0) for q in self.quantiles)

    def best_constant(self, target: FloatArray, share: FloatArray) -> FloatArray:
        """Return the quantiles, in the middle where there are several."""
        y, s = target[:, 0], share[:, 0]
        return np.array([sum(weighted_quantile(y, s, q)) / 2 for q in self.quantiles])

    def link(self, scores: FloatArray) -> FloatArray:
        """Return the scores; of several quantiles in their order, so that none cross."""
        return scores if self.n_scores == 1 else np.sort(scores, axis=1)[:, self.rank]

    @property
    def rank(self) -> AnyArray:
        """Place of each quantile among them, from the least."""
        return np.argsort(np.argsort(self.quantiles, kind="stable"), kind="stable")

    def unit(self, spread: float, weight: FloatArray) -> float:
        """Return the alpha that a relative alpha of 1 stands for on a map of this spread."""
        return spread / self.scale


class PoissonLoss(Loss):
    r"""Half of Poisson's deviance, with the logarithm of the mean as the score.

    .. math:: \ell(y, g) = e^g - y g - y + y \log y

    Parameters
    ----------
    rate : float
        The mean of the target, by which alpha is made relative.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.solvers import PoissonLoss
    >>> PoissonLoss().values(np.array([[1.0], [0.0]]), np.zeros((2, 1))).tolist()
    [[0.0], [1.0]]
    """

    name, n_scores = "mean Poisson deviance", 1
    is_averaged = False
    search_tol, final_tol = 5e-3, 1e-3

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = float(rate)

    def prepare(self, target: AnyArray) -> FloatArray:
        """Return the target as float64 of shape (n_rows, 1)."""
        return np.asarray(target, dtype=np.float64).reshape(-1, 1)

    def values(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Return the losses, shape (n_rows, 1)."""
        return self.link(scores) - target * scores - target + xlogy(target, target)

    def gradient(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Return means minus targets, shape (n_rows, 1)."""
        return self.link(scores) - target

    def curvature(self, scores: FloatArray, share: FloatArray) -> Curvature:
        """Return the product with the means and the shares."""
        slope = self.link(scores) * share
        return lambda change: np.multiply(change, slope, out=change)

    def best_constant(self, target: FloatArray, share: FloatArray) -> FloatArray:
        """Return the logarithm of the mean."""
        mean = float((share * target).sum() / share.sum())
        return np.array([np.log(max(mean, np.finfo(float).tiny))])

    def merit(self, target: AnyArray, scores: FloatArray, weight: FloatArray) -> float:
        """Return minus the mean deviance, which is twice the loss."""
        values = self.values(self.prepare(target), scores)[:, 0]
        return -2 * float(np.average(values, weights=weight))

    def link(self, scores: FloatArray) -> FloatArray:
        """Return the means."""
        return np.exp(np.minimum(scores, LARGEST_LOG))

    def unit(self, spread: float, weight: FloatArray) -> float:
        """Return the alpha that a relative alpha of 1 stands for on a map of this spread."""
        return spread * self.rate


def losses_of_answers(loss: Loss | None, y: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return the loss of each row by what is predicted, as it is reported.

    Parameters
    ----------
    loss : Loss, optional
        Of numbers; squared by default.
    y : array of shape (n,)
        Numbers.
    prediction : array of shape (n,) or (n, n_quantiles)
        What was predicted: a number, a quantile or a mean; or several quantiles.

    Returns
    -------
    losses : array of shape (n,)
        Squared errors, Huber or pinball losses, or Poisson deviances; of several quantiles the
        mean.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.solvers import PoissonLoss, SquaredLoss
    >>> from kpp.solvers.regression_losses import losses_of_answers
    >>> losses_of_answers(PoissonLoss(), np.zeros(1), np.array([1.5])).tolist()
    [3.0]
    >>> losses_of_answers(SquaredLoss(), np.zeros(1), np.array([1.5])).tolist()
    [2.25]
    """
    if isinstance(loss, ClippedLoss):
        if prediction.ndim == 2:
            mean: FloatArray = loss.values(y[:, None], prediction).mean(axis=1)
            return mean
        return loss.clips[0].values(y - prediction)
    if isinstance(loss, PoissonLoss):
        mean = np.maximum(prediction, np.exp(-LARGEST_LOG))
        return 2 * (mean - y + xlogy(y, y) - y * np.log(mean))
    return np.square(y - prediction)


def weighted_quantile(values: FloatArray, weight: FloatArray, q: float) -> tuple[float, float]:
    """Return the least and the largest number that is a quantile of weighted values.

    Parameters
    ----------
    values, weight : arrays of shape (n,)
        Numbers, and how often each counts; some count.
    q : float
        A share: at most q of the weight lies below either number, and at most 1 - q above.

    Returns
    -------
    low, high : float

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.solvers.regression_losses import weighted_quantile
    >>> weighted_quantile(np.array([3.0, 1.0, 2.0, 4.0]), np.ones(4), 0.5)
    (2.0, 3.0)
    """
    order = np.argsort(values, kind="stable")
    order = order[weight[order] > 0]
    share = np.cumsum(weight[order])
    rounding, last = 4 * EPS * len(share), len(share) - 1
    low = int(np.searchsorted(share, q * share[-1] * (1 - rounding)))
    high = int(np.searchsorted(share, q * share[-1] * (1 + rounding), side="right"))
    return float(values[order[min(low, last)]]), float(values[order[min(high, last)]])
