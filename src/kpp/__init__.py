"""Kernel of Partition Paths: a tree ensemble as an explicit, isometric embedding."""

from kpp.forest import Forest
from kpp.geometry import half_forest_discrepancy, kernel, path_distance
from kpp.models import KPPEmbedding

__version__ = "0.1.0.dev0"

__all__ = ["Forest", "KPPEmbedding", "half_forest_discrepancy", "kernel", "path_distance"]
