"""The predictors that a cross-fit model is the average of, for bounds that speak of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.geometry.composed import BlockMap
from kpp.geometry.maps import MapBlock
from kpp.models.fits import BareFit, LinearFit
from kpp.models.linear import KPPLinearModel
from kpp.models.nested import NESTED


@dataclass(frozen=True, eq=False)
class FoldPredictor:
    """The predictor of one fold, of those that a model averages.

    Parameters
    ----------
    map : MapBlock
        The embedding of its trees, at the rows of its fit.
    rows : int array of shape (n,)
        Which rows of the model's X these are.
    node_coef : array of shape (n_scores, m)
        w.
    intercept : array of shape (n_scores,)
        b.
    """

    map: MapBlock
    rows: AnyArray
    node_coef: FloatArray
    intercept: FloatArray


def fold_predictors(model: KPPLinearModel) -> list[FoldPredictor]:
    r"""Return the predictors that a cross-fit model is the average of.

    .. math:: g_q = c_0 + \sum_b \theta_{K_b} K_{b, q} + \theta_{F_b} F_{b, q}

    in a blend, with the same weights and constant for all folds, but for parts that have chosen for
    themselves; otherwise a layer each.

    Parameters
    ----------
    model : KPPLinearModel
        Fitted, of a regime that averages folds.

    Returns
    -------
    predictors : list of FoldPredictor
        In the order of ``model.folds_``.
    """
    fits, bare_fits = model.fits_, model.bare_fits_
    if bare_fits is None:
        return [FoldPredictor(fit.map, fit.rows, fit.node_coef, fit.intercept) for fit in fits]
    by_rows: dict[bytes, list[LinearFit]] = {}
    for fit in fits:
        by_rows.setdefault(np.asarray(fit.rows).tobytes(), []).append(fit)
    n_folds = len(by_rows)
    parts: list[LinearFit | BareFit] = [*fits, *bare_fits]
    constant = np.atleast_1d(model.intercept_) - np.sum(
        [part.share * part.intercept for part in parts], axis=0
    )
    constants = [constant] * n_folds
    if model.alpha_selection_ == NESTED and model.fold_predictors_ is not None:
        constants = list(model.fold_predictors_.constant)
    found = []
    for own, its_constant in zip(by_rows.values(), constants, strict=True):
        bias, blocks, coefs = its_constant.copy(), [], []
        for k, fit in enumerate(own):
            # A share holds the 1 / Q of the average.
            share = np.broadcast_to(fit.share * n_folds, constant.shape)
            coef = share[:, None] * fit.node_coef
            bias += share * fit.intercept
            for bare in bare_fits:
                if bare.part.whole is fit.part.whole:
                    coef += n_folds * bare.share[:, None] * bare.node_coef
                    bias += n_folds * bare.share * bare.intercept
            blocks.append((str(k), fit.map))
            coefs.append(coef)
        found.append(FoldPredictor(BlockMap(blocks), own[0].rows, np.hstack(coefs), bias))
    return found
