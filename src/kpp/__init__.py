"""Kernel of Partition Paths: a tree ensemble as an explicit, isometric embedding."""

from kpp.certificates import (
    Certificate,
    RawCertificate,
    RobustnessCurve,
    certify,
    certify_raw,
    robustness_curve,
)
from kpp.explanations import (
    Attribution,
    explain,
    explain_distance,
    explain_rules,
    explain_training_rows,
    leave_one_out,
)
from kpp.export import CollapsedForest, collapse
from kpp.forest import Forest
from kpp.geometry import half_forest_discrepancy, kernel, path_distance
from kpp.models import KPPClassifier, KPPEmbedding, KPPRegressor

__version__ = "0.1.0.dev0"

__all__ = [
    "Attribution",
    "Certificate",
    "CollapsedForest",
    "Forest",
    "KPPClassifier",
    "KPPEmbedding",
    "KPPRegressor",
    "RawCertificate",
    "RobustnessCurve",
    "certify",
    "certify_raw",
    "collapse",
    "explain",
    "explain_distance",
    "explain_rules",
    "explain_training_rows",
    "half_forest_discrepancy",
    "kernel",
    "leave_one_out",
    "path_distance",
    "robustness_curve",
]
