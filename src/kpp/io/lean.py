"""A loaded model in little memory: what the rest implies is made when it is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kpp.geometry.composed import block_slices, forest_blocks
from kpp.geometry.lean import make_lean, same_bits
from kpp.geometry.linear import LinearMap
from kpp.models.linear import KPPLinearModel
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
    additive = model.additive_
    slices = [
        place for _, block, place in block_slices(model.map_) if not isinstance(block, LinearMap)
    ]
    pairs = zip(additive.blocks, slices, strict=True)
    blocks = tuple(LayerBlock(block, fit, place.start) for block, place in pairs)
    # Few numbers, which must not keep the others.
    linear = tuple(replace(terms, coef=terms.coef.copy()) for terms in additive.linear)
    model.additive_ = replace(additive, blocks=blocks, linear=linear)
