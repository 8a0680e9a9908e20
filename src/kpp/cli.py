"""The ``kpp`` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from sklearn import datasets

from kpp import KPPEmbedding, __version__, half_forest_discrepancy
from kpp.geometry import PathMap, check_isometry

BUILT_IN = {
    "breast_cancer": datasets.load_breast_cancer,
    "diabetes": datasets.load_diabetes,
    "digits": datasets.load_digits,
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 1 where a check fails."""
    parser = argparse.ArgumentParser(
        prog="kpp", description="Kernel of Partition Paths: forests as explicit embeddings."
    )
    parser.add_argument("--version", action="version", version=f"kpp {__version__}")
    commands = parser.add_subparsers(title="commands", required=True)
    geometry = commands.add_parser(
        "geometry", help="embed a built-in data set, show its geometry and check the isometry"
    )
    geometry.add_argument("dataset", nargs="?", default="breast_cancer", choices=sorted(BUILT_IN))
    geometry.add_argument(
        "--forest", default="extra-trees", choices=["extra-trees", "random-forest"]
    )
    geometry.add_argument("--trees", type=int, default=100, help="number of trees (100)")
    geometry.add_argument("--seed", type=int, default=0, help="seed of the forest (0)")
    chosen = parser.parse_args(arguments)
    if chosen.trees < 2:
        geometry.error(f"--trees must be at least 2; got {chosen.trees}")
    return show_geometry(chosen.dataset, chosen.forest, chosen.trees, chosen.seed)


def show_geometry(dataset: str, forest_name: str, n_trees: int, seed: int) -> int:
    """Embed a data set, print its figures and check the isometry on pairs of rows."""
    X, y = BUILT_IN[dataset](return_X_y=True)
    model = KPPEmbedding(forest_name, n_estimators=n_trees, n_jobs=-1, random_state=seed).fit(X, y)
    phi = model.map_.on(X)
    assert isinstance(phi, PathMap)
    csr = phi.to_csr()
    csr_bytes = csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes
    map_bytes = phi.leaf_ids.nbytes + 4 * phi.scale.nbytes
    curve = half_forest_discrepancy(model, X, curve=True)
    check = check_isometry(model, X)
    steps = "  ".join(f"{k}: {v:.3f}" for k, v in zip(curve.n_trees, curve.values, strict=True))
    rows = [
        ("data", f"{dataset}, {X.shape[0]} rows, {X.shape[1]} columns, {model.task_}"),
        ("forest", f"{forest_name}, {n_trees} trees, {model.forest_.n_nodes} nodes"),
        ("embedding", f"{csr.nnz / len(X):.0f} of {phi.shape[1]} coordinates nonzero in a row"),
        (
            "memory",
            f"map {map_bytes / 2**20:.2f} MB; as a sparse matrix {csr_bytes / 2**20:.2f} MB",
        ),
        ("forest mass S_T", f"{phi.weights.forest_mass:.4g}"),
        ("mean |Phi(x)|^2", f"{phi.row_norms(squared=True).mean():.4f}"),
        ("sup |Phi(x)|", f"{phi.sup_norm():.4f}  (at most 1)"),
        ("half-forest gap", f"{steps}  (by number of trees)"),
        (
            "isometry",
            f"{'holds' if check.holds else 'FAILS'} on {len(check.pairs)} pairs: "
            f"|Phi(x) - Phi(x')|^2 = path distance, largest difference {check.largest_gap:.1e}",
        ),
    ]
    for name, text in rows:
        print(f"{name:<17}{text}")
    return 0 if check.holds else 1


if __name__ == "__main__":
    sys.exit(main())
