"""What notebooks show of every result: one file a room, each view registered by its type."""

from kpp.views import (
    bounds,
    certificates,
    diagnostics,
    explanations,
    export,
    forest,
    geometry,
    models,
)

__all__ = [
    "bounds",
    "certificates",
    "diagnostics",
    "explanations",
    "export",
    "forest",
    "geometry",
    "models",
]
