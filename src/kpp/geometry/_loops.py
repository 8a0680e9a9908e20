"""Compiled loops of the path metric. Every array is checked before it comes here.

The nodes of a tree stand level by level, siblings side by side, so a sum along paths is one
forward scan over pairs of siblings, and no loop has to ask whether a node is a leaf. Indices are
cast to unsigned where it counts: numba then leaves out its test for negative ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._compile import compiled


@compiled("in i8[]; in i4[]; in f8[]; i8; i8; out f8[]")
def path_sums(
    tree_offsets: Any, parent: Any, values: Any, first_tree: Any, last_tree: Any, out: Any
) -> None:
    """``out[v] = sum of values[u] over the nodes u from the root to v``."""
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        out[root] = values[root]
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


@compiled("in i4[,]; in i8[]; in i4[]; in f8[]; in f8[]; i8; i8; out f8[]")
def map_matvec(
    leaf_ids: Any,
    tree_offsets: Any,
    parent: Any,
    scale: Any,
    w: Any,
    first_tree: Any,
    last_tree: Any,
    out: Any,
) -> None:
    """``out += Phi w``: path sums of ``scale * w`` tree by tree, gathered at the leaves."""
    largest = 0
    for tree in range(first_tree, last_tree):
        largest = max(largest, tree_offsets[tree + 1] - tree_offsets[tree])
    total = np.empty(largest)  # one tree's path sums: small enough for the cache
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        total[0] = scale[root] * w[root]
        for v in range(root + 1, tree_offsets[tree + 1], 2):
            above = total[np.uint64(parent[v] - root)]
            total[v - root] = above + scale[v] * w[v]
            total[v + 1 - root] = above + scale[v + 1] * w[v + 1]
        for i in range(leaf_ids.shape[1]):
            out[i] += total[np.uint64(leaf_ids[tree, i] - root)]


@compiled("in i4[,]; in i8[]; in i4[]; in f8[]; in f8[]; in f8[]; i8; i8; out f8[]")
def gram_matvec(
    leaf_ids: Any,
    tree_offsets: Any,
    parent: Any,
    squared_scale: Any,
    tree_factor: Any,
    r: Any,
    first_tree: Any,
    last_tree: Any,
    out: Any,
) -> None:
    """``out += sum over trees t of tree_factor[t] Phi_t Phi_t' r``.

    One tree at a time: rows into leaves, backward scan, forward scan, leaves to rows. The only
    table is one tree's, and it is reused for the sums over subtrees and along paths.
    """
    n_rows = leaf_ids.shape[1]
    largest = 0
    for tree in range(first_tree, last_tree):
        largest = max(largest, tree_offsets[tree + 1] - tree_offsets[tree])
    total = np.empty(largest)
    for tree in range(first_tree, last_tree):
        factor = tree_factor[tree]
        if factor == 0.0:
            continue
        root = tree_offsets[tree]
        size = tree_offsets[tree + 1] - root
        total[:size] = 0.0
        for i in range(n_rows):
            total[np.uint64(leaf_ids[tree, i] - root)] += r[i]
        for v in range(size - 2, 0, -2):
            total[np.uint64(parent[root + v] - root)] = total[v] + total[v + 1]
        total[0] *= factor * squared_scale[root]
        for v in range(1, size, 2):
            above = total[np.uint64(parent[root + v] - root)]
            total[v] = above + factor * squared_scale[root + v] * total[v]
            total[v + 1] = above + factor * squared_scale[root + v + 1] * total[v + 1]
        for i in range(n_rows):
            out[i] += total[np.uint64(leaf_ids[tree, i] - root)]


@compiled("in i8[]; in i4[]; in i4[]; out i4[]; out i4[]")
def leaf_ranges(tree_offsets: Any, parent: Any, left: Any, first_leaf: Any, last_leaf: Any) -> None:
    """Number the leaves of each tree from left to right: v's are ``first_leaf:last_leaf``."""
    for tree in range(tree_offsets.size - 1):
        root = tree_offsets[tree]
        end = tree_offsets[tree + 1]
        for v in range(root, end):
            last_leaf[v] = 1 if left[v] < 0 else 0  # for now, the number of leaves below v
        for v in range(end - 1, root, -1):
            last_leaf[parent[v]] += last_leaf[v]
        first_leaf[root] = 0
        for v in range(root + 1, end, 2):
            first_leaf[v] = first_leaf[parent[v]]
            first_leaf[v + 1] = first_leaf[v] + last_leaf[v]
        for v in range(root, end):
            last_leaf[v] += first_leaf[v]


@compiled(
    "in i4[,]; in i4[,]; in i8[]; in i4[]; in i4[]; in i4[]; in f8[]; i8; b1; i8; i8; i8; out f8[,]"
)
def fill_pairs(
    leaf_ids: Any,
    other_leaf: Any,
    tree_offsets: Any,
    parent: Any,
    first_leaf: Any,
    last_leaf: Any,
    squared_norm: Any,
    largest_tree: Any,
    distance: Any,
    first_row: Any,
    last_row: Any,
    last_column: Any,
    out: Any,
) -> None:
    """Add the Gram (or the path distance) between rows of two samples to `out`.

    With C(v) the path sum of squared coordinates (`squared_norm`) and u the lowest common
    ancestor, the Gram of leaves a and b in a tree is C(u), their distance
    (C(a) - C(u)) + (C(b) - C(u)). Seen from leaf a, the leaves that share the ancestor u are
    two runs of consecutive leaves: one table over leaves is filled run by run while climbing
    from a, then read off for every row of the other sample (`other_leaf`: leaf numbers).
    """
    table = np.empty(largest_tree)
    end_norm = np.empty(largest_tree)
    for tree in range(tree_offsets.size - 1):
        root = tree_offsets[tree]
        if distance:
            for v in range(root, tree_offsets[tree + 1]):
                if last_leaf[v] - first_leaf[v] == 1:
                    end_norm[first_leaf[v]] = squared_norm[v]
        others = other_leaf[tree]
        for i in range(first_row, last_row):
            a = leaf_ids[tree, i]
            inside_first = first_leaf[a]
            inside_last = inside_first
            u = a
            while u >= 0:
                common = squared_norm[u]
                here = squared_norm[a] - common
                for run in range(2):
                    start = first_leaf[u] if run == 0 else inside_last
                    stop = inside_first if run == 0 else last_leaf[u]
                    if distance:
                        for leaf in range(start, stop):
                            table[leaf] = here + (end_norm[leaf] - common)
                    else:
                        for leaf in range(start, stop):
                            table[leaf] = common
                inside_first = first_leaf[u]
                inside_last = last_leaf[u]
                u = parent[u]
            row = out[i]
            for j in range(last_column):
                row[j] += table[np.uint64(others[j])]


@compiled("in i4[,]; in i4[]; in f8[]; in i8[]; i8; i8; out i4[]; out f8[]")
def fill_csr(
    leaf_ids: Any,
    parent: Any,
    scale: Any,
    row_start: Any,
    first_row: Any,
    last_row: Any,
    columns: Any,
    values: Any,
) -> None:
    """Write the nonzero coordinates of each row, columns rising, from its last to its first."""
    for i in range(first_row, last_row):
        position = row_start[i + 1]
        for tree in range(leaf_ids.shape[0] - 1, -1, -1):
            v = leaf_ids[tree, i]
            while v >= 0:
                if scale[v] > 0.0:
                    position -= 1
                    columns[position] = v
                    values[position] = scale[v]
                v = parent[v]
