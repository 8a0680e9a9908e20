"""A tree ensemble as arrays: import, routing, node statistics, growing."""

from kpp.forest.arrays import Forest
from kpp.forest.ladders import Ladders
from kpp.forest.layout import Tree
from kpp.forest.oblique import ObliqueForestClassifier, ObliqueForestRegressor
from kpp.forest.statistics import NodeStatistics, node_statistics

__all__ = [
    "Forest",
    "Ladders",
    "NodeStatistics",
    "ObliqueForestClassifier",
    "ObliqueForestRegressor",
    "Tree",
    "node_statistics",
]
