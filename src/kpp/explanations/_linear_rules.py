"""Linear terms as rules: one for each column of the table that adds something."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kpp._checks import is_missing
from kpp._rows import as_decimals
from kpp.explanations._rule import Rule
from kpp.explanations.attribution import column_of
from kpp.explanations.outputs import Output
from kpp.models.asking import Question
from kpp.models.meanings import CATEGORY, CODES, TIME, Meaning
from kpp.scores import RoutedRows


def linear_rules(question: Question, row: RoutedRows, output: Output) -> list[Rule]:
    """The linear terms of a row, one rule for each column of the table that adds something.

    Parameters
    ----------
    question : Question
        The model.
    row : RoutedRows
        Of length 1.
    output : Output
        Which score.

    Returns
    -------
    rules : list of Rule
        Of support 1, without conditions: every row has them, and what they add changes with the
        value.
    """
    additive = question.additive
    values = values_of(row.X) if additive.linear else []
    parts: dict[str, list[float]] = {}
    names: dict[str, list[str]] = {}
    columns: dict[str, list[int]] = {}
    for block, own in zip(additive.linear, row.linear_values, strict=True):
        added = output.sign * block.coef[output.index] * own[0]
        for k, column in enumerate(block.terms.column.tolist()):
            source = question.meanings[column].source
            parts.setdefault(source, []).append(float(added[k]))
            names.setdefault(source, []).append(f"{block.name}__{block.terms.names[k]}")
            columns.setdefault(source, []).append(column)
    found = []
    for source, own_parts in parts.items():
        total = math.fsum(own_parts)
        if total != 0:
            which = sorted(set(columns[source]))
            meanings = [question.meanings[j] for j in which]
            told = _value(source, meanings, [values[j] for j in which])
            terms = "linear term" if len(which) == 1 else f"{len(which)} linear terms"
            found.append(Rule(f"{told} ({terms})", total, 1.0, tuple(names[source])))
    return found


def values_of(X: Any) -> list[Any]:
    """The values of one row, each of the kind that its column has."""
    if hasattr(X, "iloc"):
        # At once: a data frame takes long to give its columns one by one. Numbers of single
        # precision stay what they are.
        kinds = [str(kind) for kind in X.dtypes]
        return [
            np.float32(value) if kind == "float32" else value
            for value, kind in zip(X.to_numpy(dtype=object)[0], kinds, strict=True)
        ]
    return [column_of(X, j)[0] for j in range(X.shape[1])]


def _value(source: str, meanings: list[Meaning], values: list[Any]) -> str:
    """What the row has in a column of the table, told from the prepared columns if they can."""
    first, numbers = meanings[0], [_number(value) for value in values]
    if first.kind == CATEGORY:
        return _category(source, meanings, numbers)
    for meaning, value in zip(meanings, numbers, strict=True):
        if meaning.kind == TIME and not math.isnan(value):
            # Seconds are often kept in single precision, which is minutes: the day is right.
            return f"{source} = {str(np.datetime64(round(meaning.before(value)), 's'))[:10]}"
    if len(meanings) > 1:
        return source  # a text: its components say nothing by themselves
    if math.isnan(numbers[0]):
        return f"{first.name} = {'missing' if is_missing(values[0]) else values[0]}"
    if first.kind == CODES:
        place = round(first.before(numbers[0]))
        inside = 0 <= place < len(first.categories)
        return f"{source} = {first.categories[place]}" if inside else source
    return f"{first.name} = {first.before(numbers[0]):.6g}"


def _category(source: str, meanings: list[Meaning], numbers: list[float]) -> str:
    told = [
        one.categories[one.place]
        for one, x in zip(meanings, numbers, strict=True)
        if one.kind == CATEGORY and one.before(x) > 0.5
    ]
    if told:
        return f"{source} = {'missing' if is_missing(told[0]) else told[0]}"
    places = {one.place for one in meanings}
    left_out = [v for place, v in enumerate(meanings[0].categories) if place not in places]
    return f"{source} = {left_out[0]}" if len(left_out) == 1 else f"{source} is none of its values"


def _number(value: Any) -> float:
    if isinstance(value, np.floating) and value.dtype.itemsize < 8:
        return float(as_decimals(np.array([value]))[0])
    try:
        return math.nan if is_missing(value) else float(value)
    except (TypeError, ValueError):
        return math.nan
