"""Models in files of data: `save` and `load` without pickle."""

from kpp.io.errors import CannotSaveError, FileFormatError, FileVersionWarning
from kpp.io.loading import FileSummary, describe, load
from kpp.io.outlines import ModelOutline, outline
from kpp.io.saving import save

__all__ = [
    "CannotSaveError",
    "FileFormatError",
    "FileSummary",
    "FileVersionWarning",
    "ModelOutline",
    "describe",
    "load",
    "outline",
    "save",
]
