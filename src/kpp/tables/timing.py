"""Rows in the order of a column that says when they are of: `--time`.

The rows to test are the last ones, and the folds are blocks of time. The column is kept from the
model: trees do not go beyond the times that they have seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import PredefinedSplit

from kpp._optional import optional
from kpp._typing import AnyArray, FloatArray
from kpp.tables.errors import UserError, check_columns
from kpp.tables.reading import TableFile
from kpp.tables.target import kind_of

N_FOLDS = 5
OPTION = "--time"


def times_of(
    frame: Any, name: str | None, table: TableFile, numbers: AnyArray | None = None
) -> FloatArray | None:
    """When each row of a table is of, as numbers that grow with time.

    Parameters
    ----------
    frame : pandas.DataFrame of shape (n_rows, n_columns)
        Rows of the table.
    name : str or None
        The column: dates, texts that are dates, or numbers such as years; None where there is none.
    table : TableFile
        Where the rows come from, for messages.
    numbers : int array of shape (n_rows,), optional
        Their places in the table, where these are not all of its rows.

    Returns
    -------
    times : float array of shape (n_rows,) or None
        Numbers as they are; dates in seconds, with their place in the world counted where they
        say it.
    """
    if name is None:
        return None
    check_columns([name], list(frame.columns), OPTION, table.name)
    column, where = frame[name], f"'{name}' ({OPTION}) of {table.name}"

    def place(row: int) -> str:
        return table.place(row if numbers is None else int(numbers[row]))

    missing = np.flatnonzero(column.isna().to_numpy())
    if len(missing):
        raise UserError(
            f"{len(missing)} row(s) of {table.name} have no '{name}' ({OPTION}), the first in "
            f"{place(int(missing[0]))}: every row must say when it is of."
        )
    if kind_of(column) in "iuf":
        times: FloatArray = column.to_numpy(dtype=np.float64)
        if len(bad := np.flatnonzero(~np.isfinite(times))):
            raise UserError(f"{where} is infinite in {place(int(bad[0]))}.")
        return times
    if kind_of(column) == "b":
        raise UserError(f"{where} is true or false, not a time.")
    return _seconds(column, where, place)


def _seconds(column: Any, where: str, place: Callable[[int], str]) -> FloatArray:
    """Dates, or texts in the one way of writing them that fits all, as seconds."""
    pd = optional("pandas", OPTION, "cli")
    if kind_of(column) == "M":
        if str(column.dtype).startswith("timedelta"):
            return np.asarray(column.dt.total_seconds(), dtype=np.float64)
        return _since_1970(pd.to_datetime(column, utc=True))
    # Every different text once, in the order of their first rows.
    codes, different = pd.factorize(column.astype(str).str.strip())
    texts, first = pd.Series(different), np.unique(codes, return_index=True)[1].tolist()
    ways: list[dict[str, Any]] = [
        {"format": "ISO8601"},
        {"format": "mixed", "dayfirst": False},
        {"format": "mixed", "dayfirst": True},
    ]
    read = [pd.to_datetime(texts, errors="coerce", utc=True, **ways[0])]
    if read[0].notna().all():
        return _since_1970(read[0])[codes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of day and month, which is looked at below
        read += [pd.to_datetime(texts, errors="coerce", utc=True, **way) for way in ways[1:]]
    month_first, day_first = (_strict(own, texts, k) for k, own in enumerate(read[1:]))
    if month_first is None and day_first is None:
        best = max(read, key=lambda own: int(own.notna().sum()))
        lost = np.flatnonzero(best.isna().to_numpy())
        at = int(lost[0]) if len(lost) else 0
        raise UserError(
            f"{where} holds '{texts[at]}' in {place(first[at])}, which is no date, or not one in "
            "the way of the others. Write dates as 2024-01-31."
        )
    if month_first is not None and day_first is not None and not month_first.equals(day_first):
        at = int(np.flatnonzero((month_first != day_first).to_numpy())[0])
        raise UserError(
            f"{where} may have the day or the month first: '{texts[at]}' in {place(first[at])}. "
            "Write dates as 2024-01-31."
        )
    return _since_1970(day_first if month_first is None else month_first)[codes]


def _strict(read: Any, texts: Any, day_first: int) -> Any:
    """Dates with day and month in the same order in all rows; None where that is not so.

    pandas turns the two round, row by row, where they do not fit.
    """
    if not read.notna().all():
        return None
    numbers = texts.str.extract(r"^(\d{1,2})\D+(\d{1,2})\D+\d{2,4}\b")
    if numbers.isna().all(axis=None):  # named months
        return read
    month = numbers[1 if day_first else 0]
    fits = month.isna() | (month.fillna("1").astype(int) <= 12)
    return read if fits.all() else None


def _since_1970(dates: Any) -> FloatArray:
    pd = optional("pandas", OPTION, "cli")
    since = dates - pd.Timestamp(0, tz="UTC")
    return np.asarray(since.dt.total_seconds(), dtype=np.float64)


def split_by_time(times: FloatArray, share: float) -> tuple[AnyArray, AnyArray]:
    """Rows to fit and, later than all of them, rows to test.

    Rows of the same moment stay together. Those of the moment at which the share is reached are
    rows to test, so that these may be more than asked for, and never fewer.

    Parameters
    ----------
    times : float array of shape (n_rows,)
        From `times_of`.
    share : float
        Share of the rows to test.

    Returns
    -------
    train, test : int arrays
        Rows, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.tables.timing import split_by_time
    >>> train, test = split_by_time(np.array([5.0, 1.0, 2.0, 4.0, 4.0, 3.0]), 0.3)
    >>> train.tolist(), test.tolist()
    ([1, 2, 5], [0, 3, 4])
    """
    n_test = int(np.ceil(share * len(times)))
    first = np.sort(times)[len(times) - n_test]
    is_test = times >= first
    if (~is_test).sum() < 2:
        raise UserError(
            f"{len(times)} rows at {len(np.unique(times))} different times ({OPTION}) are too few "
            f"for a test share of {share:g}: at least 2 rows must lie before those to test. Use "
            "--test-size 0, or a smaller one."
        )
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def blocks_of_time(times: FloatArray, n_folds: int = N_FOLDS) -> PredefinedSplit:
    """Folds that are blocks of time, as equal as moments with several rows allow.

    A block is predicted by fits on the rows before and after it: neighbours in time do not help,
    as they would in folds at random, but later rows do.

    Parameters
    ----------
    times : float array of shape (n_rows,)
        Of the rows of the fit.
    n_folds : int
        Number of blocks; fewer where there are fewer moments.

    Returns
    -------
    splitter : PredefinedSplit

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.tables.timing import blocks_of_time
    >>> blocks_of_time(np.array([3.0, 1.0, 1.0, 2.0, 4.0, 5.0]), 3).test_fold.tolist()
    [1, 0, 0, 1, 2, 2]
    """
    moments, codes, counts = np.unique(times, return_inverse=True, return_counts=True)
    n_folds = min(n_folds, len(moments))
    if n_folds < 2:
        raise UserError(
            f"All rows to fit are of the same time, and folds are blocks of it: leave out {OPTION}."
        )
    # A moment belongs to the block in which its middle row falls.
    middle = np.cumsum(counts) - counts / 2
    block = np.minimum((middle * n_folds / len(times)).astype(np.int64), n_folds - 1)
    block = np.unique(block, return_inverse=True)[1]  # none without rows
    if block.max() == 0:  # one moment has nearly all rows: it, and the others
        block = (np.arange(len(moments)) == counts.argmax()).astype(np.int64)
    return PredefinedSplit(block[codes.ravel()])
