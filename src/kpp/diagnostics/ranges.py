r"""Values of new rows that are outside the range of the fit, and gaps where the fit had none.

If n rows of the fit and m new ones are draws from the same distribution, every order of their
values is equally likely. That the k largest of all n + m are new ones then has the probability

.. math:: \prod_{i<k} \frac{m - i}{n + m - i},

whatever the distribution (ties make it smaller), and so has that all k missing values are in new
rows. No threshold has to be chosen by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from kpp._checks import is_missing
from kpp._rows import columns_of
from kpp._shown import Shown
from kpp.models.asking import Question

LEVEL = 0.05
# Beyond the range by more than its width: worth a word in a single row too.
FAR = 1.0


@dataclass(frozen=True)
class Outside(Shown):
    """A column with new values outside the range of the fit.

    Parameters
    ----------
    column : str
        The user's column, or a part of a date.
    low, high : float
        The range of the fit.
    n_below, n_above : int
        Rows below and above it.
    n_rows : int
        All new rows.
    least, most : float
        Least and largest new value.
    p_value : float
        Chance of so many rows on one side, were new rows like those of the fit; at most 1, times
        twice the number of columns.
    """

    column: str
    low: float
    high: float
    n_below: int
    n_above: int
    n_rows: int
    least: float
    most: float
    p_value: float

    @property
    def n_outside(self) -> int:
        """Rows on both sides."""
        return self.n_below + self.n_above

    @property
    def is_far(self) -> bool:
        """Whether a value is outside by more than the width of the range."""
        width = self.high - self.low
        return max(self.low - self.least, self.most - self.high) > FAR * width

    @property
    def stands_out(self) -> bool:
        """Whether chance does not explain it, or a value is far out."""
        return self.p_value <= LEVEL or self.is_far


def chance_of_all_new(n_events: int, n_new: int, n_old: int) -> float:
    r"""Chance that all of some events are in new rows, :math:`\binom{m}{k} / \binom{n+m}{k}`.

    Parameters
    ----------
    n_events : int
        k, for example how many of the largest values are looked at.
    n_new, n_old : int
        m and n.

    Returns
    -------
    chance : float

    Examples
    --------
    >>> from kpp.diagnostics.ranges import chance_of_all_new
    >>> chance_of_all_new(1, 1, 99)  # the largest of 100 values is the one new one
    0.01
    """
    if n_events > n_new:
        return 0.0
    top = gammaln(n_new + 1) - gammaln(n_new - n_events + 1)
    bottom = gammaln(n_new + n_old + 1) - gammaln(n_new + n_old - n_events + 1)
    return float(round(np.exp(top - bottom), 12))


def outside_range(question: Question, rows: Any) -> list[Outside]:
    """Find the columns of numbers with values outside the range of the fit.

    Parameters
    ----------
    question : Question
        The model, which knows the range of its columns (``feature_range_``).
    rows : array or data frame of shape (n_rows, n_features)
        New rows, as the model behind the preparation takes them.

    Returns
    -------
    found : list of Outside
        The least likely first. Nothing for a model of an older file, which knows no range.
    """
    ends = getattr(question.model, "feature_range_", None)
    if ends is None:
        return []
    n_fit, n_new = _n_fit(question), len(rows)
    looked_at = np.isfinite(ends[0]) & _is_readable(question)
    found, columns = [], columns_of(rows)
    for j in np.flatnonzero(looked_at):
        low, high = ends[:, j]
        numbers = _numbers(columns[j])
        if numbers is None:
            continue
        below, above = int((numbers < low).sum()), int((numbers > high).sum())
        if below + above == 0:
            continue
        chance = min(chance_of_all_new(k, n_new, n_fit) for k in (below, above))
        found.append(
            Outside(
                column=question.names[j],
                low=float(low),
                high=float(high),
                n_below=below,
                n_above=above,
                n_rows=n_new,
                least=float(np.nanmin(numbers)),
                most=float(np.nanmax(numbers)),
                p_value=min(1.0, 2 * int(looked_at.sum()) * chance),
            )
        )
    return sorted(found, key=lambda one: one.p_value)


def new_gaps(question: Question, rows: Any) -> list[tuple[str, int]]:
    """Find the columns with missing values in new rows, and none in the fit.

    Parameters
    ----------
    question : Question
        The model.
    rows : array or data frame of shape (n_rows, n_features)
        As in `outside_range`.

    Returns
    -------
    found : list of (column, number of rows)
        The user's columns, each once.
    """
    missing = question.model.missing_columns_
    found: dict[str, int] = {}
    for j, values in enumerate(columns_of(rows)):
        if not missing[j] and (n_gaps := count_missing(values)):
            name = question.sources[j]
            found[name] = max(found.get(name, 0), n_gaps)
    return list(found.items())


def count_missing(values: Any) -> int:
    """How many values of a column are missing.

    Parameters
    ----------
    values : array or Series
        Of any type.
    """
    if hasattr(values, "isna"):
        return int(values.isna().sum())
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return int(np.isnan(array).sum())
    return sum(map(is_missing, array.tolist())) if array.dtype.kind == "O" else 0


def _n_fit(question: Question) -> int:
    """All rows that were given to fit, whose range the model knows."""
    model = question.model
    rows = [part for part in (model.partition_rows_, model.fit_rows_) if part is not None]
    return len(np.unique(np.concatenate(rows)))


def _is_readable(question: Question) -> Any:
    """Columns of numbers and parts of dates; what was made of categories and texts is neither."""
    kinds = getattr(question.preparation, "kind_to_columns_", None) or {}
    dates = {str(name) for name in kinds.get("datetime", ())}
    pairs = zip(question.names, question.sources, strict=True)
    return np.array([name == source or source in dates for name, source in pairs])


def _numbers(values: Any) -> Any:
    array = np.asarray(values)
    return array.astype(np.float64) if array.dtype.kind in "fiub" else None
