"""Quantile, Poisson and Huber losses against others' models, and conformalised quantiles.

Run ``python benchmarks/losses.py --data-dir FOLDER --out benchmarks/results``. On the development
sets, a quarter held out once: the mean pinball loss of the quantiles 0.1, 0.5 and
0.9 of `KPPRegressor(loss="quantile", quantile=[...])` against a quantile forest (quantile-forest)
and one HistGradientBoosting for each quantile, with their defaults; coverage and width of
intervals for 0.8 by conformalised quantiles and by CV+ of the squared loss; the mean Poisson
deviance of counts against HistGradientBoosting; and the error on clean rows where a twentieth of
the targets of the fit is far off, by Huber's and the squared loss.
"""

from __future__ import annotations

import argparse
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data import load
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import mean_pinball_loss, mean_poisson_deviance
from sklearn.model_selection import train_test_split
from timing import describe, versions, write

from kpp import KPPRegressor

SETS = [
    "abalone",
    "airfoil_self_noise",
    "auto_mpg",
    "bodyfat",
    "boston_housing",
    "diabetes",
    "energy_cooling",
    "machine_cpu",
    "servo",
    "stock",
    "yacht",
    # Of many rows.
    "ailerons",
    "brazilian_rent",
    "car_msrp",
    "gas_turbine_nox",
    "kc_house",
    "seoul_bike",
    "wind",
]
# Targets that are counts.
COUNTS = ["abalone", "seoul_bike"]
QUANTILES = [0.1, 0.5, 0.9]
COVERAGE = 0.8
MOST_ROWS = 1000
SPLITS = (0,)


def rows_of(name: str, data_dir: str | None, most: int) -> Any:
    """X as numbers, categories by their codes and gaps as -999, and y."""
    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    frame, target = load(name, data_dir)
    columns = [
        column if pd.api.types.is_numeric_dtype(column) else pd.factorize(column)[0]
        for _, column in frame.items()
    ]
    X, y = np.column_stack(columns).astype(float), target.to_numpy().astype(float)
    X[~np.isfinite(X)] = -999
    if len(y) > most:
        chosen = np.random.default_rng(0).choice(len(y), most, replace=False)
        X, y = X[chosen], y[chosen]
    return X, y


def pinball(y: Any, prediction: Any) -> float:
    """Mean over the quantiles."""
    losses = [
        mean_pinball_loss(y, p, alpha=q) for q, p in zip(QUANTILES, prediction.T, strict=True)
    ]
    return float(np.mean(losses))


def measure(X: Any, y: Any, *, counts: bool, seed: int, trees: int) -> dict[str, Any]:
    """All figures of one split."""
    quantile_forest: Any = import_module("quantile_forest")
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    common: dict[str, Any] = {"n_estimators": trees, "random_state": seed}
    found: dict[str, Any] = {"pinball": {}, "seconds": {}}
    start = time.process_time()
    blend = KPPRegressor(loss="quantile", quantile=QUANTILES, **common).fit(X_train, y_train)
    found["seconds"]["kpp"] = time.process_time() - start
    found["pinball"]["kpp"] = pinball(y_test, blend.predict(X_test))
    one = KPPRegressor("extra-trees", loss="quantile", quantile=QUANTILES, **common)
    found["pinball"]["kpp, extra-trees"] = pinball(
        y_test, one.fit(X_train, y_train).predict(X_test)
    )
    forest = quantile_forest.RandomForestQuantileRegressor(n_estimators=trees, random_state=seed)
    forest.fit(X_train, y_train)
    found["pinball"]["quantile forest"] = pinball(
        y_test, forest.predict(X_test, quantiles=QUANTILES)
    )
    start = time.process_time()
    boosted = [
        HistGradientBoostingRegressor(
            loss="quantile", quantile=q, max_iter=trees, random_state=seed
        )
        .fit(X_train, y_train)
        .predict(X_test)
        for q in QUANTILES
    ]
    found["seconds"]["boosted"] = time.process_time() - start
    found["pinball"]["boosted"] = pinball(y_test, np.column_stack(boosted))
    squared = KPPRegressor(**common).fit(X_train, y_train)
    found["interval"] = {}
    for name, model in (("cqr", blend), ("cv+", squared)):
        ends = model.predict_interval(X_test, COVERAGE)
        inside = (ends.lower <= y_test) & (y_test <= ends.upper)
        found["interval"][name] = [float(inside.mean()), float(ends.width.mean() / np.std(y_test))]
    # A twentieth of the targets is ten standard deviations too high.
    wrong = np.random.default_rng(seed).random(len(y_train)) < 0.05
    spoiled = y_train + 10 * np.std(y_train) * wrong
    found["spoiled"] = {}
    for loss in ("squared", "huber"):
        model = KPPRegressor("extra-trees", loss=loss, **common).fit(X_train, spoiled)
        rest = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)) / np.std(y_test)
        found["spoiled"][loss] = float(rest)
    if counts:
        models = {
            "kpp, poisson": KPPRegressor(loss="poisson", **common),
            "boosted, poisson": HistGradientBoostingRegressor(
                loss="poisson", max_iter=trees, random_state=seed
            ),
            "kpp, squared": squared,
        }
        found["deviance"] = {}
        for name, model in models.items():
            if model is not squared:
                model.fit(X_train, y_train)
            mean = np.maximum(model.predict(X_test), 1e-3)
            found["deviance"][name] = float(mean_poisson_deviance(y_test, mean))
    return found


