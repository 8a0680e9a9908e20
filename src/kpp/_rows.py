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
