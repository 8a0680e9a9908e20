"""Fingerprints of the rows of a table: 64 bits that say whether two rows are the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from hashlib import blake2b
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpp._optional import optional
from kpp.tables.target import kind_of

Prints = NDArray[np.uint64]

ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
# What readers of CSV take for a gap; a Parquet file may hold it as a text.
GAPS = {"", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>", "nat"}
TRUTHS = {"true": 1.0, "false": 0.0}
GAP = 0x5DEECE66D1234567


def table_fingerprints(frame: Any, columns: Sequence[str]) -> Prints:
    """Return 64 bits for each row of a table, the same for rows that say the same.

    The order of the columns does not count, nor does how a value is kept: numbers count in single
    precision, as a preparation hands them on, so that a CSV and a Parquet file of the same
    rows agree; true and false are 1 and 0; a text that is a number is that number; dates count in
    ISO's form; all gaps are one. Other texts count as they are.

    Parameters
    ----------
    frame : pandas.DataFrame of shape (n_rows, n_columns)
        The table.
    columns : sequence of str
        The columns that count: those of a model, without the target.

    Returns
    -------
    fingerprints : uint64 array of shape (n_rows,)
        Different rows have the same one with probability 2 to the power -64.

    Examples
    --------
    >>> import pandas as pd
    >>> from kpp.tables.fingerprints import table_fingerprints
    >>> one = pd.DataFrame({"a": [1, 2], "b": ["2020-01-31", None]})
    >>> two = pd.DataFrame({"b": [pd.Timestamp("2020-01-31"), pd.NaT], "a": ["1.0", "3"]})
    >>> same = table_fingerprints(one, ["a", "b"]) == table_fingerprints(two, ["a", "b"])
    >>> same.tolist()
    [True, False]
    """
    total = np.zeros(len(frame), dtype=np.uint64)
    for name in columns:
        # A sum does not depend on the order; the name keeps values of two columns apart.
        total += _mixed(_values(frame[name]) ^ np.uint64(_of_text(f"column {name}")))
    return _mixed(total)


def _values(column: Any) -> Prints:
    if kind_of(column) in "biuf":
        return _of_numbers(column.to_numpy(dtype=np.float64, na_value=np.nan))
    pd = optional("pandas", "kpp", "cli")
    try:
        codes, different = pd.factorize(column)
    except TypeError:  # lists and records
        codes, different = pd.factorize(column.astype(str))
    known = np.array([_of_value(value) for value in different] + [GAP], dtype=np.uint64)
    return known[codes]  # the code of a gap is -1


def _of_numbers(numbers: NDArray[np.float64]) -> Prints:
    with np.errstate(over="ignore"):
        single = numbers.astype(np.float32) + np.float32(0)  # which makes -0.0 to 0.0
    found = _mixed(single.view(np.uint32).astype(np.uint64) + np.uint64(1))
    found[np.isnan(single)] = GAP
    return found


def _of_value(value: Any) -> int:
    if isinstance(value, Real):
        return int(_of_numbers(np.array([value], dtype=np.float64))[0])
    text = value.isoformat() if isinstance(value, date | datetime) else str(value).strip()
    lower = text.lower()
    if lower in GAPS:
        return GAP
    with suppress(ValueError):
        return _of_value(TRUTHS[lower] if lower in TRUTHS else float(text))
    if ISO_DATE.fullmatch(text):
        with suppress(ValueError):
            text = datetime.fromisoformat(text).isoformat()
    return _of_text(text)


def _of_text(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _mixed(bits: Prints) -> Prints:
    """The finaliser of splitmix64: every bit of the input moves every bit of the result."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
