"""What notebooks show of every result: one file a room, each view registered by its type."""

from kpp.views import (
    bounds,
    certificates,
    diagnostics,
    explanations,
    forest,
    geometry,
    models,
    scores,
)

__all__ = [
    "bounds",
    "certificates",
    "diagnostics",
    "explanations",
    "forest",
    "geometry",
    "models",
    "scores",
]
