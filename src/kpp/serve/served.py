"""A loaded model that is ready to be asked, and the place that holds the current one."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from kpp import __version__, io
from kpp._checks import RefusedError
from kpp._typing import AnyArray
from kpp.models.asking import Question, ask
from kpp.models.intervals import predictors_of
from kpp.models.left_rows import n_fit_rows
from kpp.scores import RoutedRows
from kpp.serve.answers import Deadline
from kpp.serve.asking import QUESTIONS, parameters_of, read_parameters
from kpp.serve.columns import CATEGORY, Column, columns_of
from kpp.serve.preparing import Preparer, as_array
from kpp.tables.errors import UserError
from kpp.tables.fit_rows import KEY as ROWS
from kpp.tables.plain import plain_data

# So many columns are tried one by one, to see which of them may miss.
MOST_TRIED = 200
# For a search that takes as long as it may; the others look at the clock before they begin.
WARM_SECONDS = 0.5


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model with everything that a service needs to know of it.

    Parameters
    ----------
    question : Question
        The model and its preparation.
    columns : list of Column
        What it takes.
    preparer : Preparer
        The way from checked values to its rows.
    digest : str
        SHA-256 of its file.
    card : dict
        What it is, as plain data.
    report : bytes, optional
        The page about it.
    """

    question: Question
    columns: list[Column]
    preparer: Preparer
    digest: str
    card: dict[str, Any]
    report: bytes | None = None

    @property
    def version(self) -> str:
        """A short name of this very file."""
        return self.digest[:12]

    def at(self, values: Mapping[str, AnyArray], n_rows: int) -> RoutedRows:
        """Rows that every question about them takes."""
        return self.preparer.at(values, n_rows)

    def remarks(self, values: Mapping[str, AnyArray]) -> list[str]:
        """What the caller ought to know of the values: categories that the fit has not seen."""
        found = []
        for column in self.columns:
            if column.kind != CATEGORY or column.categories is None:
                continue
            known = {*column.categories, None}
            n_new = sum(value not in known for value in values[column.name].tolist())
            if n_new:
                found.append(
                    f"Column '{column.name}': {n_new} of {len(values[column.name])} values are "
                    "categories that the fit has not seen, and count as none of those it knows."
                )
        return found


def load_served(path: Path, report: Path | None = None) -> ServedModel:
    """Load a model and try every question on it, so that no caller waits for a compiler.

    Parameters
    ----------
    path : Path
        File of `kpp fit` or `kpp.save`.
    report : Path, optional
        Page of `kpp report`.

    Returns
    -------
    served : ServedModel

    Raises
    ------
    UserError
        For a file that cannot be read, or whose model does not predict.
    """
    try:
        page = None if report is None else report.read_bytes()
        model, digest, summary = _loaded(path)
        question = ask(model)
    except TypeError as error:
        raise UserError(f"{path.name} holds nothing that predicts.") from error
    except io.FileFormatError as error:
        raise UserError(f"{error}") from error
    except OSError as error:
        name = Path(error.filename).name if error.filename else path.name
        raise UserError(f"{name} cannot be read: {error.strerror or error}.") from error
    # Threads of the service answer side by side; more of them in each would be in their way.
    question.model.set_params(n_jobs=1)
    columns = columns_of(question)
    columns = _with_missing(question, columns)
    preparer = Preparer(question, columns)
    made = ServedModel(question, columns, preparer, digest, {}, page)
    _warm(made)
    return replace(made, card=_card(made, path, summary))


def _loaded(path: Path) -> tuple[Any, str, Any]:
    """The model, the digest of the very bytes that it was read from, and the file's own words."""
    while True:
        before = _digest(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", io.FileVersionWarning)
            model, summary = io.load(path), io.describe(path)
        if before == _digest(path):
            return model, before, summary


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _with_missing(question: Question, columns: list[Column]) -> list[Column]:
    """Find out where values may miss, by asking the model."""
    preparer = Preparer(question, columns)
    if _takes(preparer, dict.fromkeys([c.name for c in columns])):
        return columns
    if len(columns) > MOST_TRIED:
        return [replace(column, takes_missing=False) for column in columns]
    whole = {column.name: column.example() for column in columns}
    return [
        column
        if _takes(preparer, whole | {column.name: None})
        else replace(column, takes_missing=False)
        for column in columns
    ]


def _takes(preparer: Preparer, row: Mapping[str, Any]) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = {c.name: as_array([row[c.name]], c) for c in preparer.columns}
            return bool(np.isfinite(preparer.at(values, 1).scores).all())
    except Exception:  # the model's, its preparation's, or another library's
        return False


def _warm(made: ServedModel) -> None:
    """Ask everything once: loops are compiled, tables of nodes are made, caches are filled."""
    values = {c.name: as_array([c.example()], c) for c in made.columns}
    for asked in QUESTIONS:
        parameters = parameters_of(asked, made.question)
        needed = [(p.name, "1.0") for p in parameters if p.required]
        given = {**read_parameters(parameters, needed), "raw": True}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                asked.answer(made.question, made.at(values, 1), given, Deadline(WARM_SECONDS))
        except Exception:  # what it cannot answer, it will say to those who ask
            continue


def _card(made: ServedModel, path: Path, summary: Any) -> dict[str, Any]:
    question = made.question
    model: Any = question.model
    metadata = {k: v for k, v in summary.metadata.items() if k != ROWS}
    try:
        predictors_of(model, "an interval")
        intervals = True
    except RefusedError:
        intervals = False
    found = {
        "name": path.name,
        "version": made.version,
        "sha256": made.digest,
        "loaded": datetime.now(UTC).isoformat(timespec="seconds"),
        "kpp": __version__,
        "written_with": summary.libraries,
        "task": "classification" if question.is_classifier else "regression",
        "target": metadata.get("target"),
        "classes": model.classes_.tolist() if question.is_classifier else None,
        "n_targets": 1 if question.is_classifier else question.additive.n_scores,
        "regime": question.regime.name,
        "regime_in_short": question.regime.in_short,
        "alpha": model.alpha_,
        "trees": sum(block.forest.n_trees for block in question.additive.blocks),
        "nodes": sum(block.forest.n_nodes for block in question.additive.blocks),
        "rows_fitted": n_fit_rows(model),
        "has_intervals": intervals,
        "has_report": made.report is not None,
        "scores": metadata.get("scores"),
        "columns": [column.to_dict() for column in made.columns],
    }
    plain: dict[str, Any] = plain_data(found)
    return plain


class Holder:
    """Holds the current model; a new one takes its place in one step, or not at all.

    Parameters
    ----------
    path : Path
        File of the model.
    report : Path, optional
        Page about it.
    """

    def __init__(self, path: Path, report: Path | None = None) -> None:
        self.path, self.report = path, report
        self.current = load_served(path, report)
        self._lock = Lock()

    def reload(self) -> ServedModel:
        """Load the file again. Who has the old model keeps it; on an error it stays."""
        with self._lock:
            self.current = load_served(self.path, self.report)
            return self.current


def example_row(columns: Sequence[Column]) -> dict[str, Any]:
    """A row that the model takes.

    Examples
    --------
    >>> from kpp.serve.columns import Column
    >>> from kpp.serve.served import example_row
    >>> example_row([Column("size", low=1.0, high=2.0)])
    {'size': 1.5}
    """
    return {column.name: column.example() for column in columns}
