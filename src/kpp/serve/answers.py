"""Answers: predictions, intervals, explanations, rules and certificates, as columns of data."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import numpy as np

from kpp import certify, certify_raw, explain, explain_rules
from kpp._checks import RefusedError
from kpp._typing import AnyArray
from kpp.explanations import Attribution
from kpp.explanations.outputs import place_of
from kpp.models.asking import Question
from kpp.models.pipelines import behind_preparation
from kpp.scores import RoutedRows
from kpp.serve.errors import RequestError
from kpp.tables.conventions import attribution_words

NEVER = -2
# Rows between two looks at the clock.
BLOCK = 64
# Most seconds for all raw radii of a question.
RAW_SECONDS = 5.0


@dataclass
class Deadline:
    """When work must end: it looks here between two blocks of rows.

    Parameters
    ----------
    seconds : float
        Time from now.

    Examples
    --------
    >>> from kpp.serve.answers import Deadline
    >>> Deadline(60.0).check()
    """

    seconds: float
    begun: float = field(default_factory=time.monotonic)
    given_up: Event = field(default_factory=Event)

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self.begun + self.seconds - time.monotonic())

    def check(self) -> None:
        """Stop where nobody waits any more."""
        if self.given_up.is_set() or self.left == 0:
            said = f"The answer took longer than {self.seconds:g} s. Ask for fewer rows."
            raise RequestError(504, said)


@dataclass(frozen=True)
class Answer:
    """An answer: one entry of every column for each row, and what is said of all of them.

    Parameters
    ----------
    columns : dict
        Name -> list or array of one entry a row.
    about : dict
        What holds for all rows.
    """

    columns: dict[str, Any]
    about: dict[str, Any] = field(default_factory=dict)


Parameters = Mapping[str, Any]


def predict(question: Question, at: RoutedRows, given: Parameters, deadline: Deadline) -> Answer:
    """Predictions, with the probabilities of a classifier."""
    model: Any = question.model
    columns: dict[str, Any] = {"prediction": model.predict(at)}
    about: dict[str, Any] = {}
    if question.is_classifier:
        about["classes"] = model.classes_.tolist()
        columns["probability"] = model.predict_proba(at)
    return Answer(columns, about)


def interval(question: Question, at: RoutedRows, given: Parameters, deadline: Deadline) -> Answer:
    """Intervals of a regressor, or sets of classes of a classifier, and what they are worth."""
    model: Any = question.model
    try:
        if question.is_classifier:
            found = model.predict_set(at, given["coverage"])
            columns = {"set": [own.tolist() for own in found.labels]}
        else:
            found = model.predict_interval(at, given["coverage"])
            columns = {"lower": found.lower, "upper": found.upper}
    except RefusedError as error:
        raise RequestError(409, f"This model cannot answer that: {error}") from error
    found = behind_preparation(found, question.preparation)
    about = {
        "coverage": found.coverage,
        "is_guarantee": found.is_guarantee,
        "proven_coverage": found.proven_coverage,
        "status": found.status,
        "failing_conditions": [str(condition) for condition in found.failing],
    }
    return Answer({"prediction": found.prediction, **columns}, about)


def explanation(
    question: Question, at: RoutedRows, given: Parameters, deadline: Deadline
) -> Answer:
    """Contributions of the user's columns: with the baseline they add up to the score."""
    outputs = _outputs(question, at, given)
    n_rows, names = len(at), list(dict.fromkeys(question.sources))
    baseline, score = np.empty(n_rows), np.empty(n_rows)
    values = np.empty((n_rows, len(names)))
    for block in _blocks(n_rows, deadline):
        part = at.take(block)
        found = explain(question, part, level="variable", centered=True)
        own = outputs[block]
        for output in dict.fromkeys(own):
            which = np.array([one == output for one in own])
            one = _of_output(question, found, output)
            names = list(one.feature_names)
            baseline[block][which] = one.baseline
            score[block][which] = np.asarray(one.scores).ravel()[which]
            values[block][which] = one.values[which]
    columns = {
        "prediction": question.model.predict(at),
        "baseline": baseline,
        "score": score,
        "contributions": values,
    }
    if outputs[0] is not None:
        columns = {"output": outputs, **columns}
    words = attribution_words(is_classifier=question.is_classifier)
    return Answer(columns, {"columns": names, "convention": words, "regime": question.regime.name})


