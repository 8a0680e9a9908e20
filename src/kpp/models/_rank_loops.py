"""Compiled loops over ranks. Every array is checked before it comes here."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._compile import compiled


@compiled("in f8[,]; in f8[,]; in f8[]; in i8[]; i8; out f8[]")
def rank_of_scaled_sums(
    shift: Any, scale: Any, steps: Any, starts: Any, rank: Any, out: Any
) -> None:
    """``out[i]``: the `rank`-th smallest of all ``shift[q, i] + scale[q, i] * steps[j]``.

    j is in part q. Part q of `steps`, from ``starts[q]`` to ``starts[q + 1]``, rises; and so do
    its sums, for no scale is below 0, and rounding keeps the order. Of the numbers that are left,
    the first s of each part are looked at together, with s times the number of parts below the
    rank that is left: where the last of them is the smallest, all of these s come before the
    rank, and they are passed over.
    """
    n_parts = starts.size - 1
    left = np.empty(n_parts, np.int64)
    for i in range(out.size):
        left[:] = starts[:-1]
        k = rank
        while k > n_parts:
            s = (k - 1) // n_parts
            best = -1
            least = np.inf
            for q in range(n_parts):
                last = left[q] + s - 1
                if last < starts[q + 1]:
                    value = shift[q, i] + scale[q, i] * steps[last]
                    if best < 0 or value < least:
                        best = q
                        least = value
            left[best] += s
            k -= s
        # The answer is among the next k of each part.
        n = 0
        for q in range(n_parts):
            n += min(k, starts[q + 1] - left[q])
        rest = np.empty(n)
        n = 0
        for q in range(n_parts):
            for j in range(left[q], left[q] + min(k, starts[q + 1] - left[q])):
                rest[n] = shift[q, i] + scale[q, i] * steps[j]
                n += 1
        rest.sort()
        out[i] = rest[k - 1]


@compiled("in i8[]; in i4[]; in f8[]; f8; out f8[,]")
def small_nodes_as_parents(
    tree_offsets: Any, parent: Any, n_rows: Any, least: Any, values: Any
) -> None:
    """Give a node of fewer than `least` rows the values of its parent, from the root down."""
    for tree in range(tree_offsets.size - 1):
        for v in range(tree_offsets[tree] + 1, tree_offsets[tree + 1]):
            if n_rows[v] < least:
                for k in range(values.shape[0]):
                    values[k, v] = values[k, parent[v]]
