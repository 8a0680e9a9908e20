"""Rows through a model's preparation, one column at a time.

A table's preparation is made for many rows: for a single one it takes a hundred times as long as
the prediction, nearly all of it in moving frames about. What it does to a number is a cast, and to
a category, a date or a text depends on that value alone, so these are looked up; whatever is not
known yet goes through the preparation's own steps for that column. When a model is loaded, this
way and the preparation itself are compared on rows of all kinds; unless they agree to the last
bit, only the preparation itself is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._typing import AnyArray
from kpp.models.asking import Question
from kpp.models.pipelines import prepared
from kpp.scores import RoutedRows
from kpp.serve.columns import CATEGORY, DATE, NUMBER, TEXT, Column

# Different values of a column that are remembered.
MOST_KNOWN = 10_000
# Longer texts are not.
LONGEST_KNOWN = 200
Values = Mapping[str, Any]


class Preparer:
    """Turns columns of checked values into what the model behind a preparation takes.

    Parameters
    ----------
    question : Question
        The model and its preparation.
    columns : sequence of Column
        Its columns.

    Attributes
    ----------
    is_quick : bool
        Whether columns go their own way: it agreed with the preparation on the rows of a trial.
    """

    def __init__(self, question: Question, columns: Sequence[Column]) -> None:
        self.question, self.columns = question, list(columns)
        self._names = list(question.names)
        self._has_names = hasattr(question.model, "feature_names_in_")
        self._steps: dict[str, _Steps] = {}
        self.is_quick = self._is_same()

    def at(self, values: Values, n_rows: int) -> RoutedRows:
        """Prepare and route rows.

        Parameters
        ----------
        values : mapping from str to array of shape (n_rows,)
            Every column: floats with NaN where they miss, or objects with None.
        n_rows : int
            Number of rows.

        Returns
        -------
        rows : RoutedRows
        """
        if not self.is_quick:
            routed: RoutedRows = self.question.model.at(self._slowly(values))
            return routed
        return self._routed(self._quickly(values, n_rows))

    def _routed(self, array: AnyArray) -> RoutedRows:
        # A data frame of one row takes a hundred times as long to check as it takes to route.
        model, additive = self.question.model, self.question.additive
        leaf_ids = additive.route(array, n_jobs=1)
        return RoutedRows(array, leaf_ids, model.map_, additive, n_jobs=1)

    def _slowly(self, values: Values) -> Any:
        frame = self._frame(values)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unknown categories are named to the caller
            return prepared(self.question.preparation, frame)

    def _frame(self, values: Values) -> Any:
        if all(column.kind == NUMBER for column in self.columns):
            array = np.column_stack([values[column.name] for column in self.columns])
            if self.question.preparation is None and not self._has_names:
                return array
        pd = optional("pandas", "kpp serve", "serve")
        return pd.DataFrame({column.name: values[column.name] for column in self.columns})

    def _quickly(self, values: Values, n_rows: int) -> AnyArray:
        if self.question.preparation is None:
            return np.column_stack([values[column.name] for column in self.columns])
        out = np.empty((n_rows, len(self._names)), dtype=np.float32)
        for column in self.columns:
            steps = self._steps[column.name]
            if column.kind == NUMBER:
                out[:, steps.places[0]] = values[column.name]
            else:
                out[:, steps.places] = steps.of(values[column.name])
        return out

    def _is_same(self) -> bool:
        """Whether columns can go their own way, tried on rows of all kinds."""
        try:
            if not self._has_own_ways():
                return False
            trial, n_rows = self._trial()
            rows = self._slowly(trial)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = self._quickly(trial, n_rows)
            if not np.array_equal(found, np.asarray(rows, dtype=found.dtype), equal_nan=True):
                return False
            expected = self.question.model.at(rows).scores
            return bool(np.array_equal(self._routed(found).scores, expected))
        except Exception:  # whatever another version of the preparation does: it is used itself
            return False

    def _has_own_ways(self) -> bool:
        """Find the steps of each column; False where they are not known, or mix columns."""
        preparation = self.question.preparation
        if preparation is None:
            return all(column.kind == NUMBER for column in self.columns)
        steps = getattr(preparation, "all_processing_steps_", None)
        made = getattr(preparation, "input_to_outputs_", None)
        if steps is None or made is None or not self._has_names:
            return False
        places = {name: j for j, name in enumerate(self._names)}
        for column in self.columns:
            own = [places[str(name)] for name in made[column.name]]
            if column.kind == NUMBER and len(own) != 1:
                return False
            by_value = column.kind in (CATEGORY, DATE, TEXT)
            self._steps[column.name] = _Steps(column, steps[column.name], own, by_value)
        taken = sorted(j for one in self._steps.values() for j in one.places)
        return taken == list(range(len(self._names)))

    def _trial(self) -> tuple[dict[str, Any], int]:
        """Rows with every category, unknown ones, gaps, and numbers of all sizes."""
        numbers = [0.0, 1.0, -1.5, 0.1, 1e-40, 1e30, None, 16_777_217.0]
        texts = ["a text", "", " ", "NA", "null", "?", "Ünknown", "1", "x" * 50, None]
        dates: list[Any] = ["2020-01-31", "1999-12-01", None]
        n_rows = max(len(texts), *(len(c.categories or ()) + len(texts) for c in self.columns))
        values: dict[str, Any] = {}
        for column in self.columns:
            if column.kind == NUMBER:
                known: list[Any] = [v for v in numbers if v is not None or column.takes_missing]
            elif column.kind == DATE:
                known = [column.example(), None] if column.date_format else dates
            else:
                known = [*(column.categories or ()), *texts]
            cycle = [known[i % len(known)] for i in range(n_rows)]
            values[column.name] = as_array(cycle, column)
        return values, n_rows


def as_array(values: Sequence[Any], column: Column) -> AnyArray:
    """Checked values as an array: floats for numbers, objects for all others."""
    if column.kind == NUMBER:
        return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
    out = np.empty(len(values), dtype=object)
    out[:] = list(values)
    return out


class _Steps:
    """The preparation of one column, and what it has made of values so far."""

    def __init__(
        self, column: Column, steps: Sequence[Any], places: list[int], by_value: bool
    ) -> None:
        self.column, self.places, self.by_value = column, places, by_value
        # The last is a cast of what was made, to single precision, which is done here anyway.
        self.steps = [step for step in steps if hasattr(step, "transform")]
        self.known: dict[Any, AnyArray] = {}
        if column.categories:
            self._learn([*column.categories, None])

    def of(self, values: AnyArray) -> AnyArray:
        """Prepared values, shape (n_rows, n_made)."""
        if not self.by_value:
            return self._transformed(values)
        new = {v for v in values.tolist() if v not in self.known}
        if new:
            long = any(isinstance(v, str) and len(v) > LONGEST_KNOWN for v in new)
            if long or len(self.known) + len(new) > MOST_KNOWN:
                return self._transformed(values)
            self._learn(list(new))
        return np.stack([self.known[v] for v in values.tolist()])

    def _learn(self, values: list[Any]) -> None:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        self.known |= dict(zip(values, self._transformed(array), strict=True))

    def _transformed(self, values: AnyArray) -> AnyArray:
        pd = optional("pandas", "kpp serve", "serve")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A frame of this one column makes of it what one of all columns does.
            found: Any = pd.DataFrame({self.column.name: values})[self.column.name]
            for step in self.steps:
                takes_frames = not hasattr(step, "all_outputs_") and hasattr(step, "categories_")
                found = step.transform(found.to_frame() if takes_frames else found)
        return np.asarray(found, dtype=np.float32).reshape(len(values), -1)
