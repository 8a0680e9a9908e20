"""Bodies of requests: JSON, CSV or an Arrow stream to checked columns, with all their errors."""

from __future__ import annotations

import io
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._typing import AnyArray
from kpp.serve.arrow_frames import is_packed
from kpp.serve.columns import ANY, CATEGORY, DATE, LARGEST, LONGEST_TEXT, NUMBER, TEXT, Column
from kpp.serve.errors import RequestError, invalid
from kpp.serve.preparing import as_array

JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"
TYPES = (JSON, CSV, ARROW)
Errors = list[dict[str, Any]]
WANTED = {
    NUMBER: "a number",
    CATEGORY: "a text",
    TEXT: "a text",
    DATE: "a date as a text",
    ANY: "a number, a text, or true or false",
}


def read_body(
    data: bytes, kind: str, columns: Sequence[Column], most_rows: int
) -> tuple[dict[str, AnyArray], int]:
    """Read and check the rows of a body.

    Parameters
    ----------
    data : bytes
        The body.
    kind : str
        Its content type, one of `TYPES`.
    columns : sequence of Column
        What the model takes. Every column must be there, and no other.
    most_rows : int
        Most rows to take.

    Returns
    -------
    values : dict of str to array of shape (n_rows,)
        By column: floats, NaN where they miss, of numbers; objects of all others.
    n_rows : int

    Raises
    ------
    RequestError
        400 for what is not such a body at all, 422 for values and too many rows; the latter
        lists every error.

    Examples
    --------
    >>> from kpp.serve.bodies import JSON, read_body
    >>> from kpp.serve.columns import Column
    >>> read_body(b'{"rows": [{"size": 2}, {"size": null}]}', JSON, [Column("size")], 10)
    ({'size': array([ 2., nan])}, 2)
    """
    if kind == JSON:
        return _from_json(data, columns, most_rows)
    table = _csv(data, columns, most_rows) if kind == CSV else _arrow(data, most_rows)
    return _from_frame(table, columns, most_rows)


# JSON.


def parse_json(data: bytes) -> Any:
    """Read JSON in UTF-8 strictly: no NaN, no repeated keys, no deep nesting.

    Examples
    --------
    >>> from kpp.serve.bodies import parse_json
    >>> parse_json(b'[1, 2.5]')
    [1, 2.5]
    """
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_int=_integer,
        )
    except UnicodeDecodeError as error:
        raise RequestError(400, f"The body is not UTF-8 at byte {error.start}.") from error
    except json.JSONDecodeError as error:
        raise RequestError(400, f"The body is not JSON: {error.msg} at {error.pos}.") from error
    except RecursionError as error:
        raise RequestError(400, "The body is nested too deeply.") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RequestError(400, "The body is not JSON that can be read: a key stands twice.")
    return found


def _no_constant(text: str) -> float:
    raise RequestError(400, f"The body is not JSON: {text} is no number. null is a missing value.")


def _integer(text: str) -> int | float:
    # Longer ones are beyond any range here, and slow to read.
    return int(text) if len(text) < 25 else float(text)


def _from_json(
    data: bytes, columns: Sequence[Column], most_rows: int
) -> tuple[dict[str, AnyArray], int]:
    body = parse_json(data)
    right = isinstance(body, dict) and isinstance(body.get("rows"), list)
    if not right:
        raise RequestError(422, 'The body must be an object with a list of rows: {"rows": [...]}.')
    rows, extra = body["rows"], [name for name in body if name != "rows"]
    if extra:
        raise invalid([{"message": "The body has a key beside 'rows'."} for _ in extra])
    _check_count(len(rows), most_rows)
    names = [column.name for column in columns]
    known = set(names)
    errors: Errors = []
    whole: list[dict[str, Any]] = []
    for i, row in enumerate(rows):
        if isinstance(row, list) and len(row) == len(names):
            whole.append(dict(zip(names, row, strict=True)))
            continue
        if not isinstance(row, dict):
            errors.append({"row": i, "message": _row_words(row, len(names))})
            continue
        whole.append(row)
        if row.keys() != known:
            errors += [
                {"row": i, "column": name, "message": "The column is missing."}
                for name in names
                if name not in row
            ]
            n_extra = sum(name not in known for name in row)
            if n_extra:
                said = f"{n_extra} key(s) are no columns of the model."
                errors.append({"row": i, "message": said})
    values = {}
    for column in columns:
        cells = [row.get(column.name) for row in whole]
        if len(whole) == len(rows):
            errors += _check_cells(cells, column, known_missing=[column.name in r for r in whole])
        values[column.name] = cells
    if errors:
        raise invalid(sorted(errors, key=lambda e: e.get("row", -1)))
    checked = {column.name: as_array(values[column.name], column) for column in columns}
    _check_dates(checked, columns)
    return checked, len(rows)


