"""Products and fits on a Dask cluster against rows and workers, and trees grown on partitions.

Run ``python benchmarks/scale_dask.py --out benchmarks/results``. Made rows (10 columns of single
precision), worker processes of one thread on this machine with a stated memory limit each. The
forest of products and fits is given, 20 trees of depth 10: what is measured is the linear layer.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from timing import describe, versions, write

from kpp import Forest, KPPRegressor
from kpp.dask import DaskKPPRegressor
from kpp.dask.data import read_data
from kpp.dask.maps import DaskMap
from kpp.dask.session import Session
from kpp.geometry import PathMap, path_weights
from kpp.solvers import ridge_path

ROWS, QUICK_ROWS = (100_000, 1_000_000, 10_000_000), (4_000,)
WORKERS = (1, 2, 4)
N_COLUMNS, CHUNK = 10, 500_000
TREES, DEPTH = 20, 10
# A large penalty takes few products: what is measured is the price of one.
ALPHA_PER_ROW, TOL = 1e-4, 1e-3
PER_TREE = (1, 4, 16)
PARTS = ("products", "partitions")
ALPHAS_OF_LOSS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
NOISE = 0.5


def target(X: Any, noise: Any) -> Any:
    """A function of four columns, with noise; of arrays here, or of Dask's."""
    return X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X[:, 3] ** 2 + NOISE * noise


def made(n_rows: int, chunk: int) -> tuple[Any, Any]:
    """Rows and target, made on the workers; the same for any number of them."""
    random = da.random.default_rng(0)
    X = random.normal(size=(n_rows, N_COLUMNS), chunks=(chunk, N_COLUMNS)).astype(np.float32)
    noise = random.normal(size=n_rows, chunks=chunk)
    return X, target(X, noise)


