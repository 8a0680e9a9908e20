"""How good a model is, in a few figures; and how good a constant would be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from kpp._typing import AnyArray, FloatArray

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


def scores_of_model(model: Any, X: Any, y: AnyArray, weight: Any = None) -> Scores:
    """Score a fitted model on prepared rows."""
    if is_classifier(model):
        return _of_probabilities(model.predict_proba(X), _codes(model, y), weight)
    return _of_numbers(model.predict(X), y, weight)


def scores_out_of_fold(model: Any, y: AnyArray) -> Scores | None:
    """Score the out-of-fold predictions of a fit; None where alpha was given."""
    if model.oof_prediction_ is None:
        return None
    own = y[model.fit_rows_]
    if is_classifier(model):
        return _of_probabilities(model.oof_prediction_, _codes(model, own), model.sample_weight_)
    return _of_numbers(model.oof_prediction_, own, model.sample_weight_)


def baseline_scores(model: Any, y_train: AnyArray, y: AnyArray, weight: Any = None) -> Scores:
    """Score a constant: the mean of the rows of the linear layer, or the shares of classes."""
    own, own_weight = y_train[model.fit_rows_], model.sample_weight_
    if is_classifier(model):
        count = np.bincount(_codes(model, own), own_weight, minlength=len(model.classes_))
        share = np.tile(count / count.sum(), (len(y), 1))
        return _of_probabilities(share, _codes(model, y), weight)
    return _of_numbers(np.full(len(y), np.average(own, weights=own_weight)), y, weight)


def _codes(model: Any, y: AnyArray) -> AnyArray:
    return np.searchsorted(model.classes_, y)


def _of_numbers(prediction: FloatArray, y: AnyArray, weight: Any) -> Scores:
    error = y - prediction
    return Scores(
        len(y),
        {
            "rmse": float(np.sqrt(np.average(np.square(error), weights=weight))),
            "mae": float(np.average(np.abs(error), weights=weight)),
            "r2": float(r2_score(y, prediction, sample_weight=weight)) if len(y) > 1 else np.nan,
        },
    )


def _of_probabilities(probability: FloatArray, codes: AnyArray, weight: Any) -> Scores:
    n_classes = probability.shape[1]
    right = probability.argmax(axis=1) == codes
    auc = np.nan
    if len(np.unique(codes)) == n_classes:
        score = probability[:, 1] if n_classes == 2 else probability
        auc = float(roc_auc_score(codes, score, multi_class="ovr", sample_weight=weight))
    loss = log_loss(codes, probability, labels=np.arange(n_classes), sample_weight=weight)
    return Scores(
        len(codes),
        {
            "accuracy": float(np.average(right, weights=weight)),
            "log_loss": float(loss),
            "auc": auc,
        },
    )
