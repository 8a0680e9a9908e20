"""Compiled loops of attribution and rules. Every array is checked before it comes here.

A loop runs tree by tree over a run of rows: the tables of one tree and the rows' own sums stay
in the cache. What a node needs is looked up while walking from the leaf to the root; nothing is
stored per node and variable, so memory does not depend on the depth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._compile import compiled, loop_helper


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
def code_of(column: Any, low: Any, high: Any, missing: Any) -> Any:
    """A number that conditions on a column share if they read the same."""
    code = mixed(np.uint64(2 * column + 1))
    if missing:
        code = mixed(code + np.uint64(1))
    # An infinite bound is not printed, whichever it is. A float's hash is that of its value, not of
    # its bits: both zeros have the same.
    if not np.isinf(low):
        code = mixed(code + np.uint64(hash(low)))
    code = mixed(code + np.uint64(3))
    if not np.isinf(high):
        code = mixed(code + np.uint64(hash(high)))
    return code


@loop_helper
def set_code(slot: Any, members: Any, missing: Any) -> Any:
    """A number that sets of categories of a slot share if they are the same."""
    code = mixed(np.uint64(2 * slot + 1) + np.uint64(5))
    if missing:
        code = mixed(code + np.uint64(1))
    return mixed(code + members)


@compiled(
    "Nodes; in f8[]; in u1[]; in i4[]; in i4[]; in f8[]; in f8[]; in f8[]; in u8[]; in b1[]; "
    "in i4[]; out i4[]; out i4[]; out u8[]; out b1[]; out i8[]"
)
def cells_of_leaves(
    nodes: Any,
    bounds: Any,
    kind: Any,
    slot: Any,
    bit: Any,
    zero: Any,
    unit: Any,
    slack: Any,
    kept: Any,
    is_told: Any,
    leaves: Any,
    path_node: Any,
    path_tree: Any,
    path_code: Any,
    by_words: Any,
    n_path: Any,
) -> None:
    """List the nodes below the roots on the paths to some leaves, one of each tree, with codes.

    Cells that read the same have the same code, which is the sum of those of their conditions;
    of two others it is the same by a chance of 2**-64. `bounds` stand for the thresholds, and the
    columns are read as `Sets` says. Below a split that is read in none of these ways, `by_words` is
    set and the code is that of the other conditions. `is_told` are the columns whose conditions
    say whether a missing value fulfils them. `n_path` is the number of nodes: more than fit where
    it exceeds the length of the arrays, which are then to be made longer.
    """
    tree_offsets, parent, left = nodes.tree_offsets, nodes.parent, nodes.left
    feature, threshold = nodes.feature, nodes.threshold
    missing_left = nodes.missing_left
    category_offsets, category_bits = nodes.category_offsets, nodes.category_bits
    n_columns = is_told.size
    one, none = np.uint64(1), np.uint64(0)
    unseen = one << np.uint64(63)
    low = np.full(n_columns, -np.inf)
    high = np.full(n_columns, np.inf)
    missing = np.ones(n_columns, np.bool_)
    members = kept.copy()
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
        total = none
        in_words = False
        for place in range(first, first + depth):
            v = path_node[place]
            above = parent[v]
            j = feature[above]
            if j < 0 or kind[j] == 4:
                in_words = True
            else:
                goes_left = v == left[above]
                s = slot[j]
                missing[s] = missing[s] and missing_left[above] == goes_left
                told = missing[s] and is_told[j]
                total -= code[s]
                if kind[j] == 0:
                    if goes_left:
                        high[s] = min(high[s], bounds[above])
                    else:
                        low[s] = max(low[s], bounds[above])
                    code[s] = code_of(s, low[s], high[s], told)
                else:
                    inside = none
                    if kind[j] == 3:
                        # Words of 32 bits, no more than two of them.
                        for k in range(category_offsets[above], category_offsets[above + 1]):
                            shift = np.uint64(32 * (k - category_offsets[above]))
                            inside |= np.uint64(category_bits[k]) << shift
                    else:
                        t = (threshold[above] - zero[j]) / unit[j] + slack[j]
                        own = one << np.uint64(bit[j])
                        if kind[j] == 1:
                            inside = (own if t >= 1 else none) | (~own if t >= 0 else none)
                        elif t >= 0:
                            inside = ~none if t >= 63 else (one << np.uint64(np.floor(t) + 1)) - one
                    if not goes_left:
                        inside = ~inside
                    members[s] &= inside | unseen
                    code[s] = set_code(s, members[s], told)
                total += code[s]
            path_code[place] = total
            by_words[place] = in_words
        for place in range(first, first + depth):
            j = feature[parent[path_node[place]]]
            if j >= 0:
                s = slot[j]
                low[s], high[s], missing[s], code[s] = -np.inf, np.inf, True, none
                members[s] = kept[s]


@compiled("in i4[]; in i4[]; in i8[]; in i4[]; b1; out i4[]; out i4[]; out b1[]")
def columns_of_paths(
    parent: Any,
    variable: Any,
    term_offsets: Any,
    term_columns: Any,
    last_two: Any,
    first: Any,
    second: Any,
    is_more: Any,
) -> None:
    """The columns that the splits above each node test: one, two, or more.

    `first` and `second` are two of them in rising order, -1 where there are fewer, and `is_more`
    where there are others besides. With `last_two` the two are those nearest to the node, and
    there are no others. Parents stand before their children.
    """
    nearest = np.full(parent.size, -1, np.int32)
    before = np.full(parent.size, -1, np.int32)
    for v in range(parent.size):
        above = parent[v]
        is_more[v] = False
        if above < 0:
            first[v], second[v] = -1, -1
            continue
        near, far, more = nearest[above], before[above], is_more[above]
        n_terms = 1
        if variable[v] < 0:
            n_terms = term_offsets[above + 1] - term_offsets[above]
        for k in range(n_terms):
            j = variable[v]
            if variable[v] < 0:
                j = term_columns[term_offsets[above] + k]
            if j == near:
                continue
            if j == far or far < 0 or last_two:
                near, far = j, near
            else:
                more = True
        nearest[v], before[v], is_more[v] = near, far, more
        first[v], second[v] = near, far
        if far >= 0 and far < near:
            first[v], second[v] = far, near
