"""Compiled loops of the attribution. Every array is checked before it comes here.

A loop runs tree by tree over a run of rows: the tables of one tree and the rows' own sums stay
in the cache. What a node needs is looked up while walking from the leaf to the root; nothing is
stored per node and variable, so memory does not depend on the depth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._compile import compiled


@compiled("in i4[,]; in i4[]; in i4[]; in i8[]; in i4[]; in f8[]; in f8[]; i8; i8; out f8[,]")
def add_by_variable(
    leaf_ids: Any,
    parent: Any,
    variable: Any,
    term_offsets: Any,
    term_columns: Any,
    term_shares: Any,
    contribution: Any,
    first_row: Any,
    last_row: Any,
    out: Any,
) -> None:
    """``out[i, variable[v]] += contribution[v]`` for the nodes v below a root that i is in.

    A variable below 0 stands for an oblique split: the contribution is shared out over its terms.
    """
    for tree in range(leaf_ids.shape[0]):
        for i in range(first_row, last_row):
            v = np.uint64(leaf_ids[tree, i])
            above = parent[v]
            # Up to the root and without it: no split stands above it, and it belongs to the
            # baseline.
            while above >= 0:
                if variable[v] >= 0:
                    out[i, np.uint64(variable[v])] += contribution[v]
                else:
                    for k in range(term_offsets[above], term_offsets[above + 1]):
                        out[i, term_columns[k]] += term_shares[k] * contribution[v]
                v = np.uint64(above)
                above = parent[v]


@compiled(
    "in i4[,]; in i4[]; in i4[]; in i8[]; in i4[]; in f8[]; in f8[]; in f8[,]; i8; i8; out f8[,]"
)
def add_by_tree(
    leaf_ids: Any,
    parent: Any,
    variable: Any,
    term_offsets: Any,
    term_columns: Any,
    term_shares: Any,
    contribution: Any,
    factor: Any,
    first_tree: Any,
    last_tree: Any,
    out: Any,
) -> None:
    """``out[t, j] +=`` the sum over rows i of ``factor[i, j]`` times t's part of value (i, j)."""
    for tree in range(first_tree, last_tree):
        for i in range(leaf_ids.shape[1]):
            v = np.uint64(leaf_ids[tree, i])
            above = parent[v]
            while above >= 0:
                if variable[v] >= 0:
                    j = np.uint64(variable[v])
                    out[tree, j] += factor[i, j] * contribution[v]
                else:
                    for k in range(term_offsets[above], term_offsets[above + 1]):
                        column = term_columns[k]
                        out[tree, column] += factor[i, column] * (term_shares[k] * contribution[v])
                v = np.uint64(above)
                above = parent[v]
