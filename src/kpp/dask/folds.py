"""Folds of rows on workers: every partition cuts its own rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._fingerprints import HALF, LOWER, Prints, row_fingerprints
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
    fold = _read_column(data, folds, "folds", X, _numbers, np.int32)
    if fold.min() < 0 or not np.isfinite(fold.max()):
        raise ValueError("folds must be numbers from 0 on.")
    return fold, int(fold.max()) + 1


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows that belong together, by fingerprints of the names of their groups.

    Parameters
    ----------
    prints : Rows of uint64 of shape (n_rows,)
        Equal for rows of one group; different groups share one with probability 2 to the -64.
    n_groups : int
        How many there are.
    largest : int
        Rows of the largest.
    """

    prints: Rows
    n_groups: int
    largest: int

    @classmethod
    def read(cls, data: DaskData, groups: Any, X: Any) -> Groups:
        """Take the groups of the rows, and count them."""
        prints = _read_column(data, groups, "groups", X, group_prints, np.uint64)
        _, counts = data.partitions.reduce(_counted, _united, prints, what="groups")
        if counts.sum() != data.n_rows:
            raise ValueError(
                f"groups must name the group of each of the {data.n_rows} rows of X; got "
                f"{counts.sum()}."
            )
        return cls(prints, len(counts), int(counts.max()))

    def folds(self, n_folds: int, seed: int) -> Rows:
        """Give every group a fold, by a hash of its name and the seed, wherever its rows are."""
        if self.n_groups < n_folds:
            raise ValueError(f"{n_folds} folds need as many groups; got {self.n_groups}.")
        return self.prints.map(fold_of_prints, n_folds, seed)


def group_prints(groups: Any) -> Prints:
    """Fingerprints of the names of groups, shape (n_rows,): the same in every partition."""
    values = np.asarray(groups)
    return row_fingerprints(values.reshape(len(values), 1))


def fold_of_prints(prints: Prints, n_folds: int, seed: int) -> AnyArray:
    """A number below `n_folds` for each fingerprint: equal ones have the same."""
    table = np.column_stack([prints >> HALF, prints & LOWER, np.full(len(prints), float(seed))])
    return (row_fingerprints(table) % np.uint64(n_folds)).astype(np.int32)


def _counted(prints: Prints) -> tuple[Prints, AnyArray]:
    found, counts = np.unique(prints, return_counts=True)
    return found, counts


def _united(*parts: tuple[Prints, AnyArray]) -> tuple[Prints, AnyArray]:
    found, place = np.unique(np.concatenate([own for own, _ in parts]), return_inverse=True)
    return found, np.bincount(place.ravel(), np.concatenate([own for _, own in parts])).astype(int)


def _read_column(
    data: DaskData, values: Any, name: str, X: Any, function: Callable[[Any], Any], dtype: Any
) -> Rows:
    """What a function makes of the user's column on the workers, one number for each row."""
    from dask import delayed

    session = data.session
    made = [delayed(function, pure=False)(own) for own in blocks_of(values, name, X)]
    with session.watched():
        parts = session.adopt(session.client.compute(made))
    if len(parts) != len(data.partitions):
        raise ValueError(f"{name} must be cut as X is.")
    return data.partitions.rows(parts, np.zeros(0, dtype=dtype))


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
