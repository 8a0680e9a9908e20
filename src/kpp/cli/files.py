"""Files of models that the command writes and loads, and tables that it shows."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kpp.cli.console import Terminal, clean
from kpp.models.linear import KPPLinearModel
from kpp.models.pipelines import split_pipeline
from kpp.tables.errors import UserError
from kpp.tables.fit_rows import KEY as ROWS
from kpp.tables.plain import plain_data
from kpp.tables.reading import TableFile
from kpp.tables.rows import Rows
from kpp.tables.writing import STDOUT, check_table_output, write_table

if TYPE_CHECKING:
    from kpp.io import ModelOutline

Found = TypeVar("Found")


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
        return self._named("target")

    @property
    def groups(self) -> str | None:
        """The column that names the groups of the rows of the fit, if it had groups."""
        return self._named("groups")

    @property
    def weights(self) -> str | None:
        """The column of the weights of the fit, if it had weights."""
        return self._named("weights")

    @property
    def known_columns(self) -> set[str]:
        """Columns that the fit had a use for, and that are none of the model."""
        names = (self._named(k) for k in ("target", "id", "groups", "weights", "time"))
        return {name for name in names if name is not None}

    def _named(self, key: str) -> str | None:
        name = self.summary.metadata.get(key)
        return name if isinstance(name, str) else None

    @property
    def independent_duplicates(self) -> bool:
        """Whether the fit was told that equal rows are independent draws."""
        return self.summary.metadata.get("independent_duplicates") is True

    @property
    def fit_rows(self) -> Any:
        """What the file keeps about the rows of the fit; None where it is from elsewhere."""
        return self.summary.metadata.get(ROWS)


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

    return _of_file(path, terminal, lambda: ModelFile(io.load(path), io.describe(path)))


def outline_of(path: Path, terminal: Terminal) -> ModelOutline:
    """What a file of `kpp.save` holds, from the small part of it that says so."""
    from kpp import io

    return _of_file(path, terminal, lambda: io.outline(path))


def _of_file(path: Path, terminal: Terminal, read: Callable[[], Found]) -> Found:
    """Read a file; what is wrong with it in a line, and warnings on the terminal."""
    from kpp import io

    if not path.exists():
        raise UserError(f"There is no file {path}. Make one with kpp fit.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; the file of a model was expected.")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = read()
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
        _, inner = split_pipeline(found.model)
    except TypeError:
        inner = found.model
    if not isinstance(inner, KPPLinearModel):
        raise UserError(f"{path} holds a {type(inner).__name__}, which does not predict.")
    return found


def read_rows(
    path: Path,
    table: TableFile,
    id_column: str | None,
    terminal: Terminal,
    *,
    rows: str | None = None,
) -> Rows:
    """Load a model, and read the rows of a table, or some of them, as it takes them."""
    file = load_model(path, terminal)
    return Rows(
        file.model,
        table,
        id_column,
        terminal,
        known=file.known_columns,
        rows=rows,
        fit_rows=file.fit_rows,
        independent_duplicates=file.independent_duplicates,
    )


def refuse_several(rows: Rows, command: str) -> None:
    """Refuse a model that predicts several numbers for a row, where one of them is spoken of."""
    n_numbers = rows.question.additive.n_scores
    if rows.question.is_classifier or n_numbers == 1:
        return
    quantiles = getattr(rows.model.loss_, "quantiles", None)
    what = "targets" if quantiles is None else "quantiles"
    raise UserError(
        f"{command} speaks of one number, and this model predicts {n_numbers} {what} for a row: "
        "fit a model of one of them."
    )


def table_output(
    path: Path | None, terminal: Terminal, *inputs: TableFile | Path, row: int | None = None
) -> Path | None:
    """Check where a table is to go before it is made; "-" is standard output, as None is."""
    check_table_output(path, *inputs)
    if path != STDOUT:
        return path
    if row is not None:
        raise UserError(
            "--out - is for tables: --row prints its row anyway, and --json gives it to programs."
        )
    if terminal.json:
        raise UserError("--out - and --json would both write to standard output: give one of them.")
    return None


def show_table(frame: Any, path: Path | None, terminal: Terminal, *, what: str) -> None:
    """Write a table: CSV to standard output, or to a file of the kind that its name says."""
    if path is not None:
        write_table(frame, path)
        terminal.note(f"{what}: {path}, {len(frame)} lines.")
    elif sys.stdout.isatty():  # raw for programs, harmless for terminals
        lines = frame.to_csv(index=False, lineterminator="\n").splitlines()
        sys.stdout.writelines(f"{clean(line)}\n" for line in lines)
    else:
        frame.to_csv(sys.stdout, index=False, lineterminator="\n")
