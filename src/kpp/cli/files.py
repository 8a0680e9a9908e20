"""Files that the command writes and loads: models, tables, JSON."""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kpp._atomic import write_file
from kpp._pipelines import unwrap
from kpp.cli.console import Terminal, clean, plain_data
from kpp.cli.errors import UserError
from kpp.models.linear import KPPLinearModel


@dataclass(frozen=True)
class ModelFile:
    """A model from a file, and what the file says of itself.

    Parameters
    ----------
    model : Pipeline, KPPRegressor or KPPClassifier
        The model.
    summary : kpp.io.FileSummary
        Versions, sizes, and what `kpp fit` wrote beside the model.
    """

    model: Any
    summary: Any

    @property
    def target(self) -> str | None:
        """The column that the model was fitted to, if the file says so."""
        name = self.summary.metadata.get("target")
        return name if isinstance(name, str) else None


def save_model(model: Any, path: Path, metadata: dict[str, Any]) -> None:
    """Write a model; the old file stays until the new one is whole."""
    from kpp import io

    try:
        io.save(model, path, metadata=plain_data(metadata))
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from error


def load_any(path: Path, terminal: Terminal) -> ModelFile:
    """Load whatever `kpp.save` has written."""
    from kpp import io

    if not path.exists():
        raise UserError(f"There is no file {path}. Make one with kpp fit.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; the file of a model was expected.")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = ModelFile(io.load(path), io.describe(path))
    except io.FileFormatError as error:
        raise UserError(f"{error}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    for text in dict.fromkeys(str(w.message) for w in caught):
        terminal.warn(text)
    return found


def load_model(path: Path, terminal: Terminal) -> ModelFile:
    """Load a model that predicts: one that `kpp fit` has written, or `kpp.save`."""
    found = load_any(path, terminal)
    try:
        _, inner = unwrap(found.model)
    except TypeError:
        inner = found.model
    if not isinstance(inner, KPPLinearModel):
        raise UserError(f"{path} holds a {type(inner).__name__}, which does not predict.")
    return found


def write_table(frame: Any, path: Path | None, terminal: Terminal, *, what: str) -> None:
    """Write a table: CSV to standard output, or to a file of the kind that its name says."""
    if path is None:
        if sys.stdout.isatty():  # raw for programs, harmless for terminals
            lines = frame.to_csv(index=False, lineterminator="\n").splitlines()
            sys.stdout.writelines(f"{clean(line)}\n" for line in lines)
        else:
            frame.to_csv(sys.stdout, index=False, lineterminator="\n")
        return
    name = path.name.lower()

    def write(temporary: Path) -> None:
        if name.endswith((".parquet", ".pq")):
            frame.to_parquet(temporary, index=False)
        elif name.endswith((".feather", ".arrow")):
            frame.to_feather(temporary)
        elif name.endswith(".json"):
            records = [dict(zip(frame.columns, row, strict=True)) for row in _rows(frame)]
            temporary.write_text(json.dumps(plain_data(records), ensure_ascii=False) + "\n")
        else:
            separator = "\t" if name.endswith((".tsv", ".tsv.gz")) else ","
            packed = "gzip" if name.endswith(".gz") else None
            frame.to_csv(
                temporary, index=False, sep=separator, compression=packed, lineterminator="\n"
            )

    replace(path, write)
    terminal.note(f"{what}: {path}, {len(frame)} lines.")


def _rows(frame: Any) -> Any:
    return frame.astype(object).itertuples(index=False, name=None)


def write_text(text: str, path: Path) -> None:
    """Write a text file, whole or not at all."""
    replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def replace(path: Path, write: Any) -> None:
    """Write beside the file, then put it in its place: an interruption leaves the old one."""
    try:
        write_file(path, write, devices=True)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from error
