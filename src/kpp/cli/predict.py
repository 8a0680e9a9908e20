"""`kpp predict`: predictions for the rows of a raw file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp.cli.console import Terminal
from kpp.cli.files import read_rows, show_table
from kpp.tables.columns import free_name
from kpp.tables.errors import UserError
from kpp.tables.reading import TableFile
from kpp.tables.rows import Rows
from kpp.tables.writing import check_output


def run_predict(
    model: Path,
    table: str,
    out: Path | None,
    id_column: str | None,
    proba: bool,
    terminal: Terminal,
) -> int:
    """Predict the rows of a file."""
    source = TableFile(table)
    check_output(out, source, model)
    rows = read_rows(model, source, id_column, terminal)
    if proba and not rows.question.is_classifier:
        raise UserError("--proba is for classification; this model predicts numbers.")
    frame = predictions(rows, id_column, proba)
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
    name = free_name("prediction", list(columns))
    at = rows.at()
    columns[name] = np.asarray(rows.model.predict(at))
    if proba and rows.question.is_classifier:
        probability = rows.model.predict_proba(at)
        for k, label in enumerate(rows.model.classes_):
            columns[free_name(f"probability_{label}", list(columns))] = probability[:, k]
    return pd.DataFrame(columns)
