"""KPP as the paper has it.

Two hundred extremely randomised trees at scikit-learn's defaults (the paper's tables were made with
them, though its text does not say so); lambda from ``logspace(-10, 0, 20)``, the same number in
every fold, by five shuffled folds with the forest grown anew in each, scored by squared error or
accuracy; the linear layer on all training rows, on trees that have seen their labels.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import KFold

from kpp import Forest, KPPClassifier, KPPRegressor
from kpp.geometry import PathMap, path_weights
from kpp.geometry.weights import leaf_indicator_weights
from kpp.solvers import logistic_path, ridge_path

N_TREES = 200
GRID = np.logspace(-10, 0, 20)
# Leaf indicators are normalised here (squared norm 1 a row, path coordinates about 0.01).
LEAF_GRID = np.logspace(-8, 2, 20)
# Up to this many rows ridge is solved through the eigenvalues: exact for every lambda.
DENSE_ROWS = 1500
# Above it: at most so many Lanczos steps for all lambdas at once. On kin8nm (5,243 rows) the errors
# of every lambda agree with the exact ones to five digits, in a fiftieth of the time.
RIDGE_PRODUCTS = 500
# Accuracy on a fold needs no more digits; the final fit has the solver's own tolerance.
SEARCH: dict[str, Any] = {"tol": 1e-4, "max_iter": 200}
ARMS: dict[str, dict[str, Any]] = {
    "leaf": {"coordinates": "leaf"},
    "variance": {"node_weight": "variance"},
    "uniform": {"node_weight": "uniform"},
}


class PaperKPP:
    """The paper's estimator.

    Parameters
    ----------
    task : {"regression", "classification"}
        The task.
    seed : int
        Seed of the forest and of the folds.
    n_estimators : int
        Number of trees.
    coordinates : {"path", "leaf"}
        All nodes; or leaf indicators, with a lambda chosen for them.
    arms : bool
        Whether `extras` fits the paper's ablations too, at the same lambda.
    """

    def __init__(
        self,
        task: str,
        seed: int,
        *,
        n_estimators: int = N_TREES,
        coordinates: str = "path",
        arms: bool = False,
    ) -> None:
        self.task, self.seed, self.n_estimators, self.arms = task, seed, n_estimators, arms
        self.coordinates = coordinates

    def fit(self, X: Any, y: Any) -> PaperKPP:
        """Choose lambda, then fit."""
        common: Any = {"coordinates": self.coordinates, "n_estimators": self.n_estimators}
        self.alpha_, self.cv_losses_ = choose_alpha(self.task, X, y, self.seed, **common)
        self.train_ = (X, y) if self.arms else None
        self.model_ = fit_at(self.task, X, y, self.alpha_, self.seed, **common)
        return self

    def predict(self, X: Any) -> Any:
        """Predict."""
        return self.model_.predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes."""
        return self.model_.predict_proba(X)

    def extras(self, X_test: Any, y_test: Any) -> dict[str, float]:
        """Test loss of each ablation at the same lambda; nothing without `arms`."""
        found = {"lambda": float(self.alpha_)}
        if self.train_ is not None:
            for name in ARMS:
                model = fit_arm(name, self.task, *self.train_, self.alpha_, self.seed)
                found[f"loss_{name}"] = primary_loss(self.task, y_test, model.predict(X_test))
        return found


def forest_of(task: str, seed: int, n_estimators: int = N_TREES) -> Any:
    """The paper's forest."""
    kind = ExtraTreesClassifier if task == "classification" else ExtraTreesRegressor
    return kind(n_estimators, random_state=seed)


def fit_at(
    task: str,
    X: Any,
    y: Any,
    alpha: float,
    seed: int,
    n_estimators: int = N_TREES,
    **params: Any,
) -> Any:
    """Fit the model at a given lambda."""
    kind: Any = KPPClassifier if task == "classification" else KPPRegressor
    own = {"tol": 1e-9, "max_iter": 3000, "n_jobs": 1} | params
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return kind(forest_of(task, seed, n_estimators), alpha=alpha, **own).fit(X, y)


def fit_arm(name: str, task: str, X: Any, y: Any, alpha: float, seed: int) -> Any:
    """Fit an ablation of the paper at the same lambda.

    The paper's leaf indicators are not normalised: squared norm K a row instead of 1, so that its
    lambda is lambda / K here.
    """
    own = alpha / N_TREES if name == "leaf" else alpha
    return fit_at(task, X, y, own, seed, **ARMS[name])


def primary_loss(task: str, y: Any, prediction: Any) -> float:
    """RMSE, or the share of errors."""
    if task == "classification":
        return float((prediction != y).mean())
    return float(root_mean_squared_error(y, prediction))


def choose_alpha(
    task: str,
    X: Any,
    y: Any,
    seed: int,
    *,
    coordinates: str = "path",
    n_estimators: int = N_TREES,
) -> tuple[float, Any]:
    """Choose lambda by five folds with the forest grown anew in each; ties go to the smallest.

    Returns
    -------
    alpha : float
        The choice.
    losses : array of shape (20,)
        Mean over the folds of the mean squared error, or of the share of errors.
    """
    grid = GRID if coordinates == "path" else LEAF_GRID
    losses = []
    for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
        forest = Forest.from_model(forest_of(task, seed, n_estimators).fit(X[train], y[train]))
        weigh: Any = path_weights if coordinates == "path" else leaf_indicator_weights
        phi = PathMap(forest, weigh(forest), n_jobs=1).on(X[train])
        scores = scores_at(task, phi, phi.on(X[test]), y[train], grid)
        if task == "classification":
            losses.append(((scores > 0) != y[test]).mean(axis=1))
        else:
            losses.append(np.square(scores - y[test]).mean(axis=1))
    mean = np.mean(losses, axis=0)
    return float(grid[np.argmin(mean)]), mean


def scores_at(task: str, train: PathMap, test: PathMap, y: Any, alphas: Any) -> Any:
    """Scores of the test rows for each lambda, shape (n_alphas, n_test)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if task == "classification":
            found: Any = logistic_path(train, y, alphas, **SEARCH)
            dual, intercept = found.dual[:, :, 0], found.intercept[:, 0]
        elif train.shape[0] <= DENSE_ROWS:
            dual, intercept = _dense_ridge(train.gram(), y, alphas)
        else:
            found = ridge_path(train, y, alphas, tol=1e-6, max_iter=RIDGE_PRODUCTS)
            dual, intercept = found.dual[:, :, 0], found.intercept[:, 0]
    columns = np.ascontiguousarray(dual.T)
    return train.gram_matvec(columns, at=test).T + intercept[:, None]


def _dense_ridge(gram: Any, y: Any, alphas: Any) -> tuple[Any, Any]:
    """Dual coefficients and intercepts of ridge regression, from the Gram's eigenvalues."""
    mean_row = gram.mean(axis=0)
    centred = gram - mean_row - mean_row[:, None] + mean_row.mean()
    values, vectors = np.linalg.eigh(centred)
    right = vectors.T @ (y - y.mean())
    dual = (right / (np.maximum(values, 0.0) + alphas[:, None])) @ vectors.T
    dual -= dual.mean(axis=1, keepdims=True)
    return dual, y.mean() - dual @ mean_row
