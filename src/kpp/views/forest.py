"""What a notebook shows of a forest."""

from __future__ import annotations

from kpp._shown import picture
from kpp.forest import Forest
from kpp.views.html import card, facts


@picture.register
def forest(result: Forest) -> str:
    """Sizes, and what the forest takes and keeps."""
    kept = "none" if result.statistics is None else "those of the rows it was grown on"
    return card(
        f"Forest, from {result.source}",
        facts(
            {
                "trees": result.n_trees,
                "nodes": result.n_nodes,
                "leaves": int(result.is_leaf.sum()),
                "columns": result.n_features,
                "columns with categories": len(result.categories),
                "compares in": result.dtype,
                "takes missing values": result.allows_nan,
                "statistics": kept,
            }
        ),
    )
