"""Maps that keep only what the forest does not imply; the rest is made when it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.forest.derived import let_go, stands_in
from kpp.forest.packed import PackedStatistics
from kpp.geometry.maps import PathMap, _squared_scale
from kpp.geometry.weights import DerivedWeights, path_weights


def make_lean(block: PathMap, node_weight: Any = None) -> None:
    """Let a map, and its forest, drop what is implied by the rest; nobody sees the difference.

    Weights and coordinates, where they follow from the forest bit for bit; parents and the source's
    numbers; and leaf ids and statistics in smaller types. Each comes back, and stays, when it is
    asked for. A prediction asks for none of it.

    Parameters
    ----------
    block : PathMap
        Changed in place: whoever calls this owns it, and its forest.
    node_weight : str, optional
        The weights that it was made with, where they have a name.
    """
    forest, weights = block.forest, block.weights
    if isinstance(node_weight, str) and _implied(block, node_weight):
        block.weights = DerivedWeights(forest, node_weight, weights.tree_mass, weights.forest_mass)
    for name in ("squared_scale", "scale"):
        block.__dict__.pop(name, None)
    kinds = (np.uint8, np.uint16, np.int32)
    kind = next(k for k in kinds if forest.max_tree_nodes - 1 <= np.iinfo(k).max)
    if kind is not np.int32:
        # Their places in their trees.
        block.__dict__["_leaf_places"] = (block.leaf_ids - forest.roots[:, None]).astype(kind)
        block.__dict__.pop("leaf_ids")
    statistics = forest.statistics
    if statistics is not None and not isinstance(statistics, PackedStatistics):
        object.__setattr__(forest, "statistics", PackedStatistics(statistics, forest))
    let_go(forest)


def _implied(block: PathMap, node_weight: str) -> bool:
    """Whether the weights are those that the forest's own statistics make, bit for bit."""
    try:
        made = path_weights(block.forest, node_weight, allow_no_mass=True)
    except ValueError:  # no such name, or the forest has no statistics for it
        return False
    return all(
        same_bits(getattr(made, name), getattr(block.weights, name)) for name in ("node", "edge")
    )


def same_bits(a: AnyArray, b: AnyArray) -> bool:
    """Whether two arrays of float64 are equal to the sign of their zeros."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return a.shape == b.shape and np.array_equal(a.view(np.int64), b.view(np.int64))


def _leaf_ids(block: PathMap) -> IntArray:
    leaf_ids = block.__dict__["_leaf_places"] + block.forest.roots[:, None].astype(np.int32)
    leaf_ids.flags.writeable = False
    return np.asarray(leaf_ids, dtype=np.int32)


def _squared_coordinates(block: PathMap) -> FloatArray:
    return _squared_scale(block.forest, block.weights, block.normalize)


stands_in(PathMap, "leaf_ids", _leaf_ids)
stands_in(PathMap, "squared_scale", _squared_coordinates)
