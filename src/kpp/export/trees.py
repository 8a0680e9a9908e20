"""Trees as the operators of ONNX have them: ``TreeEnsemble`` and ``TreeEnsembleRegressor``."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import AnyArray, BoolArray, FloatArray, OffsetArray
from kpp.export.graph import Graph
from kpp.forest import Forest
from kpp.forest.layout import CATEGORICAL, OBLIQUE
from kpp.forest.sets import sets_of

# How a node of `TreeEnsemble` compares.
LEQ, MEMBER = 0, 6


class TreeTable:
    """The trees of a forest, with what every split compares and with what.

    Parameters
    ----------
    forest : Forest
        Compares in float64.
    values : array of shape (n_scores, n_nodes)
        What a leaf adds to each score.
    oblique : int array of shape (n_nodes,)
        Column of the extended rows that an oblique split compares.
    dtype : numpy dtype
        float64, or float32 for rows of float32: thresholds go down to the next float32, so that
        such a row goes where it went.
    """

    def __init__(self, forest: Forest, values: FloatArray, oblique: Any, dtype: Any) -> None:
        self.forest, self.values, self.dtype = forest, values, np.dtype(dtype)
        kind = forest.split_kind
        self.feature = np.where(kind == OBLIQUE, oblique, forest.feature)
        self.threshold = np.where(kind == CATEGORICAL, 0.0, forest.threshold)
        self.threshold[forest.is_leaf] = 0.0
        self.mode = np.where(kind == CATEGORICAL, MEMBER, LEQ).astype(np.uint8)
        self.sets = self._sets() if (kind == CATEGORICAL).any() else {}
        if self.dtype == np.float32:
            self.threshold = floor_float32(self.threshold)

    def _sets(self) -> dict[int, AnyArray]:
        """The codes that go left, by node; sets of the lowest codes become thresholds."""
        forest = self.forest
        sets: dict[int, AnyArray] = {}
        categorical = np.flatnonzero(forest.split_kind == CATEGORICAL)
        for column in np.unique(forest.feature[categorical]).tolist():
            nodes = categorical[forest.feature[categorical] == column]
            n_codes = len(forest.categories[column])
            inside = sets_of(forest, nodes, n_codes)
            size = inside.sum(axis=1)
            # Codes 0, 1, ..., k - 1: none, some, or all of them.
            lowest = (inside == (np.arange(n_codes) < size[:, None])).all(axis=1)
            self.mode[nodes[lowest]] = LEQ
            self.threshold[nodes[lowest]] = size[lowest] - 0.5
            sets |= {v: np.flatnonzero(row) for v, row in zip(nodes.tolist(), inside, strict=True)}
        return {v: codes for v, codes in sets.items() if self.mode[v] == MEMBER}

    def constants(self) -> tuple[BoolArray, FloatArray]:
        """Which trees add the same number to a score in every leaf, and the sums of these.

        Returns
        -------
        is_constant : bool array of shape (n_scores, n_trees)
        sums : array of shape (n_scores,)
        """
        starts = self.forest.tree_offsets[:-1]
        leaf = self.forest.is_leaf
        least = np.minimum.reduceat(np.where(leaf, self.values, np.inf), starts, axis=1)
        most = np.maximum.reduceat(np.where(leaf, self.values, -np.inf), starts, axis=1)
        same = least == most
        return same, np.where(same, least, 0.0).sum(axis=1)


def floor_float32(values: FloatArray) -> FloatArray:
    """The largest float32 at or below each number; ``x <= t`` of a float32 x keeps its answer.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.export.trees import floor_float32
    >>> floor_float32(np.array([1.0, 1.0 - 2.0**-30, np.inf])).tolist()
    [1.0, 0.9999999403953552, inf]
    """
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    return np.where(near.astype(np.float64) > values, below, near).astype(np.float64)


def add_trees(graph: Graph, table: TreeTable, rows: str) -> tuple[str | None, FloatArray]:
    """Add the operator that sums the leaves of every row.

    Parameters
    ----------
    graph : Graph
        Where it goes.
    table : TreeTable
        The trees.
    rows : str
        Tensor of shape (n_rows, n_columns), of the table's dtype.

    Returns
    -------
    scores : str or None
        Tensor of shape (n_rows, n_scores); None where no tree tells rows apart.
    constant : array of shape (n_scores,)
        What the other trees add to the scores of every row.
    """
    constant, sums = table.constants()
    if constant.all():
        return None, sums
    if graph.ml_opset >= 5:
        attributes = ensemble_attributes(table, constant)
        scores = graph.node("TreeEnsemble", [rows], attributes, ml=True)
    else:
        attributes = regressor_attributes(table, constant)
        scores = graph.node("TreeEnsembleRegressor", [rows], attributes, ml=True)
    return scores, sums


def ensemble_attributes(table: TreeTable, constant: BoolArray) -> dict[str, Any]:
    """Attributes of ``TreeEnsemble``, of version 5: a leaf adds to one score.

    Trees of several scores are there once for each, except where they are constant.
    """
    forest = table.forest
    parts: list[dict[str, AnyArray]] = []
    n_inner = n_leaves = 0
    for score, own in enumerate(table.values):
        trees = np.flatnonzero(~constant[score])
        if not len(trees):
            continue
        nodes = _nodes(forest, trees)
        leaf = forest.is_leaf[nodes]
        inner, leaves = nodes[~leaf], nodes[leaf]
        # Splits and leaves are counted by themselves.
        place = np.empty(forest.n_nodes, dtype=np.int64)
        place[inner] = n_inner + np.arange(len(inner))
        place[leaves] = n_leaves + np.arange(len(leaves))
        left, right = forest.left[inner], forest.right[inner]
        parts.append(
            {
                "inner": inner,
                "nodes_truenodeids": place[left],
                "nodes_falsenodeids": place[right],
                "nodes_trueleafs": forest.is_leaf[left],
                "nodes_falseleafs": forest.is_leaf[right],
                "leaf_targetids": np.full(len(leaves), score),
                "leaf_weights": own[leaves],
                "tree_roots": place[forest.roots[trees]],
            }
        )
        n_inner, n_leaves = n_inner + len(inner), n_leaves + len(leaves)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    inner, weights = joined.pop("inner"), joined.pop("leaf_weights")
    attributes: dict[str, Any] = {
        name: np.asarray(values, dtype=np.int64).tolist() for name, values in joined.items()
    }
    attributes |= {
        "nodes_featureids": table.feature[inner].tolist(),
        "nodes_splits": table.threshold[inner].astype(table.dtype),
        "nodes_modes": table.mode[inner],
        "nodes_missing_value_tracks_true": forest.missing_left[inner].astype(np.int64).tolist(),
        "leaf_weights": weights.astype(table.dtype),
        "n_targets": len(table.values),
        "aggregate_function": 1,  # the sum
        "post_transform": 0,  # none
    }
    members = [table.sets[v] for v in inner[table.mode[inner] == MEMBER].tolist()]
    if members:
        # Sets one after the other, in the order of their nodes, each ended by NaN.
        ended = [np.append(codes.astype(np.float64), np.nan) for codes in members]
        attributes["membership_values"] = np.concatenate(ended).astype(table.dtype)
    return attributes


def regressor_attributes(table: TreeTable, constant: BoolArray) -> dict[str, Any]:
    """Attributes of ``TreeEnsembleRegressor``, of version 3: every leaf adds to all scores.

    It has no sets of categories, and its scores are float32 whatever it computes in.
    """
    forest = table.forest
    if table.sets:
        column = int(forest.feature[next(iter(table.sets))])
        raise TypeError(
            "ml_opset=3 has no splits on sets of categories, and this forest has "
            f"{len(table.sets)}, the first on column {column}. Use ml_opset=5."
        )
    trees = np.flatnonzero(~constant.all(axis=0))
    nodes = _nodes(forest, trees)
    tree = forest.tree_of_node[nodes]
    leaf = forest.is_leaf[nodes]
    # Within its tree, every node has a number.
    start = forest.tree_offsets[:-1][tree]
    leaves, n_scores = nodes[leaf], len(table.values)
    attributes: dict[str, Any] = {
        "nodes_treeids": tree,
        "nodes_nodeids": nodes - start,
        "nodes_featureids": np.where(leaf, 0, table.feature[nodes]),
        "nodes_truenodeids": np.where(leaf, 0, forest.left[nodes] - start),
        "nodes_falsenodeids": np.where(leaf, 0, forest.right[nodes] - start),
        "nodes_missing_value_tracks_true": np.where(leaf, 0, forest.missing_left[nodes]),
        "target_treeids": np.repeat(tree[leaf], n_scores),
        "target_nodeids": np.repeat(leaves - start[leaf], n_scores),
        "target_ids": np.tile(np.arange(n_scores), len(leaves)),
    }
    attributes = {name: np.asarray(v, dtype=np.int64).tolist() for name, v in attributes.items()}
    attributes["nodes_modes"] = np.where(leaf, "LEAF", "BRANCH_LEQ").tolist()
    weights = np.where(constant[:, forest.tree_of_node[leaves]], 0.0, table.values[:, leaves])
    numbers = {"nodes_values": table.threshold[nodes], "target_weights": weights.T.ravel()}
    for name, values in numbers.items():
        if table.dtype == np.float64:
            attributes[f"{name}_as_tensor"] = values
        else:
            attributes[name] = values.tolist()
    attributes |= {"n_targets": n_scores, "aggregate_function": "SUM"}
    return attributes


def _nodes(forest: Forest, trees: OffsetArray) -> OffsetArray:
    if len(trees) == forest.n_trees:
        return np.arange(forest.n_nodes)
    return np.asarray(np.arange(forest.n_nodes)[forest.nodes_of(trees)])
