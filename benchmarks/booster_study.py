"""Boosters of other libraries: which parameters suit the layer, and what it adds to them.

Run ``python benchmarks/booster_study.py --data-dir FOLDER --out benchmarks/results``. On every
development set, at most 7,500 rows, each variant of a booster is fitted three times: alone on all
training rows; once for each of five folds and averaged; and under the layer of this package, which
grows the same five. Test rows are a fifth. The suite plays no part. What is done is kept line by
line in ``booster_study.jsonl``: a run that is broken off goes on there.
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
from accuracy_blend import data_sets, split_of
from sklearn.base import clone
from sklearn.metrics import log_loss, root_mean_squared_error

from kpp import KPPClassifier, KPPRegressor
from kpp.forest.boosters import LIBRARIES
from kpp.forest.grow import named_forest

# What the sentences of the page call the three.
ALONE, FIVE, LAYER = "alone", "five averaged", "layer"
# Range of the picture.
SHOWN = (0.33, 1.5)
# More classes take as many times the trees.
MOST_CLASSES = 3


def bare(package: str, **parameters: Any) -> Callable[[bool, int, int], Any]:
    """Make a booster with its library's own defaults but for these parameters."""

    def make(classification: bool, n_rows: int, n_classes: int) -> Any:
        library = LIBRARIES[package]
        kind = library.load(classification=classification)
        return kind(**{**library.quiet, library.threads: 1, **parameters})

    return make


def named(package: str, **changed: Any) -> Callable[[bool, int, int], Any]:
    """Make the booster that goes by the library's name here, with some parameters changed."""

    def make(classification: bool, n_rows: int, n_classes: int) -> Any:
        library = LIBRARIES[package]
        own = named_forest(
            package, classification=classification, n_rows=n_rows, n_classes=n_classes
        )
        return own.set_params(**{library.threads: 1, **changed})

    return make


VARIANTS: dict[str, Callable[[bool, int, int], Any]] = {
    "lightgbm": named("lightgbm"),
    "lightgbm, its own defaults": bare("lightgbm"),
    "lightgbm, 8 leaves": named("lightgbm", num_leaves=8),
    "lightgbm, 16 leaves": named("lightgbm", num_leaves=16),
    "lightgbm, 31 leaves": named("lightgbm", num_leaves=31),
    "lightgbm, leaves of 1, rate .3": named(
        "lightgbm", num_leaves=31, min_child_samples=1, learning_rate=0.3
    ),
    "xgboost": named("xgboost"),
    "xgboost, its own defaults": bare("xgboost"),
    "xgboost, depth 4": named("xgboost", max_depth=4),
    "xgboost, leaves of 5": named("xgboost", min_child_weight=5),
    "xgboost, rate .1": named("xgboost", learning_rate=0.1),
    "catboost": named("catboost"),
    "catboost, depth 4": named("catboost", depth=4),
    "catboost, depth 5": named("catboost", depth=5),
    "catboost, depth 6": named("catboost", depth=6),
}


def loss_of(answer: Any, y: Any, classes: Any) -> float:
    """RMSE, or the log loss."""
    if classes is None:
        return float(root_mean_squared_error(y, answer))
    return float(log_loss(y, np.asarray(answer, dtype=np.float64), labels=classes))


