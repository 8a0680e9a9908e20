"""LightGBM, XGBoost and CatBoost: by name, and how an estimator of theirs is grown for a fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from kpp._optional import optional
from kpp._typing import AnyArray
from kpp.forest.importers.registry import Traits

# Its own default. With trees this large a smaller one is worse under the layer.
XGBOOST_RATE = 0.3
# What is known of all three before a class of theirs is imported.
BOOSTERS = Traits(combines="sum", one_target=True)


@dataclass(frozen=True)
class Library:
    """How the estimators of a library are spoken to.

    Parameters
    ----------
    package : str
        The library, and the extra that installs it.
    classifier, regressor : str
        Names of its classes.
    quiet : dict
        Parameters, unless the user has set them, that keep it from printing and writing files.
    aliases : dict of str to tuple of str
        Other names of parameters that this package sets.
    rounds, seed, threads : str
        Its names for these parameters.
    stopping : tuple of str
        Parameters that ask for early stopping.
    own_categories : tuple of str
        Parameters that name columns for its own treatment of categories or texts, which fails on
        the numbers that stand for them here.
    numbers_classes : bool
        Whether its classifier takes no labels but 0, 1, 2, ...
    """

    package: str
    classifier: str
    regressor: str
    quiet: Mapping[str, Any]
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rounds: str = "n_estimators"
    seed: str = "random_state"
    threads: str = "n_jobs"
    stopping: tuple[str, ...] = ("early_stopping_rounds",)
    own_categories: tuple[str, ...] = ()
    numbers_classes: bool = False

    def load(self, *, classification: bool) -> type:
        """The class of an estimator; an error that names the extra where it is not installed."""
        module = optional(self.package, f"forest={self.package!r}", self.package)
        return getattr(module, self.classifier if classification else self.regressor)

    def is_set(self, estimator: Any, name: str) -> bool:
        """Whether the user has given a parameter, by any of its names."""
        given = estimator.get_params(deep=False)
        names = (name, *self.aliases.get(name, ()))
        return any(given.get(alias) is not None for alias in names)

    def set_if_unset(self, estimator: Any, **parameters: Any) -> None:
        """Set the parameters that the user has not."""
        for name, value in parameters.items():
            if not self.is_set(estimator, name):
                estimator.set_params(**{name: value})

    def stops_early(self, estimator: Any) -> bool:
        """Whether an estimator asks for rows to stop on."""
        given = estimator.get_params(deep=False)
        return any(given.get(name) not in (None, 0, False) for name in self.stopping)

    def check_categories(self, estimator: Any, *, is_coded: bool) -> None:
        """Refuse columns that the library is to treat by itself, where it is given numbers.

        CatBoost takes no category from an array of numbers; LightGBM takes any, and only where
        they stand for something else are they another column's.
        """
        given = estimator.get_params(deep=False)
        names = [name for name in self.own_categories if given.get(name) not in (None, [], "")]
        if names and (is_coded or self.package == "catboost"):
            raise ValueError(
                f"{type(estimator).__name__} has {names[0]}={given[names[0]]!r}, and is grown on "
                "numbers here: texts and categories of a data frame are put in an order before. "
                f"Leave {names[0]} out; a column of numbers can be made one of categories by its "
                "type. A model with the library's own treatment can be fitted elsewhere: "
                "Forest.from_model."
            )


LIBRARIES: dict[str, Library] = {
    "lightgbm": Library(
        "lightgbm",
        "LGBMClassifier",
        "LGBMRegressor",
        # The same sums for any number of threads.
        quiet={"verbosity": -1, "deterministic": True, "force_row_wise": True},
        aliases={
            "verbosity": ("verbose",),
            "random_state": ("seed", "random_seed"),
            "n_jobs": ("num_threads", "num_thread", "nthread", "nthreads"),
            "force_row_wise": ("force_col_wise",),
        },
        stopping=("early_stopping_round", "early_stopping_rounds", "early_stopping"),
        own_categories=(
            *("categorical_feature", "cat_feature", "categorical_column", "cat_column"),
            "categorical_features",
        ),
    ),
    "xgboost": Library(
        "xgboost",
        "XGBClassifier",
        "XGBRegressor",
        quiet={"verbosity": 0},
        aliases={"random_state": ("seed",), "n_jobs": ("nthread",)},
        numbers_classes=True,
    ),
    "catboost": Library(
        "catboost",
        "CatBoostClassifier",
        "CatBoostRegressor",
        # A fold may hold one value of the target alone.
        quiet={"verbose": False, "allow_writing_files": False, "allow_const_label": True},
        aliases={
            "verbose": ("logging_level", "silent", "verbose_eval"),
            "random_seed": ("random_state",),
            "thread_count": ("n_jobs",),
            "iterations": ("n_estimators", "num_boost_round", "num_trees"),
        },
        rounds="iterations",
        seed="random_seed",
        threads="thread_count",
        stopping=("early_stopping_rounds", "od_wait", "od_pval"),
        own_categories=("cat_features", "text_features", "embedding_features"),
    ),
}


def library_of(estimator: Any) -> Library | None:
    """The library of an estimator, if it is one of the three.

    Examples
    --------
    >>> from sklearn.ensemble import ExtraTreesRegressor
    >>> from kpp.forest.boosters import library_of
    >>> library_of(ExtraTreesRegressor()) is None
    True
    """
    packages = {base.__module__.partition(".")[0] for base in type(estimator).__mro__}
    return next((LIBRARIES[name] for name in LIBRARIES if name in packages), None)


def unfitted(estimator: Any) -> Any:
    """A clone, also where scikit-learn refuses one.

    CatBoost copies the lists and dicts that its constructor is given, as ``class_weights``, and
    scikit-learn's own clone takes the copy for a change.

    Examples
    --------
    >>> from sklearn.ensemble import ExtraTreesRegressor
    >>> from kpp.forest.boosters import unfitted
    >>> unfitted(ExtraTreesRegressor(max_depth=3))
    ExtraTreesRegressor(max_depth=3)
    """
    library = library_of(estimator)
    if library is None or library.package != "catboost":
        return clone(estimator)
    return type(estimator)(**deepcopy(estimator.get_params(deep=False)))


def named_booster(
    name: str, *, classification: bool, steps: Mapping[str, Any], random_state: Any = None
) -> Any:
    """Return an unfitted booster of another library, with trees that suit the linear layer.

    Parameters
    ----------
    name : {"lightgbm", "xgboost", "catboost"}
        The library.
    classification : bool
        The task.
    steps : dict
        Rounds (``max_iter``), rate (``learning_rate``) and least rows of a leaf
        (``min_samples_leaf``), by scikit-learn's names.
    random_state : int or None
        Seed.

    Returns
    -------
    estimator : estimator of that library
    """
    library = LIBRARIES[name]
    rate = max(steps["learning_rate"], XGBOOST_RATE if name == "xgboost" else 0.0)
    common = {library.rounds: steps["max_iter"], "learning_rate": rate}
    return library.load(classification=classification)(
        **common,
        **_trees_of(name, steps["min_samples_leaf"], classification=classification),
        **library.quiet,
        **{library.seed: random_state},
    )


def _trees_of(name: str, leaf_rows: int, *, classification: bool) -> dict[str, Any]:
    """What the trees look like: see benchmarks/results/booster_study.md."""
    if name == "lightgbm":
        n_leaves = 16 if classification else 31
        return {"num_leaves": n_leaves, "min_child_samples": leaf_rows, "colsample_bynode": 0.5}
    if name == "xgboost":
        # What is fitted to its trees afterwards likes them large, and far apart.
        return {"max_depth": 6, "min_child_weight": 1, "colsample_bynode": 0.5}
    return {"depth": 5 if classification else 6, "boosting_type": "Plain"}


def seed_name(estimator: Any) -> str | None:
    """The name of an estimator's seed among its parameters; None where it takes none."""
    library = library_of(estimator)
    given = estimator.get_params(deep=False)
    if library is None:
        return "random_state" if "random_state" in given else None
    names = (library.seed, *library.aliases.get(library.seed, ()))
    return next((name for name in names if given.get(name) is not None), library.seed)


