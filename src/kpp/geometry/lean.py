"""Maps that keep only what the forest does not imply; the rest is made when it is asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray, IntArray
from kpp.forest.arrays import Forest
from kpp.forest.derived import let_go, stands_in
from kpp.forest.packed import PackedStatistics
from kpp.geometry.maps import PathMap, _squared_scale
from kpp.geometry.weights import NODE_WEIGHTS, PathWeights, path_weights


class DerivedWeights(PathWeights):
    """Weights that a forest implies by its own statistics; made, and kept, when asked for.

    Parameters
    ----------
    forest : Forest
        The trees.
    node_weight : {"gain", "entropy", "variance", "uniform"}
        As in `path_weights`.
    tree_mass : array of shape (n_trees,)
        :math:`A_t`.
    forest_mass : float
        :math:`S_T`.

    Examples
    --------
    >>> from kpp.forest import Forest, Tree
    >>> from kpp.geometry.lean import DerivedWeights
    >>> stump = Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0, 0, 0], threshold=[0, 0, 0])
    >>> forest = Forest.from_trees([stump], n_features=1)
    >>> DerivedWeights(forest, "uniform", [1.0], 1.0).edge
    array([0.5, 0.5, 0.5])
    """

    def __init__(
        self, forest: Forest, node_weight: str, tree_mass: FloatArray, forest_mass: float
    ) -> None:
        # The fields of a frozen dataclass; those of nodes are properties here.
        vars(self).update(
            forest=forest, node_weight=node_weight, tree_mass=tree_mass, forest_mass=forest_mass
        )

    def _made(self, name: str) -> FloatArray:
        # Both at once, since the edges follow from the nodes.
        made = path_weights(vars(self)["forest"], vars(self)["node_weight"], allow_no_mass=True)
        vars(self).update(node=made.node, edge=made.edge)
        values: FloatArray = vars(self)[name]
        return values

    node = cached_property(lambda self: self._made("node"))
    edge = cached_property(lambda self: self._made("edge"))


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
    if isinstance(node_weight, str) and node_weight in NODE_WEIGHTS and _implied(block, node_weight):
        block.weights = DerivedWeights(
            forest, node_weight, weights.tree_mass, weights.forest_mass
        )
    for name in ("squared_scale", "scale"):
        vars(block).pop(name, None)
    places = block.leaf_ids - forest.roots[:, None]
    kind = next(k for k in (np.uint8, np.uint16, np.int32) if forest.max_tree_nodes - 1 <= np.iinfo(k).max)
    if np.dtype(kind).itemsize < block.leaf_ids.itemsize:
        vars(block)["_leaf_places"] = places.astype(kind)
        vars(block).pop("leaf_ids")
    statistics = forest.statistics
    if statistics is not None and not isinstance(statistics, PackedStatistics):
        object.__setattr__(forest, "statistics", PackedStatistics(statistics, forest))
    let_go(forest)


def _implied(block: PathMap, node_weight: str) -> bool:
    """Whether the weights are those that the forest's own statistics make, bit for bit."""
    try:
        made = path_weights(block.forest, node_weight, allow_no_mass=True)
    except ValueError:  # the forest has no statistics for it
        return False
    return all(
        same_bits(getattr(made, name), getattr(block.weights, name)) for name in ("node", "edge")
    )


def same_bits(a: AnyArray, b: AnyArray) -> bool:
    """Whether two arrays of float64 are equal to the sign of their zeros."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return a.shape == b.shape and np.array_equal(a.view(np.int64), b.view(np.int64))


def _leaf_ids(block: PathMap) -> IntArray:
    leaf_ids = vars(block)["_leaf_places"] + block.forest.roots[:, None].astype(np.int32)
    leaf_ids.flags.writeable = False
    return np.asarray(leaf_ids, dtype=np.int32)


def _squared_coordinates(block: PathMap) -> FloatArray:
    return _squared_scale(block.forest, block.weights, block.normalize)


stands_in(PathMap, "leaf_ids", _leaf_ids)
stands_in(PathMap, "squared_scale", _squared_coordinates)
