"""Tables from files: CSV of any separator, Parquet, Arrow, gzip; or a built-in data set.

What a file is, is read from its first bytes, not from its name.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Collection
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from kpp._optional import optional
from kpp.tables.builtin import BUILT_IN, built_in_table
from kpp.tables.errors import UserError, listed, near
from kpp.tables.lines import find_line, find_uneven

SEPARATORS = (",", ";", "\t", "|")
SAMPLE = 1 << 16
SAMPLE_LINES = 50
GZIP, PARQUET, ARROW, ARROW_STREAM = b"\x1f\x8b", b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
# Numbers as many countries write them.
COMMA_NUMBER = r"\s*[+-]?\d+(,\d+)?([eE][+-]?\d+)?\s*"


class TableFile:
    """A table that was named on the command line.

    Parameters
    ----------
    given : str
        Path of a file, "-" for standard input, or the name of a built-in data set. A file wins
        over a data set only if its name has a suffix.

    Attributes
    ----------
    path : Path or None
        None for what is not a file.
    is_built_in : bool
        Whether it is a built-in data set.
    name : str
        For messages.
    stem : str
        For names of files that are made of it.
    short : str
        The name without its folders, which are nobody's business who reads a report.
    """

    def __init__(self, given: str) -> None:
        self.is_built_in = given in BUILT_IN
        self.name = given
        # Separator and encoding, once a text has been read.
        self._layout: tuple[str, str] | None = None
        self.path = None if self.is_built_in or given == "-" else Path(given)
        self.short = Path(given).name if self.path is not None else given
        self.stem = "table" if given == "-" else Path(given).name.split(".")[0] or "table"
        if self.path is None:
            return
        if self.path.is_dir():
            raise UserError(f"{given} is a folder; a file was expected.")
        if not self.path.exists():
            raise UserError(f"There is no file {given}. {self._hint(given)}")

    def _hint(self, given: str) -> str:
        assert self.path is not None
        if not self.path.suffix and self.path.parent == Path():
            return f"Built-in data sets: {listed(sorted(BUILT_IN))}. " + _near_only(given, BUILT_IN)
        folder = self.path.parent
        beside = [p.name for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []
        return _near_only(self.path.name, beside) or "Check the path."

    def read(self, text_columns: Collection[str] = ()) -> Any:
        """Read the table.

        Parameters
        ----------
        text_columns : collection of str
            Columns of a CSV that hold text, also where this file has only numbers in them: those
            that were text when a model was fitted.

        Returns
        -------
        frame : pandas.DataFrame
            At least one column and one row; names are different texts.
        """
        optional("pandas", "reading tables", "cli")
        if self.is_built_in:
            return built_in_table(self.name)
        try:
            frame = self._read(text_columns)
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(f"{self.name} cannot be read: {error}.") from error
        frame.columns = [str(name) for name in frame.columns]
        _check_names(list(frame.columns), self.name)
        if frame.shape[1] == 0 or len(frame) == 0:
            raise UserError(f"{self.name} has no rows: a header and at least one row are needed.")
        return frame

    def _read(self, text_columns: Collection[str]) -> Any:
        if self.path is None:
            return self._parse(io.BytesIO(sys.stdin.buffer.read()), text_columns)
        with open(self.path, "rb") as file:
            return self._parse(file, text_columns)

    def _parse(self, file: Any, text_columns: Collection[str]) -> Any:
        start = file.read(6)
        file.seek(0)
        if start.startswith(GZIP):
            # Formats with an index at their end are read out of order, which gzip cannot.
            with gzip.open(file) as inner:
                packed = inner.read(6)
                inner.seek(0)
                if packed.startswith((PARQUET, ARROW)):
                    return self._parse(io.BytesIO(inner.read()), text_columns)
                return self._parse(inner, text_columns) if packed[:2] != GZIP else self._twice()
        if start.startswith(PARQUET):
            return self._parse_arrow(file, "parquet")
        if start.startswith(ARROW):
            return self._parse_arrow(file, "file")
        if start.startswith(ARROW_STREAM):
            return self._parse_arrow(file, "stream")
        if start.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
            raise UserError(
                f"{self.name} is a zip archive or an Excel file. CSV, Parquet, Arrow and gzip are "
                "read: save it as CSV."
            )
        if not start.strip():
            raise UserError(f"{self.name} is empty: a header and at least one row are needed.")
        return self._parse_text(file, text_columns)

    def _twice(self) -> Any:
        raise UserError(f"{self.name} is gzip inside gzip: unpack it once.")

    def _parse_arrow(self, file: Any, kind: str) -> Any:
        pa = optional("pyarrow", "reading Parquet and Arrow", "cli")
        try:
            if kind == "parquet":
                table = optional("pyarrow.parquet", "reading Parquet", "cli").read_table(file)
            else:
                ipc = optional("pyarrow.ipc", "reading Arrow", "cli")
                table = (ipc.open_file if kind == "file" else ipc.open_stream)(file).read_all()
            names = list(table.column_names)
            _check_names(names, self.name)
            # An index that pandas wrote is no column of the table, unless it has a name.
            frame = table.to_pandas(date_as_object=False)
        except (pa.ArrowException, NotImplementedError) as error:
            raise UserError(f"{self.name} is damaged or not {kind}: {error}") from error
        named = [name for name in frame.index.names if name is not None]
        return frame.reset_index(level=named) if named else frame

    def _parse_text(self, file: Any, text_columns: Collection[str]) -> Any:
        head = file.read(SAMPLE)
        file.seek(0)
        encoding = _encoding(head)
        text = head.decode(encoding, errors="ignore")
        if "\0" in text:
            raise UserError(f"{self.name} is not a table: it holds binary data.")
        separator = find_separator(text)
        header = _rows(text, separator)[0]
        _check_names([name for name in header if name], self.name)
        settings: dict[str, Any] = {
            "sep": separator,
            "encoding": encoding,
            "text": set(text_columns),
        }
        frame = self._parse_csv(file, **settings)
        if separator != "," and _has_comma_numbers(frame, text_columns):
            file.seek(0)
            frame = self._parse_csv(file, decimal=",", **settings)
        # Cells that a row lacks at its end are read as gaps: without one no row is short.
        if frame.shape[1] > 1 and frame[frame.columns[-1]].isna().any():
            self._refuse_uneven(file, separator, encoding)
        self._layout = (separator, encoding)
        return frame

    def _refuse_uneven(self, file: Any, separator: str, encoding: str) -> None:
        found = find_uneven(file, separator, encoding)
        if found is None:
            return
        line, n_cells, width = found
        raise UserError(
            f"{self.name} is not a regular table with the separator {separator!r}: line {line} has "
            f"{n_cells} cell(s), and the header {width}. Mend the line; a gap is an empty cell."
        )

    def place(self, row: int) -> str:
        """Say where a row of the table stands, for people who will look for it.

        Parameters
        ----------
        row : int
            Counted from 0, in the table that `read` gave.

        Returns
        -------
        place : str
            The line of a text file; the number of the row in what has no lines.
        """
        if self.path is not None and self._layout is not None:
            with open(self.path, "rb") as raw:
                packed = raw.read(2) == GZIP
                raw.seek(0)
                with gzip.open(raw) if packed else nullcontext(raw) as file:
                    line = find_line(file, *self._layout, row)
            if line is not None:
                return f"line {line}"
        return f"row {row}, counted from 0"

    def _parse_csv(
        self, file: Any, *, sep: str, encoding: str, text: set[str], decimal: str = "."
    ) -> Any:
        pd = optional("pandas", "reading CSV", "cli")
        try:
            with warnings.catch_warnings():
                # A longer row than the header: nothing is to be lost without a word.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                return pd.read_csv(
                    file,
                    sep=sep,
                    encoding=encoding,
                    decimal=decimal,
                    index_col=False,
                    low_memory=False,
                    dtype=dict.fromkeys(text, str),
                )
        except UnicodeDecodeError as error:
            raise UserError(
                f"{self.name} is not in UTF-8, as its beginning is: byte {error.start} of a part "
                "of it. Save it as UTF-8."
            ) from error
        except (pd.errors.ParserError, pd.errors.ParserWarning, csv.Error) as error:
            message = str(error).replace("Error tokenizing data. C error: ", "").strip()
            self._refuse_uneven(file, sep, encoding)
            if isinstance(error, pd.errors.ParserWarning):
                message = "rows have more cells than the header."
            raise UserError(
                f"{self.name} is not a regular table with the separator {sep!r}: {message}"
            ) from error
        except pd.errors.EmptyDataError as error:
            raise UserError(f"{self.name} is empty: a header and rows are needed.") from error


def find_separator(text: str) -> str:
    r"""Find the separator of a CSV: the one that cuts its first lines most alike, into most parts.

    Examples
    --------
    >>> from kpp.tables.reading import find_separator
    >>> find_separator("a;b\n1,5;2\n"), find_separator("a\tb, c\n1\t2\n"), find_separator("a\n1\n")
    (';', '\t', ',')
    """
    best, chosen = (0.0, 0), ","
    for separator in SEPARATORS:
        rows = _rows(text, separator)
        width = len(rows[0]) if rows else 0
        if width < 2:
            continue
        alike = sum(len(row) == width for row in rows) / len(rows)
        if (alike, width) > best:
            best, chosen = (alike, width), separator
    return chosen


def _rows(text: str, separator: str) -> list[list[str]]:
    """The first rows; the last may be cut off, and does not count if there are others."""
    lines = io.StringIO(text, newline="")
    rows: list[list[str]] = []
    try:
        for row in csv.reader(lines, delimiter=separator):
            if row:
                rows.append(row)
            if len(rows) > SAMPLE_LINES:
                break
    except csv.Error:
        pass
    return rows[:-1] if len(text) >= SAMPLE // 4 and len(rows) > 2 else rows


def _encoding(head: bytes) -> str:
    for mark, encoding in MARKS:
        if head.startswith(mark):
            return encoding
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character that the end of the sample cuts in two is no sign of another encoding.
        if len(head) < SAMPLE or error.start < len(head) - 4:
            return "cp1252"
    return "utf-8"


def _has_comma_numbers(frame: Any, text_columns: Collection[str]) -> bool:
    """Whether a column is all numbers, once a comma is read as a point."""
    for name in frame.columns:
        column = frame[name]
        if name in text_columns or column.dtype.kind in "biufM":
            continue
        texts = column.dropna()
        if not all(isinstance(value, str) for value in texts):  # true and false, beside gaps
            continue
        if len(texts) and texts.str.fullmatch(COMMA_NUMBER).all() and texts.str.contains(",").any():
            return True
    return False


def _check_names(names: list[str], where: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(
            f"Names of columns must differ; {where} has more than one {listed(twice)}. Rename them."
        )


def _near_only(name: str, names: Collection[str]) -> str:
    hint = near(name, list(names))
    return hint if hint.startswith("Did") else ""
