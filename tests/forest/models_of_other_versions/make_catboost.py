"""Make the models beside this file: ``python make_catboost.py``, once for each version of CatBoost.

For each of two models a file of CatBoost's own format, and in one file of JSON the rows, their
leaves (``calc_leaf_indexes``) and their raw scores, all written by that version itself.
"""

import json
from pathlib import Path

import numpy as np


def main():
    import catboost

    rng = np.random.default_rng(0)
    n_rows = 200
    X = rng.normal(size=(n_rows, 2)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    colour = rng.choice(["red", "green", "blue"], n_rows)
    code = rng.integers(0, 4, n_rows)
    score = np.nan_to_num(X[:, 0], nan=2.0) + 2.0 * (colour == "red") * (code == 3)
    table = np.column_stack([X[:, :1].astype(object), colour, X[:, 1:].astype(object), code])
    quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}
    shared = {"cat_features": [1, 3], "one_hot_max_size": 9, "learning_rate": 0.3}
    models = {
        "symmetric": catboost.CatBoostRegressor(iterations=8, depth=4, **shared, **quiet),
        "lossguide": catboost.CatBoostClassifier(
            iterations=4, grow_policy="Lossguide", max_leaves=7, nan_mode="Max", **shared, **quiet
        ),
    }
    version, told = catboost.__version__, {}
    for name, model in models.items():
        classes = np.array(["few", "some", "many"])[np.digitize(score, [0.0, 1.0])]
        model.fit(table, score if name == "symmetric" else classes)
        borders = model.get_borders()
        rows = table[:60].copy()
        for i, (j, values) in enumerate(borders.items()):
            for k, border in enumerate(values[:8]):
                rows[8 * i + k, j] = float(border)
        rows[40:44, 0] = [np.inf, -np.inf, np.nan, -0.0]
        rows[44:50, 1], rows[50:56, 3] = "unseen", "17"
        told[name] = {
            "rows": rows.tolist(),
            "leaves": model.calc_leaf_indexes(rows).tolist(),
            "scores": model.predict(rows, prediction_type="RawFormulaVal").tolist(),
        }
        model.save_model(str(Path(__file__).parent / f"catboost_{version}_{name}.cbm"))
    path = Path(__file__).parent / f"catboost_{version}.json"
    path.write_text(json.dumps(told) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
