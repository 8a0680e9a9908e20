r"""Columns that alone predict the target too well to be true.

The skill of a column is the share of the target's variance that it explains out of fold, when its
values are cut into bins (every value of few, up to 64 quantiles of many; a missing value has a bin
of its own) and each bin predicts the mean of its rows in the other folds,

.. math:: 1 - \frac{\sum_i |t_i - \bar t_{b(i), -q(i)}|^2}{\sum_i |t_i - \bar t_{-q(i)}|^2}.

t is the rank of a number, which no outlier dominates, or the indicator of each class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import cross_val_predict

from kpp._typing import AnyArray, FloatArray, OffsetArray
from kpp.diagnostics.table_columns import kind_of_column

N_FOLDS = 5
MOST_VALUES = 256
N_QUANTILES = 64
# A quantile has so many rows, and a value that is a bin of its own so many on average: bins of
# fewer rows would hide what a column says behind their noise.
ROWS_OF_BIN = 10
ROWS_OF_VALUE = 20
# Classes beyond these count together.
MOST_CLASSES = 20
# Left unexplained by a column that says nearly all.
NEARLY_ALL = 0.01
# Or by one that leaves a tenth of what all others together leave.
MUCH = 0.1
FAR_ABOVE = 0.1
ROWS_TOGETHER = 3000
FIRST_ROWS = 200
# Fewer different numbers are in the same order by chance.
FEWEST_NUMBERS = 20


def target_scores(y: AnyArray, *, classification: bool) -> FloatArray:
    """The target as numbers of which shares of variance make sense, shape (n_rows, k).

    Parameters
    ----------
    y : array of shape (n_rows,)
        Numbers, or labels.
    classification : bool
        Whether they are labels: then indicators of the classes, otherwise ranks.
    """
    if not classification:
        return stats.rankdata(np.asarray(y, dtype=np.float64))[:, None] / len(y)
    _, code, n_of = np.unique(y.astype(str), return_inverse=True, return_counts=True)
    order = np.argsort(-n_of, kind="stable")
    place = np.empty(len(n_of), dtype=np.int64)
    place[order] = np.minimum(np.arange(len(n_of)), MOST_CLASSES - 1)
    return np.eye(int(place.max()) + 1)[place[code]]


def bins_of(column: Any) -> OffsetArray:
    """Number the bins of a column's values, shape (n_rows,).

    Parameters
    ----------
    column : pandas Series
        Its values.
    """
    missing = column.isna().to_numpy()
    if kind_of_column(column) == "categories":
        _, code = np.unique(column.astype(str).to_numpy(dtype=str), return_inverse=True)
        return np.where(missing, code.max() + 1, code)
    known = column.to_numpy()[~missing]
    values, code = np.unique(known, return_inverse=True)
    n_bins = min(N_QUANTILES, max(2, len(known) // ROWS_OF_BIN))
    few = len(values) <= min(MOST_VALUES, len(known) / ROWS_OF_VALUE)
    if len(values) > n_bins and not few:
        # Equal values stay together: the place of the first of them counts.
        first = np.searchsorted(np.sort(known), known)
        code = first * n_bins // len(known)
    found = np.full(len(column), int(code.max(initial=-1)) + 1)
    found[~missing] = code
    return found


def unexplained(bins: OffsetArray, target: FloatArray, fold: OffsetArray) -> float:
    """Share of the target's variance that bins leave, out of fold; 1 - skill.

    Parameters
    ----------
    bins : int array of shape (n_rows,)
        From `bins_of`.
    target : array of shape (n_rows, k)
        From `target_scores`.
    fold : int array of shape (n_rows,)
        Fold of each row.

    Returns
    -------
    share : float
        0 for a perfect column; about 1 for one that says nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.leaks import unexplained
    >>> y = np.arange(100) % 2
    >>> share = unexplained(y, y[:, None].astype(float), np.arange(100) // 20)
    >>> round(share, 3)
    0.001
    """
    n_bins, n_folds = int(bins.max()) + 1, int(fold.max()) + 1
    cell = bins * n_folds + fold
    shape = (n_bins, n_folds)
    size = np.bincount(cell, minlength=n_bins * n_folds).reshape(shape)
    others = size.sum(axis=1, keepdims=True) - size
    left = whole = 0.0
    for column in target.T:
        total = np.bincount(cell, column, minlength=n_bins * n_folds).reshape(shape)
        square = np.bincount(cell, column**2, minlength=n_bins * n_folds).reshape(shape)
        mean = (total.sum() - total.sum(axis=0)) / (size.sum() - size.sum(axis=0))
        # A bin of no rows elsewhere predicts the mean: one row's worth of it is added to each.
        guess = (total.sum(axis=1, keepdims=True) - total + mean) / (others + 1)
        left += float((square - 2 * guess * total + guess**2 * size).sum())
        whole += float((square - 2 * mean * total + mean**2 * size).sum())
    return left / whole if whole > 0 else 1.0


def leaking(
    frame: Any, left: dict[str, float], target: FloatArray, random: np.random.Generator
) -> tuple[list[str], float]:
    """Choose the columns that predict too well, alone.

    Parameters
    ----------
    frame : pandas DataFrame
        The rows.
    left : dict of float
        `unexplained` of every column.
    target : array of shape (n_rows, k)
        From `target_scores`.
    random : numpy.random.Generator
        Draws at most 3,000 rows for all other columns together.

    Returns
    -------
    names : list of str
        The best first: those that leave at most 1%, and those that leave at most 10% and at most a
        tenth of what all columns that leave more leave together.
    together : float
        What these leave; NaN where it was not needed.
    """
    suspects = sorted((name for name in left if left[name] <= MUCH), key=lambda name: left[name])
    sure = [name for name in suspects if left[name] <= NEARLY_ALL]
    if len(sure) == len(suspects):
        return sure, float("nan")
    others = [name for name in left if name not in suspects]
    together = 1.0
    if others:
        rows = random.permutation(len(frame))[:ROWS_TOGETHER]
        codes = np.column_stack([_numbers(frame[name].iloc[rows]) for name in others])
        trees = ExtraTreesRegressor(
            50, min_samples_leaf=3, max_features=1 / 3, n_jobs=1, random_state=0
        )
        y = target[rows]
        guess = cross_val_predict(trees, codes, y.ravel() if y.shape[1] == 1 else y, cv=3)
        whole = float(np.square(y - y.mean(axis=0)).sum())
        together = float(np.square(y - guess.reshape(y.shape)).sum()) / whole if whole else 1.0
    found = [name for name in suspects if name in sure or left[name] <= FAR_ABOVE * together]
    return found, together


def _numbers(column: Any) -> AnyArray:
    """A column as numbers for trees: categories by their number, gaps below all."""
    kind = kind_of_column(column)
    if kind == "categories":
        return bins_of(column).astype(np.float64)
    if kind == "numbers":
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = column.to_numpy(dtype="datetime64[s]").astype(np.float64)
    known = values[np.isfinite(values)]
    low = known.min() - 1 if len(known) else 0.0
    # What single precision holds.
    return np.clip(np.where(np.isfinite(values), values, low), -1e30, 1e30)


def copies_target(column: Any, y: AnyArray, *, classification: bool) -> bool:
    """Whether a column is the target under another name.

    Parameters
    ----------
    column : pandas Series
        Its values.
    y : array of shape (n_rows,)
        The target.
    classification : bool
        Whether it holds labels: then any one-to-one naming of the classes counts, otherwise any
        strictly monotone function of at least 20 different numbers.
    """
    if column.isna().any():
        return False
    if not classification and kind_of_column(column) != "numbers":
        return False
    values = column.to_numpy(dtype=str) if classification else column.to_numpy()
    labels = y.astype(str) if classification else y
    same = _is_renaming if classification else _is_monotone
    # What is true of all rows is true of the first few, which mostly settle it.
    if not same(values[:FIRST_ROWS], labels[:FIRST_ROWS]) or not same(values, labels):
        return False
    return classification or len(np.unique(values)) >= FEWEST_NUMBERS


def _is_renaming(values: AnyArray, labels: AnyArray) -> bool:
    """Whether equal values have equal labels, and the other way round."""
    values, code = np.unique(values, return_inverse=True)
    labels, own = np.unique(labels, return_inverse=True)
    return len(values) == len(labels) == len(np.unique(code * len(labels) + own))


def _is_monotone(values: AnyArray, numbers: AnyArray) -> bool:
    """Whether numbers are in the order of values, or in the reverse order, ties included."""
    values, code = np.unique(values, return_inverse=True)
    numbers, own = np.unique(numbers, return_inverse=True)
    if len(values) != len(numbers):
        return False
    return bool((code == own).all() or (code == len(values) - 1 - own).all())