def fit_booster(
    library: Library,
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    n_jobs: int | None = None,
    stop_on: tuple[Any, Any, Any] | None = None,
) -> AnyArray | None:
    """Fit an estimator of another library, quietly.

    Parameters
    ----------
    library : Library
        Its library.
    estimator : estimator
        A clone that nobody else has.
    X, y, sample_weight
        What to grow on.
    n_jobs : int, optional
        Threads, unless the user has said how many.
    stop_on : tuple of X, y and sample_weight, optional
        Rows for early stopping, which the estimator asks for by its own parameter.

    Returns
    -------
    classes : array of shape (n_classes,) or None
        The labels that the numbers of its classes stand for; None where it knows the labels.
    """
    library.set_if_unset(estimator, **library.quiet)
    if n_jobs is not None:
        library.set_if_unset(estimator, **{library.threads: n_jobs})
    classes, labels, stops = None, None, library.stops_early(estimator)
    # LightGBM 4.7 knows labels that are words in the rows of a fit, not in those that it stops on.
    numbers = library.numbers_classes or (stops and library.package == "lightgbm")
    if is_classifier(estimator):
        labels, codes = np.unique(np.asarray(y), return_inverse=True)
        if numbers:
            classes, y = labels, codes
        if library.package == "lightgbm":
            elsewhere = () if stop_on is None else np.asarray(stop_on[1]).tolist()
            _weigh_known_classes(estimator, labels, elsewhere, numbers=numbers)
    fit: dict[str, Any] = {} if sample_weight is None else {"sample_weight": sample_weight}
    if stops:
        fit |= _stopping_rows(library, estimator, stop_on, labels, numbers=classes is not None)
    estimator.fit(X, y, **fit)
    return classes


