"""Figures and curves of a classifier: confusion, calibration, ROC."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp.diagnostics.intervals import wilson
from kpp.diagnostics.metrics import N_BINS, roc_curve
from kpp.reports.subject import Subject

MOST_CLASSES = 10
ROC_POINTS = 120
OTHERS = "(others)"


def roc(subject: Subject) -> dict[str, Any]:
    """The ROC curve of the second of two classes, at few enough points to be drawn."""
    false, true = roc_curve(subject.target == 1, subject.probability[:, 1], subject.weight)
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
