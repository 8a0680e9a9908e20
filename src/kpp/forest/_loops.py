"""Compiled loops over trees and rows. Every array is checked before it comes here."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._compile import compiled
from kpp.forest.nodes import bit_of, category_goes_left, is_categorical, is_oblique, sum_at

# Rows that walk down a tree together. Their steps are independent of each other, so the
# processor overlaps the memory look-ups that a single walk would have to wait for.
ROWS_TOGETHER = 256


@compiled("in i4[]; in i4[]; i8; out i8[]; out i4[]; out i4[]; out b1[]")
def lay_out_tree(
    left: Any, right: Any, base: Any, order: Any, new_parent: Any, new_left: Any, is_tree: Any
) -> None:
    """List the nodes of one tree level by level, siblings side by side.

    ``order[k]`` is the node that gets the id ``base + k``. `is_tree` tells whether the children
    are those of a binary tree: every node reached once, two children or none.
    """
    size = left.size
    seen = np.zeros(size, np.bool_)
    seen[0] = True
    order[0] = 0
    new_parent[0] = -1
    n_listed = 1
    is_tree[0] = False
    for k in range(size):
        if k == n_listed:
            return  # the rest cannot be reached from the root
        node = order[k]
        a = left[node]
        b = right[node]
        new_left[k] = -1
        if a < 0 and b < 0:
            continue
        # One child, a child outside the arrays, or a node with two parents: following such links
        # could leave the arrays or never end.
        if a < 0 or b < 0 or a >= size or b >= size or a == b or seen[a] or seen[b]:
            return
        seen[a] = seen[b] = True
        order[n_listed] = a
        order[n_listed + 1] = b
        new_parent[n_listed] = new_parent[n_listed + 1] = base + k
        new_left[k] = base + n_listed
        n_listed += 2
    is_tree[0] = True


@compiled("in i8[]; in i4[]; in i4[]; out b1[]")
def check_levels(tree_offsets: Any, parent: Any, left: Any, in_order: Any) -> None:
    """Tell whether every tree is laid out as `lay_out_tree` does it."""
    in_order[0] = False
    for tree in range(tree_offsets.size - 1):
        root = tree_offsets[tree]
        end = tree_offsets[tree + 1]
        if parent[root] != -1:
            return
        # In canonical order the children of the splits, taken in order, are root + 1, root + 2,
        # ...: one counter checks parent, left, siblings and levels at once.
        child = root + 1
        for v in range(root, end):
            if left[v] == -1:
                continue
            if left[v] != child or child <= v or child + 1 >= end:
                return
            if parent[child] != v or parent[child + 1] != v:
                return
            child += 2
        if child != end:
            return
    in_order[0] = True


@compiled(
    "in f4[,]; Splits; i8; i8; i8; i8; out i4[,]",
    "in f8[,]; Splits; i8; i8; i8; i8; out i4[,]",
)
def route_numerical(
    X: Any,
    splits: Any,
    first_row: Any,
    last_row: Any,
    first_tree: Any,
    last_tree: Any,
    leaf_ids: Any,
) -> None:
    """Rule ``x <= threshold`` goes left, for rows without missing values.

    The walkers that are still above a leaf are kept in front (`node`, `row`), so that a short
    path costs no more than its length; the next node is computed without a branch, because
    the outcome of a good split cannot be predicted.
    """
    tree_offsets, left = splits.tree_offsets, splits.left
    feature, threshold = splits.feature, splits.threshold
    n_features = np.uint64(X.shape[1])
    values = X.reshape(-1)
    node = np.empty(ROWS_TOGETHER, np.uint32)
    row = np.empty(ROWS_TOGETHER, np.uint32)
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        for start in range(first_row, last_row, ROWS_TOGETHER):
            n_walking = min(ROWS_TOGETHER, last_row - start)
            for j in range(n_walking):
                node[j] = root
                row[j] = start + j
            while n_walking > 0:
                n_left = np.uint64(0)
                for j in range(n_walking):
                    v = node[j]
                    i = row[j]
                    child = left[v]
                    leaf_ids[tree, i] = v
                    # At a leaf this reads column 0 for nothing: cheaper than a branch, and the
                    # walker is dropped below because `child` is negative.
                    x = values[np.uint64(i) * n_features + np.uint64(max(feature[v], 0))]
                    node[n_left] = np.uint32(child + (not (x <= threshold[v])))
                    row[n_left] = i
                    n_left += np.uint64(child >= 0)
                n_walking = np.int64(n_left)


@compiled(
    "in f4[,]; Splits; i8; i8; i8; i8; out i4[,]",
    "in f8[,]; Splits; i8; i8; i8; i8; out i4[,]",
)
def route_any(
    X: Any,
    splits: Any,
    first_row: Any,
    last_row: Any,
    first_tree: Any,
    last_tree: Any,
    leaf_ids: Any,
) -> None:
    """Like `route_numerical`, with missing values and categorical splits.

    `category_offsets` has one entry per node and one more, or is empty where the forest has no
    categorical split: node v sends category c left iff bit c of its words is set.
    """
    tree_offsets, left = splits.tree_offsets, splits.left
    feature, threshold, missing_left = splits.feature, splits.threshold, splits.missing_left
    category_offsets, category_bits = splits.category_offsets, splits.category_bits
    n_features = np.uint64(X.shape[1])
    values = X.reshape(-1)
    has_categories = category_offsets.size > 0
    node = np.empty(ROWS_TOGETHER, np.uint32)
    row = np.empty(ROWS_TOGETHER, np.uint32)
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        for start in range(first_row, last_row, ROWS_TOGETHER):
            n_walking = min(ROWS_TOGETHER, last_row - start)
            for j in range(n_walking):
                node[j] = root
                row[j] = start + j
            while n_walking > 0:
                n_left = np.uint64(0)
                for j in range(n_walking):
                    v = node[j]
                    i = row[j]
                    child = left[v]
                    leaf_ids[tree, i] = v
                    x = values[np.uint64(i) * n_features + np.uint64(max(feature[v], 0))]
                    # NaN <= t is false, so a missing value counts as right, less its direction.
                    right = np.int32(not (x <= threshold[v])) - (
                        np.int32(np.isnan(x)) & np.int32(missing_left[v])
                    )
                    if has_categories and not np.isnan(x):
                        first_word = category_offsets[v]
                        n_words = category_offsets[np.uint64(v) + np.uint64(1)] - first_word
                        # Written out: by `category_goes_left` this loop is a tenth slower.
                        if n_words > 0:
                            right = np.int32(1)
                            if 0 <= x < 32.0 * n_words:
                                right -= bit_of(category_bits, first_word, x)
                    node[n_left] = np.uint32(child + right)
                    row[n_left] = i
                    n_left += np.uint64(child >= 0)
                n_walking = np.int64(n_left)


@compiled("in f4[,]; Splits; out i4[,]", "in f8[,]; Splits; out i4[,]")
def route_few(X: Any, splits: Any, leaf_ids: Any) -> None:
    """Like `route_numerical`, for all rows where these are few: they walk down all trees together.

    A single row would walk down one tree after the other, and wait at every node for the next.
    """
    tree_offsets, left = splits.tree_offsets, splits.left
    feature, threshold = splits.feature, splits.threshold
    n_features = np.uint64(X.shape[1])
    n_rows = X.shape[0]
    values = X.reshape(-1)
    found = leaf_ids.reshape(-1)
    node = np.empty(ROWS_TOGETHER, np.uint32)
    row = np.empty(ROWS_TOGETHER, np.uint32)
    place = np.empty(ROWS_TOGETHER, np.uint32)
    for start in range(0, found.size, ROWS_TOGETHER):
        n_walking = min(ROWS_TOGETHER, found.size - start)
        for j in range(n_walking):
            node[j] = tree_offsets[(start + j) // n_rows]
            row[j] = (start + j) % n_rows
            place[j] = start + j
        while n_walking > 0:
            n_left = np.uint64(0)
            for j in range(n_walking):
                v = node[j]
                i = row[j]
                p = place[j]
                child = left[v]
                found[p] = v
                x = values[np.uint64(i) * n_features + np.uint64(max(feature[v], 0))]
                node[n_left] = np.uint32(child + (not (x <= threshold[v])))
                row[n_left] = i
                place[n_left] = p
                n_left += np.uint64(child >= 0)
            n_walking = np.int64(n_left)


@compiled("in i8[]; in i4[]; out i4[]")
def depth_first_numbers(tree_offsets: Any, left: Any, out: Any) -> None:
    """Number the nodes of each tree in the order of a walk that goes left first, from 0."""
    for tree in range(tree_offsets.size - 1):
        root = tree_offsets[tree]
        end = tree_offsets[tree + 1]
        size = np.ones(end - root, np.int32)  # nodes of the subtree below each node
        for v in range(end - 1, root - 1, -1):
            if left[v] >= 0:
                size[v - root] += size[left[v] - root] + size[left[v] + 1 - root]
        out[root] = 0
        for v in range(root, end):
            if left[v] >= 0:
                out[left[v]] = out[v] + 1
                out[left[v] + 1] = out[v] + 1 + size[left[v] - root]


@compiled("in f8[,]; Splits; in i8[]; in i4[]; in f8[]; i8; i8; i8; i8; out i4[,]")
def route_oblique(
    X: Any,
    splits: Any,
    term_offsets: Any,
    term_columns: Any,
    term_weights: Any,
    first_row: Any,
    last_row: Any,
    first_tree: Any,
    last_tree: Any,
    leaf_ids: Any,
) -> None:
    """Like `route_any`, with oblique splits: a sum of columns in place of one column.

    The sum is taken in float64, term after term in stored order: the same bits as
    ``a[0] * x[0] + a[1] * x[1] + ...`` in NumPy, with no fused product.
    """
    tree_offsets, left = splits.tree_offsets, splits.left
    feature, threshold, missing_left = splits.feature, splits.threshold, splits.missing_left
    category_offsets, category_bits = splits.category_offsets, splits.category_bits
    n_features = np.uint64(X.shape[1])
    values = X.reshape(-1)
    node = np.empty(ROWS_TOGETHER, np.uint32)
    row = np.empty(ROWS_TOGETHER, np.uint32)
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        for start in range(first_row, last_row, ROWS_TOGETHER):
            n_walking = min(ROWS_TOGETHER, last_row - start)
            for j in range(n_walking):
                node[j] = root
                row[j] = start + j
            while n_walking > 0:
                n_left = 0
                for j in range(n_walking):
                    v = node[j]
                    i = row[j]
                    child = left[v]
                    leaf_ids[tree, i] = v
                    if child < 0:
                        continue
                    first = np.uint64(i) * n_features
                    if is_oblique(term_offsets, v):
                        x = sum_at(term_offsets, term_columns, term_weights, v, values, first)
                    else:
                        x = values[first + np.uint64(feature[v])]
                    if np.isnan(x):
                        goes_left = missing_left[v]
                    elif is_categorical(category_offsets, v):
                        goes_left = category_goes_left(category_offsets, category_bits, v, x)
                    else:
                        goes_left = x <= threshold[v]
                    node[n_left] = np.uint32(child if goes_left else child + 1)
                    row[n_left] = i
                    n_left += 1
                n_walking = n_left
