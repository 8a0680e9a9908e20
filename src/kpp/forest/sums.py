"""Sums along the paths of a forest and over its subtrees, compiled.

The rooms that build on a forest call these loops themselves, for runs of trees that they share out
over threads. Every array is checked before it comes here; `Forest.path_sums` and `Forest.leaf_sums`
check what they are given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._compile import compiled
from kpp._typing import FloatArray


@compiled("in i8[]; in i4[]; in f8[]; i8; i8; out f8[]")
def path_sums(
    tree_offsets: Any, parent: Any, values: Any, first_tree: Any, last_tree: Any, out: Any
) -> None:
    """``out[v] = sum of values[u] over the nodes u from the root to v``."""
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        out[root] = values[root]
        # Parents stand before their children, so that out[parent[v]] is complete.
        for v in range(root + 1, tree_offsets[tree + 1]):
            out[v] = out[parent[v]] + values[v]


@compiled("in i4[,]; in f8[]; i8; i8; out f8[]")
def gather_leaves(
    leaf_ids: Any, leaf_values: Any, first_tree: Any, last_tree: Any, out: Any
) -> None:
    """``out[i] += sum over trees t of leaf_values[leaf of row i in t]``."""
    for tree in range(first_tree, last_tree):
        for i in range(leaf_ids.shape[1]):
            out[i] += leaf_values[np.uint64(leaf_ids[tree, i])]


@compiled("in i4[,]; in f8[,]; i8; i8; out f8[,]")
def gather_scores(leaf_ids: Any, leaf_values: Any, first_row: Any, last_row: Any, out: Any) -> None:
    """``out[k, i] += sum over trees t of leaf_values[k, leaf of row i in t]``, trees in order."""
    for tree in range(leaf_ids.shape[0]):
        leaves = leaf_ids[tree, first_row:last_row]
        for k in range(out.shape[0]):
            total, values = out[k, first_row:last_row], leaf_values[k]
            for i in range(total.size):
                total[i] += values[np.uint64(leaves[i])]


@compiled("in i4[,]; in i8[]; in i4[]; in f8[]; in f8[]; i8; i8; out f8[]")
def node_sums(
    leaf_ids: Any,
    tree_offsets: Any,
    parent: Any,
    scale: Any,
    row_values: Any,
    first_tree: Any,
    last_tree: Any,
    out: Any,
) -> None:
    """``out[v] = scale[v] * sum of row_values[i] over the rows i in the region S_v``.

    Rows are added into their leaves; then one backward scan adds siblings into their parent.
    Siblings stand side by side, so the scan goes by pairs and needs no test for leaves.
    """
    n_rows = leaf_ids.shape[1]
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        end = tree_offsets[tree + 1]
        out[root:end] = 0.0
        for i in range(n_rows):
            out[np.uint64(leaf_ids[tree, i])] += row_values[i]
        # A parent is set, not added to: no row sits at an inner node. A node is scaled only after
        # its plain sum went into its parent.
        for v in range(end - 2, root, -2):
            out[np.uint64(parent[v])] = out[v] + out[v + 1]
            out[v] *= scale[v]
            out[v + 1] *= scale[v + 1]
        out[root] *= scale[root]


@compiled("in i8[]; in i4[]; out f8[]")
def add_to_parents(tree_offsets: Any, parent: Any, values: Any) -> None:
    """Turn values of leaves (0 elsewhere) into sums over the leaves below each node.

    `node_sums` does so for rows, whose values are the same in every tree.
    """
    for tree in range(tree_offsets.size - 1):
        for v in range(tree_offsets[tree + 1] - 1, tree_offsets[tree], -1):
            values[parent[v]] += values[v]


def as_vector(values: Any, length: int) -> FloatArray:
    """Contiguous float64, of the length that the compiled loops rely on."""
    vector = np.ascontiguousarray(values, dtype=np.float64)
    if vector.shape != (length,):
        raise ValueError(f"Expected a vector of shape ({length},); got {vector.shape}.")
    return vector
