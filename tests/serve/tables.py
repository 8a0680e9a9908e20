"""Rows as the library takes them, and as JSON has them."""

import pandas as pd

from kpp.tables.columns import model_columns, text_columns


def raw_rows(model, path, n_rows=None):
    """The columns of a model, read from a file as `kpp predict` reads them."""
    frame = pd.read_csv(path, dtype=dict.fromkeys(text_columns(model), str))
    return frame[model_columns(model)].iloc[:n_rows]


def as_json(frame):
    """Rows of a frame as a body; what misses is null."""
    plain = frame.astype(object).where(frame.notna(), None)
    return {"rows": plain.to_dict(orient="records")}
