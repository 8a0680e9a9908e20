"""Rows of a table that belong together: a column that names their groups.

Rows of one patient are not independent draws. The column is no property of a row and is kept from
the model; the fit, its folds and its test rows keep groups whole.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from kpp._typing import AnyArray
from kpp.tables.errors import UserError, check_columns
from kpp.tables.fingerprints import Prints
from kpp.tables.kinds import written


def groups_of(frame: Any, name: str | None, where: str) -> AnyArray | None:
    """The group of each row of a table, as text.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    name : str or None
        The column; None where rows have no groups.
    where : str
        What the table is called.

    Returns
    -------
    groups : object array of shape (n_rows,) or None
        A whole number is the same group whether a file holds 7, 7.0 or the text.

    Examples
    --------
    >>> import pandas as pd
    >>> from kpp.tables.grouping import groups_of
    >>> groups_of(pd.DataFrame({"patient": [7.0, 12.0, 7.0]}), "patient", "x.csv").tolist()
    ['7', '12', '7']
    """
    if name is None:
        return None
    check_columns([name], list(frame.columns), "--groups", where)
    column = frame[name]
    missing = int(column.isna().sum())
    if missing:
        raise UserError(
            f"{missing} row(s) of {where} have no '{name}' (--groups): every row must name its "
            "group, if need be one of its own."
        )
    return np.array([written(value) for value in column.tolist()], dtype=object)


def group_prints(groups: AnyArray) -> Prints:
    """64 bits for each different group: enough to know it again, and not its name.

    Parameters
    ----------
    groups : object array of shape (n_rows,)
        From `groups_of`.

    Returns
    -------
    prints : uint64 array of shape (n_groups,)
    """
    hashes = [
        hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for name in sorted(set(groups.tolist()))
    ]
    return np.frombuffer(b"".join(hashes), dtype="<u8").astype(np.uint64)


def in_groups(groups: AnyArray, prints: Prints) -> AnyArray:
    """Say of each row whether its group is among those of some prints; bool, shape (n_rows,)."""
    names = sorted(set(groups.tolist()))
    known = dict(zip(names, np.isin(group_prints(groups), prints).tolist(), strict=True))
    return np.array([known[name] for name in groups.tolist()], dtype=bool)


def split_by_groups(groups: AnyArray, share: float, seed: int) -> tuple[AnyArray, AnyArray]:
    """Rows to fit and rows to test, in whole groups.

    The number of groups to test is fixed, and they are drawn at random, each as likely as any
    other: then they are draws like those to fit, whatever their sizes, which a bound that counts
    groups needs.

    Parameters
    ----------
    groups : object array of shape (n_rows,)
        From `groups_of`.
    share : float
        Share of the groups to test.
    seed : int
        Of the draw.

    Returns
    -------
    train, test : int arrays
        Rows, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.tables.grouping import split_by_groups
    >>> train, test = split_by_groups(np.array(list("aabbccddee"), dtype=object), 0.2, 0)
    >>> len(train), len(test)
    (8, 2)
    """
    names, codes = np.unique(groups, return_inverse=True)
    n_test = int(np.ceil(share * len(names)))
    if len(names) - n_test < 2:
        raise UserError(
            f"{len(names)} groups are too few for a test share of {share:g}: at least 2 must be "
            "left to fit. Use --test-size 0, or a --test file."
        )
    drawn = np.random.default_rng(seed).permutation(len(names))[:n_test]
    is_test = np.isin(codes.ravel(), drawn)
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)
