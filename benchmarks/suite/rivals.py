"""The methods: one adapter each.

An adapter takes the task, the seed and the parameters of the config, and returns an unfitted
estimator with ``fit``, ``predict`` and, for classification, ``predict_proba``. All have one thread,
ensembles 200 trees or rounds and otherwise their library's defaults, as in the paper; the two slow
methods of imodels 100 trees, its own default. Linear models scale their columns. An adapter of your
own is named ``module:function`` in the config.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from sklearn import dummy, ensemble
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpp import KPPClassifier, KPPRegressor
from kpp.forest.grow import named_forest
from suite.paper_kpp import PaperKPP

N_ESTIMATORS = 200
Build = Callable[..., Any]


class Adapter(NamedTuple):
    """How a method is made, and the distribution that it comes from."""

    build: Build
    distribution: str = "scikit-learn"
    module: str = "sklearn"
    # Compiled loops are loaded on first use; a fit of made data before the clock starts does it.
    warm_up: bool = False


class MissingLibraryError(Exception):
    """The library of a method is not installed."""


def _of_sklearn(module: Any, stem: str) -> Build:
    """Adapter of an ensemble in scikit-learn."""

    def build(task: str, seed: int, **params: Any) -> Any:
        kind = getattr(module, stem + ("Classifier" if task == "classification" else "Regressor"))
        return kind(**{"n_estimators": N_ESTIMATORS, "random_state": seed} | params)

    return build


def _baseline(task: str, seed: int, **params: Any) -> Any:
    """The mean, or the class shares."""
    if task == "classification":
        return dummy.DummyClassifier(**params)
    return dummy.DummyRegressor(**params)


def _hist_gradient_boosting(task: str, seed: int, **params: Any) -> Any:
    kind = (
        ensemble.HistGradientBoostingClassifier
        if task == "classification"
        else ensemble.HistGradientBoostingRegressor
    )
    return kind(**{"max_iter": N_ESTIMATORS, "random_state": seed} | params)


def _xgboost(task: str, seed: int, **params: Any) -> Any:
    import xgboost

    kind = xgboost.XGBClassifier if task == "classification" else xgboost.XGBRegressor
    return kind(**{"n_estimators": N_ESTIMATORS, "random_state": seed, "n_jobs": 1} | params)


def _lightgbm(task: str, seed: int, **params: Any) -> Any:
    import lightgbm

    kind = lightgbm.LGBMClassifier if task == "classification" else lightgbm.LGBMRegressor
    own = {"n_estimators": N_ESTIMATORS, "random_state": seed, "n_jobs": 1, "verbose": -1}
    return kind(**own | params)


def _catboost(task: str, seed: int, **params: Any) -> Any:
    import catboost

    kind = catboost.CatBoostClassifier if task == "classification" else catboost.CatBoostRegressor
    own = {"n_estimators": N_ESTIMATORS, "random_state": seed, "thread_count": 1}
    return kind(**own | {"verbose": False, "allow_writing_files": False} | params)


def _linear(task: str, seed: int, **params: Any) -> Any:
    """Ridge or logistic regression on scaled columns."""
    if task == "classification":
        model: Any = LogisticRegression(**{"max_iter": 1000} | params)
    else:
        model = Ridge(**params)
    return make_pipeline(StandardScaler(), model)


def _rf_plus(task: str, seed: int, **params: Any) -> Any:
    from imodels import importance

    if task == "classification":
        kind = importance.RandomForestPlusClassifier
    else:
        kind = importance.RandomForestPlusRegressor
    return kind(rf_model=_forest_for_imodels(task, seed, params), **params)


def _hierarchical_shrinkage(task: str, seed: int, **params: Any) -> Any:
    import imodels

    kind = imodels.HSTreeClassifierCV if task == "classification" else imodels.HSTreeRegressorCV
    return kind(estimator_=_forest_for_imodels(task, seed, params), **params)


def _forest_for_imodels(task: str, seed: int, params: dict[str, Any]) -> Any:
    n_estimators = params.pop("n_estimators", 100)
    return _of_sklearn(ensemble, "RandomForest")(task, seed, n_estimators=n_estimators)


def _kpp(task: str, seed: int, **params: Any) -> Any:
    """Build KPP at its defaults, or with other parameters; ``forest__*`` reaches its forest."""
    kind: Any = KPPClassifier if task == "classification" else KPPRegressor
    own = {key: params.pop(key) for key in list(params) if key.startswith("forest__")}
    if own:
        forest = named_forest(
            params.pop("forest", "extra-trees"),
            classification=task == "classification",
            n_rows=1000,
            n_estimators=params.pop("n_estimators", 100),
        )
        trees = {key.removeprefix("forest__"): value for key, value in own.items()}
        params["forest"] = forest.set_params(**trees)
    return kind(**{"random_state": seed, "n_jobs": 1} | params)


ADAPTERS: dict[str, Adapter] = {
    "baseline": Adapter(_baseline),
    "random_forest": Adapter(_of_sklearn(ensemble, "RandomForest")),
    "extra_trees": Adapter(_of_sklearn(ensemble, "ExtraTrees")),
    "gradient_boosting": Adapter(_of_sklearn(ensemble, "GradientBoosting")),
    "hist_gradient_boosting": Adapter(_hist_gradient_boosting),
    "xgboost": Adapter(_xgboost, "xgboost", "xgboost"),
    "lightgbm": Adapter(_lightgbm, "lightgbm", "lightgbm"),
    "catboost": Adapter(_catboost, "catboost", "catboost"),
    "linear": Adapter(_linear),
    "rf_plus": Adapter(_rf_plus, "imodels", "imodels.importance"),
    "hierarchical_shrinkage": Adapter(_hierarchical_shrinkage, "imodels", "imodels"),
    "kpp_paper": Adapter(PaperKPP, "kpp", "kpp", warm_up=True),
    "kpp": Adapter(_kpp, "kpp", "kpp", warm_up=True),
}


def find(name: str) -> Adapter:
    """Return the adapter of that name, or the function ``module:function``."""
    if name in ADAPTERS:
        return ADAPTERS[name]
    module, colon, function = name.partition(":")
    if not colon:
        known = ", ".join(ADAPTERS)
        raise ValueError(f"No adapter {name!r}: known are {known}, or module:function.")
    try:
        return Adapter(getattr(importlib.import_module(module), function), module, module)
    except ImportError as error:
        raise MissingLibraryError(str(error)) from error


def check(name: str) -> str:
    """Import the library of a method and return its version."""
    adapter = find(name)
    try:
        importlib.import_module(adapter.module)
    except ImportError as error:
        raise MissingLibraryError(f"{adapter.distribution} cannot be imported: {error}") from error
    try:
        return f"{adapter.distribution} {version(adapter.distribution)}"
    except PackageNotFoundError:
        return adapter.distribution
