"""The Gram of one sample, prepared for many products."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import FloatArray
from kpp.geometry._cell_loops import cells_matvec, group_trees
from kpp.geometry._loops import (
    compact_matmat,
    compact_matmat_4,
    compact_matmat_8,
    compact_matvec,
    compact_trees,
)
from kpp.geometry.maps import PathMap

# Trees of at most so many sets are tried in groups, of at most so many cells: more would not stay
# in the fastest cache.
SMALL_TREE, MOST_CELLS = 256, 2048
# A product in groups must cost at most this share of one tree by tree.
WORTH_GROUPS = 0.8


class CompactGram:
    r"""``r -> Phi Phi' r`` from the sets of rows that the nodes hold.

    Between the rows of one sample a node matters only by the set of rows that it holds. In
    unpruned trees many nodes hold one row alone, and they only add to the Gram's diagonal; others
    hold the same rows as their parent, or none. What is left is about half of the nodes.

    Small trees, as boosters grow them, are taken in groups: rows in the same set of every tree of
    a group are added up once. Products are then five times as fast.

    Parameters
    ----------
    phi : PathMap
        The embedding at the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPEmbedding
    >>> from kpp.geometry.compact import CompactGram
    >>> X, y = load_iris(return_X_y=True)
    >>> phi = KPPEmbedding(n_estimators=5, random_state=0).fit(X, y).map_.on(X)
    >>> r = np.linspace(-1, 1, 150)
    >>> bool(np.allclose(CompactGram(phi)(r), phi.gram_matvec(r)))
    True
    """

    def __init__(self, phi: PathMap) -> None:
        shape, n_nodes = phi.leaf_ids.shape, phi.forest.n_nodes
        self._phi = phi
        self._sets = np.empty(shape, dtype=np.int32)
        self._n_sets = np.empty(shape[0], dtype=np.int64)
        # One place per node: what stays untouched takes no memory.
        self._set_parent = np.empty(n_nodes, dtype=np.int32)
        self._set_scale = np.empty(n_nodes)
        self._diagonal = phi.sum_over_trees(
            lambda block, out: compact_trees(
                phi.leaf_ids,
                phi.forest.tree_offsets,
                phi.forest.parent,
                phi.squared_scale,
                *block,
                self._sets,
                self._n_sets,
                self._set_parent,
                self._set_scale,
                out,
            )
        )

        self._groups = self._in_groups()
        if self._groups is not None:
            del self._sets  # four bytes for each row and tree

    def _in_groups(self) -> tuple[Any, ...] | None:
        """Cells of groups of small trees, as `group_trees` makes them, if they save work."""
        n_rows, n_trees = self._phi.shape[0], self._phi.forest.n_trees
        if self._n_sets.max() > SMALL_TREE or self._n_sets.mean() > n_rows / 4:
            return None
        # One row of cells for each group: what stays untouched takes no memory.
        cells = np.empty((n_trees, n_rows), dtype=np.uint16)
        cell_sets = np.empty((n_trees, MOST_CELLS), dtype=np.uint16)
        stop, n_cells = np.zeros(n_trees, dtype=np.int64), np.zeros(n_trees, dtype=np.int64)
        self._phi.each_run_of_trees(
            lambda block: group_trees(
                self._sets, self._n_sets, *block, MOST_CELLS, cells, stop, n_cells, cell_sets
            )
        )
        (first,) = np.nonzero(stop)
        work = (n_rows + (stop[first] - first) * n_cells[first]).sum()
        if work > WORTH_GROUPS * n_rows * n_trees:
            return None
        return cells, stop, n_cells, cell_sets

    def __call__(self, r: FloatArray) -> FloatArray:
        """Multiply by a vector of shape (n_rows,), or by columns (n_rows, n_columns)."""
        r = self._phi.row_columns(r)
        if self._groups is not None and r.ndim == 2:
            return np.column_stack([self(column) for column in r.T])
        if r.ndim == 1 or r.shape[1] == 1:
            column = np.ascontiguousarray(r.ravel())
            return self._product(compact_matvec, column, self._diagonal).reshape(r.shape)
        loop, width = self._loop_for(r.shape[1])
        columns = np.ascontiguousarray(r)
        if width > r.shape[1]:
            columns = np.zeros((len(r), width))
            columns[:, : r.shape[1]] = r
        total = self._product(loop, columns, self._diagonal[:, None])
        return total if width == r.shape[1] else total[:, : r.shape[1]].copy()

    @staticmethod
    def _loop_for(n_columns: int) -> tuple[Any, int]:
        """The loop for several columns, and how many it takes."""
        if n_columns <= 4:
            return compact_matmat_4, 4
        return (compact_matmat_8, 8) if n_columns <= 8 else (compact_matmat, n_columns)

    def _product(self, loop: Any, columns: FloatArray, diagonal: FloatArray) -> FloatArray:
        of_rows: tuple[Any, ...]
        if self._groups is None:
            of_rows = (self._sets,)
        else:
            loop, of_rows = cells_matvec, self._groups
        total = self._phi.sum_over_trees(
            lambda block, out: loop(
                *of_rows,
                self._phi.forest.tree_offsets,
                self._n_sets,
                self._set_parent,
                self._set_scale,
                columns,
                *block,
                out,
            ),
            columns.shape,
        )
        # The nodes that hold one row alone: the loop above left them out.
        total += diagonal * columns
        return total
