"""Serving: kpp, scikit-learn's forest, onnxruntime, treelite, LightGBM and CatBoost in one run.

Run ``python benchmarks/serving.py --out benchmarks/results``. Each contestant predicts the same
10,000 rows, and the same single row many times, on one thread and on two. They take turns, so that
whatever else the machine does falls on all of them alike: read the ratios, not the times.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from data import load
from sklearn.datasets import make_friedman1
from sklearn.ensemble import ExtraTreesRegressor
from timing import describe, versions, write

from kpp import KPPRegressor, to_onnx, to_treelite
from kpp.export import encoded_rows

SINGLE_TARGET_MS = 0.15
TOOLS = ("onnxruntime", "treelite", "tl2cgen", "lightgbm", "catboost")
# Rounds that are tried for a booster, until it is as accurate as kpp's extra trees.
ROUNDS = (100, 200, 400)


@dataclass
class Contestant:
    """One way to predict: which model, by what, and a function of rows and threads."""

    model: str
    by: str
    predict: Callable[[Any, int], Any]
    rmse: float = np.nan


def rows_of(name: str, n_train: int, n_test: int, data_dir: str | None) -> tuple[Any, ...]:
    """Rows to fit and rows to predict, as arrays."""
    if name == "made":
        X, y = make_friedman1(n_train + n_test, 10, noise=1.0, random_state=0)
    else:
        frame, target = load(name, data_dir)
        X, y = frame.to_numpy(np.float64), target.to_numpy(np.float64)
    order = np.random.default_rng(0).permutation(len(X))[: n_train + n_test]
    train, test = order[:n_train], order[n_train:]
    X_test = X[np.resize(test, n_test)]
    return X[train], y[train], np.ascontiguousarray(X_test), y[np.resize(test, n_test)]


def with_onnx(name: str, model: Any, precision: str) -> Contestant:
    """A model by onnxruntime, with a session for each number of threads."""
    import onnxruntime

    graph = to_onnx(model, precision=precision).SerializeToString()
    sessions = {}
    for threads in (1, 2):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        sessions[threads] = onnxruntime.InferenceSession(
            graph, options, providers=["CPUExecutionProvider"]
        )
    dtype = np.float64 if precision == "double" else np.float32
    copies: dict[int, Any] = {}

    def predict(rows: Any, threads: int) -> Any:
        # Rows are in the graph's type before, as a service would have them.
        if id(rows) not in copies:
            copies[id(rows)] = rows, rows.astype(dtype)  # both, so that the id stays theirs
        return sessions[threads].run(None, {"X": copies[id(rows)][1]})[0]

    return Contestant(name, f"onnxruntime, {precision}", predict)


def with_treelite(name: str, model: Any, folder: Path | None) -> list[Contestant]:
    """A model by treelite's interpreter, and compiled where a folder and a compiler are there."""
    import treelite

    written = to_treelite(model)
    found = [
        Contestant(
            name,
            "treelite",
            lambda rows, threads: treelite.gtil.predict(written, rows, nthread=threads),
        )
    ]
    if folder is None or shutil.which("gcc") is None:
        return found
    import tl2cgen

    library = folder / f"{len(name)}.so"
    options = {"parallel_comp": 8, "quantize": 0}
    tl2cgen.export_lib(written, toolchain="gcc", libpath=str(library), params=options, nthread=2)
    predictors = {n: tl2cgen.Predictor(str(library), nthread=n) for n in (1, 2)}

    def predict(rows: Any, threads: int) -> Any:
        return predictors[threads].predict(tl2cgen.DMatrix(rows, dtype="float64"))

    return [*found, Contestant(name, "tl2cgen", predict)]


def with_kpp(name: str, model: Any) -> Contestant:
    """A model by its own predict."""

    def predict(rows: Any, threads: int) -> Any:
        model.n_jobs = threads
        return model.predict(rows)

    return Contestant(name, "kpp", predict)


