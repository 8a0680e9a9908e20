"""Speed of predict, of the import and of the first call, in one run.

Run ``python benchmarks/speed_predict.py --out benchmarks/results``. Prediction is compared with
the forest's own, one thread on both sides, and for a single row also with all cores allowed. Import
and first call run in fresh processes, the first call with an empty cache of compiled loops.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from timing import N_REPEATS, compare, describe, median_seconds, speed_table, versions, write

from kpp import KPPClassifier, KPPRegressor

# Seconds that the import of kpp may add to scikit-learn's.
IMPORT_TARGET = 0.7
# Milliseconds that a single row may take.
ROW_TARGET = 0.15
TIMED_IMPORT = """
import time; import sklearn.ensemble, sklearn.linear_model
start = time.perf_counter(); from kpp import *; print(time.perf_counter() - start)
"""
FIRST_FIT = """
import time
from sklearn.datasets import load_diabetes
from kpp import KPPRegressor
X, y = load_diabetes(return_X_y=True)
for _ in range(2):
    start = time.perf_counter()
    KPPRegressor("extra-trees", random_state=0).fit(X, y).predict(X)
    print(time.perf_counter() - start)
"""


def time_predict(n_classes: int, n_train: int, n_rows: int) -> list[dict[str, Any]]:
    """Many rows, and one; `n_classes` is 0 for numbers."""
    shape: dict[str, Any] = {"n_informative": 10, "random_state": 0}
    if n_classes:
        X, y = make_classification(n_train, 20, n_classes=n_classes, **shape)
    else:
        X, y = make_regression(n_train, 20, **shape)
    forest = (ExtraTreesClassifier if n_classes else ExtraTreesRegressor)(100, random_state=0)
    model = (KPPClassifier if n_classes else KPPRegressor)(clone(forest), alpha=0.01)
    forest.fit(X, y)
    model.fit(X, y)
    rows = np.random.default_rng(0).standard_normal((n_rows, 20))
    task = f"{n_classes} classes" if n_classes else "numbers"
    timed = []
    for part, n_jobs, target, repeats in (
        (rows, None, 2, N_REPEATS),
        (rows[:1], None, 20, 20 * N_REPEATS),
        (rows[:1], -1, 20, 20 * N_REPEATS),
    ):
        forest.n_jobs = model.n_jobs = n_jobs
        what = f"predict, {task}, {len(part)} rows" + (", n_jobs=-1" if n_jobs else "")
        theirs = median_seconds(lambda part=part: forest.predict(part), repeats)  # type: ignore[misc]
        ours = median_seconds(lambda part=part: model.predict(part), repeats)  # type: ignore[misc]
        timed.append(compare(what, "the forest's predict", theirs, ours, target))
    return timed


def in_fresh_process(program: str, repeats: int, **environment: str) -> list[float]:
    """Medians of the seconds that a program prints, line by line."""
    runs = []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
        )
        runs.append([float(line) for line in done.stdout.split()])
    return np.median(runs, axis=0).tolist()


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""
    first, second = result["first_fit_s"]
    met = "yes" if result["import_s"] <= IMPORT_TARGET else "no"
    lines = [
        "# Speed of predict, import and first call",
        "",
        f"Written by `benchmarks/speed_predict.py`; medians of {N_REPEATS} runs ({20 * N_REPEATS} "
        "for a single row), one thread on both sides unless it says otherwise.",
        "",
        describe(result),
        "",
        "Prediction, trained on 5,000 made rows:",
        "",
        *speed_table(result["predict"]),
        "",
        f"The slowest of the single rows takes {result['slowest_row_ms']:.2f} ms (at most "
        f"{ROW_TARGET}: {'yes' if result['slowest_row_ms'] <= ROW_TARGET else 'no'}), whatever "
        "`n_jobs`.",
        "",
        f"The import of all public names adds {result['import_s']:.2f} s to that of scikit-learn "
        f"(at most {IMPORT_TARGET}: {met}).",
        "",
        f"The very first fit and predict on diabetes take {first:.1f} s, compilation included; the "
        f"next {second:.2f} s. Compiled loops are cached on disk, so this happens once per "
        "installation.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="small data, to try it out")
    arguments = parser.parse_args()
    sizes = (200, 100) if arguments.quick else (5000, 10_000)
    predictions = [row for n_classes in (0, 2, 10) for row in time_predict(n_classes, *sizes)]
    slowest = max(row["kpp_ms"] for row in predictions if "1 rows" in row["what"])
    repeats = 1 if arguments.quick else N_REPEATS
    imported = in_fresh_process(TIMED_IMPORT, repeats)[0]
    with tempfile.TemporaryDirectory() as empty:
        first_fit = in_fresh_process(FIRST_FIT, 1, NUMBA_CACHE_DIR=empty)
        n_compiled = sum(1 for _ in Path(empty).rglob("*.nbc"))
    result = {
        **versions(),
        "predict": predictions,
        "slowest_row_ms": slowest,
        "import_s": imported,
        "first_fit_s": first_fit,
        "n_compiled": n_compiled,
    }
    write("speed_predict", result, to_markdown(result), arguments.out)


if __name__ == "__main__":
    main()
