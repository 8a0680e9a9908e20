"""A fitted model in the forms that other tools read."""

from kpp.export.collapse import CollapsedForest, collapse

__all__ = ["CollapsedForest", "collapse"]
