"""The columns of a raw table, one by one: gaps, distinct values, a small distribution."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._shown import Shown
from kpp._typing import FloatArray

N_BINS = 12
N_TOP = 5
ID_NAME = re.compile(r"(^|[_\s.-])(id|uuid|guid|index|key)$|^unnamed: \d+$", re.IGNORECASE)
FEWEST_IDS = 20
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")
# Texts that are looked at before all of a column are read as dates.
DATES_TRIED = 50
# Share of the steps, from row to row, that go the same way where rows are in order.
IN_ORDER = 0.99


@dataclass(frozen=True)
class ColumnProfile(Shown):
    """What one column of a table holds.

    Parameters
    ----------
    name : str
        Its name.
    kind : {"numbers", "categories", "dates"}
        What its values are.
    n_missing, n_distinct : int
        Missing values, and different ones.
    low, high : float or str or None
        Least and largest number or date.
    counts : tuple of int
        Rows in twelve parts of equal width from low to high, of numbers and dates.
    top : tuple of (str, int)
        The most frequent values of categories, and their rows.
    skill : float
        Share of the variance of the target that the column alone explains, out of fold; NaN where
        it was not asked for.
    codes : tuple of str
        Codes of the findings that name it.
    """

    name: str
    kind: str
    n_missing: int
    n_distinct: int
    low: Any = None
    high: Any = None
    counts: tuple[int, ...] = ()
    top: tuple[tuple[str, int], ...] = ()
    skill: float = float("nan")
    codes: tuple[str, ...] = ()


def kind_of_column(column: Any) -> str:
    """Whether a column holds numbers, dates or categories.

    Parameters
    ----------
    column : pandas Series
        Of any type.
    """
    if getattr(column.dtype, "categories", None) is not None:
        return "categories"
    kind = str(getattr(column.dtype, "kind", "O"))
    if kind in "iuf":
        return "numbers"
    return "dates" if kind in "Mm" else "categories"


def profile_of(name: str, column: Any) -> ColumnProfile:
    """Describe a column.

    Parameters
    ----------
    name : str
        Its name.
    column : pandas Series
        Its values.

    Returns
    -------
    profile : ColumnProfile
    """
    kind, n_missing = kind_of_column(column), int(column.isna().sum())
    if kind == "categories":
        # As texts: a table may mix numbers, truth values and texts, which have no order.
        counted = column.dropna().astype(str).value_counts()
        top = tuple((str(value), int(n)) for value, n in counted.head(N_TOP).items())
        return ColumnProfile(name, kind, n_missing, len(counted), top=top)
    n_distinct = int(column.nunique(dropna=True))
    known = column.dropna()
    values = known.to_numpy(dtype="datetime64[s]" if kind == "dates" else np.float64)
    numbers = values.astype(np.float64)
    finite = np.isfinite(numbers)
    if not finite.any():
        return ColumnProfile(name, kind, n_missing, n_distinct)
    numbers, values = numbers[finite], values[finite]
    low, high = values.min(), values.max()
    written: Any = str if kind == "dates" else float
    ends = written(low), written(high)
    return ColumnProfile(name, kind, n_missing, n_distinct, ends[0], ends[1], histogram(numbers))


def histogram(numbers: FloatArray) -> tuple[int, ...]:
    """Count numbers in twelve parts of equal width.

    Parameters
    ----------
    numbers : array of shape (n,)
        Finite.
    """
    low, high = float(numbers.min()), float(numbers.max())
    width = high - low
    if not 0 < width < np.inf:
        return (len(numbers),)
    place = np.minimum((numbers - low) / width * N_BINS, N_BINS - 1).astype(np.int64)
    return tuple(np.bincount(place, minlength=N_BINS).tolist())


def is_id_like(name: str, column: Any, n_distinct: int) -> bool:
    """Whether a column has another value in every row, and looks like a number or name of the row.

    Parameters
    ----------
    name : str
        Its name.
    column : pandas Series
        Its values.
    n_distinct : int
        Different ones.
    """
    if n_distinct < len(column) or n_distinct < FEWEST_IDS:
        return False
    kind = str(getattr(column.dtype, "kind", "O"))
    if kind in "iu":
        steps = np.diff(column.to_numpy())
        return bool(ID_NAME.search(name)) or bool((steps == 1).all())
    if kind_of_column(column) == "categories" and kind != "b":
        texts = column.astype(str).str.strip()
        # A date is another one in every row, and no name of the row.
        is_words = texts.str.contains(r"\s").any() or texts.str.match(DATE).all()
        return bool(ID_NAME.search(name)) or not is_words
    return False


def as_dates(column: Any) -> Any:
    """A column of dates, or of texts that are dates, as times; None for any other.

    Parameters
    ----------
    column : pandas Series
        Of any type.

    Returns
    -------
    times : pandas Series of datetime64, or None
    """
    kind = kind_of_column(column)
    if kind == "dates":
        return column if str(column.dtype.kind) == "M" else None
    known = column.dropna()
    if kind == "numbers" or not len(known):
        return None
    tried = known.iloc[:DATES_TRIED]
    if not all(isinstance(v, str) and DATE.fullmatch(v.strip()) for v in tried):
        return None
    pd = optional("pandas", "check_data")
    times = pd.to_datetime(column, errors="coerce", format="mixed", utc=True)
    return times if times.notna().sum() >= 0.9 * len(known) else None


def is_in_order(values: Any) -> bool:
    """Whether rows stand in the order of a column, rising or falling.

    Of rows in random order half of the steps rise: that 99% of 19 or more go the same way has a
    chance below 1 in 20,000.

    Parameters
    ----------
    values : pandas Series of datetime64
        In the order of the rows.
    """
    known = values.dropna().to_numpy(dtype="datetime64[s]").astype(np.int64)
    steps = np.diff(known)
    steps = steps[steps != 0]
    if len(steps) < FEWEST_IDS - 1:
        return False
    rising = float((steps > 0).mean())
    return rising >= IN_ORDER or rising <= 1 - IN_ORDER
