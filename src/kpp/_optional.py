"""Packages that not everybody has installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional(module: str, caller: str, extra: str | None = None) -> Any:
    """Import what not everybody has installed, or say who needs it and how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        install = package if extra is None else f"'kpp[{extra}]'"
        by = "" if extra is None else f" (the extra {extra!r})"
        raise ImportError(
            f"{caller} needs {package}{by}, which cannot be imported: pip install {install}"
        ) from error
