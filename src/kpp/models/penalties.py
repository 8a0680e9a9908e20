"""The penalty of a fitted model, and the grid it was chosen from."""

from __future__ import annotations

import numpy as np

from kpp._checks import RefusedError
from kpp._typing import FloatArray
from kpp.models.linear import KPPLinearModel
from kpp.models.nested import NESTED


def alpha_of(model: KPPLinearModel) -> float:
    """Return the penalty of a fitted model, where it has one.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.

    Returns
    -------
    alpha : float

    Raises
    ------
    RefusedError
        For a blend: every block has its own.
    """
    if isinstance(model.alpha_, dict):
        raise RefusedError(
            "This model is a blend: every block has a penalty of its own (alpha_ is a dict), and "
            "there is no single alpha of the whole. Use combine='joint' for a model of one layer."
        )
    return float(model.alpha_)


def alpha_was_given(model: KPPLinearModel) -> bool:
    """Whether the caller gave the penalty, and no fold has chosen it.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.

    Returns
    -------
    was_given : bool
        Weights of a blend are learned all the same, so that there may be folds and their scores.
    """
    if model.alpha_selection_ == NESTED:
        # Parts are whole models with a given alpha, too; a grid is recorded likewise.
        return bool(model.fit_record_.alphas_given and model.alpha != "auto")
    return bool(model.alpha_selection_ == "given")


def grids_of(model: KPPLinearModel) -> list[tuple[float, FloatArray]]:
    """Return the penalty and its grid, for every layer that has a choice of its own.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.

    Returns
    -------
    pairs : list of (float, array)
        One, or one for each block of a blend.
    """
    if isinstance(model.alpha_, dict) and isinstance(model.alphas_, dict):
        return [(alpha, model.alphas_[name]) for name, alpha in model.alpha_.items()]
    return [(alpha_of(model), np.asarray(model.alphas_))]


def kept_score(model: KPPLinearModel) -> float | None:
    """Return the out-of-fold score of what was chosen, higher is better.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.

    Returns
    -------
    score : float or None
        Of a blend, that of its out-of-fold predictions; of parts that have chosen for themselves
        the mean over parts, each on the fold that it has not seen; None where alpha was given.
    """
    if model.cv_scores_ is None:
        return None
    if model.blend_score_ is not None:
        return model.blend_score_
    scores = np.asarray(model.cv_scores_)
    if model.alpha_selection_ == NESTED:
        assert model.folds_ is not None
        weight = model.sample_weight_
        weight = np.ones(len(model.fit_rows_)) if weight is None else np.asarray(weight)
        # In that regime all rows are rows of the fit.
        each = [float(weight[test].sum()) for _, test in model.folds_]
        return float(np.average(scores, weights=each))
    return float(scores[np.argmin(np.abs(np.log(np.asarray(model.alphas_) / alpha_of(model))))])
