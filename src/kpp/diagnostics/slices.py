"""Rows cut into segments: by the values of a column, by ranges of numbers, by two columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kpp._checks import is_missing
from kpp._decimals import plain, shortest_from
from kpp._typing import AnyArray, FloatArray

N_BINS = 4
# Numbers of so few values are shown value by value.
FEW_VALUES = 6
MOST_VALUES = 10
# A limit may lie so far from its quantile, in shares of the rows, if it is shorter there.
LEEWAY = 0.05
LONGEST_NAME = 40
OTHERS = "(others)"
SECONDS_A_DAY = 86_400


@dataclass(frozen=True, eq=False)
class Slicing:
    """A cut of all rows into named parts.

    Parameters
    ----------
    columns : tuple of str
        What it is by.
    codes : int array of shape (n_rows,)
        Number of the part that each row is in; -1 for none.
    labels : list of str
        Names of the parts.
    """

    columns: tuple[str, ...]
    codes: AnyArray
    labels: list[str]

    def crossed(self, other: Slicing) -> Slicing:
        """Cut by both: one part for every pair of parts.

        Parameters
        ----------
        other : Slicing
            Of the same rows.

        Returns
        -------
        both : Slicing
        """
        inside = (self.codes >= 0) & (other.codes >= 0)
        codes = np.where(inside, self.codes * len(other.labels) + other.codes, -1)
        labels = [f"{one} and {two}" for one in self.labels for two in other.labels]
        return Slicing(self.columns + other.columns, codes, labels)


def slice_column(name: str, column: Any, *, n_bins: int = N_BINS) -> Slicing:
    """Cut rows by the values of a column.

    Parameters
    ----------
    name : str
        What the column is called.
    column : array or pandas Series of shape (n_rows,)
        Numbers, names, truth values or times; missing values are a part of their own.
    n_bins : int, default=4
        Numbers of many values are cut into about equally many rows, at limits of few digits.

    Returns
    -------
    slicing : Slicing
        At most ten names, those of the most rows, and the others together.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.slices import slice_column
    >>> slice_column("age", np.arange(18.0, 80.0)).labels
    ['age up to 30', 'age over 30, up to 50', 'age over 50, up to 61', 'age over 61']
    >>> slice_column("sex", np.array(["f", "m", None, "f"], dtype=object)).labels
    ['sex = f', 'sex = m', 'sex missing']
    """
    values = np.asarray(column)
    if values.dtype.kind in "Mm":
        seconds = values.astype(f"{values.dtype.kind}8[s]").astype(np.float64)
        days = np.floor(np.where(np.isnat(values), np.nan, seconds) / SECONDS_A_DAY)
        return _by_numbers(name, days, n_bins, _date if values.dtype.kind == "M" else _days)
    if values.dtype.kind in "fiu":
        return _by_numbers(name, values.astype(np.float64), n_bins, plain)
    if values.dtype.kind == "O":
        numbers = _only_numbers(values)
        if numbers is not None:
            return _by_numbers(name, numbers, n_bins, plain)
    return _by_names(name, column, values)


def _only_numbers(values: AnyArray) -> FloatArray | None:
    """Objects as numbers, NaN where missing; None where one is something else."""
    listed = [np.nan if is_missing(value) else value for value in values.tolist()]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in listed):
        return np.array(listed, dtype=np.float64)
    return None


def _by_names(name: str, column: Any, values: AnyArray) -> Slicing:
    if hasattr(column, "factorize"):  # pandas
        codes, kinds = column.factorize()
    else:
        listed = values.tolist()
        missing = np.array([is_missing(value) for value in listed], dtype=bool)
        texts = np.array([str(value) for value in listed])
        kinds, codes = np.unique(texts, return_inverse=True)
        codes = np.where(missing, -1, codes.ravel())
    counts = np.bincount(codes[codes >= 0], minlength=len(kinds))
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    n_kept = len(order) if len(order) <= MOST_VALUES + 1 else MOST_VALUES
    place = np.full(len(kinds) + 1, n_kept)
    place[order[:n_kept]] = np.arange(n_kept)
    labels = [f"{name} = {short_name(kinds[k])}" for k in order[:n_kept].tolist()]
    if n_kept < len(order):
        labels.append(f"{name} = {OTHERS}")
    return _with_missing(name, place[codes], codes < 0, labels)


def _by_numbers(name: str, numbers: FloatArray, n_bins: int, write: Any) -> Slicing:
    missing = np.isnan(numbers)
    known = np.sort(numbers[~missing])
    distinct = np.unique(known)
    if len(distinct) <= FEW_VALUES:
        codes = np.searchsorted(distinct, np.where(missing, np.inf, numbers))
        labels = [f"{name} = {text}" for text in _distinct_texts(distinct, write)]
        return _with_missing(name, codes, missing, labels)
    limits = np.array(readable_limits(known, n_bins))
    codes = np.searchsorted(limits, np.where(missing, np.inf, numbers), side="left")
    texts = [write(limit) for limit in limits.tolist()]
    labels = [f"{name} up to {texts[0]}"] if texts else [f"{name} known"]
    labels += [f"{name} over {a}, up to {b}" for a, b in pairwise(texts)]
    labels += [f"{name} over {texts[-1]}"] if texts else []
    return _with_missing(name, codes, missing, labels)


def _distinct_texts(values: FloatArray, write: Any) -> list[str]:
    """Values in words, with as few digits as tell them apart."""
    for digits in (3, 6):
        rounded = [float(f"{value:.{digits}g}") for value in values.tolist()]
        if write is plain and len(set(rounded)) == len(rounded):
            return [write(value) for value in rounded]
    return [write(value) for value in values.tolist()]


def _with_missing(name: str, codes: AnyArray, missing: AnyArray, labels: list[str]) -> Slicing:
    if not missing.any():
        return Slicing((name,), codes, labels)
    return Slicing((name,), np.where(missing, len(labels), codes), [*labels, f"{name} missing"])


def readable_limits(known: FloatArray, n_bins: int) -> list[float]:
    """Limits of about equally many rows, as short as numbers close to the quantiles are.

    Parameters
    ----------
    known : array of shape (n_known,)
        Numbers, sorted, without NaN.
    n_bins : int
        How many parts.

    Returns
    -------
    limits : list of float
        Rising, at most ``n_bins - 1``; a value that equals one is below it. No part is empty.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.slices import readable_limits
    >>> readable_limits(np.linspace(0.0137, 0.9, 100), 4)
    [0.2, 0.42, 0.7]
    """
    finite = known[np.isfinite(known)]
    last = len(finite) - 1
    found: list[float] = []
    for cut in range(1, n_bins):
        low, high = (
            float(finite[round(min(max(cut / n_bins + side * LEEWAY, 0), 1) * last)])
            for side in (-1, 1)
        )
        if low == high:  # many rows of one value, and then the next one
            after = int(np.searchsorted(finite, low, side="right"))
            high = float(finite[min(after, last)])
        limit = shortest_from(low, high) if low < high else low
        # Values on both sides, and another part than the last limit makes.
        if limit < finite[-1] and (not found or limit > found[-1]):
            found.append(limit)
    return found


def short_name(value: Any) -> str:
    """A value as one short line that cannot disturb a terminal."""
    text = "".join(c if c.isprintable() else "?" for c in str(value)[: 2 * LONGEST_NAME])
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def _date(days: float) -> str:
    return str(np.datetime64(int(days), "D"))


def _days(days: float) -> str:
    return f"{plain(days)} days"


def cells(slicings: Sequence[Slicing]) -> Slicing:
    """Several cuts as one: parts are what they have in common.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.slices import cells, slice_column
    >>> pair = [slice_column(name, np.array([0, 1])) for name in "ab"]
    >>> cells(pair).labels[1], cells(pair).codes.tolist()
    ('a = 0 and b = 1', [0, 3])
    """
    found = slicings[0]
    for other in slicings[1:]:
        found = found.crossed(other)
    return found
