"""`kpp predict`: predictions for the rows of a raw file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._typing import AnyArray
from kpp.cli.console import Terminal
from kpp.cli.files import read_rows, show_table, table_output
from kpp.models import PredictionIntervals, PredictionSets
from kpp.tables.columns import free_name
from kpp.tables.errors import UserError
from kpp.tables.reading import TableFile
from kpp.tables.rows import Rows


def run_predict(
    model: Path,
    table: str,
    out: Path | None,
    id_column: str | None,
    *,
    proba: bool,
    interval: float | None,
    width: str | None,
    label_set: float | None,
    terminal: Terminal,
) -> int:
    """Predict the rows of a file."""
    check_width(width, interval)
    source = TableFile(table)
    out = table_output(out, terminal, source, model)
    rows = read_rows(model, source, id_column, terminal)
    if proba and not rows.question.is_classifier:
        raise UserError("--proba is for classification; this model predicts numbers.")
    if interval is not None and rows.question.is_classifier:
        raise UserError("--interval is for numbers; this model predicts classes: use --set.")
    if label_set is not None and not rows.question.is_classifier:
        raise UserError("--set is for classes; this model predicts numbers: use --interval.")
    frame = predictions(rows, id_column, proba)
    if interval is not None or label_set is not None:
        say(add_coverage(frame, rows, interval, width, label_set), terminal)
    if out is not None:
        show_table(frame, out, terminal, what="Predictions")
    if terminal.json:
        columns = {name: frame[name].tolist() for name in frame.columns}
        terminal.result({"n_rows": len(frame), "columns": columns})
    elif out is None:
        show_table(frame, None, terminal, what="Predictions")
    return 0


def predictions(rows: Rows, id_column: str | None, proba: bool) -> Any:
    """The id, if asked for, the prediction, and the probabilities, if asked for."""
    pd = optional("pandas", "kpp predict", "cli")
    columns: dict[str, Any] = {} if id_column is None else {id_column: rows.ids}
    at = rows.at()
    found = np.asarray(rows.model.predict(at))
    quantiles = getattr(rows.model.loss_, "quantiles", None)
    for name, values in each_column("prediction", found, quantiles):
        columns[free_name(name, list(columns))] = values
    if proba and rows.question.is_classifier:
        probability = rows.model.predict_proba(at)
        for k, label in enumerate(rows.model.classes_):
            columns[free_name(f"probability_{label}", list(columns))] = probability[:, k]
    return pd.DataFrame(columns)


def each_column(
    name: str, values: AnyArray, several: Sequence[Any] | None = None
) -> Iterator[tuple[str, AnyArray]]:
    """Yield columns with their names: of several targets or quantiles with their number."""
    if values.ndim == 1 or values.shape[1] == 1:
        yield name, values.reshape(-1)
        return
    for k, own in enumerate(range(values.shape[1]) if several is None else several):
        yield f"{name}_{own}", values[:, k]


def check_width(width: str | None, interval: float | None) -> None:
    """Refuse a width of intervals that nobody has asked for."""
    if width is not None and interval is None:
        raise UserError(f"--width {width} is of intervals: give --interval, such as 0.9, too.")


def add_coverage(
    frame: Any, rows: Rows, interval: float | None, width: str | None, label_set: float | None
) -> PredictionIntervals | PredictionSets:
    """Add the ends of intervals, or a column of true and false for each class."""
    at = rows.at()
    if interval is not None:
        how = {} if width is None else {"width": str(width)}
        found = rows.model.predict_interval(at, interval, **how)
        for end, values in (("lower", found.lower), ("upper", found.upper)):
            for name, own in each_column(end, values):
                frame[free_name(name, list(frame.columns))] = own
        return found
    sets = rows.model.predict_set(at, label_set)
    for k, label in enumerate(sets.classes):
        frame[free_name(f"set_{label}", list(frame.columns))] = sets.sets[:, k]
    return sets


def say(found: PredictionIntervals | PredictionSets, terminal: Terminal) -> None:
    """Say what the coverage is worth, and that some sets are empty."""
    terminal.note(f"Coverage of {found.coverage:.4g} aimed at; {found.status}.")
    for condition in found.failing:
        terminal.note(f"  {condition}")
    if isinstance(found, PredictionSets) and found.n_empty:
        terminal.note(f"{found.n_empty} of {len(found)} sets are empty.")
