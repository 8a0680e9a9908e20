"""A loaded model in little memory: what the rest implies is made when it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp.geometry.composed import forest_blocks
from kpp.geometry.lean import make_lean, same_bits
from kpp.models.linear import KPPLinearModel
from kpp.scores import AdditiveForest
from kpp.scores.additive import LayerBlock


def lean_model(model: Any) -> None:
    """Drop from a loaded estimator what a prediction does not need and the rest implies.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or KPPEmbedding
        Just read from a file, so that nobody else has a part of it.
    """
    # What a file holds may overflow in sums that are only compared with what it holds otherwise.
    with np.errstate(all="ignore"):
        if isinstance(model, KPPLinearModel):
            _coefficients_of_the_layer(model)
        for _, block in forest_blocks(model.map_):
            make_lean(block, model.node_weight)


def _coefficients_of_the_layer(model: KPPLinearModel) -> None:
    """Leave the coefficients to the linear layer, where it is the only one and implies them."""
    layers = model.fits_ if isinstance(model.fits_, list) else []
    if len(layers) != 1 or layers[0].part.whole is not model.map_ or np.any(layers[0].share != 1):
        return
    (fit,) = layers
    stored = np.atleast_2d(model.node_coef_)
    vars(fit).pop("node_coef", None)
    implied = same_bits(fit.node_coef, stored)
    if not implied:
        vars(fit)["node_coef"] = stored
        return
    vars(fit).pop("node_coef")
    model.__dict__.pop("node_coef_")
    blocks, first = [], 0
    for block in model.additive_.blocks:
        blocks.append(LayerBlock(block, fit, first))
        first += block.forest.n_nodes
    additive = model.additive_
    model.additive_ = AdditiveForest(tuple(blocks), additive.intercept, additive.classes)
