"""`kpp geometry`: embed a built-in data set, show its figures and check the isometry."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from kpp.tables.builtin import BUILT_IN
from kpp.tables.errors import UserError, near

FORESTS = ("extra-trees", "random-forest")


def geometry_figures(
    dataset: str, forest: str, n_trees: int, seed: int
) -> tuple[dict[str, Any], bool]:
    """Compute the figures of a data set's embedding, and whether the isometry holds."""
    from kpp import KPPEmbedding, half_forest_discrepancy
    from kpp.geometry import PathMap, check_isometry

    if dataset not in BUILT_IN:
        raise UserError(f"There is no built-in data set '{dataset}'. {near(dataset, [*BUILT_IN])}")
    if n_trees < 2:
        raise UserError(f"--trees must be at least 2; got {n_trees}.")
    X, y = BUILT_IN[dataset](return_X_y=True)
    model = KPPEmbedding(forest, n_estimators=n_trees, n_jobs=-1, random_state=seed).fit(X, y)
    phi = model.map_.on(X)
    assert isinstance(phi, PathMap)
    csr = phi.to_csr()
    curve = half_forest_discrepancy(model, X, curve=True)
    check = check_isometry(model, X)
    figures = {
        "data": dataset,
        "rows": X.shape[0],
        "columns": X.shape[1],
        "task": model.task_,
        "forest": forest,
        "trees": n_trees,
        "nodes": model.forest_.n_nodes,
        "coordinates": phi.shape[1],
        "nonzero_per_row": csr.nnz / len(X),
        "map_bytes": phi.leaf_ids.nbytes + 4 * phi.scale.nbytes,
        "csr_bytes": csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes,
        "forest_mass": float(phi.weights.forest_mass),
        "mean_squared_norm": float(phi.row_norms(squared=True).mean()),
        "largest_norm": float(phi.sup_norm()),
        "half_forest_discrepancy": {
            int(k): float(v) for k, v in zip(curve.n_trees, curve.values, strict=True)
        },
        "isometry_pairs": len(check.pairs),
        "isometry_largest_difference": float(check.largest_gap),
        "isometry_holds": bool(check.holds),
    }
    return figures, bool(check.holds)


def geometry_lines(f: dict[str, Any]) -> list[tuple[str, str]]:
    """The same figures, in words."""
    steps = "  ".join(f"{k}: {v:.3f}" for k, v in f["half_forest_discrepancy"].items())
    megabyte = 2**20
    return [
        ("data", f"{f['data']}, {f['rows']} rows, {f['columns']} columns, {f['task']}"),
        ("forest", f"{f['forest']}, {f['trees']} trees, {f['nodes']} nodes"),
        (
            "embedding",
            f"{f['nonzero_per_row']:.0f} of {f['coordinates']} coordinates nonzero in a row",
        ),
        (
            "memory",
            f"map {f['map_bytes'] / megabyte:.2f} MB; "
            f"as a sparse matrix {f['csr_bytes'] / megabyte:.2f} MB",
        ),
        ("forest mass S_T", f"{f['forest_mass']:.4g}"),
        ("mean |Phi(x)|^2", f"{f['mean_squared_norm']:.4f}"),
        ("sup |Phi(x)|", f"{f['largest_norm']:.4f}  (at most 1)"),
        ("half-forest gap", f"{steps}  (by number of trees)"),
        (
            "isometry",
            f"{'holds' if f['isometry_holds'] else 'FAILS'} on {f['isometry_pairs']} pairs: "
            "|Phi(x) - Phi(x')|^2 = path distance, largest difference "
            f"{f['isometry_largest_difference']:.1e}",
        ),
    ]


def run_plain(arguments: Sequence[str]) -> int:
    """`kpp geometry` where the extra `cli` is not installed."""
    parser = argparse.ArgumentParser(prog="kpp geometry", description=__doc__)
    parser.add_argument("dataset", nargs="?", default="breast_cancer", choices=sorted(BUILT_IN))
    parser.add_argument("--forest", default=FORESTS[0], choices=FORESTS)
    parser.add_argument("--trees", type=int, default=100, help="number of trees (100)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the forest (0)")
    chosen = parser.parse_args(arguments)
    try:
        figures, holds = geometry_figures(chosen.dataset, chosen.forest, chosen.trees, chosen.seed)
    except UserError as error:
        parser.error(str(error))
    for name, text in geometry_lines(figures):
        print(f"{name:<17}{text}")
    return 0 if holds else 1