def run(name: str, classification: bool, variant: str, seed: int, data_dir: str) -> dict[str, Any]:
    """Fit one variant in the three ways on four fifths of the rows, and score the others."""
    X, X_test, y, y_test = split_of(name, data_dir, classification, seed)
    classes = np.unique(y) if classification else None
    n_classes = 0 if classes is None else len(classes)
    booster = VARIANTS[variant](classification, len(y), n_classes)
    answer = "predict_proba" if classification else "predict"
    row: dict[str, Any] = {"data": name, "variant": variant, "seed": seed, "n_rows": len(y)}

    def timed(key: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = work()
        row[f"{key}, s"] = time.process_time() - start
        return done

    kind = KPPClassifier if classification else KPPRegressor
    model: Any = timed(LAYER, lambda: kind(clone(booster), random_state=seed, n_jobs=1).fit(X, y))
    row[LAYER] = loss_of(getattr(model, answer)(X_test), y_test, classes)
    alone = timed(ALONE, lambda: clone(booster).fit(X, y))
    row[ALONE] = loss_of(getattr(alone, answer)(X_test), y_test, classes)
    five = [clone(booster).fit(X[train], y[train]) for train, _ in model.folds_]
    answers = [getattr(one, answer)(X_test) for one in five]
    row[FIVE] = loss_of(np.mean(answers, axis=0), y_test, classes)
    return row


def to_markdown(rows: list[dict[str, Any]], sets: list[tuple[str, str, bool]]) -> str:
    """What the layer adds, and which parameters suit it; then every set."""
    table = pd.DataFrame(rows)
    means = table.groupby(["variant", "data"]).mean(numeric_only=True)
    seeds = ", ".join(map(str, sorted(set(table.seed))))
    lines = [
        "# Boosters of other libraries under the layer",
        "",
        "Written by `benchmarks/booster_study.py`: the development sets, at most 7,500 rows, 20% "
        f"held out, seeds: {seeds}; at most {MOST_CLASSES} classes; RMSE or log loss. *Against it "
        "alone*: the loss of KPP on five boosters (each without one fold) against the same "
        "booster fitted once to all training rows. *Against five averaged*: against the mean of "
        "those five boosters, which is what averaging alone brings. Ratios are medians over the "
        "sets; below 1 the layer is better. Time: processor seconds, of one fit of the booster.",
        "",
    ]
    tasks = {"RMSE": False, "log loss": True}
    for title, classification in tasks.items():
        names = [name for _, name, c in sets if c == classification]
        lines += [
            f"## {title}",
            "",
            "| booster | sets | against it alone | better on | against five averaged | better on "
            "| against the first of its library | time |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for variant in VARIANTS:
            if variant not in means.index.get_level_values(0):
                continue
            own = means.loc[variant]
            own = own[own.index.isin(names)]
            if not len(own):  # what goes by the library's name has these parameters itself
                continue
            first = means.loc[variant.partition(",")[0]].reindex(own.index)
            alone, five = own[LAYER] / own[ALONE], own[LAYER] / own[FIVE]
            change = np.exp(np.log(own[LAYER] / first[LAYER]).mean())
            slower = (own[f"{LAYER}, s"] / own[f"{ALONE}, s"]).median()
            lines.append(
                f"| {variant} | {len(own)} | {alone.median():.3f} | {(alone < 1).sum()} "
                f"| {five.median():.3f} | {(five < 1).sum()} | {change:.4f} | {slower:.1f} |"
            )
        lines.append("")
    shown = [name for name in LIBRARIES if name in means.index.get_level_values(0)]
    lines += [
        "Set by set, the loss of the layer against the booster alone and against five averaged:",
        "",
        "| sets | data | " + " | ".join(f"{name} | five" for name in shown) + " |",
        "|---" * (2 + 2 * len(shown)) + "|",
    ]
    for group, name, _ in sets:
        cells = []
        for variant in shown:
            if (variant, name) in means.index:
                own = means.loc[(variant, name)]
                cells += [f"{own[LAYER] / own[ALONE]:.3f}", f"{own[LAYER] / own[FIVE]:.3f}"]
            else:
                cells += ["", ""]
        if any(cells):
            lines.append(f"| {group} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw(rows: list[dict[str, Any]], sets: list[tuple[str, str, bool]], path: Path) -> None:
    """Ratios of the layer's loss to the booster's, sorted, for each library."""
    import matplotlib.pyplot as plt

    table = pd.DataFrame(rows)
    means = table.groupby(["variant", "data"]).mean(numeric_only=True)
    chosen = {
        "LightGBM, its defaults": "lightgbm, its own defaults",
        "XGBoost, its defaults": "xgboost, its own defaults",
        "CatBoost, 100 rounds": "catboost",
    }
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
    for axis, (title, variant) in zip(axes, chosen.items(), strict=True):
        own = means.loc[variant]
        for classification, colour in ((False, "#31688e"), (True, "#d95f02")):
            names = [name for _, name, c in sets if c == classification]
            ratio = (own[LAYER] / own[ALONE])[own.index.isin(names)].sort_values()
            place = (np.arange(len(ratio)) + 0.5) / len(ratio)
            label = "log loss" if classification else "RMSE"
            shown = ratio.clip(*SHOWN)  # what lies beyond stands at the edge
            axis.plot(place, shown, "o", color=colour, markersize=4.5, label=label)
        axis.axhline(1, color="0.4", linewidth=0.8)
        axis.set(title=title, yscale="log", xticks=[], xlabel="data sets, sorted")
        axis.set_yticks([0.4, 0.5, 0.7, 0.85, 1, 1.2], ["0.4", "0.5", "0.7", "0.85", "1", "1.2"])
        axis.minorticks_off()
        axis.set_ylim(SHOWN[0] / 1.03, SHOWN[1] * 1.03)
        axis.grid(axis="y", color="0.9")
    axes[0].set_ylabel("loss with KPP / loss of the booster")
    axes[0].legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--sets", nargs="*", help="only these data sets")
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin nothing after these")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path, end = arguments.out / "booster_study.jsonl", time.monotonic() + 60 * arguments.minutes
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["data"], row["variant"], row["seed"]) for row in rows}
    sets = data_sets(arguments.data_dir)
    for seed in arguments.seeds:
        for variant in arguments.variants:
            for _, name, classification in sets:
                if (name, variant, seed) in done or time.monotonic() > end:
                    continue
                if arguments.sets and name not in arguments.sets:
                    continue
                y = split_of(name, str(arguments.data_dir), classification, seed)[2]
                if classification and len(np.unique(y)) > MOST_CLASSES:
                    continue
                row = run(name, classification, variant, seed, str(arguments.data_dir))
                rows.append(row)
                with path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(row, flush=True)
    draw(rows, sets, arguments.out / "booster_study.png")
    (arguments.out / "booster_study.md").write_text(to_markdown(rows, sets))


if __name__ == "__main__":
    main()
