"""Write models of the XGBoost that is installed, with the leaves and raw scores that it gives.

Run in an environment of each version (``pip install xgboost-cpu==2.1.4 "pandas<3"``, 3.0.5, 3.1.3):
``python make_xgboost.py`` writes ``xgboost-<version>.json.gz`` beside itself.
"""

import gzip
import json
from pathlib import Path

import numpy as np

KINDS = ["red", "green", "blue", "black"]
COMMON = {"nthread": 1, "max_depth": 3, "seed": 0}


def some_rows(seed, n_rows=120):
    """Three numbers, some missing, and a code of a category."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, 4)), 3)
    X[:, 3] = rng.integers(0, len(KINDS), n_rows)
    X[rng.random(X.shape) < 0.1] = np.nan
    known = np.nan_to_num(X, nan=1.5)
    return X, known[:, 0] - known[:, 1] * known[:, 2] + 2.0 * (known[:, 3] == 2)


def beside_thresholds(booster, X, seed):
    """Rows at thresholds, and a step of float32 beside them."""
    rng = np.random.default_rng(seed)
    model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    trees = model.get("gbtree", model)["model"]["trees"]
    splits = [
        (column, np.float32(t))
        for tree in trees
        for column, t, left, kind in zip(
            tree["split_indices"],
            tree["split_conditions"],
            tree["left_children"],
            tree["split_type"],
            strict=True,
        )
        if left >= 0 and kind == 0
    ]
    rows = X[rng.integers(0, len(X), 24)].astype(np.float32)
    for i, row in enumerate(rows):
        column, t = splits[rng.integers(0, len(splits))]
        row[column] = [t, np.nextafter(t, np.float32(-9e9)), np.nextafter(t, np.float32(9e9))][
            i % 3
        ]
    return rows.astype(np.float64)


def written(name, booster, rows, data, **more):
    """One model, and what it says of some rows."""
    return {
        "name": name,
        "model": json.loads(booster.save_raw("json")),
        "rows": rows,
        "leaves": booster.predict(data, pred_leaf=True).reshape(data.num_row(), -1).tolist(),
        "margins": booster.predict(data, output_margin=True).reshape(data.num_row(), -1).tolist(),
        **more,
    }


def main():
    """Train the models, and write them down."""
    import pandas as pd
    import xgboost as xgb

    X, y = some_rows(0)
    numbers = X[:, :3]
    cases = []
    for name, label, params, n_rounds in (
        ("numbers", y, {"gamma": 2.0, "tree_method": "exact"}, 4),
        ("two classes, dart", y > 0, {"objective": "binary:logistic", "booster": "dart"}, 4),
        ("classes", np.digitize(y, [-1, 1]), {"objective": "multi:softprob", "num_class": 3}, 2),
        ("counts", np.floor(np.abs(y)), {"objective": "count:poisson"}, 3),
        ("targets", np.column_stack([y, -y]), {}, 2),
    ):
        more = {"rate_drop": 0.5} if "dart" in name else {}
        booster = xgb.train(COMMON | params | more, xgb.DMatrix(numbers, label), n_rounds)
        rows = beside_thresholds(booster, numbers, 1)
        cases.append(written(name, booster, rows.tolist(), xgb.DMatrix(rows)))
    kinds = ["q", "q", "q", "c"]

    def coded(rows, label=None):
        return xgb.DMatrix(rows, label, feature_types=kinds, enable_categorical=True)

    for name, params in (("codes", {"max_cat_to_onehot": 1}), ("one code", {})):
        booster = xgb.train(COMMON | {"max_cat_to_onehot": 9} | params, coded(X, y), 3)
        rows = beside_thresholds(booster, X, 2)
        rows[:8, 3] = [0, 1, 2, 3, 4, 99, -1, np.nan]
        cases.append(written(name, booster, rows.tolist(), coded(rows)))

    def frame(rows):
        colour = [None if np.isnan(code) else KINDS[int(code)] for code in rows[:, 3]]
        columns = {f"x{j}": rows[:, j] for j in range(3)}
        return pd.DataFrame(columns | {"colour": pd.Categorical(colour, categories=KINDS)})

    params = COMMON | {"max_cat_to_onehot": 1}
    data = xgb.DMatrix(frame(X), y, enable_categorical=True)
    booster = xgb.train(params, data, 3)
    rows = beside_thresholds(booster, X, 3)
    data = xgb.DMatrix(frame(rows), enable_categorical=True)
    colours = [[*row[:3], None if np.isnan(row[3]) else KINDS[int(row[3])]] for row in rows]
    cases.append(written("frame", booster, colours, data))

    model = xgb.XGBRegressor(
        n_estimators=30, max_depth=2, learning_rate=0.9, early_stopping_rounds=2, n_jobs=1
    )
    model.fit(numbers[:80], y[:80], eval_set=[(numbers[80:], y[80:])], verbose=False)
    booster, n_rounds = model.get_booster(), model.best_iteration + 1
    assert n_rounds < booster.num_boosted_rounds()
    rows = beside_thresholds(booster, numbers, 4)
    case = written("early stopping", booster, rows.tolist(), xgb.DMatrix(rows))
    best = {"leaves": model.apply(rows), "margins": model.predict(rows, output_margin=True)}
    case["estimator"] = {k: v.reshape(len(rows), -1).tolist() for k, v in best.items()}
    cases.append(case)

    file = Path(__file__).with_name(f"xgboost-{xgb.__version__}.json.gz")
    # Without the time of day: the same models are the same file.
    file.write_bytes(gzip.compress(json.dumps(cases).encode(), mtime=0))


if __name__ == "__main__":
    main()
