"""What a least number of rows in a leaf costs in accuracy where rows are many.

Run ``python benchmarks/leaf_size.py --data-dir FOLDER --out benchmarks/results``. Extra trees whose
leaves hold at least 1, 2, 3 or 5 rows, the linear layer with ``alpha="auto"``, on the large
development sets: error on a quarter of the rows that was held out (RMSE, or log loss), processor
time of the fit, and nodes. The default from 10,000 rows on was chosen by this table.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data import load
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from timing import describe, versions, write

from kpp import KPPClassifier, KPPRegressor

# Name, whether its target is a class, and how many rows at most.
SETS = [
    ("kc_house", False, None),
    ("car_msrp", False, None),
    ("gas_turbine_nox", False, 25_000),
    ("ailerons", False, None),
    ("brazilian_rent", False, None),
    ("htru2", True, None),
    ("employee_promotion", True, 30_000),
    ("dry_bean", True, None),
    ("nursery", True, None),
    ("diabetes_130us", True, 60_000),
]
LEAVES = (1, 2, 3, 5)


def rows_of(name: str, classification: bool, most: int | None, data_dir: str | None) -> Any:
    """X as numbers, categories by their codes and gaps as -999, and y."""
    frame, target = load(name, data_dir)
    columns = [
        column if pd.api.types.is_numeric_dtype(column) else pd.factorize(column)[0]
        for _, column in frame.items()
    ]
    X, y = np.column_stack(columns).astype(float), target.to_numpy()
    X[~np.isfinite(X)] = -999
    if most is not None and most < len(y):
        chosen = np.random.default_rng(0).choice(len(y), most, replace=False)
        X, y = X[chosen], y[chosen]
    return X, np.unique(y, return_inverse=True)[1] if classification else y.astype(float)


def measure(X: Any, y: Any, classification: bool, n_estimators: int) -> list[dict[str, Any]]:
    """One entry for each least number of rows."""
    split = train_test_split(
        X, y, test_size=0.25, random_state=0, stratify=y if classification else None
    )
    X_train, X_test, y_train, y_test = split
    found = []
    for leaf in LEAVES:
        ensemble = ExtraTreesClassifier if classification else ExtraTreesRegressor
        forest = ensemble(n_estimators, min_samples_leaf=leaf)
        model: Any = (KPPClassifier if classification else KPPRegressor)(forest, random_state=0)
        start = time.process_time()
        model.fit(X_train, y_train)
        seconds = time.process_time() - start
        if classification:
            error = float(log_loss(y_test, model.predict_proba(X_test)))
        else:
            error = float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))
        nodes = int(model.forest_.n_nodes)
        found.append({"leaf": leaf, "error": error, "seconds": seconds, "nodes": nodes})
    return found


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""
    heads = [f"{leaf} rows" for leaf in LEAVES[1:]]
    lines = [
        "# Rows in a leaf",
        "",
        "Written by `benchmarks/leaf_size.py`: extra trees whose leaves hold at least so many",
        "rows, on the large development sets, a quarter held out. Error as it is with 1 row, and",
        "by how much it changes; in brackets the share of the nodes.",
        "",
        describe(result),
        "",
        f"| set | rows of the fit | error with 1 | {' | '.join(heads)} |",
        f"|---|---|---|{'---|' * len(heads)}",
    ]
    for row in result["sets"]:
        first, *others = row["leaves"]
        cells = [
            f"{other['error'] / first['error'] - 1:+.2%} ({other['nodes'] / first['nodes']:.2f})"
            for other in others
        ]
        lines.append(
            f"| {row['name']} | {row['rows']} | {first['error']:.5g} | {' | '.join(cells)} |"
        )
    ratios = np.array(
        [
            [other["error"] / row["leaves"][0]["error"] for other in row["leaves"][1:]]
            for row in result["sets"]
        ]
    )
    medians = [f"{m - 1:+.2%}" for m in np.median(ratios, axis=0)]
    lines.append(f"| median | | | {' | '.join(medians)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all sets, or a small made one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="one small made set")
    args = parser.parse_args()
    sets = []
    if args.quick:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 4))
        y = X[:, 0] + rng.normal(size=400)
        sets.append({"name": "made", "rows": 300, "leaves": measure(X, y, False, 5)})
    for name, classification, most in [] if args.quick else SETS:
        X, y = rows_of(name, classification, most, args.data_dir)
        leaves = measure(X, y, classification, 100)
        sets.append({"name": name, "rows": len(y) * 3 // 4, "leaves": leaves})
        print(name, [f"{leaf['error']:.5g}" for leaf in leaves], flush=True)
    result = versions() | {"sets": sets}
    write("leaf_size", result, to_markdown(result), args.out)


if __name__ == "__main__":
    main()
