"""Compiled loops of the path metric. Every array is checked before it comes here.

The nodes of a tree stand level by level, siblings side by side, so a sum along paths is one
forward scan over pairs of siblings, and no loop has to ask whether a node is a leaf. Indices are
cast to unsigned where it counts: numba then leaves out its test for negative ones. Of the node
arrays only `tree_offsets` and `parent` are needed, and they are plain arguments: the products are
called thousands of times in a fit. What else a loop takes is different in each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._compile import compiled, loop_helper
from kpp.forest.nodes import largest_tree


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
    # One tree's path sums: small enough for the cache.
    total = np.empty(largest_tree(tree_offsets, first_tree, last_tree))
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        total[0] = scale[root] * w[root]
        # P(v) = P(parent(v)) + s_v w_v. Siblings have the same parent: its sum is read once for
        # both.
        for v in range(root + 1, tree_offsets[tree + 1], 2):
            above = total[np.uint64(parent[v] - root)]
            total[v - root] = above + scale[v] * w[v]
            total[v + 1 - root] = above + scale[v + 1] * w[v + 1]
        for i in range(leaf_ids.shape[1]):
            out[i] += total[np.uint64(leaf_ids[tree, i] - root)]


@compiled("in i4[,]; in i4[,]; in i8[]; in i4[]; in f8[]; in f8[]; in f8[,]; i8; i8; out f8[,]")
def gram_matmat(
    leaf_ids: Any,
    other_ids: Any,
    tree_offsets: Any,
    parent: Any,
    squared_scale: Any,
    tree_factor: Any,
    r: Any,
    first_tree: Any,
    last_tree: Any,
    out: Any,
) -> None:
    """``out[c] += sum over trees t of tree_factor[t] Phi'_t Phi_t' r[c]``, Phi' at other rows.

    One tree at a time: rows into leaves, backward scan, forward scan, leaves to rows. The only
    table is one tree's, and it is reused for the sums over subtrees and along paths.
    """
    total = np.empty(largest_tree(tree_offsets, first_tree, last_tree))
    for tree in range(first_tree, last_tree):
        factor = tree_factor[tree]
        if factor == 0.0:
            continue
        root = tree_offsets[tree]
        size = tree_offsets[tree + 1] - root
        for column in range(r.shape[0]):
            total[:size] = 0.0
            for i in range(leaf_ids.shape[1]):
                total[np.uint64(leaf_ids[tree, i] - root)] += r[column, i]
            # Rows sit at leaves only, so an inner node still holds 0 and takes the sum of its
            # children. Backward, both children are complete before their parent.
            for v in range(size - 2, 0, -2):
                total[np.uint64(parent[root + v] - root)] = total[v] + total[v + 1]
            # At a leaf, Phi Phi' r is the path sum of s_v^2 R_v; R_v is the sum of r over the rows
            # in v. Forward, the parent already holds its path sum, the node itself still R_v.
            total[0] *= factor * squared_scale[root]
            for v in range(1, size, 2):
                above = total[np.uint64(parent[root + v] - root)]
                total[v] = above + factor * squared_scale[root + v] * total[v]
                total[v + 1] = above + factor * squared_scale[root + v + 1] * total[v + 1]
            for i in range(other_ids.shape[1]):
                out[column, i] += total[np.uint64(other_ids[tree, i] - root)]


@compiled(
    "in i4[,]; in i8[]; in i4[]; in f8[]; i8; i8; out i4[,]; out i8[]; out i4[]; out f8[]; out f8[]"
)
def compact_trees(
    leaf_ids: Any,
    tree_offsets: Any,
    parent: Any,
    squared_scale: Any,
    first_tree: Any,
    last_tree: Any,
    sets: Any,
    n_sets: Any,
    set_parent: Any,
    set_scale: Any,
    diagonal: Any,
) -> None:
    """Keep of each tree the different sets of two and more rows that its nodes hold.

    ``sets[t, i]`` is the smallest set of tree t with row i, ``set_parent`` and ``set_scale`` hold
    the sets of tree t from ``tree_offsets[t]`` on (numbered within the tree, the root first), and
    ``diagonal[i]`` collects the squared coordinates of nodes that hold row i alone.
    """
    largest = largest_tree(tree_offsets, first_tree, last_tree)
    count = np.empty(largest, np.int32)
    set_of = np.empty(largest, np.int32)
    alone = np.empty(largest)
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        size = tree_offsets[tree + 1] - root
        count[:size] = 0
        for i in range(leaf_ids.shape[1]):
            count[leaf_ids[tree, i] - root] += 1
        # count[v]: the rows in node v.
        for v in range(size - 1, 0, -1):
            count[parent[root + v] - root] += count[v]
        set_of[0] = 0
        alone[0] = 0.0
        set_parent[root] = 0
        set_scale[root] = squared_scale[root]
        n_kept = 1
        for v in range(1, size):
            above = parent[root + v] - root
            set_of[v] = set_of[above]
            alone[v] = alone[above]
            # A set of one row meets no other row: s_v^2 goes to that row's diagonal entry, down the
            # path. (An empty node passes its sum to nobody: no row ends below it.)
            if count[v] <= 1:
                alone[v] += squared_scale[root + v]
            # The same rows as the parent: two coordinates of one set are one, with s^2 added up.
            elif count[v] == count[above]:
                set_scale[root + set_of[v]] += squared_scale[root + v]
            else:
                # Numbered as they come, so that a set's parent has a smaller number, as
                # `compact_matmat` needs.
                set_of[v] = n_kept
                set_parent[root + n_kept] = set_of[above]
                set_scale[root + n_kept] = squared_scale[root + v]
                n_kept += 1
        n_sets[tree] = n_kept
        for i in range(leaf_ids.shape[1]):
            v = leaf_ids[tree, i] - root
            sets[tree, i] = set_of[v]
            diagonal[i] += alone[v]


@loop_helper
def down_the_sets(total: Any, root: Any, size: Any, set_parent: Any, set_scale: Any) -> None:
    """Add the sums of sets into their parents; then sum s^2 times them down each path."""
    for v in range(size - 1, 0, -1):
        total[np.uint64(set_parent[root + v])] += total[v]
    total[0] *= set_scale[root]
    for v in range(1, size):
        above = total[np.uint64(set_parent[root + v])]
        total[v] = above + set_scale[root + v] * total[v]


@compiled("in i4[,]; in i8[]; in i8[]; in i4[]; in f8[]; in f8[]; i8; i8; out f8[]")
def compact_matvec(
    sets: Any,
    tree_offsets: Any,
    n_sets: Any,
    set_parent: Any,
    set_scale: Any,
    r: Any,
    first_tree: Any,
    last_tree: Any,
    out: Any,
) -> None:
    """``out += Phi Phi' r`` from the sets of `compact_trees`, but for the diagonal."""
    # As `gram_matmat`, but a set need not have a sibling: one node at a time, and rows may sit at
    # inner sets, so children are added to what is there.
    total = np.empty(n_sets[first_tree:last_tree].max())
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        size = n_sets[tree]
        total[:size] = 0.0
        for i in range(sets.shape[1]):
            total[np.uint64(sets[tree, i])] += r[i]
        down_the_sets(total, root, size, set_parent, set_scale)
        for i in range(sets.shape[1]):
            out[i] += total[np.uint64(sets[tree, i])]


