"""Outputs of fits at fixed seeds, kept so that a rewrite can be compared with them bit for bit.

Run ``python benchmarks/recorded_scores.py record`` before a change: it writes
``benchmarks/results/recorded_scores.json``. Run ``python benchmarks/recorded_scores.py check``
after it: everything is computed again, and every case that differs is listed with the largest
relative difference that the file can show; the exit code is then 1. The kpp that is compared is
the installed one.

A case is a regime, a forest, a task, weights and perhaps an option; every parameter is given, so
that a change of defaults changes nothing here. An array is kept as its type, its shape, the first
half of the SHA-256 of its bytes, and for floats four numbers that show how large a difference is:
the first and the last entry, the sum, and the sum of absolute values. A number or a text is kept as
it is, and what is refused as the type of the exception. Outputs that the file does not know are
ignored. Bits depend on the processor and on the versions of the libraries, which the file names.
"""

from __future__ import annotations

import os

# Sums in several threads depend on how many there are. Libraries read this when they are imported.
os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})

import argparse
import hashlib
import json
import math
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from timing import versions

import kpp

RECORD = Path(__file__).parent / "results" / "recorded_scores.json"
SEED, N_TREES = 7, 12
CLASSES = ("binary", "three classes")
TASKS = ("regression", "two targets", *CLASSES)
REGIMES: dict[str, dict[str, Any]] = {
    "shared": {"regime": "shared", "center": "zero"},
    "honest": {"regime": "honest", "center": "zero"},
    "honest, partition": {"regime": "honest", "center": "partition"},
    "cross-fit": {"regime": "cross-fit", "center": "zero"},
    "fixed, Forest": {"regime": "fixed", "center": "zero"},
    "fixed, frozen": {"regime": "fixed", "center": "zero"},
}
# A list of names gives several forests side by side; blocks that compare in different precisions
# are the last.
FAMILIES: dict[str, str | list[str]] = {
    "extra-trees": "extra-trees",
    "random-forest": "random-forest",
    "boosted": "boosted",
    "gradient boosting": "gradient boosting",
    "categories": "categories",
    "bagging": "bagging",
    "random embedding": "random embedding",
    "isolation forest": "isolation forest",
    "two blocks": ["extra-trees", "random-forest"],
    "mixed blocks": ["extra-trees", "boosted"],
}
# Forests that recorded no statistics of their target, which the fixed regime would need.
BOOSTERS = ("boosted", "gradient boosting", "categories")
WITHOUT_STATISTICS = (*BOOSTERS, "random embedding", "isolation forest", "mixed blocks")
# Attributes of a model, and how they may be spelt: `coef_` is an older name of `node_coef_`.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    name: (name,)
    for name in (
        *("intercept_", "alpha_", "alphas_", "cv_scores_", "oof_prediction_"),
        *("feature_importances_", "n_iter_"),
    )
} | {"node_coef_": ("node_coef_", "coef_")}

RADII = np.linspace(0.0, 1.0, 21)
# How an array is written down.
ARRAY = re.compile(
    r"(?P<form>\w+\[(?P<shape>[\dx]*)\]) (?P<digest>[0-9a-f]{32})(?P<numbers>( \S+)*)"
)


# Data.