def mean_of(splits: list[dict[str, Any]], *keys: str) -> float:
    """Mean of one figure over the splits."""
    values = []
    for split in splits:
        value: Any = split
        for key in keys:
            value = value[key]
        values.append(value)
    return float(np.mean(values))


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""
    sets = result["sets"]
    names = ["kpp", "kpp, extra-trees", "quantile forest", "boosted"]
    lines = [
        "# Quantile, Poisson and Huber losses",
        "",
        f"Written by `benchmarks/losses.py`: {len(sets)} of the {len(SETS)} development sets of",
        f"numbers, at most {result['most_rows']:,} rows of each, a quarter held out once.",
        "Models of kpp and of others with their defaults, 100 trees or rounds.",
        "",
        describe(result),
        "",
        "Mean pinball loss of the quantiles 0.1, 0.5 and 0.9, relative to that of the blend (the",
        "default forest); above 1 is worse.",
        "",
        "| set | rows | loss of the blend | extra trees | quantile forest | boosted |",
        "|---|---|---|---|---|---|",
    ]
    ratios = []
    for row in sets:
        losses = [mean_of(row["splits"], "pinball", name) for name in names]
        ratios.append(np.array(losses[1:]) / losses[0])
        cells = " | ".join(f"{ratio:.3f}" for ratio in ratios[-1])
        lines.append(f"| {row['name']} | {row['rows']} | {losses[0]:.4g} | {cells} |")
    medians = " | ".join(f"{m:.3f}" for m in np.median(ratios, axis=0))
    wins = [int((np.array(ratios)[:, k] > 1).sum()) for k in range(len(names) - 1)]
    lines += [
        f"| median | | | {medians} |",
        f"| blend better on | | | {' | '.join(map(str, wins))} |",
    ]
    seconds = [mean_of(r["splits"], "seconds", n) for n in ("kpp", "boosted") for r in sets]
    half = len(seconds) // 2
    lines += [
        "",
        f"Processor time of a fit, median: {np.median(seconds[:half]):.1f} s, all three quantiles "
        f"of the blend; {np.median(seconds[half:]):.1f} s, three boosters.",
        "",
        "Intervals for 0.8: coverage, and mean width in standard deviations of the target.",
        "",
        "| set | CQR, coverage | width | CV+, coverage | width |",
        "|---|---|---|---|---|",
    ]
    for row in sets:
        pairs = {
            name: np.mean([s["interval"][name] for s in row["splits"]], axis=0)
            for name in ("cqr", "cv+")
        }
        cells = " | ".join(f"{c:.3f} | {w:.3f}" for c, w in pairs.values())
        lines.append(f"| {row['name']} | {cells} |")
    every = {
        name: np.mean([s["interval"][name] for r in sets for s in r["splits"]], axis=0)
        for name in ("cqr", "cv+")
    }
    lines.append("| mean | " + " | ".join(f"{c:.3f} | {w:.3f}" for c, w in every.values()) + " |")
    lines += [
        "",
        "Targets of the fit of which a twentieth is ten standard deviations too high: RMSE on",
        "clean rows, in standard deviations; extra trees.",
        "",
        "| set | squared | huber |",
        "|---|---|---|",
    ]
    for row in sets:
        both = [mean_of(row["splits"], "spoiled", loss) for loss in ("squared", "huber")]
        lines.append(f"| {row['name']} | {both[0]:.3f} | {both[1]:.3f} |")
    counted = [row for row in sets if "deviance" in row["splits"][0]]
    if counted:
        models = list(counted[0]["splits"][0]["deviance"])
        lines += [
            "",
            "Mean Poisson deviance of counts.",
            "",
            f"| set | {' | '.join(models)} |",
            f"|---|{'---|' * len(models)}",
        ]
        for row in counted:
            means = [f"{mean_of(row['splits'], 'deviance', name):.4f}" for name in models]
            lines.append(f"| {row['name']} | {' | '.join(means)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all sets, or a small made one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS, help="some of the development sets")
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="most rows of a set")
    parser.add_argument("--quick", action="store_true", help="one small made set")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    sets = []
    if args.quick:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 3))
        y = rng.poisson(np.exp(X[:, 0])).astype(float)
        splits = [measure(X, y, counts=True, seed=0, trees=5)]
        sets.append({"name": "made", "rows": 200, "splits": splits})
    for name in [] if args.quick else args.sets:
        X, y = rows_of(name, args.data_dir, args.rows)
        counts = name in COUNTS
        splits = [measure(X, y, counts=counts, seed=seed, trees=100) for seed in SPLITS]
        sets.append({"name": name, "rows": len(y), "splits": splits})
        print(name, splits[0]["pinball"], splits[0]["interval"], flush=True)
        result = versions() | {"most_rows": args.rows, "sets": sets}
        write("losses", result, to_markdown(result), args.out)
    if args.quick:
        result = versions() | {"most_rows": args.rows, "sets": sets}
        write("losses", result, to_markdown(result), args.out)


if __name__ == "__main__":
    main()
