"""In which order extra trees get the categories of a column: error on the development sets.

Run ``python benchmarks/category_orders.py --data-dir FOLDER --out benchmarks/results``. The folder
holds ``<name>.csv.gz`` and ``suite.json``, which names the development sets; those with strings are
used, at most 4,000 rows of each, and the suite itself plays no part. Indicators are columns of 0
and 1, made beforehand.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import train_test_split

from kpp import KPPClassifier, KPPRegressor
from kpp.forest import encoding
from kpp.forest.coded import CodedRows

MOST_ROWS = 4000
FEWEST_OF_A_CLASS = 10  # rarer ones are left out: a split could miss them
# Up to so many categories are ordered by the target; None for the order of the names.
BY_TARGET = {
    "by name": None,
    "by frequency": 0,
    "by target": 10**9,
    "by target up to 10, then by frequency": 10,
    "by target up to 32, then by frequency": 32,
}
INDICATORS = {"indicators up to 10, then by name": 10, "indicators up to 255": 255}
RANK = encoding.category_rank


def data_sets(folder: Path) -> list[tuple[str, bool]]:
    """Name, and whether it has classes, of every development set with strings."""
    suite = json.loads((folder / "suite.json").read_text())
    found = [
        (name, task != "regression")
        for key in ("development", "development_large")
        for task, names in suite.get(key, {}).items()
        if task != "scale"
        for name in names
        if (folder / f"{name}.csv.gz").exists()
    ]
    # Two categories have one order.
    return [
        (name, classification)
        for name, classification in found
        if any(len(k) > 2 for k in CodedRows.read(read(folder, name)[0]).categories.values())
    ]


def read(folder: Path, name: str) -> tuple[Any, Any]:
    """Columns and target of a set."""
    table = pd.read_csv(folder / f"{name}.csv.gz")
    if len(table) > MOST_ROWS:
        table = table.iloc[np.random.default_rng(0).choice(len(table), MOST_ROWS, replace=False)]
    return table.iloc[:, :-1].reset_index(drop=True), table.iloc[:, -1].to_numpy()


def with_indicators(train: Any, test: Any, most: int) -> tuple[Any, Any]:
    """Both tables, with an indicator for each category of columns of few in the first."""
    known = CodedRows.read(train).categories
    few = {train.columns[j]: k for j, k in known.items() if 2 < len(k) <= most}
    made = []
    for frame in (train, test):
        columns = {
            f"{name}={value}": frame[name] == value for name, k in few.items() for value in k
        }
        columns |= {f"{name} misses": frame[name].isna() for name in few if train[name].hasnans}
        made.append(pd.concat([frame.drop(columns=list(few)), pd.DataFrame(columns)], axis=1))
    return made[0], made[1]


def error(name: str, classification: bool, way: str, seed: int, folder: Path) -> float:
    """Log loss or RMSE on a fifth of the rows."""
    X, y = read(folder, name)
    if classification:
        classes, n_rows = np.unique(y, return_counts=True)
        kept = np.isin(y, classes[n_rows >= FEWEST_OF_A_CLASS])
        X, y = X[kept].reset_index(drop=True), y[kept]
    own = y if classification else None
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=own)
    if way in INDICATORS:
        X, X_test = with_indicators(X, X_test, INDICATORS[way])
    most = BY_TARGET.get(way)
    encoding.MOST_BY_TARGET = most or 0
    encoding.category_rank = (
        RANK if most is not None else lambda place, n_known, target, weight: np.arange(n_known)
    )
    kind: Any = KPPClassifier if classification else KPPRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind("extra-trees", random_state=seed).fit(X, y)
    if classification:
        return float(log_loss(y_test, model.predict_proba(X_test), labels=model.classes_))
    return float(root_mean_squared_error(y_test, model.predict(X_test)))


def to_markdown(rows: list[dict[str, Any]]) -> str:
    """The page."""
    table = pd.DataFrame(rows).pivot_table(index=["data", "seed"], columns="way", values="error")
    ways = [way for way in (*BY_TARGET, *INDICATORS) if way in table]
    ratio = np.log(table[ways].div(table["by name"], axis=0)).groupby("data").mean()
    lines = [
        "# The order of categories",
        "",
        "Written by `benchmarks/category_orders.py`: extra trees on the development sets with "
        f"strings, at most {MOST_ROWS:,} rows, a fifth held out, {table.index.levels[1].size} "
        "splits. Errors (RMSE or log loss) over those of the order by name: geometric means over "
        "the splits, and in the last lines over the sets; a set counts as better or worse from "
        "0.2% on.",
        "",
        f"| set | {' | '.join(ways)} |",
        f"|---|{'---|' * len(ways)}",
    ]
    for name, own in ratio.iterrows():
        lines.append(f"| {name} | {' | '.join(f'{np.exp(v):.3f}' for v in own)} |")
    lines.append(f"| mean | {' | '.join(f'{v:.3f}' for v in np.exp(ratio.mean()))} |")
    lines.append(f"| median | {' | '.join(f'{v:.3f}' for v in np.exp(ratio.median()))} |")
    better, worse = (ratio < -0.002).sum(), (ratio > 0.002).sum()
    lines.append(f"| better, worse | {' | '.join(f'{better[w]}, {worse[w]}' for w in ways)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for seed in range(options.seeds):
        for name, classification in data_sets(options.data_dir):
            for way in (*BY_TARGET, *INDICATORS):
                found = error(name, classification, way, seed, options.data_dir)
                rows.append({"data": name, "seed": seed, "way": way, "error": found})
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "category_orders.json").write_text(json.dumps(rows, indent=1) + "\n")
    (options.out / "category_orders.md").write_text(to_markdown(rows))


if __name__ == "__main__":
    main()
