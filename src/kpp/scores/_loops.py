"""Compiled loops from rows of numbers straight to scores. Arrays are checked before."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._compile import compiled, loop_helper

# Rows, or trees of a single row, that walk side by side: their steps do not wait for each other.
TOGETHER = 8


@loop_helper
def step(nodes: Any, thresholds: Any, rows: Any, first: Any, v: Any) -> Any:
    """The next node of the row that begins at `first`; a leaf is its own next one.

    Four numbers of 32 bits a node: feature, left child, and the two halves of the threshold, which
    `thresholds` reads from the same memory. A leaf has itself as its left child, and no finite
    value is beyond its threshold.
    """
    place = v * np.uint64(4)
    x = rows[first + np.uint64(nodes[place])]
    goes_right = np.uint64(not (x <= thresholds[v * np.uint64(2) + np.uint64(1)]))
    return np.uint64(nodes[place + np.uint64(1)]) + goes_right


@loop_helper
def walk(nodes: Any, thresholds: Any, rows: Any, first: Any, v: Any) -> Any:
    """The leaf of one row below node v."""
    following = step(nodes, thresholds, rows, first, v)
    while following != v:
        v = following
        following = step(nodes, thresholds, rows, first, v)
    return v


@compiled("in f8[]; i8; in i4[]; in f8[]; in i8[]; in f8[,]; i8; i8; out f8[,]")
def add_leaves(
    rows: Any,
    n_features: Any,
    nodes: Any,
    thresholds: Any,
    tree_offsets: Any,
    values: Any,
    first_row: Any,
    last_row: Any,
    out: Any,
) -> None:
    """``out[k, i] += sum over trees t of values[k, leaf of row i in t]``, trees in order."""
    p = np.uint64(n_features)
    end = first_row + (last_row - first_row) // TOGETHER * TOGETHER
    for tree in range(tree_offsets.size - 1):
        root = np.uint64(tree_offsets[tree])
        for i in range(first_row, end, TOGETHER):
            r0 = np.uint64(i) * p
            r1 = r0 + p
            r2 = r1 + p
            r3 = r2 + p
            r4 = r3 + p
            r5 = r4 + p
            r6 = r5 + p
            r7 = r6 + p
            v0 = v1 = v2 = v3 = v4 = v5 = v6 = v7 = root
            after = root * np.uint64(TOGETHER)
            before = after + np.uint64(1)
            # Children stand behind their parents: the sum rises until all are in their leaves.
            while after != before:
                before = after
                v0 = step(nodes, thresholds, rows, r0, v0)
                v1 = step(nodes, thresholds, rows, r1, v1)
                v2 = step(nodes, thresholds, rows, r2, v2)
                v3 = step(nodes, thresholds, rows, r3, v3)
                v4 = step(nodes, thresholds, rows, r4, v4)
                v5 = step(nodes, thresholds, rows, r5, v5)
                v6 = step(nodes, thresholds, rows, r6, v6)
                v7 = step(nodes, thresholds, rows, r7, v7)
                after = ((v0 + v1) + (v2 + v3)) + ((v4 + v5) + (v6 + v7))
            for k in range(out.shape[0]):
                own = values[k]
                total = out[k, i : i + TOGETHER]
                total[0] += own[v0]
                total[1] += own[v1]
                total[2] += own[v2]
                total[3] += own[v3]
                total[4] += own[v4]
                total[5] += own[v5]
                total[6] += own[v6]
                total[7] += own[v7]
        for i in range(end, last_row):
            v = walk(nodes, thresholds, rows, np.uint64(i) * p, root)
            for k in range(out.shape[0]):
                out[k, i] += values[k, v]


@compiled("in f8[]; i8; in i4[]; in f8[]; in i8[]; in f8[,]; i8; i8; out f8[,]")
def add_leaves_of_few(
    rows: Any,
    n_features: Any,
    nodes: Any,
    thresholds: Any,
    tree_offsets: Any,
    values: Any,
    first_row: Any,
    last_row: Any,
    out: Any,
) -> None:
    """As `add_leaves`, for few rows: each walks down several trees at a time.

    The trees are added in the same order, so the sums are the same.
    """
    p = np.uint64(n_features)
    n_trees = tree_offsets.size - 1
    end = n_trees // TOGETHER * TOGETHER
    for i in range(first_row, last_row):
        r = np.uint64(i) * p
        for tree in range(0, end, TOGETHER):
            v0 = np.uint64(tree_offsets[tree])
            v1 = np.uint64(tree_offsets[tree + 1])
            v2 = np.uint64(tree_offsets[tree + 2])
            v3 = np.uint64(tree_offsets[tree + 3])
            v4 = np.uint64(tree_offsets[tree + 4])
            v5 = np.uint64(tree_offsets[tree + 5])
            v6 = np.uint64(tree_offsets[tree + 6])
            v7 = np.uint64(tree_offsets[tree + 7])
            before = np.uint64(0)
            after = np.uint64(1)
            while after != before:
                before = after
                v0 = step(nodes, thresholds, rows, r, v0)
                v1 = step(nodes, thresholds, rows, r, v1)
                v2 = step(nodes, thresholds, rows, r, v2)
                v3 = step(nodes, thresholds, rows, r, v3)
                v4 = step(nodes, thresholds, rows, r, v4)
                v5 = step(nodes, thresholds, rows, r, v5)
                v6 = step(nodes, thresholds, rows, r, v6)
                v7 = step(nodes, thresholds, rows, r, v7)
                after = ((v0 + v1) + (v2 + v3)) + ((v4 + v5) + (v6 + v7))
            for k in range(out.shape[0]):
                own = values[k]
                total = out[k, i]
                total += own[v0]
                total += own[v1]
                total += own[v2]
                total += own[v3]
                total += own[v4]
                total += own[v5]
                total += own[v6]
                total += own[v7]
                out[k, i] = total
        for tree in range(end, n_trees):
            v = walk(nodes, thresholds, rows, r, np.uint64(tree_offsets[tree]))
            for k in range(out.shape[0]):
                out[k, i] += values[k, v]


@compiled("in f8[]; i8; in i8[]; in f8[]; in f8[]; in f8[]; in f8[]; in f8[,]; i8; i8; out f8[,]")
def add_terms(
    rows: Any,
    n_features: Any,
    columns: Any,
    low: Any,
    high: Any,
    mean: Any,
    slope: Any,
    coef: Any,
    first_row: Any,
    last_row: Any,
    out: Any,
) -> None:
    """``out[k, i] += sum over terms j of coef[k, j] * coordinate j of row i``, terms in order."""
    p = np.uint64(n_features)
    for k in range(out.shape[0]):
        for i in range(first_row, last_row):
            first = np.uint64(i) * p
            total = out[k, i]
            for j in range(columns.size):
                x = rows[first + np.uint64(columns[j])]
                total += coef[k, j] * ((min(max(x, low[j]), high[j]) - mean[j]) * slope[j])
            out[k, i] = total
