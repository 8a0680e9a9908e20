"""How good: test and out-of-fold figures beside those of a constant, with their uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.diagnostics import (
    auc_reason,
    classification_metrics,
    constant_metrics,
    regression_metrics,
)
from kpp.diagnostics.intervals import CONFIDENCE, resampled, wilson
from kpp.diagnostics.metrics import LOSS_NAMES, loss_name
from kpp.diagnostics.ranking import average_precision
from kpp.diagnostics.rivals import CONSTANT
from kpp.models.penalties import kept_score
from kpp.reports.out_of_fold import out_of_fold_note
from kpp.reports.sections.quality_classes import (
    by_class,
    calibration,
    confusion,
    finding,
    imbalance,
    roc,
    sought_class,
)
from kpp.reports.subject import Subject
from kpp.tables.numbers import figure, percent

GRID = 24
HISTOGRAM = 30


def make(subject: Subject) -> dict[str, Any]:
    """Score the model on the test rows, and out of fold where that can be had."""
    known, note = _out_of_fold(subject)
    found = _classes(subject, known) if subject.is_classifier else _numbers(subject, known)
    return {
        **found,
        "out_of_fold_note": note,
        "confidence": CONFIDENCE,
        "weighted": subject.is_weighted,
        "grouped": subject.is_grouped,
        "unseen": subject.unseen,
        "seen": subject.seen,
        "called": subject.called,
    }


def cautions(quality: dict[str, Any], comparison: dict[str, Any] | None = None) -> list[str]:
    """What the first screen must say: which headline scores do not keep clear of the constant's.

    A comparison of the same rows one by one tells more than two figures: where it shows that the
    constant is worse by its score, that one is not spoken of.
    """
    found = []
    told = None
    if comparison is not None and comparison["made"]:
        worse = [one["name"] for one in comparison["models"][1:] if one["verdict"] == "worse"]
        told = comparison["score"] if CONSTANT in worse else None
    for table in quality["tables"] if quality["made"] else []:
        for line in table["lines"][: 2 if quality["task"] == "classification" else 1]:
            low, high, level = line["low"], line["high"], line["baseline"]
            if low is None or level is None or line["short"] == told:
                continue
            if low > level if line["higher_is_better"] else high < level:
                continue
            write = percent if line["share"] else figure
            found.append(
                f"By its {line['short'] if line['short'].isupper() else line['short'].lower()} the "
                f"model is not known to be better than a constant: the interval, {write(low)} to "
                f"{write(high)}, does not keep clear of the constant's {write(level)}."
            )
    return found


def _out_of_fold(subject: Subject) -> tuple[tuple[AnyArray, AnyArray, FloatArray] | None, str]:
    """Out-of-fold prediction, target and weight; and what to say about them."""
    model = subject.model
    prediction, score = model.oof_prediction_, kept_score(model)
    if prediction is None or score is None:
        return None, (
            "There are no out-of-fold predictions: alpha was given, so no folds were needed. "
            'With alpha="auto" they come with the fit.'
        )
    if subject.training is None:
        if model.scoring is not None:
            text = f"the score of {model.scoring!r} is {score:.4g}"
        elif subject.is_classifier:
            text = f"the log loss is {-score:.4g}"
        elif (name := loss_name(model.loss_)) is not None:
            text = f"the {LOSS_NAMES[name]} is {-score:.4g}"
        else:
            text = f"the root mean squared error is {np.sqrt(max(-score, 0.0)):.4g}"
        return None, (
            f"{out_of_fold_note(model)} There {text}. The model does not keep the training "
            "targets, which the other out-of-fold figures need: in Python train=(X, y) gives them "
            "to the report; kpp report has them where it fits the model itself."
        )
    target = subject.training.target[model.fit_rows_]
    weight = model.sample_weight_
    weight = np.ones(len(target)) if weight is None else np.asarray(weight)
    return (np.asarray(prediction), target, weight), out_of_fold_note(model)


def _line(
    name: str,
    test: float,
    interval: tuple[float, float] | None,
    baseline: float | None,
    out_of_fold: float | None,
    *,
    higher: bool,
    share: bool = False,
    short: str = "",
    why: str | None = None,
) -> dict[str, Any]:
    low, high = (None, None) if interval is None else interval
    return {
        "name": name,
        "short": short or name,
        "test": test,
        "low": low,
        "high": high,
        "baseline": baseline,
        "out_of_fold": out_of_fold,
        "higher_is_better": higher,
        "share": share,
        "why": why,
    }


# Regression.


def _numbers(subject: Subject, known: Any) -> dict[str, Any]:
    tables, charts = [], []
    for k, name in enumerate(subject.output_names):
        y, prediction = subject.target[:, k], subject.prediction[:, k]
        other = None
        if known is not None:
            guess, truth, weight = known
            own_guess = guess.reshape(len(truth), -1)[:, k]
            loss = subject.model.loss_
            other = regression_metrics(truth[:, k], own_guess, weight, loss=loss)
        lines = _number_lines(y, prediction, subject.weight, other, subject, k)
        tables.append({"output": name, "lines": lines})
        if k < 4:
            charts.append({"output": name, **_density(y, prediction), **_residuals(y, prediction)})
    return {"task": "regression", "tables": tables, "charts": charts}


def _number_lines(
    y: FloatArray,
    prediction: FloatArray,
    weight: FloatArray,
    other: dict[str, float] | None,
    subject: Subject,
    output: int,
) -> list[dict[str, Any]]:
    loss = subject.model.loss_
    own = regression_metrics(y, prediction, weight, loss=loss)
    constant = constant_metrics(subject.model, y, weight, output) or {}

    def statistic(rows: AnyArray) -> list[float]:
        found = regression_metrics(y[rows], prediction[rows], weight[rows], loss=loss)
        return [found[key] for key in names]

    # What the model minimises comes first.
    name = loss_name(loss)
    title = "" if name is None else LOSS_NAMES[name].replace("mean", "Mean")
    first = {} if name is None else {name: (title, title, False)}
    names = first | {
        "rmse": ("Root mean squared error", "RMSE", False),
        "mae": ("Mean absolute error", "Mean absolute error", False),
        "r2": ("R²: share of the variance explained", "R²", True),
    }
    bands = resampled(statistic, weight, subject.random_state)
    return [
        _line(
            title,
            own[key],
            bands[i],
            constant.get(key),
            None if other is None else other[key],
            higher=higher,
            short=short,
        )
        for i, (key, (title, short, higher)) in enumerate(names.items())
    ]


def _density(y: FloatArray, prediction: FloatArray) -> dict[str, Any]:
    """Actual against predicted, counted in the cells of a square grid."""
    both = np.concatenate([y, prediction])
    low, high = float(both.min()), float(both.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts, edges, _ = np.histogram2d(prediction, y, bins=GRID, range=[[low, high], [low, high]])
    filled = np.argwhere(counts > 0)
    return {
        "density": {
            "edges": edges,
            "cells": [[int(i), int(j), int(counts[i, j])] for i, j in filled],
        }
    }


def _residuals(y: FloatArray, prediction: FloatArray) -> dict[str, Any]:
    rest = y - prediction
    # A few far rows would leave one bar for all others: they are counted in the outermost bars.
    low, high = np.quantile(rest, [0.005, 0.995])
    size = max(abs(float(low)), abs(float(high))) or 1.0
    edges = np.linspace(-size, size, HISTOGRAM + 1)
    counts, _ = np.histogram(np.clip(rest, -size, size), bins=edges)
    return {
        "residuals": {
            "edges": edges,
            "counts": counts,
            "outside": int((np.abs(rest) > size).sum()),
            "mean": float(rest.mean()),
            "quantiles": np.quantile(rest, [0.05, 0.5, 0.95]),
        }
    }


# Classification.


def _classes(subject: Subject, known: Any) -> dict[str, Any]:
    codes, probability, weight = subject.target, subject.probability, subject.weight
    prediction = subject.prediction
    is_binary = probability.shape[1] == 2
    sought = sought_class(subject) if is_binary else None
    own = _figures(codes, probability, weight, sought, prediction)
    other = None
    if known is not None:
        guess, truth, its_weight = known
        other = _figures(truth, guess, its_weight, sought)
    constant = constant_metrics(subject.model, codes, weight) or {}
    if constant and sought is not None:  # which has the same score for every row
        same = np.ones_like(probability)
        constant["average_precision"] = average_precision(codes == sought, same[:, 0], weight)
    names = {
        "accuracy": ("Accuracy", True, True),
        "log_loss": ("Log loss", False, False),
        "auc": ("Area under the ROC curve", True, False),
        "balanced_accuracy": ("Balanced accuracy", True, True),
        "brier": ("Brier score", False, False),
    }
    if sought is not None:
        title = f"Average precision of class {subject.class_names[sought]}"
        names["average_precision"] = (title, True, False)
    rare = imbalance(subject)
    if rare is not None:  # what suits it comes first
        first = ["average_precision", "log_loss"] if is_binary else ["balanced_accuracy"]
        names = {key: names[key] for key in [*first, *names]}

    def statistic(rows: AnyArray) -> list[float]:
        drawn = _figures(codes[rows], probability[rows], weight[rows], sought, prediction[rows])
        return [drawn[key] for key in names]

    bands = dict(zip(names, resampled(statistic, weight, subject.random_state), strict=True))
    effective = float(weight.sum() ** 2 / np.square(weight).sum())
    bands["accuracy"] = wilson(own["accuracy"], effective)
    lines = [
        _line(
            title,
            own[key],
            bands[key],
            constant.get(key),
            None if other is None else other[key],
            higher=higher,
            share=is_share,
            short="Average precision" if key == "average_precision" else "",
            why=auc_reason(codes, subject.class_names, weight) if key == "auc" else None,
        )
        for key, (title, higher, is_share) in names.items()
    ]
    found = {
        "task": "classification",
        "tables": [{"output": "", "lines": lines}],
        "imbalance": rare,
        "by_class": by_class(subject),
        "confusion": confusion(subject),
        "calibration": calibration(subject),
    }
    present = codes[weight > 0]
    if is_binary and 0 < present.sum() < len(present):
        found["roc"] = roc(subject)
        found["finding"] = finding(subject)
    return found


def _figures(
    codes: AnyArray,
    probability: FloatArray,
    weight: FloatArray,
    sought: int | None,
    prediction: AnyArray | None = None,
) -> dict[str, float]:
    """The usual figures; with two classes also the average precision of the one looked for."""
    found = classification_metrics(codes, probability, prediction, weight)
    if sought is not None:
        area = average_precision(codes == sought, probability[:, sought], weight)
        found["average_precision"] = area
    return found
