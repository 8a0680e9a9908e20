"""Checks of the fields that an object is rebuilt from."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray, OffsetArray
from kpp.io.errors import FileFormatError
from kpp.io.values import MOST_KEY_STEPS, key_steps

# Beyond any machine, and few enough that nothing breaks on them.
MOST_THREADS = 1024


def require(condition: Any, what: str) -> None:
    """Refuse a file unless a condition holds."""
    if not condition:
        raise FileFormatError(f"Not a saved model: {what}.")


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, and not a boolean."""
    return isinstance(value, int | float | np.integer | np.floating) and (
        not isinstance(value, bool) and bool(np.isfinite(value))
    )


def whole(value: Any, what: str, low: int, high: int) -> int:
    """Return an integer between two bounds, both included."""
    valid = isinstance(value, int | np.integer) and not isinstance(value, bool)
    require(valid and low <= value <= high, f"{what} must be from {low} to {high}")
    return int(value)


def floats(
    value: Any, what: str, shape: tuple[int, ...], *, low: float = -np.inf, finite: bool = True
) -> FloatArray:
    """Return an array of float64 of a given shape, without NaN, not below a bound."""
    right = isinstance(value, np.ndarray) and value.dtype == np.float64 and value.shape == shape
    require(right, f"{what} must be float64 of shape {shape}")
    if value.size:
        require(not finite or np.isfinite(value).all(), f"{what} must be finite")
        require(not finite or value.min() >= low, f"{what} must be at least {low}")
    result: FloatArray = value
    return result


def integers(
    value: Any, what: str, shape: tuple[int, ...] | None, low: int, high: int
) -> OffsetArray:
    """Return an array of int64, of a given shape (None: any length), between two bounds."""
    right = isinstance(value, np.ndarray) and value.dtype.kind in "iu"
    require(right, f"{what} must be integers")
    require(value.shape == shape if shape is not None else value.ndim == 1, f"shape of {what}")
    if value.size:
        inside = low <= int(value.min()) and int(value.max()) <= high
        require(inside, f"{what} must be from {low} to {high}")
    return value.astype(np.int64)


def labels(value: Any, what: str) -> AnyArray:
    """Return class labels: one dimension, at least one."""
    right = isinstance(value, np.ndarray) and value.ndim == 1 and len(value) > 0
    require(right, f"{what} must be labels")
    if value.dtype == object:
        plain = all(isinstance(v, str | int | float | bool | None) for v in value.tolist())
        require(plain, f"{what} must be plain labels")
    result: AnyArray = value
    return result


def threads(value: Any) -> int | None:
    """Return a number of threads, None or within reason."""
    return None if value is None else whole(value, "n_jobs", -MOST_THREADS, MOST_THREADS)


def row_numbers(steps: Any, what: str) -> AnyArray:
    """Return row numbers from their differences."""
    most = np.iinfo(np.int32).max
    # Bounded one by one, and in number: their sums cannot leave int64.
    differences = integers(steps, what, None, -most, most)
    require(len(differences) <= most, f"too many {what}")
    rows = np.cumsum(differences)
    require(not len(rows) or (rows.min() >= 0 and rows.max() <= most), f"{what} out of range")
    return rows


def all_differ(values: AnyArray) -> bool:
    """Whether no value stands twice; by sorting, which no choice of values slows down."""
    if values.dtype != object:
        return len(np.unique(values)) == len(values)
    own = values.tolist()
    require(key_steps(own) <= MOST_KEY_STEPS, "too many values that are no texts")
    return len(set(own)) == len(own)


def check_scores(parts: list[tuple[AnyArray, FloatArray]], intercept: FloatArray) -> None:
    """Every score, whatever the row, must be a finite number.

    Parameters
    ----------
    parts : list of (roots, values)
        First nodes of the trees, and values of shape (n_scores, n_nodes), for each forest.
    intercept : array of shape (n_scores,)
        What they are added to.
    """
    total = np.abs(intercept)
    with np.errstate(over="ignore"):
        for roots, values in parts:
            # Every value finite does not make every sum so: the worst row takes the largest leaf of
            # each tree.
            largest = np.maximum.reduceat(np.abs(values), roots, axis=1)
            total = total + largest.sum(axis=1)
    require(np.isfinite(total).all(), "scores must be finite")
