"""The trees of CatBoost's dumps in JSON: one split a level, or nodes that hold each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from kpp._typing import AnyArray, BoolArray, FloatArray, OffsetArray
from kpp.forest.bare import means_below
from kpp.forest.layout import Tree


@dataclass(frozen=True, eq=False)
class Columns:
    """What the splits of a dump stand for.

    Parameters
    ----------
    column : dict of (str, int) to int
        The name that a split gives its kind of column, and the number among these -> column of X.
    missing_left : dict of int to bool
        Column of numbers -> whether NaN goes left, which is below all borders.
    categories : dict of int to array
        Columns of categories: those that are known, by code; no one where no split asks for any.
    hashes : dict of int to array
        Of the columns that splits ask for: the hash of each category.
    """

    column: dict[tuple[str, int], int]
    missing_left: dict[int, bool]
    categories: dict[int, AnyArray]
    hashes: dict[int, AnyArray]

    def read_splits(
        self, splits: Iterable[dict[str, Any]]
    ) -> tuple[OffsetArray, FloatArray, BoolArray, list[AnyArray | None]]:
        """Columns, thresholds and sides of missing values; and the codes that go left, or None."""
        feature, threshold, missing_left = [], [], []
        left_codes: list[AnyArray | None] = []
        for split in splits:
            if split["split_type"] == "FloatFeature":
                j = self.column["float_feature_index", split["float_feature_index"]]
                threshold.append(split["border"])
                missing_left.append(self.missing_left[j])
                left_codes.append(None)
            else:
                # The category of the split goes right, and everything else left: unknown ones too.
                j = self.column["cat_feature_index", split["cat_feature_index"]]
                threshold.append(np.nan)
                missing_left.append(True)
                left_codes.append(np.flatnonzero(self.hashes[j] != split["value"]))
            feature.append(j)
        return (
            np.array(feature, dtype=np.int64),
            np.array(threshold, dtype=np.float64),
            np.array(missing_left, dtype=bool),
            left_codes,
        )


@dataclass(frozen=True, eq=False)
class ReadTree:
    """A tree and what its leaves hold.

    Parameters
    ----------
    tree : Tree
        Its `source_leaf` is the library's number of each leaf, -1 at inner nodes.
    values : array of shape (n_leaves, n_scores)
        By these numbers.
    weights : array of shape (n_leaves,)
        Weight of the rows of training in each.
    """

    tree: Tree
    values: FloatArray
    weights: FloatArray


def symmetric_tree(dump: dict[str, Any], columns: Columns) -> ReadTree:
    """Read a tree of one split a level, as the full binary tree that it stands for."""
    splits = dump["splits"] or ()  # None of a tree that is a leaf
    depth = len(splits)
    feature, threshold, missing_left, left_codes = columns.read_splits(splits)
    left, level, number = full_tree(depth)
    leaves = (0, 1 << depth)  # to the right of the splits, where nothing of these is read
    tree = Tree(
        left=left,
        right=np.where(left < 0, -1, left + 1),
        feature=np.pad(feature[level], leaves),
        threshold=np.pad(threshold[level], leaves),
        missing_left=np.pad(missing_left[level], leaves),
        left_categories={
            v: codes
            for i, codes in enumerate(left_codes)
            if codes is not None
            for v in range((1 << i) - 1, (2 << i) - 1)
        },
        source_leaf=number,
    )
    # A model may come without weights; leaves then count alike.
    weights = dump.get("leaf_weights") or np.ones(1 << depth)
    return ReadTree(
        tree,
        np.array(dump["leaf_values"], dtype=np.float64).reshape(1 << depth, -1),
        np.array(weights, dtype=np.float64),
    )


@lru_cache(maxsize=32)
def full_tree(depth: int) -> tuple[OffsetArray, OffsetArray, OffsetArray]:
    """Lay out the full binary tree that one split a level stands for, level by level.

    Parameters
    ----------
    depth : int
        Number of splits.

    Returns
    -------
    left : int array of shape (2**(depth + 1) - 1,)
        Left children, -1 at leaves.
    level : int array of shape (2**depth - 1,)
        Split of each inner node; the first one is at the root.
    number : int array of shape (2**(depth + 1) - 1,)
        CatBoost's number of each leaf: bit i is set where a row passes split i to the right. -1
        at inner nodes.

    Examples
    --------
    >>> from kpp.forest.importers.catboost_trees import full_tree
    >>> left, level, number = full_tree(2)
    >>> left.tolist(), level.tolist(), number.tolist()
    ([1, 3, 5, -1, -1, -1, -1], [0, 1, 1], [-1, -1, -1, 0, 2, 1, 3])
    """
    n_inner = (1 << depth) - 1
    inner, place, levels = np.arange(n_inner), np.arange(n_inner + 1), np.arange(depth)
    # Among the leaves from left to right, the split at the root decides the highest bit.
    number = np.zeros(n_inner + 1, dtype=np.int64)
    for i in range(depth):
        number |= ((place >> (depth - 1 - i)) & 1) << i
    return (
        np.concatenate([2 * inner + 1, np.full(n_inner + 1, -1)]),
        np.repeat(levels, 1 << levels),
        np.concatenate([np.full(n_inner, -1), number]),
    )


def other_tree(dump: dict[str, Any], columns: Columns, *, leaf_first: bool) -> ReadTree:
    """Read a tree of any shape, whose nodes hold each other.

    Parameters
    ----------
    dump : dict
        The root.
    columns : Columns
        What its splits stand for.
    leaf_first : bool
        Whether the walk that numbers the leaves takes a leaf before the subtree beside it;
        otherwise it goes left first.

    Returns
    -------
    read : ReadTree
    """
    nodes: list[dict[str, Any]] = []
    children: tuple[list[int], list[int]] = [], []
    waiting = [(dump, -1, 0)]
    while waiting:
        node, parent, side = waiting.pop()
        v = len(nodes)
        if parent >= 0:
            children[side][parent] = v
        nodes.append(node)
        for own in children:
            own.append(-1)
        if "split" in node:
            # The last one is the next.
            below = [(node["right"], v, 1), (node["left"], v, 0)]
            if leaf_first and "split" in node["left"] and "split" not in node["right"]:
                below.reverse()
            waiting += below
    is_leaf = np.array(["split" not in node for node in nodes])
    leaves = [node for node in nodes if "split" not in node]
    read = columns.read_splits(node["split"] for node in nodes if "split" in node)
    # Nothing of these is read at leaves.
    per_node = [np.zeros(len(nodes), dtype=own.dtype) for own in read[:3]]
    for whole, of_splits in zip(per_node, read[:3], strict=True):
        whole[~is_leaf] = of_splits
    tree = Tree(
        left=children[0],
        right=children[1],
        feature=per_node[0],
        threshold=per_node[1],
        missing_left=per_node[2],
        left_categories={
            int(v): codes
            for v, codes in zip(np.flatnonzero(~is_leaf), read[3], strict=True)
            if codes is not None
        },
        source_leaf=np.where(is_leaf, np.cumsum(is_leaf) - 1, -1),
    )
    return ReadTree(
        tree,
        np.array([leaf["value"] for leaf in leaves], dtype=np.float64).reshape(len(leaves), -1),
        np.array([leaf["weight"] for leaf in leaves], dtype=np.float64),
    )


def node_values(read: Sequence[ReadTree]) -> FloatArray:
    """Values of all nodes of all trees: at inner nodes the means over the rows of training.

    Parameters
    ----------
    read : sequence of ReadTree
        The trees.

    Returns
    -------
    values : array of shape (n_scores, n_nodes)
        In the order of the trees as they are given.
    """
    left, right, number = (
        np.concatenate([np.asarray(getattr(one.tree, name)) for one in read])
        for name in ("left", "right", "source_leaf")
    )
    n_leaves = np.array([len(one.weights) for one in read])
    sizes = 2 * n_leaves - 1
    first_node = np.repeat(np.cumsum(sizes) - sizes, sizes)
    first_leaf = np.repeat(np.cumsum(n_leaves) - n_leaves, sizes)
    is_leaf = left < 0
    leaf = np.where(is_leaf, first_leaf + number, 0)  # any one at inner nodes, where none is read
    values = means_below(
        np.where(is_leaf, -1, left + first_node),
        np.where(is_leaf, -1, right + first_node),
        np.concatenate([one.values for one in read])[leaf],
        np.concatenate([one.weights for one in read])[leaf],
    )
    return values.T
