"""TreeSHAP values of a model's score, through the collapsed forest."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._typing import FloatArray
from kpp.forest.route import prepare_rows
from kpp.models.reading import coefficients_of


def shapley_values(model: Any, X: Any) -> tuple[FloatArray, FloatArray]:
    """Compute TreeSHAP values of every score, path-dependent, with the covers of the fit rows.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted; numerical splits compared in single precision only.
    X : array or data frame of shape (n_rows, n_features)
        Rows, checked.

    Returns
    -------
    values : array of shape (n_rows, n_features, n_scores)
    baseline : array of shape (n_scores,)
        shap's expected value of each score.
    """
    shap = optional("shap", "level='shapley'", "shap")
    from kpp.export.collapse import collapse

    collapsed = collapse(model)
    rows = prepare_rows(collapsed.forest, X)
    n_scores = len(coefficients_of(model)[1])
    values, baseline = [], np.empty(n_scores)
    for k in range(n_scores):
        explainer = shap.TreeExplainer(collapsed.to_sklearn(k))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            # Its own check of additivity has another tolerance; Attribution.residual has the sum.
            own = explainer.shap_values(rows, check_additivity=False)
        values.append(np.asarray(own, dtype=np.float64).reshape(rows.shape))
        baseline[k] = np.ravel(explainer.expected_value)[0]
    return np.stack(values, axis=2), baseline
