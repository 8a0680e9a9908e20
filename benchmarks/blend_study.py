"""Which ensembles a blend should hold: candidates once, combinations for nothing.

Run ``python benchmarks/blend_study.py --data-dir FOLDER --cache CACHE --out benchmarks/results``.
Every variant of a block is fitted alone on every development set, on the same folds; its
out-of-fold and test scores are kept in the cache. A blend of any variants then costs only its
weights. The suite plays no part. A run that is broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from accuracy_blend import RIVAL, data_sets, split_of
from scipy.special import log_softmax
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from kpp import KPPClassifier, KPPRegressor
from kpp.forest import Ladders
from kpp.solvers import SquaredLoss, log_loss, stacking_weights


def boosted(classification: bool, n_rows: int, **changed: Any) -> Any:
    kind = HistGradientBoostingClassifier if classification else HistGradientBoostingRegressor
    own = {
        "max_iter": 200,
        "learning_rate": 0.05,
        "max_leaf_nodes": 16,
        "max_features": 0.5,
        "min_samples_leaf": min(20, max(1, n_rows // 10)),
        "early_stopping": False,
    }
    return kind(**own | changed)


def variants(classification: bool, n_rows: int) -> dict[str, Any]:
    extra = ExtraTreesClassifier if classification else ExtraTreesRegressor
    random = RandomForestClassifier if classification else RandomForestRegressor
    leaf = {"min_samples_leaf": 3} if n_rows >= 10_000 else {}
    return {
        "trees": extra(300, **leaf),
        "ladders": Ladders(),
        "linear": None,
        "boosted": boosted(classification, n_rows),
        "100 rounds of .1": boosted(classification, n_rows, max_iter=100, learning_rate=0.1),
        "50 rounds of .15": boosted(classification, n_rows, max_iter=50, learning_rate=0.15),
        "30 rounds of .2": boosted(classification, n_rows, max_iter=30, learning_rate=0.2),
        "200 rounds of .1": boosted(classification, n_rows, learning_rate=0.1),
        "500 rounds": boosted(classification, n_rows, max_iter=500),
        "8 leaves": boosted(classification, n_rows, max_leaf_nodes=8),
        "500 rounds, 8 leaves": boosted(classification, n_rows, max_iter=500, max_leaf_nodes=8),
        "31 leaves": boosted(classification, n_rows, max_leaf_nodes=31),
        "leaves of 5": boosted(classification, n_rows, min_samples_leaf=5),
        "leaves of 5, 8 leaves": boosted(
            classification, n_rows, min_samples_leaf=5, max_leaf_nodes=8
        ),
        "leaves of 5, 100 rounds of .1": boosted(
            classification, n_rows, min_samples_leaf=5, max_iter=100, learning_rate=0.1
        ),
        "leaves of 5, 8 leaves, 100 rounds of .1": boosted(
            classification,
            n_rows,
            min_samples_leaf=5,
            max_leaf_nodes=8,
            max_iter=100,
            learning_rate=0.1,
        ),
        "leaves of 2, 8 leaves": boosted(
            classification, n_rows, min_samples_leaf=2, max_leaf_nodes=8
        ),
        "leaves of 10": boosted(classification, n_rows, min_samples_leaf=10),
        "leaves of 5, 500 rounds": boosted(
            classification, n_rows, min_samples_leaf=5, max_iter=500
        ),
        "random forest": random(100, max_features=1 / 3, **leaf),
        "trees, all columns": extra(300, max_features=1.0, **leaf),
        "trees, a third": extra(300, max_features=1 / 3, **leaf),
        "150 trees": extra(150, **leaf),
        "trees, leaves of 3": extra(300, min_samples_leaf=3),
    }


def candidates(
    spec: Any, classification: bool, X: Any, y: Any, X_test: Any, seed: int
) -> dict[str, Any]:
    """Out-of-fold and test scores of the layer and the bare ensemble of one forest.

    None stands for linear terms, which are fitted beside ladders and taken without them.
    """
    found: dict[str, Any] = {}

    def spy(loss: Any, scores: Any, *rest: Any, **named: Any) -> Any:
        found.setdefault("out_of_fold", np.array(scores))
        return stacking_weights(loss, scores, *rest, **named)

    kind = KPPClassifier if classification else KPPRegressor
    effects, forest = (None, spec) if spec is not None else ("linear", Ladders())
    model = kind([("block", forest)], combine="blend", main_effects=effects, random_state=seed)
    start = time.process_time()
    with warnings.catch_warnings(), patch("kpp.models.blend.stacking_weights", spy):
        warnings.simplefilter("ignore")
        model.fit(X, y)
    at = [block.on(X_test) for _, block in model.map_.blocks]
    test = [fit.scores(own) for fit, own in zip(model.fits_, at, strict=True)]
    test += [fit.scores(at[0]) for fit in model.bare_fits_ or ()]
    if spec is None:
        found["out_of_fold"], test = found["out_of_fold"][1:], test[1:]
    return found | {"test": np.array(test), "seconds": time.process_time() - start}


def test_loss(scores: Any, y: Any) -> float:
    """RMSE, or the log loss of raw scores."""
    if y.dtype.kind == "f":
        return float(np.sqrt(np.mean((scores[:, 0] - y) ** 2)))
    if scores.shape[1] == 1:
        sign = np.where(y == 1, 1.0, -1.0)
        return float(np.logaddexp(0, -sign * scores[:, 0]).mean())
    return float(-log_softmax(scores, axis=1)[np.arange(len(y)), y].mean())


def blend(parts: list[dict[str, Any]], y: Any, y_test: Any) -> float:
    loss: Any = SquaredLoss(1) if y.dtype.kind == "f" else log_loss(len(np.unique(y)))
    out_of_fold = np.concatenate([part["out_of_fold"] for part in parts])
    test = np.concatenate([part["test"] for part in parts])
    theta, constant = stacking_weights(loss, out_of_fold, y, np.ones(len(y)))
    return test_loss(np.einsum("jk,jik->ik", theta, test) + constant, y_test)


# Blends that are compared; the first is what the others are held against.
COMBINATIONS: dict[str, list[str]] = {
    "first: 300 trees, 200 rounds of .05, ladders": ["trees", "boosted", "ladders"],
    "without main effects": ["trees", "boosted"],
    "linear terms": ["trees", "boosted", "linear"],
    "ladders and linear terms": ["trees", "boosted", "ladders", "linear"],
} | {
    f"both, {variant}": ["trees", variant, "ladders", "linear"]
    for variant in (
        "100 rounds of .1",
        "500 rounds",
        "8 leaves",
        "leaves of 10",
        "leaves of 5",
        "leaves of 5, 8 leaves",
        "leaves of 2, 8 leaves",
        "leaves of 5, 100 rounds of .1",
        "leaves of 5, 8 leaves, 100 rounds of .1",
        "50 rounds of .15",
        "30 rounds of .2",
    )
}
COMBINATIONS |= {
    "both, 150 trees": ["150 trees", "boosted", "ladders", "linear"],
    "both, trees with leaves of 3": ["trees, leaves of 3", "boosted", "ladders", "linear"],
    "both, leaves of 5, 100 rounds of .1, 150 trees": [
        *("150 trees", "leaves of 5, 100 rounds of .1", "ladders", "linear"),
    ],
    "both, and a random forest": ["trees", "boosted", "ladders", "linear", "random forest"],
}


def to_markdown(cache: Path, sets: list[tuple[str, str, bool]], seeds: list[int]) -> str:
    """Every combination against the first and against CatBoost, by task."""
    rivals = {}
    known = Path(__file__).parent / "results" / "accuracy_blend.jsonl"
    for line in known.read_text().splitlines():
        row = json.loads(line)
        if row["method"] == RIVAL:
            rivals[row["data"], row["seed"]] = row["loss"], row["cpu_seconds"]

    def part(name: str, seed: int, variant: str) -> Any:
        path = _path(cache, name, seed, variant)
        return dict(np.load(path)) if path.exists() else None

    lines = [
        "# What a blend should hold",
        "",
        "Written by `benchmarks/blend_study.py`: the development sets, at most 7,500 rows, 20% "
        f"held out, seeds {', '.join(map(str, seeds))}. Change: mean and median over the sets of "
        "the logarithm of the loss against the first line's, and on how many sets it is lower. "
        "Wins, median ratio and time (processor seconds of all parts) against CatBoost at its own "
        "1,000 rounds, as in `accuracy_blend.jsonl`. Lines are compared on the sets that both "
        "have.",
        "",
    ]
    tasks = {"numbers": (False, 0), "two classes": (True, 2), "more classes": (True, 3)}
    for title, (classification, least) in tasks.items():
        found: dict[str, dict[Any, tuple[float, float]]] = {}
        for _, name, has_classes in sets:
            if has_classes != classification:
                continue
            for seed in seeds:
                for combination, variants_of in COMBINATIONS.items():
                    parts = [part(name, seed, variant) for variant in variants_of]
                    if any(own is None for own in parts):
                        continue
                    y, y_test = parts[0]["y"], parts[0]["y_test"]
                    n_classes = len(np.unique(y)) if classification else 0
                    if classification and (n_classes > 2) != (least > 2):
                        continue
                    seconds = sum(float(own["seconds"]) for own in parts)
                    loss = blend(parts, y, y_test)
                    found.setdefault(combination, {})[name, seed] = loss, seconds
        lines += [
            f"## {title}",
            "",
            "| blend | sets | change, mean | median | lower on | CatBoost: wins | ratio | time |",
            "|---|---|---|---|---|---|---|---|",
        ]
        first = found.get(next(iter(COMBINATIONS)), {})
        for combination, own in found.items():
            keys = [key for key in own if key in first]
            change = np.array([np.log(own[key][0] / first[key][0]) for key in keys])
            rival = [key for key in keys if key in rivals]
            ratio = np.array([own[key][0] / rivals[key][0] for key in rival])
            slower = np.median([own[key][1] / rivals[key][1] for key in rival]) if rival else np.nan
            lines.append(
                f"| {combination} | {len(keys)} | {change.mean():+.3f} | {np.median(change):+.4f} "
                f"| {(change < 0).sum()} | {(ratio < 1).sum()} of {len(rival)} "
                f"| {np.median(ratio):.3f} | {slower:.2f} |"
            )
        lines.append("")
    return "\n".join(lines)


def _path(cache: Path, name: str, seed: int, variant: str) -> Path:
    return cache / f"{name}-{seed}-{variant.replace(' ', '_')}.npz"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--only", nargs="*", help="only these variants")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--most-classes", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=np.inf)
    parser.add_argument("--out", type=Path, help="folder for the page of what is in the cache")
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    arguments.cache.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        for _, name, classification in data_sets(arguments.data_dir):
            if arguments.sets and name not in arguments.sets:
                continue
            X, X_test, y, y_test = split_of(name, str(arguments.data_dir), classification, seed)
            if classification and len(np.unique(y)) > arguments.most_classes:
                continue
            for variant, spec in variants(classification, len(y)).items():
                path = _path(arguments.cache, name, seed, variant)
                if path.exists() or (arguments.only and variant not in arguments.only):
                    continue
                if time.monotonic() > end:
                    continue
                found = candidates(spec, classification, X, y, X_test, seed)
                np.savez(path, y=y, y_test=y_test, **found)
                alone = blend([found], y, y_test)
                print(name, seed, variant, f"{alone:.4g}", f"{found['seconds']:.1f} s", flush=True)
    if arguments.out is not None:
        sets = data_sets(arguments.data_dir)
        page = to_markdown(arguments.cache, sets, arguments.seeds)
        (arguments.out / "blend_study.md").write_text(page)


if __name__ == "__main__":
    main()
