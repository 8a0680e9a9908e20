"""The blend on a cluster: layers are fitted there, and their weights learned here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.dask.assembling import at_rows, fitted_plan
from kpp.dask.data import DaskData
from kpp.dask.fitting import fit_layer
from kpp.dask.growing import pieces_of
from kpp.dask.maps import DaskMap, part_of
from kpp.dask.rows import Rows
from kpp.forest.arrays import Forest
from kpp.geometry.maps import PathMap
from kpp.models.bare_scores import bare_at
from kpp.models.blend import fit_blend
from kpp.models.blend_plans import BlendPlan
from kpp.models.data import FitData
from kpp.models.fits import MapPart
from kpp.models.fitting import FittedPlan
from kpp.models.fold_grown import GrownBlock
from kpp.models.plans import Splits
from kpp.models.selection import LayerSettings
from kpp.models.tasks import Task


def blend_specs() -> list[tuple[str, Any]]:
    """What ``forest="blend"`` stands for on Dask: extra trees, and the booster that there is."""
    known = [name for name in ("lightgbm", "xgboost") if find_spec(name) is not None]
    return [("trees", "extra-trees"), ("boosted", (*known, "boosted-small")[0])]


@dataclass(frozen=True, eq=False)
class GrownForest:
    """One forest that was grown on the workers.

    Parameters
    ----------
    name : str
        Of its block.
    map : PathMap
        At no rows.
    trees : list of slice
        The trees that have not seen each fold.
    weights : list of PathWeights or None
        Their weights, where these are estimated on rows.
    groups : list of Forest
        The same trees, group by group, with the scores of the bare ensembles.
    has_bare : bool
        Whether the bare ensembles are candidates.
    """

    name: str
    map: PathMap
    trees: list[slice]
    weights: list[Any]
    groups: list[Forest]
    has_bare: bool

    def part(self, whole: Any, q: int) -> MapPart:
        """The trees that have not seen fold q."""
        return MapPart(whole, None, (self.trees[q],), (self.weights[q],))


def fit_dask_blend(
    data: DaskData, grown: list[GrownForest], settings: LayerSettings, fold: Rows
) -> tuple[FittedPlan, Splits]:
    """Fit the layer of every forest on the workers, and blend them.

    Parameters
    ----------
    data : DaskData
        Rows.
    grown : list of GrownForest
        The forests.
    settings : LayerSettings
        Loss and alpha.
    fold : Rows
        The fold of each row.

    Returns
    -------
    fitted : FittedPlan
    folds : list of (train rows, test rows)
    """
    task, n_folds = settings.task, len(grown[0].trees)
    fold_of_row = fold.collect()
    splits = [
        (np.flatnonzero(fold_of_row != q), np.flatnonzero(fold_of_row == q)) for q in range(n_folds)
    ]
    on_workers: dict[str, tuple[GrownForest, DaskMap]] = {}
    blocks = []
    for forest in grown:
        block = DaskMap.on(data.partitions, forest.map, data.X)
        on_workers[forest.name] = forest, block
        whole = at_rows(block)
        assert isinstance(whole, PathMap)
        bare = _bare_scores(data, forest.groups, fold, task) if forest.has_bare else None
        bases = [own.bare.base for own in forest.groups if own.bare is not None]
        blocks.append(
            GrownBlock(
                forest.name,
                whole,
                forest.trees,
                forest.weights,
                bare,
                None if bare is None else bases,
            )
        )

    def fit(block: Any, own_settings: LayerSettings, is_relative: bool) -> FittedPlan:
        forest, at = on_workers[block.name]
        parts = [forest.part(forest.map, q) for q in range(n_folds)]
        groups = [part_of(at, part) for part in parts]
        layer = fit_layer(data, at, own_settings, fold, n_folds, groups, is_relative=is_relative)
        found, _, _ = fitted_plan(
            data, at, layer, task, fold, parts, keep_rows=True, whole=block.map
        )
        return found

    target = data.target.collect()
    local = FitData(None, target, target, data.weight.collect(), is_weighted=data.is_weighted)
    plan = BlendPlan(blocks, splits, np.arange(data.n_rows))
    return fit_blend(plan, local, settings, fit), splits


def _bare_scores(data: DaskData, groups: list[Forest], fold: Rows, task: Task) -> FloatArray | None:
    """Scores of every row by the bare ensemble that has not seen its fold."""
    session = data.session
    kept = session.keep("groups", groups)
    n_scores = task.loss.n_scores
    parts = session.gather(
        session.each("bare", _bare, data.X, pieces_of(fold), kept, task, n_scores)
    )
    if any(part is None for part in parts):
        return None
    return np.concatenate(parts)


def _bare(
    X: AnyArray, fold: AnyArray, groups: list[Forest], task: Task, n_scores: int
) -> FloatArray | None:
    out = np.zeros((len(X), n_scores))
    for q, forest in enumerate(groups):
        rows = np.flatnonzero(fold == q)
        if len(rows):
            found = bare_at(forest, X[rows], task.classes, n_scores, 1)
            if found is None:
                return None
            out[rows] = found
    return out
