"""Columns of two tables, one by one: distributions, gaps, new categories, values out of range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from kpp._checks import is_missing
from kpp._rows import columns_of
from kpp._shown import Shown
from kpp._typing import AnyArray, BoolArray, FloatArray
from kpp.diagnostics.table_columns import as_dates

# Below this the chi-squared distribution is no good approximation: such categories count together.
LEAST_EXPECTED = 5.0
MOST_NAMED = 5
NEWS = 0.05


@dataclass(frozen=True)
class ColumnShift(Shown):
    """One column in two samples.

    Parameters
    ----------
    column : str
        Its name.
    kind : {"numbers", "categories"}
        How it was compared: by the largest difference of the distribution functions
        (Kolmogorov and Smirnov), or by a chi-squared test of the counts.
    statistic : float
        The largest difference of the distribution functions, or of the shares of a category.
    p_value : float
        Of the test, and of one of the gaps, together; adjusted for the number of columns (Holm).
    reference_missing, new_missing : float
        Shares of missing values.
    n_outside : int
        New values outside the range of the reference.
    new_categories : tuple of str
        Categories that the reference does not have, the most frequent first; none where new ones
        are to be expected, as in free text.
    """

    column: str
    kind: str
    statistic: float
    p_value: float
    reference_missing: float
    new_missing: float
    n_outside: int = 0
    new_categories: tuple[str, ...] = ()


def compare_columns(reference: Any, new: Any, names: Sequence[str]) -> list[ColumnShift]:
    """Compare two tables column by column.

    Parameters
    ----------
    reference, new : arrays or data frames of shapes (n, n_columns) and (m, n_columns)
        Rows as the user has them.
    names : sequence of str
        Names of the columns.

    Returns
    -------
    shifts : list of ColumnShift
        The smallest p-value first. They are adjusted by Holm's step-down procedure: if nothing has
        changed, the chance that any of them is at most 0.05 is at most 0.05.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.column_shift import compare_columns
    >>> random = np.random.default_rng(0)
    >>> X, Z = random.normal(size=(2, 200, 3))
    >>> shifts = compare_columns(X, Z + [0.0, 0.0, 0.9], ["a", "b", "c"])
    >>> shifts[0].column, shifts[0].p_value < 0.01, shifts[1].p_value > 0.05
    ('c', True, True)
    """
    pairs = zip(names, columns_of(reference), columns_of(new), strict=True)
    found = [_compare(name, own, other) for name, own, other in pairs]
    found.sort(key=lambda one: one.p_value)
    adjusted = holm(np.array([one.p_value for one in found]))
    return [replace(one, p_value=float(p)) for one, p in zip(found, adjusted, strict=True)]


def holm(p_values: FloatArray) -> FloatArray:
    """Adjust p-values, in rising order, for their number.

    Parameters
    ----------
    p_values : array of shape (n,)
        In rising order.

    Returns
    -------
    adjusted : array of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.column_shift import holm
    >>> holm(np.array([0.01, 0.02, 0.5])).tolist()
    [0.03, 0.04, 0.5]
    """
    factor = np.arange(len(p_values), 0, -1)
    return np.minimum(np.maximum.accumulate(p_values * factor), 1.0)


def _compare(name: str, reference: Any, new: Any) -> ColumnShift:
    reference, new = _as_dates(reference, new)
    old, old_gap = as_values(reference)
    now, now_gap = as_values(new)
    is_number = old.dtype.kind == "f" and now.dtype.kind == "f"
    if not is_number:
        old, now = old.astype(str), now.astype(str)
    old, now = old[~old_gap], now[~now_gap]
    outside = 0
    unknown: tuple[str, ...] = ()
    statistic, p_value = 0.0, 1.0
    if len(old) and len(now):
        if is_number:
            statistic, p_value = _smirnov(old, now)
            outside = int(((now < old.min()) | (now > old.max())).sum())
        else:
            statistic, p_value, unknown = _chi_squared(old, now)
    gaps = _gap_test(old_gap, now_gap)
    if gaps is not None:
        p_value = min(1.0, 2 * min(p_value, gaps))
    kind = "numbers" if is_number else "categories"
    shares = float(old_gap.mean()), float(now_gap.mean())
    return ColumnShift(name, kind, statistic, p_value, *shares, outside, unknown)


def _as_dates(reference: Any, new: Any) -> tuple[Any, Any]:
    """Texts that are dates as times, where both columns are."""
    if not (hasattr(reference, "iloc") and hasattr(new, "iloc")):
        return reference, new
    old, now = as_dates(reference), as_dates(new)
    if old is None or now is None:
        return reference, new
    return tuple(times.to_numpy(dtype="datetime64[us]") for times in (old, now))


def as_values(column: Any) -> tuple[AnyArray, BoolArray]:
    """The values of a column, floats or objects, and which of them are missing.

    Parameters
    ----------
    column : array or Series
        Of any type. Dates become numbers.

    Returns
    -------
    values : array of shape (n_rows,)
    missing : bool array of shape (n_rows,)
    """
    values = np.asarray(column)
    if values.dtype.kind == "M":
        gap = np.isnat(values)
        return np.where(gap, 0, values.astype("datetime64[us]").astype(np.int64)).astype(float), gap
    if values.dtype.kind in "fiu":
        values = values.astype(np.float64)
        return values, np.isnan(values)
    if values.dtype.kind == "O":
        gap = np.array([is_missing(value) for value in values.tolist()], dtype=bool)
        known = values[~gap]
        if len(known) and all(isinstance(v, int | float) and v is not True for v in known.tolist()):
            numbers = np.full(len(values), np.nan)
            numbers[~gap] = known.astype(float)
            return numbers, gap
        return values, gap
    return values.astype(object), np.zeros(len(values), dtype=bool)


def _smirnov(old: FloatArray, now: FloatArray) -> tuple[float, float]:
    found = stats.ks_2samp(old, now, method="asymp")
    return float(found.statistic), float(found.pvalue)


def _chi_squared(old: AnyArray, now: AnyArray) -> tuple[float, float, tuple[str, ...]]:
    """Largest difference of a share, p-value, and what is new."""
    n, m = len(old), len(now)
    labels, code = np.unique(np.concatenate([old, now]), return_inverse=True)
    counts = np.stack([np.bincount(part, minlength=len(labels)) for part in (code[:n], code[n:])])
    change = float(np.abs(counts[1] / m - counts[0] / n).max())
    unknown = tuple(str(labels[k]) for k in _unexpected(*counts)[:MOST_NAMED])
    is_rare = counts.sum(axis=0) * min(n, m) / (n + m) < LEAST_EXPECTED
    table = counts[:, ~is_rare]
    if is_rare.any():
        table = np.column_stack([table, counts[:, is_rare].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2:
        return change, 1.0, unknown
    return change, float(stats.chi2_contingency(table, correction=False).pvalue), unknown


def _unexpected(old: AnyArray, now: AnyArray) -> AnyArray:
    """Categories that only new rows have, most frequent first; none where they are to be expected.

    The chance that one more row has a category that none before it had is about the share of rows
    whose category is theirs alone (Good and Turing): large for free text, 0 for a few words.
    """
    is_new = np.flatnonzero((old == 0) & (now > 0))
    n_new, n_alone = int(now[is_new].sum()), int((old == 1).sum())
    table = [[n_new, now.sum() - n_new], [n_alone, old.sum() - n_alone]]
    # Where no row is alone, any new category is news.
    if n_alone and stats.fisher_exact(table, alternative="greater")[1] > NEWS:
        return is_new[:0]
    return is_new[np.argsort(-now[is_new], kind="stable")]


def _gap_test(old: BoolArray, now: BoolArray) -> float | None:
    if not old.any() and not now.any():
        return None
    table = [[old.sum(), (~old).sum()], [now.sum(), (~now).sum()]]
    return float(stats.fisher_exact(table)[1])
