"""What notebooks show of every result: one file a room, each view registered by its type."""

# ruff: noqa: F401 (imported for their effect)
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
