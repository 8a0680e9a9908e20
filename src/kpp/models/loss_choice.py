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
        valid = isinstance(delta, int | float | np.number) and 0 < delta < np.inf
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
