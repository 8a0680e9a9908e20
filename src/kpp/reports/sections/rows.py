"""Rows to explore: which are chosen, and everything that is told about each of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kpp._checks import RefusedError
from kpp._typing import FloatArray, OffsetArray
from kpp.certificates import certify
from kpp.reports.sections import row_details as details
from kpp.reports.sections.intervals import LEVEL, of_rows
from kpp.reports.subject import Subject
from kpp.tables.conventions import attribution_words
from kpp.tables.numbers import number, percent

# Certificates of more rows than this are not needed to find the least certified.
MOST_CERTIFIED = 5000

Tell = Callable[[str, int, int], None]


def make(subject: Subject, progress: Tell) -> dict[str, Any]:
    """Choose rows and explain each of them; what has no answer is left out, with the reason."""
    candidates = subject.draw(MOST_CERTIFIED)
    problems: dict[str, str] = {}
    epsilon = subject.tolerance
    radius, lipschitz, margin = (np.full(subject.n_rows, np.nan) for _ in range(3))
    never = np.zeros(subject.n_rows, dtype=bool)
    nearest = np.full(subject.n_rows, -2)
    found = certify(subject.model, subject.rows(candidates), epsilon=epsilon)
    radius[candidates], lipschitz[candidates] = found.radius, found.lipschitz
    margin[candidates], never[candidates] = found.margin, found.never_flips
    nearest[candidates] = found.nearest
    index, reasons = choose(subject, radius, candidates)
    rows = [
        {
            "row": int(i),
            "label": subject.row_label(int(i)),
            "reason": reason,
            **_answer(subject, int(i)),
            "margin": margin[i],
            "radius": radius[i],
            "lipschitz": lipschitz[i],
            "never_flips": bool(never[i]),
            "changes_to": _changes_to(subject, int(nearest[i])),
        }
        for i, reason in zip(index.tolist(), reasons, strict=True)
    ]
    ranges = of_rows(subject, index)
    for place, row in enumerate(rows):
        row["range"] = None if ranges is None else ranges[place]
    for name, tell in details.PARTS.items():
        try:
            parts = tell(subject, index, partial(progress, name))
        except RefusedError as error:
            problems[name] = str(error)
            continue
        for row, part in zip(rows, parts, strict=True):
            row[name] = part
    kept = details.listed_variables(subject)
    return {
        "rows": rows,
        "value_variables": [subject.variables[j] for j in kept],
        "n_other_values": len(subject.variables) - len(kept),
        "n_rows": subject.n_rows,
        "called": subject.called,
        "convention": attribution_words(is_classifier=subject.is_classifier),
        "epsilon": epsilon,
        "epsilon_is": "the standard deviation of the scores"
        if subject.question.additive.is_log
        else "the root mean squared error",
        "certified": "score" if subject.question.additive.is_log else "prediction",
        "radius_unit": "in δ_K" if found.normalize == "tree" else "in δ_T",
        "problems": problems,
        "has_labels": any(row["label"] != str(row["row"]) for row in rows),
        "is_classifier": subject.is_classifier,
        "range_name": f"{percent(LEVEL, 0)} {'set' if subject.is_classifier else 'interval'}",
        "error_name": "log loss" if subject.is_classifier else "absolute error",
        "raw_in_prepared_columns": subject.preparation is not None,
        "has_training_rows": subject.training is not None,
    }


def choose(
    subject: Subject, radius: FloatArray, candidates: OffsetArray
) -> tuple[OffsetArray, list[str]]:
    """Take rows of large error, of small radius, and at random, a third each.

    Returns
    -------
    rows : int array of shape (n_chosen,)
        Distinct, the largest errors first.
    reasons : list of str
        Why each was taken.
    """
    most = min(subject.max_rows, subject.n_rows)
    by_error = np.argsort(-subject.loss, kind="stable")
    own = radius[candidates]
    by_radius = candidates[np.argsort(own, kind="stable")][: np.count_nonzero(~np.isnan(own))]
    shuffled = np.random.default_rng(subject.random_state).permutation(subject.n_rows)
    third = -(-most // 3)
    chosen: dict[int, str] = {}
    for order, reason, size in (
        (by_error, "large error", third),
        (by_radius, "small radius", third),
        (shuffled, "random", most),
    ):
        taken = 0
        for i in order.tolist():
            if taken == size or len(chosen) == most:
                break
            if i not in chosen:
                chosen[i] = reason
                taken += 1
    return np.array(list(chosen), dtype=np.int64), list(chosen.values())


def _answer(subject: Subject, i: int) -> dict[str, Any]:
    if subject.is_classifier:
        actual, predicted = int(subject.target[i]), int(subject.prediction[i])
        probability = float(subject.probability[i, predicted])
        return {
            "actual": subject.class_names[actual],
            "predicted": subject.class_names[predicted],
            "note": f"probability {percent(probability)}",
            "is_right": actual == predicted,
            "error": float(subject.loss[i]),
        }
    actual, predicted = subject.target[i], subject.prediction[i]
    return {
        "actual": ", ".join(number(v, 4) for v in actual),
        "predicted": ", ".join(number(v, 4) for v in predicted),
        "note": "",
        "is_right": None,
        "error": float(np.abs(actual - predicted).mean()),
    }


def _changes_to(subject: Subject, nearest: int) -> str:
    if nearest == -2:
        return ""
    if subject.is_classifier:
        return subject.class_names[nearest]
    return "a higher value" if nearest > 0 else "a lower value"
