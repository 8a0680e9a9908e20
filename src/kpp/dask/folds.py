"""Folds of rows on workers: every partition cuts its own rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import AnyArray
from kpp.dask.data import DaskData, blocks_of
from kpp.dask.rows import Rows


def draw_folds(data: DaskData, n_folds: int, seed: int) -> Rows:
    """Give every row a fold, at random, with as many rows of a class in each as can be.

    A partition draws for itself: folds depend on the seed and on how rows are cut, and on nothing
    else.

    Parameters
    ----------
    data : DaskData
        Rows.
    n_folds : int
        Number of folds.
    seed : int
        Seed.

    Returns
    -------
    fold : Rows of int32 of shape (n_rows,)
    """
    if not isinstance(n_folds, int | np.integer) or n_folds < 2:
        raise ValueError(
            f"cv must be a number of folds, at least 2, on Dask; got {n_folds!r}. For folds of "
            "your own give fit(..., folds=...): a number for each row."
        )
    if data.n_rows < n_folds:
        raise ValueError(f"{n_folds} folds need as many rows; got {data.n_rows}.")
    session = data.session
    places = list(range(len(data.partitions)))
    target = [part for part, _ in data.target.pieces()]
    parts = session.each(
        "fold", _draw, target, places, int(n_folds), seed, data.classes is not None
    )
    return data.partitions.rows(parts, np.zeros(0, dtype=np.int32))


def given_folds(data: DaskData, folds: Any, X: Any) -> tuple[Rows, int]:
    """Take the user's folds, a number from 0 on for each row."""
    from dask import delayed

    session = data.session
    made = [delayed(_numbers, pure=False)(own) for own in blocks_of(folds, "folds", X)]
    with session.watched():
        parts = session.adopt(session.client.compute(made))
    if len(parts) != len(data.partitions):
        raise ValueError("folds must be cut as X is.")
    fold = data.partitions.rows(parts, np.zeros(0, dtype=np.int32))
    if fold.min() < 0 or not np.isfinite(fold.max()):
        raise ValueError("folds must be numbers from 0 on.")
    return fold, int(fold.max()) + 1


def _numbers(folds: Any) -> AnyArray:
    values = np.asarray(folds)
    found: AnyArray = np.asarray(values, dtype=np.int32).reshape(len(values))
    if not np.array_equal(found, values.reshape(len(values))):
        raise ValueError("folds must be whole numbers.")
    return found


def _draw(target: AnyArray, place: int, n_folds: int, seed: int, is_stratified: bool) -> AnyArray:
    random = np.random.default_rng([seed, 2, place])
    fold = np.empty(len(target), dtype=np.int32)
    # One class after the other, from a random fold on: no fold is favoured.
    kinds = np.unique(target) if is_stratified else [None]
    for kind in kinds:
        rows = np.arange(len(target)) if kind is None else np.flatnonzero(target == kind)
        first = random.integers(n_folds)
        fold[random.permutation(rows)] = (np.arange(len(rows)) + first) % n_folds
    return fold
