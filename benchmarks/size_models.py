"""Size of a model: its file, the loaded model in memory, and the peak of its fit, in one run.

Run ``python benchmarks/size_models.py --out benchmarks/results``. The rival is scikit-learn's
forest of as many trees on the same rows: its pickle, and the peak of its fit. Every measure is
taken in a process of its own, because a peak never goes down again.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import pickle
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from speed_fit import peak_bytes
from timing import describe, versions, write

from kpp import KPPClassifier, KPPRegressor, load, save

SIZES = (2000, 20_000, 100_000)
# A file, and a loaded model, may take this share of the pickle; the peak of a fit this share of
# that of the forest's own.
SHARE, PEAK_SHARE = 0.5, 1.0


def rows_of(classification: bool, n_rows: int) -> tuple[Any, Any]:
    """Friedman's first function with noise, or labels whose log-odds it is."""
    X, y = make_friedman1(n_rows, 10, noise=1.0, random_state=0)
    if classification:
        odds = 2 * (y - y.mean()) / y.std()
        y = (np.random.default_rng(0).random(n_rows) < 1 / (1 + np.exp(-odds))).astype(int)
    return X, y


def array_bytes(thing: Any) -> int:
    """Bytes of all arrays, and texts of bytes, that can be reached from an object."""
    sizes: dict[int, int] = {}
    seen: set[int] = set()
    left = [thing]
    while left:
        one = left.pop()
        # A weak proxy holds nothing, and may stand for what is gone. Modules and functions belong
        # to the program: SciPy's operators name the module of their arrays.
        if id(one) in seen or type(one) in (*weakref.ProxyTypes, ModuleType, FunctionType):
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            while isinstance(one.base, np.ndarray):
                one = one.base
            sizes[id(one)] = one.nbytes
        elif isinstance(one, bytes | bytearray):
            sizes[id(one)] = len(one)
        elif isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list | tuple | set):
            left += one
        elif hasattr(one, "__dict__") and not isinstance(one, type):
            left.append(vars(one))
    return sum(sizes.values())


def memory_now() -> int:
    """Resident memory, with freed pages given back to the system."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("This system does not tell the memory of a process.")


def measure(what: str, classification: bool, n_rows: int, n_trees: int, path: Path) -> None:
    """Print the figures of one step as JSON."""
    X, y = rows_of(classification, n_rows)
    forest = ExtraTreesClassifier if classification else ExtraTreesRegressor
    kind = KPPClassifier if classification else KPPRegressor
    forest(2).fit(X[:100], y[:100])
    # A small fit first, which compiles all loops.
    small = kind("extra-trees", n_estimators=10, random_state=0).fit(X[:100], y[:100])
    before = peak_bytes()
    if what == "forest":
        grown = forest(n_trees, random_state=0).fit(X, y)
        peak = peak_bytes() - before
        nodes = sum(tree.tree_.node_count for tree in grown.estimators_)
        figures = {"forest_peak": peak, "pickle": len(pickle.dumps(grown)), "forest_nodes": nodes}
    elif what == "fit":
        model = kind("extra-trees", n_estimators=n_trees, random_state=0).fit(X, y)
        figures = {"fit_peak": peak_bytes() - before, "nodes": model.forest_.n_nodes}
        figures |= {"fitted": array_bytes(model)}
        save(model, path)
        figures |= {"file": path.stat().st_size}
    else:
        load(save(small, path.with_suffix(".small"))).predict(X[:100])
        now = memory_now()
        model = load(path)
        grown_by = memory_now() - now
        figures = {"loaded": array_bytes(model), "resident": grown_by}
        model.predict(X[:100])
        figures |= {"after_predict": array_bytes(model)}
    print(json.dumps(figures))


def size_row(classification: bool, n_rows: int, n_trees: int, folder: Path) -> dict[str, Any]:
    """All figures of one model."""
    task = "classes" if classification else "numbers"
    row: dict[str, Any] = {"task": task, "rows": n_rows, "trees": n_trees}
    for what in ("forest", "fit", "load"):
        command = [sys.executable, __file__, "--measure", what, "--rows", str(n_rows)]
        command += ["--trees", str(n_trees), "--folder", str(folder)]
        command += ["--classification"] * classification
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        row |= json.loads(done.stdout.splitlines()[-1])
    return row


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""

    def share(row: dict[str, Any], of: str, rival: str, most: float) -> str:
        ratio = row[of] / max(1, row[rival])
        return f"{row[of] / 1e6:.1f} | {ratio:.2f} ({'yes' if ratio <= most else 'no'})"

    lines = [
        "# Size of a model",
        "",
        'Written by `benchmarks/size_models.py`: default models (`alpha="auto"`) on made rows, '
        "against scikit-learn's extra trees on the same rows. MB, and the ratio to the rival. What "
        "a model keeps for each row (folds, duals, fingerprints) weighs more where trees are few.",
        "",
        describe(result),
        "",
        "The file of `kpp.save`, the arrays of the model that `kpp.load` reads, and by how much "
        f"the process grows by it; each at most {SHARE} times the pickled forest:",
        "",
        "| task | rows | trees | pickle | file | ratio | arrays | ratio | process | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['task']} | {row['rows']} | {row['trees']} | {row['pickle'] / 1e6:.1f} "
        f"| {share(row, 'file', 'pickle', SHARE)} | {share(row, 'loaded', 'pickle', SHARE)} "
        f"| {share(row, 'resident', 'pickle', SHARE)} |"
        for row in result["models"]
    ]
    lines += [
        "",
        "Bytes for each node of a model's forest, and the peak of the fit against that of the "
        f"forest's own (at most {PEAK_SHARE:g} times):",
        "",
        "| task | rows | nodes | fitted | loaded | file | forest's peak | peak of a fit | ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['task']} | {row['rows']} | {row['nodes']} | {row['fitted'] / row['nodes']:.0f} "
        f"| {row['loaded'] / row['nodes']:.0f} | {row['file'] / row['nodes']:.0f} "
        f"| {row['forest_peak'] / 1e6:.1f} | {share(row, 'fit_peak', 'forest_peak', PEAK_SHARE)} |"
        for row in result["models"]
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="small data, to try it out")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="numbers of rows")
    parser.add_argument("--more", type=Path, help="earlier results, which new ones are added to")
    parser.add_argument("--measure", choices=("forest", "fit", "load"), help=argparse.SUPPRESS)
    parser.add_argument("--classification", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--trees", type=int, default=100, help="trees of each forest")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        path = arguments.folder / "model.kpp"
        step = arguments.measure, arguments.classification, arguments.rows, arguments.trees
        measure(*step, path)
        return
    sizes, n_trees = ((300,), 10) if arguments.quick else (arguments.sizes, arguments.trees)
    result: dict[str, Any] = {**versions(), "models": []}
    if arguments.more:
        result = json.loads(arguments.more.read_text())
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in sizes:
            for classification in (False, True):
                row = size_row(classification, n_rows, n_trees, Path(folder))
                result["models"].append(row)
                # After every model: the largest take long.
                write("size_models", result, to_markdown(result), arguments.out)


if __name__ == "__main__":
    main()
