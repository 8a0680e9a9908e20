"""Time and memory of a fit, as ratios to growing the same trees alone, in one run.

Run ``python benchmarks/speed_fit.py --data-dir FOLDER --out benchmarks/results``. One thread on
both sides. A fit with ``alpha="auto"`` is compared with growing the very same trees: the same
fits of five groups. The largest sets are repeated with jitter to 100,000 rows.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data import load
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from timing import N_REPEATS, compare, describe, median_seconds, versions, write

from kpp import KPPClassifier, KPPRegressor

# Name, classification, rows (None: as they are), repeats. Targets: a fit may take 1.5 times (ridge)
# or 3 times (logistic) the growing at 1,000 rows and above, 2.5 and 4 times below.
SETS: list[tuple[str, bool, int | None, int]] = [
    ("breast_cancer", True, None, N_REPEATS),
    ("spambase", True, None, N_REPEATS),
    ("concrete", False, None, N_REPEATS),
    ("wine_quality_red", False, None, N_REPEATS),
    ("california_housing", False, 2000, N_REPEATS),
    ("california_housing", False, None, 3),
    ("diamonds", False, 100_000, 1),
    ("bank_marketing", True, 100_000, 1),
]
MEMORY_SETS = SETS[-2:]


def rows_of(name: str, classification: bool, n_rows: int | None, data_dir: str | None) -> Any:
    """X as numbers, categories by their codes, and y; some of the rows, or repeats with jitter."""
    if name == "breast_cancer":
        X, y = load_breast_cancer(return_X_y=True)
    else:
        frame, target = load(name, data_dir)
        columns = [
            column if pd.api.types.is_numeric_dtype(column) else pd.factorize(column)[0]
            for _, column in frame.items()
        ]
        X, y = np.column_stack(columns).astype(float), target.to_numpy()
    if n_rows is not None:
        rng = np.random.default_rng(0)
        chosen = rng.choice(len(y), n_rows, replace=n_rows > len(y))
        X, y = X[chosen], y[chosen]
        if n_rows > len(np.unique(chosen)):
            X = X + 1e-3 * X.std(axis=0) * rng.standard_normal(X.shape)
    return X, np.unique(y, return_inverse=True)[1] if classification else y.astype(float)


def time_fit(name: str, X: Any, y: Any, classification: bool, repeats: int) -> dict[str, Any]:
    """One row of the table."""
    model = (KPPClassifier if classification else KPPRegressor)(n_jobs=1, random_state=0)
    forest = (ExtraTreesClassifier if classification else ExtraTreesRegressor)(20, n_jobs=1)

    def grow() -> None:
        for q, (train, _) in enumerate(folds):
            clone(forest).set_params(random_state=q).fit(X[train], y[train])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = clone(model).fit(X, y)
        folds, products = fitted.folds_, fitted.n_iter_
        del fitted
        ours = median_seconds(lambda: clone(model).fit(X, y), repeats)
    theirs = median_seconds(grow, repeats)
    allowed = (3 if classification else 1.5) if len(y) >= 1000 else (4 if classification else 2.5)
    task = "logistic" if classification else "ridge"
    row = compare(f"{task}, {name}, {len(y)} rows", "growing alone", theirs, ours, 1 / allowed)
    return row | {
        "times_the_growing": ours / theirs,
        "allowed": allowed,
        "products_of_the_final_fit": products,
        "runs": repeats,
    }


def peak_bytes() -> int:
    """Largest resident size of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # the other figure is inherited from the parent process there
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure_memory(name: str, classification: bool, n_rows: int, data_dir: str | None) -> None:
    """Fit once in this process, and print the peak and what it is allowed to be, in bytes."""
    X, y = rows_of(name, classification, n_rows, data_dir)
    kind = KPPClassifier if classification else KPPRegressor
    kind(n_estimators=5, n_jobs=1).fit(X[:500], y[:500])  # compile first
    before = peak_bytes()
    model = kind(n_jobs=1, random_state=0).fit(X, y)
    peak = peak_bytes() - before
    forest = model.forest_
    arrays = [getattr(forest, name) for name in vars(forest)]
    arrays += list(vars(forest.statistics).values())
    flat = sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))
    # The source ensemble is aside: one group of 20 trees lives at a time. scikit-learn keeps 64
    # bytes for a node and 8 for each value.
    source = forest.n_nodes // 5 * (64 + 8 * (len(model.classes_) if classification else 1))
    allowed = flat + 3 * 8 * forest.n_nodes + 4 * model.map_.leaf_ids.nbytes
    print(peak, allowed, source, forest.n_nodes)


