"""Time and memory of a fit, as ratios to growing the same trees alone, in one run.

Run ``python benchmarks/speed_fit.py --data-dir FOLDER --out benchmarks/results``. The same number
of threads on all sides. A fit with ``alpha="auto"`` is compared with growing the very same trees
(the same fits of five groups, with the same leaves), and with CatBoost at its own defaults on the
same rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data import load
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, make_friedman1
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from timing import describe, versions, write

from kpp import KPPClassifier, KPPRegressor
from kpp.forest.grow import named_forest

# Name, classification, rows (None: as they are), repeats.
SETS: list[tuple[str, bool, int | None, int]] = [
    ("breast_cancer", True, None, 5),
    ("spambase", True, None, 5),
    ("telco_churn", True, None, 5),
    ("made logistic", True, 20_000, 1),
    ("concrete", False, None, 5),
    ("wine_quality_red", False, None, 5),
    ("seoul_bike", False, None, 3),
    ("california_housing", False, 2000, 5),
    ("california_housing", False, None, 1),
    ("diabetes_130us", True, None, 1),
    ("made friedman", False, 100_000, 1),
]
CLASSES: list[tuple[str, bool, int | None, int]] = [
    ("digits", True, None, 3),
    ("made 10 classes", True, 1500, 3),
    ("made 10 classes", True, 20_000, 1),
    ("made 26 classes", True, 3000, 1),
]
BOOSTED: list[tuple[str, bool, int | None, int]] = [
    ("telco_churn", True, None, 1),
    ("seoul_bike", False, None, 1),
    ("california_housing", False, None, 1),
]
MEMORY: list[tuple[str, bool, int | None, int]] = [
    ("made friedman", False, 20_000, 1),
    ("made friedman", False, 100_000, 1),
    ("diabetes_130us", True, None, 1),
]
QUICK: list[tuple[str, bool, int | None, int]] = [("breast_cancer", True, 300, 1)]
PARTS = ("fit", "classes", "boosted", "memory")
# Times the growing that a fit may take, by what it is.
CATBOOST_TIMES, BOOSTED_TIMES = 3.0, 1.5


def allowed(classification: bool, n_rows: int, n_classes: int) -> float:
    """How many times the growing a fit may take."""
    if n_classes > 2:
        return 4.0 if n_classes <= 10 else 8.0
    few = n_rows <= 25_000
    return (2.0 if few else 2.5) if classification else (1.5 if few else 2.0)


def rows_of(name: str, classification: bool, n_rows: int | None, data_dir: str | None) -> Any:
    """X as numbers, categories by their codes and gaps as -999, and y; some of the rows."""
    if name.startswith("made"):
        return made(name, n_rows or 1000)
    if name in ("breast_cancer", "digits"):
        X, y = (load_digits if name == "digits" else load_breast_cancer)(return_X_y=True)
    else:
        frame, target = load(name, data_dir)
        columns = [
            column if pd.api.types.is_numeric_dtype(column) else pd.factorize(column)[0]
            for _, column in frame.items()
        ]
        X, y = np.column_stack(columns).astype(float), target.to_numpy()
        X[~np.isfinite(X)] = -999
    if n_rows is not None:
        chosen = np.random.default_rng(0).choice(len(y), n_rows, replace=False)
        X, y = X[chosen], y[chosen]
    return X, np.unique(y, return_inverse=True)[1] if classification else y.astype(float)


def made(name: str, n_rows: int) -> Any:
    """Rows with noise: friedman1, two classes by its log-odds, or several by a softmax."""
    if "classes" in name:
        rng, k = np.random.default_rng(0), int(name.split()[1])
        X, W = rng.standard_normal((n_rows, 20)), rng.standard_normal((20, k))
        W[8:] = 0.0
        bends = np.sin(2 * X @ rng.standard_normal((20, k)) / np.sqrt(20))
        score = 0.6 * X @ W + 1.2 * bends
        return X, (score + rng.gumbel(size=score.shape)).argmax(axis=1)
    X, y = make_friedman1(n_rows, 20, noise=1.0, random_state=0)
    if name == "made friedman":
        return X, y
    odds = 1.5 * (y - y.mean()) / y.std()
    return X, (np.random.default_rng(0).random(n_rows) < 1 / (1 + np.exp(-odds))).astype(int)


def median_seconds(work: Callable[[], Any], repeats: int) -> float:
    """Median time of a piece of work."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def catboost(classification: bool, X: Any, y: Any, n_jobs: int) -> None:
    """Fit CatBoost at its own defaults."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostClassifier if classification else CatBoostRegressor
    kind(thread_count=n_jobs, verbose=0, allow_writing_files=False, random_seed=0).fit(X, y)


def time_fit(
    name: str, X: Any, y: Any, classification: bool, repeats: int, n_jobs: int, rival: bool
) -> dict[str, Any]:
    """One row of the tables of averaged trees."""
    n_classes = len(np.unique(y)) if classification else 0
    kind = KPPClassifier if classification else KPPRegressor
    model: Any = kind("extra-trees", n_jobs=n_jobs, random_state=0)
    folds = model.fit(X, y).folds_  # compiles, and knows the groups
    products = int(model.n_iter_)
    forest = named_forest(
        "extra-trees",
        classification=classification,
        n_rows=len(folds[0][0]),
        n_estimators=20,
        n_jobs=n_jobs,
    )

    def grow() -> None:
        for q, (train, _) in enumerate(folds):
            clone(forest).set_params(random_state=q).fit(X[train], y[train])

    del model
    ours = median_seconds(
        lambda: kind("extra-trees", n_jobs=n_jobs, random_state=0).fit(X, y), repeats
    )
    theirs = median_seconds(grow, repeats)
    most = allowed(classification, len(y), n_classes)
    row: dict[str, Any] = {
        "what": f"{name}, {len(y)} rows" + (f", {n_classes} classes" if n_classes > 2 else ""),
        "threads": n_jobs,
        "growing_s": theirs,
        "fit_s": ours,
        "times": ours / theirs,
        "allowed": most,
        "products": products,
        "runs": repeats,
    }
    if rival:
        row["catboost_s"] = median_seconds(lambda: catboost(classification, X, y, n_jobs), 1)
        row["of_catboost"] = ours / row["catboost_s"]
    print(row, file=sys.stderr, flush=True)
    return row


def time_boosted(
    name: str, rows: tuple[Any, Any], classification: bool, rounds: int = 200
) -> dict[str, Any]:
    """Five boosters: the whole fit against their growing."""
    X, y = rows
    booster = HistGradientBoostingClassifier if classification else HistGradientBoostingRegressor
    forest = booster(max_iter=rounds, max_leaf_nodes=16, learning_rate=0.05, early_stopping=False)
    kind = KPPClassifier if classification else KPPRegressor
    model: Any = kind(forest, n_jobs=1, random_state=0)
    start = time.perf_counter()
    model.fit(X, y)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    for q, (train, _) in enumerate(model.folds_):
        clone(forest).set_params(random_state=q).fit(X[train], y[train])
    theirs = time.perf_counter() - start
    row = {"what": f"{name}, {len(y)} rows", "growing_s": theirs, "fit_s": ours}
    row |= {"beyond": (ours - theirs) / theirs, "allowed": BOOSTED_TIMES}
    print(row, file=sys.stderr, flush=True)
    return row


def peak_bytes() -> int:
    """Largest resident size of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # the other figure is inherited from the parent process there
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure_memory(
    who: str, name: str, classification: bool, n_rows: int | None, data_dir: str | None
) -> None:
    """Fit once in this process, and print by how much its peak grew, in bytes."""
    X, y = rows_of(name, classification, n_rows, data_dir)
    kind: Any = KPPClassifier if classification else KPPRegressor
    ensemble = ExtraTreesClassifier if classification else ExtraTreesRegressor
    kind("extra-trees", n_estimators=5, n_jobs=1).fit(X[:500], y[:500])  # compile first
    before = peak_bytes()
    if who == "kpp":
        model: Any = kind("extra-trees", n_jobs=1, random_state=0).fit(X, y)
        n_nodes = model.forest_.n_nodes
    else:
        model = ensemble(100, n_jobs=1, random_state=0).fit(X, y)
        n_nodes = sum(tree.tree_.node_count for tree in model.estimators_)
    print(json.dumps({"peak": peak_bytes() - before, "nodes": int(n_nodes)}))


