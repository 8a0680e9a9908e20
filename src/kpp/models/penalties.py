"""The penalty of a fitted model, and the grid it was chosen from."""

from __future__ import annotations

import numpy as np

from kpp._checks import RefusedError
from kpp._typing import FloatArray
from kpp.models.linear import KPPLinearModel


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
