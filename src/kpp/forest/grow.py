"""The forests that can be asked for by name, and how any forest is grown for a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags

from kpp.forest.arrays import Forest
from kpp.forest.boosters import (
    BOOSTERS,
    LIBRARIES,
    fit_booster,
    library_of,
    named_booster,
    seed_name,
    unfitted,
)
from kpp.forest.coded import CodedRows
from kpp.forest.derived import forget_numbers
from kpp.forest.encoding import Encoding, target_columns
from kpp.forest.importers import Traits, import_forest, importer_of
from kpp.forest.ladders import Ladders
from kpp.forest.oblique import ObliqueForestClassifier, ObliqueForestRegressor

# Name -> its classifier and its regressor.
NAMED_FORESTS: dict[str, tuple[type, type]] = {
    "extra-trees": (ExtraTreesClassifier, ExtraTreesRegressor),
    "random-forest": (RandomForestClassifier, RandomForestRegressor),
    "boosted": (HistGradientBoostingClassifier, HistGradientBoostingRegressor),
    "boosted-small": (HistGradientBoostingClassifier, HistGradientBoostingRegressor),
    "ladders": (Ladders, Ladders),
}
# What a blend's booster has instead of scikit-learn's defaults: small trees, each of which looks at
# half of the columns. Its other numbers are in `_small_steps`.
SMALL_TREES = {"max_leaf_nodes": 16, "max_features": 0.5}
# Trees of one round add up over classes: beyond so many there are fewer rounds, of larger steps.
FEW_CLASSES, FEWEST_ROUNDS, LARGEST_RATE = 5, 10, 0.2

# From this many rows on, leaves of averaged trees hold so many rows at least: half of the nodes go,
# and on the large development sets no accuracy with them (benchmarks/results/leaf_size.md).
MANY_ROWS, LEAF_OF_MANY_ROWS = 10_000, 3


def named_forest(
    name: str,
    *,
    classification: bool | None,
    n_rows: int,
    n_estimators: int = 100,
    n_jobs: int | None = None,
    random_state: Any = None,
    n_classes: int = 2,
) -> Any:
    """Return an unfitted ensemble by its name.

    Parameters
    ----------
    name : {"extra-trees", "random-forest", "boosted", "boosted-small", "ladders", "lightgbm", \
            "xgboost", "catboost"}
        "boosted" is scikit-learn's HistGradientBoosting; "boosted-small" has trees of 16 leaves
        with half of the columns for each split: for numbers rounds of rate 0.1 and leaves of at
        least 5 rows, for two classes twice as many rounds of rate 0.05, for more of them fewer and
        larger ones. Boosters of other libraries have trees of their own (`named_booster`), and need
        their extras. A
        random forest for regression looks at a third of the columns at each split, which suits the
        joint linear layer better than all of them. "ladders" is one tree a column, see `Ladders`.
    classification : bool or None
        The task; None is for no target: totally random trees, whatever the name.
    n_rows : int
        Rows to grow on. With fewer than 200 the leaves of boosted trees may be smaller than
        scikit-learn's default of 20 rows, which would leave them without splits. From 10,000 on
        the leaves of extra trees and random forests hold at least 3 rows.
    n_estimators : int
        Number of trees, or of boosting rounds.
    n_jobs : int, optional
        Threads for growing.
    random_state : int, RandomState or None
        Seed.
    n_classes : int
        Number of classes, for classification.

    Returns
    -------
    estimator : scikit-learn estimator

    Examples
    --------
    >>> from kpp.forest.grow import named_forest
    >>> named_forest("extra-trees", classification=False, n_rows=1000)
    ExtraTreesRegressor()
    """
    if name not in NAMED_FORESTS and name not in LIBRARIES:
        names = ", ".join(map(repr, [*NAMED_FORESTS, *LIBRARIES]))
        raise ValueError(
            f"forest must be one of {names}, for a regressor or "
            "classifier 'blend', an ensemble, a kpp Forest or a list of (name, forest); got "
            f"{name!r}."
        )
    common: dict[str, Any] = {
        "n_estimators": n_estimators,
        "n_jobs": n_jobs,
        "random_state": random_state,
    }
    if name == "ladders":
        return Ladders()
    if classification is None:
        return RandomTreesEmbedding(**common)
    steps = _small_steps(n_estimators, n_rows, n_classes if classification else 0)
    if name in LIBRARIES:
        return named_booster(
            name, classification=classification, steps=steps, random_state=random_state
        )
    classifier, regressor = NAMED_FORESTS[name]
    ensemble = classifier if classification else regressor
    if name in ("boosted", "boosted-small"):
        is_small = name == "boosted-small"
        # Early stopping would hide rows from the trees and change their number.
        return ensemble(
            **(
                SMALL_TREES | steps
                if is_small
                else {"max_iter": n_estimators} | _leaves(20, n_rows)
            ),
            early_stopping=False,
            random_state=random_state,
        )
    if n_rows >= MANY_ROWS:
        common["min_samples_leaf"] = LEAF_OF_MANY_ROWS
    if name == "random-forest" and not classification:
        common["max_features"] = 1 / 3
    return ensemble(**common)


def _small_steps(n_estimators: int, n_rows: int, n_classes: int) -> dict[str, Any]:
    """Rounds, rate and leaves of a blend's booster, as the development sets have them best.

    See benchmarks/results/blend_study.md.
    """
    if n_classes == 0:
        return {"max_iter": n_estimators, "learning_rate": 0.1} | _leaves(5, n_rows)
    if n_classes == 2:
        return {"max_iter": 2 * n_estimators, "learning_rate": 0.05} | _leaves(20, n_rows)
    rounds = round(n_estimators * min(1.0, FEW_CLASSES / n_classes))
    rounds = max(min(n_estimators, FEWEST_ROUNDS), rounds)
    rate = min(LARGEST_RATE, 0.1 * n_estimators / rounds)
    return {"max_iter": rounds, "learning_rate": rate} | _leaves(20, n_rows)


def _leaves(most: int, n_rows: int) -> dict[str, int]:
    """Least rows of a leaf; fewer where few rows would leave trees without splits."""
    return {"min_samples_leaf": min(most, max(1, n_rows // 10))}


def traits_of(spec: Any) -> Traits:
    """What is known of a forest before it is grown.

    Parameters
    ----------
    spec : str, unfitted estimator, FrozenEstimator or Forest
        As in the parameter `forest` of the estimators; a FrozenEstimator is what it holds.

    Returns
    -------
    traits : Traits
        For what no importer knows, those of a supervised ensemble without further abilities:
        it is refused by name once its trees are to be read.

    Examples
    --------
    >>> from sklearn.ensemble import IsolationForest
    >>> from kpp.forest.grow import traits_of
    >>> traits_of("boosted").takes_frames, traits_of(IsolationForest()).supervised
    (True, False)
    """
    if isinstance(spec, Forest):
        return Traits(
            combines="mean" if spec.bare is None else spec.bare.combines,
            supervised=spec.statistics is not None or spec.bare is not None,
            takes_frames=bool(spec.categories),
            # Of trees that were built by hand nobody knows.
            independent_trees=spec.bare is not None and spec.bare.combines == "mean",
        )
    if isinstance(spec, FrozenEstimator):
        return traits_of(spec.estimator)
    if isinstance(spec, str) and spec in LIBRARIES:
        return BOOSTERS
    # The classifier and the regressor of a name have the same traits.
    kind = NAMED_FORESTS.get(spec, (str,))[0] if isinstance(spec, str) else type(spec)
    importer = importer_of(kind)
    return Traits() if importer is None else importer.traits


def check_forest(forest: Any) -> None:
    """Refuse what is neither a name nor a forest nor an estimator."""
    known = isinstance(forest, str | Forest)
    if not known and (isinstance(forest, type) or not hasattr(forest, "fit")):
        raise TypeError(
            "forest must be a name, an ensemble to be fitted, a kpp Forest, a FrozenEstimator "
            f"or a list of (name, forest); got {forest!r}. A fitted Booster of LightGBM or XGBoost "
            "goes in as Forest.from_model(booster), with regime='fixed'."
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
    n_jobs: int | None = None,
    stop_on: tuple[Any, Any, Any] | None = None,
) -> Forest:
    """Fit a clone of an ensemble and read its trees; the ensemble itself is let go.

    Parameters
    ----------
    estimator : Forest, FrozenEstimator or unfitted estimator
        The first two are read as they are.
    X, y, sample_weight
        What to grow on. `CodedRows` are encoded for an ensemble that takes only numbers, and its
        splits are then written as sets of categories.
    random_state : int, RandomState or None
        Seed for an estimator whose own ``random_state`` is None.
    feature_names : array of str, optional
        Names of the columns, when X does not carry them.
    n_jobs : int, optional
        Threads for a booster of another library that does not say how many itself.
    stop_on : tuple of X, y and sample_weight, optional
        Rows on which a booster of another library that asks for early stopping may stop.

    Returns
    -------
    forest : Forest
    """
    if is_grown(estimator):
        # The rows of the fit name the categories that a library keeps no names of.
        return import_forest(estimator, rows=X)
    if y is None and traits_of(estimator).supervised:
        raise ValueError(
            f"{type(estimator).__name__} is grown on a target, and y is None: give y, or use "
            "RandomTreesEmbedding, IsolationForest or Ladders."
        )
    estimator = unfitted(estimator)
    encoding = None
    if isinstance(X, CodedRows):
        encoding = _prepare(estimator, X, y, sample_weight)
        X = encoding.apply(X)
        # No split comes of a column without a value, and not every ensemble knows what to do.
        empty = np.isnan(X).all(axis=0)
        X[:, empty] = 0.0
        if stop_on is not None:
            held = encoding.apply(stop_on[0])
            held[:, empty] = 0.0
            stop_on = (held, *stop_on[1:])
    seed = seed_name(estimator)
    if seed is not None and estimator.get_params(deep=False).get(seed) is None:
        estimator.set_params(**{seed: random_state})
    library, classes = library_of(estimator), None
    if library is not None:
        library.check_categories(estimator, is_coded=encoding is not None)
        classes = fit_booster(
            library, estimator, X, y, sample_weight, n_jobs=n_jobs, stop_on=stop_on
        )
    else:
        estimator.fit(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
    # Grown here and for this alone: its trees go as they are read.
    forest = import_forest(estimator, release=True)
    if classes is not None and forest.bare is not None:
        forest = replace(forest, bare=replace(forest.bare, classes=classes))
    names = None if feature_names is None else tuple(str(name) for name in feature_names)
    if encoding is not None:
        forest = encoding.translated(forest)
    forget_numbers(forest)
    if forest.feature_names is None and names is not None:
        forest = replace(forest, feature_names=names)
    return forest


def _prepare(estimator: Any, rows: CodedRows, y: Any, sample_weight: Any) -> Encoding:
    """Choose how an ensemble is given the categories, and tell it which it may know as such."""
    if isinstance(estimator, ObliqueForestClassifier | ObliqueForestRegressor):
        raise TypeError(
            f"{type(estimator).__name__} adds up columns, and categories "
            f"({', '.join(rows.names_of(rows.categories)[:3])}) cannot be added: encode them in a "
            "Pipeline, or use another forest."
        )
    traits = traits_of(estimator)
    target = None
    if traits.supervised and not traits.by_columns_alone:
        target = target_columns(y, classification=is_classifier(estimator))
    # None of the user's asks for splits at thresholds.
    asked = estimator.categorical_features if traits.takes_frames else None
    encoding = Encoding.of(
        rows,
        target,
        sample_weight,
        most_native=0 if asked is None else estimator.max_bins,
        by_name=traits.by_columns_alone,
        allows_nan=get_tags(estimator).input_tags.allow_nan,
    )
    if asked is not None:
        is_native = np.zeros(rows.shape[1], dtype=bool)
        if not isinstance(asked, str):
            is_native[rows.columns_named(asked)] = True
        is_native[list(encoding.categories)] = True
        is_native[list(encoding.tables)] = False  # of too many categories, or of none
        estimator.set_params(categorical_features=is_native if is_native.any() else None)
    return encoding
