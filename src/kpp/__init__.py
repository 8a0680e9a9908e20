"""Kernel of Partition Paths: a tree ensemble as an explicit, isometric embedding."""

from kpp import views  # noqa: F401 (the views of notebooks register themselves)
from kpp.bounds import (
    Bound,
    BoundReport,
    PartitionOracles,
    bound_path,
    partition_oracles,
    risk_bounds,
)
from kpp.certificates import (
    Certificate,
    RawCertificate,
    RobustnessCurve,
    certify,
    certify_raw,
    robustness_curve,
)
from kpp.diagnostics import Diagnostics, audit, diagnose
from kpp.explanations import (
    Attribution,
    explain,
    explain_distance,
    explain_rules,
    explain_training_rows,
    leave_one_out,
)
from kpp.export import collapse
from kpp.forest import Forest
from kpp.geometry import half_forest_discrepancy, kernel, path_distance
from kpp.io import load, save
from kpp.models import KPPClassifier, KPPEmbedding, KPPRegressor
from kpp.reports import report
from kpp.scores import AdditiveForest, RoutedRows

__version__ = "0.1.0.dev0"

__all__ = [
    "AdditiveForest",
    "Attribution",
    "Bound",
    "BoundReport",
    "Certificate",
    "Diagnostics",
    "Forest",
    "KPPClassifier",
    "KPPEmbedding",
    "KPPRegressor",
    "PartitionOracles",
    "RawCertificate",
    "RobustnessCurve",
    "RoutedRows",
    "audit",
    "bound_path",
    "certify",
    "certify_raw",
    "collapse",
    "diagnose",
    "explain",
    "explain_distance",
    "explain_rules",
    "explain_training_rows",
    "half_forest_discrepancy",
    "kernel",
    "leave_one_out",
    "load",
    "partition_oracles",
    "path_distance",
    "report",
    "risk_bounds",
    "robustness_curve",
    "save",
]
