"""Risk bounds, each with a sentence on what it guarantees and what not."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._checks import RefusedError
from kpp.bounds import Bound, risk_bounds
from kpp.bounds.samples import SAY_SO
from kpp.reports.subject import Subject
from kpp.tables.numbers import number

MOST_ROWS = 20_000


def make(subject: Subject) -> dict[str, Any]:
    """Compute the bounds on the test rows and, where they were given, on the rows of the fit."""
    samples, notes = [], []
    index = subject.draw_whole(MOST_ROWS)
    groups = None if subject.groups is None else subject.groups[index]
    attempts = [("test", subject.rows(index), subject.y[index], groups)]
    training = subject.training
    if training is not None:
        attempts.append(("fit", training.rows, training.y, training.groups))
    else:
        notes.append(
            "Bounds on the rows of the fit need these rows: in Python train=(X, y), what was given "
            "to fit, gives them to the report; kpp report has them where it fits the model itself."
        )
    if not subject.is_classifier and subject.y_range is None:
        notes.append(
            "A guarantee for a squared error needs limits of the target that were known before "
            "any data: give y_range=(low, high) to the report, or --y-range LOW HIGH to kpp report."
        )
    if subject.is_grouped:
        notes.append(
            "The rows come in groups. A bound that counts groups speaks of a random row of a "
            "random group: groups count alike, whatever their sizes, and that is the risk of a "
            "random row only where all are of one size."
        )
    duplicates = []
    # Test rows without their labels show where the parts of such a model disagree.
    compares = subject.question.regime.leaves_folds_out and subject.is_classifier
    for sample, rows, y, groups in attempts:
        try:
            found = risk_bounds(
                subject.question,
                rows,
                y,
                sample=sample,
                y_range=subject.y_range,
                groups=groups,
                independent_duplicates=subject.independent_duplicates,
                unlabelled=attempts[0][1] if compares and sample == "fit" else None,
            )
        except RefusedError as error:
            notes.append(f"No bounds on the {_rows(sample, subject)}: {error}")
            continue
        samples.append(_sample(sample, list(found)))
        notes.extend(note for note in found.notes if "give y_range" not in note)
        duplicates += [
            f"Equal rows void the guarantees on the {_rows(sample, subject)}: {why}."
            for why in _of_equal_rows(list(found))
        ]
    return {
        "samples": samples,
        "notes": [*notes, *duplicates],
        "duplicates": duplicates,
        "weighted": subject.is_weighted,
        "unseen": subject.unseen,
        "seen": subject.seen,
        "called": subject.called,
    }


def _of_equal_rows(found: list[Bound]) -> list[str]:
    """What equal rows cost, where the caller may say that they are independent draws; each once."""
    reasons = [a.why for bound in found for a in bound.failing if SAY_SO in a.why]
    return list(dict.fromkeys(reasons))


def _rows(sample: str, subject: Subject) -> str:
    return f"{sample} rows" if sample == "fit" else f"{subject.called}s"


def _sample(sample: str, report: list[Bound]) -> dict[str, Any]:
    listed = [_bound(bound) for bound in report]
    # What is guaranteed and says something comes first; the paper's order otherwise.
    listed.sort(key=lambda b: (not b["is_guarantee"], b["is_trivial"]))
    return {"sample": sample, "n_rows": report[0].n_rows if len(report) else 0, "bounds": listed}


def _bound(bound: Bound) -> dict[str, Any]:
    return {
        "name": bound.name,
        "quantity": bound.quantity,
        "total": bound.total,
        "empirical_risk": bound.empirical_risk,
        "complexity": bound.complexity,
        "price_of": price_words(bound),
        "exceeds_any": _exceeds_any(bound),
        "confidence": bound.confidence,
        "trivial_level": bound.trivial_level,
        "is_guarantee": bound.is_guarantee,
        "is_trivial": bound.is_trivial,
        "delta": bound.delta,
        "n_rows": bound.n_rows,
        "sentence": sentence(bound),
        "assumptions": [
            {"name": a.name, "holds": a.holds, "why": a.why} for a in bound.assumptions
        ],
    }


def quantity_words(quantity: str) -> str:
    """What is bounded, as it stands in a sentence.

    Examples
    --------
    >>> from kpp.reports.sections.bounds import quantity_words
    >>> quantity_words("squared loss, clipped: of the mean of the folds' predictions")
    "clipped squared loss of the mean of the folds' predictions"
    >>> quantity_words("0/1 error: of a random row of a random group")
    '0/1 error of a random row of a random group'
    """
    loss, colon, whose = quantity.partition(":")
    if loss.endswith(", clipped"):
        loss = f"clipped {loss.removesuffix(', clipped')}"
    if whose.startswith(" of"):
        colon = ""
    return f"{loss}{colon}{whose}".replace(", a random row", ", for a random row")


def price_words(bound: Bound) -> str:
    """What the second part of a bound is paid for."""
    if "dissent" in bound.details:
        of = "the vote" if "vote" in bound.quantity else "the model"
        return f"for the share of the rows without labels on which a part and {of} disagree"
    if "factor" in bound.details:
        factor = number(bound.details["factor"])
        return f"for the vote, which may err {factor} times as often as its parts do"
    if bound.quantity == "Rademacher complexity":
        return "for the size of the class of models"
    return "for having chosen the model on it"


def _exceeds_any(bound: Bound) -> bool:
    """Whether it is a bound on a share, and above 1, which no share exceeds."""
    return bound.quantity.partition(":")[0] == "0/1 error" and bound.total > 1


def sentence(bound: Bound) -> str:
    """Say what a bound guarantees, and what not, in plain words."""
    sure = f"With probability at least {number(100 * (1 - bound.delta), 4)}% over the draw of the "
    n_groups = bound.details.get("groups")
    drawn = f"{bound.n_rows:,} rows" if n_groups is None else f"{n_groups:,} groups"
    if (n_unlabelled := bound.details.get("unlabelled rows")) is not None:
        drawn += f" and of {n_unlabelled:,} rows without their labels"
    quantity = quantity_words(bound.quantity)
    quantity += "," if "," in quantity else ""
    value = "a number above 1" if _exceeds_any(bound) else number(bound.total)
    claim = f"{sure}{drawn}, the {quantity} is at most {value}."
    if bound.quantity == "Rademacher complexity":
        size = number(bound.total)
        text = (
            f"The {bound.quantity} of the class of models is at most {size}: an ingredient of "
            "bounds on the risk, not a bound on the risk itself."
        )
        return text if bound.is_guarantee else f"{text} Not guaranteed here: {_failing(bound)}."
    says_nothing = bound.is_trivial or _exceeds_any(bound)
    compared = level_words(bound) if bound.is_trivial else "no share of errors is above 1"
    if bound.is_guarantee and not says_nothing:
        trusted = [a.name for a in bound.assumptions if a.holds is None]
        text = claim
        if np.isfinite(bound.trivial_level):
            text += f" For comparison: {level_words(bound)}."
        if trusted:
            text += f" Taken on trust: {'; '.join(trusted)}."
        return text
    if bound.is_guarantee:
        return f"{claim} True, but it says nothing: {compared}."
    if says_nothing:
        return (
            f"Not a guarantee: {_failing(bound)}. And it would say nothing: its value is {value}, "
            f"and {compared}."
        )
    return (
        f"Not a guarantee: {_failing(bound)}. Its value, {number(bound.total)}, is a diagnostic "
        "to compare models with."
    )


def level_words(bound: Bound) -> str:
    """Say what the level is from which on a bound is trivial: it is not of one kind."""
    level = number(bound.trivial_level)
    # A mean over folds is compared with the mean of what their own constants have.
    rows = "the rows of a fold" if "folds" in bound.details else "these rows"
    mean = " on average" if "folds" in bound.details else ""
    if "groups" in bound.details:
        mean = ", groups counted alike"
    if bound.quantity.partition(":")[0] == "0/1 error":
        return f"one class for all of {rows} is wrong on a share of {level}{mean}"
    if bound.quantity == "logistic loss":
        return f"the same probability for every class has a logistic loss of {level}"
    if bound.quantity == "squared loss":
        return f"predicting 0 has a squared loss of at most M², {level}, where |Y| is at most M"
    if bound.quantity.startswith("squared loss, clipped"):
        return f"the best constant for {rows} has a squared loss of {level} on them{mean}"
    if (loss := bound.quantity.partition(":")[0]) in ("log loss", "Brier score"):
        return f"the same probabilities for all of these rows have a {loss} of {level} on them"
    if (quantity := bound.quantity.partition(":")[0]).endswith("loss, clipped"):
        of_loss = quantity.removesuffix(", clipped")
        return f"the best constant for {rows} has a {of_loss} of {level} on them{mean}"
    if bound.quantity in ("Huber loss", "pinball loss"):
        return f"predicting 0 has a {bound.quantity} of at most {level}, where |Y| is at most M"
    return f"bounds of this quantity say nothing from {level} on"


def _failing(bound: Bound) -> str:
    names = [a.name for a in bound.failing]
    return f"{'a condition fails' if len(names) == 1 else 'conditions fail'}, {'; '.join(names)}"
