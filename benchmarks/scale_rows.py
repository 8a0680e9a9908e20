"""Time and peak memory of a fit against the number of rows, up to a million.

Run ``python benchmarks/scale_rows.py --out benchmarks/results``. Made rows (friedman1 with noise,
20 columns), 100 extra trees, ``alpha="auto"``, two threads; every fit in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1
from speed_fit import peak_bytes
from timing import describe, versions, write

from kpp import KPPRegressor

ROWS, QUICK_ROWS = (10_000, 100_000, 1_000_000), (500, 1000)
MOST_SLOPE, MOST_GB = 1.1, 12.0


def fit_once(n_rows: int, n_estimators: int) -> None:
    """Fit in this process, and print what it took; progress goes to standard error."""
    X, y = make_friedman1(n_rows, 20, noise=1.0, random_state=0)
    KPPRegressor("extra-trees", n_estimators=5, n_jobs=2).fit(X[:500], y[:500])  # compile first
    before, start, busy = peak_bytes(), time.perf_counter(), time.process_time()
    model = KPPRegressor(
        "extra-trees", n_estimators=n_estimators, n_jobs=2, random_state=0, verbose=2
    ).fit(X, y)
    row = {
        "rows": n_rows,
        "seconds": time.perf_counter() - start,
        "busy_s": time.process_time() - busy,
        "peak": peak_bytes() - before,
        "whole_process": peak_bytes(),
        "nodes": int(model.forest_.n_nodes),
        "products": int(model.n_iter_),
    }
    print(json.dumps(row))


def slope(rows: list[dict[str, Any]], of: str) -> float:
    """Steepest rise from one number of rows to the next, in the logarithms of both."""
    values, sizes = ([float(row[name]) for row in rows] for name in (of, "rows"))
    return float(np.max(np.diff(np.log(values)) / np.diff(np.log(sizes))))


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""
    rows = result["fits"]
    largest = rows[-1]["whole_process"] / 1e9
    lines = [
        "# Fits from ten thousand to a million rows",
        "",
        "Written by `benchmarks/scale_rows.py`: friedman1 with noise, 20 columns, extra trees, "
        '`alpha="auto"`, two threads.',
        "",
        describe(result),
        "",
        "| rows | fit, s | processor, s | peak beyond the data, MB | nodes | last products |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row['rows']} | {row['seconds']:.1f} | {row['busy_s']:.1f} "
            f"| {row['peak'] / 1e6:.0f} | {row['nodes']} | {row['products']} |"
            for row in rows
        ),
        "",
        f"Steepest slope in the logarithms: time {slope(rows, 'busy_s'):.2f}, memory "
        f"{slope(rows, 'peak'):.2f} (at most {MOST_SLOPE}). The whole process takes "
        f"{largest:.1f} GB at most (allowed: {MOST_GB:g}).",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run every size in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="few rows and trees")
    parser.add_argument("--one", type=int, help="fit so many rows in this process")
    parser.add_argument("--trees", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.one:
        fit_once(arguments.one, arguments.trees)
        return
    trees = 5 if arguments.quick else arguments.trees
    fits = []
    for n_rows in QUICK_ROWS if arguments.quick else ROWS:
        command = [sys.executable, __file__, "--one", str(n_rows), "--trees", str(trees)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        fits.append(json.loads(done.stdout.splitlines()[-1]))
    result = {**versions(), "fits": fits}
    write("scale_rows", result, to_markdown(result), arguments.out)


if __name__ == "__main__":
    main()
