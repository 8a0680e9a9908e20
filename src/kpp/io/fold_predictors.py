"""The predictors of the folds, in a file.

A model of one layer a fold has them in its `fold_fits_`, which the file holds; a blend has layers
for every block, and weights of its own for every fold. The target of the rows of the fit comes
with both. Folds that grew forests of their own have no place in a file, and neither have these.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.forest.arrays import Forest
from kpp.forest.steps import bare_steps
from kpp.geometry.composed import named_blocks
from kpp.geometry.maps import MapBlock, PathMap
from kpp.io.fields import floats, integers, require, whole
from kpp.io.fits import FITS, decode_fits, fits_fields
from kpp.io.schema import Field, FieldTable, required
from kpp.io.values import Fields
from kpp.models.fits import LinearFit
from kpp.models.fold_predictors import FoldBare, FoldPredictors, folds_of_rows
from kpp.models.linear import KPPLinearModel
from kpp.models.tasks import Regression, Task

OF_BLOCK: FieldTable = {**required("block"), "fits": Field(inside=FITS)}
OF_BARE = required("block", "trees", "base", "share")
FOLD_PREDICTORS: FieldTable = {
    **required("target", "constant"),
    "layers": Field(inside=OF_BLOCK),
    "bare": Field(inside=OF_BARE),
}


def fold_predictor_fields(model: KPPLinearModel, where: str) -> Fields | None:
    """Take the predictors of the folds apart; None where the file has no place for them."""
    own = model.fold_predictors_
    if own is None:
        return None
    if model.blend_weights_ is None:
        # The layers are those that are stored for themselves, where they are.
        kept = model.fold_fits_ is not None and fits_fields(model.fold_fits_, model, where)
        plain = {"target": own.target, "constant": own.constant, "layers": [], "bare": []}
        return plain if kept else None
    number = {id(block): k for k, (_, block) in enumerate(named_blocks(model.map_))}
    of_forest = {
        id(block.forest): k
        for k, (_, block) in enumerate(named_blocks(model.map_))
        if isinstance(block, PathMap)
    }
    n_blocks = len(own.fits) // own.n_folds
    layers = []
    for b in range(n_blocks):
        fits = own.fits[b::n_blocks]
        # Groups of trees are those of one block, which is then the map of these layers.
        block = None if fits[0].part.trees is None else fits[0].part.whole
        found = fits_fields(fits, model if block is None else _on(block, model), where)
        layers.append({"block": None if block is None else number[id(block)], "fits": found})
    return {
        "target": own.target,
        "constant": own.constant,
        "layers": layers,
        "bare": [
            {
                "block": of_forest[id(bare.forest)],
                "trees": None if bare.trees is None else [bare.trees.start, bare.trees.stop],
                "base": bare.base,
                "share": bare.share,
            }
            for bare in own.bare
        ],
    }


def _on(block: MapBlock, model: KPPLinearModel) -> KPPLinearModel:
    """The same rows and folds, on one block."""
    other = copy(model)
    other.map_ = block
    return other


def decode_fold_predictors(fields: Any, model: KPPLinearModel, task: Task) -> FoldPredictors | None:
    """Put the predictors of the folds together, once the model's layers and folds are there."""
    if fields is None:
        return None
    require(isinstance(fields, dict), "predictors of folds must be by name")
    folds, n_rows = model.folds_, len(model.fit_rows_)
    n_scores = len(np.atleast_1d(model.intercept_))
    oof = model.oof_prediction_
    require(folds is not None and oof is not None, "predictors without folds")
    assert folds is not None
    assert oof is not None
    constant = floats(fields["constant"], "constants of folds", (len(folds), n_scores))
    stored, bare = fields["layers"], fields["bare"]
    right = all(isinstance(part, list) and None not in part for part in (stored, bare))
    require(right, "layers of folds must be lists")
    is_blend = model.blend_weights_ is not None
    require(is_blend == bool(stored) and (is_blend or not bare), "predictors of another kind")
    if is_blend:
        by_block = [_layers(own, model, len(folds)) for own in stored]
        fits = [own[q] for q in range(len(folds)) for own in by_block]
    else:
        require(model.fold_fits_ is not None, "predictors of folds without layers")
        assert model.fold_fits_ is not None
        fits = model.fold_fits_
        require(len(fits) == len(folds), "a predictor for each fold")
    require(len(bare) % len(folds) == 0, "every fold must have all bare ensembles")
    return FoldPredictors(
        fits=fits,
        bare=[_bare(own, model, task, len(folds)) for own in bare],
        constant=constant,
        fold_of_row=folds_of_rows(_places([test for _, test in folds], model.fit_rows_), n_rows),
        target=_target(fields["target"], n_rows, n_scores, task),
        out_of_fold=oof.reshape(n_rows, -1),
        classes=task.classes,
    )


def _layers(fields: Any, model: KPPLinearModel, n_folds: int) -> list[LinearFit]:
    blocks = [block for _, block in named_blocks(model.map_)]
    number = fields["block"]
    if number is not None:
        model = _on(blocks[whole(number, "a block", 0, len(blocks) - 1)], model)
    found = decode_fits(fields["fits"], model, None)
    require(len(found) == n_folds, "a layer for each fold")
    return found


def _bare(fields: Any, model: KPPLinearModel, task: Task, n_folds: int) -> FoldBare:
    blocks = [block for _, block in named_blocks(model.map_)]
    block = blocks[whole(fields["block"], "a block", 0, len(blocks) - 1)]
    require(isinstance(block, PathMap), "a bare ensemble without a forest")
    assert isinstance(block, PathMap)
    forest, n_scores = block.forest, len(np.atleast_1d(model.intercept_))
    steps = bare_steps(forest, task.classes)
    columns = task.n_targets if isinstance(task, Regression) else n_scores
    require(steps is not None and len(steps[1]) == columns, "a bare ensemble of other scores")
    share = floats(fields["share"], "weights of folds", (n_scores,), low=0.0)
    trees = _trees(fields["trees"], forest)
    if trees is None:
        require(fields["base"] is None, "an initial value without a group")
        return FoldBare(forest, None, None, 1, share)
    assert forest.bare is not None
    base: FloatArray = floats(fields["base"], "initial values", forest.bare.base.shape)
    return FoldBare(forest, trees, base, n_folds, share)


def _trees(stored: Any, forest: Forest) -> slice | None:
    if stored is None:
        return None
    require(isinstance(stored, list) and len(stored) == 2, "a group is from one tree to another")
    first = whole(stored[0], "trees of a group", 0, forest.n_trees - 1)
    return slice(first, whole(stored[1], "trees of a group", first + 1, forest.n_trees))


def _places(tests: list[AnyArray], fit_rows: AnyArray) -> list[AnyArray]:
    """Row numbers of folds as places among the rows of the fit, each of which is in one."""
    order = np.argsort(fit_rows)
    known = fit_rows[order]
    tested = np.sort(np.concatenate(tests))
    require(np.array_equal(tested, known), "every row must be left out once")
    return [order[np.searchsorted(known, test)] for test in tests]


def _target(stored: Any, n_rows: int, n_scores: int, task: Task) -> AnyArray:
    if task.classes is None:
        columns = task.n_targets if isinstance(task, Regression) else n_scores
        return floats(stored, "the target of the fit", (n_rows, columns))
    last = len(task.classes) - 1
    codes: AnyArray = integers(stored, "the classes of the fit", (n_rows,), 0, last)
    return codes