@compiled("in i4[,]; in i8[]; in i8[]; in i4[]; in f8[]; in f8[,]; i8; i8; out f8[,]")
def compact_matmat(
    sets: Any,
    tree_offsets: Any,
    n_sets: Any,
    set_parent: Any,
    set_scale: Any,
    r: Any,
    first_tree: Any,
    last_tree: Any,
    out: Any,
) -> None:
    """`compact_matvec` of columns that lie side by side, row by row."""
    # A number that is fetched brings its neighbours along: all columns cost little more than one.
    width = r.shape[1]
    total = np.empty((n_sets[first_tree:last_tree].max(), width))
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        size = n_sets[tree]
        total[:size] = 0.0
        for i in range(sets.shape[1]):
            own = np.uint64(sets[tree, i])
            for c in range(width):
                total[own, c] += r[i, c]
        for v in range(size - 1, 0, -1):
            above = np.uint64(set_parent[root + v])
            for c in range(width):
                total[above, c] += total[v, c]
        for c in range(width):
            total[0, c] *= set_scale[root]
        for v in range(1, size):
            above = np.uint64(set_parent[root + v])
            scale = set_scale[root + v]
            for c in range(width):
                total[v, c] = total[above, c] + scale * total[v, c]
        for i in range(sets.shape[1]):
            own = np.uint64(sets[tree, i])
            for c in range(width):
                out[i, c] += total[own, c]


@compiled("in i4[,]; in i8[]; in i8[]; in i4[]; in f8[]; in f8[,]; i8; i8; out f8[,]")
def compact_matmat_4(
    sets: Any,
    tree_offsets: Any,
    n_sets: Any,
    set_parent: Any,
    set_scale: Any,
    r: Any,
    first_tree: Any,
    last_tree: Any,
    out: Any,
) -> None:
    """`compact_matmat` of four columns: a fixed number becomes vector instructions."""
    total = np.empty((n_sets[first_tree:last_tree].max(), 4))
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        size = n_sets[tree]
        total[:size] = 0.0
        for i in range(sets.shape[1]):
            own = np.uint64(sets[tree, i])
            for c in range(4):
                total[own, c] += r[i, c]
        for v in range(size - 1, 0, -1):
            above = np.uint64(set_parent[root + v])
            for c in range(4):
                total[above, c] += total[v, c]
        for c in range(4):
            total[0, c] *= set_scale[root]
        for v in range(1, size):
            above = np.uint64(set_parent[root + v])
            scale = set_scale[root + v]
            for c in range(4):
                total[v, c] = total[above, c] + scale * total[v, c]
        for i in range(sets.shape[1]):
            own = np.uint64(sets[tree, i])
            for c in range(4):
                out[i, c] += total[own, c]