def _row_words(row: Any, n_columns: int) -> str:
    if isinstance(row, list):
        return f"A row as a list needs {n_columns} values; this one has {len(row)}."
    return "A row must be an object with the columns as keys, or a list of their values."


def _check_count(n_rows: int, most_rows: int) -> None:
    if n_rows == 0:
        raise invalid([{"message": "There must be at least one row."}])
    if n_rows > most_rows:
        said = f"There are {n_rows} rows or more; at most {most_rows} are taken at a time."
        raise invalid([{"message": said}])


def _check_cells(cells: list[Any], column: Column, known_missing: Sequence[bool]) -> Errors:
    """Everything that is wrong with the values of a column; what is not there was said before."""
    found = []
    for i, value in enumerate(cells):
        said = cell_error(value, column)
        if said is not None and known_missing[i]:
            found.append({"row": i, "column": column.name, "message": said})
    return found


def cell_error(value: Any, column: Column) -> str | None:
    """Say what is wrong with a value; None where nothing is.

    Examples
    --------
    >>> from kpp.serve.bodies import cell_error
    >>> from kpp.serve.columns import Column
    >>> cell_error("big", Column("size"))
    'Expected a number; got a text.'
    """
    kind = column.kind
    if value is None:
        return None if column.takes_missing else "The model takes no missing values here."
    if isinstance(value, str):
        if kind == NUMBER:
            return "Expected a number; got a text."
        if len(value) > LONGEST_TEXT:
            return f"The text is longer than {LONGEST_TEXT} characters."
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            return "The text holds half of a character (a lone surrogate)."
        return None
    if isinstance(value, bool | int | float):
        if kind not in (NUMBER, ANY):
            return f"Expected {WANTED[kind]}; got a {_sort(value)}."
        if not -LARGEST <= value <= LARGEST:  # NaN, too
            return "The number is beyond single precision."
        return None
    return f"Expected {WANTED[kind]}; got a {_sort(value)}."


def _sort(value: Any) -> str:
    sorts = {bool: "truth value", int: "number", float: "number", list: "list", dict: "record"}
    return sorts.get(type(value), "value of another kind")


# Tables.


def _csv(data: bytes, columns: Sequence[Column], most_rows: int) -> Any:
    pd = optional("pandas", "kpp serve", "serve")
    texts = {c.name: str for c in columns if c.kind in (CATEGORY, TEXT, DATE)}
    if b"\0" in data:
        raise RequestError(400, "The body is not CSV: it holds binary data.")
    try:
        data.decode("utf-8")
        with warnings.catch_warnings():
            # A longer row than the header: nothing is to be lost without a word.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            header = pd.read_csv(io.BytesIO(data), nrows=0, index_col=False, encoding="utf-8-sig")
            _check_names(list(header.columns), columns)
            return pd.read_csv(
                io.BytesIO(data),
                encoding="utf-8-sig",
                index_col=False,
                low_memory=False,
                dtype=texts,
                nrows=most_rows + 1,
            )
    except UnicodeDecodeError as error:
        raise RequestError(400, f"The body is not UTF-8 at byte {error.start}.") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError) as error:
        message = "The body is not a table with a header, commas and rows of equal length."
        raise RequestError(400, message) from error
    except (ValueError, OverflowError) as error:
        raise RequestError(400, "The body is not CSV that can be read.") from error


