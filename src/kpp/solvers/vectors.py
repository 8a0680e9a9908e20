"""What solvers do with vectors over rows, beyond arithmetic entry by entry.

Entry by entry (``+``, ``*``, ``np.multiply(a, b, out=c)``) vectors are NumPy arrays, or anything
that takes part in NumPy's ufuncs. What adds up over rows goes through `Vectors`: a map whose rows
live elsewhere brings its own, as an attribute ``vectors``, and the solvers stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from kpp._typing import FloatArray

VECTORS_AT_ONCE = 64


class Basis(Protocol):
    """Orthonormal vectors, kept in the order in which they came."""

    def append(self, vector: FloatArray) -> None:
        """Keep one more vector."""

    def __getitem__(self, k: int) -> FloatArray:
        """Return vector k."""

    def remove_from(self, vector: FloatArray, n_vectors: int) -> None:
        """Subtract, in place, the part of a vector that lies along the first `n_vectors`."""

    def combine(self, coordinates: FloatArray) -> FloatArray:
        """Return sums of vectors, shape (n_sums, n_rows), from coordinates (n_sums, k)."""


class Vectors(Protocol):
    """Vectors over rows: how they are made, and what is added up over them."""

    # Whether the Gram of few rows may be written out.
    writes_grams: bool

    def floats(self, values: Any) -> FloatArray:
        """Return numbers over rows as float64."""

    def zeros(self, shape: Sequence[int], axis: int = 0) -> FloatArray:
        """Return zeros; `axis` is that of the rows."""

    def dot(self, a: FloatArray, b: FloatArray) -> float:
        """Return the sum over all entries of ``a * b``."""

    def column_sums(self, a: FloatArray) -> FloatArray:
        """Return the sum over rows, shape (n_columns,)."""

    def total(self, a: FloatArray) -> float:
        """Return the sum of all entries."""

    def largest(self, a: FloatArray) -> float:
        """Return the largest absolute entry."""

    def dot_later(self, a: FloatArray, b: FloatArray) -> Any:
        """As `dot`, of a number that `known` brings; vectors may be multiplied by it before."""

    def column_sums_later(self, a: FloatArray) -> Any:
        """As `column_sums`, of numbers that `known` brings."""

    def known(self, *values: Any) -> tuple[Any, ...]:
        """Return numbers that were asked for, all at once: where rows are elsewhere, one way."""

    def basis(self) -> Basis:
        """Return a basis without vectors."""


class NumpyVectors:
    """Vectors that are NumPy arrays."""

    writes_grams = True

    def floats(self, values: Any) -> FloatArray:
        """Return numbers over rows as float64."""
        return np.asarray(values, dtype=np.float64)

    def zeros(self, shape: Sequence[int], axis: int = 0) -> FloatArray:
        """Return zeros; `axis` is that of the rows."""
        return np.zeros(tuple(shape))

    def dot(self, a: FloatArray, b: FloatArray) -> float:
        """Return the sum over all entries of ``a * b``."""
        return float(np.vdot(a, b))

    def column_sums(self, a: FloatArray) -> FloatArray:
        """Return the sum over rows, shape (n_columns,)."""
        return a.sum(axis=0)

    def total(self, a: FloatArray) -> float:
        """Return the sum of all entries."""
        return float(a.sum())

    def largest(self, a: FloatArray) -> float:
        """Return the largest absolute entry."""
        return float(np.abs(a).max())

    # Rows are here, and so is what is added up over them.

    def dot_later(self, a: FloatArray, b: FloatArray) -> float:
        """Return the sum over all entries of ``a * b``."""
        return self.dot(a, b)

    def column_sums_later(self, a: FloatArray) -> FloatArray:
        """Return the sum over rows, shape (n_columns,)."""
        return self.column_sums(a)

    def known(self, *values: Any) -> tuple[Any, ...]:
        """Return the numbers themselves."""
        return values

    def basis(self) -> NumpyBasis:
        """Return a basis without vectors."""
        return NumpyBasis()


class NumpyBasis:
    """Vectors in blocks of `VECTORS_AT_ONCE`: none is copied when one more comes."""

    def __init__(self) -> None:
        self._blocks: list[FloatArray] = []
        self._n_vectors = 0

    def append(self, vector: FloatArray) -> None:
        """Keep one more vector."""
        block, place = divmod(self._n_vectors, VECTORS_AT_ONCE)
        if place == 0:
            self._blocks.append(np.empty((VECTORS_AT_ONCE, len(vector))))
        self._blocks[block][place] = vector
        self._n_vectors += 1

    def __getitem__(self, k: int) -> FloatArray:
        """Return vector k."""
        block, place = divmod(k, VECTORS_AT_ONCE)
        return self._blocks[block][place]

    def remove_from(self, vector: FloatArray, n_vectors: int) -> None:
        """Subtract, in place, the part of a vector that lies along the first `n_vectors`."""
        # V (V' x) for each block: two products instead of one pass per vector, from what the blocks
        # before have left.
        for _, block in self._parts(n_vectors):
            vector -= (block @ vector) @ block

    def combine(self, coordinates: FloatArray) -> FloatArray:
        """Return sums of vectors, shape (n_sums, n_rows), from coordinates (n_sums, k)."""
        total = np.zeros((len(coordinates), self._blocks[0].shape[1]))
        for first, block in self._parts(coordinates.shape[1]):
            total += coordinates[:, first : first + len(block)] @ block
        return total

    def _parts(self, n_vectors: int) -> list[tuple[int, FloatArray]]:
        """The first vectors, in blocks, each with the number of its first one."""
        starts = range(0, n_vectors, VECTORS_AT_ONCE)
        return [
            (start, block[: n_vectors - start])
            for start, block in zip(starts, self._blocks, strict=False)
        ]


NUMPY = NumpyVectors()


def vectors_of(block: Any) -> Vectors:
    """Return the vectors over the rows of a map: NumPy's, unless the map brings its own."""
    found: Vectors = getattr(block, "vectors", NUMPY)
    return found
