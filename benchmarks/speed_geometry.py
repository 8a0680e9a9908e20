"""Speed and memory of the path metric, as ratios to SciPy and scikit-learn in one run.

Run ``python benchmarks/speed_geometry.py --data-dir FOLDER --out benchmarks/results`` for the
committed figures. Every comparison uses the same number of threads on both sides and the median
of seven runs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from data import load
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from timing import N_REPEATS, compare, describe, median_seconds, speed_table, versions, write

from kpp import Forest
from kpp.geometry import PathMap, path_weights

N_TREES = 100


def products(embedding: PathMap) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Phi w and Phi' r against the CSR; and what both occupy."""
    csr = embedding.to_csr()
    transposed = csr.T.tocsr()
    random = np.random.default_rng(0)
    w, r = random.standard_normal(csr.shape[1]), random.standard_normal(csr.shape[0])
    forward = median_seconds(lambda: csr @ w)
    # The faster of SciPy's two ways: through the transposed view, or a second matrix.
    backward = min(median_seconds(lambda: csr.T @ r), median_seconds(lambda: transposed @ r))
    ours = median_seconds(lambda: embedding.matvec(w)), median_seconds(lambda: embedding.rmatvec(r))
    row = compare(
        "Phi w and Phi' r, 1 thread", "CSR of decision paths", forward + backward, sum(ours), 10
    )
    gram = median_seconds(lambda: embedding.gram_matvec(r))
    second = compare("Phi Phi' r, 1 thread", "CSR of decision paths", forward + backward, gram, 10)
    csr_bytes = csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes
    # The forest itself is on both sides; the map adds leaf ids and four vectors over nodes.
    own_bytes = embedding.leaf_ids.nbytes + 4 * embedding.scale.nbytes
    memory = {
        "csr_mb": csr_bytes / 2**20,
        "kpp_mb": own_bytes / 2**20,
        "ratio": csr_bytes / own_bytes,
        "entries_per_row": csr.nnz / csr.shape[0],
    }
    return [row, second], memory


def gram_block(embedding: PathMap, n_rows: int) -> dict[str, Any]:
    part = embedding.rows(slice(0, n_rows))
    csr = part.to_csr()
    theirs = median_seconds(lambda: csr @ csr.T)
    ours = median_seconds(part.gram)
    return compare(f"Gram of {n_rows} rows, 1 thread", "CSR times its transpose", theirs, ours, 5)


def routing(model: Any, forest: Forest, X: Any, n_jobs: int) -> dict[str, Any]:
    model.set_params(n_jobs=n_jobs)
    theirs = median_seconds(lambda: model.apply(X))
    ours = median_seconds(lambda: forest.apply(X, n_jobs=n_jobs))
    threads = "1 thread" if n_jobs == 1 else f"{n_jobs} threads"
    return compare(f"apply, {len(X)} rows, {threads}", "scikit-learn's apply", theirs, ours, 2)


def grown_on(n_rows: int, seed: int = 0) -> tuple[Any, Any]:
    X, y = make_classification(n_rows, 20, n_informative=10, random_state=seed)
    return X.astype(np.float32), y


def map_rows(n_rows: int, n_train: int) -> dict[str, Any]:
    """Map many rows, in a process of its own so that its peak memory can be told."""
    X, y = grown_on(n_train)
    model = RandomForestClassifier(N_TREES, random_state=0, n_jobs=-1).fit(X, y)
    forest = Forest.from_model(model)
    embedding = PathMap(forest, path_weights(forest), n_jobs=1)
    rows = np.random.default_rng(1).standard_normal((n_rows, X.shape[1]), dtype=np.float32)
    w = np.ones(forest.n_nodes)
    at_rows = embedding.on(rows)
    return {
        "n_rows": n_rows,
        "map_seconds": median_seconds(lambda: embedding.on(rows)),
        "both_products_seconds": median_seconds(lambda: at_rows.rmatvec(at_rows.matvec(w))),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
        "n_nodes": forest.n_nodes,
    }