@dataclass(frozen=True)
class Data:
    """Rows to fit on, rows held out, and other rows for a forest of the fixed regime."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    X_other: Any
    y_other: Any

    @property
    def weight(self) -> Any:
        """Weights of the rows to fit on."""
        return np.random.RandomState(1).uniform(0.2, 3.0, len(self.X))

    @property
    def groups(self) -> Any:
        """Groups of the rows to fit on."""
        return np.random.RandomState(2).randint(0, 20, len(self.X))


def split(X: Any, y: Any, n_fit: int, n_test: int) -> Data:
    order = np.random.RandomState(0).permutation(len(X))
    parts = np.split(order, [n_fit, n_fit + n_test])
    found: list[Any] = []
    for rows in parts:
        found += [X.iloc[rows].reset_index(drop=True) if hasattr(X, "iloc") else X[rows], y[rows]]
    return Data(*found)


def made_table() -> tuple[Any, Any]:
    """Numbers with missing values, two columns of categories, and a score that they explain."""
    random = np.random.RandomState(3)
    numbers = random.normal(size=(300, 3))
    colour, size = random.randint(0, 5, 300), random.randint(0, 3, 300)
    score = numbers[:, 0] + numbers[:, 1] * (size - 1) + 0.7 * (colour % 2)
    score += 0.3 * random.normal(size=300)
    numbers[random.uniform(size=numbers.shape) < 0.1] = np.nan
    X = pd.DataFrame(numbers, columns=["height", "width", "depth"])
    X["colour"] = pd.Categorical.from_codes(colour, list("abcde"))
    X["size"] = pd.Categorical.from_codes(np.where(np.arange(300) % 17 == 0, -1, size), [1, 2, 3])
    return X, score


def of_task(score: Any, task: str) -> Any:
    """A target for a task, from numbers."""
    if task == "regression":
        return score
    if task == "two targets":
        return np.column_stack([score, np.square(score)])
    cuts = [0.5] if task == "binary" else [1 / 3, 2 / 3]
    return np.digitize(score, np.quantile(score, cuts))


@cache
def data(table: str, task: str) -> Data:
    """The rows of a case."""
    if table == "labels":
        rows = data("small", task)
        names = np.array(["no", "yes", "perhaps"])
        y, y_test, y_other = (names[y] for y in (rows.y, rows.y_test, rows.y_other))
        return Data(rows.X, y, rows.X_test, y_test, rows.X_other, y_other)
    if table == "frame":
        X, score = made_table()
        return split(X, of_task(score, task), 160, 60)
    if table == "missing":
        X, score = made_table()
        codes = [X[name].cat.codes.replace(-1, np.nan) for name in ("colour", "size")]
        numbers = np.column_stack([X[["height", "width", "depth"]].to_numpy(), *codes])
        return split(numbers, of_task(score, task), 160, 60)
    n_fit = 350 if table == "many rows" else 160
    if task == "three classes" and table != "many rows":
        X, y = load_iris(return_X_y=True)
        if table == "rare class":  # some folds lack it
            keep = np.flatnonzero((y < 2) | (np.arange(150) >= 140))
            return split(X[keep], y[keep], 80, 20)
        return split(X, y, 90, 30)
    if task == "binary":
        X, y = load_breast_cancer(return_X_y=True)
        return split(X[:, :10], y, n_fit, 60)
    X, y = load_diabetes(return_X_y=True)
    if task == "three classes":
        return split(X, of_task(y, task), n_fit, 60)
    two = np.column_stack([y, 1e4 * X[:, 2] * X[:, 8]])
    return split(X, two if task == "two targets" else y, n_fit, 60)


# Models.


@dataclass(frozen=True)
class Case:
    """One fit."""

    regime: str
    family: str
    task: str
    weights: str = "no weights"
    option: str = ""
    table: str = "small"
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is called in the file."""
        table = "" if self.table == "small" else self.table
        parts = (self.regime, self.family, self.task, self.weights, self.option, table)
        return " / ".join(part for part in parts if part)

    @property
    def rows(self) -> Data:
        """The rows, which are a data frame for a forest that takes categories."""
        return data("frame" if self.family == "categories" else self.table, self.task)


