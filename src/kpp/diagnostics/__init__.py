"""The dashboard: observables, predictive metrics, findings with codes, and the audit."""

from kpp.diagnostics.audit import Audit, AuditCheck, audit
from kpp.diagnostics.boxes import Box
from kpp.diagnostics.column_shift import ColumnShift
from kpp.diagnostics.comparison import Compared, Comparison, compare
from kpp.diagnostics.coverage import (
    CoverageDisplay,
    MeasuredCoverage,
    measure_coverage,
)
from kpp.diagnostics.data_checks import DataChecks, check_data
from kpp.diagnostics.diagnose import Diagnostics, diagnose
from kpp.diagnostics.display import (
    BoundDisplay,
    HalfForestDisplay,
    MarginDisplay,
    SpectrumDisplay,
)
from kpp.diagnostics.dot_display import ComparisonDisplay, SegmentsDisplay
from kpp.diagnostics.drift_display import DriftDisplay
from kpp.diagnostics.drifting import ColumnPart, Drift, PredictionShift, drift
from kpp.diagnostics.findings import Check, Finding
from kpp.diagnostics.margins import MarginTail, margin_tail
from kpp.diagnostics.metrics import (
    auc_reason,
    classification_metrics,
    constant_metrics,
    predictive_metrics,
    regression_metrics,
)
from kpp.diagnostics.observables import Observable
from kpp.diagnostics.ranges import Outside
from kpp.diagnostics.segments import Segment, Segments, segments
from kpp.diagnostics.table_columns import ColumnProfile

__all__ = [
    "Audit",
    "AuditCheck",
    "BoundDisplay",
    "Box",
    "Check",
    "ColumnPart",
    "ColumnProfile",
    "ColumnShift",
    "Compared",
    "Comparison",
    "ComparisonDisplay",
    "CoverageDisplay",
    "DataChecks",
    "Diagnostics",
    "Drift",
    "DriftDisplay",
    "Finding",
    "HalfForestDisplay",
    "MarginDisplay",
    "MarginTail",
    "MeasuredCoverage",
    "Observable",
    "Outside",
    "PredictionShift",
    "Segment",
    "Segments",
    "SegmentsDisplay",
    "SpectrumDisplay",
    "auc_reason",
    "audit",
    "check_data",
    "classification_metrics",
    "compare",
    "constant_metrics",
    "diagnose",
    "drift",
    "margin_tail",
    "measure_coverage",
    "predictive_metrics",
    "regression_metrics",
    "segments",
]
