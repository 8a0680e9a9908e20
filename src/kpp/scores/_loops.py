"""Compiled loops of the exports. Every array is checked before it comes here."""

from __future__ import annotations

from typing import Any

from kpp._compile import compiled


@compiled("in i8[]; in i4[]; out f8[]")
def add_to_parents(tree_offsets: Any, parent: Any, values: Any) -> None:
    """Turn values of leaves (0 elsewhere) into sums over the leaves below each node.

    `kpp.forest._loops.node_sums` does so for rows, whose values are the same in every tree.
    """
    for tree in range(tree_offsets.size - 1):
        for v in range(tree_offsets[tree + 1] - 1, tree_offsets[tree], -1):
            values[parent[v]] += values[v]