def memory_row(
    name: str, classification: bool, n_rows: int, data_dir: str | None
) -> dict[str, Any]:
    """Measure in a process of its own: a peak never goes down again."""
    command = [sys.executable, __file__, "--memory-of", name, "--rows", str(n_rows)]
    command += ["--classification"] * classification
    command += ["--data-dir", data_dir] if data_dir else []
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    peak, allowed, source, n_nodes = map(int, done.stdout.split())
    return {
        "what": f"{name}, {n_rows} rows",
        "nodes": n_nodes,
        "peak_mb": peak / 1e6,
        "source_mb": source / 1e6,
        "allowed_mb": allowed / 1e6,
        "met": peak - source <= allowed,
    }


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""
    lines = [
        "# Time and memory of a fit",
        "",
        "Written by `benchmarks/speed_fit.py`; one thread on both sides.",
        "",
        describe(result),
        "",
        'A fit with `alpha="auto"` (20 alphas and more, out-of-fold predictions) against growing '
        "the same 100 trees alone; medians of the given number of runs, after one that is not "
        "counted:",
        "",
        "| what | growing, ms | fit, ms | times the growing | allowed | met | runs |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['what']} | {row['rival_ms']:.0f} | {row['kpp_ms']:.0f} "
        f"| {row['times_the_growing']:.2f} | {row['allowed']} | {'yes' if row['met'] else 'no'} "
        f"| {row['runs']} |"
        for row in result["fit"]
    ]
    lines += [
        "",
        "Peak memory of a fit beyond what was in use before it. Allowed, without the source "
        "ensemble (one group of 20 trees lives at a time): the flat forest, three vectors of one "
        "number per node, and four times the leaf ids.",
        "",
        "| what | nodes | peak, MB | of it source ensemble, MB | allowed, MB | met |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['what']} | {row['nodes']} | {row['peak_mb']:.0f} | {row['source_mb']:.0f} "
        f"| {row['allowed_mb']:.0f} | {'yes' if row['met'] else 'no'} |"
        for row in result["memory"]
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all of it, or one measurement of memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", help="folder with <name>.csv.gz")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="small data, to try it out")
    parser.add_argument("--memory-of", help="one data set: print its peak memory in bytes")
    parser.add_argument("--rows", type=int, help="with --memory-of")
    parser.add_argument("--classification", action="store_true", help="with --memory-of")
    arguments = parser.parse_args()
    folder, quick = arguments.data_dir, arguments.quick
    if arguments.memory_of:
        measure_memory(arguments.memory_of, arguments.classification, arguments.rows, folder)
        return
    fits = []
    for name, classification, n_rows, repeats in SETS[:1] if quick else SETS:
        X, y = rows_of(name, classification, n_rows, folder)
        fits.append(time_fit(name, X, y, classification, 1 if quick else repeats))
    sets = [("breast_cancer", True, 500, 1)] if quick else MEMORY_SETS
    memory = [memory_row(name, task, rows or 0, folder) for name, task, rows, _ in sets]
    result = {**versions(), "fit": fits, "memory": memory}
    write("speed_fit", result, to_markdown(result), arguments.out)


if __name__ == "__main__":
    main()
