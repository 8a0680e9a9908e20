"""Texts and categories in Dask data frames: read where they are, with the same codes everywhere.

Every partition reads its own columns. What travels is the set of categories of each column: the
union over the partitions, as a tree of tasks, is what all of them number their rows by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kpp._fingerprints import Prints, row_fingerprints
from kpp._optional import optional
from kpp._typing import AnyArray, FloatArray
from kpp.dask.rows import add
from kpp.dask.session import Result, Session
from kpp.forest.coded import CodedRows, category_codes

# A column of more categories is a name of its rows, and all of them would have to travel.
MOST_DISTINCT = 1 << 20


@dataclass(frozen=True)
class ColumnValues:
    """What is known of the values of one column in a partition, or in several.

    Parameters
    ----------
    categories : frozenset
        Texts and declared categories that rows have.
    has_numbers : bool
        Whether some row has a number instead.
    declared : tuple, optional
        The categories of its type, in the type's order; () where partitions differ in them.
    is_ordered : bool
        Whether the type declares that this order counts.
    """

    categories: frozenset[Any] = frozenset()
    has_numbers: bool = False
    declared: tuple[Any, ...] | None = None
    is_ordered: bool = False

    def __add__(self, other: ColumnValues) -> ColumnValues:
        return ColumnValues(
            self.categories | other.categories,
            self.has_numbers or other.has_numbers,
            self.declared if self.declared == other.declared else (),
            self.is_ordered or other.is_ordered,
        )

    def in_order(self, name: str) -> AnyArray | None:
        """The categories in the order of their codes, as one machine has it; None for numbers."""
        if self.declared is None and not self.categories:
            return None
        if self.has_numbers and self.categories:
            raise ValueError(
                f"The {name} holds texts in some partitions and numbers in others: make them all "
                "texts or all numbers, or leave it out."
            )
        if len(self.categories) > MOST_DISTINCT:
            raise ValueError(
                f"The {name} has {len(self.categories):,} categories, and on Dask up to "
                f"{MOST_DISTINCT:,} are numbered: leave it out, or put rare ones together."
            )
        if self.declared:
            listed = [value for value in self.declared if value in self.categories]
        elif self.declared is not None and self.is_ordered and self.categories:
            raise ValueError(
                f"The {name} declares an order, and other categories in other partitions: give "
                "all partitions the same type, for example by astype(CategoricalDtype(...))."
            )
        else:
            listed = _sorted(self.categories)
        found = np.empty(len(listed), dtype=object)
        found[:] = listed
        return found


def holds_table(X: Any) -> bool:
    """Whether a Dask collection is a data frame with a column that is not simply numbers."""
    return hasattr(X, "columns") and any(not _is_plain(kind) for kind in X.dtypes)


def _is_plain(kind: Any) -> bool:
    # Types of pandas, which may hold missing values of their own, are read value by value.
    return isinstance(kind, np.dtype) and kind.kind in "fiub"


def read_frame(X: Any) -> tuple[CodedRows, list[ColumnValues]]:
    """Read the columns of one partition, in codes of its own.

    Parameters
    ----------
    X : pandas data frame
        The partition.

    Returns
    -------
    rows : CodedRows
    columns : list of ColumnValues
        What is known of each.
    """
    names = tuple(str(name) for name in X.columns)
    rows = CodedRows(np.empty((0, len(names))), {}, names)
    if len(X):
        rows = CodedRows.read(X)
    columns = []
    for j, kind in enumerate(X.dtypes):
        known = rows.categories.get(j)
        if known is not None and known.dtype.kind in "mM":
            raise ValueError(
                f"The column {names[j]!r} holds dates as categories: on Dask make texts of them."
            )
        declared = getattr(kind, "categories", None)
        columns.append(
            ColumnValues(
                frozenset(() if known is None else known.tolist()),
                known is None and not np.isnan(rows.values[:, j]).all(),
                None if declared is None else tuple(declared.tolist()),
                bool(getattr(kind, "ordered", False)),
            )
        )
    return rows, columns


def common_codes(
    session: Session, read: list[Result], names: AnyArray
) -> tuple[list[Result], CodedRows]:
    """Number the categories of all partitions alike.

    Parameters
    ----------
    session : Session
        The cluster.
    read : list of Result
        For each partition what `read_frame` returns.
    names : array of str
        Of the columns.

    Returns
    -------
    X : list of Result
        `CodedRows`, with the same categories in all partitions.
    like : CodedRows
        Without rows, with these categories.
    """
    start, tasks = session.key("categories"), {}
    for p, own in enumerate(read):
        tasks[f"{start}-{p}"] = session.task(f"{start}-{p}", _values_of, own)
    last = session.tree(tasks, list(tasks), _unite, "categories")
    columns = session.gather(session.run(tasks, [last])[0])
    categories, ordered = {}, set()
    for j, column in enumerate(columns):
        known = column.in_order(f"column {str(names[j])!r}")
        if known is not None:
            categories[j] = known
            if column.is_ordered:
                ordered.add(j)
    told = tuple(str(name) for name in names)
    like = CodedRows(np.empty((0, len(told))), categories, told, frozenset(ordered))
    return session.each("X", _recoded, read, session.keep("categories", like)), like


def numbers_in(X: Any) -> AnyArray:
    """The rows of a partition as an array: codes where there are categories."""
    return X.values if isinstance(X, CodedRows) else X


def join_rows(parts: list[Any]) -> Any:
    """Rows of several partitions, one after the other."""
    if not isinstance(parts[0], CodedRows):
        return np.concatenate(parts)
    return replace(parts[0], values=np.concatenate([part.values for part in parts]))


def fingerprints_of(X: Any) -> Prints:
    """Fingerprints of the rows of a partition: those of the table that they came from."""
    if not isinstance(X, CodedRows):
        return row_fingerprints(X)
    pd = optional("pandas", "kpp.dask", "dask")
    columns = {
        j: _named(X.values[:, j], X.categories[j]) if j in X.categories else X.values[:, j]
        for j in range(X.shape[1])
    }
    return row_fingerprints(pd.DataFrame(columns))


def _named(codes: FloatArray, categories: AnyArray) -> AnyArray:
    place = np.where(np.isnan(codes), len(categories), codes).astype(np.int64)
    return np.append(categories, np.array([None], dtype=object))[place]


def _values_of(read: tuple[CodedRows, list[ColumnValues]]) -> list[ColumnValues]:
    return read[1]


def _unite(*parts: list[ColumnValues]) -> list[ColumnValues]:
    return [add(*column) for column in zip(*parts, strict=True)]


def _recoded(read: tuple[CodedRows, list[ColumnValues]], like: CodedRows) -> CodedRows:
    rows = read[0]
    values = rows.values.copy()
    for j, own in rows.categories.items():
        code = np.append(category_codes(own, like.categories[j]), np.nan)
        place = np.where(np.isnan(values[:, j]), len(own), values[:, j])
        values[:, j] = code[place.astype(np.int64)]
    return replace(like, values=values)


def _sorted(values: frozenset[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:  # of several types, as only a declared type may have them
        return sorted(values, key=lambda value: (type(value).__name__, str(value)))
