"""What a blend has beyond its linear layers, in a file.

The weights of its linear layers are their shares. Of a bare ensemble only the weight is stored: its
forest, which the file holds, knows what it predicts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp.forest.steps import bare_steps
from kpp.geometry.composed import named_blocks
from kpp.geometry.maps import PathMap
from kpp.io.fields import floats, is_number, require, whole
from kpp.io.schema import required
from kpp.io.values import Fields
from kpp.models.blend import bare_fit, weights_by_name
from kpp.models.blend_plans import of_fold
from kpp.models.linear import KPPLinearModel
from kpp.models.regimes import REGIMES
from kpp.models.tasks import Regression, Task

BLEND = required("bare", "share", "score")


def blend_fields(model: KPPLinearModel) -> Fields:
    """Take the bare ensembles of a blend apart."""
    number = {id(block): k for k, (_, block) in enumerate(named_blocks(model.map_))}
    bare = model.bare_fits_ or []
    n_scores = len(np.atleast_1d(model.intercept_))
    return {
        "score": model.blend_score_,
        "bare": [number[id(fit.part.whole)] for fit in bare],
        "share": np.array([fit.share for fit in bare], dtype=np.float64).reshape(-1, n_scores),
    }


def decode_blend(fields: Any, model: KPPLinearModel, task: Task) -> None:
    """Put the bare ensembles and the weights of a blend together, once its layers are there."""
    require(isinstance(fields, dict), "a blend must be by name")
    blocks = named_blocks(model.map_)
    require([id(fit.part.whole) for fit in model.fits_] == [id(b) for _, b in blocks], "blocks")
    numbers = fields["bare"]
    require(isinstance(numbers, list), "bare ensembles must be a list")
    known = [whole(k, "a block", 0, len(blocks) - 1) for k in numbers]
    require(sorted(set(known)) == known, "a bare ensemble stands twice")
    score = fields["score"]
    require(is_number(score), "the score of a blend must be a number")
    model.blend_score_ = float(score)
    n_scores = len(np.atleast_1d(model.intercept_))
    share = floats(fields["share"], "weights of a blend", (len(known), n_scores), low=0.0)
    found = []
    for k, own in zip(known, share, strict=True):
        block = blocks[k][1]
        require(isinstance(block, PathMap), "a bare ensemble without a forest")
        assert isinstance(block, PathMap)
        steps = bare_steps(block.forest, task.classes)
        columns = task.n_targets if isinstance(task, Regression) else n_scores
        right = steps is not None and len(steps[1]) == columns
        require(right, "a bare ensemble that predicts something else")
        found.append(bare_fit(block, task.classes, own))
    model.bare_fits_ = found
    model.blend_weights_ = weights_by_name(base_names(model), model.fits_, found, task)


def base_names(model: KPPLinearModel) -> list[str]:
    """Names of the blocks of a blend; where each fold has blocks of its own, without the fold."""
    known = [name for name, _ in named_blocks(model.map_)]
    if not REGIMES[model.regime_].averages_folds:
        return known
    suffix = of_fold("", 0)
    names = [name.removesuffix(suffix) for name in known if name.endswith(suffix)]
    n_folds = len(known) // max(1, len(names))
    right = known == [of_fold(name, q) for q in range(n_folds) for name in names]
    require(right, "every fold of a blend must have all of its blocks")
    return names


def by_block(values: Any, model: KPPLinearModel, name: str) -> dict[str, Any]:
    """A dict with a value for each block of a blend."""
    right = isinstance(values, dict) and list(values) == base_names(model)
    require(right, f"{name} of a blend must be by block")
    result: dict[str, Any] = values
    return result
