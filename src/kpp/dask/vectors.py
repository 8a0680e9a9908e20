"""What solvers add up over rows on workers, and bases of vectors there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.dask.rows import Partitions, Rows, add, maximum, row_sum, stack


class DaskVectors:
    """`kpp.solvers.vectors.Vectors` over rows on workers.

    Parameters
    ----------
    partitions : Partitions
        How the rows are cut.
    """

    writes_grams = False

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def floats(self, values: Any) -> Any:
        """Return numbers over rows; they are float64 already."""
        return values

    def zeros(self, shape: Sequence[int], axis: int = 0) -> Any:
        """Return zeros over the rows."""
        return self._partitions.zeros(shape, axis)

    def dot(self, a: Any, b: Any) -> float:
        """Return the sum over all entries of ``a * b``."""
        return float(self._partitions.reduce(_dot, add, a, b))

    def column_sums(self, a: Any) -> FloatArray:
        """Return the sum over rows, shape (n_columns,)."""
        return np.asarray(a.sum(axis=0))

    def total(self, a: Any) -> float:
        """Return the sum of all entries."""
        return float(a.sum())

    def largest(self, a: Any) -> float:
        """Return the largest absolute entry."""
        return float(self._partitions.reduce(_largest, maximum, a))

    def dot_later(self, a: Any, b: Any) -> Any:
        """As `dot`; the number stays on a worker, and vectors there may be multiplied by it."""
        return self._partitions.small(_dot, add, a, b)

    def column_sums_later(self, a: Any) -> Any:
        """As `column_sums`; the numbers stay on a worker."""
        return self._partitions.small(row_sum, add, a, 0)

    def known(self, *values: Any) -> tuple[Any, ...]:
        """Bring numbers that are on workers, all in one round trip."""
        session = self._partitions.session
        parts = [value.node.parts[0] for value in values]
        found = session.gather(parts)
        return tuple(float(own) if np.ndim(own) == 0 else own for own in found)

    def basis(self) -> DaskBasis:
        """Return a basis without vectors."""
        return DaskBasis(self._partitions)


class DaskBasis:
    """Orthonormal vectors over rows on workers, in blocks.

    Parameters
    ----------
    partitions : Partitions
        How the rows are cut.
    """

    at_once = 16

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._blocks: list[Rows] = []  # of shape (at_once, n_rows)
        self._open: list[Rows] = []

    def append(self, vector: Rows) -> None:
        """Keep one more vector."""
        vector = vector.copy()
        vector.settle()  # alone: what else is written down must not live as long
        self._open.append(vector)
        if len(self._open) == self.at_once:
            block = stack(self._open)
            block.settle()
            self._blocks.append(block)
            self._open = []

    def __getitem__(self, k: int) -> Rows:
        """Return vector k."""
        block, place = divmod(k, self.at_once)
        return self._blocks[block][place] if block < len(self._blocks) else self._open[place]

    def remove_from(self, vector: Rows, n_vectors: int) -> None:
        """Subtract, in place, the part of a vector that lies along the first `n_vectors`."""
        known = self._first(n_vectors)
        along = self._partitions.small(_coordinates, add, vector, *known)
        vector.become(vector.map(_without, along, *known))

    def combine(self, coordinates: FloatArray) -> Rows:
        """Return sums of vectors, shape (n_sums, n_rows), from coordinates (n_sums, k)."""
        first, *others = self._first(coordinates.shape[1])
        found = first.map(_combined, np.ascontiguousarray(coordinates), *others, axis=1)
        found.settle()
        return found

    def _first(self, n_vectors: int) -> list[Rows]:
        n_blocks, rest = divmod(n_vectors, self.at_once)
        if rest and n_blocks < len(self._blocks):
            return [*self._blocks[:n_blocks], self._blocks[n_blocks][:rest]]
        return [*self._blocks[:n_blocks], *self._open[:rest]]


# Of one partition.


def _dot(a: AnyArray, b: AnyArray) -> float:
    return float(np.vdot(a, b))


def _largest(a: AnyArray) -> float:
    return float(np.abs(a).max(initial=0.0))


def _coordinates(vector: AnyArray, *blocks: AnyArray) -> FloatArray:
    """Products of a vector with others, given alone or in blocks."""
    return np.concatenate([np.atleast_2d(block) @ vector for block in blocks])


def _without(vector: AnyArray, along: FloatArray, *blocks: AnyArray) -> AnyArray:
    first = 0
    for block in map(np.atleast_2d, blocks):
        vector = vector - along[first : first + len(block)] @ block
        first += len(block)
    return vector


def _combined(block: AnyArray, coordinates: FloatArray, *others: AnyArray) -> AnyArray:
    total, first = 0.0, 0
    for own in map(np.atleast_2d, (block, *others)):
        total = total + coordinates[:, first : first + len(own)] @ own
        first += len(own)
    return np.asarray(total)
