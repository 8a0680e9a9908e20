"""Displays of explanations, in scikit-learn's manner; they need the extra ``plot``.

A display keeps what it shows as attributes. ``from_estimator`` computes and draws, ``plot`` draws
again, elsewhere; afterwards ``ax_`` and ``figure_`` are what was drawn on.
"""

from __future__ import annotations

from kpp.explanations._plots_many import (
    AttributionBarDisplay,
    BeeswarmDisplay,
    DependenceDisplay,
)
from kpp.explanations._plots_one import DistanceDisplay, RuleDisplay, WaterfallDisplay
from kpp.explanations._plots_pairs import InteractionDisplay

__all__ = [
    "AttributionBarDisplay",
    "BeeswarmDisplay",
    "DependenceDisplay",
    "DistanceDisplay",
    "InteractionDisplay",
    "RuleDisplay",
    "WaterfallDisplay",
]
