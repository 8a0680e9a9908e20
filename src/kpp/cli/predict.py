"""`kpp predict`: predictions for the rows of a raw file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

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
    if proba and not is_classifier(rows.inner):
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
    if is_classifier(rows.inner) and proba:
        probability = rows.inner.predict_proba(rows.prepared)
        columns[name] = rows.inner.predict(rows.prepared)
        for k, label in enumerate(rows.inner.classes_):
            columns[free_name(f"probability_{label}", list(columns))] = probability[:, k]
    else:
        columns[name] = np.asarray(rows.inner.predict(rows.prepared))
    return pd.DataFrame(columns)
