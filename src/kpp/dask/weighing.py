"""Maps of forests that were grown on workers: node weights from rows that are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.dask.data import DaskData
from kpp.dask.maps import DaskMap, Outline, part_of
from kpp.dask.rows import Rows, add
from kpp.dask.specs import TaskRef
from kpp.forest.arrays import Forest
from kpp.forest.grow import traits_of
from kpp.forest.statistics import NodeStatistics
from kpp.geometry.maps import PathMap
from kpp.geometry.weights import (
    PathWeights,
    leaf_indicator_weights,
    needs_statistics,
    path_weights,
)
from kpp.models.fits import MapPart
from kpp.models.grower import raised_weights


@dataclass(frozen=True, eq=False)
class Weighing:
    """How nodes are weighed, as the parameters of an estimator say.

    Parameters
    ----------
    node_weight, leaf_weight, coordinates, normalize
        Of the estimator.
    sees_labels : bool
        Whether the rows of the fit may weigh the nodes: not those of a given forest.
    """

    node_weight: Any
    leaf_weight: Any
    coordinates: str
    normalize: str
    sees_labels: bool

    def by_trees_alone(self, spec: Any, forest: Forest) -> bool:
        """Whether the weights come from the trees, not from rows of the fit."""
        if self.coordinates == "leaf" or not self.sees_labels:
            return True
        if not needs_statistics(self._node_weight(spec), self.leaf_weight):
            return True
        return forest.statistics is not None and forest.statistics.grown_on_impurity

    def weights(
        self,
        spec: Any,
        forest: Forest,
        statistics: NodeStatistics | None,
        moving: AnyArray | None = None,
    ) -> PathWeights:
        """Weights of the nodes; from statistics of rows where the trees alone do not say.

        `moving` are splits that must not weigh nothing, of a blend.
        """
        if self.coordinates == "leaf":
            return leaf_indicator_weights(forest)
        node_weight = self._node_weight(spec)
        is_gain = isinstance(node_weight, str) and node_weight == "gain"
        if not self.sees_labels and forest.statistics is None and is_gain:
            node_weight = "uniform"
        weights = path_weights(
            forest,
            node_weight,
            self.leaf_weight,
            statistics=forest.statistics if statistics is None else statistics,
            allow_no_mass=True,
        )
        if moving is None:
            return weights
        raised = raised_weights(weights, moving, traits_of(spec).combines, forest)
        return weights if raised is None else raised

    def map(
        self,
        spec: Any,
        forest: Forest,
        statistics: NodeStatistics | None = None,
        moving: AnyArray | None = None,
    ) -> PathMap:
        """The map of a forest, at no rows."""
        weights = self.weights(spec, forest, statistics, moving)
        return PathMap(forest, weights, normalize=self.normalize)

    def of_groups(
        self,
        spec: Any,
        forest: Forest,
        groups: list[slice],
        data: DaskData,
        fold: Rows | None,
        moving: AnyArray | None,
    ) -> tuple[PathMap, list[PathWeights | None]]:
        """The map of a forest, and weights of its groups where these must not see their folds.

        Parameters
        ----------
        spec, forest
            What was asked for, and what was grown.
        groups : list of slice
            The trees that have not seen each fold.
        data : DaskData
            Rows.
        fold : Rows, optional
            The fold of each row.
        moving : bool array of shape (n_nodes,), optional
            Splits that must not weigh nothing, of a blend.

        Returns
        -------
        map : PathMap
            At no rows.
        weights : list of PathWeights or None
            Of each group.
        """
        if self.by_trees_alone(spec, forest):
            return self.map(spec, forest, moving=moving), [None] * len(groups)
        plain = PathMap(forest, path_weights(forest, "uniform"), normalize=self.normalize)
        at = DaskMap.on(data.partitions, plain, data.X)
        found = self.map(spec, forest, statistics_on(data, at, data.weight), moving)
        if fold is None:
            return found, [None] * len(groups)
        own: list[PathWeights | None] = []
        for q, trees in enumerate(groups):
            part = part_of(at, MapPart(plain, None, (trees,), None))
            statistics = statistics_on(data, part, data.weight * (fold != q))
            at_group = None if moving is None else moving[forest.nodes_of(trees)]
            own.append(self.weights(spec, forest.take_trees(trees), statistics, at_group))
        return found, own

    def _node_weight(self, spec: Any) -> Any:
        alike = isinstance(self.node_weight, str) and traits_of(spec).by_columns_alone
        return "uniform" if alike else self.node_weight


def statistics_on(data: DaskData, at: DaskMap, weight: Rows) -> NodeStatistics:
    """Statistics of the target at the nodes of one forest, from the rows of all partitions.

    Parameters
    ----------
    data : DaskData
        Rows.
    at : DaskMap
        A map of the forest at them.
    weight : Rows
        Weights of the rows.

    Returns
    -------
    statistics : NodeStatistics
    """
    session, tasks, names = data.session, {}, []
    n_classes = 0 if data.classes is None else len(data.classes)
    center = None if n_classes else data.total.mean[data.n_features :]
    start = session.key("statistics")
    targets, weights = data.target.pieces(), weight.pieces()
    for p in range(len(data.partitions)):
        key = f"{start}-{p}"
        (target, target_item), (own, own_item) = targets[p], weights[p]
        tasks[key] = session.task(
            key,
            _sums,
            at.outline,
            at.routed[p],
            target,
            own,
            (target_item, own_item),
            n_classes,
            center,
        )
        names.append(key)
    last = session.tree(tasks, names, add)
    found = session.key("statistics")
    tasks[found] = session.task(found, _same, TaskRef(last))
    sums: FloatArray = session.gather(session.run(tasks, [found])[0])
    assert isinstance(at.embedding, PathMap)
    return _statistics(at.embedding.forest, sums, data.classes, center)


def _same(value: Any) -> Any:
    return value


def _sums(
    outline: Outline,
    routed: Any,
    target: AnyArray,
    weight: FloatArray,
    items: tuple[int | None, int | None],
    n_classes: int,
    center: FloatArray | None,
) -> FloatArray:
    target = target if items[0] is None else target[items[0]]
    weight = weight if items[1] is None else weight[items[1]]
    if n_classes:
        columns = [weight * (target == c) for c in range(n_classes)]
    else:
        around = target - center
        columns = [weight, *(weight[:, None] * around).T, *(weight[:, None] * around**2).T]
    return outline.sums(routed, np.column_stack(columns))


def _statistics(
    forest: Forest, sums: FloatArray, classes: AnyArray | None, center: FloatArray | None
) -> NodeStatistics:
    nodes = []
    for own in sums:
        values = np.zeros(forest.n_nodes)
        values[forest.is_leaf] = own
        nodes.append(forest.leaf_sums(values))
    if classes is not None:
        counts = np.stack(nodes, axis=1)
        count = counts.sum(axis=1)
        inverse = np.divide(1.0, count, out=np.zeros_like(count), where=count > 0)
        return NodeStatistics(count=count, class_share=counts * inverse[:, None], classes=classes)
    assert center is not None
    count = nodes[0]
    inverse = np.divide(1.0, count, out=np.zeros_like(count), where=count > 0)
    first = np.stack(nodes[1 : 1 + len(center)], axis=1) * inverse[:, None]
    second = np.stack(nodes[1 + len(center) :], axis=1) * inverse[:, None]
    # As `kpp.forest.statistics.node_statistics` has it, from the same sums.
    variance = np.maximum(second - np.square(first), 0.0).mean(axis=1)
    mean = np.where(count[:, None] > 0, first + center, 0.0)
    return NodeStatistics(count=count, mean=mean, variance=variance)
