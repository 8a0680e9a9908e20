"""Where the model is worse: scores by the values of columns, and by slices that the user names."""

from __future__ import annotations

import math
from typing import Any

from kpp._checks import RefusedError
from kpp.diagnostics.intervals import CONFIDENCE
from kpp.diagnostics.segments import Segment, segments_of_rows
from kpp.reports.escaping import shown
from kpp.reports.sections.intervals import LEVEL
from kpp.reports.subject import Subject

MOST_LISTED = 30
# Intervals of more rows take longer than the rest of the section.
MOST_COVERED = 20_000
LONGEST = 90


def make(subject: Subject, by: Any) -> dict[str, Any]:
    """Score the test rows by segments, with what intervals or sets cover in each."""
    settings = {
        "by": by,
        "weight": subject.weight,
        "groups": subject.groups if subject.is_grouped else None,
    }
    rows = (subject.question, subject.all_rows, subject.given, subject.target)
    try:
        level = LEVEL if subject.n_rows <= MOST_COVERED else None
        found = segments_of_rows(*rows, **settings, coverage=level)
    except RefusedError:  # a model without folds has no intervals
        found = segments_of_rows(*rows, **settings)
    is_squared = found.loss == "squared error"
    return {
        "loss": found.loss,
        "score": "RMSE" if is_squared else found.loss.capitalize(),
        "overall": _score(found.overall, is_squared),
        "n_rows": found.n_rows,
        "n_segments": len(found.segments),
        "n_tested": found.n_tested,
        "n_worse": len(found.worse),
        "confidence": CONFIDENCE,
        "called": subject.called,
        "coverage": found.coverage,
        "what": f"share of {subject.class_names[1]}" if _is_binary(subject) else "mean",
        "grouped": found.grouped,
        "said": found.said,
        "notes": [shown(note, 400) for note in found.notes],
        "segments": [_segment(one, is_squared) for one in found.segments[:MOST_LISTED]],
    }


def _is_binary(subject: Subject) -> bool:
    return subject.is_classifier and len(subject.class_names) == 2


def _score(loss: float, is_squared: bool) -> float:
    return math.sqrt(max(loss, 0.0)) if is_squared and not math.isnan(loss) else loss


def _segment(one: Segment, is_squared: bool) -> dict[str, Any]:
    return {
        "name": shown(one.name, LONGEST),
        "n_rows": one.n_rows,
        "score": _score(one.loss, is_squared),
        "low": _score(one.low, is_squared),
        "high": _score(one.high, is_squared),
        "rest": _score(one.rest, is_squared),
        "difference": one.difference,
        "difference_low": one.difference_low,
        "difference_high": one.difference_high,
        "adjusted": one.adjusted,
        "verdict": one.verdict,
        "actual": one.actual,
        "predicted": one.predicted,
        "covered": one.covered,
        "covered_low": one.covered_low,
        "covered_high": one.covered_high,
    }
