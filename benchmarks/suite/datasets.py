"""Named data sets: where they come from, and whether they are what they should be.

A set is read from ``<name>.csv.gz`` in the folder given by ``--data-dir`` or ``KPP_DATA_DIR`` (a
table with a header, the target in the last column) if it is there; otherwise from scikit-learn or,
by its number, from OpenML, which scikit-learn keeps on disk. What is known of a set stands in
``registry.json``: task, rows, columns, nominal columns, and the class counts or the least, greatest
and mean target. A table that does not agree is refused. A set that is not in the registry (your
own) needs a file and a task, and is not checked.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

TASKS = ("regression", "classification")


class MissingDataError(Exception):
    """A data set cannot be had, or is not what it should be."""


@dataclass(frozen=True)
class Entry:
    """What is known of a data set.

    Parameters
    ----------
    task : {"regression", "classification"}
        The task.
    rows, columns : int, optional
        Shape of X.
    categorical : tuple of str
        Nominal columns; columns that hold no numbers are nominal anyway.
    classes : tuple of int
        Sizes of the classes, rising.
    target : tuple of float
        Least, greatest and mean target.
    openml : int, optional
        Its number there.
    sklearn : str, optional
        Loader in scikit-learn.
    """

    task: str
    rows: int | None = None
    columns: int | None = None
    categorical: tuple[str, ...] = ()
    classes: tuple[int, ...] = ()
    target: tuple[float, ...] = ()
    openml: int | None = None
    sklearn: str | None = None


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table as it was read.

    Parameters
    ----------
    name, task : str
        Its name and task.
    X : data frame
        Columns as they are; nominal ones are named in `categorical`.
    y : array of shape (n_rows,)
        Floats, or the class numbers 0, 1, ... in the order of the sorted labels.
    categorical : list of str
        Nominal columns.
    """

    name: str
    task: str
    X: Any
    y: Any
    categorical: list[str] = field(default_factory=list)


@cache
def registry() -> dict[str, Entry]:
    """All sets that are known by name."""
    text = (Path(__file__).parent / "registry.json").read_text()
    found = {}
    for name, known in json.loads(text).items():
        tuples = {key: tuple(value) for key, value in known.items() if isinstance(value, list)}
        found[name] = Entry(**(known | tuples))
    return found


def load(name: str, task: str, data_dir: str | None = None) -> Dataset:
    """Read and check one data set; `MissingDataError` says what is wrong with it."""
    entry = registry().get(name, Entry(task))
    if entry.task != task:
        raise MissingDataError(f"{name} is a set for {entry.task}, not for {task}")
    X, y = _read(name, entry, data_dir or os.environ.get("KPP_DATA_DIR"))
    X = X.reset_index(drop=True)
    nominal = [
        column
        for column in X.columns
        if column in entry.categorical or not _holds_numbers(X[column])
    ]
    if task == "classification":
        codes = np.unique(y.astype(str) if y.dtype.kind == "O" else y, return_inverse=True)[1]
        target: Any = codes.ravel()
    else:
        target = y.astype(float)
    data = Dataset(name, task, X, target, nominal)
    _check(data, entry)
    return data


def subsample(data: Dataset, n_rows: int | None) -> Dataset:
    """Draw that many rows without replacement (numpy's ``default_rng(0)``, unsorted)."""
    if n_rows is None or len(data.y) <= n_rows:
        return data
    rows = np.random.default_rng(0).choice(len(data.y), n_rows, replace=False)
    X = data.X.iloc[rows].reset_index(drop=True)
    return Dataset(data.name, data.task, X, data.y[rows], data.categorical)


def _read(name: str, entry: Entry, folder: str | None) -> tuple[Any, Any]:
    places = []
    if folder:
        path = Path(folder) / f"{name}.csv.gz"
        if path.exists():
            table = pd.read_csv(path)
            return table.iloc[:, :-1], table.iloc[:, -1].to_numpy()
        places.append(f"{path} does not exist")
    try:
        if entry.sklearn:
            places.append(f"sklearn.datasets.{entry.sklearn}")
            X, y = getattr(datasets, entry.sklearn)(return_X_y=True, as_frame=True)
            return X, y.to_numpy()
        if entry.openml:
            places.append(f"OpenML {entry.openml}")
            X, y = datasets.fetch_openml(data_id=entry.openml, return_X_y=True, as_frame=True)
            return X, y.astype(str).to_numpy() if entry.classes else y.to_numpy(float)
    except (OSError, ValueError) as error:
        raise MissingDataError(f"{'; '.join(places)}: {error}") from error
    if not folder:
        places.append("no folder was given")
    raise MissingDataError("; ".join([*places, "no other source is known"]))


def _holds_numbers(column: Any) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not isinstance(
        column.dtype, pd.CategoricalDtype
    )


def _check(data: Dataset, entry: Entry) -> None:
    """Compare shape and target with what is known."""
    wrong = []
    for what, size, known in zip(
        ("rows", "columns"), data.X.shape, (entry.rows, entry.columns), strict=True
    ):
        if known is not None and size != known:
            wrong.append(f"{size} {what} instead of {known}")
    if data.task == "classification":
        counts = sorted(np.bincount(data.y).tolist())
        if len(counts) < 2:
            wrong.append("one class only")
        if entry.classes and counts != list(entry.classes):
            wrong.append(f"class sizes {counts} instead of {list(entry.classes)}")
    else:
        if not np.isfinite(data.y).all():
            wrong.append("targets that are not finite")
        found = [data.y.min(), data.y.max(), data.y.mean()]
        if entry.target and not np.allclose(found, entry.target, rtol=1e-6):
            wrong.append(f"least, greatest, mean target {found} instead of {list(entry.target)}")
    if wrong:
        raise MissingDataError("not the expected table: " + "; ".join(wrong))
