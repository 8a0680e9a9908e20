r"""Uniform bounds of Huber's and the pinball loss: the paper's extension, with their constants.

Both losses change with the score by at most a constant, so that the contraction inequality takes
the Rademacher complexity of the scores to that of the losses, as for the logistic loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import FloatArray
from kpp.bounds.assumptions import Range, range_assumption
from kpp.bounds.held_out import held_out_bound
from kpp.bounds.predictors import LinearPredictor
from kpp.bounds.rademacher import class_assumptions, rademacher_complexity
from kpp.bounds.results import Assumption, Bound
from kpp.bounds.samples import Sample
from kpp.solvers import ClippedLoss, HuberLoss
from kpp.solvers.regression_losses import Clip


def lipschitz_loss_terms(
    clip: Clip, radius: float, largest: float, trace: float, n_rows: int, delta: float = 0.05
) -> tuple[float, float]:
    r"""Complexity and confidence of the uniform bound of a loss with a clipped slope.

    .. math::
        2 L \frac{B}{n} \sqrt{\mathrm{Tr}(G_T)}, \qquad
        3 C \sqrt{\frac{\log(2/\delta)}{2 n}}, \quad
        C = \max_{|e| \le M + B} \ell(e)

    with L the largest slope of the loss: :math:`\min(d, M + B)` for Huber's of threshold d, and
    :math:`\max(q, 1 - q)` for the pinball loss of a quantile q.

    Parameters
    ----------
    clip : Clip
        The loss.
    radius : float
        B.
    largest : float
        M, a bound of :math:`|Y|`.
    trace : float
        Trace of the Gram.
    n_rows : int
        n.
    delta : float
        Probability with which the bound may fail.

    Returns
    -------
    complexity, confidence : float

    References
    ----------
    Proposition uniform-squared-loss-bound, with these losses in place of the squared one.

    Examples
    --------
    >>> from kpp.bounds.lipschitz_losses import lipschitz_loss_terms
    >>> from kpp.solvers import PinballLoss
    >>> (clip,) = PinballLoss([0.9]).clips
    >>> [round(term, 3) for term in lipschitz_loss_terms(clip, 1.0, 1.0, 25.0, 100)]
    [0.09, 0.733]
    """
    ends = np.array([-(largest + radius), largest + radius])
    slope = float(np.abs(clip.slopes(ends)).max())
    most = float(clip.values(ends).max())
    complexity = 2 * slope * rademacher_complexity(radius, trace, n_rows)
    return complexity, float(3 * most * np.sqrt(np.log(2 / delta) / (2 * n_rows)))


def lipschitz_bounds(
    sample: Sample,
    predictor: LinearPredictor,
    radii: tuple[float, float],
    radius: float | None,
    y_range: Range | None,
    common: dict[str, Any],
) -> list[Bound]:
    """The uniform bound of the model's own loss; arguments as `kpp.bounds.uniform` has them."""
    loss = sample.question.model.loss_
    assert isinstance(loss, ClippedLoss)
    (clip,) = loss.clips
    y = np.asarray(predictor.target, dtype=np.float64)
    if y_range is None:
        largest = float(np.abs(y).max())
        why = f"M = {largest:g} was plugged in from the sample; give y_range"
        envelope = Assumption("bound M of |Y|", False, why)
    else:
        largest = float(np.abs(y_range).max())
        envelope = range_assumption(sample.all_target, y_range, "bound M of |Y|")
    others = [envelope, *threshold_assumption(sample, loss)]
    terms = lipschitz_loss_terms(
        clip, radii[1], largest, predictor.trace, predictor.n_rows, common["delta"]
    )
    return [
        Bound(
            name=f"uniform {name_of(loss)}",
            quantity=f"{name_of(loss)} loss",
            empirical_risk=float(clip.values(y - predictor.scores[:, 0]).mean()),
            complexity=terms[0],
            confidence=terms[1],
            trivial_level=float(clip.values(np.array([-largest, largest])).max()),
            constant="proof, with the loss's Lipschitz constant",
            assumptions=class_assumptions(sample, predictor, *others, radius=radius),
            details={"B": radii[0], "M": largest, "trace": predictor.trace, "L": clip.lipschitz},
            **common,
        )
    ]


def name_of(loss: ClippedLoss) -> str:
    """The name of the loss in bounds."""
    return "Huber" if isinstance(loss, HuberLoss) else "pinball"


def threshold_assumption(sample: Sample, loss: ClippedLoss) -> list[Assumption]:
    """Whether the loss itself was known before the sample; none for the pinball loss."""
    if not isinstance(loss, HuberLoss):
        return []
    name = "loss fixed before the sample"
    if not loss.is_read:
        why = f"the caller says that the threshold {loss.delta:g} was"
        return [Assumption(name, None, why)]
    if sample.kind == "test" and sample.seen is None:
        return [Assumption(name, True, "the threshold was read from rows of the fit")]
    if sample.kind == "fit" and sample.question.regime.splits_rows:
        return [Assumption(name, True, "the threshold was read from the partition fold")]
    why = f"the threshold {loss.delta:g} was read from the labels; give huber_delta"
    return [Assumption(name, False, why)]


def held_out_loss_parts(
    loss: ClippedLoss, predictor: LinearPredictor, limits: Range, delta: float
) -> tuple[float, float] | None:
    """Risk and confidence of a fixed predictor, target and prediction clipped; None without limits.

    Parameters
    ----------
    loss : ClippedLoss
        Of one score.
    predictor : LinearPredictor
        At rows that it has not seen.
    limits : tuple of float
        Of Y.
    delta : float
        Probability.

    Returns
    -------
    risk, confidence : float
        They add up to the bound.
    """
    if not np.isfinite(limits).all() or limits[0] == limits[1]:
        return None
    (clip,) = loss.clips
    width = limits[1] - limits[0]
    most = float(clip.values(np.array([-width, width])).max())
    error = np.clip(predictor.target, *limits) - np.clip(predictor.scores[:, 0], *limits)
    losses = clip.values(error)
    risk = float(losses.mean())
    total = held_out_bound(losses / most, delta, are_errors=False) * most
    return risk, total - risk


def constant_level(loss: ClippedLoss, y: FloatArray) -> float:
    """Mean loss of the constant that is best on a sample."""
    target = loss.prepare(y)
    share = np.full((len(target), 1), 1 / len(target))
    best = np.tile(loss.best_constant(target, share), (len(target), 1))
    return float(loss.values(target, best).mean())
