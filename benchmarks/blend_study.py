"""Which ensembles a blend should hold: candidates once, combinations for nothing.

Run ``python benchmarks/blend_study.py --data-dir FOLDER --cache CACHE --out benchmarks/results``.
Every variant of a block is fitted alone on every development set, on the same folds; its out-of-fold
and test scores are kept in the cache. A blend of any variants then costs only its weights. The suite
plays no part. A run that is broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_blend import MOST_ROWS, data_sets
from accuracy_defaults import prepared
from scipy.special import log_softmax
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import train_test_split

import kpp.models.blend as blending
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
    """Out-of-fold and test scores of the layer and the bare ensemble of one forest."""
    found: dict[str, Any] = {}
    original = blending.stacking_weights

    def spy(loss: Any, scores: Any, *rest: Any, **named: Any) -> Any:
        found.setdefault("out_of_fold", np.array(scores))
        return original(loss, scores, *rest, **named)

    kind = KPPClassifier if classification else KPPRegressor
    model = kind([("block", spec)], combine="blend", main_effects=None, random_state=seed)
    start = time.process_time()
    blending.stacking_weights = spy
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
    finally:
        blending.stacking_weights = original
    at = model.map_.blocks[0][1].on(X_test)
    test = [fit.scores(at) for fit in (*model.fits_, *model.bare_fits_)]
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


def split_of(name: str, data_dir: str, classification: bool, seed: int) -> Any:
    X, y = prepared(name, data_dir, classification)
    if len(y) > MOST_ROWS:
        chosen = np.random.default_rng(0).choice(len(y), MOST_ROWS, replace=False)
        X, y = X[chosen], y[chosen]
    own = y if classification else None
    return train_test_split(X, y, test_size=0.2, random_state=seed, stratify=own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--only", nargs="*", help="only these variants")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--most-classes", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=np.inf)
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
                path = arguments.cache / f"{name}-{seed}-{variant.replace(' ', '_')}.npz"
                if path.exists() or (arguments.only and variant not in arguments.only):
                    continue
                if time.monotonic() > end:
                    return
                found = candidates(spec, classification, X, y, X_test, seed)
                np.savez(path, y=y, y_test=y_test, **found)
                alone = blend([found], y, y_test)
                print(name, seed, variant, f"{alone:.4g}", f"{found['seconds']:.1f} s", flush=True)


if __name__ == "__main__":
    main()
