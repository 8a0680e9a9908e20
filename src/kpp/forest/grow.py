"""The forests that can be asked for by name, and how any forest is grown for a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.frozen import FrozenEstimator

from kpp.forest.arrays import Forest

FOREST_NAMES = ("extra-trees", "random-forest", "boosted")
FUTURE_NAMES = ("auto", "blend")
TAKES_FRAMES = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
UNSUPERVISED = (RandomTreesEmbedding, IsolationForest)


def named_forest(
    name: str,
    *,
    classification: bool | None,
    n_rows: int,
    n_estimators: int = 100,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Any:
    """Return an unfitted ensemble by its name.

    Parameters
    ----------
    name : {"extra-trees", "random-forest", "boosted"}
        "boosted" is scikit-learn's HistGradientBoosting. A random forest for regression looks
        at a third of the columns at each split, which suits the joint linear layer better than
        all of them.
    classification : bool or None
        The task; None is for no target: totally random trees, whatever the name.
    n_rows : int
        Rows to grow on. With fewer than 200 the leaves of boosted trees may be smaller than
        scikit-learn's default of 20 rows, which would leave them without splits.
    n_estimators : int
        Number of trees, or of boosting rounds.
    n_jobs : int, optional
        Threads for growing.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    estimator : scikit-learn estimator

    Examples
    --------
    >>> from kpp.forest.grow import named_forest
    >>> named_forest("extra-trees", classification=False, n_rows=1000)
    ExtraTreesRegressor()
    """
    if name in FUTURE_NAMES:
        raise ValueError(
            f"forest={name!r} is reserved and not available yet: use one of "
            f"{', '.join(map(repr, FOREST_NAMES))}, or an estimator."
        )
    if name not in FOREST_NAMES:
        raise ValueError(
            f"forest must be one of {', '.join(map(repr, FOREST_NAMES))}, an ensemble, a kpp "
            f"Forest or a list of (name, forest); got {name!r}."
        )
    if name == "boosted" and classification is not None:
        regressor, classifier = HistGradientBoostingRegressor, HistGradientBoostingClassifier
        boosted = classifier if classification else regressor
        # Early stopping would hide rows from the trees and change their number.
        return boosted(
            max_iter=n_estimators,
            min_samples_leaf=min(20, max(1, n_rows // 10)),
            early_stopping=False,
            random_state=random_state,
        )
    common = {"n_estimators": n_estimators, "n_jobs": n_jobs, "random_state": random_state}
    if classification is None:
        return RandomTreesEmbedding(**common)
    if name == "extra-trees":
        return (ExtraTreesClassifier if classification else ExtraTreesRegressor)(**common)
    if classification:
        return RandomForestClassifier(**common)
    return RandomForestRegressor(max_features=1 / 3, **common)


def check_forest(forest: Any) -> None:
    """Refuse what is neither a name nor a forest nor an estimator."""
    known = isinstance(forest, str | Forest)
    if not known and (isinstance(forest, type) or not hasattr(forest, "fit")):
        raise TypeError(
            "forest must be a name, an ensemble to be fitted, a kpp Forest, a FrozenEstimator "
            f"or a list of (name, forest); got {forest!r}."
        )


def is_grown(forest: Any) -> bool:
    """Whether a forest is used as it is, and not grown on the rows of the fit."""
    return isinstance(forest, Forest | FrozenEstimator)


def grow_forest(
    estimator: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    random_state: Any = None,
    feature_names: Any = None,
) -> Forest:
    """Fit a clone of an ensemble and read its trees; the ensemble itself is let go.

    Parameters
    ----------
    estimator : Forest, FrozenEstimator or unfitted estimator
        The first two are read as they are.
    X, y, sample_weight
        What to grow on.
    random_state : int, RandomState or None
        Seed for an estimator whose own ``random_state`` is None.
    feature_names : array of str, optional
        Names of the columns, when X does not carry them.

    Returns
    -------
    forest : Forest
    """
    if is_grown(estimator):
        return Forest.from_model(estimator)
    if y is None and not isinstance(estimator, UNSUPERVISED):
        raise ValueError(
            f"{type(estimator).__name__} is grown on a target, and y is None: give y, or use "
            "RandomTreesEmbedding or IsolationForest."
        )
    estimator = clone(estimator)
    parameters = estimator.get_params(deep=False)
    if "random_state" in parameters and parameters["random_state"] is None:
        estimator.set_params(random_state=random_state)
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    forest = Forest.from_model(estimator.fit(X, y, **weights))
    if forest.feature_names is None and feature_names is not None:
        forest = replace(forest, feature_names=tuple(str(name) for name in feature_names))
    return forest
