"""Section 4 of the paper: weights, the embedding as an operator, kernel, concentration."""

from kpp.geometry.composed import (
    BlockMap,
    CenteredMap,
    block_slices,
    forest_blocks,
    leaf_ids_of,
    linear_blocks,
    named_blocks,
)
from kpp.geometry.concentration import (
    DiscrepancyCurve,
    OperatorConcentration,
    distance_concentration,
    entrywise_concentration,
    half_forest_discrepancy,
    operator_concentration,
)
from kpp.geometry.isometry import IsometryCheck, check_isometry
from kpp.geometry.kernel import kernel, kernel_chunks, path_distance
from kpp.geometry.linear import LinearMap, LinearTerms
from kpp.geometry.maps import MapBlock, PathMap
from kpp.geometry.weights import PathWeights, leaf_indicator_weights, path_weights

__all__ = [
    "BlockMap",
    "CenteredMap",
    "DiscrepancyCurve",
    "IsometryCheck",
    "LinearMap",
    "LinearTerms",
    "MapBlock",
    "OperatorConcentration",
    "PathMap",
    "PathWeights",
    "block_slices",
    "check_isometry",
    "distance_concentration",
    "entrywise_concentration",
    "forest_blocks",
    "half_forest_discrepancy",
    "kernel",
    "kernel_chunks",
    "leaf_ids_of",
    "leaf_indicator_weights",
    "linear_blocks",
    "named_blocks",
    "operator_concentration",
    "path_distance",
    "path_weights",
]
