"""Small fitted models of every kind, each made once."""

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

from kpp import KPPClassifier, KPPRegressor

SMALL = {"n_estimators": 10, "random_state": 0}


def mixed_frame(n_rows=200, seed=0):
    """Numbers, categories, and missing values in both."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "colour": pd.Categorical(rng.choice(["red", "blue", "green", "grey"], n_rows)),
            "size": rng.normal(size=n_rows),
            "count": rng.integers(0, 5, n_rows),
        },
        index=[f"row {i}" for i in range(n_rows)],
    )
    X.iloc[::7, 1] = np.nan
    X.iloc[::11, 0] = np.nan
    y = 2.0 * (X["colour"] == "red") + X["size"].fillna(3) + 0.1 * X["count"]
    return X, y.to_numpy()


def _models():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:150], y[:150]
    unscaled = load_diabetes(return_X_y=True, scaled=False)[0][:150]
    two = np.column_stack([y, X[:, 2]])
    cancer = tuple(a[:150] for a in load_breast_cancer(return_X_y=True))
    blocks = [("et", ExtraTreesRegressor(5)), ("rf", RandomForestRegressor(5))]
    boosted = HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=5)
    return {
        "regression": (KPPRegressor("extra-trees", alpha=0.1, **SMALL), X, y),
        "regression, no intercept": (
            KPPRegressor("extra-trees", alpha=0.1, fit_intercept=False, **SMALL),
            X,
            y,
        ),
        "regression, chosen alpha": (KPPRegressor("extra-trees", cv=3, **SMALL), X, y),
        "tree by tree": (KPPRegressor("extra-trees", alpha=0.1, normalize="tree", **SMALL), X, y),
        "leaf weights": (KPPRegressor("extra-trees", alpha=0.1, leaf_weight=0.3, **SMALL), X, y),
        "several targets": (KPPRegressor("extra-trees", alpha=0.1, **SMALL), X, two),
        "binary": (KPPClassifier("extra-trees", alpha=1e-3, **SMALL), *cancer),
        "multiclass": (
            KPPClassifier("extra-trees", alpha=1e-3, **SMALL),
            *load_iris(return_X_y=True),
        ),
        "blocks": (KPPRegressor(blocks, combine="joint", alpha=0.1, random_state=0), X, y),
        # Not scaled: forests of both precisions tell no values apart that differ by a rounding.
        "blend": (
            KPPRegressor("blend", main_effects="ladders", alpha=0.1, cv=3, **SMALL),
            unscaled,
            y,
        ),
        "blend of classes": (
            KPPClassifier(
                "blend", main_effects="ladders", alpha=1e-3, cv=3, n_estimators=4, random_state=0
            ),
            *load_iris(return_X_y=True),
        ),
        "cross-validated": (
            KPPRegressor("extra-trees", alpha=0.1, regime="cross-validated", cv=3, **SMALL),
            X,
            y,
        ),
        "cross-fit": (
            KPPRegressor("extra-trees", alpha=0.1, regime="cross-fit", cv=3, **SMALL),
            X,
            y,
        ),
        "honest": (KPPRegressor("extra-trees", alpha=0.1, regime="honest", **SMALL), X, y),
        "partition": (
            KPPRegressor("extra-trees", alpha=0.1, regime="honest", center="partition", **SMALL),
            X,
            y,
        ),
        "categories": (KPPRegressor(boosted, alpha=0.1, random_state=0), *mixed_frame()),
    }


MODELS = _models()
_fitted = {}


def fitted(kind):
    """A fitted model of one kind and the rows that it was fitted on; made once."""
    if kind not in _fitted:
        model, X, y = MODELS[kind]
        _fitted[kind] = (model.fit(X, y), X)
    return _fitted[kind]
