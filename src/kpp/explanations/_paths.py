"""The nodes that one row is in, and which of them are the same cell."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.explanations._conditions import Cell, Wording, cells_of_path
from kpp.explanations._loops import cells_of_leaves
from kpp.forest.arrays import Forest
from kpp.scores import RoutedRows
from kpp.scores.additive import ScoreBlock

# Nodes on a path that room is made for at first.
USUAL_DEPTH = 64


@dataclass(frozen=True, eq=False)
class RowPaths:
    """Nodes below the roots that a row is in, tree by tree, each path from the root down.

    Nodes without weight or coefficient are left out: they add nothing. So a part of a blend that
    does not count is not read.

    Parameters
    ----------
    blocks : sequence of ScoreBlock
        The model.
    forests : list of Forest
        Their forests in float64.
    leaves : list of int arrays of shape (n_trees,)
        The leaf of the row in each tree of each block.
    categories : dict of int to list
        All categories that one of the forests knows, by column.
    block, tree, node : int arrays of shape (n_path_nodes,)
        Where each node stands.
    code : uint64 array of shape (n_path_nodes,)
        The same for cells that read the same, and hardly ever for others.
    """

    blocks: Sequence[ScoreBlock]
    forests: list[Forest]
    leaves: list[IntArray]
    categories: dict[int, list[Hashable]]
    block: AnyArray
    tree: AnyArray
    node: AnyArray
    code: AnyArray
    _cells: dict[tuple[int, int], dict[int, Cell]] = field(default_factory=dict)

    @classmethod
    def of(cls, blocks: Sequence[ScoreBlock], row: RoutedRows, wording: Wording) -> RowPaths:
        """Walk up from the leaves of a row."""
        leaves = [np.ascontiguousarray(leaf_ids[:, 0]) for leaf_ids in row.leaf_ids]
        is_told = wording.missing | wording.other
        parts = []
        for b, (block, forest) in enumerate(zip(blocks, wording.forests, strict=True)):
            node, tree, code = _walk(forest, leaves[b], is_told, wording.is_exact)
            adds = block.scale_of(node) != 0
            if block.coef is not None:
                adds &= block.coef[:, node].any(axis=0)
            kept = np.flatnonzero(adds)
            parts.append((np.full(len(kept), b), tree[kept], node[kept], code[kept]))
        number, tree, node, code = (np.concatenate(part) for part in zip(*parts, strict=True))
        categories = wording.categories
        return cls(blocks, wording.forests, leaves, categories, number, tree, node, code)

    def contribution(self, score: int) -> FloatArray:
        """What each node adds to a score, shape (n_path_nodes,)."""
        return np.concatenate(
            [
                block.contribution_of(score, self.node[self.block == number])
                for number, block in enumerate(self.blocks)
            ]
        )

    def cell(self, i: int) -> Cell:
        """Conditions of one node, by column; then those on sums of columns."""
        number, tree = int(self.block[i]), int(self.tree[i])
        if (number, tree) not in self._cells:
            leaf = int(self.leaves[number][tree])
            found = cells_of_path(self.forests[number], leaf, self.categories)
            self._cells[number, tree] = dict(found)
        cell = self._cells[number, tree][int(self.node[i])]
        return tuple(sorted(cell, key=lambda condition: condition.place))

    def name(self, i: int) -> str:
        """Name of the coordinate of one node."""
        block, tree = self.blocks[self.block[i]], int(self.tree[i])
        prefix = f"{block.name}__" if block.name else ""
        return f"{prefix}kpp_t{tree}_n{self.node[i] - block.forest.tree_offsets[tree]}"

    def groups(self, wording: Wording, support: list[FloatArray]) -> list[list[int]]:
        """Nodes that are the same cell as others: groups of two or more, each in order."""
        _, which, size = np.unique(self.code, return_inverse=True, return_counts=True)
        found: dict[Hashable, list[int]] = {}
        # A node whose code no other has is alone. For the others the words decide.
        for i in np.flatnonzero(size[which] > 1).tolist():
            # Shares are sums of weights, rounded differently in different trees.
            share = round(float(support[self.block[i]][self.node[i]]), 12)
            found.setdefault((share, wording.key(self.cell(i))), []).append(i)
        return [group for group in found.values() if len(group) > 1]


def merged(cells: Sequence[Cell]) -> Cell:
    """One cell for several that read the same: a missing value must be in all of them."""
    return tuple(
        replace(same[0], missing=all(condition.missing for condition in same))
        for same in zip(*cells, strict=True)
    )


def _walk(
    forest: Forest, leaves: IntArray, is_told: AnyArray, is_exact: bool
) -> tuple[IntArray, IntArray, AnyArray]:
    """Nodes on the paths to leaves, their trees and their codes."""
    size = USUAL_DEPTH * len(leaves)
    while True:
        node, tree = np.empty((2, size), dtype=np.int32)
        code, n_path = np.empty(size, dtype=np.uint64), np.empty(1, dtype=np.int64)
        cells_of_leaves(
            forest.nodes, forest.split_kind, is_told, leaves, is_exact, node, tree, code, n_path
        )
        n = int(n_path[0])
        if n <= size:
            return node[:n], tree[:n], code[:n]
        size = n