def rules(question: Question, at: RoutedRows, given: Parameters, deadline: Deadline) -> Answer:
    """The rules that moved each prediction most, and the sum of all others."""
    outputs = _outputs(question, at, given)
    found: dict[str, list[Any]] = {
        name: [] for name in ("baseline", "score", "rules", "n_other", "other")
    }
    for i in range(len(at)):
        deadline.check()
        one = explain_rules(question, at.take([i]), top=given["top"], output=outputs[i])
        found["baseline"].append(one.baseline)
        found["score"].append(one.score)
        found["rules"].append(
            [
                {"rule": r.text, "contribution": r.contribution, "support": r.support}
                for r in one.rules
            ]
        )
        found["n_other"].append(one.n_other)
        found["other"].append(one.remainder)
    columns = {"prediction": question.model.predict(at), **found}
    if outputs[0] is not None:
        columns = {"output": outputs, **columns}
    return Answer(columns, {"regime": question.regime.name})


def certificate(
    question: Question, at: RoutedRows, given: Parameters, deadline: Deadline
) -> Answer:
    """How far each row may move before the answer changes, in the forest's metric."""
    epsilon, parts, raw = given.get("epsilon"), [], []
    metric, spent = "", 0.0
    for block in _blocks(len(at), deadline):
        rows = at.take(block)
        one = certify(question.model, rows, epsilon=epsilon)
        metric = one.metric
        parts.append((one.margin, one.radius, one.lipschitz, one.never_flips, one.nearest))
        if given.get("raw"):
            # Sound whenever its time ends.
            left = min(RAW_SECONDS - spent, deadline.left / 2)
            budget = max(left * len(rows) / (len(at) - block.start), 1e-3)
            begun = time.monotonic()
            boxes = certify_raw(
                question.model, rows, scale="std", time_budget=budget, epsilon=epsilon
            )
            spent += time.monotonic() - begun
            raw.append((boxes.radius, boxes.upper_radius, boxes.finished))
    margin, radius, lipschitz, never, nearest = (
        np.concatenate(own) for own in zip(*parts, strict=True)
    )
    columns: dict[str, Any] = {
        "prediction": question.model.predict(at),
        "margin": margin,
        "radius": radius,
        "lipschitz_radius": lipschitz,
        "never_changes": never,
        "changes_to": [_changes_to(question, int(k)) for k in nearest],
    }
    about = {"metric": metric, "regime": question.regime.name}
    if raw:
        own = [np.concatenate(one) for one in zip(*raw, strict=True)]
        columns |= dict(zip(("raw_radius", "raw_upper_radius", "raw_finished"), own, strict=True))
        about["raw_unit"] = "standard deviations of each column in the training rows"
    return Answer(columns, about)


def _blocks(n_rows: int, deadline: Deadline) -> Iterator[slice]:
    for start in range(0, n_rows, BLOCK):
        deadline.check()
        yield slice(start, min(start + BLOCK, n_rows))


def _outputs(question: Question, at: RoutedRows, given: Parameters) -> list[Any]:
    """The class that is explained, row by row; the number of a target; or None."""
    asked = given.get("output")
    if question.is_classifier:
        classes = question.model.classes_.tolist()
        if asked is None:
            predicted: AnyArray = np.asarray(question.model.predict(at))
            return [classes[place_of(one, classes) or 0] for one in predicted.tolist()]
        return [next(one for one in classes if str(one) == asked)] * len(at)
    several = question.additive.n_scores > 1
    return [int(asked or 0) if several else None] * len(at)


def _of_output(question: Question, found: Attribution, output: Any) -> Attribution:
    if output is None:
        return found
    if not question.is_classifier:
        return found.for_output(output)
    classes = question.model.classes_.tolist()
    if len(classes) == 2 and place_of(output, classes) == 0:
        return found.negated(output)
    return found.for_output(output)


def _changes_to(question: Question, nearest: int) -> Any:
    if nearest == NEVER:
        return None
    if question.is_classifier:
        return question.model.classes_[nearest]
    return "lower" if nearest < 0 else "higher"
