"""Write small models of the LightGBM that is installed, and what it makes of some rows.

python lightgbm_models.py  # writes lightgbm_<version>.json into this folder; needs pandas
"""

import json
from pathlib import Path

import numpy as np

COMMON = {"n_estimators": 3, "num_leaves": 5, "min_child_samples": 5, "n_jobs": 1, "verbose": -1}
CATEGORICAL = {"min_data_per_group": 5, "cat_smooth": 1.0, "max_cat_to_onehot": 1}


def table(n_rows):
    """Columns of every kind, as lists, and a target."""
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=n_rows), 2)  # short numbers, for small files
    x[rng.random(n_rows) < 0.2] = np.nan
    columns = {
        "x": x.tolist(),
        "colour": rng.choice(["red", "green", "blue"], n_rows).astype(object).tolist(),
        "size": rng.choice(["S", "M", "L"], n_rows).astype(object).tolist(),
        "z": np.where(rng.random(n_rows) < 0.4, 0.0, np.round(rng.normal(size=n_rows), 2)).tolist(),
    }
    for name in ("colour", "size"):
        columns[name][::17] = [None] * len(columns[name][::17])
    red = np.array([value == "red" for value in columns["colour"]])
    large = np.array([value == "L" for value in columns["size"]])
    y = np.nan_to_num(x, nan=1.5) + 2 * red - large + (np.array(columns["z"]) == 0)
    return columns, y


def frame_of(columns):
    """The table as a data frame; its sizes have an order."""
    import pandas as pd

    sizes = pd.CategoricalDtype(["S", "M", "L"], ordered=True)
    frame = pd.DataFrame(columns)
    return frame.assign(
        colour=pd.Categorical(columns["colour"]), size=pd.Categorical(columns["size"], dtype=sizes)
    )


def numbers(n_rows):
    """An array whose last column holds categories, and classes."""
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(n_rows, 3)), 2)
    X[rng.random(n_rows) < 0.3, 1] = 0.0
    X[rng.random(n_rows) < 0.2, 0] = np.nan
    X[:, 2] = rng.choice([0.0, 3.0, 7.9, 40.0, np.nan], n_rows)
    y = np.nan_to_num(X[:, 0]) + (X[:, 1] == 0) + 2 * (X[:, 2] == 40) - (X[:, 2] == 0)
    return X, np.digitize(y, [-0.5, 1.0])


def record(booster, text, rows, given):
    return {
        "model": text,
        "rows": given,
        "leaves": booster.predict(rows, pred_leaf=True).astype(int).tolist(),
        "scores": np.asarray(booster.predict(rows, raw_score=True)).tolist(),
    }


def main():
    import lightgbm as lgb

    columns, y = table(120)
    frame = frame_of(columns)
    regressor = lgb.LGBMRegressor(**COMMON, **CATEGORICAL).fit(frame, y)
    X, classes = numbers(120)
    classifier = lgb.LGBMClassifier(**(COMMON | {"n_estimators": 2}), **CATEGORICAL)
    classifier.set_params(zero_as_missing=True).fit(X, classes, categorical_feature=[2])
    few = {name: values[:30] for name, values in columns.items()}
    written = {
        "version": lgb.__version__,
        "frame": record(
            regressor.booster_, regressor.booster_.model_to_string(), frame.head(30), few
        ),
        "numbers": record(
            classifier.booster_, classifier.booster_.model_to_string(), X[:30], X[:30].tolist()
        ),
    }
    path = Path(__file__).with_name(f"lightgbm_{lgb.__version__}.json")
    path.write_text(json.dumps(written) + "\n")


if __name__ == "__main__":
    main()
