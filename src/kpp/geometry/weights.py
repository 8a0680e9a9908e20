r"""Node weights :math:`a_t`, edge weights :math:`\omega_t`, masses :math:`A_t`, :math:`S_T`."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from kpp._shown import Shown
from kpp._typing import FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.statistics import NodeStatistics, node_statistics

NODE_WEIGHTS = ("gain", "entropy", "variance", "uniform")
LEAF_WEIGHTS = ("variance", "uniform")


@dataclass(frozen=True, eq=False)
class PathWeights(Shown):
    r"""The weights that turn a forest into a metric.

    Parameters
    ----------
    node : array of shape (n_nodes,)
        Node weights :math:`a_t(v) \ge 0`.
    edge : array of shape (n_nodes,)
        Squared coordinates: the edge weight :math:`\omega_t(v)` of the edge above v, and half
        the node weight at a root.
    tree_mass : array of shape (n_trees,)
        :math:`A_t`.
    forest_mass : float
        :math:`S_T > 0`.
    """

    node: FloatArray
    edge: FloatArray
    tree_mass: FloatArray
    forest_mass: float

    @property
    def n_nodes(self) -> int:
        """Number of nodes that they are for."""
        return len(self.edge)

    def of_trees(self, forest: Forest, trees: Any, nodes: Any) -> PathWeights:
        """Return the weights of some trees, by their own mass.

        Parameters
        ----------
        forest : Forest
            These trees alone.
        trees : int array
            Their numbers.
        nodes : int array or slice
            Their nodes.

        Returns
        -------
        weights : PathWeights
        """
        mass = self.tree_mass[trees]
        return PathWeights(self.node[nodes], self.edge[nodes], mass, _total(mass))


class DerivedWeights(PathWeights):
    """Weights that follow from the forest's own statistics, computed whenever they are asked for.

    What products need, the coordinates, a map keeps itself: these take the memory of none.

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
    >>> from kpp.geometry.weights import DerivedWeights
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

    def _made(self) -> PathWeights:
        own = vars(self)
        return path_weights(own["forest"], own["node_weight"], allow_no_mass=True)

    @property
    def node(self) -> FloatArray:
        """Node weights, shape (n_nodes,)."""
        return self._made().node

    @property
    def edge(self) -> FloatArray:
        """Edge weights, shape (n_nodes,)."""
        return self._made().edge

    @property
    def n_nodes(self) -> int:
        """Number of nodes that they are for."""
        n_nodes: int = vars(self)["forest"].n_nodes
        return n_nodes

    def of_trees(self, forest: Forest, trees: Any, nodes: Any) -> PathWeights:
        """Return the weights of some trees, by their own mass."""
        mass = self.tree_mass[trees]
        return DerivedWeights(forest, vars(self)["node_weight"], mass, _total(mass))


def _total(mass: FloatArray) -> float:
    return float(mass.sum()) or 1.0  # trees without mass embed every row as 0


def path_weights(
    forest: Forest,
    node_weight: Any = "gain",
    leaf_weight: Any = None,
    *,
    statistics: NodeStatistics | None = None,
    allow_no_mass: bool = False,
) -> PathWeights:
    r"""Compute edge weights and masses from node weights.

    .. math::
        \omega_t(v) = \tfrac12 \bigl(a_t(\mathrm{par}(v)) + a_t(v)\bigr), \qquad
        A_t = \sum_{v \in V_t} a_t(v), \qquad S_T = \sum_t A_t

    for every node v below a root; a root's coordinate is constant with square
    :math:`a_t(r_t)/2`. Leaves have weight 0 unless `leaf_weight` is given; then the edge above
    a leaf has :math:`a_t(\mathrm{par}(\ell))/2 + a_t(\ell)`, which makes the embedding isometric
    to the separation distance of the paper's appendix on nonzero leaf weights.

    Parameters
    ----------
    forest : Forest
        The trees.
    node_weight : {"gain", "entropy", "variance", "uniform"}, array or callable
        Weight of each split. "gain": decrease of variance or Gini impurity, not multiplied by
        the share of rows; "entropy": decrease of entropy; "variance": the impurity itself
        (variance or Gini); "uniform": 1. An array of shape (n_nodes,) or a callable
        ``(forest, statistics) -> array`` must be nonnegative, and 0 at leaves.
    leaf_weight : None, float, {"variance", "uniform"}, array or callable
        Weight of each leaf; an array must be 0 at splits.
    statistics : NodeStatistics, optional
        What the weights are computed from; the forest's own by default.
    allow_no_mass : bool
        Whether a forest without mass embeds every row as 0 instead of being an error.

    Returns
    -------
    weights : PathWeights

    References
    ----------
    Equations edge-weight, tree-mass and forest-mass; assumption on zero leaf weights;
    appendices on nonzero leaf weights and on the variance gain.

    Examples
    --------
    >>> from kpp.forest import Forest, Tree
    >>> from kpp.geometry.weights import path_weights
    >>> stump = Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0, 0, 0], threshold=[0, 0, 0])
    >>> forest = Forest.from_trees([stump], n_features=1)
    >>> weights = path_weights(forest, "uniform")
    >>> weights.edge
    array([0.5, 0.5, 0.5])
    >>> weights.forest_mass
    1.0
    """
    statistics = forest.statistics if statistics is None else statistics
    node = _resolve("node_weight", node_weight, NODE_WEIGHTS, forest, statistics, ~forest.is_leaf)
    if leaf_weight is not None:
        if isinstance(leaf_weight, Real):
            leaf_weight = np.where(forest.is_leaf, float(leaf_weight), 0.0)
        node = node + _resolve(
            "leaf_weight", leaf_weight, LEAF_WEIGHTS, forest, statistics, forest.is_leaf
        )
    # Equation edge-weight, omega(v) = (a(par(v)) + a(v)) / 2, in place: no array is longer.
    # At a root, parent is -1 and the entry that it reads is not used.
    edge = node[forest.parent]
    edge /= 2
    edge[forest.roots] = 0.0
    own = node / 2
    # A leaf's own weight counts in full: it is an end point of the path, never a middle.
    ends = forest.is_leaf.copy()
    ends[forest.roots] = False
    own[ends] = node[ends]
    edge += own
    del own, ends
    with np.errstate(over="ignore"):
        # Equations tree-mass and forest-mass. Every tree has a node, so no segment is empty, which
        # `reduceat` would answer with a wrong number.
        tree_mass = np.add.reduceat(node, forest.roots)
        forest_mass = float(tree_mass.sum())
    if forest_mass == 0:
        if not allow_no_mass:
            raise ValueError(_no_mass(forest))
        # Every edge weighs 0: any divisor embeds every row as 0, and this one keeps fits possible.
        forest_mass = 1.0
    if not np.isfinite(forest_mass):
        raise ValueError("S_T is infinite: the node weights are too large to be added. Scale them.")
    return PathWeights(node=node, edge=edge, tree_mass=tree_mass, forest_mass=forest_mass)


