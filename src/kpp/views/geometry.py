"""What notebooks show of maps and of their checks."""

from __future__ import annotations

import numpy as np

from kpp._shown import picture
from kpp.geometry import DiscrepancyCurve, IsometryCheck, MapBlock, OperatorConcentration
from kpp.views.html import by_field, card, chart, facts, note, table


@picture.register
def map_block(block: MapBlock) -> str:
    """The size of a map, of whatever kind."""
    n, m = block.shape
    return card(type(block).__name__, facts({"rows": n, "coordinates": m}))


@picture.register
def isometry_check(check: IsometryCheck) -> str:
    """The pairs and their gaps, and whether the isometry holds."""
    return by_field(check, "largest_gap", "holds")


@picture.register
def operator_concentration(result: OperatorConcentration) -> str:
    """The bound, and whether it says anything."""
    return by_field(result, "is_trivial")


@picture.register
def discrepancy_curve(curve: DiscrepancyCurve) -> str:
    """The discrepancy by number of trees."""
    rows = [(int(k), float(v)) for k, v in zip(curve.n_trees, curve.values, strict=True)]
    return card(
        "DiscrepancyCurve",
        table(["trees", "half-forest discrepancy"], rows),
        chart(np.log(curve.n_trees), curve.values, "by number of trees (logarithmic)"),
        note("A diagnostic of stability, not a bound on the distance to the limit."),
    )
