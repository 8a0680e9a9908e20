"""Accuracy of KPP on extra trees against scikit-learn's forests, on development sets only.

Run ``python benchmarks/accuracy_defaults.py --data-dir FOLDER --out benchmarks/results``. The
folder holds ``<name>.csv.gz`` and ``suite.json``, which names the development sets.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data import load
from scipy.stats import rankdata
from sklearn.datasets import load_diabetes
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import train_test_split

from kpp import KPPClassifier, KPPRegressor

METHODS: dict[str, dict[str, Any]] = {
    "regression": {
        "kpp": partial(KPPRegressor, "extra-trees"),
        "random forest": RandomForestRegressor,
        "extra trees": ExtraTreesRegressor,
    },
    "classification": {
        "kpp": partial(KPPClassifier, "extra-trees"),
        "random forest": RandomForestClassifier,
        "extra trees": ExtraTreesClassifier,
    },
}


def prepared(name: str, data_dir: str, classification: bool) -> tuple[Any, Any]:
    """Numbers only: categories become codes, missing values stay where every method takes them."""
    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    X, y = load(name, data_dir)
    X = X.apply(lambda c: c if pd.api.types.is_numeric_dtype(c) else pd.factorize(c)[0])
    y = np.unique(y, return_inverse=True)[1] if classification else y.to_numpy(float)
    return X.to_numpy(float), y


def evaluate(task: str, names: list[str], seeds: list[int], data_dir: str) -> list[dict[str, Any]]:
    rows = []
    for name in names:
        classification = task == "classification"
        X, y = prepared(name, data_dir, classification)
        for seed in seeds:
            split = train_test_split(
                X, y, test_size=0.2, random_state=seed, stratify=y if classification else None
            )
            X_train, X_test, y_train, y_test = split
            for method, estimator in METHODS[task].items():
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model = estimator(random_state=seed, n_jobs=2).fit(X_train, y_train)
                seconds = time.perf_counter() - start
                if classification:
                    loss = log_loss(y_test, model.predict_proba(X_test))
                    error = float((model.predict(X_test) != y_test).mean())
                else:
                    loss = root_mean_squared_error(y_test, model.predict(X_test))
                    error = loss
                rows.append(
                    {
                        "data": name,
                        "seed": seed,
                        "method": method,
                        "loss": loss,
                        "error": error,
                        "seconds": seconds,
                    }
                )
        print(name, flush=True)
    return rows


def to_markdown(task: str, rows: list[dict[str, Any]]) -> str:
    table = pd.DataFrame(rows).groupby(["data", "method"])["loss"].mean().unstack()
    table = table[list(METHODS[task])]
    ranks = np.apply_along_axis(rankdata, 1, table.to_numpy())
    name = "RMSE" if task == "regression" else "log loss"
    lines = [f"## {task}: {name}, mean over seeds", "", "| data | " + " | ".join(table) + " |"]
    lines.append("|---" * (len(table.columns) + 1) + "|")
    for data, row in table.iterrows():
        lines.append(f"| {data} | " + " | ".join(f"{value:.4g}" for value in row) + " |")
    lines.append("| mean rank | " + " | ".join(f"{rank:.2f}" for rank in ranks.mean(axis=0)) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sets", nargs="*", help="only these data sets")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    suite = json.loads((Path(arguments.data_dir) / "suite.json").read_text())
    text = "# The defaults on the development sets\n\n"
    text += "Written by `benchmarks/accuracy_defaults.py`.\n\n"
    results = {}
    for task, names in suite["development"].items():
        chosen = [name for name in names if not arguments.sets or name in arguments.sets]
        if chosen:
            rows = evaluate(task, chosen, list(range(arguments.seeds)), arguments.data_dir)
            results[task] = rows
            text += to_markdown(task, rows) + "\n"
    print(text)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "accuracy_defaults.json").write_text(json.dumps(results, indent=1) + "\n")
        (arguments.out / "accuracy_defaults.md").write_text(text.rstrip() + "\n")


if __name__ == "__main__":
    main()
