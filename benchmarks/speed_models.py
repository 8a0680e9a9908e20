"""Speed of fit and predict, as ratios to the same forest alone, in one run.

Run ``python benchmarks/speed_models.py --data-dir FOLDER --out benchmarks/results``. One thread on
both sides. A fit with ``alpha="auto"`` is compared with growing the very same trees: the same
fits of five groups. Prediction is compared with the forest's own.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from data import load
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_classification, make_regression
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from timing import N_REPEATS, compare, describe, median_seconds, speed_table, versions, write

from kpp import KPPClassifier, KPPRegressor

# Name, classification, rows (None: all), repeats. Targets: a fit may take 1.5 times (ridge) or 3
# times (logistic) the growing at 1,000 rows and above, 2.5 and 4 times below.
SETS: list[tuple[str, bool, int | None, int]] = [
    ("breast_cancer", True, None, N_REPEATS),
    ("spambase", True, None, N_REPEATS),
    ("concrete", False, None, N_REPEATS),
    ("wine_quality_red", False, None, N_REPEATS),
    ("california_housing", False, 2000, N_REPEATS),
    ("california_housing", False, None, 1),
]


def rows_of(name: str, classification: bool, n_rows: int | None, data_dir: str | None) -> Any:
    if name == "breast_cancer":
        X, y = load_breast_cancer(return_X_y=True)
    else:
        frame, target = load(name, data_dir)
        X, y = frame.to_numpy(float), target.to_numpy()
    if n_rows is not None and n_rows < len(y):
        chosen = np.random.default_rng(0).choice(len(y), n_rows, replace=False)
        X, y = X[chosen], y[chosen]
    return X, np.unique(y, return_inverse=True)[1] if classification else y.astype(float)


def time_fit(name: str, X: Any, y: Any, classification: bool, repeats: int) -> dict[str, Any]:
    model = (KPPClassifier if classification else KPPRegressor)(n_jobs=1, random_state=0)
    forest = (ExtraTreesClassifier if classification else ExtraTreesRegressor)(20, n_jobs=1)

    def grow() -> None:
        for q, (train, _) in enumerate(folds):
            clone(forest).set_params(random_state=q).fit(X[train], y[train])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        folds = model.fit(X, y).folds_
        ours = median_seconds(lambda: clone(model).fit(X, y), repeats)
    theirs = median_seconds(grow, repeats)
    allowed = (3 if classification else 1.5) if len(y) >= 1000 else (4 if classification else 2.5)
    task = "logistic" if classification else "ridge"
    row = compare(f"fit, {task}, {name}, {len(y)} rows", "growing alone", theirs, ours, 1 / allowed)
    return row | {"times_the_growing": ours / theirs, "allowed": allowed}


def time_predict(classification: bool, n_train: int, n_rows: int) -> list[dict[str, Any]]:
    make = make_classification if classification else make_regression
    X, y = make(n_train, 20, n_informative=10, random_state=0)
    forest = (ExtraTreesClassifier if classification else ExtraTreesRegressor)(100, random_state=0)
    model = (KPPClassifier if classification else KPPRegressor)(clone(forest), alpha=0.01)
    forest.fit(X, y)
    model.fit(X, y)
    rows = np.random.default_rng(0).standard_normal((n_rows, 20))
    task = "classes" if classification else "numbers"
    return [
        compare(
            f"predict, {task}, {len(part)} rows",
            "the forest's predict",
            median_seconds(lambda part=part: forest.predict(part)),  # type: ignore[misc]
            median_seconds(lambda part=part: model.predict(part)),  # type: ignore[misc]
            target,
        )
        for part, target in ((rows, 2), (rows[:1], 20))
    ]


def to_markdown(result: dict[str, Any]) -> str:
    lines = [
        "# Speed of fit and predict",
        "",
        f"Written by `benchmarks/speed_models.py`; median of {N_REPEATS} runs (all of "
        "california_housing: one), one thread on both sides.",
        "",
        describe(result),
        "",
        'A fit with `alpha="auto"` (20 alphas and more, out-of-fold predictions) against growing '
        "the same 100 trees alone:",
        "",
        "| what | growing, ms | fit, ms | times the growing | allowed | met |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['what']} | {row['rival_ms']:.0f} | {row['kpp_ms']:.0f} "
        f"| {row['times_the_growing']:.2f} | {row['allowed']} | {'yes' if row['met'] else 'no'} |"
        for row in result["fit"]
    ]
    lines += ["", "Prediction, trained on 5,000 made rows:", "", *speed_table(result["predict"])]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", help="folder with <name>.csv.gz")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="small data, to try it out")
    arguments = parser.parse_args()
    fits = []
    for name, classification, n_rows, repeats in SETS[:1] if arguments.quick else SETS:
        X, y = rows_of(name, classification, n_rows, arguments.data_dir)
        fits.append(time_fit(name, X, y, classification, 1 if arguments.quick else repeats))
    sizes = (200, 100) if arguments.quick else (5000, 10_000)
    predictions = [row for task in (False, True) for row in time_predict(task, *sizes)]
    result = {**versions(), "fit": fits, "predict": predictions}
    write("speed_models", result, to_markdown(result), arguments.out)


if __name__ == "__main__":
    main()
