"""How the score falls when every row may move: the leafwise curve beside the paper's."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp.certificates import robustness_curve
from kpp.certificates.curves import RobustnessCurve
from kpp.geometry.kernel import METRICS
from kpp.reports.subject import Subject

MOST_ROWS = 3000
N_POINTS = 81


def make(subject: Subject) -> dict[str, Any]:
    """Both curves at common radii."""
    index = subject.draw(MOST_ROWS)
    rows, y = subject.rows(index), subject.y[index]
    leafwise = robustness_curve(subject.model, rows, y, method="leafwise")
    paper = robustness_curve(subject.model, rows, y, method="lipschitz")
    radii = np.linspace(0.0, _end(leafwise), N_POINTS)
    accuracy = leafwise.metric == "accuracy"

    def values(curve: RobustnessCurve) -> Any:
        at = curve(radii)
        return at if accuracy else np.sqrt(at)

    return {
        "metric": "certified accuracy" if accuracy else "certified root mean squared error",
        "is_accuracy": accuracy,
        "distance": METRICS[leafwise.normalize],
        "normalize": leafwise.normalize,
        "n_rows": len(index),
        "called": subject.called,
        "radii": radii,
        "leafwise": values(leafwise),
        "lipschitz": values(paper),
        "half_leafwise": leafwise.u_half,
        "half_lipschitz": paper.u_half,
        "never_flips": leafwise.never_flips,
    }


def _end(curve: RobustnessCurve) -> float:
    """Radius up to which the curve is worth looking at."""
    if curve.metric != "accuracy":
        return float(2 * curve.u_half) if 0 < curve.u_half < np.inf else 1.0
    # Until one row in fifty of those that will ever drop is left.
    first, last = float(curve(0.0)), float(curve(np.inf))
    left = curve.values > last + 0.02 * (first - last)
    end = float(curve.radii[left].max(initial=0.0))
    if end > 0:
        return end
    return float(curve.radii[-1]) or 1.0
