"""The operator norm of G_K - G_infinity: bound, half-forest discrepancy, and the truth.

Run ``python benchmarks/operator_norm.py --out benchmarks/results``. The infinite forest is one of
many trees, grown with other seeds than the forests that are compared with it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import ExtraTreesClassifier, RandomForestRegressor
from timing import describe, versions, write

from kpp import KPPEmbedding, half_forest_discrepancy
from kpp.geometry import MapBlock, operator_concentration

DELTA = 0.05
SETS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "wine, extra trees": (load_wine, ExtraTreesClassifier),
    "diabetes, random forest of 16 leaves": (
        load_diabetes,
        lambda n_estimators, random_state: RandomForestRegressor(
            n_estimators, max_leaf_nodes=16, random_state=random_state
        ),
    ),
}


def grown(make: Callable[..., Any], X: Any, y: Any, n_trees: int, seed: int) -> MapBlock:
    """The tree-normalised embedding of a forest."""
    model = KPPEmbedding(make(n_estimators=n_trees, random_state=seed), normalize="tree")
    return model.fit(X, y).map_


def measured(name: str, n_rows: int, maps: dict[int, list[MapBlock]], whole: MapBlock) -> list[Any]:
    """Rows of the table: one for each number of trees."""
    X, _ = SETS[name][0](return_X_y=True)
    rows = X[np.random.default_rng(0).permutation(len(X))[:n_rows]]
    limit = whole.on(rows).gram()
    found = []
    for n_trees, embeddings in maps.items():
        errors, discrepancies, leading, bounds = [], [], [], []
        for embedding in embeddings:
            errors.append(np.linalg.norm(embedding.on(rows).gram() - limit, 2))
            discrepancies.append(half_forest_discrepancy(embedding, rows))
            at = operator_concentration(embedding, rows, delta=DELTA)
            leading.append(at.leading)
            bounds.append(at.bound)
        found.append(
            {
                "data": name,
                "n_rows": n_rows,
                "n_trees": n_trees,
                "norm": float(np.linalg.norm(limit, 2)),
                "error": float(np.mean(errors)),
                "largest_error": float(np.max(errors)),
                "half_forest": float(np.mean(discrepancies)),
                "half_forest_below_error": int(np.sum(np.array(discrepancies) < errors)),
                "leading": float(np.mean(leading)),
                "leading_below_error": int(np.sum(np.array(leading) < errors)),
                "bound": float(np.mean(bounds)),
                "bound_below_error": int(np.sum(np.array(bounds) < errors)),
                "n_draws": len(embeddings),
            }
        )
    return found


def page(result: dict[str, Any]) -> str:
    """The table, and what it says."""
    lines = [
        "# The operator norm of a finite forest's error",
        "",
        "Written by `benchmarks/operator_norm.py`.",
        "",
        describe(result),
        "",
        f"G_infinity is the tree-normalised Gram of {result['n_limit']:,} trees of other seeds; "
        f"delta = {DELTA}. Means over forests; in brackets how many of them fell below the error. "
        "The leading term is the part of the bound that remains for many trees, and no bound "
        "by itself.",
        "",
        "| data | rows | trees | norm of G | error | largest error | half-forest | leading term "
        "| bound |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in result["table"]:
        of = f"of {row['n_draws']}"
        lines.append(
            f"| {row['data']} | {row['n_rows']} | {row['n_trees']} | {row['norm']:.3g} | "
            f"{row['error']:.3g} | {row['largest_error']:.3g} | "
            f"{row['half_forest']:.3g} ({row['half_forest_below_error']} {of}) | "
            f"{row['leading']:.3g} ({row['leading_below_error']} {of}) | "
            f"{row['bound']:.3g} ({row['bound_below_error']} {of}) |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--limit", type=int, default=5000, help="trees of the infinite forest")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    n_limit, n_draws, sizes, places = arguments.limit, 10, [20, 100, 500], [10, 50]
    if arguments.quick:
        n_limit, n_draws, sizes, places = 60, 2, [4, 8], [5]
    table = []
    for name in SETS:
        load, make = SETS[name]
        X, y = load(return_X_y=True)
        whole = grown(make, X, y, n_limit, 1000)
        maps = {k: [grown(make, X, y, k, seed) for seed in range(n_draws)] for k in sizes}
        for n_rows in places:
            table += measured(name, n_rows, maps, whole)
    result = {**versions(), "n_limit": n_limit, "table": table}
    write("operator_norm", result, page(result), arguments.out)


if __name__ == "__main__":
    main()
