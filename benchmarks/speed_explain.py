"""Attribution against TreeSHAP on the same collapsed forest, in one run.

Run ``python benchmarks/speed_explain.py --out benchmarks/results``. Variable-level attribution of
10,000 rows against ``shap.TreeExplainer`` on ``collapse(model).to_sklearn()``, one thread on both
sides; how far the contributions are from adding up to the score; and the memory that they take, as
the trees grow deeper. TreeSHAP is timed on as many rows as are said and scaled.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import shap
from sklearn.datasets import make_regression
from sklearn.ensemble import RandomForestRegressor
from timing import describe, median_seconds, versions, write

from kpp import KPPRegressor, collapse, explain

TARGET = 100
DEPTHS: tuple[int | None, ...] = (4, 8, 12, None)
# Rows that TreeSHAP is timed on: its time grows with the square of the depth.
SHAP_ROWS = {4: 2000, 8: 400, 12: 50, None: 20}


def measure(depth: int | None, n_train: int, n_rows: int, n_shap: int) -> dict[str, Any]:
    """One depth: seconds, deviations and memory of both."""
    X, y = make_regression(n_train + n_rows, 20, n_informative=10, noise=10, random_state=0)
    forest = RandomForestRegressor(100, max_depth=depth, max_features=1 / 3, random_state=0)
    model = KPPRegressor(forest, alpha=0.1, n_jobs=1).fit(X[:n_train], y[:n_train])
    rows = X[n_train:]
    ours = median_seconds(lambda: explain(model, rows), 3)
    tracemalloc.start()
    attribution = explain(model, rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    plain = collapse(model).to_sklearn()
    explainer = shap.TreeExplainer(plain)
    some = rows[:n_shap]
    explainer.shap_values(some[:2], check_additivity=False)
    start = time.perf_counter()
    values = explainer.shap_values(some, check_additivity=False)
    theirs = (time.perf_counter() - start) * n_rows / n_shap
    predicted = plain.predict(some)
    missing = values.sum(axis=1) + np.ravel(explainer.expected_value)[0] - predicted
    size = np.abs(model.predict(rows)).max()
    return {
        "depth": depth,
        "nodes": model.forest_.n_nodes,
        "kpp_s": ours,
        "shap_s": theirs,
        "shap_rows": n_shap,
        "ratio": theirs / ours,
        "met": theirs / ours >= TARGET,
        "kpp_deviation": attribution.residual / size,
        "shap_deviation": float(np.abs(missing).max() / size),
        "peak_mb": peak / 1e6,
    }


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""
    lines = [
        "# Attribution against TreeSHAP",
        "",
        f"Written by `benchmarks/speed_explain.py`; {describe(result)} shap {result['shap']}.",
        "",
        f"Variable-level attribution of {result['rows']} rows, 20 columns, 100 random-forest trees "
        f"grown on {result['train']} rows, against `shap.TreeExplainer` on the same collapsed "
        "forest; one thread on both sides. TreeSHAP is timed on fewer rows and scaled. Deviations "
        "are the largest |baseline + sum of values - score|, relative to the largest score. "
        f"The aim is {TARGET} times.",
        "",
        "| depth | nodes | kpp, s | TreeSHAP, s | (rows timed) | times faster | deviation, kpp "
        "| deviation, TreeSHAP | memory of explain, MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['depth'] or 'unpruned'} | {row['nodes']} | {row['kpp_s']:.3f} "
        f"| {row['shap_s']:.1f} | {row['shap_rows']} | {row['ratio']:.0f} "
        f"| {row['kpp_deviation']:.1e} | {row['shap_deviation']:.1e} | {row['peak_mb']:.1f} |"
        for row in result["depths"]
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all depths."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="small data, to try it out")
    arguments = parser.parse_args()
    n_train, n_rows = (200, 100) if arguments.quick else (5000, 10_000)
    depths = DEPTHS[:1] if arguments.quick else DEPTHS
    rows = [measure(d, n_train, n_rows, min(SHAP_ROWS[d], n_rows)) for d in depths]
    result = {
        **versions(),
        "shap": shap.__version__,
        "rows": n_rows,
        "train": n_train,
        "depths": rows,
    }
    write("speed_explain", result, to_markdown(result), arguments.out)


if __name__ == "__main__":
    main()
