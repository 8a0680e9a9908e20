"""Rows of a file with their true values, for a model that is already fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._typing import AnyArray
from kpp.models.pipelines import split_pipeline
from kpp.tables.columns import columns_of, model_columns, text_columns
from kpp.tables.errors import UserError, listed
from kpp.tables.fit_rows import ChosenRows, choose_rows
from kpp.tables.grouping import groups_of
from kpp.tables.listener import Listener
from kpp.tables.reading import TableFile
from kpp.tables.target import labels_like, read_target


@dataclass(frozen=True)
class LabelledRows:
    """Rows and true values.

    Parameters
    ----------
    X : pandas.DataFrame
        The columns of the model, in its order.
    y : array of shape (n_rows,)
        Numbers, or labels that the model knows.
    target : str
        Column of y.
    frame : pandas.DataFrame
        The same rows, all columns.
    numbers : int array of shape (n_rows,)
        Their places in the file, counted from 0.
    n_missing : int
        Number of rows that were left out, since they have no target.
    chosen : ChosenRows or None
        Which of the rows of the file they are, where that was asked.
    groups : object array of shape (n_rows,) or None
        Their groups, where a column was named.
    """

    X: Any
    y: AnyArray
    target: str
    frame: Any
    numbers: AnyArray
    n_missing: int
    chosen: ChosenRows | None = None
    groups: AnyArray | None = None


def labelled_rows(
    model: Any,
    table: TableFile,
    listener: Listener,
    *,
    target: str | None = None,
    fitted_to: str | None = None,
    rows: str | None = None,
    fit_rows: Any = None,
    groups: str | None = None,
    fitted_groups: str | None = None,
) -> LabelledRows:
    """Read rows and their true values; rows without one are left out, and counted aloud.

    Parameters
    ----------
    model : Pipeline, KPPRegressor or KPPClassifier
        Fitted.
    table : TableFile
        The file.
    listener : Listener
        Where remarks go.
    target : str, optional
        Column of the true values.
    fitted_to : str, optional
        The column that the model was fitted to, if that is known.
    rows : {"auto", "held-out", "new", "all", "fitted"}, optional
        Which rows to take, see `choose_rows`; all by default.
    fit_rows : object
        What the file of the model keeps about the rows of its fit.
    groups : str, optional
        Column that names the groups of the rows.
    fitted_groups : str, optional
        The column that did so in the fit: taken where the table has it, and no other is given.

    Returns
    -------
    rows : LabelledRows
    """
    _, inner = split_pipeline(model)
    classes = getattr(inner, "classes_", None)
    expected = fitted_to if target is None else target
    texts = text_columns(model)
    if classes is not None and classes.dtype.kind == "U" and expected is not None:
        texts = texts | {expected}  # a label that looks like a number is a text all the same
    with listener.working(f"reading {table.name}"):
        frame = table.read(texts)
    if target is None:
        target = find_target(model, fitted_to, list(frame.columns), table.name, listener)
    task = "regression" if classes is None else "classification"
    found = read_target(frame, target, task, table.name)
    if found.n_missing:
        listener.warn(f"{found.n_missing} row(s) without '{target}' are left out.")
    numbers = every = np.flatnonzero(found.kept)
    if groups is None and fitted_groups in frame.columns:
        groups = fitted_groups
    chosen, of_groups = None, groups_of(frame, groups, table.name)
    if rows is not None:
        columns_of(model, frame, table.name)  # refuses a table without them
        chosen = choose_rows(model, frame, fit_rows, rows, table.short, found.kept, of_groups)
        numbers = chosen.index
    frame = frame.iloc[numbers].reset_index(drop=True)
    y = found.values[np.searchsorted(every, numbers)]
    if classes is not None:
        # A class that only held-out rows have is left out, as in the scores of the fit.
        lenient = chosen is not None and chosen.kind == "held-out"
        labels = frame[target].infer_objects()
        y = labels_like(labels, classes, target, keep_unknown=lenient)
        known = np.isin(y, classes)
        if not known.all():
            listener.warn(
                f"{int((~known).sum())} held-out row(s) are of classes that no row of the fit has, "
                "and are left out: with them the scores would be worse."
            )
            frame, y, numbers = frame[known].reset_index(drop=True), y[known], numbers[known]
    X = columns_of(model, frame, table.name)[0]
    of_groups = None if of_groups is None else of_groups[numbers]
    return LabelledRows(X, y, target, frame, numbers, found.n_missing, chosen, of_groups)


def find_target(
    model: Any, fitted_to: str | None, names: Sequence[str], where: str, listener: Listener
) -> str:
    """The column that a model was fitted to, or else the only one that it does not know."""
    known = set(model_columns(model))
    others = [name for name in names if name not in known]
    if fitted_to in others:
        return str(fitted_to)
    if len(others) == 1:
        listener.note(f"Target: '{others[0]}', the only column that the model does not know.")
        return others[0]
    if not others:
        raise UserError(
            f"{where} has the model's columns and no other: the target is missing, and the true "
            "values are needed."
        )
    asked = f"The model was fitted to '{fitted_to}'. " if fitted_to else ""
    raise UserError(
        f"{asked}Which column of {where} is the target: {listed(others)}? Give --target."
    )
