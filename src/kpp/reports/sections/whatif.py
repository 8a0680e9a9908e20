"""What if a value were another: the model in the page, or a grid around each row."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kpp._rows import columns_of
from kpp._typing import FloatArray, OffsetArray
from kpp.explanations.explain import explain
from kpp.forest.arrays import Forest
from kpp.forest.coded import numbers_of
from kpp.forest.route import prepare_rows
from kpp.models.pipelines import prepared
from kpp.reports.embedded import cannot_embed, packed, write_folds, write_forest, write_terms
from kpp.reports.sections import whatif_grid
from kpp.reports.sections.intervals import LEVEL
from kpp.reports.sections.variables import read_column
from kpp.reports.subject import Subject
from kpp.tables.numbers import percent
from kpp.tables.plain import plain_data

MOST_BYTES = 2_000_000
MOST_VARIABLES = 40
# Values to choose from, of a column that is not typed as a number.
MOST_OPTIONS = 40
# Rows in which values are looked for, and on which a preparation is tried out.
MOST_READ, TRIED = 5000, 40


def make(subject: Subject, rows: dict[str, Any], room: int = MOST_BYTES) -> dict[str, Any]:
    """Put the model into the page where it fits; otherwise predictions on a grid.

    Parameters
    ----------
    subject : Subject
        Of the report.
    rows : dict
        The section of rows to explore: the same rows are changed here.
    room : int
        Most bytes of the model.

    Returns
    -------
    data : dict
        With "exact": whether the page computes predictions of any values by itself, and "why" not.
    """
    if not rows["made"]:
        return {
            "exact": False,
            "rows": [],
            "variables": [],
            "reason": "there are no rows to change",
        }
    index = np.array([row["row"] for row in rows["rows"]])
    order = np.argsort(-subject.importance.sum(axis=1), kind="stable")
    about = {
        "called": subject.called,
        "n_other_variables": max(0, len(order) - MOST_VARIABLES),
        "rows": index,
        "labels": [row["label"] for row in rows["rows"]],
        "outputs": subject.output_names,
        "classes": subject.class_names if subject.is_classifier else [],
        "link": subject.question.additive.link,
        "range_name": f"{percent(LEVEL, 0)} {'set' if subject.is_classifier else 'interval'}",
        "level": LEVEL,
    }
    why = cannot_embed(subject.model)
    room = min(room, MOST_BYTES)
    n_nodes = sum(block.forest.n_nodes for block in subject.question.additive.blocks)
    # A node takes at least so many bytes: a large model is not written to be thrown away.
    if why is None and 8 * n_nodes * subject.question.additive.n_scores > room:
        why = f"its {n_nodes:,} nodes are too many for a page"
    columns = None if why is not None else Readings.of(subject, index)
    if why is None and columns is None:
        why = "its preparation mixes columns, or cannot be repeated column by column"
    if columns is not None:
        found = _model(subject, index, order[:MOST_VARIABLES], columns, room)
        if found is not None:
            return plain_data({**about, "exact": True, "reason": None, **found})
        why = f"with its {n_nodes:,} nodes the page would be too large"
    grid = whatif_grid.make(subject, index, order)
    return plain_data({**about, "exact": False, "reason": why, **grid})


@dataclass(frozen=True, eq=False)
class Readings:
    """What the forests and linear terms of a model read in rows, column by column.

    Parameters
    ----------
    subject : Subject
        Of the report.
    read : int array of shape (n_read,)
        Rows that were read: those of the page first.
    values : list of float64 arrays of shape (n_read, n_features)
        Most models have one; forests that number categories in different ways have several.
    of_block : list of int
        Which of them each forest takes.
    """

    subject: Subject
    read: OffsetArray
    values: list[FloatArray]
    of_block: list[int]

    @classmethod
    def of(cls, subject: Subject, index: OffsetArray) -> Readings | None:
        """Read the rows; None where a preparation does not take one column at a time."""
        others = np.setdiff1d(subject.draw(MOST_READ), index)
        read = np.concatenate([index, others])
        X = subject.rows(read).X
        values: list[FloatArray] = []
        of_block = []
        for block in subject.question.additive.blocks:
            own = _read(block.forest, X)
            same = [np.array_equal(known, own, equal_nan=True) for known in values]
            place = same.index(True) if True in same else len(values)
            if place == len(values):
                values.append(own)
            of_block.append(place)
        found = cls(subject, read, values, of_block)
        return found if subject.preparation is None or found.is_by_column() else None

    @cached_property
    def columns_of_variable(self) -> list[list[int]]:
        """The columns of the model that each variable makes."""
        question = self.subject.question
        if self.subject.preparation is None:
            return [[j] for j in range(len(self.subject.variables))]
        names = list(dict.fromkeys(question.sources))
        found: list[list[int]] = [[] for _ in names]
        for j, source in enumerate(question.sources):
            found[names.index(source)].append(j)
        return found

    def is_by_column(self) -> bool:
        """Whether a preparation makes of each column the same, whatever the others hold."""
        subject = self.subject
        if len(self.values) > 1 or not all(place[0] for place in subject.places):
            return False
        n = min(TRIED, len(self.read))
        moved = whatif_grid.with_columns_of(
            subject.given,
            self.read[:n],
            {
                column: self.read[np.roll(np.arange(n), 1 + j)]
                for j, (_, column) in enumerate(subject.places)
            },
        )
        if moved is None:
            return False
        forest = subject.question.additive.blocks[0].forest
        made = _read(forest, prepared(subject.preparation, moved))
        return all(
            np.array_equal(
                made[:, columns],
                self.values[0][:n][np.roll(np.arange(n), 1 + j)][:, columns],
                equal_nan=True,
            )
            for j, columns in enumerate(self.columns_of_variable)
        )

    def variable(self, j: int, n_rows: int) -> dict[str, Any]:
        """One variable of the page: a number to type, or values to choose from."""
        subject, columns = self.subject, self.columns_of_variable[j]
        column = subject.values_of(j)[self.read]
        kind, numbers, _ = read_column(column)
        forests = [block.forest for block in subject.question.additive.blocks]
        about = {"name": subject.variables[j], "columns": columns}
        coded = any(c in forest.categories for forest in forests for c in columns)
        if kind == "number" and not coded and len(columns) == 1:
            for single in (False, True):
                with np.errstate(over="ignore"):
                    own = numbers.astype(np.float32).astype(np.float64) if single else numbers
                made = [values[:, columns[0]] for values in self.values]
                if all(np.array_equal(one, own, equal_nan=True) for one in made):
                    known = numbers[np.isfinite(numbers)]
                    return {
                        **about,
                        "kind": "number",
                        "single": single,
                        "may_miss": all(forest.allows_nan for forest in forests),
                        "may_be_infinite": all(forest.allows_infinity for forest in forests),
                        "points": np.unique(
                            np.quantile(known, np.linspace(0, 1, 25), method="nearest")
                        )
                        if len(known)
                        else [],
                    }
        places = whatif_grid.options(column, MOST_OPTIONS, n_rows)
        names = [whatif_grid.name_of(column[i]) for i in places]
        return {
            **about,
            "kind": "choice",
            "names": names,
            "values": packed([own[np.ix_(places, columns)] for own in self.values], "<f8"),
            "of_rows": [names.index(whatif_grid.name_of(value)) for value in column[:n_rows]],
        }


def _read(forest: Forest, X: Any) -> FloatArray:
    """Numbers as they are, in double precision, and categories by their codes."""
    found = prepare_rows(forest, X).astype(np.float64)
    for j, column in enumerate(columns_of(X)):
        if j not in forest.categories:
            found[:, j] = numbers_of(column, f"column {j}")
    return found


def _model(
    subject: Subject, index: OffsetArray, order: OffsetArray, columns: Readings, room: int
) -> dict[str, Any] | None:
    """The model, the rows and the variables as the script takes them; None if too large."""
    additive, n = subject.question.additive, len(index)
    plain = explain(subject.question, subject.rows(index[:1]))
    centred, baseline = subject.contributions(index[:1])
    values = plain.values if plain.values.ndim == 3 else plain.values[..., None]
    model: dict[str, Any] = {
        "forests": [
            write_forest(block, columns.of_block[b]) for b, block in enumerate(additive.blocks)
        ],
        "linear": [write_terms(terms) for terms in additive.linear],
        "link": additive.link,
        "n_scores": additive.n_scores,
        "n_features": subject.model.n_features_in_,
        "baseline": np.atleast_1d(plain.baseline),
        "centred_baseline": baseline,
        # What centring takes off each variable, the same in every row.
        "means": (values - centred)[0],
        "variable_of": _variable_of(columns),
        "n_variables": len(subject.variables),
        "rows": packed([own[:n] for own in columns.values], "<f8"),
        "n_readings": len(columns.values),
    }
    found = {
        "model": model,
        "variables": [{"variable": j, **columns.variable(j, n)} for j in order.tolist()],
        "scores": subject.scores[index],
        "ranges": whatif_grid.ranges_of(subject, subject.rows(index)),
    }
    size = len(json.dumps(plain_data(found)))
    if size > room:
        return None
    model["folds"] = None if found["ranges"] is None else write_folds(subject.model, LEVEL)
    if size + len(json.dumps(plain_data(model["folds"]))) > room:
        model["folds"] = None
    return found


def _variable_of(columns: Readings) -> list[int]:
    found = [0] * columns.subject.model.n_features_in_
    for j, own in enumerate(columns.columns_of_variable):
        for c in own:
            found[c] = j
    return found
