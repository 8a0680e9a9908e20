"""The nodes that one row is in, and which of them are the same cell."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.explanations._conditions import Cell, Condition, cells_of_path
from kpp.explanations._loops import cells_of_leaves
from kpp.explanations._wording import Wording
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
        The same for cells that read the same; of two others it is the same by a chance of 2**-64.
    by_words : bool array of shape (n_path_nodes,)
        Where the code says nothing of some of the conditions, and the words decide.
    """

    blocks: Sequence[ScoreBlock]
    forests: list[Forest]
    leaves: list[IntArray]
    categories: dict[int, list[Hashable]]
    block: AnyArray
    tree: AnyArray
    node: AnyArray
    code: AnyArray
    by_words: AnyArray
    _cells: dict[tuple[int, int], dict[int, Cell]] = field(default_factory=dict)

    @classmethod
    def of(cls, blocks: Sequence[ScoreBlock], row: RoutedRows, wording: Wording) -> RowPaths:
        """Walk up from the leaves of a row."""
        leaves = [np.ascontiguousarray(leaf_ids[:, 0]) for leaf_ids in row.leaf_ids]
        parts = []
        for b, block in enumerate(blocks):
            node, tree, code, by_words = _walk(wording, b, leaves[b])
            adds = block.scale_of(node) != 0
            if block.coef is not None:
                adds &= block.coef[:, node].any(axis=0)
            kept = np.flatnonzero(adds)
            own = (tree[kept], node[kept], code[kept], by_words[kept])
            parts.append((np.full(len(kept), b), *own))
        number, tree, node, code, by_words = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )
        known = wording.categories
        return cls(blocks, wording.forests, leaves, known, number, tree, node, code, by_words)

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

    def groups(self, wording: Wording, support: list[FloatArray]) -> AnyArray:
        """The number of the cell of each node: the same for those that read the same."""
        # Shares are sums of weights, rounded differently in different trees.
        share = np.concatenate(
            [
                np.round(own[self.node[self.block == number]], 12)
                for number, own in enumerate(support)
            ]
        )
        words: dict[Hashable, int] = {}
        number = np.zeros(len(self.node), dtype=np.int64)
        for i in np.flatnonzero(self.by_words).tolist():
            number[i] = words.setdefault(wording.key(self.cell(i)), len(words) + 1)
        order = np.lexsort((number, share, self.code))
        differs = np.zeros(len(order), dtype=bool)
        for key in (self.code, share, number):
            differs[1:] |= key[order[1:]] != key[order[:-1]]
        group = np.empty(len(order), dtype=np.int64)
        group[order] = np.cumsum(differs)
        return group


def merged(cells: Sequence[Cell]) -> Cell:
    """One cell for several that read the same: what fulfils all of them."""
    found: dict[Hashable, Condition] = {}
    for condition in chain.from_iterable(cells):
        old = found.setdefault(condition.place, condition)
        found[condition.place] = replace(
            old,
            low=max(old.low, condition.low),
            high=min(old.high, condition.high),
            missing=old.missing and condition.missing,
        )
    return tuple(sorted(found.values(), key=lambda condition: condition.place))


def _walk(
    wording: Wording, number: int, leaves: IntArray
) -> tuple[IntArray, IntArray, AnyArray, AnyArray]:
    """Nodes on the paths to leaves, their trees and codes, and where the words decide."""
    sets, forest = wording.sets, wording.forests[number]
    bounds = wording.vocabulary.thresholds.bounds[number]
    kind, is_told = wording.vocabulary.kinds[number], wording.missing | wording.other
    kept = sets.kept(wording.unseen)
    size = USUAL_DEPTH * len(leaves)
    while True:
        node, tree = np.empty((2, size), dtype=np.int32)
        code, n_path = np.empty(size, dtype=np.uint64), np.empty(1, dtype=np.int64)
        by_words = np.empty(size, dtype=bool)
        cells_of_leaves(
            *(forest.nodes, bounds, kind, sets.slot, sets.bit, sets.zero, sets.unit, sets.slack),
            *(kept, is_told, leaves, node, tree, code, by_words, n_path),
        )
        n = int(n_path[0])
        if n <= size:
            return node[:n], tree[:n], code[:n], by_words[:n]
        size = n
