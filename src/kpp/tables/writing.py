"""Results as files: tables of the kind that a name says, texts, JSON; whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kpp._atomic import write_file
from kpp.tables.errors import UserError
from kpp.tables.plain import plain_data
from kpp.tables.reading import TableFile

STDOUT = Path("-")
# What the name of a table may end in.
ENDINGS = (
    *(".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".json"),
    *(".parquet", ".pq", ".feather", ".arrow"),
)


def check_table_output(path: Path | None, *inputs: TableFile | Path | None) -> None:
    """Refuse what `check_output` does, and names that say of no kind of table which it is.

    "-" is standard output, as None is. Devices have no endings, and take CSV.
    """
    if path is None or path == STDOUT:
        return
    check_output(path, *inputs)
    if path.exists() and not path.is_file():
        return
    if not path.name.lower().endswith(ENDINGS):
        raise UserError(
            f"{path} does not say what kind of table it is to be: end its name in "
            f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}; --out - writes CSV to standard output."
        )


def check_output(path: Path | None, *inputs: TableFile | Path | None) -> None:
    """Refuse to write over a file that is read, or into a folder that is not there."""
    if path is None:
        return
    if path == STDOUT:
        raise UserError(
            "--out -: what is written here is a file, not a text for standard output. Give its "
            "name."
        )
    if str(path).startswith("-"):
        raise UserError(
            f"The name of a file was expected, and '{path}' looks like an option. If it is a name, "
            f"write ./{path}."
        )
    for one in inputs:
        other = one.path if isinstance(one, TableFile) else one
        if other is not None and path.exists() and other.exists() and path.samefile(other):
            raise UserError(f"{path} is an input, and is not written over. Give another --out.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; a name for a file was expected.")
    if not path.absolute().parent.is_dir():
        raise UserError(f"There is no folder {path.absolute().parent} to write {path.name} into.")


def write_table(frame: Any, path: Path) -> None:
    """Write a data frame as Parquet, Arrow, JSON, TSV or CSV, by the name of the file.

    Names are checked before anything is computed, by `check_table_output`.
    """
    name = path.name.lower()

    def write(temporary: Path) -> None:
        if name.endswith((".parquet", ".pq")):
            frame.to_parquet(temporary, index=False)
        elif name.endswith((".feather", ".arrow")):
            frame.to_feather(temporary)
        elif name.endswith(".json"):
            rows = frame.astype(object).itertuples(index=False, name=None)
            records = [dict(zip(frame.columns, row, strict=True)) for row in rows]
            temporary.write_text(
                json.dumps(plain_data(records), ensure_ascii=False) + "\n", encoding="utf-8"
            )
        else:
            separator = "\t" if name.endswith((".tsv", ".tsv.gz")) else ","
            packed = "gzip" if name.endswith(".gz") else None
            frame.to_csv(
                temporary, index=False, sep=separator, compression=packed, lineterminator="\n"
            )

    replace_file(path, write)


def write_text(text: str, path: Path) -> None:
    """Write a text file, whole or not at all."""
    replace_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside the file, then put it in its place: an interruption leaves the old one."""
    try:
        write_file(path, write, devices=True)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from error
