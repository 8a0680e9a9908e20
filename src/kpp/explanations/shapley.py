"""TreeSHAP values of a model's score, through the collapsed forest."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from kpp._optional import optional
from kpp._typing import FloatArray
from kpp.forest.route import prepare_rows
from kpp.geometry.composed import linear_blocks
from kpp.models.linear import KPPLinearModel
from kpp.scores import RoutedRows


def shapley_values(model: KPPLinearModel, rows: RoutedRows) -> tuple[FloatArray, FloatArray]:
    """Compute TreeSHAP values of every score, path-dependent, with the covers of the fit rows.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted; numerical splits compared in single precision only.
    rows : RoutedRows
        Rows.

    Returns
    -------
    values : array of shape (n_rows, n_features, n_scores)
    baseline : array of shape (n_scores,)
        shap's expected value of each score.
    """
    shap = optional("shap", "level='shapley'", "shap")
    collapsed = model.collapse()
    linear, collapsed = collapsed.linear, replace(collapsed, linear=())
    if len(collapsed.forest.term_offsets):
        raise TypeError(
            "level='shapley' needs TreeSHAP, which knows splits on one column only, and this "
            "forest has oblique ones. Use level='variable', which shares out what they add, or a "
            "model-agnostic explainer: shap.Explainer(model, X)."
        )
    # shap walks the trees itself: rows must come in the precision that the forest compares in.
    X = prepare_rows(collapsed.forest, rows.X)
    values, baseline = [], np.empty(collapsed.n_scores)
    for k in range(collapsed.n_scores):
        explainer = shap.TreeExplainer(collapsed.to_sklearn(k))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            # Its own check of additivity has another tolerance; Attribution.residual has the sum.
            own = explainer.shap_values(X, check_additivity=False)
        values.append(np.asarray(own, dtype=np.float64).reshape(X.shape))
        baseline[k] = np.ravel(explainer.expected_value)[0]
    found = np.stack(values, axis=2)
    # A sum of functions of one column each: its Shapley values are these, less their means.
    for terms, own, (_, at_fit) in zip(
        linear, rows.linear_values, linear_blocks(model.map_), strict=True
    ):
        mean = terms.by_column(at_fit.values).mean(axis=1)
        found += (terms.by_column(own) - mean[:, None]).transpose(1, 2, 0)
        baseline += mean.sum(axis=1)
    return found, baseline
