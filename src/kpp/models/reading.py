"""What the rooms that use a fitted linear model read from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from kpp._typing import FloatArray
from kpp.geometry.composed import forest_blocks
from kpp.geometry.maps import PathMap
from kpp.models.linear import KPPLinearModel


def check_model(model: Any) -> None:
    """Refuse what is not a fitted linear model of this package."""
    if not isinstance(model, KPPLinearModel):
        raise TypeError(
            f"Expected a fitted KPPRegressor or KPPClassifier; got {model!r}. An embedding alone "
            "has no scores."
        )
    check_is_fitted(model, "map_")


def path_blocks(model: Any) -> list[PathMap]:
    """The forests of a fitted model, each with its embedding at the rows of the fit."""
    check_model(model)
    return [block for _, block in forest_blocks(model.map_)]


def node_values_of(model: Any) -> FloatArray:
    r"""Path sums of :math:`s_v w_v` over all forests, shape (n_scores, n_nodes)."""
    return np.asarray(model.additive_.node_values)


def coefficients_of(model: Any) -> tuple[FloatArray, FloatArray]:
    """Coefficients of shape (n_scores, m) and intercepts of shape (n_scores,)."""
    coefficients = np.atleast_2d(np.asarray(model.node_coef_, dtype=np.float64))
    intercept = np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64))
    return coefficients, intercept


def scores_of(model: Any, X: Any) -> FloatArray:
    """The model's own scores, shape (n_rows, n_scores)."""
    own = model.decision_function(X) if is_classifier(model) else model.predict(X)
    return np.asarray(own, dtype=np.float64).reshape(len(own), -1)


def fit_weight(model: Any) -> FloatArray:
    """Weights of the rows of the fit, summing to 1; shape (n_fit_rows,)."""
    weight = getattr(model, "sample_weight_", None)
    n_rows = model.map_.shape[0]
    if weight is None:
        return np.full(n_rows, 1.0 / n_rows)
    return np.asarray(weight, dtype=np.float64) / np.sum(weight)


def names_of(model: Any) -> tuple[str, ...]:
    """Names of the columns of X; x0, x1, ... where the model has seen none."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return tuple(f"x{j}" for j in range(model.n_features_in_))
    return tuple(str(name) for name in names)
