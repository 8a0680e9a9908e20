"""Compiled loops of attribution and rules. Every array is checked before it comes here.

A loop runs tree by tree over a run of rows: the tables of one tree and the rows' own sums stay
in the cache. What a node needs is looked up while walking from the leaf to the root; nothing is
stored per node and variable, so memory does not depend on the depth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._compile import compiled, loop_helper
from kpp.forest.layout import NUMERICAL


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


@loop_helper
def mixed(bits: Any) -> Any:
    """Spread the bits of a number over all 64: numbers that differ by little differ by much."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@loop_helper
def code_of(column: Any, low: Any, high: Any, missing: Any, is_exact: Any) -> Any:
    """A number that conditions on a column share if they read the same."""
    code = mixed(np.uint64(2 * column + 1))
    if missing:
        code = mixed(code + np.uint64(1))
    # An infinite bound is not printed, whichever it is. A float's hash is that of its value, not of
    # its bits: both zeros have the same.
    if is_exact and not np.isinf(low):
        code = mixed(code + np.uint64(hash(low)))
    code = mixed(code + np.uint64(3))
    if is_exact and not np.isinf(high):
        code = mixed(code + np.uint64(hash(high)))
    return code


@compiled("Nodes; in u1[]; in b1[]; in i4[]; b1; out i4[]; out i4[]; out u8[]; out i8[]")
def cells_of_leaves(
    nodes: Any,
    split_kind: Any,
    is_told: Any,
    leaves: Any,
    is_exact: Any,
    path_node: Any,
    path_tree: Any,
    path_code: Any,
    n_path: Any,
) -> None:
    """List the nodes below the roots on the paths to some leaves, one of each tree, with codes.

    Cells that read the same have the same code, which is the sum of those of their conditions;
    others hardly ever have. Splits that are no threshold on a column are left out of the codes, and
    so are, unless `is_exact`, the thresholds themselves. `is_told` are the columns whose conditions
    say whether a missing value fulfils them. `n_path` is the number of nodes: more than fit where
    it exceeds the length of the arrays, which are then to be made longer.
    """
    tree_offsets, parent, left = nodes.tree_offsets, nodes.parent, nodes.left
    feature, threshold = nodes.feature, nodes.threshold
    missing_left = nodes.missing_left
    n_columns = is_told.size
    low = np.full(n_columns, -np.inf)
    high = np.full(n_columns, np.inf)
    missing = np.ones(n_columns, np.bool_)
    code = np.zeros(n_columns, np.uint64)
    n_path[0] = 0
    for tree in range(tree_offsets.size - 1):
        depth = 0
        v = leaves[tree]
        while parent[v] >= 0:
            depth += 1
            v = parent[v]
        first = n_path[0]
        n_path[0] += depth
        if n_path[0] > path_node.size:
            continue
        v = leaves[tree]
        for place in range(first + depth - 1, first - 1, -1):
            path_node[place] = v
            path_tree[place] = tree
            v = parent[v]
        # From the root down, because conditions narrow from split to split.
        total = np.uint64(0)
        for place in range(first, first + depth):
            v = path_node[place]
            above = parent[v]
            if split_kind[above] == NUMERICAL:
                j = feature[above]
                goes_left = v == left[above]
                missing[j] = missing[j] and missing_left[above] == goes_left
                if goes_left:
                    high[j] = min(high[j], threshold[above])
                else:
                    low[j] = max(low[j], threshold[above])
                total -= code[j]
                code[j] = code_of(j, low[j], high[j], missing[j] and is_told[j], is_exact)
                total += code[j]
            path_code[place] = total
        for place in range(first, first + depth):
            above = parent[path_node[place]]
            if split_kind[above] == NUMERICAL:
                j = feature[above]
                low[j], high[j], missing[j], code[j] = -np.inf, np.inf, True, np.uint64(0)
