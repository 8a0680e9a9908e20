"""The ordinary model that a fit on a cluster leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import AnyArray
from kpp.dask.data import DaskData
from kpp.dask.fitting import DaskLayer
from kpp.dask.maps import DaskMap, leaf_ids_of_places
from kpp.dask.rows import Rows
from kpp.dask.tables import fingerprints_of
from kpp.geometry.composed import named_blocks
from kpp.geometry.maps import MapBlock, PathMap
from kpp.models.fits import LinearFit, MapPart
from kpp.models.fitting import FittedPlan
from kpp.models.fold_predictors import FoldPredictors
from kpp.models.left_rows import LeftRows
from kpp.models.tasks import Task

# Leaf ids of up to so many bytes come to the model, with keep_rows="auto".
KEPT_BYTES = 1 << 30


def at_rows(block: DaskMap) -> MapBlock:
    """The map at all rows, here."""
    session, embedding = block.partitions.session, block.embedding
    parts = session.gather(block.routed)
    routed: list[AnyArray] = []
    for b, (_, own) in enumerate(named_blocks(embedding)):
        if isinstance(own, PathMap):
            places = np.concatenate([part[b] for part in parts], axis=1)
            routed.append(leaf_ids_of_places(own.forest, places))
        else:
            routed.append(np.asfortranarray(np.concatenate([part[b] for part in parts])))
    return embedding.at_routed(routed)


def fitted_plan(
    data: DaskData,
    block: DaskMap,
    layer: DaskLayer,
    task: Task,
    fold: Rows | None,
    parts: list[MapPart] | None,
    *,
    keep_rows: bool,
    whole: MapBlock | None = None,
) -> tuple[FittedPlan, list[tuple[AnyArray, AnyArray]] | None, AnyArray]:
    """All that the fit has found, as `kpp.models` has it, the folds and the numbers of the rows.

    Parameters
    ----------
    data : DaskData
        Rows.
    block : DaskMap
        The model's map at them.
    layer : DaskLayer
        Its linear layer.
    task : Task
        The task.
    fold : Rows, optional
        The fold of each row.
    parts : list of MapPart, optional
        For each fold the trees that have not seen it, of the map at no rows; all by default.
    keep_rows : bool
        Whether leaf ids and duals of all rows come here.
    whole : MapBlock, optional
        The map at all rows, where it is here already.
    """
    n_rows = data.n_rows if keep_rows else 0
    rows = np.arange(n_rows)
    if whole is None:
        whole = at_rows(block) if keep_rows else block.embedding
    n_scores = len(layer.intercept)
    dual = layer.dual.collect() if keep_rows else np.zeros((0, n_scores))
    # From the duals again, so that a file that keeps these keeps the coefficients.
    coef = np.array([whole.rmatvec(r) for r in dual.T]) if keep_rows else layer.coef
    fit = LinearFit(
        part=MapPart(whole),
        rows=rows,
        dual=dual,
        intercept=layer.intercept,
        alpha=layer.alpha,
        n_iter=layer.n_iter,
    )
    vars(fit)["node_coef"] = coef
    fold_fits = predictors = folds = out_of_fold = None
    if layer.out_of_fold is not None and keep_rows:
        assert fold is not None
        fold_of_row = fold.collect().astype(np.int32)
        out_of_fold = layer.out_of_fold.collect()
        folds = [
            (np.flatnonzero(fold_of_row != q), np.flatnonzero(fold_of_row == q))
            for q in range(len(layer.folds))
        ]
        fold_fits = []
        for q, (own, (train, _)) in enumerate(zip(layer.folds, folds, strict=True)):
            part = MapPart(whole)
            if parts is not None:
                part = MapPart(whole, None, parts[q].trees, parts[q].weights)
            fold_fits.append(
                LinearFit(
                    part=part.at(train),
                    rows=train,
                    dual=own.dual.collect()[train],
                    intercept=own.intercept,
                    alpha=own.alpha,
                    n_iter=own.n_iter,
                )
            )
        predictors = FoldPredictors(
            fits=fold_fits,
            bare=[],
            constant=np.zeros((len(fold_fits), n_scores)),
            fold_of_row=fold_of_row,
            target=data.target.collect(),
            out_of_fold=task.answers(out_of_fold).reshape(n_rows, -1),
            classes=task.classes,
        )
    plan = FittedPlan(
        map=whole,
        node_coef=coef,
        intercept=layer.intercept,
        dual=dual,
        alpha=layer.alpha,
        alphas=layer.alphas,
        cv_scores=layer.cv_scores,
        out_of_fold=out_of_fold,
        fits=[fit],
        fold_fits=fold_fits,
        n_iter=layer.n_iter,
        fold_predictors=predictors,
    )
    return plan, folds, rows


def fingerprints(data: DaskData) -> AnyArray:
    """Fingerprints of all rows, in order."""
    session = data.session
    parts = session.gather(session.each("fingerprints", fingerprints_of, data.X))
    found: AnyArray = np.concatenate(parts)
    return found


def rows_left(data: DaskData, block: DaskMap) -> LeftRows:
    """What a model has instead of its rows: how many of them are in each leaf."""
    weight = data.weight[:, None]
    counted = weight * 0 + 1.0
    (count,) = block.leaf_sums(counted)
    share = None
    if data.is_weighted:
        (share,) = block.leaf_sums(weight / data.weight.sum())
    return LeftRows(data.n_rows, count.astype(np.int64), share)


def keeps_rows(asked: Any, n_rows: int, embedding: MapBlock) -> bool:
    """Whether leaf ids come to the model: as asked, or where there are not too many."""
    if isinstance(asked, bool | np.bool_):
        return bool(asked)
    if asked != "auto":
        raise ValueError(f"keep_rows must be True, False or 'auto'; got {asked!r}.")
    numbers = sum(
        block.forest.n_trees if isinstance(block, PathMap) else 2 * block.shape[1]
        for _, block in named_blocks(embedding)
    )
    return 4 * n_rows * numbers <= KEPT_BYTES
