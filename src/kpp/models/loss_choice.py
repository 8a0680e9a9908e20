"""The losses of a regressor by name: their parameters, and scales that are read from the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._checks import check_choice
from kpp._typing import FloatArray
from kpp.solvers import HuberLoss, Loss, PinballLoss, PoissonLoss, SquaredLoss
from kpp.solvers.regression_losses import weighted_quantile

LOSSES = ("squared", "huber", "quantile", "poisson")
# Huber's threshold in robust standard deviations: 95% of the efficiency of the mean for normal
# errors.
HUBER_DEVIATIONS = 1.35
# Of the median of absolute deviations to the standard deviation, for a normal distribution.
MEDIAN_TO_DEVIATION = 1.4826
# No exposure is a number with more than so many times e in it, or in its inverse: 3e43. Larger
# ones are a mistake, as exposures of which no logarithm was taken.
LARGEST_OFFSET = 100.0


@dataclass(frozen=True)
class LossChoice:
    """The parameters of a regressor that say what is minimised, checked.

    Parameters
    ----------
    name : str
        One of `LOSSES`.
    quantiles : tuple of float
        Of the pinball loss.
    is_single : bool
        Whether the caller gave one number.
    huber_delta : float, optional
        Huber's threshold; None to read it from the target.
    """

    name: str
    quantiles: tuple[float, ...]
    is_single: bool
    huber_delta: float | None

    @classmethod
    def of(cls, model: Any) -> LossChoice:
        """Check the parameters of a regressor."""
        check_choice("loss", model.loss, LOSSES)
        quantiles = np.atleast_1d(np.asarray(model.quantile, dtype=object)).tolist()
        for q in quantiles:
            if not isinstance(q, int | float | np.number) or not 0 < q < 1:
                raise ValueError(
                    "quantile is a number strictly between 0 and 1, or a list of such numbers; got "
                    f"{model.quantile!r}."
                )
        if not quantiles or len(set(quantiles)) < len(quantiles):
            raise ValueError(f"quantile must be different numbers; got {model.quantile!r}.")
        delta = model.huber_delta
        # True would count as a threshold of 1.
        is_number = isinstance(delta, int | float | np.number) and not isinstance(delta, bool)
        valid = is_number and 0 < delta < np.inf
        if delta is not None and not valid:
            raise ValueError(f"huber_delta must be None or positive and finite; got {delta!r}.")
        return cls(
            name=model.loss,
            quantiles=tuple(float(q) for q in quantiles),
            is_single=np.ndim(model.quantile) == 0,
            huber_delta=None if delta is None else float(delta),
        )

    def check_target(self, y: FloatArray) -> None:
        """Refuse a target that the loss does not take."""
        if self.name != "squared" and y.ndim == 2:
            raise ValueError(
                f"loss={self.name!r} takes one target, and y has {y.shape[1]} columns: fit a model "
                "for each."
            )
        if self.name == "poisson":
            if (y < 0).any():
                raise ValueError(
                    "loss='poisson' takes counts or rates, numbers of at least 0; y has "
                    f"{int((y < 0).sum())} negative ones, as {float(y.min()):g}."
                )
            if not y.any():
                raise ValueError(
                    "loss='poisson' predicts the logarithm of a mean, and all of y is 0: there is "
                    "none."
                )

    def check_scoring(self, scoring: Any) -> None:
        """Refuse a scorer by name where a prediction is several quantiles."""
        if self.name == "quantile" and len(self.quantiles) > 1 and isinstance(scoring, str):
            raise ValueError(
                f"scoring={scoring!r} compares each target with one prediction, and there are "
                f"{len(self.quantiles)} quantiles of it. Leave scoring=None, which is the mean "
                "pinball loss of all of them, fit a model for each, or give a callable "
                "(estimator, X, y) that takes predictions with a column for each quantile."
            )

    def shape(self, n_targets: int, *, is_single: bool) -> tuple[int, bool]:
        """Return the number of scores, and whether a prediction is one number."""
        if self.name == "quantile":
            return len(self.quantiles), self.is_single
        return n_targets, is_single

    def loss(self, y: FloatArray, weight: FloatArray, n_targets: int) -> Loss:
        """Make the loss, with what it needs of the target.

        Parameters
        ----------
        y : array of shape (n_rows, n_targets)
            The target, of rows that it may be read from.
        weight : array of shape (n_rows,)
            Weights.
        n_targets : int
            Number of targets.

        Returns
        -------
        loss : Loss
        """
        if self.name == "squared":
            return SquaredLoss(n_targets)
        column = y[:, 0]
        if not weight.any():
            weight = np.ones(len(column))
        if self.name == "poisson":
            mean = float(np.average(column, weights=weight))
            return PoissonLoss(mean if mean > 0 else 1.0)
        middle = sum(weighted_quantile(column, weight, 0.5)) / 2
        away = np.abs(column - middle)
        mean_away = float(np.average(away, weights=weight))
        if self.name == "quantile":
            return PinballLoss(self.quantiles, mean_away if mean_away > 0 else 1.0)
        if self.huber_delta is not None:
            return HuberLoss(self.huber_delta)
        median_away = sum(weighted_quantile(away, weight, 0.5)) / 2
        # Where half of the targets are the same number, their mean deviation says how far others
        # are.
        scale = MEDIAN_TO_DEVIATION * median_away if median_away > 0 else mean_away
        return HuberLoss(HUBER_DEVIATIONS * scale if scale > 0 else 1.0, is_read=True)


def check_offset(loss: Loss | None, offset: Any, n_rows: int) -> FloatArray:
    """Return the logarithms of exposures as numbers; refuse what can be none.

    Parameters
    ----------
    loss : Loss, optional
        Of the model.
    offset : array-like of shape (n_rows,)
        As the caller gave it.
    n_rows : int
        Number of rows.

    Returns
    -------
    offset : array of shape (n_rows,)
    """
    if not isinstance(loss, PoissonLoss):
        raise ValueError(
            "offset is the logarithm of an exposure, and goes with loss='poisson'. For another "
            "loss subtract it from y."
        )
    try:
        given = np.asarray(offset)
        if given.dtype.kind in "USb":
            raise TypeError
        values = given.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "offset must be numbers, the logarithm of the exposure of each row; got "
            f"{type(offset).__name__} that holds others."
        ) from None
    if values.shape != (n_rows,):
        raise ValueError(
            f"offset must have one number for each of the {n_rows} rows, shape ({n_rows},); got "
            f"shape {values.shape}."
        )
    wrong = np.flatnonzero(~(np.abs(values) <= LARGEST_OFFSET))
    if len(wrong):
        raise ValueError(
            "offset is the logarithm of an exposure, a number from "
            f"{-LARGEST_OFFSET:g} to {LARGEST_OFFSET:g}; got {values[wrong[0]]:g} in row "
            f"{wrong[0]}, and {len(wrong)} such numbers of {n_rows}."
        )
    return values
