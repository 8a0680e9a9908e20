"""Figures and curves of a classifier: confusion, calibration, ROC, precision, thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import FloatArray
from kpp.diagnostics.intervals import wilson
from kpp.diagnostics.metrics import N_BINS, roc_curve
from kpp.diagnostics.ranking import (
    average_precision,
    class_scores,
    gain_curve,
    precision_recall,
    threshold_table,
)
from kpp.reports.subject import Subject

MOST_CLASSES = 10
ROC_POINTS = 120
MOST_LISTED = 40
OTHERS = "(others)"
# A class is rare if it has less than this part of what it would have if all had equally many rows.
RARE = 0.4


def shares_of_fit(subject: Subject) -> FloatArray:
    """Shares of the classes in the rows of the fit; in these rows for a model of an older file."""
    constant = subject.model.constant_
    if constant is not None:
        return np.asarray(constant, dtype=np.float64)
    counts = np.bincount(subject.target, subject.weight, minlength=len(subject.class_names))
    return counts / counts.sum()


def sought_class(subject: Subject) -> int:
    """Which of two classes thresholds look for: the rarer one in the rows of the fit."""
    shares = shares_of_fit(subject)
    return 0 if shares[0] < shares[1] else 1


def imbalance(subject: Subject) -> dict[str, Any] | None:
    """The rarest class, where it is so rare that the accuracy tells little; else None."""
    shares = shares_of_fit(subject)
    rarest = int(shares.argmin())
    if shares[rarest] >= RARE / len(shares):
        return None
    return {
        "class": subject.class_names[rarest],
        "share": shares[rarest],
        "most": shares.max(),
        "n_classes": len(shares),
    }


def by_class(subject: Subject) -> list[dict[str, Any]]:
    """Precision, recall, F1 and average precision of every class against the others."""
    weight = subject.weight
    n_classes = len(subject.class_names)
    found = class_scores(subject.target, subject.prediction, weight, n_classes)
    n_rows = np.bincount(subject.target, minlength=n_classes)
    listed = np.sort(np.argsort(-n_rows, kind="stable")[:MOST_LISTED]).tolist()
    return [
        {
            "class": subject.class_names[c],
            "n_rows": n_rows[c],
            **{name: found[c][name] for name in ("precision", "recall", "f1")},
            "average_precision": average_precision(
                subject.target == c, subject.probability[:, c], weight
            ),
            "share": found[c]["weight"] / weight.sum(),
        }
        for c in listed
    ]


def finding(subject: Subject) -> dict[str, Any]:
    """Curves and thresholds of the rarer of two classes: how well it is found."""
    c = sought_class(subject)
    positive, score = subject.target == c, subject.probability[:, c]
    weight = subject.weight
    precision, recall = precision_recall(positive, score, weight)
    keep = _drawn(recall)
    taken, found = gain_curve(positive, score, weight)
    gained = _drawn(taken + found)
    table = threshold_table(positive, score, weight)
    own = int(np.flatnonzero(table.threshold == 0.5)[0])
    predicted = subject.prediction == c
    counts = [float(weight[predicted & part].sum()) for part in (positive, ~positive)]
    return {
        "class": subject.class_names[c],
        "other": subject.class_names[1 - c],
        "share": table.n_positive / (table.n_positive + table.n_negative),
        "curve": {"precision": precision[keep], "recall": recall[keep]},
        "gains": {"taken": taken[gained], "found": found[gained]},
        "threshold": table.threshold,
        "true_positive": table.true_positive,
        "false_positive": table.false_positive,
        "n_positive": table.n_positive,
        "n_negative": table.n_negative,
        "best": table.best(1.0, 1.0),
        "own": own,
        # Ties at one half, or a rule of its own, may set the predicted classes apart from it.
        "own_is_predicted": bool(
            np.allclose(counts, [table.true_positive[own], table.false_positive[own]])
        ),
    }


def _drawn(rising: FloatArray) -> Any:
    """Places that a drawing can tell apart along a curve, both ends among them."""
    if len(rising) <= ROC_POINTS:
        return np.arange(len(rising))
    grid = np.linspace(rising[0], rising[-1], ROC_POINTS)
    places = np.searchsorted(rising, grid).clip(0, len(rising) - 1)
    return np.unique(np.append(places, 0))


def roc(subject: Subject) -> dict[str, Any]:
    """The ROC curve of the second of two classes, at few enough points to be drawn."""
    false, true = roc_curve(subject.target == 1, subject.probability[:, 1], subject.weight)
    keep = _drawn(false + true)
    return {
        "class": subject.class_names[1],
        "false_positive": false[keep],
        "true_positive": true[keep],
    }


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
