"""Log loss and error rate on several classes: KPP at its defaults, and its rivals.

Run ``python benchmarks/accuracy_multiclass.py --data-dir FOLDER --out benchmarks/results``. The
sets are the development sets of several classes, and iris, wine and digits of scikit-learn. Every
method gets the same columns and one thread, and otherwise its library's defaults. What is done is
kept line by line in ``accuracy_multiclass.jsonl``: a run that is broken off goes on there.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from accuracy_blend import data_sets, losses_of
from accuracy_defaults import prepared
from scipy.stats import rankdata
from sklearn import ensemble
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from kpp import KPPClassifier

BUILT_IN = {"iris": load_iris, "wine": load_wine, "digits": load_digits}
MOST_ROWS = 5000


def _catboost(seed: int) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        random_seed=seed, thread_count=1, verbose=False, allow_writing_files=False
    )


def _lightgbm(seed: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1)


def _xgboost(seed: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(random_state=seed, n_jobs=1)


METHODS: dict[str, Callable[[int], Any]] = {
    "KPP (defaults)": lambda seed: KPPClassifier(random_state=seed),
    "KPP (extra trees)": lambda seed: KPPClassifier("extra-trees", random_state=seed),
    "CatBoost": _catboost,
    "LightGBM": _lightgbm,
    "XGBoost": _xgboost,
    "hist gradient boosting": lambda seed: ensemble.HistGradientBoostingClassifier(
        random_state=seed
    ),
    "random forest": lambda seed: ensemble.RandomForestClassifier(random_state=seed),
    "extra trees": lambda seed: ensemble.ExtraTreesClassifier(random_state=seed),
}


def several_classes(folder: Path) -> list[str]:
    """Names of the sets."""
    suite = json.loads((folder / "suite.json").read_text())
    known = {name for _, name, _ in data_sets(folder)}
    listed = suite["development_large"].get("multiclass", [])
    return [*BUILT_IN, *(name for name in listed if name in known)]


def run(name: str, method: str, seed: int, data_dir: str) -> dict[str, Any]:
    """Fit one method on four fifths of the rows, and score it on the others."""
    X, y = BUILT_IN[name](return_X_y=True) if name in BUILT_IN else prepared(name, data_dir, True)
    if len(y) > MOST_ROWS:
        chosen = np.random.default_rng(0).choice(len(y), MOST_ROWS, replace=False)
        X, y = X[chosen], y[chosen]
    kept = np.isin(y, np.flatnonzero(np.bincount(y) > 5))  # a class must be on both sides
    y = np.unique(y[kept], return_inverse=True)[1]
    X, X_test, y, y_test = train_test_split(
        X[kept], y, test_size=0.2, random_state=seed, stratify=y
    )
    model = METHODS[method](seed)
    start, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return {
        "data": name,
        "method": method,
        "seed": seed,
        "n_rows": len(y),
        "n_classes": len(np.unique(y)),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
    } | losses_of(model, X_test, y_test, y, classification=True)


def to_markdown(rows: list[dict[str, Any]]) -> str:
    """Mean ranks, then every set."""
    table = pd.DataFrame(rows)
    counts = table.groupby(["data", "seed"]).size()
    whole = counts[counts == len(METHODS)].index
    table = table[pd.MultiIndex.from_frame(table[["data", "seed"]]).isin(whole)]
    means = table.groupby(["data", "method"]).mean(numeric_only=True).unstack()
    methods = [name for name in METHODS if name in set(table.method)]
    splits = ", ".join(f"{name} {n}" for name, n in table.groupby("data").seed.nunique().items())
    lines = [
        "# Several classes",
        "",
        "Written by `benchmarks/accuracy_multiclass.py`: 20% of the rows held out, at most "
        f"{MOST_ROWS:,} rows, one thread, defaults of each library. Splits: {splits}.",
        "",
        "| | mean rank, log loss | mean rank, error rate | median time over CatBoost's |",
        "|---|---|---|---|",
    ]
    ranks = {
        figure: rankdata(means[figure][methods].to_numpy().round(12), axis=1).mean(axis=0)
        for figure in ("loss", "error")
    }
    for k, method in enumerate(methods):
        ratio = (means["cpu_seconds"][method] / means["cpu_seconds"]["CatBoost"]).median()
        lines.append(
            f"| {method} | {ranks['loss'][k]:.2f} | {ranks['error'][k]:.2f} | {ratio:.2f} |"
        )
    for figure, title in (("loss", "Log loss"), ("error", "Error rate")):
        lines += ["", f"{title}:", "", "| data | classes | " + " | ".join(methods) + " |"]
        lines.append("|---" * (len(methods) + 2) + "|")
        for name in means.index:
            cells = " | ".join(f"{means[figure][method][name]:.4f}" for method in methods)
            lines.append(f"| {name} | {means['n_classes'][methods[0]][name]:.0f} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin nothing after these")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "accuracy_multiclass.jsonl"
    end = time.monotonic() + 60 * arguments.minutes
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["data"], row["method"], row["seed"]) for row in rows}
    for seed in range(arguments.seeds):
        for name in several_classes(arguments.data_dir):
            for method in METHODS:
                key = (name, method, seed)
                if key in done or time.monotonic() > end:
                    continue
                row = run(*key, str(arguments.data_dir))
                rows.append(row)
                with path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(*key, f"{row['loss']:.4g}", f"{row['cpu_seconds']:.1f} s", flush=True)
    (arguments.out / "accuracy_multiclass.md").write_text(to_markdown(rows))


if __name__ == "__main__":
    main()
