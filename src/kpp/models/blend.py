"""The blend: every forest's own linear layer and bare ensemble, in one coefficient vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from kpp._parallel import one_blas_thread
from kpp._typing import AnyArray, FloatArray
from kpp.forest.steps import bare_steps
from kpp.geometry.maps import PathMap
from kpp.models.blend_plans import BlendBlock, BlendPlan
from kpp.models.data import FitData
from kpp.models.fits import BareFit, LinearFit, MapPart
from kpp.models.fitting import FittedPlan, fit_plan
from kpp.models.fold_predictors import FoldPredictors, folds_of_rows
from kpp.models.lattice import lattice_weights
from kpp.models.plans import Splits
from kpp.models.selection import LayerSettings
from kpp.models.tasks import Task
from kpp.solvers import stacking_weights

# What is added to the name of a block for its bare ensemble.
BARE = ", bare"
BLENDING = "blending"
# From a block, settings and whether alpha is relative to its layer.
LayerFit = Callable[[BlendBlock, LayerSettings, bool], FittedPlan]


@one_blas_thread()
def fit_blend(
    plan: BlendPlan, data: FitData, settings: LayerSettings, fit_layer: LayerFit | None = None
) -> FittedPlan:
    r"""Fit every block alone, and blend their scores.

    With :math:`K_b` the linear layer of block b and :math:`F_b` its bare ensemble,

    .. math::
        g = c_0 + \sum_b \theta_{K_b} K_b + \theta_{F_b} F_b, \qquad
        w_b = \theta_{K_b} w_{K_b} + \theta_{F_b} f_b, \quad f_{b, v} = \mathrm{step}_v / s_v

    where :math:`\theta \ge 0` is learned on the out-of-fold scores of all candidates.

    Parameters
    ----------
    plan : BlendPlan
        The forests, none of which has seen the rows that it scores.
    data : FitData
        All rows, in whose numbers the plan speaks.
    settings : LayerSettings
        Loss and alpha; a given alpha is that of every block.
    fit_layer : callable, optional
        Fits the layer of a block, with these settings, and whether alpha is relative to the scale
        of each map; by default here, where the rows are.

    Returns
    -------
    fitted : FittedPlan
        With `weights` and `bare_fits`, and dicts by block for the alphas and their scores.
    """
    is_given = settings.alpha is not None
    if is_given:
        # A grid of one alpha, for the weights need out-of-fold scores all the same.
        settings = replace(settings, alphas=[settings.alpha], alpha=None)
    classes, rows = settings.task.classes, plan.fit_rows
    target, weight = data.target[rows], data.weight[rows]
    names, scores = [], []
    fitted: dict[str, FittedPlan] = {}
    for block in plan.blocks:
        if fit_layer is None:
            own_plan = block.plan(plan.splits)
            if is_given:
                # The same number on every map: relative to its scale it would know what grew
                # others.
                own_plan = replace(own_plan, is_relative=False)
            layer = fit_plan(own_plan, data, settings)
        else:
            layer = fit_layer(block, settings, not is_given)
        fitted[block.name] = layer
        assert layer.out_of_fold is not None
        names.append(block.name)
        scores.append(layer.out_of_fold)
        if _takes_bare(block, plan, settings):
            assert block.bare is not None
            names.append(block.name + BARE)
            # Several quantiles have the only score of a bare ensemble, each with a weight.
            scores.append(np.broadcast_to(block.bare, layer.out_of_fold.shape))
    settings.progress(BLENDING, 0, 1)
    candidates = np.array(scores)
    n_candidates = 1
    if plan.weights_are_counted:
        theta, constant, n_candidates = lattice_weights(candidates, target, weight, settings)
    else:
        theta, constant = _weights(candidates, target, weight, settings)
    theta_of = dict(zip(names, theta, strict=True))
    n_folds = len(plan.blocks[0].maps)
    # What belongs to a fold stands together, as in the map.
    coefs: list[list[FloatArray]] = [[] for _ in range(n_folds)]
    fits: list[list[LinearFit]] = [[] for _ in range(n_folds)]
    bare_fits: list[list[BareFit]] = [[] for _ in range(n_folds)]
    intercept = constant.copy()
    for block in plan.blocks:
        layer, share = fitted[block.name], theta_of[block.name]
        stops = np.cumsum([part.shape[1] for part in block.maps])[:-1]
        own = np.split(share[:, None] * layer.node_coef, stops, axis=1)
        intercept += share * layer.intercept
        bare_share = theta_of.get(block.name + BARE)
        for q, (part, coef, fit) in enumerate(zip(block.maps, own, layer.fits, strict=True)):
            fits[q].append(replace(fit, share=share * fit.share))
            if bare_share is not None:
                assert isinstance(part, PathMap)  # linear terms have no bare ensemble
                bare = bare_fit(part, classes, bare_share / n_folds)
                bare_fits[q].append(bare)
                coef += bare.share[:, None] * bare.node_coef
                intercept += bare.share * bare.intercept
            coefs[q].append(coef)
    all_fits, all_bare = [*chain.from_iterable(fits)], [*chain.from_iterable(bare_fits)]
    if plan.weights_are_counted:
        # The same weights in every fold, or the model would not be the average of its folds.
        out_of_fold = np.einsum("jk,jik->ik", theta, candidates) + constant
        nested = [(theta, constant)] * len(plan.splits)
    else:
        out_of_fold, nested = _nested(candidates, target, weight, settings, plan.splits)
    nested_theta = [dict(zip(names, theta, strict=True)) for theta, _ in nested]
    settings.progress(BLENDING, 1, 1)
    plans = fitted.items()
    return FittedPlan(
        map=plan.map,
        node_coef=np.hstack([*chain.from_iterable(coefs)]),
        intercept=intercept,
        dual=None,
        alpha={name: _alpha(layer) for name, layer in plans},
        alphas={name: layer.alphas for name, layer in plans},
        cv_scores={name: layer.cv_scores for name, layer in plans},
        out_of_fold=out_of_fold,
        fits=all_fits,
        fold_fits=None,
        n_iter=sum(layer.n_iter for layer in fitted.values()),
        weights=weights_by_name(list(fitted), all_fits, all_bare, settings.task),
        score=settings.task.merit(target, out_of_fold, weight, settings.scoring),
        bare_fits=all_bare,
        fold_predictors=FoldPredictors(
            fits=_fold_fits(fitted, nested_theta),
            bare=[
                replace(block.bare_of_fold(q), share=theta[block.name + BARE])
                for q, theta in enumerate(nested_theta)
                for block in plan.blocks
                if block.name + BARE in theta
            ],
            constant=np.array([constant for _, constant in nested]),
            fold_of_row=folds_of_rows([test for _, test in plan.splits], len(rows)),
            target=target,
            out_of_fold=settings.task.answers(out_of_fold).reshape(len(rows), -1),
            classes=classes,
        ),
        # Alphas of the blocks, and weights: every combination might have been chosen.
        n_candidates=n_candidates * math.prod(layer.n_candidates for layer in fitted.values()),
    )


def _takes_bare(block: BlendBlock, plan: BlendPlan, settings: LayerSettings) -> bool:
    """Whether the bare ensemble of a block is a candidate."""
    # A bare ensemble brings a constant of its own, which a model without intercept has not.
    if block.bare is None or not settings.fit_intercept:
        return False
    if not plan.weights_are_counted or settings.task.classes is None:
        return True
    # Shares of classes are no log-odds: weights that add up to 1 would have no use for them.
    first = block.maps[0]
    assert isinstance(first, PathMap)  # linear terms have no bare ensemble
    return first.forest.bare is not None and first.forest.bare.combines == "sum"


def _fold_fits(
    fitted: dict[str, FittedPlan], weights: list[dict[str, FloatArray]]
) -> list[LinearFit]:
    """Fold by fold the layer of every block, with its weight from the other folds."""
    found = []
    for q, theta in enumerate(weights):
        rows = None
        for name, layer in fitted.items():
            assert layer.fold_fits is not None
            fit = layer.fold_fits[q]
            # The blocks of a fold have the same rows: their numbers are kept once.
            rows = fit.rows if rows is None else rows
            found.append(replace(fit, rows=rows, share=theta[name]))
    return found


def _alpha(layer: FittedPlan) -> float:
    assert isinstance(layer.alpha, float)
    return layer.alpha


def bare_fit(block: PathMap, classes: AnyArray | None, share: FloatArray) -> BareFit:
    """Return the bare ensemble of a block as coefficients on its map.

    Parameters
    ----------
    block : PathMap
        Its forest has scores of its own, of these classes.
    classes : array, optional
        Of the model.
    share : array of shape (n_scores,)
        Its weight in the model.

    Returns
    -------
    fit : BareFit
    """
    # Leaf-only coordinates have none at inner nodes.
    at_leaves = not block.scale[~block.forest.is_leaf].any()
    found = bare_steps(block.forest, classes, at_leaves=at_leaves)
    assert found is not None
    steps, base = found
    scale = block.scale
    # `Grower.weigh` has seen to it that no step is lost here.
    coef = np.divide(steps, scale, out=np.zeros_like(steps), where=scale > 0)
    if len(coef) < len(share):  # several quantiles have its only score
        coef, base = np.tile(coef, (len(share), 1)), np.tile(base, len(share))
    return BareFit(MapPart(block), coef, base, share)


def weights_by_name(
    names: Sequence[str], fits: Sequence[LinearFit], bare_fits: Sequence[BareFit], task: Task
) -> dict[str, Any]:
    """Return the weights of all candidates, as `blend_weights_` shows them.

    Parameters
    ----------
    names : sequence of str
        Of the blocks.
    fits : sequence of LinearFit
        A layer for each block, or for each block of every fold; these share its weight.
    bare_fits : sequence of BareFit
        Bare ensembles of some of them, likewise.
    task : Task
        Several targets have a weight each; classes share theirs.

    Returns
    -------
    weights : dict of str to float, or to array of shape (n_targets,)
    """
    found: dict[str, Any] = {}
    for k, name in enumerate(names):
        own = fits[k :: len(names)]
        maps = {id(fit.part.whole) for fit in own}
        bare = [fit.share for fit in bare_fits if id(fit.part.whole) in maps]
        found[name] = _shown(task, np.sum([np.asarray(fit.share) for fit in own], axis=0))
        if bare:
            found[name + BARE] = _shown(task, np.sum(bare, axis=0))
    return found


def _weights(
    candidates: FloatArray, target: AnyArray, weight: FloatArray, settings: LayerSettings
) -> tuple[FloatArray, FloatArray]:
    return stacking_weights(
        settings.task.loss, candidates, target, weight, fit_intercept=settings.fit_intercept
    )


def _nested(
    candidates: FloatArray,
    target: AnyArray,
    weight: FloatArray,
    settings: LayerSettings,
    splits: Splits,
) -> tuple[FloatArray, list[tuple[FloatArray, FloatArray]]]:
    """Blend the out-of-fold scores of each fold with weights that were learned on the others.

    Returns the scores, and weights and constant of each fold.
    """
    out, found = np.empty(candidates.shape[1:]), []
    for train, test in splits:
        theta, constant = _weights(candidates[:, train], target[train], weight[train], settings)
        out[test] = np.einsum("jk,jik->ik", theta, candidates[:, test]) + constant
        found.append((theta, constant))
    return out, found


def _shown(task: Task, theta: FloatArray) -> FloatArray | float:
    """A number, or for several targets one for each; classes share theirs."""
    if task.classes is not None:
        return float(theta[0])
    per_target: FloatArray = task.shaped(theta)
    return float(per_target) if np.ndim(per_target) == 0 else per_target
