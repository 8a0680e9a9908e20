"""`kpp predict`: predictions for the rows of a raw file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kpp._optional import optional
from kpp._pipelines import unwrap
from kpp.cli.columns import columns_of, free_name, prepare, take_id, text_columns
from kpp.cli.console import Terminal
from kpp.cli.errors import UserError, listed
from kpp.cli.files import ModelFile, load_model, write_table
from kpp.cli.reading import TableFile, check_output


class Rows:
    """Rows of a file, as a model takes them.

    Parameters
    ----------
    file : ModelFile
        The fitted model.
    table : TableFile
        The file.
    id_column : str or None
        Column that names the rows.
    terminal : Terminal
        Where remarks go.

    Attributes
    ----------
    inner : KPPRegressor or KPPClassifier
        The model behind the preparation.
    raw, prepared : data frames
        Rows as they are in the file, and as the inner model takes them.
    ids : pandas.Series
        Names of the rows, or their numbers.
    """

    def __init__(
        self, file: ModelFile, table: TableFile, id_column: str | None, terminal: Terminal
    ) -> None:
        model = file.model
        self.name = table.name
        self.preparation, self.inner = unwrap(model)
        with terminal.working(f"reading {table.name}"):
            frame = table.read(text_columns(model))
        self.ids = take_id(frame, id_column, table.name)
        raw, extra = columns_of(model, frame, table.name)
        # That the file still has the target needs no remark.
        ignored = [name for name in extra if name not in (id_column, file.target)]
        if ignored:
            terminal.note(
                f"Columns that the model does not know, and that do not count: {listed(ignored)}."
            )
        self.raw = raw.reset_index(drop=True)
        with terminal.working("preparing columns"):
            self.prepared, remarks = prepare(model, self.raw)
        for remark in remarks:
            terminal.warn(remark)

    def __len__(self) -> int:
        return len(self.raw)


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
    rows = Rows(load_model(model, terminal), source, id_column, terminal)
    if proba and not is_classifier(rows.inner):
        raise UserError("--proba is for classification; this model predicts numbers.")
    frame = predictions(rows, id_column, proba)
    if out is not None:
        write_table(frame, out, terminal, what="Predictions")
    if terminal.json:
        columns = {name: frame[name].tolist() for name in frame.columns}
        terminal.result({"n_rows": len(frame), "columns": columns})
    elif out is None:
        write_table(frame, None, terminal, what="Predictions")
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
