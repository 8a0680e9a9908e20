"""Rows and columns of arrays and data frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import AnyArray, BoolArray, FloatArray


def take_rows(X: Any, rows: AnyArray) -> Any:
    """Some rows of an array, a pandas or a polars data frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def column_spread(X: Any) -> FloatArray:
    """Standard deviation of each column over its finite values; 0 where it holds no numbers."""
    columns = columns_of(X)
    spread = np.zeros(len(columns))
    for j, column in enumerate(columns):
        values = np.asarray(column)
        if values.dtype.kind not in "fiub":
            continue
        finite = values[np.isfinite(values)].astype(np.float64)
        # Divided by a power of two no square overflows or vanishes, and no digit is lost.
        _, power = np.frexp(np.abs(finite).max(initial=0.0))
        spread[j] = np.ldexp(np.ldexp(finite, -power).std(), power) if len(finite) else 0.0
    return spread


def column_range(X: Any) -> FloatArray:
    """Least and largest finite value of each column, shape (2, n_columns); NaN without numbers."""
    columns = columns_of(X)
    found = np.full((2, len(columns)), np.nan)
    for j, column in enumerate(columns):
        values = np.asarray(column)
        if values.dtype.kind not in "fiub":
            continue
        finite = values[np.isfinite(values)]
        if len(finite):
            found[:, j] = finite.min(), finite.max()
    return found


def columns_with_missing(X: Any) -> BoolArray:
    """Which columns have a missing value in some row."""
    return np.array([_any_missing(column) for column in columns_of(X)], dtype=bool)


def columns_of(X: Any) -> Any:
    """The columns of an array, a pandas or a polars data frame, in order."""
    return [X[name] for name in X.columns] if hasattr(X, "columns") else np.asarray(X).T


def _any_missing(column: Any) -> bool:
    if hasattr(column, "isna"):  # pandas
        return bool(column.isna().any())
    if hasattr(column, "null_count") and column.null_count():  # polars
        return True
    values = np.asarray(column)
    if values.dtype == object:
        return any(value is None or value != value for value in values.tolist())
    return values.dtype.kind == "f" and bool(np.isnan(values).any())


# More different values of a column than this are not kept: a model would grow with its rows.
MOST_VALUES = 1000
# Decimals of a column that are looked for.
MOST_DECIMALS = 6


def known_values(X: Any) -> tuple[list[FloatArray], AnyArray]:
    """Values that stand between which thresholds: those of each column, or its decimals.

    Parameters
    ----------
    X : array or data frame of shape (n_rows, n_columns)
        Rows.

    Returns
    -------
    values : list of arrays
        The different finite values of each column, in order; empty where there are more than
        1,000, or none. A number of single precision is the shortest decimal that it stands for.
    decimals : int8 array of shape (n_columns,)
        The fewest decimals, up to 6, that all finite values have; -1 where they have more, or are
        no numbers.
    """
    values, decimals = [], []
    for column in columns_of(X):
        numbers = np.asarray(column)
        if numbers.dtype.kind not in "fiub":
            values.append(np.zeros(0))
            decimals.append(-1)
            continue
        finite = numbers[np.isfinite(numbers)] if numbers.dtype.kind == "f" else numbers
        # The first rows of a column that has very many values tell it at once.
        some = np.unique(finite[: 4 * MOST_VALUES])
        distinct = some if len(some) > MOST_VALUES else np.unique(finite)
        is_kept = len(distinct) <= MOST_VALUES
        values.append(as_decimals(distinct) if is_kept else np.zeros(0))
        decimals.append(_n_decimals(distinct if is_kept else finite))
    return values, np.array(decimals, dtype=np.int8)


def as_decimals(numbers: AnyArray) -> FloatArray:
    """Numbers in double precision; those of single precision as the decimals they stand for.

    >>> as_decimals(np.array([0.1, 2.5], dtype=np.float32)).tolist()
    [0.1, 2.5]
    """
    if numbers.dtype.itemsize >= 8 or numbers.dtype.kind != "f":
        return numbers.astype(np.float64)
    return np.array([float(str(number)) for number in numbers], dtype=np.float64)


def _n_decimals(numbers: AnyArray) -> int:
    if numbers.dtype.kind != "f" or not len(numbers):
        return 0 if len(numbers) else -1
    if np.abs(numbers).max() >= 1e9:  # more digits than a decimal of 6 places can be told by
        return -1
    for places in range(MOST_DECIMALS + 1):
        rounded = np.round(numbers.astype(np.float64), places).astype(numbers.dtype)
        if (rounded == numbers).all():
            return places
    return -1