@compiled("in i4[,]; in i8[]; in i8[]; in i4[]; in f8[]; in f8[,]; i8; i8; out f8[,]")
def compact_matmat_8(
    sets: Any,
    tree_offsets: Any,
    n_sets: Any,
    set_parent: Any,
    set_scale: Any,
    r: Any,
    first_tree: Any,
    last_tree: Any,
    out: Any,
) -> None:
    """`compact_matmat` of eight columns."""
    total = np.empty((n_sets[first_tree:last_tree].max(), 8))
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        size = n_sets[tree]
        total[:size] = 0.0
        for i in range(sets.shape[1]):
            own = np.uint64(sets[tree, i])
            for c in range(8):
                total[own, c] += r[i, c]
        for v in range(size - 1, 0, -1):
            above = np.uint64(set_parent[root + v])
            for c in range(8):
                total[above, c] += total[v, c]
        for c in range(8):
            total[0, c] *= set_scale[root]
        for v in range(1, size):
            above = np.uint64(set_parent[root + v])
            scale = set_scale[root + v]
            for c in range(8):
                total[v, c] = total[above, c] + scale * total[v, c]
        for i in range(sets.shape[1]):
            own = np.uint64(sets[tree, i])
            for c in range(8):
                out[i, c] += total[own, c]


@compiled("in i4[,]; in i4[,]; in i8[]; in i4[]; in f8[]; in f8[]; b1; i8; i8; i8; out f8[,]")
def fill_pairs(
    leaf_ids: Any,
    other_ids: Any,
    tree_offsets: Any,
    parent: Any,
    squared_norm: Any,
    step: Any,
    distance: Any,
    first_row: Any,
    last_row: Any,
    last_column: Any,
    out: Any,
) -> None:
    """Add the Gram, or the path distance, between rows of two samples to `out`.

    Seen from one leaf a, a forward scan gives every node v of the tree its value: on a's path
    the Gram's C(v) (`squared_norm`), or the length of the path from a up to v; off the path the
    parent's value plus `step[v]`, which is 0 for the Gram and v's squared coordinate for the
    distance. Only nonnegative numbers are added, so nothing cancels.
    """
    n_trees = tree_offsets.size - 1
    largest = largest_tree(tree_offsets, 0, n_trees)
    value = np.empty(largest)
    path = np.empty(largest, np.int64)
    on_path = np.empty(largest)
    for tree in range(n_trees):
        root = tree_offsets[tree]
        size = tree_offsets[tree + 1] - root
        for i in range(first_row, last_row):
            # Up from the leaf: path[0] is the leaf, path[depth - 1] the root.
            depth = 0
            climbed = 0.0
            v = np.int64(leaf_ids[tree, i])
            while v >= 0:
                path[depth] = v - root
                on_path[depth] = climbed if distance else squared_norm[v]
                climbed += step[v]
                depth += 1
                v = np.int64(parent[v])
            value[0] = on_path[depth - 1]
            done = 1  # nodes before this one have their value; from here on, pairs of siblings
            for level in range(depth - 2, -2, -1):
                # Down again. Pairs of siblings begin at odd places within a tree; all nodes before
                # the pair that the path goes through next lie off the path. Below the leaf the rest
                # of the tree does.
                pair = size if level < 0 else path[level] - (path[level] - 1) % 2
                for u in range(done, pair, 2):
                    above = value[np.uint64(parent[root + u] - root)]
                    value[u] = above + step[root + u]
                    value[u + 1] = above + step[root + u + 1]
                if level >= 0:
                    # The places of a pair add up to 2 pair + 1.
                    beside = 2 * pair + 1 - path[level]
                    value[beside] = on_path[level + 1] + step[root + beside]
                    value[path[level]] = on_path[level]
                done = pair + 2
            row = out[i]
            for j in range(last_column):
                row[j] += value[np.uint64(other_ids[tree, j] - root)]


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
        # Ids rise from tree to tree and from parent to child: backward from the last leaf to the
        # first root, the columns fall, and no sorting is needed.
        position = row_start[i + 1]
        for tree in range(leaf_ids.shape[0] - 1, -1, -1):
            v = leaf_ids[tree, i]
            while v >= 0:
                if scale[v] > 0.0:
                    position -= 1
                    columns[position] = v
                    values[position] = scale[v]
                v = parent[v]
