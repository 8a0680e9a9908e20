"""Kernel of Partition Paths: a tree ensemble as an explicit, isometric embedding."""

from kpp.forest import Forest
from kpp.geometry import half_forest_discrepancy, kernel, path_distance
from kpp.models import KPPClassifier, KPPEmbedding, KPPRegressor

__version__ = "0.1.0.dev0"

__all__ = [
    "Forest",
    "KPPClassifier",
    "KPPEmbedding",
    "KPPRegressor",
    "half_forest_discrepancy",
    "kernel",
    "path_distance",
]