def boosters(X: Any, y: Any, X_test: Any, y_test: Any, goal: float) -> list[Contestant]:
    """LightGBM and CatBoost, with as many rounds as reach the accuracy aimed at."""
    import lightgbm
    from catboost import CatBoostRegressor

    found = []
    for rounds in ROUNDS:
        booster = lightgbm.LGBMRegressor(n_estimators=rounds, verbose=-1, n_jobs=2).fit(X, y)
        if rmse(booster.predict(X_test), y_test) <= goal:
            break
    found.append(
        Contestant(
            f"LightGBM, {rounds} rounds",
            "LightGBM",
            lambda rows, threads: booster.booster_.predict(rows, num_threads=threads),
        )
    )
    for rounds in ROUNDS:
        cat = CatBoostRegressor(rounds, verbose=False, thread_count=2, allow_writing_files=False)
        cat.fit(X, y)
        if rmse(cat.predict(X_test), y_test) <= goal:
            break
    found.append(
        Contestant(
            f"CatBoost, {rounds} rounds",
            "CatBoost",
            lambda rows, threads: cat.predict(rows, thread_count=threads),
        )
    )
    return found


def rmse(predicted: Any, y: Any) -> float:
    """Root of the mean squared error."""
    return float(np.sqrt(np.mean(np.square(np.ravel(predicted) - y))))


def enter(
    X: Any, y: Any, X_test: Any, y_test: Any, n_trees: int, folder: Path | None
) -> list[Contestant]:
    """Fit everything; check that the exports say what their model says."""
    forest = ExtraTreesRegressor(n_trees, n_jobs=2, random_state=0).fit(X, y)

    def by_forest(rows: Any, threads: int) -> Any:
        forest.n_jobs = threads
        return forest.predict(rows)

    found = [Contestant("extra trees", "scikit-learn", by_forest)]
    names = {
        "KPP, extra trees": "extra-trees",
        "KPP, boosted": "boosted",
        "KPP, the default blend": "blend",
    }
    for name, kind in names.items():
        model = KPPRegressor(kind, n_estimators=n_trees, n_jobs=2, random_state=0).fit(X, y)
        own = model.predict(X_test)
        found.append(with_kpp(name, model))
        found += [with_onnx(name, model, precision) for precision in ("double", "single")]
        if kind != "blend":
            assert (encoded_rows(model, X_test[:10]) == X_test[:10]).all()
            # An unpruned forest is more code than a compiler takes in minutes.
            found += with_treelite(name, model, folder if kind == "boosted" else None)
        for one in found:
            if one.model == name and one.by not in ("kpp", "onnxruntime, single"):
                assert np.allclose(np.ravel(one.predict(X_test, 1)), own, rtol=1e-9), one.by
    goal = rmse(found[1].predict(X_test, 2), y_test)
    found += boosters(X, y, X_test, y_test, goal)
    for one in found:
        one.rmse = rmse(one.predict(X_test, 2), y_test)
    return found


def race(
    contestants: list[Contestant], rows: Any, threads: int, n_turns: int, n_single: int
) -> list[dict[str, Any]]:
    """Times of many rows and of a single one; the contestants take turns."""
    row = np.ascontiguousarray(rows[:1])
    many: list[list[float]] = [[] for _ in contestants]
    single: list[list[float]] = [[] for _ in contestants]
    for turn in range(n_turns + 1):
        for one, all_rows, one_row in zip(contestants, many, single, strict=True):
            start = time.perf_counter()
            one.predict(rows, threads)
            seconds = time.perf_counter() - start
            calls = []
            for _ in range(n_single):
                start = time.perf_counter()
                one.predict(row, threads)
                calls.append(time.perf_counter() - start)
            if turn > 0:  # the first is for caches
                all_rows.append(seconds)
                one_row += calls[1:]
    return [
        {
            "model": one.model,
            "by": one.by,
            "threads": threads,
            "rmse": one.rmse,
            "rows_per_second": len(rows) / float(np.median(all_rows)),
            "single_median_ms": 1e3 * float(np.median(one_row)),
            "single_p99_ms": 1e3 * float(np.percentile(one_row, 99)),
        }
        for one, all_rows, one_row in zip(contestants, many, single, strict=True)
    ]


