"""Sums over the leaves of the trees, without the nodes above them, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._compile import compiled


@compiled("in u2[,]; in i8[]; in f8[]; out f8[]", "in i4[,]; in i8[]; in f8[]; out f8[]")
def add_to_leaves(places: Any, first: Any, row_values: Any, out: Any) -> None:
    """``out[first[t] + places[t, i]] += row_values[i]`` for every tree t and row i."""
    for tree in range(places.shape[0]):
        own = out[first[tree] : first[tree + 1]]
        for i in range(places.shape[1]):
            own[np.uint64(places[tree, i])] += row_values[i]


@compiled("in u2[,]; in i8[]; in f8[]; out f8[]", "in i4[,]; in i8[]; in f8[]; out f8[]")
def take_from_leaves(places: Any, first: Any, leaf_values: Any, out: Any) -> None:
    """``out[i] += sum over trees t of leaf_values[first[t] + places[t, i]]``."""
    for tree in range(places.shape[0]):
        own = leaf_values[first[tree] : first[tree + 1]]
        for i in range(places.shape[1]):
            out[i] += own[np.uint64(places[tree, i])]
