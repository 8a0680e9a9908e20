"""The dashboard: observables, predictive metrics, findings with codes, and the audit."""

from kpp.diagnostics.audit import Audit, AuditCheck, audit
from kpp.diagnostics.comparison import Compared, Comparison, compare
from kpp.diagnostics.coverage import (
    CoverageDisplay,
    MeasuredCoverage,
    measure_coverage,
)
from kpp.diagnostics.diagnose import Diagnostics, diagnose
from kpp.diagnostics.display import (
    BoundDisplay,
    HalfForestDisplay,
    MarginDisplay,
    SpectrumDisplay,
)
from kpp.diagnostics.dot_display import ComparisonDisplay, SegmentsDisplay
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
from kpp.diagnostics.segments import Segment, Segments, segments

__all__ = [
    "Audit",
    "AuditCheck",
    "BoundDisplay",
    "Check",
    "Compared",
    "Comparison",
    "ComparisonDisplay",
    "CoverageDisplay",
    "Diagnostics",
    "Finding",
    "HalfForestDisplay",
    "MarginDisplay",
    "MarginTail",
    "MeasuredCoverage",
    "Observable",
    "Segment",
    "Segments",
    "SegmentsDisplay",
    "SpectrumDisplay",
    "auc_reason",
    "audit",
    "classification_metrics",
    "compare",
    "constant_metrics",
    "diagnose",
    "margin_tail",
    "measure_coverage",
    "predictive_metrics",
    "regression_metrics",
    "segments",
]
