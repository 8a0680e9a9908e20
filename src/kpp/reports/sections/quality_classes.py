"""Figures and curves of a classifier: confusion, calibration, ROC."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.diagnostics.metrics import N_BINS
from kpp.reports.intervals import wilson
from kpp.reports.subject import Subject

MOST_CLASSES = 10
ROC_POINTS = 120
OTHERS = "(others)"


def class_figures(
    codes: AnyArray, prediction: AnyArray, probability: FloatArray, weight: FloatArray
) -> dict[str, float]:
    """Accuracy, balanced accuracy, AUC, log loss and Brier score of weighted rows."""
    n_classes = probability.shape[1]
    own = np.clip(probability[np.arange(len(codes)), codes], 1e-300, 1.0)
    truth = codes[:, None] == np.arange(n_classes)
    square = np.square(probability - truth).sum(axis=1) / (2 if n_classes == 2 else 1)
    is_right = prediction == codes
    by_class = [
        float(np.average(is_right[codes == c], weights=weight[codes == c]))
        for c in np.unique(codes[weight > 0])
    ]
    return {
        "accuracy": float(np.average(is_right, weights=weight)),
        "balanced_accuracy": float(np.mean(by_class)),
        "log_loss": float(np.average(-np.log(own), weights=weight)),
        "brier": float(np.average(square, weights=weight)),
        "auc": _auc(codes, probability, weight),
    }


def _auc(codes: AnyArray, probability: FloatArray, weight: FloatArray) -> float:
    """Area under the curve; of one class against the rest, averaged, for more than two."""
    n_classes = probability.shape[1]
    if n_classes == 2:
        return _binary_auc(codes == 1, probability[:, 1], weight)
    return float(
        np.mean([_binary_auc(codes == c, probability[:, c], weight) for c in range(n_classes)])
    )


def _binary_auc(positive: AnyArray, score: FloatArray, weight: FloatArray) -> float:
    false, true = _roc_curve(positive, score, weight)
    if not len(true):
        return np.nan
    return float(np.diff(false) @ (true[1:] + true[:-1]) / 2)


def _roc_curve(
    positive: AnyArray, score: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """False and true positive rates at every distinct score; empty for a single class."""
    order = np.argsort(-score, kind="stable")
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    true = np.append(0.0, np.cumsum((weight * positive)[order])[last])
    false = np.append(0.0, np.cumsum((weight * ~positive)[order])[last])
    if true[-1] == 0 or false[-1] == 0:
        return np.empty(0), np.empty(0)
    return false / false[-1], true / true[-1]


def roc(subject: Subject) -> dict[str, Any]:
    """The ROC curve of the second of two classes, at few enough points to be drawn."""
    false, true = _roc_curve(subject.target == 1, subject.probability[:, 1], subject.weight)
    if len(false) > ROC_POINTS:
        # The distinct heights that a drawing can tell apart.
        grid = np.linspace(0, 1, ROC_POINTS)
        keep = np.unique(np.searchsorted(false + true, 2 * grid).clip(0, len(false) - 1))
        false, true = false[keep], true[keep]
    return {"class": subject.class_names[1], "false_positive": false, "true_positive": true}


def confusion(subject: Subject) -> dict[str, Any]:
    """Counts of actual against predicted classes; rare classes together where there are many."""
    n_classes = len(subject.class_names)
    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (subject.target, subject.prediction), 1)
    names = subject.class_names
    others = None
    if n_classes > MOST_CLASSES:
        order = np.argsort(-counts.sum(axis=1), kind="stable")
        kept = np.sort(order[: MOST_CLASSES - 1])
        group = np.full(n_classes, MOST_CLASSES - 1)
        group[kept] = np.arange(MOST_CLASSES - 1)
        small = np.zeros((MOST_CLASSES, MOST_CLASSES))
        np.add.at(small, (group[:, None], group[None, :]), counts)
        # Where both classes are among the others, they need not be the same one.
        right = int(counts.diagonal()[group == MOST_CLASSES - 1].sum())
        others = {
            "n_classes": n_classes - len(kept),
            "right": right,
            "wrong": int(small[-1, -1]) - right,
        }
        counts, names = small, [*(names[k] for k in kept), OTHERS]
    return {"classes": names, "counts": counts.astype(int), "others": others}


def calibration(subject: Subject) -> dict[str, Any]:
    """Observed share against predicted probability, in bins of equally many rows."""
    if len(subject.class_names) == 2:
        score, event = subject.probability[:, 1], subject.target == 1
        what = f"of class {subject.class_names[1]}"
    else:
        score, event = subject.probability.max(axis=1), subject.target == subject.prediction
        what = "that the predicted class is right"
    order = np.argsort(score, kind="stable")
    bins = []
    for rows in np.array_split(order, min(N_BINS, len(order))):
        weight = subject.weight[rows]
        if not weight.any():
            continue
        share = float(np.average(event[rows], weights=weight))
        effective = float(weight.sum() ** 2 / np.square(weight).sum())
        low, high = wilson(share, effective)
        bins.append(
            {
                "predicted": float(np.average(score[rows], weights=weight)),
                "observed": share,
                "low": low,
                "high": high,
                "n_rows": len(rows),
            }
        )
    return {"what": what, "bins": bins}
