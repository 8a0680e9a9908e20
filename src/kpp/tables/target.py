"""The target: which column it is, which task it makes, and its labels as an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._typing import AnyArray
from kpp.tables.errors import UserError, check_columns

MOST_CLASSES = 20
# Whole numbers that are more than these have an order that classes would lose.
MOST_NUMBER_CLASSES = 10
ROWS_PER_CLASS = 3
TRUTHS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


@dataclass(frozen=True)
class Target:
    """A target that is ready to be fitted.

    Parameters
    ----------
    name : str
        Its column.
    task : {"regression", "classification"}
        The task.
    reason : str
        Why, with how to override it where that is possible.
    values : array of shape (n_kept,)
        Numbers, or labels: integers, bools or texts.
    kept : bool array of shape (n_rows,)
        Rows that have a target.
    """

    name: str
    task: str
    reason: str
    values: AnyArray
    kept: AnyArray

    @property
    def n_missing(self) -> int:
        """Number of rows without a target."""
        return int((~self.kept).sum())


def read_target(frame: Any, name: str, task: str, where: str) -> Target:
    """Take the target from a table, and find the task if it is not given.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    name : str
        Column of the target.
    task : {"auto", "regression", "classification"}
        What was asked for.
    where : str
        What the table is called in messages.

    Returns
    -------
    target : Target

    Examples
    --------
    >>> import pandas as pd
    >>> from kpp.tables.target import read_target
    >>> frame = pd.DataFrame({"y": ["no", "yes", None, "no"]})
    >>> target = read_target(frame, "y", "auto", "the table")
    >>> target.task, target.values.tolist(), target.n_missing
    ('classification', ['no', 'yes', 'no'], 1)
    """
    check_columns([name], list(frame.columns), "--target", where)
    column = frame[name]
    kept = column.notna().to_numpy()
    if not kept.any():
        raise UserError(f"The target '{name}' has no values at all in {where}.")
    known = column[kept].infer_objects()  # bools beside gaps are objects
    found, rule = find_task(known, name, had_missing=not kept.all())
    if task == "auto":
        other = "classification" if found == "regression" else "regression"
        # Texts cannot be numbers: that would be refused.
        offered = kind_of(known) in "biuf"
        reason = f"{rule}; --task {other} overrides this" if offered else rule
        task = found
    else:
        reason = "--task says so"
    return Target(name, task, reason, target_values(known, task, name), kept)


def find_task(known: Any, name: str, *, had_missing: bool = False) -> tuple[str, str]:
    """Find the task from a target without missing values, and say by which rule."""
    kind = kind_of(known)
    if kind == "M":
        raise UserError(
            f"The target '{name}' holds dates, which are neither classes nor numbers. Make a "
            "number of it, for example the days since a date."
        )
    n_distinct = int(known.nunique())
    if kind == "b":
        return "classification", f"'{name}' is true or false"
    if kind == "O":
        if n_distinct > max(MOST_CLASSES, len(known) // ROWS_PER_CLASS):
            raise UserError(
                f"The target '{name}' holds {n_distinct} different texts in {len(known)} rows: too "
                "many for classes, and no numbers. Choose another --target, or --task "
                "classification if that is meant."
            )
        return "classification", f"'{name}' holds {n_distinct} different texts"
    # Gaps make a column of whole numbers one of floats.
    whole = kind in "iu" or (had_missing and bool((known == known.round()).all()))
    few = n_distinct <= MOST_NUMBER_CLASSES and n_distinct * ROWS_PER_CLASS <= len(known)
    if n_distinct == 2 or (whole and few):
        return "classification", f"'{name}' holds {n_distinct} different numbers"
    if whole and MOST_NUMBER_CLASSES < n_distinct <= MOST_CLASSES:
        return "regression", (
            f"'{name}' holds {n_distinct} different whole numbers, which are taken as classes "
            f"up to {MOST_NUMBER_CLASSES}"
        )
    sort = "whole numbers" if whole else "numbers"
    return "regression", f"'{name}' holds {n_distinct} different {sort}"


def target_values(known: Any, task: str, name: str) -> AnyArray:
    """The target as floats for regression; as integers, bools or texts for classification."""
    kind = kind_of(known)
    if task == "regression":
        if kind not in "biuf":
            raise UserError(
                f"The target '{name}' holds texts such as '{known.iloc[0]}', and regression needs "
                "numbers. Use --task classification, or another --target."
            )
        values = known.to_numpy(dtype=np.float64)
        if not np.isfinite(values).all():
            raise UserError(f"The target '{name}' holds infinite values: remove these rows.")
        return values
    if kind == "b":
        return known.to_numpy(dtype=bool)
    if kind in "iuf":
        numbers = known.to_numpy(dtype=np.float64)
        whole = bool((numbers == np.round(numbers)).all()) and bool((abs(numbers) < 2**53).all())
        if kind in "iu":
            return known.to_numpy(dtype=np.int64)
        # Numbers that are not whole are labels as they are written.
        return numbers.astype(np.int64) if whole else known.astype(str).to_numpy(dtype=str)
    return known.astype(str).to_numpy(dtype=str)


def kind_of(column: Any) -> str:
    """Kind of a column: b, i, u, f or M as in NumPy, m counting as M; O for texts and categories.

    Examples
    --------
    >>> import pandas as pd
    >>> from kpp.tables.target import kind_of
    >>> kind_of(pd.Series([1, None], dtype="Int64")), kind_of(pd.Series(["a"], dtype="category"))
    ('i', 'O')
    """
    if getattr(column.dtype, "categories", None) is not None:
        return "O"
    kind = str(getattr(column.dtype, "kind", "O")).replace("m", "M")
    return kind if kind in "biufM" else "O"


def labels_like(
    values: Any, classes: AnyArray, name: str, *, keep_unknown: bool = False
) -> AnyArray:
    """Labels of another file, as a model's classes are; refuse those that it does not know."""
    if classes.dtype.kind == "U":
        found = values.astype(str).to_numpy(dtype=str)
    elif classes.dtype.kind == "b":
        return _truths(values, classes, name)
    else:
        try:
            found = target_values(values, "classification", name).astype(classes.dtype)
        except ValueError as error:
            raise UserError(
                f"The target '{name}' holds '{values.iloc[0]}', and the model's classes are "
                f"{_shown(classes)}."
            ) from error
    if not keep_unknown:
        _refuse(np.unique(found[~np.isin(found, classes)]), classes, name)
    return found


def _truths(values: Any, classes: AnyArray, name: str) -> AnyArray:
    """True and false, however they are written: as such, as 1 and 0, or as texts.

    NumPy would make true of anything that is not empty or 0, "no" among them.
    """
    written = values.astype(str).str.strip().str.lower()
    found = written.map(TRUTHS)
    unknown = found.isna().to_numpy()
    _refuse(np.unique(values[unknown].astype(str).to_numpy(dtype=str)), classes, name)
    truths = found.to_numpy(dtype=bool)
    _refuse(np.unique(truths[~np.isin(truths, classes)]), classes, name)
    return truths


def _refuse(unknown: AnyArray, classes: AnyArray, name: str) -> None:
    if len(unknown):
        raise UserError(
            f"The target '{name}' holds {_shown(unknown)}, which the model has not seen; its "
            f"classes are {_shown(classes)}."
        )


def _shown(labels: AnyArray) -> str:
    texts = [repr(label) for label in labels[:5].tolist()]
    return ", ".join(texts) + (", ..." if len(labels) > 5 else "")