def scaling(sizes: list[int], n_train: int) -> list[dict[str, Any]]:
    rows = []
    for size in sizes:
        command = [sys.executable, __file__, "--map-rows", str(size), str(n_train)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows.append(json.loads(done.stdout))
    return rows


def to_markdown(result: dict[str, Any]) -> str:
    lines = [
        "# Speed of the path metric",
        "",
        "Written by `benchmarks/speed_geometry.py`; median of "
        f"{N_REPEATS} runs, same number of threads on both sides.",
        "",
        f"{result['data']}; {result['n_nodes']} nodes. {describe(result)}",
        "",
        *speed_table(result["speed"]),
    ]
    memory = result["memory"]
    lines += [
        "",
        f"Memory: the CSR of decision paths takes {memory['csr_mb']:.1f} MB "
        f"({memory['entries_per_row']:.0f} entries a row), the map {memory['kpp_mb']:.1f} MB: "
        f"{memory['ratio']:.1f} times less.",
        "",
        f"Mapping rows through {N_TREES} trees grown on {result['n_train']} rows, 1 thread:",
        "",
        "| rows | map, s | microseconds a row | Phi w and Phi' r, s | peak memory, MB |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['n_rows']} | {row['map_seconds']:.3f} "
        f"| {1e6 * row['map_seconds'] / row['n_rows']:.2f} "
        f"| {row['both_products_seconds']:.3f} | {row['peak_mb']:.0f} |"
        for row in result["scaling"]
    ]
    growth = result["growth"]
    lines += [
        "",
        f"From the smallest to the largest number of rows the time of a row grows "
        f"{growth['time_per_row']:.2f} times (linear is 1); the largest takes "
        f"{growth['peak_gb']:.2f} GB at its peak (target: under 4; "
        f"{'met' if growth['met'] else 'not met'}).",
    ]
    return "\n".join(lines) + "\n"


def run(data_dir: str | None, quick: bool) -> dict[str, Any]:
    if quick:
        X, y = grown_on(400)
        about, n_gram, sizes, n_train = "400 made rows", 200, [100, 1000], 200
    else:
        X, y = load("spambase", data_dir)
        X, _, y, _ = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
        X, y = X.to_numpy(np.float32), y.to_numpy()
        about, n_gram = f"spambase, {X.shape[0]} x {X.shape[1]}", 2000
        sizes, n_train = [10**4, 10**5, 10**6], 10**4
    model = RandomForestClassifier(N_TREES, random_state=0, n_jobs=-1).fit(X, y)
    forest = Forest.from_model(model)
    embedding = PathMap(forest, path_weights(forest), n_jobs=1).on(X)
    speed, memory = products(embedding)
    speed.append(gram_block(embedding, n_gram))
    for n_jobs in sorted({1, min(2, os.cpu_count() or 1)}):
        speed.append(routing(model, forest, X, n_jobs))
    grown = scaling(sizes, n_train)
    per_row = [row["map_seconds"] / row["n_rows"] for row in grown]
    peak_gb = max(row["peak_mb"] for row in grown) / 2**10
    return {
        "data": f"{about}, {N_TREES} unpruned trees of a random forest",
        "n_nodes": forest.n_nodes,
        "n_train": n_train,
        **versions(),
        "speed": speed,
        "memory": memory,
        "scaling": grown,
        "growth": {
            "time_per_row": per_row[-1] / per_row[0],
            "peak_gb": peak_gb,
            "met": peak_gb < 4,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", help="folder with spambase.csv.gz; OpenML by default")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="small made data, to try it out")
    parser.add_argument("--map-rows", nargs=2, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.map_rows:
        print(json.dumps(map_rows(*arguments.map_rows)))
        return
    result = run(arguments.data_dir, arguments.quick)
    write("speed_geometry", result, to_markdown(result), arguments.out)


if __name__ == "__main__":
    main()