def ensemble(name: str, classes: bool, n_rows: int, seed: int | None) -> Any:
    """One ensemble of scikit-learn; those that can be had by name, as the name gives them."""
    trees = {"n_estimators": N_TREES, "random_state": seed}
    if name == "extra-trees":
        return ExtraTreesClassifier(**trees) if classes else ExtraTreesRegressor(**trees)
    if name == "random-forest":
        if classes:
            return RandomForestClassifier(**trees)
        return RandomForestRegressor(max_features=1 / 3, **trees)
    if name == "boosted":
        leaf = {"min_samples_leaf": min(20, n_rows // 10), "early_stopping": False}
        boosted = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
        return boosted(max_iter=N_TREES, random_state=seed, **leaf)
    if name == "categories":
        boosted = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
        return boosted(
            max_iter=N_TREES,
            max_leaf_nodes=8,
            min_samples_leaf=5,
            early_stopping=False,
            categorical_features="from_dtype",
            random_state=seed,
        )
    if name == "gradient boosting":
        gradient = GradientBoostingClassifier if classes else GradientBoostingRegressor
        return gradient(max_depth=3, subsample=0.8, max_features=0.5, **trees)
    if name == "bagging":  # with a seed of its own, which wins
        tree = (DecisionTreeClassifier if classes else DecisionTreeRegressor)(max_depth=5)
        bagging = BaggingClassifier if classes else BaggingRegressor
        return bagging(tree, max_features=0.7, n_estimators=N_TREES, random_state=11)
    if name == "random embedding":
        return RandomTreesEmbedding(max_depth=5, **trees)
    return IsolationForest(max_samples=64, **trees)


def forest_of(case: Case, rows: Data) -> Any:
    """The parameter `forest`: to be grown, or already grown on the other rows."""
    classes, family = case.task in CLASSES, FAMILIES[case.family]

    def one(name: str, seed: int) -> Any:
        if not case.regime.startswith("fixed"):
            by_name = name in ("extra-trees", "random-forest", "boosted")
            return name if by_name else ensemble(name, classes, len(rows.X), None)
        y = rows.y_other
        if name in BOOSTERS and y.ndim == 2:
            y = y[:, 0]  # such trees have one target; the linear layer may have several
        grown = ensemble(name, classes, len(rows.X_other), seed).fit(rows.X_other, y)
        if case.regime == "fixed, frozen":
            return FrozenEstimator(grown)
        return kpp.Forest.from_model(grown)

    if isinstance(family, str):
        return one(family, SEED)
    return [(f"block{k}", one(name, SEED + k)) for k, name in enumerate(family)]


def model_of(case: Case, rows: Data) -> Any:
    """The estimator of a case, with every parameter given."""
    bare = case.regime.startswith("fixed") and case.family in WITHOUT_STATISTICS
    parameters: dict[str, Any] = {
        "forest": forest_of(case, rows),
        "n_estimators": N_TREES,
        "node_weight": "uniform" if bare else "gain",
        "leaf_weight": None,
        "coordinates": "path",
        "normalize": "forest",
        **REGIMES[case.regime],
        "alpha": "auto",
        "alphas": None,
        "alpha_selection": "fold-grown",
        "scoring": None,
        "cv": 5,
        "honest_fraction": 0.5,
        "main_effects": None,
        "combine": "joint",
        "fit_intercept": True,
        "tol": 1e-8,
        "max_iter": 1000,
        "n_jobs": 1,
        "random_state": SEED,
        "verbose": 0,
    }
    if case.option == "node weight array":  # which only a forest that is there has a length for
        forest = parameters["forest"]
        parameters["node_weight"] = np.where(forest.is_leaf, 0.0, np.arange(forest.n_nodes) % 5)
    if case.task not in CLASSES:
        return kpp.KPPRegressor(**parameters | case.parameters)
    balanced = "balanced" if "balanced" in case.weights else None
    return kpp.KPPClassifier(**parameters | {"class_weight": balanced} | case.parameters)


def rows_share(forest: Any, statistics: Any) -> Any:
    """A weight of nodes that is a function: the square root of the number of rows."""
    return np.where(forest.is_leaf, 0.0, np.sqrt(statistics.count))


def options(task: str) -> dict[str, dict[str, Any]]:
    """Parameters that are tried one at a time."""
    classes = task in CLASSES
    found: dict[str, dict[str, Any]] = {
        "alpha given": {"alpha": 0.01 if classes else 1.0},
        "alphas given": {"alphas": [1e-4, 1e-3, 1e-2] if classes else [0.01, 0.1, 1.0, 10.0]},
        "no intercept": {"fit_intercept": False},
        "leaf coordinates": {"coordinates": "leaf"},
        "tree normalised": {"normalize": "tree"},
        "three folds": {"cv": 3},
        "cv with groups": {"cv": GroupKFold(4)},
        "honest fraction 0.3": {"honest_fraction": 0.3},
        "few products": {"max_iter": 5},
        "generator": {"random_state": np.random.RandomState(SEED)},
    }
    for weight in ("entropy", "variance", "uniform", rows_share):
        found[f"node weight {getattr(weight, '__name__', weight)}"] = {"node_weight": weight}
    for leaf in (0.5, "variance", "uniform"):
        found[f"leaf weight {leaf}"] = {"leaf_weight": leaf}
    for scoring in (
        ("accuracy", "neg_brier_score") if classes else ("r2", "neg_mean_absolute_error")
    ):
        found[f"scoring {scoring}"] = {"scoring": scoring}
    if classes:
        found["class weight given"] = {"class_weight": {0: 1.0, 1: 2.5, 2: 0.5}}
    return found


def cases() -> Iterator[Case]:
    """All fits."""
    for regime in REGIMES:
        for family in FAMILIES:
            for task in TASKS:
                yield Case(regime, family, task)
                yield Case(regime, family, task, "weights")
                if task in CLASSES:
                    yield Case(regime, family, task, "balanced")
        for task in CLASSES:
            yield Case(regime, "extra-trees", task, "weights, balanced")
            yield Case(regime, "extra-trees", task, table="labels")
        for task in TASKS:
            yield Case(regime, "extra-trees", task, "zero weights")
        # The frozen forest is the same forest: options once.
        for task in TASKS if regime != "fixed, frozen" else ():
            for option, given in options(task).items():
                if task != "two targets" or option in ("alpha given", "no intercept"):
                    yield Case(regime, "extra-trees", task, option=option, parameters=given)
            # More rows than the Gram is held as an array for, and missing values.
            for table in ("many rows", "missing"):
                for family in ("extra-trees", "boosted"):
                    yield Case(regime, family, task, table=table)
        yield Case(regime, "extra-trees", "three classes", table="rare class")
    # The solvers again, where the Gram is an operator: honest and cross-fit folds are too small.
    for regime in ("shared", "fixed, Forest"):
        for task in TASKS:
            for weights in ("weights", "zero weights"):
                yield Case(regime, "extra-trees", task, weights, table="many rows")
            for option in ("alpha given", "alphas given", "no intercept", "few products"):
                given = options(task)[option]
                yield Case(regime, "extra-trees", task, "no weights", option, "many rows", given)
    for selection in ("regrown", "frozen"):
        for family in FAMILIES:
            for task in TASKS:
                given = {"alpha_selection": selection}
                yield Case("shared", family, task, option=selection, parameters=given)
    for task in TASKS:
        yield Case("fixed, Forest", "boosted", task, option="node weight array")
    # The fixed regime refuses weights from labels that it must not see.
    for family in WITHOUT_STATISTICS:
        refused = {"node_weight": "gain"}
        yield Case("fixed, Forest", family, "binary", option="gain", parameters=refused)


def is_detailed(case: Case) -> bool:
    """Whether explanations, certificates, bounds and the rest are kept, too."""
    of_case = case.regime, case.family, case.task
    if case.table != "small":
        chosen = ("honest", "extra-trees", "regression"), ("shared", "boosted", "binary")
        return of_case in chosen
    if case.option:
        options_too = ("leaf coordinates", "tree normalised", "no intercept", "leaf weight 0.5")
        return of_case == ("shared", "extra-trees", "binary") and case.option in options_too
    if case.weights != "no weights":
        chosen_weights = (("shared", "weights"), ("honest", "balanced"), ("cross-fit", "weights"))
        return of_case[1:] == ("random-forest", "binary") and (
            (case.regime, case.weights) in chosen_weights
        )
    if case.family == "extra-trees":
        return case.task != "two targets" or case.regime in ("shared", "cross-fit")
    kinds = [("shared", "regression"), ("cross-fit", "three classes")]
    if case.family in ("categories", "mixed blocks"):
        kinds += [("honest", "binary"), ("fixed, Forest", "binary")]
    return (case.regime, case.task) in kinds


# What is kept.


def kept(value: Any) -> Any:
    """A value as JSON can hold it: an array as a line of text that describes it."""
    if value is None or isinstance(value, str | bool | int):
        return value
    array = np.asarray(value)
    if array.ndim == 0 and array.dtype.kind in "fiub":
        return float(array).hex() if array.dtype.kind == "f" else array.item()
    if array.dtype == object:
        array = array.astype(str)
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:32]
    shape = "x".join(map(str, array.shape))
    return " ".join([f"{array.dtype.name}[{shape}]", digest, *(x.hex() for x in summary(array))])


def summary(array: Any) -> tuple[float, ...]:
    """First and last entry, sum and sum of absolute values, the last two of what is finite."""
    if array.dtype.kind != "f" or array.size == 0:
        return ()
    flat = array.astype(np.float64).ravel()
    finite = flat[np.isfinite(flat)]
    try:
        sums = math.fsum(finite), math.fsum(np.abs(finite))
    except OverflowError:
        sums = math.inf, math.inf
    return float(flat[0]), float(flat[-1]), *sums


class Outputs(dict[str, Any]):
    """What is kept of one case, by name."""

    def put(self, name: str, work: Callable[[], Any], *attributes: str) -> None:
        """Keep what a piece of work returns, or that it was refused.

        Of an object only the named attributes are kept; of a dict, a list of matrices and a sparse
        matrix each part has a line of its own.
        """
        try:
            found = work()
        except Exception as error:
            self[name] = f"raises {type(error).__name__}"
            return
        if attributes:
            for attribute in attributes:
                self.put(f"{name}: {attribute}", partial(getattr, found, attribute))
        elif isinstance(found, dict):
            for key, value in found.items():
                self.put(f"{name}: {key}", partial(return_it, value))
        elif isinstance(found, list):
            for k, one in enumerate(found):
                self.put(f"{name} {k}", partial(return_it, one))
        elif sparse.issparse(found):
            self.put(name, partial(return_it, found), "data", "indices", "indptr")
        else:
            self[name] = kept(found)


def return_it(value: Any) -> Any:
    return value


def outputs(case: Case) -> Outputs:
    """Everything that is kept of one fit."""
    found = Outputs()
    try:
        rows = case.rows
        model = model_of(case, rows)
        weight = None if case.weights in ("no weights", "balanced") else rows.weight
        if case.weights == "zero weights":
            weight = np.where(np.arange(len(rows.X)) % 7 == 0, 0.0, rows.weight)
        groups = rows.groups if "groups" in case.option else None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(rows.X, rows.y, sample_weight=weight, groups=groups)
    except Exception as error:
        found["fit"] = f"raises {type(error).__name__}"
        return found
    cut_off = [issubclass(warning.category, ConvergenceWarning) for warning in caught]
    found |= {"fit": "done", "convergence warnings": sum(cut_off)}
    for method in ("predict", "decision_function", "predict_proba", "apply"):
        if hasattr(model, method):
            found.put(method, partial(getattr(model, method), rows.X_test))
    for name, spellings in ATTRIBUTES.items():
        spelling = next((s for s in spellings if hasattr(model, s)), name)
        found.put(name, partial(getattr, model, spelling))
    if is_detailed(case):
        add_explanations(found, case, model, rows)
        add_certificates(found, case, model, rows)
        add_bounds(found, case, model, rows)
        found.put("collapse", partial(collapsed, model, rows.X_test))
        found.put("save and load", partial(reloaded, model, rows.X_test))
        for geometry in (kpp.kernel, kpp.path_distance):
            found.put(geometry.__name__, partial(geometry, model, rows.X_test, normalize="forest"))
        discrepancy: Any = kpp.half_forest_discrepancy
        found.put("half_forest_discrepancy", partial(discrepancy, model, rows.X_test, curve=False))
    return found


def add_explanations(found: Outputs, case: Case, model: Any, rows: Data) -> None:
    X, row, other = rows.X_test, rows.X_test[:1], rows.X_test[1:2]
    output = 0 if case.task == "two targets" else None
    for level, centered in (("variable", False), ("variable", True), ("node", False)):
        found.put(
            f"explain, {level}{', centred' if centered else ''}",
            partial(kpp.explain, model, X, level=level, centered=centered),
            *("values", "baseline"),
        )
    rules = partial(kpp.explain_rules, model, row, top=10, output=output)
    found.put("explain_rules", lambda: str(rules()))
    found.put(
        "explain_training_rows",
        partial(kpp.explain_training_rows, model, row, top=10, output=output),
        *("rows", "contribution", "kernel", "dual_coef", "intercept", "partition"),
        *("remainder", "score", "all_contributions"),
    )
    found.put(
        "explain_distance",
        partial(kpp.explain_distance, model, row, other, normalize="forest"),
        *("values", "total", "by_variable", "parted_by"),
    )
    found.put(
        "leave_one_out",
        partial(kpp.leave_one_out, model, rows.y),
        *("residuals", "leverage", "loo_residuals"),
    )


def add_certificates(found: Outputs, case: Case, model: Any, rows: Data) -> None:
    X, y = rows.X_test, rows.y_test
    epsilon = None if case.task in CLASSES else np.std(rows.y, axis=0) / 4
    for method in ("leafwise", "lipschitz"):
        found.put(
            f"certify, {method}",
            partial(kpp.certify, model, X, method=method, epsilon=epsilon),
            *("radius", "margin", "lipschitz", "never_flips", "nearest"),
        )
        found.put(
            f"robustness_curve, {method}",
            partial(kpp.robustness_curve, model, X, y, radii=RADII, method=method),
            *("values", "u_max", "u_half", "never_flips"),
        )
    found.put(
        "certify_raw",
        partial(kpp.certify_raw, model, X[:3], scale="std", epsilon=epsilon, effort=5000),
        *("radius", "upper_radius", "counterexample", "lower", "upper"),
    )


def add_bounds(found: Outputs, case: Case, model: Any, rows: Data) -> None:
    limits = None
    if case.task not in CLASSES:
        limits = float(np.min(rows.y)) - 1, float(np.max(rows.y)) + 1
    given = {"test": (rows.X_test, rows.y_test), "fit": (rows.X, rows.y)}
    for sample, (X, y) in given.items():
        found.put(f"risk_bounds, {sample}", partial(bounds_of, model, X, y, sample, limits))
        found.put(
            f"partition_oracles, {sample}",
            partial(kpp.partition_oracles, model, X, y, sample=sample),
            *("root", "leaf_risk", "gain", "share", "residual"),
        )
        found.put(f"diagnose, {sample}", partial(figures_of, model, X, y, sample))
    found.put(
        "bound_path",
        partial(kpp.bound_path, model, rows.X, rows.y, delta=0.05, y_range=limits),
        *("alphas", "radius", "bound", "fit_risk", "center_bound", "trivial_level"),
    )
    found.put("audit", partial(identities_of, model, rows.X_test, rows.y_test))


def bounds_of(model: Any, X: Any, y: Any, sample: str, limits: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for bound in kpp.risk_bounds(model, X, y, delta=0.05, sample=sample, y_range=limits):
        name = f"{bound.name}, {bound.constant}"
        assert f"{name}, total" not in found
        found |= {f"{name}, total": bound.total, f"{name}, empirical": bound.empirical_risk}
    return found


def figures_of(model: Any, X: Any, y: Any, sample: str) -> dict[str, Any]:
    """The numbers of the dashboard, by name: one that is added later changes nothing."""
    found = kpp.diagnose(model, X, y, sample=sample).to_dict()
    figures = {figure["name"]: figure["value"] for figure in found["observables"]}
    spreads = {f"{figure['name']}, spread": figure["spread"] for figure in found["observables"]}
    findings = {finding["code"]: finding["value"] for finding in found["findings"]}
    known = {name: spread for name, spread in spreads.items() if spread is not None}
    return figures | known | found["metrics"] | findings


def identities_of(model: Any, X: Any, y: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for identity in kpp.audit(model, X, y, random_state=0).checks:
        for part in ("violation", "tolerance", "n_checked", "holds"):
            found[f"{identity.name}, {part}"] = getattr(identity, part)
    return found


def collapsed(model: Any, X: Any) -> dict[str, Any]:
    plain = kpp.collapse(model)
    names = ("node_values", "intercept", "node_rows")
    return {name: getattr(plain, name) for name in names} | {"scores": plain.scores(X)}


def reloaded(model: Any, X: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        again = kpp.load(kpp.save(model, Path(folder) / "model.kpp"))
    methods = ("predict", "decision_function", "predict_proba")
    return {name: getattr(again, name)(X) for name in methods if hasattr(again, name)}


def embedding(family: str, task: str) -> Outputs:
    """What is kept of an embedding without a linear layer."""
    found = Outputs()
    case = Case("shared", family, "regression" if task == "no target" else task)
    try:
        rows = case.rows
        model = kpp.KPPEmbedding(
            forest_of(case, rows),
            n_estimators=N_TREES,
            node_weight="gain",
            leaf_weight=None,
            coordinates="path",
            normalize="forest",
            n_jobs=1,
            random_state=SEED,
        )
        model.fit(rows.X, None if task == "no target" else rows.y)
    except Exception as error:
        found["fit"] = f"raises {type(error).__name__}"
        return found
    found["fit"] = "done"
    found.put("transform", partial(model.transform, rows.X_test))
    found.put("apply", partial(model.apply, rows.X_test))
    found.put("path_distance", partial(kpp.path_distance, model, rows.X_test, normalize="forest"))
    return found


# Recording and comparing.


def work_of_all() -> dict[str, Callable[[], Outputs]]:
    """What is to be done, by the name of the case."""
    work: dict[str, Callable[[], Outputs]] = {}
    for case in cases():
        assert case.name not in work, case.name
        work[case.name] = partial(outputs, case)
    for family in FAMILIES:
        for task in ("no target", *TASKS):
            work[f"embedding / {family} / {task}"] = partial(embedding, family, task)
    return work


def compute(only: str) -> dict[str, Outputs]:
    """All cases whose name holds a text, one after the other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: work() for name, work in work_of_all().items() if only in name}


def environment() -> dict[str, Any]:
    """Versions, and instructions of the processor: what bits depend on."""
    config: Any = np.show_config(mode="dicts")
    blas = config["Build Dependencies"]["blas"]
    return {
        "versions": {**versions()["versions"], blas["name"]: blas["version"]},
        "instructions": config["SIMD Extensions"]["found"],
    }


def difference(old: Any, new: Any) -> tuple[float, str]:
    """How large a difference is, relative where the file can tell (otherwise NaN); and in words."""
    before, now = (ARRAY.fullmatch(str(line)) for line in (old, new))
    if before is None or now is None:
        a, b = number_of(old), number_of(new)
        if a is not None and b is not None:
            return relative(a, b), f"{a:.6g} -> {b:.6g}"
        lines = zip(f"{old}\n".split("\n"), f"{new}\n".split("\n"), strict=False)
        first = next((pair for pair in lines if pair[0] != pair[1]), (old, new))
        return math.nan, " -> ".join(str(line).strip()[:60] for line in first)
    if before["form"] != now["form"]:
        same = ", the same bytes" if before["digest"] == now["digest"] else ""
        return math.nan, f"{before['form']} -> {now['form']}{same}"
    mine, theirs = (
        [float.fromhex(word) for word in line["numbers"].split()] for line in (before, now)
    )
    if not mine:
        return math.nan, "other values"
    mean = mine[3] / math.prod(int(n) for n in before["shape"].split("x"))
    largest = max(
        *(relative(mine[k], theirs[k], mean) for k in (0, 1)),
        relative(mine[2], theirs[2], mine[3]),
        relative(mine[3], theirs[3]),
    )
    return (largest, "") if largest > 0 else (math.nan, "not in the numbers that are kept")


def number_of(line: Any) -> float | None:
    """The number that a line of the file is; None for anything else."""
    if isinstance(line, int):
        return float(line)
    try:
        return float.fromhex(line)
    except (TypeError, ValueError):
        return None


def relative(old: float, new: float, size: float = 0.0) -> float:
    """Difference relative to the larger of both, or to the size of all where that is larger."""
    if old == new or (math.isnan(old) and math.isnan(new)):
        return 0.0
    change = abs(new - old) / max(abs(old), abs(new), size)
    return change if math.isfinite(change) else math.inf


def compare(old: dict[str, Any], new: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """The outputs of one case that differ, or that are gone."""
    return {
        name: difference(value, new[name]) if name in new else (math.nan, "is gone")
        for name, value in old.items()
        if name not in new or new[name] != value
    }


def largest_of(found: list[tuple[float, str]]) -> str:
    """The largest relative difference, in words."""
    sizes = [size for size, _ in found if not math.isnan(size)]
    return f"largest relative difference {max(sizes):.1e}" if sizes else "of unknown size"


def check(only: str, verbose: bool) -> int:
    """Compare with the file; return the number of cases that differ."""
    record = json.loads(RECORD.read_text())
    for what, value in environment().items():
        if record[what] != value:
            print(f"Bits may differ, since the {what} do: {record[what]} -> {value}")
    old = {name: case for name, case in record["cases"].items() if only in name}
    new = compute(only)
    by_output: dict[str, list[tuple[float, str]]] = {}
    differing = 0
    for name, case in old.items():
        found = compare(case, new.get(name, Outputs()))
        differing += bool(found)
        if found:
            listed = ", ".join(list(found)[:5]) + (", ..." if len(found) > 5 else "")
            print(f"{name}: {len(found)} of {len(case)}, {largest_of([*found.values()])}: {listed}")
        for output, (size, words) in found.items():
            by_output.setdefault(output, []).append((size, words))
            if verbose:
                print(f"    {output}: {words or f'relative difference {size:.1e}'}")
    if differing:
        print("\nBy output:")
    for output, sizes in sorted(by_output.items()):
        print(f"    {output}: {len(sizes)} cases, {largest_of(sizes)}")
    print(
        f"{differing} of {len(old)} cases differ; {len(new.keys() - old.keys())} more are not in "
        "the file."
    )
    return differing


def write_record() -> int:
    """Write the file."""
    cases_found = compute("")
    text = json.dumps({**environment(), "cases": cases_found}, indent=1)
    RECORD.write_text(text + "\n")
    refused = sum(case["fit"] != "done" for case in cases_found.values())
    detailed = sum("collapse: scores" in case for case in cases_found.values())
    print(
        f"{len(cases_found)} cases, {refused} of them refused and {detailed} with explanations, "
        f"certificates and bounds; {sum(map(len, cases_found.values()))} outputs in {RECORD}"
    )
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("mode", choices=("record", "check"))
    parser.add_argument("--only", default="", help="check only the cases whose name holds this")
    parser.add_argument("--verbose", action="store_true", help="list every output that differs")
    arguments = parser.parse_args()
    print(f"kpp from {Path(kpp.__file__).parent}", flush=True)
    start = time.perf_counter()
    if arguments.mode == "record":
        differing = write_record()
    else:
        differing = check(arguments.only, arguments.verbose)
    print(f"{time.perf_counter() - start:.0f} seconds")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
