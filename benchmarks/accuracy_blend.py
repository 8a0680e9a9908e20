"""Accuracy of the blend, its parts and CatBoost on the development sets, small and large.

Run ``python benchmarks/accuracy_blend.py --data-dir FOLDER --out benchmarks/results``. The folder
holds ``<name>.csv.gz`` and ``suite.json``, which names the development sets; the suite itself plays
no part. Every method gets the same columns: categories as codes, missing values as they are. What
is done is kept line by line in ``accuracy_blend.jsonl``: a run that is broken off goes on there.
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
from accuracy_defaults import prepared
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import train_test_split

from kpp import KPPClassifier, KPPRegressor

RIVAL = "CatBoost"
# The large sets are there to be many, not to be waited for.
MOST_ROWS = 7500


def kpp(**parameters: Any) -> Callable[[bool, int], Any]:
    """Make a KPP model with these parameters."""

    def make(classification: bool, seed: int) -> Any:
        kind = KPPClassifier if classification else KPPRegressor
        return kind(**parameters, random_state=seed, n_jobs=2)

    return make


def catboost(classification: bool, seed: int) -> Any:
    """CatBoost with its own defaults: 1,000 rounds."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostClassifier if classification else CatBoostRegressor
    return kind(random_seed=seed, thread_count=2, verbose=False, allow_writing_files=False)


METHODS: dict[str, Callable[[bool, int], Any]] = {
    RIVAL: catboost,
    "extra trees": kpp(forest="extra-trees"),
    "blend": kpp(forest="blend"),
}


def data_sets(folder: Path) -> list[tuple[str, str, bool]]:
    """Group, name and whether it has classes, of every development set."""
    suite = json.loads((folder / "suite.json").read_text())
    return [
        (group, name, task != "regression")
        for group, key in (("small", "development"), ("large", "development_large"))
        for task, names in suite.get(key, {}).items()
        if task != "scale"
        for name in names
    ]


def split_of(
    name: str, data_dir: str, classification: bool, seed: int, most_rows: int = MOST_ROWS
) -> Any:
    """Rows of training and of test, a fifth, and their targets; drawn down to `most_rows`."""
    X, y = prepared(name, data_dir, classification)
    if len(y) > most_rows:
        chosen = np.random.default_rng(0).choice(len(y), most_rows, replace=False)
        X, y = X[chosen], y[chosen]
    own = y if classification else None
    return train_test_split(X, y, test_size=0.2, random_state=seed, stratify=own)


def losses_of(model: Any, X_test: Any, y_test: Any, y: Any, classification: bool) -> dict[str, Any]:
    """RMSE; or log loss over the classes of training, and error rate."""
    if not classification:
        return {"loss": float(root_mean_squared_error(y_test, model.predict(X_test)))}
    shares = model.predict_proba(X_test)
    return {
        "loss": float(log_loss(y_test, shares, labels=np.unique(y))),
        "error": float((np.ravel(model.predict(X_test)) != y_test).mean()),
    }


def run(
    name: str, classification: bool, method: str, seed: int, most_rows: int, data_dir: str
) -> dict[str, Any]:
    """Fit one method on four fifths of the rows, and score it on the others."""
    X, X_test, y, y_test = split_of(name, data_dir, classification, seed, most_rows)
    model = METHODS[method](classification, seed)
    start, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return {
        "data": name,
        "method": method,
        "seed": seed,
        "n_rows": len(y),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
    } | losses_of(model, X_test, y_test, y, classification)


def to_markdown(rows: list[dict[str, Any]], sets: list[tuple[str, str, bool]]) -> str:
    """Wins and median ratios against CatBoost by kind of set; then every set."""
    table = pd.DataFrame(rows)
    methods = [name for name in METHODS if name in set(table.method)]
    lines = [
        "# The blend on the development sets",
        "",
        "Written by `benchmarks/accuracy_blend.py`: 20% of the rows held out, means over the seeds "
        "that both have done. Wins and ratios of the loss are against CatBoost at its own 1,000 "
        "rounds; times are medians of the ratio of processor seconds.",
        "",
        "| sets | method | done | wins | median ratio | geometric mean | error, wins | time |",
        "|---|---|---|---|---|---|---|---|",
    ]
    every = []
    for group in ("small", "large"):
        for classification, loss in ((False, "RMSE"), (True, "log loss")):
            names = [name for g, name, c in sets if g == group and c == classification]
            for method in methods:
                if method == RIVAL:
                    continue
                pair = table[table.data.isin(names) & table.method.isin([RIVAL, method])]
                means = pair.groupby(["data", "seed"]).filter(lambda part: len(part) == 2)
                if not len(means):
                    continue
                means = means.groupby(["data", "method"]).mean(numeric_only=True).unstack()
                ratio = means["loss"][method] / means["loss"][RIVAL]
                times = (means["cpu_seconds"][method] / means["cpu_seconds"][RIVAL]).median()
                errors = ""
                if classification:
                    errors = f"{int((means['error'][method] < means['error'][RIVAL]).sum())}"
                wins, mean = int((ratio < 1).sum()), np.exp(np.log(ratio).mean())
                lines.append(
                    f"| {group}, {loss} | {method} | {len(ratio)} | {wins} "
                    f"| {ratio.median():.3f} | {mean:.3f} | {errors} | {times:.2f} |"
                )
                every += [(group, name, method, value) for name, value in ratio.items()]
    lines += ["", "Ratio of the loss to CatBoost's, set by set:", ""]
    shown = [method for method in methods if method != RIVAL]
    lines += ["| sets | data | " + " | ".join(shown) + " |", "|---" * (len(shown) + 2) + "|"]
    found = {(name, method): value for _, name, method, value in every}
    for group, name, _ in sets:
        values = [found.get((name, method)) for method in shown]
        if any(value is not None for value in values):
            cells = " | ".join("" if value is None else f"{value:.3f}" for value in values)
            lines.append(f"| {group} | {name} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--sets", nargs="*", help="only these data sets")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most-rows", type=int, default=MOST_ROWS)
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin nothing after these")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path, end = arguments.out / "accuracy_blend.jsonl", time.monotonic() + 60 * arguments.minutes
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["data"], row["method"], row["seed"]) for row in rows}
    sets = data_sets(arguments.data_dir)
    for seed in range(arguments.seeds):
        for _, name, classification in sets:
            for method in arguments.methods:
                key = (name, method, seed)
                if key in done or (arguments.sets and name not in arguments.sets):
                    continue
                if time.monotonic() > end:
                    continue
                row = run(
                    name, classification, method, seed, arguments.most_rows, str(arguments.data_dir)
                )
                rows.append(row)
                with path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(*key, f"{row['loss']:.4g}", f"{row['seconds']:.1f} s", flush=True)
    (arguments.out / "accuracy_blend.md").write_text(to_markdown(rows, sets))


if __name__ == "__main__":
    main()
