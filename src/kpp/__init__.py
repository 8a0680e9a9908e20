"""Kernel of Partition Paths: a tree ensemble as an explicit, isometric embedding.

The import takes next to no time: a public name brings in the room that it comes from, and with it
scikit-learn, when it is first used.
"""

__version__ = "0.2.0"

TYPE_CHECKING = False
if TYPE_CHECKING:  # for checkers and editors; `_ROOM_OF` says the same to Python
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
    from kpp.diagnostics import (
        Comparison,
        DataChecks,
        Diagnostics,
        Drift,
        Segments,
        audit,
        check_data,
        compare,
        diagnose,
        drift,
        segments,
    )
    from kpp.explanations import (
        Attribution,
        Interactions,
        explain,
        explain_distance,
        explain_interactions,
        explain_rules,
        explain_training_rows,
        leave_one_out,
    )
    from kpp.export import collapse, to_onnx, to_treelite
    from kpp.forest import Forest
    from kpp.geometry import half_forest_discrepancy, kernel, path_distance
    from kpp.io import load, save
    from kpp.models import KPPClassifier, KPPEmbedding, KPPRegressor
    from kpp.reports import report
    from kpp.scores import AdditiveForest, RoutedRows

__all__ = [
    "AdditiveForest",
    "Attribution",
    "Bound",
    "BoundReport",
    "Certificate",
    "Comparison",
    "DataChecks",
    "Diagnostics",
    "Drift",
    "Forest",
    "Interactions",
    "KPPClassifier",
    "KPPEmbedding",
    "KPPRegressor",
    "PartitionOracles",
    "RawCertificate",
    "RobustnessCurve",
    "RoutedRows",
    "Segments",
    "audit",
    "bound_path",
    "certify",
    "certify_raw",
    "check_data",
    "collapse",
    "compare",
    "diagnose",
    "drift",
    "explain",
    "explain_distance",
    "explain_interactions",
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
    "segments",
    "to_onnx",
    "to_treelite",
]

# The rooms, which `import kpp` alone gives as attributes.
_ROOMS = (
    "bounds",
    "certificates",
    "dask",
    "diagnostics",
    "explanations",
    "export",
    "forest",
    "geometry",
    "io",
    "models",
    "reports",
    "scores",
    "solvers",
    "tables",
    "views",
)
# Public name -> the room that it comes from.
_ROOM_OF = {
    "AdditiveForest": "scores",
    "Attribution": "explanations",
    "Bound": "bounds",
    "BoundReport": "bounds",
    "Certificate": "certificates",
    "Comparison": "diagnostics",
    "DataChecks": "diagnostics",
    "Diagnostics": "diagnostics",
    "Drift": "diagnostics",
    "Forest": "forest",
    "Interactions": "explanations",
    "KPPClassifier": "models",
    "KPPEmbedding": "models",
    "KPPRegressor": "models",
    "PartitionOracles": "bounds",
    "RawCertificate": "certificates",
    "RobustnessCurve": "certificates",
    "RoutedRows": "scores",
    "Segments": "diagnostics",
    "audit": "diagnostics",
    "bound_path": "bounds",
    "certify": "certificates",
    "certify_raw": "certificates",
    "check_data": "diagnostics",
    "collapse": "export",
    "compare": "diagnostics",
    "diagnose": "diagnostics",
    "drift": "diagnostics",
    "explain": "explanations",
    "explain_distance": "explanations",
    "explain_interactions": "explanations",
    "explain_rules": "explanations",
    "explain_training_rows": "explanations",
    "half_forest_discrepancy": "geometry",
    "kernel": "geometry",
    "leave_one_out": "explanations",
    "load": "io",
    "partition_oracles": "bounds",
    "path_distance": "geometry",
    "report": "reports",
    "risk_bounds": "bounds",
    "robustness_curve": "certificates",
    "save": "io",
    "segments": "diagnostics",
    "to_onnx": "export",
    "to_treelite": "export",
}

if not TYPE_CHECKING:  # to a checker it would say that there is any name

    def __getattr__(name: str) -> object:
        """Import what a public name stands for, once."""
        from importlib import import_module

        if name in _ROOM_OF:
            value = getattr(import_module(f"kpp.{_ROOM_OF[name]}"), name)
            globals()[name] = value
            return value
        if name in _ROOMS:
            return import_module(f"kpp.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """All names, those that are not imported yet among them."""
    return sorted({*globals(), *__all__, *_ROOMS})
