"""How good a model is, in a few figures; and how good a constant would be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kpp._typing import AnyArray, FloatArray
from kpp.diagnostics import classification_metrics, regression_metrics
from kpp.models.asking import ask
from kpp.models.linear import KPPLinearModel

WORDS = {
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "r2": "R squared",
    "accuracy": "accuracy",
    "log_loss": "log loss",
    "auc": "area under the ROC curve",
}


@dataclass(frozen=True)
class Scores:
    """Figures of predictions on rows.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    figures : dict of float
        "rmse", "mae", "r2"; or "accuracy", "log_loss", "auc". NaN where the rows do not define
        one.
    """

    n_rows: int
    figures: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"n_rows": self.n_rows} | self.figures


def scores_of_model(model: KPPLinearModel, X: Any, y: AnyArray, weight: Any = None) -> Scores:
    """Score a fitted model on prepared rows."""
    if is_classifier(model):
        return _of_probabilities(model.predict_proba(X), _codes(model, y), weight)
    return _of_numbers(model.predict(X), y, weight)


def scores_out_of_fold(model: KPPLinearModel, y: AnyArray) -> Scores | None:
    """Score the out-of-fold predictions of a fit; None where alpha was given."""
    if model.oof_prediction_ is None:
        return None
    own = y[model.fit_rows_]
    if is_classifier(model):
        return _of_probabilities(model.oof_prediction_, _codes(model, own), model.sample_weight_)
    return _of_numbers(model.oof_prediction_, own, model.sample_weight_)


def baseline_scores(
    model: KPPLinearModel, y_train: AnyArray, y: AnyArray, weight: Any = None
) -> Scores:
    """Score a constant: the mean of the rows of the linear layer, or the shares of classes."""
    own, own_weight = y_train[model.fit_rows_], model.sample_weight_
    if is_classifier(model):
        count = np.bincount(_codes(model, own), own_weight, minlength=len(model.classes_))
        share = np.tile(count / count.sum(), (len(y), 1))
        return _of_probabilities(share, _codes(model, y), weight)
    return _of_numbers(np.full(len(y), np.average(own, weights=own_weight)), y, weight)


def _codes(model: KPPLinearModel, y: AnyArray) -> AnyArray:
    return ask(model).encode(y, len(y))


def _of_numbers(prediction: FloatArray, y: AnyArray, weight: FloatArray | None) -> Scores:
    return Scores(len(y), regression_metrics(y, prediction, weight))


def _of_probabilities(
    probability: FloatArray, codes: AnyArray, weight: FloatArray | None
) -> Scores:
    found = classification_metrics(codes, probability, weight=weight)
    return Scores(len(codes), {name: found[name] for name in ("accuracy", "log_loss", "auc")})
