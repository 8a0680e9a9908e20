"""Loops on small trees taken together: rows that agree in several trees are added up once.

Two rows in the same set of every tree of a group get the same share of a product from them all.
So a group of p small trees is one pass over the rows, and p over the cells: the combinations of
sets that occur.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._compile import compiled
from kpp.geometry._loops import down_the_sets


@compiled("in i4[,]; in i8[]; i8; i8; i8; out u2[,]; out i8[]; out i8[]; out u2[,]")
def group_trees(
    sets: Any,
    n_sets: Any,
    first_tree: Any,
    last_tree: Any,
    most_cells: Any,
    cells: Any,
    group_stop: Any,
    n_cells: Any,
    cell_sets: Any,
) -> None:
    """Put consecutive trees into groups, as long as that saves work.

    A group of trees `first` to ``group_stop[first]`` has ``n_cells[first]`` cells;
    ``cells[first, i]`` is that of row i, and ``cell_sets[t, c]`` the set of tree t that cell c
    lies in. A product costs n / p + C for each of the p trees of a group with C cells.
    """
    n_rows = sets.shape[1]
    of_row = np.empty(n_rows, np.uint16)
    number = np.empty(most_cells * n_sets[first_tree:last_tree].max(), np.int32)
    cell_above = np.empty(most_cells, np.uint16)
    set_within = np.empty(most_cells, np.uint16)
    before = np.empty(most_cells, np.uint16)
    tree = first_tree
    while tree < last_tree:
        first = tree
        count = np.int64(1)
        cells[first, :] = 0
        while tree < last_tree:
            # Split the cells by the sets of one more tree, numbered as the rows meet them.
            width = n_sets[tree]
            number[: count * width] = -1
            found = np.int64(0)
            for i in range(n_rows):
                key = np.int64(cells[first, i]) * width + sets[tree, i]
                if number[key] < 0:
                    if found == most_cells:
                        break
                    number[key] = found
                    cell_above[found] = cells[first, i]
                    set_within[found] = sets[tree, i]
                    found += 1
                of_row[i] = number[key]
            else:
                n_trees = tree - first
                # The first tree always joins; the caller has seen that its sets are few enough.
                saves = n_trees == 0 or (n_rows / (n_trees + 1) + found < n_rows / n_trees + count)
                if saves:
                    cells[first, :] = of_row
                    for other in range(first, tree):
                        before[:count] = cell_sets[other, :count]
                        for c in range(found):
                            cell_sets[other, c] = before[cell_above[c]]
                    cell_sets[tree, :found] = set_within[:found]
                    count = found
                    tree += 1
                    continue
            break
        n_cells[first] = count
        group_stop[first] = tree


@compiled(
    "in u2[,]; in i8[]; in i8[]; in u2[,]; in i8[]; in i8[]; in i4[]; in f8[]; in f8[]; i8; i8; "
    "out f8[]"
)
def cells_matvec(
    cells: Any,
    group_stop: Any,
    n_cells: Any,
    cell_sets: Any,
    tree_offsets: Any,
    n_sets: Any,
    set_parent: Any,
    set_scale: Any,
    r: Any,
    first_tree: Any,
    last_tree: Any,
    out: Any,
) -> None:
    """``out += Phi Phi' r`` from the groups of `group_trees`, but for the diagonal."""
    total = np.empty(n_sets[first_tree:last_tree].max())
    within = np.empty(cell_sets.shape[1])
    value = np.empty(cell_sets.shape[1])
    first = first_tree
    while first < last_tree:
        count = n_cells[first]
        within[:count] = 0.0
        value[:count] = 0.0
        for i in range(cells.shape[1]):
            within[np.uint64(cells[first, i])] += r[i]
        for tree in range(first, group_stop[first]):
            root = tree_offsets[tree]
            size = n_sets[tree]
            total[:size] = 0.0
            for c in range(count):
                total[np.uint64(cell_sets[tree, c])] += within[c]
            down_the_sets(total, root, size, set_parent, set_scale)
            for c in range(count):
                value[c] += total[np.uint64(cell_sets[tree, c])]
        for i in range(cells.shape[1]):
            out[i] += value[np.uint64(cells[first, i])]
        first = group_stop[first]
