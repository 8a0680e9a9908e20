"""A fitted model in the forms that other tools read."""

from kpp.export.collapse import collapse

__all__ = ["collapse"]
