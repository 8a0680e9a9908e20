"""Boxes that gained or lost rows: nodes of a model's own trees, in the words of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._shown import Shown
from kpp._typing import BoolArray, FloatArray, IntArray
from kpp.diagnostics.shift import Shift
from kpp.explanations import words_of_nodes
from kpp.forest.arrays import Forest
from kpp.forest.sums import path_sums
from kpp.geometry.composed import forest_blocks
from kpp.models.asking import Question

# Conditions that people still read at a glance.
DEEPEST = 3
# Boxes whose rows are more correlated than this are the same news; so are a box and its sibling.
SAME = 0.7
MOST_TRIED = 300


@dataclass(frozen=True)
class Box(Shown):
    """A box of the table that gained or lost rows.

    Parameters
    ----------
    text : str
        Its conditions, in numbers rounded so that the rows of the fit stay on their sides.
    reference, new : float
        Share of the rows of each sample in it.
    z : float
        The change over its standard error, were both samples alike. Boxes are chosen for large
        ones among many: read the order, not a probability.
    """

    text: str
    reference: float
    new: float
    z: float


def changed_boxes(question: Question, shift: Shift, top: int) -> list[Box]:
    """Find the nodes whose share of rows changed most, each telling something new.

    Parameters
    ----------
    question : Question
        The model.
    shift : Shift
        Both samples, in its map.
    top : int
        Most boxes to list.

    Returns
    -------
    boxes : list of Box
        The largest standardised change first. Nodes of at most three splits that the metric
        counts; one that holds nearly the rows of a box above, or nearly all others, is left out.
    """
    pairs = list(zip(forest_blocks(shift.reference), forest_blocks(shift.new), strict=True))
    n, m = shift.sizes
    found: list[tuple[float, int, int, float, float]] = []
    for number, ((_, reference), (_, new)) in enumerate(pairs):
        p, q = reference.rows_below() / n, new.rows_below() / m
        z = standardised(p, q, n, m)
        forest = reference.forest
        z[(depth_of(forest) > DEEPEST) | (reference.squared_scale <= 0)] = 0.0
        order = np.argsort(-np.abs(z), kind="stable")[:MOST_TRIED]
        found += [
            (float(z[v]), number, int(v), float(p[v]), float(q[v])) for v in order if z[v] != 0
        ]
    found.sort(key=lambda one: -abs(one[0]))
    kept: list[BoolArray] = []
    boxes: list[Box] = []
    for z_value, number, v, p_value, q_value in found[:MOST_TRIED]:
        (_, reference), (_, new) = pairs[number]
        inside = rows_inside(reference.forest, v, [reference.leaf_ids, new.leaf_ids])
        if any(_tell_the_same(inside, other) for other in kept):
            continue
        kept.append(inside)
        (text,) = words_of_nodes(question, number, [v])
        boxes.append(Box(text, p_value, q_value, z_value))
        if len(boxes) == top:
            break
    return boxes


def standardised(p: FloatArray, q: FloatArray, n: int, m: int) -> FloatArray:
    r"""Changes of shares over their standard errors, :math:`(q - p) / \sqrt{V (1/n + 1/m)}`.

    Parameters
    ----------
    p, q : arrays of shape (n_nodes,)
        Shares of both samples.
    n, m : int
        Their rows.

    Returns
    -------
    z : array of shape (n_nodes,)
        With V the variance of being in the node over all rows; 0 where every row, or none, is.
    """
    total = n + m
    both = (n * p + m * q) / total
    variance = both * (1 - both) * total / (total - 1) * (1 / n + 1 / m)
    return np.divide(q - p, np.sqrt(variance), out=np.zeros(len(p)), where=variance > 1e-15)


def depth_of(forest: Forest) -> FloatArray:
    """Number of splits above each node, shape (n_nodes,).

    Parameters
    ----------
    forest : Forest
        Any.
    """
    below_root = np.ones(forest.n_nodes)
    below_root[forest.roots] = 0.0
    return forest.path_sums(below_root)


def rows_inside(forest: Forest, node: int, leaf_ids: list[IntArray]) -> Any:
    """Say of every row whether it is in a node.

    Parameters
    ----------
    forest : Forest
        The trees.
    node : int
        One of its nodes.
    leaf_ids : list of int arrays of shape (n_trees, n_rows)
        Rows of several samples.

    Returns
    -------
    inside : bool array
        Of all samples, one after the other.
    """
    tree = int(np.searchsorted(forest.tree_offsets, node, side="right")) - 1
    here = np.zeros(forest.n_nodes)
    here[node] = 1.0
    below = np.empty(forest.n_nodes)
    path_sums(forest.tree_offsets, forest.parent, here, tree, tree + 1, below)
    return np.concatenate([below[ids[tree]] > 0 for ids in leaf_ids])


def _tell_the_same(one: BoolArray, other: BoolArray) -> bool:
    """Whether two boxes hold nearly the same rows, or one nearly those that the other lacks."""
    a, b, both = one.mean(), other.mean(), (one & other).mean()
    spread = np.sqrt(a * (1 - a) * b * (1 - b))
    return bool(abs(both - a * b) > SAME * spread)