def here(n_rows: int, seed: int) -> tuple[Any, Any]:
    """Rows and target in this process."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, N_COLUMNS)).astype(np.float32)
    return X, target(X, random.normal(size=n_rows))


def chunk_of(n_rows: int) -> int:
    """Rows of a partition: four partitions at least."""
    return min(CHUNK, -(-n_rows // 4))


def moved(client: Client) -> int:
    """Bytes that workers have sent to one another so far."""
    sent = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
    return int(sum(sent.values()))


def products(
    client: Client, forest: Forest, n_rows: int, chunk: int, n_products: int = 5
) -> dict[str, Any]:
    """Time and bytes of a product with the Gram, and of a fit."""
    X, y = made(n_rows, chunk)
    X, y = client.persist([X, y])
    wait([X, y])
    session = Session(client)
    data = read_data(session, X, y, None, classification=False)
    embedding = PathMap(forest, path_weights(forest))
    block = DaskMap.on(data.partitions, embedding, data.X)
    vector = data.target[:, 0]
    block.gram_matvec(vector).sum()  # routes, and compiles
    before, start = moved(client), time.perf_counter()
    for _ in range(n_products):
        block.gram_matvec(vector).sum()
    seconds = (time.perf_counter() - start) / n_products
    sent = (moved(client) - before) / n_products
    found = {
        "rows": n_rows,
        "partitions": len(data.partitions),
        "numbers": block.outline.length,
        "product_s": seconds,
        "product_bytes": sent,
        "kpp": versions()["versions"]["kpp"],
    }
    session.close()
    del data, block, vector
    start = time.perf_counter()
    model = DaskKPPRegressor(
        forest, alpha=ALPHA_PER_ROW * n_rows, tol=TOL, keep_rows=False, client=client
    ).fit(X, y)
    found |= {"fit_s": time.perf_counter() - start, "products": model.model_.n_iter_}
    return found


def alone(forest: Forest, n_rows: int, chunk: int) -> dict[str, Any]:
    """The same fit of the same rows in this process, on two threads."""
    X, y = (values.compute(scheduler="threads") for values in made(n_rows, chunk))
    start = time.perf_counter()
    model = KPPRegressor(
        forest, regime="fixed", alpha=ALPHA_PER_ROW * n_rows, tol=TOL, n_jobs=2
    ).fit(X, y)
    return {
        "rows": n_rows,
        "fit_s": time.perf_counter() - start,
        "products": model.n_iter_,
    }


def partition_loss(n_rows: int, n_trees: int) -> list[dict[str, Any]]:
    """R2 on new rows of trees that were grown on 1, 2, ... of 16 partitions.

    In this process: with given trees the fit of a cluster is that of one machine.
    """
    X, y = here(n_rows, 0)
    partition = np.random.default_rng(0).permutation(n_rows) % max(PER_TREE)
    checked, new = (here(50_000, seed) for seed in (1, 3))
    found = []
    for each in PER_TREE:
        start = time.perf_counter()
        trees = []
        for t in range(n_trees):
            # As on a cluster: one tree after the other has the next partitions.
            rows = np.isin(partition, (t * each + np.arange(each)) % max(PER_TREE))
            grown = ExtraTreesRegressor(1, min_samples_leaf=5, random_state=t)
            trees.append(Forest.from_model(grown.fit(X[rows], y[rows])))
        forest = Forest.concatenate(trees)
        phi = PathMap(forest, path_weights(forest))
        path = ridge_path(phi.on(X), y, ALPHAS_OF_LOSS, tol=TOL, max_iter=300)
        nodes = [phi.on(X).rmatvec(dual[:, 0]) for dual in path.dual]
        r2s = [
            [_r2(own, phi.on(own[0]) @ w + b) for w, b in zip(nodes, path.intercept, strict=True)]
            for own in (checked, new)
        ]
        best = int(np.argmax(r2s[0]))
        found.append(
            {
                "partitions_per_tree": each,
                "r2": r2s[1][best],
                "nodes": int(forest.n_nodes),
                "alpha": float(path.alphas[best]),
                "seconds": time.perf_counter() - start,
            }
        )
        print(found[-1], flush=True)
    return found


def _r2(rows: tuple[Any, Any], predicted: Any) -> float:
    """Against the function without noise."""
    truth = target(rows[0], np.zeros(len(rows[0])))
    return float(1 - np.mean((predicted - truth) ** 2) / truth.var())


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""
    lines = [
        "# Products and fits on a Dask cluster",
        "",
        f"Worker processes of one thread each, {result['memory_limit']} of memory a worker, on one "
        f"machine of {result['cores']} cores. "
        f"A given forest of {TREES} trees of depth {DEPTH}, {_numbers(result):,} "
        f"leaves; partitions of up to {CHUNK:,} rows of {N_COLUMNS} columns in single precision. "
        f"Fits at alpha = {ALPHA_PER_ROW:g} per row, to a duality gap of {TOL:g}. By kpp "
        f"{', '.join(sorted({row['kpp'] for row in result['rows']}))}.",
        "",
        "| rows | workers | partitions | a product, s | bytes moved per product "
        "| fit, s | products | one process with 2 threads, fit, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    known = {row["rows"]: row for row in result["alone"]}
    for row in result["rows"]:
        beside = known.get(row["rows"])
        other = "not run" if beside is None else f"{beside['fit_s']:.1f}"
        lines.append(
            f"| {row['rows']:,} | {row['workers']} | {row['partitions']} | {row['product_s']:.3f} "
            f"| {row['product_bytes']:,.0f} | {row['fit_s']:.1f} | {row['products']} | {other} |"
        )
    paper = _on_paper(result) if result["rows"] else []
    lines += ["", *paper, "", *_of_partitions(result), "", describe(result)]
    return "\n".join(lines) + "\n"


def _numbers(result: dict[str, Any]) -> int:
    """Leaves of the given forest; 0 where products were not measured."""
    return int(result["rows"][0]["numbers"]) if result["rows"] else 0


def _on_paper(result: dict[str, Any]) -> list[str]:
    """What communication costs at 100 workers."""
    numbers = _numbers(result)
    each = 8 * numbers
    up, down = 99 * each, 99 * each
    speed = 1.25e9
    levels = int(np.ceil(np.log(100) / np.log(8)))
    seconds = (levels * 7 * each + 7 * each) / speed
    return [
        "## Communication at 100 workers, on paper",
        "",
        "A product moves one number of 8 bytes for each leaf, L in all, and for each score. With W "
        "workers and sums taken in groups of 8, every worker's sum travels once, and the numbers "
        "of the leaves come back to every worker once: 2 (W - 1) 8 L bytes at least. A worker has "
        "several partitions, whose sums meet on other workers by chance: P partitions move "
        "at most (P - 1 + W - 1) 8 L bytes, whatever the number of rows. Here L = "
        f"{numbers:,}: with 100 workers and 100 partitions {(up + down) / 1e6:.0f} MB a product in "
        f"all. One worker takes at most 7 sums at each of {levels} levels and sends the numbers to "
        f"a few others, who pass them on: about {1e3 * seconds:.1f} ms at 10 Gbit/s, beside "
        "some milliseconds of the scheduler for each round of tasks. A forest of a hundred times "
        f"as many leaves takes {0.1 * seconds * 1e3:.1f} s.",
    ]


def _of_partitions(result: dict[str, Any]) -> list[str]:
    rows = result["partition_loss"]
    if not rows:
        return ["## Trees grown on partitions", "", "Not run."]
    best = rows[-1]["r2"]
    lines = [
        "## Trees grown on partitions",
        "",
        f"{result['loss_rows']:,} rows in 16 partitions, {result['loss_trees']} extra trees with "
        "at least 5 rows a leaf; the layer is fitted on all rows in one process, which gives what "
        "a cluster gives for the same trees, and alpha is chosen on 50,000 further rows. R2 on "
        "50,000 new rows, against the function without noise. 16 of 16 is one machine: every tree "
        "sees all rows. Seconds beside other work.",
        "",
        "| partitions per tree | R2 | lost against all | nodes | alpha | fit, s |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['partitions_per_tree']} of 16 | {row['r2']:.4f} | {best - row['r2']:.4f} "
            f"| {row['nodes']:,} | {row['alpha']:.2g} | {row['seconds']:.0f} |"
        )
    enough = next(k for k in rows if all(best - m["r2"] <= 0.001 for m in rows[rows.index(k) :]))
    lines += [
        "",
        f"From {enough['partitions_per_tree']} of 16 partitions a tree on, at most 0.001 of R2 is "
        "lost. Where the figures fall with the partitions, larger trees of leaves of as few rows "
        "know the noise of the rows that the layer is fitted on; smaller ones know that of theirs "
        "only.",
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--memory-limit", default="4GB")
    parser.add_argument("--rows", type=int, nargs="*")
    parser.add_argument("--parts", choices=PARTS, nargs="*", default=PARTS)
    parser.add_argument("--loss-rows", type=int, default=1_000_000)
    parser.add_argument("--loss-trees", type=int, default=10)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    sizes = given.rows or (QUICK_ROWS if given.quick else ROWS)
    X, y = here(2_000 if given.quick else 50_000, 2)
    grown = RandomForestRegressor(TREES, max_depth=DEPTH, random_state=0, n_jobs=2).fit(X, y)
    forest = Forest.from_model(grown)
    loss_rows = 3_200 if given.quick else given.loss_rows
    known = Path(given.out or ".") / "scale_dask.json"
    result: dict[str, Any] = {"rows": [], "alone": [], "partition_loss": []}
    if set(given.parts) != set(PARTS) and known.exists():
        result |= json.loads(known.read_text("utf-8"))
    result |= {"memory_limit": given.memory_limit, **versions()}

    def save() -> None:
        # After every piece: some take minutes.
        result["rows"].sort(key=lambda row: (row["rows"], row["workers"]))
        write("scale_dask", result, to_markdown(result), given.out)

    def cluster_of(n_workers: int) -> LocalCluster:
        return LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            memory_limit=given.memory_limit,
            dashboard_address=":0",
            silence_logs=logging.ERROR,
        )

    if "products" in given.parts:
        result |= {"rows": [], "alone": []}
        for n_workers in WORKERS:
            with cluster_of(n_workers) as cluster, Client(cluster) as client:
                for n_rows in sizes:
                    row = products(client, forest, n_rows, chunk_of(n_rows))
                    result["rows"].append({"workers": n_workers} | row)
                    save()
        for n_rows in sizes:
            result["alone"].append(alone(forest, n_rows, chunk_of(n_rows)))
            save()
    if "partitions" in given.parts:
        result |= {"loss_rows": loss_rows, "loss_trees": given.loss_trees}
        result["partition_loss"] = partition_loss(loss_rows, given.loss_trees)
        save()


if __name__ == "__main__":
    main()