def _arrow(data: bytes, most_rows: int) -> Any:
    pa = optional("pyarrow", "kpp serve", "serve")
    ipc = optional("pyarrow.ipc", "kpp serve", "serve")
    try:
        if is_packed(data):
            raise RequestError(415, "Columns of an Arrow stream are read as they are, not packed.")
        batches, n_rows = [], 0
        with ipc.open_stream(pa.py_buffer(data)) as reader:
            for batch in reader:
                # Offsets from anybody's hand are not to be followed unchecked.
                batch.validate(full=True)
                n_rows += batch.num_rows
                _check_count(max(n_rows, 1), most_rows)
                batches.append(batch)
            table = pa.Table.from_batches(batches, schema=reader.schema)
        return _of_arrow(table)
    except (pa.ArrowException, OSError, ValueError, LookupError, NotImplementedError) as error:
        raise RequestError(400, "The body is not an Arrow stream that can be read.") from error


def _of_arrow(table: Any) -> Any:
    """Columns as pandas has them, without the index that pandas may have written."""
    pd = optional("pandas", "kpp serve", "serve")
    names = list(table.column_names)
    if len(set(names)) != len(names):
        raise RequestError(400, "Names of columns must differ.")
    plain = {name: table.column(name).to_pandas(date_as_object=False) for name in names}
    return pd.DataFrame(plain, columns=names)


def _check_names(names: Sequence[Any], columns: Sequence[Column]) -> None:
    known = {column.name for column in columns}
    given = {str(name) for name in names}
    errors: Errors = [
        {"column": column.name, "message": "The column is missing."}
        for column in columns
        if column.name not in given
    ]
    n_extra = sum(str(name) not in known for name in names)
    if n_extra:
        errors.append({"message": f"{n_extra} column(s) are not known to the model."})
    if errors:
        raise invalid(errors)


def _from_frame(
    frame: Any, columns: Sequence[Column], most_rows: int
) -> tuple[dict[str, AnyArray], int]:
    _check_names(list(frame.columns), columns)
    _check_count(len(frame), most_rows)
    errors: Errors = []
    values: dict[str, AnyArray] = {}
    for column in columns:
        cells = frame[column.name]
        kind = getattr(cells.dtype, "kind", "O")
        if kind in "biuf" and column.kind == NUMBER:
            numbers = cells.to_numpy(dtype=np.float64, na_value=np.nan)
            wrong = np.abs(numbers) > LARGEST
            if not column.takes_missing:
                wrong |= np.isnan(numbers)
            for i in np.flatnonzero(wrong):
                said = cell_error(None if math.isnan(numbers[i]) else numbers[i], column)
                errors.append({"row": int(i), "column": column.name, "message": said})
            values[column.name] = numbers
            continue
        plain = [_cell(value, column) for value in cells.tolist()]
        errors += _check_cells(plain, column, known_missing=[True] * len(plain))
        values[column.name] = np.array(plain, dtype=object) if plain else np.empty(0, dtype=object)
    if errors:
        raise invalid(sorted(errors, key=lambda e: (e["row"], e["column"])))
    checked = {c.name: as_array(list(values[c.name]), c) for c in columns if c.kind != NUMBER}
    checked |= {c.name: as_array(values[c.name].tolist(), c) for c in columns if c.kind == NUMBER}
    _check_dates(checked, columns)
    return checked, len(frame)


def _cell(value: Any, column: Column) -> Any:
    """A value of a table as JSON would have it; dates as the model's format writes them."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if hasattr(value, "strftime"):
        if value != value:
            return None
        return value.strftime(column.date_format or "%Y-%m-%d") if column.kind == DATE else [value]
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return _cell(value.item(), column)
    try:
        return None if bool(value != value) else float(value)  # decimals, and pandas' own gap
    except (TypeError, ValueError):
        return None if str(value) in ("<NA>", "NaT") else [value]


def _check_dates(values: Mapping[str, AnyArray], columns: Sequence[Column]) -> None:
    pd = optional("pandas", "kpp serve", "serve")
    errors: Errors = []
    for column in columns:
        if column.kind != DATE:
            continue
        cells = pd.Series(values[column.name], dtype=object)
        wanted = column.date_format or "%Y-%m-%d"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read = pd.to_datetime(cells, format=wanted, errors="coerce")
        for i in np.flatnonzero(cells.notna().to_numpy() & read.isna().to_numpy()):
            said = f"Not a date that is written as {wanted}."
            errors.append({"row": int(i), "column": column.name, "message": said})
    if errors:
        raise invalid(errors)
