"""The models that people compare with, each at its library's own defaults."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

# What a comparison calls them; boosters of other libraries take part where they are installed.
CONSTANT, LINEAR = "constant", "linear model"
BOOSTERS = {"LightGBM": "lightgbm", "XGBoost": "xgboost", "CatBoost": "catboost"}


def rivals(
    *,
    classification: bool,
    categorical: list[int],
    n_jobs: int | None = None,
    random_state: int = 0,
) -> dict[str, Any]:
    """Return rivals that take a table as numbers, its categories by codes, NaN for gaps.

    Parameters
    ----------
    classification : bool
        Whether classes are predicted; they are given by their numbers.
    categorical : list of int
        Columns of codes. The linear model gives every category a column of its own; trees split
        the codes as numbers.
    n_jobs : int, optional
        Threads of those that take any.
    random_state : int
        Seed.

    Returns
    -------
    rivals : dict of str to estimator
        Not fitted.

    Examples
    --------
    >>> from kpp.diagnostics.rivals import rivals
    >>> list(rivals(classification=True, categorical=[]))[:3]
    ['constant', 'linear model', 'random forest']
    """
    jobs, seed = {"n_jobs": n_jobs}, {"random_state": random_state}
    if classification:
        found = {
            CONSTANT: DummyClassifier(strategy="prior"),
            LINEAR: _linear(LogisticRegression(max_iter=1000), categorical),
            "random forest": RandomForestClassifier(**jobs, **seed),
            "extra trees": ExtraTreesClassifier(**jobs, **seed),
            "hist gradient boosting": HistGradientBoostingClassifier(**seed),
        }
    else:
        found = {
            CONSTANT: DummyRegressor(),
            LINEAR: _linear(RidgeCV(np.logspace(-3, 4, 15)), categorical),
            "random forest": RandomForestRegressor(**jobs, **seed),
            "extra trees": ExtraTreesRegressor(**jobs, **seed),
            "hist gradient boosting": HistGradientBoostingRegressor(**seed),
        }
    for name, module in BOOSTERS.items():
        if find_spec(module) is not None:
            found[name] = _booster(name, classification, n_jobs, random_state)
    return found


def simple_rivals(*, classification: bool, categorical: list[int]) -> dict[str, Any]:
    """Return what any model should beat: a constant, a linear model and a small tree.

    Parameters
    ----------
    classification : bool
        Whether classes are predicted.
    categorical : list of int
        Columns of codes.

    Returns
    -------
    rivals : dict of str to estimator
        Not fitted. The linear model stops early, and the tree has at most eight leaves.

    Examples
    --------
    >>> from kpp.diagnostics.rivals import simple_rivals
    >>> list(simple_rivals(classification=False, categorical=[]))
    ['constant', 'linear model', 'small tree']
    """
    if classification:
        return {
            CONSTANT: DummyClassifier(strategy="prior"),
            LINEAR: _linear(LogisticRegression(max_iter=200), categorical),
            "small tree": DecisionTreeClassifier(
                max_leaf_nodes=8, min_samples_leaf=20, random_state=0
            ),
        }
    return {
        CONSTANT: DummyRegressor(),
        LINEAR: _linear(RidgeCV(np.logspace(-3, 4, 15)), categorical),
        "small tree": DecisionTreeRegressor(max_leaf_nodes=8, min_samples_leaf=20, random_state=0),
    }


def _linear(last: Any, categorical: list[int]) -> Any:
    """A linear model on scaled numbers without gaps, and a column for each frequent category."""
    numbers = make_pipeline(
        SimpleImputer(add_indicator=True, keep_empty_features=True), StandardScaler()
    )
    columns = ColumnTransformer(
        [("categories", OneHotEncoder(handle_unknown="ignore", max_categories=50), categorical)],
        remainder=numbers,
    )
    return make_pipeline(columns, last)


def _booster(name: str, classification: bool, n_jobs: int | None, seed: int) -> Any:
    """One of the other libraries' boosters, which says nothing and writes no files."""
    threads = 1 if n_jobs is None else n_jobs
    if name == "LightGBM":
        from lightgbm import LGBMClassifier, LGBMRegressor

        kind = LGBMClassifier if classification else LGBMRegressor
        return kind(n_jobs=threads, random_state=seed, verbose=-1)
    if name == "XGBoost":
        from xgboost import XGBClassifier, XGBRegressor

        kind = XGBClassifier if classification else XGBRegressor
        return kind(n_jobs=threads, random_state=seed)
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostClassifier if classification else CatBoostRegressor
    return kind(thread_count=threads, random_seed=seed, verbose=0, allow_writing_files=False)
