"""What a notebook shows of a model as plain forests."""

from __future__ import annotations

from kpp._shown import picture
from kpp.scores import AdditiveForest, RoutedRows
from kpp.views.html import card, facts, note


@picture.register
def additive_forest(collapsed: AdditiveForest) -> str:
    """Sizes and intercepts."""
    return card(
        "AdditiveForest",
        facts(
            {
                "trees": collapsed.forest.n_trees,
                "nodes": collapsed.forest.n_nodes,
                "scores": len(collapsed.intercept),
                "intercept": ", ".join(f"{b:.4g}" for b in collapsed.intercept[:10]),
                "compares in": collapsed.forest.dtype,
            }
        ),
        note("The model's own scores, read at the leaves: .scores(X), .to_sklearn()."),
    )


@picture.register
def routed_rows(rows: RoutedRows) -> str:
    """How many rows, columns and trees."""
    n_rows, n_columns = rows.shape
    n_trees = sum(len(leaf_ids) for leaf_ids in rows.leaf_ids)
    return card(
        "RoutedRows",
        facts({"rows": n_rows, "columns": n_columns, "trees": n_trees}),
        note("Checked and routed: taken wherever the model takes X."),
    )
