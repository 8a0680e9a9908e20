"""How sure a prediction is: what intervals or sets cover on the test rows, and what is promised."""

from __future__ import annotations

from typing import Any

from kpp._checks import RefusedError
from kpp._typing import OffsetArray
from kpp.diagnostics.coverage import CoveredShare, MeasuredCoverage, measure_coverage
from kpp.diagnostics.intervals import CONFIDENCE
from kpp.models import KPPClassifier, KPPRegressor, PredictionIntervals, PredictionSets
from kpp.models.interval_conditions import ROWS
from kpp.reports.subject import Subject
from kpp.tables.numbers import number, percent

LEVEL = 0.9
MOST_ROWS = 20_000
MOST_TARGETS = 4
MOST_CLASSES = 12


def make(subject: Subject) -> dict[str, Any]:
    """Measure the coverage on the test rows; a model without folds says why it has none."""
    about = {
        "level": LEVEL,
        "confidence": CONFIDENCE,
        "is_sets": subject.is_classifier,
        "called": subject.called,
        "seen": subject.seen,
        "unseen": subject.unseen,
        "weighted": subject.is_weighted,
        "grouped": subject.is_grouped,
    }
    index = subject.draw(MOST_ROWS)
    n_targets = 1 if subject.is_classifier else min(subject.prediction.shape[1], MOST_TARGETS)
    try:
        measured = [
            measure_coverage(
                subject.question,
                subject.rows(index),
                subject.y[index],
                LEVEL,
                target=k,
                independent_duplicates=subject.independent_duplicates,
            )
            for k in range(n_targets)
        ]
    except RefusedError as error:
        kind = "sets" if subject.is_classifier else "intervals"
        none = f"No coverage is guaranteed, because this model gives no {kind}."
        return {**about, "outputs": [], "why": str(error), "sentence": none}
    found = measured[0].found
    return {
        **about,
        "n_rows": len(index),
        "why": None,
        "sentence": sentence(found),
        "outputs": [
            {"output": subject.output_names[k], **_output(own)} for k, own in enumerate(measured)
        ],
        "n_empty": found.n_empty if isinstance(found, PredictionSets) else 0,
        "is_guarantee": found.is_guarantee,
        "proven": found.proven_coverage,
        "n_calibration": found.n_calibration,
        "n_folds": found.n_folds,
        "conditions": [{"name": a.name, "holds": a.holds, "why": a.why} for a in found.conditions],
    }


def _output(measured: MeasuredCoverage) -> dict[str, Any]:
    return {
        "overall": _share(measured.overall),
        "by_level": [_share(own) for own in measured.by_level],
        "by_prediction": [_share(own) for own in measured.by_prediction],
    }


def _share(own: CoveredShare) -> dict[str, Any]:
    return {
        "at": own.at,
        "share": own.share,
        "low": own.low,
        "high": own.high,
        "size": own.size,
        "n_rows": own.n_rows,
    }


def sentence(found: PredictionIntervals | PredictionSets) -> str:
    """Say in one plain sentence what is guaranteed, or why nothing is."""
    is_sets = isinstance(found, PredictionSets)
    kind, truth = ("sets", "class") if is_sets else ("intervals", "value")
    if found.is_guarantee:
        text = (
            f"At least {percent(found.proven_coverage)} of such {kind} are guaranteed to hold the "
            f"true {truth}, on average over training sets and new rows, if rows are drawn alike "
            f"(that is taken on trust); they aim at {percent(found.coverage, 0)}."
        )
        # That rows are drawn alike nobody can see, and it is in the sentence.
        more = [own for own in found.conditions if own.holds is None and own.name != ROWS]
        return f"{text} Also taken on trust: {'; '.join(a.name for a in more)}." if more else text
    # The first half of a reason says what is so, the second what to do about it.
    reasons = [own.why.partition(";")[0] for own in found.failing]
    if not reasons:
        reasons = [
            f"at this level {found.n_calibration:,} rows in {found.n_folds} folds prove nothing"
        ]
    return f"No coverage is guaranteed, because {'; and because '.join(reasons)}."


def of_rows(subject: Subject, index: OffsetArray) -> list[dict[str, Any]] | None:
    """The interval or set of each row in words, and whether it holds the truth; None for none.

    Parameters
    ----------
    subject : Subject
        Of the report.
    index : int array
        Rows of the explorer.

    Returns
    -------
    words : list of dict, or None
    """
    model, rows = subject.model, subject.rows(index)
    try:
        if isinstance(model, KPPClassifier):
            return _sets(subject, index, model.predict_set(rows, LEVEL))
        assert isinstance(model, KPPRegressor)
        found = model.predict_interval(rows, LEVEL)
    except RefusedError:  # the section of intervals says why
        return None
    lower, upper = (end.reshape(len(index), -1) for end in (found.lower, found.upper))
    truth = subject.target[index]
    return [
        {
            "text": ", ".join(
                f"{number(a, 4)} to {number(b, 4)}" for a, b in zip(low, high, strict=True)
            ),
            "covers": bool(((low <= y) & (y <= high)).all()),
        }
        for low, high, y in zip(lower, upper, truth, strict=True)
    ]


def _sets(subject: Subject, index: OffsetArray, found: PredictionSets) -> list[dict[str, Any]]:
    words = []
    for own, code in zip(found.sets, subject.target[index], strict=True):
        names = [name for name, inside in zip(subject.class_names, own, strict=True) if inside]
        more = len(names) - MOST_CLASSES
        shown = names[:MOST_CLASSES] + ([f"and {more} more"] if more > 0 else [])
        words.append({"text": ", ".join(shown) or "no class", "covers": bool(own[code])})
    return words
