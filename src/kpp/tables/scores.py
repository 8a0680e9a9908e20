"""How good a model is, in a few figures; and how good a constant would be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kpp._typing import AnyArray, FloatArray
from kpp.diagnostics import (
    auc_reason,
    classification_metrics,
    constant_metrics,
    regression_metrics,
)
from kpp.diagnostics.intervals import resampled, wilson
from kpp.diagnostics.metrics import LOSS_NAMES, loss_name
from kpp.models.asking import ask
from kpp.models.linear import KPPLinearModel
from kpp.solvers import Loss, PinballLoss
from kpp.solvers.regression_losses import losses_of_answers

EPS = float(np.finfo(np.float64).eps)
WORDS = {
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "r2": "R squared",
    **LOSS_NAMES,
    "accuracy": "accuracy",
    "log_loss": "log loss",
    "auc": "area under the ROC curve",
}

FIGURES = {
    "classification": ("accuracy", "log_loss", "auc"),
    "regression": ("rmse", "mae", "r2"),
}
# The scores by which a model is compared with a constant, and whether more is better.
HEADLINES = {
    **{"accuracy": True, "log_loss": False, "rmse": False},
    **dict.fromkeys(LOSS_NAMES, False),
}


@dataclass(frozen=True)
class Scores:
    """Figures of predictions on rows.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    figures : dict of float
        "rmse", "mae", "r2", with another loss its mean first; of several quantiles "pinball_loss",
        the mean of all, and one such as "pinball_loss_0.05" for each; or "accuracy", "log_loss",
        "auc". NaN where the rows do not define one.
    intervals : dict of (float, float)
        95% intervals of the headline figures, as a report has them.
    no_auc : str or None
        Why there is no area under the ROC curve, where there is none.
    """

    n_rows: int
    figures: dict[str, float]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    no_auc: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"n_rows": self.n_rows} | self.figures | {"intervals": self.intervals}


def words_of(name: str) -> str:
    """What people call a figure.

    Examples
    --------
    >>> from kpp.tables.scores import words_of
    >>> words_of("r2"), words_of("pinball_loss_0.05")
    ('R squared', 'mean pinball loss of 0.05')
    """
    if name in WORDS:
        return WORDS[name]
    figure, _, quantile = name.rpartition("_")
    return f"{WORDS[figure]} of {quantile}"


def scores_of_model(
    model: KPPLinearModel, X: Any, y: AnyArray, weight: Any = None, *, random_state: int = 0
) -> Scores:
    """Score a fitted model on prepared rows, with intervals of the headline figures."""
    if is_classifier(model):
        codes, probability = _codes(model, y), model.predict_proba(X)
        found = _of_probabilities(probability, codes, weight)
        own = np.clip(probability[np.arange(len(codes)), codes], EPS, 1 - EPS)
        loss, name = -np.log(own), "log_loss"
        no_auc = auc_reason(codes, model.classes_.tolist(), weight)
    else:
        prediction, of_model = model.predict(X), model.loss_
        found = _of_numbers(prediction, y, weight, of_model)
        loss = losses_of_answers(of_model, np.asarray(y, dtype=np.float64), prediction)
        name, no_auc = loss_name(of_model) or "rmse", None
    w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)

    def statistic(rows: AnyArray) -> list[float]:
        mean = float(np.average(loss[rows], weights=w[rows]))
        return [float(np.sqrt(mean)) if name == "rmse" else mean]

    band = resampled(statistic, w, random_state)[0]
    intervals = {} if band is None else {name: band}
    if name == "log_loss":
        effective = float(w.sum() ** 2 / np.square(w).sum())
        intervals["accuracy"] = wilson(found.figures["accuracy"], effective)
    return Scores(found.n_rows, found.figures, intervals, no_auc)


def not_above_constant(test: Scores | None, constant: Scores | None) -> list[str]:
    """Say which headline scores of a model are not known to be better than those of the constant.

    Returns
    -------
    names : list of str
        Figures whose interval holds the constant's score, or is on its worse side.

    Examples
    --------
    >>> from kpp.tables.scores import Scores, not_above_constant
    >>> test = Scores(9, {"rmse": 1.0}, {"rmse": (0.8, 1.2)})
    >>> not_above_constant(test, Scores(9, {"rmse": 1.1})), not_above_constant(
    ...     test, Scores(9, {"rmse": 1.3})
    ... )
    (['rmse'], [])
    """
    if test is None or constant is None:
        return []
    found = []
    for name, (low, high) in test.intervals.items():
        level = constant.figures[name]
        if not (low > level if HEADLINES[name] else high < level):
            found.append(name)
    return found


def scores_out_of_fold(model: KPPLinearModel, y: AnyArray) -> Scores | None:
    """Score the out-of-fold predictions of a fit; None where alpha was given."""
    if model.oof_prediction_ is None:
        return None
    own = y[model.fit_rows_]
    if is_classifier(model):
        return _of_probabilities(model.oof_prediction_, _codes(model, own), model.sample_weight_)
    return _of_numbers(model.oof_prediction_, own, model.sample_weight_, model.loss_)


def baseline_scores(model: KPPLinearModel, y: AnyArray, weight: Any = None) -> Scores | None:
    """Score the constant of the fit: the mean of its rows, or their shares of classes."""
    if _has_several_quantiles(model):
        if model.constant_ is None:
            return None
        constant = np.tile(model.constant_, (len(y), 1))
        return _of_numbers(constant, y, weight, model.loss_)
    found = constant_metrics(model, _codes(model, y), weight)
    if found is None:
        return None
    if is_classifier(model):
        found = {name: found[name] for name in FIGURES["classification"]}
    return Scores(len(y), found)


def _codes(model: KPPLinearModel, y: AnyArray) -> AnyArray:
    return ask(model).encode(y, len(y))


def _has_several_quantiles(model: KPPLinearModel) -> bool:
    return len(getattr(model.loss_, "quantiles", ())) > 1


def _of_numbers(
    prediction: FloatArray, y: AnyArray, weight: FloatArray | None, loss: Loss | None
) -> Scores:
    if isinstance(loss, PinballLoss) and len(loss.quantiles) > 1:
        # Squared errors of several quantiles say nothing: no one number is predicted.
        numbers = np.asarray(y, dtype=np.float64).reshape(-1, 1)
        each = np.average(loss.values(numbers, prediction), axis=0, weights=weight)
        figures = {"pinball_loss": float(each.mean())}
        for q, own in zip(loss.quantiles, each, strict=True):
            figures[f"pinball_loss_{q:g}"] = float(own)
        return Scores(len(y), figures)
    return Scores(len(y), regression_metrics(y, prediction, weight, loss=loss))


def _of_probabilities(
    probability: FloatArray, codes: AnyArray, weight: FloatArray | None
) -> Scores:
    found = classification_metrics(codes, probability, weight=weight)
    return Scores(len(codes), {name: found[name] for name in FIGURES["classification"]})
