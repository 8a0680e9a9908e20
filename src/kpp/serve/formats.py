"""Answers as JSON, CSV or an Arrow stream."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp.serve.answers import Answer
from kpp.serve.bodies import ARROW, CSV, JSON, TYPES
from kpp.tables.columns import free_name
from kpp.tables.plain import plain_data


def wanted_type(accept: str | None, given: str) -> str:
    """The type of an answer: the first known one that is accepted, or that of the question.

    Examples
    --------
    >>> from kpp.serve.formats import wanted_type
    >>> wanted_type("text/html, text/csv;q=0.5", "application/json"), wanted_type("*/*", "text/csv")
    ('text/csv', 'text/csv')
    """
    for part in (accept or "*/*").split(","):
        name = part.partition(";")[0].strip().lower()
        if name in TYPES:
            return name
        if name in ("*/*", ""):
            break
    return given


def dump(value: Any) -> bytes:
    """JSON in UTF-8; what is not finite is null."""
    return json.dumps(plain_data(value), ensure_ascii=False, allow_nan=False).encode()


def encode(answer: Answer, about: dict[str, Any], kind: str, n_rows: int) -> bytes:
    """Write an answer.

    Parameters
    ----------
    answer : Answer
        It.
    about : dict
        What else JSON says: the version of the model, remarks. Tables have headers for that.
    kind : str
        One of `TYPES`.
    n_rows : int
        Rows.

    Returns
    -------
    body : bytes
    """
    if kind == JSON:
        return dump({"n_rows": n_rows, **answer.about, **answer.columns, **about})
    pd = optional("pandas", "kpp serve", "serve")
    frame = pd.DataFrame(_flat(answer))
    if kind == CSV:
        return str(frame.to_csv(index=False, lineterminator="\n")).encode()
    assert kind == ARROW
    pa = optional("pyarrow", "kpp serve", "serve")
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    sink = io.BytesIO()
    with optional("pyarrow.ipc", "kpp serve", "serve").new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _flat(answer: Answer) -> dict[str, Any]:
    """One plain column for each column of a matrix; lists of anything as JSON in a text."""
    found: dict[str, Any] = {}
    for name, values in answer.columns.items():
        if isinstance(values, np.ndarray) and values.ndim == 2:
            labels = answer.about.get("classes") if name == "probability" else None
            labels = answer.about.get("columns") if name == "contributions" else labels
            labels = labels or list(range(values.shape[1]))
            lead = "" if name == "contributions" else f"{name}_"
            for k, label in enumerate(labels):
                found[free_name(f"{lead}{label}", list(found))] = values[:, k]
        elif isinstance(values, list) and values and isinstance(values[0], list | dict):
            found[free_name(name, list(found))] = [dump(value).decode() for value in values]
        else:
            found[free_name(name, list(found))] = values
    return found
