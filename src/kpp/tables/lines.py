"""Lines of a CSV file: where a row stands, and which row has another number of cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any


def find_uneven(file: Any, separator: str, encoding: str) -> tuple[int, int, int] | None:
    r"""Find the first row with more or fewer cells than the header.

    Parameters
    ----------
    file : binary file
        A CSV; read from its beginning.
    separator, encoding : str
        How it is written.

    Returns
    -------
    found : (int, int, int) or None
        The line that the row begins on, counted from 1; its number of cells; that of the header.
        None where all rows are as long.

    Examples
    --------
    >>> import io
    >>> from kpp.tables.lines import find_uneven
    >>> find_uneven(io.BytesIO(b'a,b\n1,"two\nlines"\n\n3\n'), ",", "utf-8")
    (5, 1, 2)
    """
    rows = _rows(file, separator, encoding)
    width = len(next(rows, (1, []))[1])
    return next(((line, len(row), width) for line, row in rows if len(row) != width), None)


def find_line(file: Any, separator: str, encoding: str, row: int) -> int | None:
    r"""Find the line that a row begins on.

    Parameters
    ----------
    file, separator, encoding
        As in `find_uneven`.
    row : int
        Counted from 0, without the header.

    Returns
    -------
    line : int or None
        Counted from 1; None where there are not so many rows.

    Examples
    --------
    >>> import io
    >>> from kpp.tables.lines import find_line
    >>> find_line(io.BytesIO(b"a,b\n1,2\n\n3,4\n"), ",", "utf-8", 1)
    4
    """
    for number, (line, _) in enumerate(_rows(file, separator, encoding), start=-1):
        if number == row:
            return line
    return None


def _rows(file: Any, separator: str, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Every row, with the line that it begins on; lines without anything in them are no rows."""
    file.seek(0)
    # Bytes that are no text are another check's to name.
    text = io.TextIOWrapper(file, encoding=encoding, errors="replace", newline="")
    try:
        reader, start = csv.reader(text, delimiter=separator), 1
        try:
            for row in reader:
                if len(row) > 1 or (row and row[0].strip()):
                    yield start, row
                start = reader.line_num + 1
        except csv.Error:  # a cell too long for this reader: what it cannot see is not refused
            return
    finally:
        text.detach()