def targets(races: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Kpp against onnxruntime in double precision, model by model."""
    found = []
    for own in (row for row in races if row["by"] == "kpp"):
        same = ("model", "threads")
        (theirs,) = (
            row
            for row in races
            if row["by"] == "onnxruntime, double" and all(row[k] == own[k] for k in same)
        )
        found.append(
            {
                "model": own["model"],
                "threads": own["threads"],
                "ratio": own["rows_per_second"] / theirs["rows_per_second"],
                "single_ms": own["single_median_ms"],
            }
        )
    return found


def second_thread(races: list[dict[str, Any]]) -> list[str]:
    """A remark where a second thread made scikit-learn's forest no faster: a core was not free."""
    one, two = (
        next(
            row["rows_per_second"]
            for row in races
            if row["by"] == "scikit-learn" and row["threads"] == threads
        )
        for threads in (1, 2)
    )
    if two > 1.2 * one:
        return []
    return [
        "",
        "Two threads were hardly faster than one, for scikit-learn's forest too: something else "
        "used a core. The ratios at two threads say how each bears that.",
    ]


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""
    tools = ", ".join(f"{name} {number}" for name, number in result["tools"].items())
    lines = [
        "# Serving",
        "",
        f"Written by `benchmarks/serving.py`: {result['n_train']:,} rows of {result['data']} to "
        f"fit, {result['n_rows']:,} to predict, {result['n_trees']} trees. Medians of "
        f"{result['n_turns']} turns; the contestants take turns in one run: read the ratios rather "
        f"than the times. Load of the machine before: {result['load_before']:.1f}.",
        "",
        describe(result),
        "",
        f"{tools}.",
    ]
    for threads in (1, 2):
        lines += [
            "",
            f"## {threads} thread{'s' if threads > 1 else ''}",
            "",
            "| model | predicted by | RMSE | rows per second | of kpp's | one row, ms | p99, ms |",
            "|---|---|---|---|---|---|---|",
        ]
        races = [row for row in result["races"] if row["threads"] == threads]
        for row in races:
            own = [r for r in races if r["model"] == row["model"] and r["by"] == "kpp"]
            ratio = f"{row['rows_per_second'] / own[0]['rows_per_second']:.2f}" if own else ""
            lines.append(
                f"| {row['model']} | {row['by']} | {row['rmse']:.4f} "
                f"| {row['rows_per_second']:,.0f} | {ratio} | {row['single_median_ms']:.3f} "
                f"| {row['single_p99_ms']:.3f} |"
            )
    lines += [
        *second_thread(result["races"]),
        "",
        "## Aims",
        "",
        f"kpp's own `predict` at least as fast as onnxruntime (double) on {result['n_rows']:,} "
        f"rows, and a single row within {SINGLE_TARGET_MS} ms by the median:",
        "",
        "| model | threads | times onnxruntime's rows per second | met | one row, ms | met |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['model']} | {row['threads']} | {row['ratio']:.2f} "
        f"| {'yes' if row['ratio'] >= 1 else 'no'} | {row['single_ms']:.3f} "
        f"| {'yes' if row['single_ms'] <= SINGLE_TARGET_MS else 'no'} |"
        for row in result["aims"]
    ]
    lines += [
        "",
        "LightGBM and CatBoost have as many rounds, of "
        f"{', '.join(map(str, ROUNDS))}, as reach the RMSE of KPP on extra trees, or the most. "
        "With `--compile`, tl2cgen makes a library of the boosted model: unpruned trees are more "
        "code than a compiler takes in minutes. Rows are in each tool's own type before; what "
        "tl2cgen's `DMatrix` costs is counted.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--data-dir", help="folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="small data, to try it out")
    parser.add_argument("--rows", type=int, default=2000, help="rows to fit")
    parser.add_argument("--turns", type=int, default=7, help="times that each predicts the rows")
    parser.add_argument("--compile", action="store_true", help="tl2cgen as well; takes minutes")
    arguments = parser.parse_args()
    quick = arguments.quick
    name = "made" if quick else "california_housing"
    n_train, n_rows, n_trees = (200, 100, 10) if quick else (arguments.rows, 10_000, 100)
    n_turns, n_single = (2, 5) if quick else (arguments.turns, 60)
    load_before = os.getloadavg()[0]
    X, y, X_test, y_test = rows_of(name, n_train, n_rows, arguments.data_dir)
    with tempfile.TemporaryDirectory() as folder:
        contestants = enter(
            X, y, X_test, y_test, n_trees, Path(folder) if arguments.compile else None
        )
        races = [row for n in (1, 2) for row in race(contestants, X_test, n, n_turns, n_single)]
    result = {
        **versions(),
        "tools": {tool: version(tool) for tool in TOOLS if find_spec(tool) is not None},
        "data": name,
        "n_train": n_train,
        "n_rows": n_rows,
        "n_trees": n_trees,
        "n_turns": n_turns,
        "load_before": load_before,
        "races": races,
        "aims": targets(races),
    }
    write("serving", result, to_markdown(result), arguments.out)


if __name__ == "__main__":
    main()
