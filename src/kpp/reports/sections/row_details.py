"""The parts of what is told about a row: each takes all chosen rows, and returns one per row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._checks import RefusedError
from kpp._typing import AnyArray, OffsetArray
from kpp.certificates import RawCertificate, certify_raw, changes_to
from kpp.explanations import explain_rules, explain_training_rows
from kpp.explanations.words import shorten_rule
from kpp.reports.escaping import shown
from kpp.reports.sections.variables import read_column
from kpp.reports.subject import Subject
from kpp.scores import RoutedRows
from kpp.tables.numbers import number

MOST_TERMS = 10
MOST_VALUES = 30
MOST_RULES = 6
LONGEST_RULE = 300
MOST_NEIGHBOURS = 5
MOST_CARRIERS = 6
# Rows whose distances to a row of the explorer are computed.
MOST_OTHERS = 20_000
MOST_TARGETS = 4
# More values than this are no sentence.
MOST_CHANGES = 6
# Rows that get a search for a counterexample in raw units, and its effort; the others get the
# radius that needs no search.
SEARCHED_ROWS, EFFORT = 8, 1000

Tell = Callable[[int, int], None]


def waterfalls(subject: Subject, index: OffsetArray, tell: Tell) -> list[list[dict[str, Any]]]:
    """Contributions of the variables, largest first, with the rest together; exact sums."""
    values, baseline = subject.contributions(index)
    found = []
    for place, i in enumerate(index.tolist()):
        own = []
        for output in _outputs(subject, i):
            k, sign = output.score, output.sign
            contribution = sign * values[place, :, k]
            order = np.argsort(-np.abs(contribution), kind="stable")
            kept = order[:MOST_TERMS] if len(order) > MOST_TERMS + 1 else order
            rest = order[len(kept) :]
            own.append(
                {
                    "output": output.name,
                    "baseline": sign * float(baseline[k]),
                    "score": sign * float(subject.scores[i, k]),
                    "terms": [
                        {
                            "variable": subject.variables[j],
                            "value": _value(subject, j, i),
                            "contribution": float(contribution[j]),
                        }
                        for j in kept.tolist()
                    ],
                    "others": float(contribution[rest].sum()),
                    "n_others": len(rest),
                }
            )
        found.append(own)
        tell(place + 1, len(index))
    return found


@dataclass(frozen=True)
class Output:
    """A score that is taken apart: its number, its name, what the library calls it, its sign.

    Of two classes there is one score, that of the second; the first has minus it.
    """

    score: int
    name: str
    value: Any
    sign: float = 1.0


def _outputs(subject: Subject, i: int) -> list[Output]:
    """Scores of a row that are taken apart: of the predicted class, and of the true one of many."""
    names = subject.output_names
    if not subject.is_classifier:
        n_targets = len(names)
        return [
            Output(k, names[k], None if n_targets == 1 else k)
            for k in range(min(n_targets, MOST_TARGETS))
        ]
    classes, names = subject.model.classes_.tolist(), subject.class_names
    predicted = int(subject.prediction[i])
    if subject.scores.shape[1] == 1:
        return [Output(0, names[predicted], classes[predicted], 1.0 if predicted else -1.0)]
    shown = dict.fromkeys([predicted, int(subject.target[i])])
    return [Output(k, names[k], classes[k]) for k in shown]


def rules(subject: Subject, index: OffsetArray, tell: Tell) -> list[dict[str, Any]]:
    """The rules that moved the (first) output of each row most."""
    found = []
    for place, i in enumerate(index.tolist()):
        output = _outputs(subject, i)[0]
        row = subject.rows(np.array([i]))
        explanation = explain_rules(subject.question, row, top=MOST_RULES, output=output.value)
        found.append(
            {
                "output": output.name,
                "rules": [
                    {
                        "text": shown(shorten_rule(rule.text, LONGEST_RULE), LONGEST_RULE),
                        "contribution": rule.contribution,
                        "support": rule.support,
                        "n_trees": rule.n_trees,
                    }
                    for rule in explanation.rules
                ],
                "baseline": explanation.baseline,
                "others": explanation.remainder,
                "n_others": explanation.n_other,
                "score": explanation.score,
            }
        )
        tell(place + 1, len(index))
    return found


def raw(subject: Subject, index: OffsetArray, tell: Tell) -> list[dict[str, Any]]:
    """Certified radii in standard deviations of the columns; the first rows with a search."""
    epsilon = subject.tolerance
    rows = subject.rows(index)
    searched = min(SEARCHED_ROWS, len(index))
    radius, upper = np.empty(len(index)), np.empty(len(index))
    changes: list[list[dict[str, str]] | None] = [None] * len(index)
    for some, effort, told in (
        (slice(searched), EFFORT, tell),
        (slice(searched, None), 0, None),
    ):
        own = rows.take(some)
        if len(own) == 0:
            continue
        found = certify_raw(
            subject.model, own, scale="std", epsilon=epsilon, effort=effort, progress=told
        )
        radius[some], upper[some] = found.radius, found.upper_radius
        if effort:
            changes[some] = [_changes(subject, own, found, k) for k in range(len(own))]
    return [
        {
            "radius": r,
            "is_infinite": bool(np.isinf(r)),
            "counterexample_at": u,
            "searched": place < searched,
            "changes": changes[place],
        }
        for place, (r, u) in enumerate(zip(radius.tolist(), upper.tolist(), strict=True))
    ]


def _changes(
    subject: Subject, rows: RoutedRows, found: RawCertificate, row: int
) -> list[dict[str, str]] | None:
    """The counterexample of a row as values of the table that would be others."""
    told = changes_to(subject.question, rows, found, row)
    if told is None or len(told) > MOST_CHANGES:
        return None
    return [
        {"column": shown(c.column), "before": shown(c.before, 60), "after": shown(c.after, 60)}
        for c in told
    ]


def neighbours(subject: Subject, index: OffsetArray, tell: Tell) -> list[dict[str, Any]]:
    """The nearest rows of the fit and the nearest other test rows, in the path metric."""
    model = subject.model
    here = subject.rows(index).map
    random = np.random.default_rng(subject.random_state)
    fit = np.arange(len(model.fit_rows_))
    if len(fit) > MOST_OTHERS:
        fit = np.sort(random.choice(fit, MOST_OTHERS, replace=False))
    test = subject.draw(MOST_OTHERS)
    to_fit = here.distances(model.map_.rows(fit))
    tell(1, 2)
    to_test = here.distances(subject.rows(test).map)
    tell(2, 2)
    targets = None if subject.training is None else _shown_targets(subject, subject.training.target)
    own = _shown_targets(subject, subject.target)
    predicted = _shown_targets(subject, subject.prediction)
    found = []
    for place, i in enumerate(index.tolist()):
        near_fit = _nearest(to_fit[place])
        others = np.flatnonzero(test != i)
        near_test = others[_nearest(to_test[place, others])]
        found.append(
            {
                "fit": [
                    {
                        "row": int(model.fit_rows_[fit[j]]),
                        "label": subject.training_label(int(model.fit_rows_[fit[j]])),
                        "distance": float(to_fit[place, j]),
                        "actual": None
                        if targets is None
                        else targets(int(model.fit_rows_[fit[j]])),
                    }
                    for j in near_fit.tolist()
                ],
                "test": [
                    {
                        "row": int(test[j]),
                        "label": subject.row_label(int(test[j])),
                        "distance": float(to_test[place, j]),
                        "actual": own(int(test[j])),
                        "predicted": predicted(int(test[j])),
                    }
                    for j in near_test.tolist()
                ],
                "n_fit": len(fit),
                "n_test": len(others),
            }
        )
    return found


def _nearest(distance: AnyArray) -> OffsetArray:
    return np.argsort(distance, kind="stable")[:MOST_NEIGHBOURS]


def _shown_targets(subject: Subject, target: AnyArray) -> Callable[[int], str]:
    if subject.is_classifier:
        return lambda i: subject.class_names[int(target[i])]
    return lambda i: ", ".join(number(v, 4) for v in target[i])


def carriers(subject: Subject, index: OffsetArray, tell: Tell) -> list[dict[str, Any]]:
    """The training rows whose residuals add most to the (first) output of each row."""
    targets = None if subject.training is None else _shown_targets(subject, subject.training.target)
    found = []
    for place, i in enumerate(index.tolist()):
        output = _outputs(subject, i)[0]
        row = subject.rows(np.array([i]))
        explanation = explain_training_rows(
            subject.model, row, top=MOST_CARRIERS, output=output.value
        )
        found.append(
            {
                "output": output.name,
                "rows": [
                    {
                        "row": int(r),
                        "label": subject.training_label(int(r)),
                        "contribution": float(c),
                        "kernel": float(s),
                        "actual": None if targets is None else targets(int(r)),
                    }
                    for r, c, s in zip(
                        explanation.rows.tolist(),
                        explanation.contribution.tolist(),
                        explanation.kernel.tolist(),
                        strict=True,
                    )
                ],
                "intercept": explanation.intercept,
                "partition": explanation.partition,
                "partition_from": _other_part(subject),
                "others": explanation.remainder,
                "n_others": max(0, len(explanation.all_rows) - len(explanation.rows)),
                "score": explanation.score,
            }
        )
        tell(place + 1, len(index))
    return found


def _other_part(subject: Subject) -> str:
    """What adds to the score of a row beside its training rows: a centre, or bare ensembles."""
    model = subject.model
    named = [
        name
        for name, is_there in (
            ("the partition model", any(fit.center is not None for fit in model.fits_)),
            ("the bare ensembles", bool(model.bare_fits_)),
        )
        if is_there
    ]
    return " and ".join(named)


def listed_variables(subject: Subject) -> list[int]:
    """The variables whose values are shown: those that matter most."""
    try:
        order = np.argsort(-subject.importance.sum(axis=1), kind="stable")
    except RefusedError:  # a model without contributions by variable: the first columns
        order = np.arange(len(subject.variables))
    return order[:MOST_VALUES].tolist()


def values(subject: Subject, index: OffsetArray, tell: Tell) -> list[list[str]]:
    """The values of each row in the variables that matter most."""
    kept = listed_variables(subject)
    tell(1, 1)
    return [[_value(subject, j, i) for j in kept] for i in index.tolist()]


def _value(subject: Subject, variable: int, row: int) -> str:
    column = subject.values_of(variable)[row : row + 1]
    kind, numbers, names = read_column(column)
    if np.isnan(numbers[0]):
        return "missing"
    if kind == "category":
        return names[int(numbers[0])]
    if kind == "time":
        return str(np.datetime64(int(numbers[0]), "s")).replace("T", " ")
    return number(numbers[0], 4)


# In the order in which a reader asks.
PARTS: dict[str, Callable[[Subject, OffsetArray, Tell], list[Any]]] = {
    "waterfalls": waterfalls,
    "rules": rules,
    "raw": raw,
    "neighbours": neighbours,
    "carriers": carriers,
    "values": values,
}