def memory_row(
    name: str, classification: bool, n_rows: int | None, data_dir: str | None
) -> dict[str, Any]:
    """Measure both in processes of their own: a peak never goes down again."""
    row: dict[str, Any] = {"what": f"{name}, {n_rows or 'all'} rows"}
    for who in ("kpp", "scikit-learn"):
        command = [sys.executable, __file__, "--memory-of", name, "--who", who]
        command += ["--rows", str(n_rows)] if n_rows else []
        command += ["--classification"] * classification
        command += ["--data-dir", data_dir] if data_dir else []
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        row[who] = json.loads(done.stdout.splitlines()[-1])
    row["ratio"] = row["kpp"]["peak"] / max(1, row["scikit-learn"]["peak"])
    print(row, file=sys.stderr, flush=True)
    return row


def yes(ok: bool) -> str:
    """How a table says whether a target is met."""
    return "yes" if ok else "no"


def fit_table(rows: list[dict[str, Any]]) -> list[str]:
    """Lines of a table of fits."""
    lines = [
        "| what | threads | growing, s | fit, s | times the growing | allowed | met | CatBoost, s "
        "| times CatBoost | at most 3 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        rival = " | | |"
        if "catboost_s" in row:
            rival = f" {row['catboost_s']:.2f} | {row['of_catboost']:.2f} "
            rival += f"| {yes(row['of_catboost'] <= CATBOOST_TIMES)} |"
        lines.append(
            f"| {row['what']} | {row['threads']} | {row['growing_s']:.2f} | {row['fit_s']:.2f} "
            f"| {row['times']:.2f} | {row['allowed']} | {yes(row['times'] <= row['allowed'])} |"
            + rival
        )
    return lines


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""
    lines = [
        "# Time and memory of a fit",
        "",
        "Written by `benchmarks/speed_fit.py`; the same number of threads on all sides.",
        "",
        describe(result),
        "",
        'A fit with `alpha="auto"` (all alphas, out-of-fold predictions) on 100 extra trees, '
        "against growing the same trees alone and against CatBoost at its own defaults; medians, "
        "after one run that is not counted:",
        "",
        *fit_table(result["fit"]),
        "",
        "Several classes:",
        "",
        *fit_table(result["classes"]),
        "",
        "Five boosters of 200 rounds with 16 leaves: choosing alpha and the final fit together, "
        "against growing the boosters, one thread:",
        "",
        "| what | growing, s | whole fit, s | beyond the growing, of the growing | allowed | met |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['what']} | {row['growing_s']:.2f} | {row['fit_s']:.2f} | {row['beyond']:.2f} "
        f"| {row['allowed']} | {yes(row['beyond'] <= row['allowed'])} |"
        for row in result["boosted"]
    ]
    lines += [
        "",
        "Peak memory beyond the data, against scikit-learn's extra trees of as many trees at their "
        "own defaults, each in a process of its own:",
        "",
        "| what | nodes | peak, MB | scikit-learn's nodes | its peak, MB | ratio | at most 1 |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['what']} | {row['kpp']['nodes']} | {row['kpp']['peak'] / 1e6:.0f} "
        f"| {row['scikit-learn']['nodes']} | {row['scikit-learn']['peak'] / 1e6:.0f} "
        f"| {row['ratio']:.2f} | {yes(row['ratio'] <= 1)} |"
        for row in result["memory"]
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all of it, or one measurement of memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", help="folder with <name>.csv.gz")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument(
        "--parts",
        nargs="*",
        choices=PARTS,
        default=PARTS,
        help="what to measure; the rest is taken from the results in --out",
    )
    parser.add_argument("--quick", action="store_true", help="small data, to try it out")
    parser.add_argument("--memory-of", help="one data set: print its peak memory in bytes")
    parser.add_argument("--who", default="kpp", help="with --memory-of: kpp or scikit-learn")
    parser.add_argument("--rows", type=int, help="with --memory-of")
    parser.add_argument("--classification", action="store_true", help="with --memory-of")
    arguments = parser.parse_args()
    folder, quick = arguments.data_dir, arguments.quick
    if arguments.memory_of:
        measure_memory(
            arguments.who,
            arguments.memory_of,
            arguments.classification,
            arguments.rows,
            folder,
        )
        return
    warnings.simplefilter("ignore", ConvergenceWarning)
    fits, classes, boosted, memory = (
        (QUICK, [], QUICK, QUICK) if quick else (SETS, CLASSES, BOOSTED, MEMORY)
    )
    result: dict[str, Any] = versions()
    kept = [part for part in PARTS if part not in arguments.parts]
    if kept:
        before = json.loads((arguments.out / "speed_fit.json").read_text())
        result |= {part: before[part] for part in kept}
    for part, sets in (("fit", fits), ("classes", classes)):
        if part in kept:
            continue
        result[part] = []
        for name, classification, n_rows, repeats in sets:
            X, y = rows_of(name, classification, n_rows, folder)
            for n_jobs in (1, 2):
                rival = not quick and (part == "fit" or len(y) < 5000)
                row = time_fit(name, X, y, classification, repeats, n_jobs, rival)
                result[part].append(row)
    rounds = 5 if quick else 200
    if "boosted" not in kept:
        result["boosted"] = [
            time_boosted(name, rows_of(name, task, rows, folder), task, rounds)
            for name, task, rows, _ in boosted
        ]
    if "memory" not in kept:
        result["memory"] = [memory_row(name, task, rows, folder) for name, task, rows, _ in memory]
    write("speed_fit", result, to_markdown(result), arguments.out)


if __name__ == "__main__":
    main()