def leaf_indicator_weights(forest: Forest) -> PathWeights:
    r"""Weights of leaf-only coordinates: one indicator per leaf, all alike.

    Each tree has mass 1 and :math:`S_T = K`, so the Gram is the forest proximity: the share of
    trees in which two rows fall into the same leaf.

    Parameters
    ----------
    forest : Forest
        The trees.

    Returns
    -------
    weights : PathWeights
    """
    leaf = forest.is_leaf.astype(np.float64)
    return PathWeights(
        node=leaf, edge=leaf, tree_mass=np.ones(forest.n_trees), forest_mass=float(forest.n_trees)
    )


def needs_statistics(node_weight: Any, leaf_weight: Any) -> bool:
    """Whether these weights are computed from a target; callables may use it."""
    return not all(
        weight is None
        or isinstance(weight, Real | np.ndarray | list | tuple)
        or (isinstance(weight, str) and weight == "uniform")
        for weight in (node_weight, leaf_weight)
    )


def weighting_statistics(
    forest: Forest,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    classification: bool,
    n_jobs: int | None = None,
) -> NodeStatistics:
    """Choose what the node weights of a fit are computed from.

    Trees that were grown to lower the variance or the Gini impurity of the target keep their
    own (in-bag) statistics, as in the paper. For boosters, other criteria and unsupervised
    trees the statistics are estimated on the rows of the fit; a node that none of them reaches
    gets weight 0.
    """
    own = forest.statistics
    if own is not None and own.grown_on_impurity:
        return own
    return node_statistics(
        forest, X, y, sample_weight, classification=classification, n_jobs=n_jobs
    )


def _resolve(
    parameter: str,
    weight: Any,
    names: tuple[str, ...],
    forest: Forest,
    statistics: NodeStatistics | None,
    where: Any,
) -> FloatArray:
    """Weights by name, by function or as given; nonnegative, and 0 outside `where`."""
    if isinstance(weight, str):
        if weight not in names:
            raise ValueError(
                f"{parameter} must be one of {', '.join(map(repr, names))}, an array of shape "
                f"(n_nodes,) or a callable; got {weight!r}."
            )
        return np.where(where, _named(parameter, weight, forest, statistics), 0.0)
    given = weight(forest, statistics) if callable(weight) else weight
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{parameter} must hold numbers; got {given!r}.") from error
    if values.shape != (forest.n_nodes,):
        raise ValueError(
            f"{parameter} must have one entry per node, shape ({forest.n_nodes},); "
            f"got shape {values.shape}."
        )
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(
            f"{parameter} must be finite and nonnegative: squared distances are sums of weights."
        )
    if values[~where].any():
        kind, other = (
            ("leaves", "leaf_weight")
            if parameter == "node_weight"
            else (
                "splits",
                "node_weight",
            )
        )
        raise ValueError(f"{parameter} must be 0 at {kind}; weights there are given by {other}.")
    return values


def _named(
    parameter: str, name: str, forest: Forest, statistics: NodeStatistics | None
) -> FloatArray:
    if name == "uniform":
        return np.ones(forest.n_nodes)
    if statistics is None:
        raise ValueError(
            f"{parameter}={name!r} needs statistics of a target at the nodes, and this "
            f"{forest.source} has none: give y (not in the fixed regime, which must not use the "
            f"labels of the fit), or use {parameter}='uniform'."
        )
    if name == "gain":
        return statistics.decrease(forest, statistics.impurity)
    if name == "entropy":
        return statistics.decrease(forest, statistics.entropy)
    return statistics.impurity


def _no_mass(forest: Forest) -> str:
    if forest.is_leaf.all():
        return (
            f"S_T = 0: none of the {forest.n_trees} trees has a split, so every row is in the "
            "same place. A constant target, constant columns, too few rows or a large "
            "min_samples_leaf lead to this."
        )
    return (
        "S_T = 0: every node weight is 0, so every distance is 0. The target may be constant on "
        "the rows that the weights were computed from; node_weight='uniform' does not need one."
    )
