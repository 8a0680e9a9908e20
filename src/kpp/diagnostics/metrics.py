"""Predictive metrics of a model on a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import (
    balanced_accuracy_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from kpp._typing import AnyArray, FloatArray

N_BINS = 10


def predictive_metrics(model: Any, X: Any, y: AnyArray) -> dict[str, float]:
    """Score a model on rows, in the usual figures of its task.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows.
    y : array of shape (n_rows,)
        Labels or numbers.

    Returns
    -------
    metrics : dict
        "rmse", "mae" and "r2"; or "error", "balanced_accuracy", "auc" (one class against the
        rest for more than two), "log_loss", "brier" and "calibration_error". NaN where the rows
        do not define one: a single row, a class that is absent.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> from kpp.diagnostics import predictive_metrics
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPClassifier(n_estimators=10, alpha=1e-2, random_state=0).fit(X, y)
    >>> sorted(predictive_metrics(model, X, y))
    ['auc', 'balanced_accuracy', 'brier', 'calibration_error', 'error', 'log_loss']
    """
    if not is_classifier(model):
        prediction = model.predict(X)
        return {
            "rmse": float(root_mean_squared_error(y, prediction)),
            "mae": float(mean_absolute_error(y, prediction)),
            "r2": float(r2_score(y, prediction)) if len(y) > 1 else np.nan,
        }
    probability = model.predict_proba(X)
    codes = np.searchsorted(model.classes_, y)
    label = model.predict(X)
    present = np.unique(codes)
    auc = np.nan
    if len(present) == probability.shape[1]:
        scores = probability[:, 1] if len(present) == 2 else probability
        auc = float(roc_auc_score(codes, scores, multi_class="ovr"))
    return {
        "error": float(np.mean(label != y)),
        "balanced_accuracy": _balanced_accuracy(y, label, present),
        "auc": auc,
        "log_loss": float(log_loss(codes, probability, labels=np.arange(probability.shape[1]))),
        "brier": brier_score(probability, codes),
        "calibration_error": calibration_error(probability, codes),
    }


def _balanced_accuracy(y: AnyArray, label: AnyArray, present: AnyArray) -> float:
    if len(present) == 1:
        return float(np.mean(label == y))
    # The mean over the classes that are present; scikit-learn warns where others are predicted.
    if len(np.setdiff1d(label, y)):
        return float(np.mean([np.mean(label[y == c] == c) for c in np.unique(y)]))
    return float(balanced_accuracy_score(y, label))


def brier_score(probability: FloatArray, codes: AnyArray) -> float:
    r"""Brier score: the mean squared distance of the probabilities from the label.

    For two classes, of the second class alone, as is usual; for more, summed over classes.

    Parameters
    ----------
    probability : array of shape (n_rows, n_classes)
        Predicted probabilities.
    codes : int array of shape (n_rows,)
        Classes as 0, ..., n_classes - 1.

    Returns
    -------
    score : float

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.metrics import brier_score
    >>> round(brier_score(np.array([[0.2, 0.8], [0.9, 0.1]]), np.array([1, 0])), 3)
    0.025
    """
    target = codes[:, None] == np.arange(probability.shape[1])
    each = np.square(probability - target).sum(axis=1)
    return float(each.mean() / (2 if probability.shape[1] == 2 else 1))


def calibration_error(probability: FloatArray, codes: AnyArray, n_bins: int = N_BINS) -> float:
    r"""Expected calibration error of the predicted class.

    .. math:: \sum_b \frac{n_b}{n} \bigl|\text{accuracy}_b - \text{confidence}_b\bigr|

    over bins b of equally many rows, by the probability of the predicted class.

    Parameters
    ----------
    probability : array of shape (n_rows, n_classes)
        Predicted probabilities.
    codes : int array of shape (n_rows,)
        Classes as 0, ..., n_classes - 1.
    n_bins : int
        Number of bins.

    Returns
    -------
    error : float
        Not 0 for a calibrated model of few rows: about :math:`(2 b / \pi n)^{1/2}` times the
        standard deviation of the labels in a bin, for b bins.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.metrics import calibration_error
    >>> always = np.tile([0.25, 0.75], (4, 1))
    >>> calibration_error(always, np.array([1, 1, 1, 0]), n_bins=1)
    0.0
    """
    confidence = probability.max(axis=1)
    right = probability.argmax(axis=1) == codes
    order = np.argsort(confidence, kind="stable")
    bins = np.array_split(order, min(n_bins, len(order)))
    gaps = [abs(right[b].mean() - confidence[b].mean()) * len(b) for b in bins]
    return float(sum(gaps) / len(codes))