def _weigh_known_classes(
    estimator: Any, labels: AnyArray, elsewhere: Iterable[Any], *, numbers: bool
) -> None:
    """Let the keys of LightGBM's ``class_weight`` be those of the labels that it is given.

    These may be numbers in place of the user's labels, and a fold may lack a class.
    """
    weights = estimator.get_params(deep=False).get("class_weight")
    if not isinstance(weights, dict):
        return
    key = {label: i if numbers else label for i, label in enumerate(labels.tolist())}
    unknown = [label for label in weights if label not in key.keys() | set(elsewhere)]
    if unknown:
        raise ValueError(f"class_weight has {unknown[0]!r}, which is no label of these rows.")
    estimator.set_params(class_weight={key[k]: w for k, w in weights.items() if k in key})


def _stopping_rows(
    library: Library,
    estimator: Any,
    stop_on: tuple[Any, Any, Any] | None,
    labels: AnyArray | None,
    *,
    numbers: bool,
) -> dict[str, Any]:
    """The arguments of a fit that may stop early; `labels` are those that it is grown on."""
    if stop_on is None:
        raise ValueError(
            f"{type(estimator).__name__} asks for early stopping, and there are no rows to stop "
            "on: only the groups of trees that alpha is chosen by (regime='shared', alpha='auto', "
            "alpha_selection='fold-grown') are grown with a fold held out. Leave early stopping "
            "out, and set the number of rounds."
        )
    X, y, weight = stop_on
    if labels is not None:
        known = np.isin(y, labels)  # a class that the trees do not know cannot be scored
        X, y = X[known], np.asarray(y)[known]
        if numbers:
            y = np.searchsorted(labels, y)
        weight = None if weight is None else np.asarray(weight)[known]
    if library.package == "catboost":
        return {"eval_set": import_module("catboost").Pool(X, y, weight=weight)}
    fit: dict[str, Any] = {"eval_set": [(X, y)]}
    if library.package == "lightgbm":
        if "eval_X" in signature(estimator.fit).parameters:  # since 4.7
            fit = {"eval_X": X, "eval_y": y}
        return fit if weight is None else fit | {"eval_sample_weight": [weight]}
    fit |= {"verbose": False}
    return fit if weight is None else fit | {"sample_weight_eval_set": [weight]}
