"""From a plan to fitted linear layers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kpp._parallel import one_blas_thread
from kpp._typing import AnyArray, FloatArray
from kpp.geometry.maps import MapBlock
from kpp.models.data import FitData
from kpp.models.fits import BareFit, Center, LinearFit
from kpp.models.fold_predictors import FoldPredictors, folds_of_rows
from kpp.models.max_norm import within_norm
from kpp.models.plans import FitPlan, Layer
from kpp.models.selection import FoldSolution, LayerSettings, Selection, last_best, select
from kpp.scores import AdditiveForest
from kpp.solvers import Solutions

FITTING = "fitting the linear layer"


@dataclass(frozen=True, eq=False)
class FittedPlan:
    """All that a fit has found.

    Parameters
    ----------
    map : MapBlock
        The model's embedding, at the fit rows.
    node_coef : array of shape (n_scores, m)
        w.
    intercept : array of shape (n_scores,)
        b.
    dual : array of shape (n_fit_rows, n_scores), optional
        r, beyond what the penalty shrinks to; None where a row is in several layers, as in a blend.
    alpha : float
        The penalty; of several layers the mean. For a blend a dict by block.
    alphas, cv_scores : arrays of shape (n_alphas,)
        The grid and its out-of-fold scores; None for a given alpha. For a blend dicts by block.
    out_of_fold : array of shape (n_fit_rows, n_scores), optional
        Out-of-fold scores at alpha.
    fits : list of LinearFit
        The layers; the model is the sum of their shares.
    fold_fits : list of LinearFit, optional
        Those that made the out-of-fold scores.
    n_iter : int
        Products with the Gram in the final fits.
    weights : dict of str to float or array of shape (n_targets,), optional
        Of a blend, by candidate.
    score : float, optional
        Figure of merit of the out-of-fold scores of a blend.
    bare_fits : list of BareFit
        The bare ensembles of a blend.
    fold_predictors : FoldPredictors, optional
        The predictors of the folds; a blend has these, too.
    n_candidates : int
        Where the choices are counted, among how many fits of given grids they were made.
    """

    map: MapBlock
    node_coef: FloatArray
    intercept: FloatArray
    dual: FloatArray | None
    alpha: float | dict[str, float]
    alphas: FloatArray | dict[str, Any]
    cv_scores: FloatArray | dict[str, Any] | None
    out_of_fold: FloatArray | None
    fits: list[LinearFit]
    fold_fits: list[LinearFit] | None
    n_iter: int
    weights: dict[str, Any] | None = None
    score: float | None = None
    bare_fits: list[BareFit] = field(default_factory=list)
    fold_predictors: FoldPredictors | None = None
    n_candidates: int = 1


@one_blas_thread()
def fit_plan(plan: FitPlan, data: FitData, settings: LayerSettings) -> FittedPlan:
    """Choose alpha and fit the layers of a plan.

    Parameters
    ----------
    plan : FitPlan
        From a regime. Its folds are let go when alpha is chosen.
    data : FitData
        All rows.
    settings : LayerSettings
        Loss and alpha.

    Returns
    -------
    fitted : FittedPlan
    """
    rows, progress = plan.fit_rows, settings.progress
    target, weight = data.target[rows], data.weight[rows]
    center: Center | None = None
    offset = None
    if plan.center is not None:
        if isinstance(plan.center, FitPlan):
            centered = fit_plan(plan.center, data, settings)
            center = Center(centered.node_coef, centered.intercept)
        else:
            assert isinstance(plan.center, Center)  # a blend is fitted before
            center = plan.center
        # The same sums as a prediction makes.
        additive = AdditiveForest.from_coefficients(plan.map, center.node_coef, center.intercept)
        leaf_ids = [block.map.leaf_ids for block in additive.blocks if block.map is not None]
        values = [block.map.values for block in additive.linear if block.map is not None]
        offset = additive.scores_at(leaf_ids, values)
    layers = plan.layers
    # What a relative alpha of 1 is on each layer's own map: cross-fit layers differ in scale.
    # Where each has left out a fold, nothing of it may be in that unit.
    units = [
        settings.unit(
            layer.map, weight[layer.rows], target[layer.rows] if plan.layers_are_folds else None
        )
        for layer in layers
    ]
    is_relative = plan.is_relative
    if plan.layers_are_folds and (settings.alphas is not None or not is_relative):
        # Numbers of the caller's, the same on every map: what they are relative to all maps
        # together would know of every fold.
        units, is_relative = [1.0] * len(units), False
    unit = float(np.mean(units))
    selection = None
    if settings.alpha is None:
        selection = select(
            plan.folds,
            target,
            weight,
            settings,
            unit=unit,
            is_relative=is_relative,
            reads_anew=plan.layers_are_folds,
            offset=offset,
        )
    fold_fits = fold_predictors = None
    out_of_fold = None
    if selection is not None:
        fold_fits = [_fold_fit(found, rows, center) for found in selection.solutions]
        out_of_fold = selection.out_of_fold
    tests = [fold.test_rows for fold in plan.folds]
    at_tests = [fold.test for fold in plan.folds] if plan.layers_are_folds else []
    # A forest of its own has the rows of the fold nowhere else.
    own_forests = all(fold.part.rows is None for fold in plan.folds)
    held_out = [fold.test for fold in plan.folds] if own_forests else None
    plan.folds.clear()  # their leaf ids are not needed any more
    guess = None
    if selection is not None:
        if len(layers) == 1:
            alpha = _alpha(settings, selection, units[0])
            guess = _first_guess(selection.solutions, weight, alpha, settings)
        # The folds' maps hold leaf ids of their own; what is kept of them are parts of the
        # model's map.
        selection.solutions.clear()
    tried: dict[int, tuple[list[Solutions], list[float], FloatArray]] = {}
    while True:
        alphas = [_alpha(settings, selection, own) for own in units]
        solved = _solve_layers(layers, alphas, target, weight, offset, settings, guess)
        if not plan.layers_are_folds:
            break
        # The layers themselves, each solved anew: what a search leaves behind in a solver depends
        # on the points that it has gone through, and so on all folds.
        out_of_fold = np.empty((len(rows), settings.task.loss.n_scores))
        for layer, found, test, own in zip(layers, solved, at_tests, tests, strict=True):
            out_of_fold[own] = layer.map.gram_matvec(found.dual[0], at=test) + found.intercept[0]
        if selection is None:
            break
        tried[selection.best] = solved, alphas, out_of_fold
        merit = settings.task.merit(target, out_of_fold, weight, settings.scoring)
        selection.cv_scores[selection.best] = merit
        if settings.max_norm is not None:
            break  # of the alphas that the norm asks for, not of the grid
        # Where another alpha has a better score than this one's by now, it is solved to the end,
        # too. The choice is among the same candidates, so that it costs a bound nothing.
        selection = replace(selection, best=last_best(selection.cv_scores))
        if selection.best in tried:
            solved, alphas, out_of_fold = tried[selection.best]
            break
    progress(FITTING, len(layers), len(layers))
    # Layers have maps of their own, side by side in the model's: their average has the coefficients
    # c_q w_q on block q and the intercept sum_q c_q b_q.
    shares = _shares(solved, of_folds=plan.layers_are_folds)
    dual = np.zeros((len(rows), shares.shape[1]))
    coefficients, intercept, fits = [], np.zeros(shares.shape[1]), []
    for layer, found, alpha, share in zip(layers, solved, alphas, shares, strict=True):
        own_dual = found.dual[0] * share
        dual[layer.rows] = own_dual
        coefficients.append(_coefficients(layer.map, own_dual))
        intercept += found.intercept[0] * share
        fits.append(
            LinearFit(
                part=layer.part,
                rows=rows[layer.rows],
                dual=found.dual[0],
                intercept=_moved(found.intercept[0], center),
                alpha=alpha,
                center=center,
                share=share,
                n_iter=found.n_iter,
            )
        )
    # Without a copy where there is one: it is as long as the nodes are many.
    node_coef = coefficients[0] if len(coefficients) == 1 else np.hstack(coefficients)
    if center is not None:
        # The solver saw the centre's scores as an offset, so its w is the difference from w_0.
        node_coef = node_coef + center.node_coef
    if len(fits) == 1:
        vars(fits[0])["node_coef"] = node_coef  # kept once
    cv_scores = None if selection is None else selection.cv_scores
    if plan.layers_are_folds:
        fold_fits = [replace(fit, share=1.0) for fit in fits]
    if fold_fits is not None and out_of_fold is not None:
        fold_predictors = FoldPredictors(
            fits=fold_fits,
            bare=[],
            constant=np.zeros((len(fold_fits), settings.task.loss.n_scores)),
            fold_of_row=folds_of_rows(tests, len(rows)),
            target=target,
            out_of_fold=settings.task.answers(out_of_fold).reshape(len(rows), -1),
            classes=settings.task.classes,
            held_out=held_out,
        )
    grid = None if selection is None else selection.taus * unit
    alpha = _alpha(settings, selection, unit)
    if settings.max_norm is not None:
        alpha = float(np.mean(alphas))
        if grid is not None and selection is not None:
            # Its score is that of fits within the norm: it belongs to the alpha that was used.
            grid[selection.best] = alpha
    return FittedPlan(
        map=plan.map,
        node_coef=node_coef,
        intercept=_moved(intercept, center),
        # In several maps at once a row has no coefficient of its own.
        dual=None if plan.layers_are_folds else dual,
        alpha=alpha,
        alphas=np.array([alpha]) if grid is None else grid,
        cv_scores=cv_scores,
        out_of_fold=out_of_fold,
        fits=fits,
        fold_fits=fold_fits,
        n_iter=sum(found.n_iter for found in solved),
        fold_predictors=fold_predictors,
        # All points of the grid that the search might have gone through, not those that it has.
        n_candidates=1 if selection is None else len(settings.grid(1.0)),
    )


def _solve_layers(
    layers: list[Layer],
    alphas: list[float],
    target: AnyArray,
    weight: FloatArray,
    offset: FloatArray | None,
    settings: LayerSettings,
    guess: tuple[FloatArray, FloatArray] | None,
) -> list[Solutions]:
    """Solve every layer at its alpha, raised in place where the norm asks for it."""
    solved = []
    for q, layer in enumerate(layers):
        settings.progress(FITTING, q, len(layers))
        own = layer.rows
        part_offset = None if offset is None else offset[own]
        problem = settings.pose(layer.map, target[own], weight[own], part_offset)
        if guess is not None:
            problem.start_at(*guess)
        found = problem.solve(np.array([alphas[q]]), tol=settings.tol, max_iter=settings.max_iter)
        if settings.max_norm is not None:
            found = within_norm(problem, found, layer.map, settings, tol=settings.tol)
            alphas[q] = float(found.alphas[0])
        solved.append(found)
    return solved


def _alpha(settings: LayerSettings, selection: Selection | None, unit: float) -> float:
    """The penalty on a map of a given scale."""
    if selection is None:
        assert settings.alpha is not None
        return settings.alpha
    return float(selection.taus[selection.best] * unit)


def _first_guess(
    solutions: list[FoldSolution], weight: FloatArray, alpha: float, settings: LayerSettings
) -> tuple[FloatArray, FloatArray]:
    """Where the final fit may start: the mean of what the folds found.

    At a solution alpha times a dual coefficient is minus the row's part of the gradient of the
    loss, whatever the map; so the folds' coefficients are averaged as such parts.
    """
    averaged = settings.task.loss.is_averaged
    total = np.zeros((len(weight), solutions[0].solutions.dual.shape[2]))
    n_folds = np.zeros((len(weight), 1))
    for found in solutions:
        rows = found.fold.train_rows
        scale = float(found.solutions.alphas[0]) * (weight[rows].sum() if averaged else 1.0)
        total[rows] += scale * found.solutions.dual[0]
        n_folds[rows] += 1
    total /= n_folds * alpha * (weight.sum() if averaged else 1.0)
    return total, np.mean([found.solutions.intercept[0] for found in solutions], axis=0)


def _moved(intercept: FloatArray, center: Center | None) -> FloatArray:
    return intercept if center is None else intercept + center.intercept


def _fold_fit(found: FoldSolution, fit_rows: AnyArray, center: Center | None) -> LinearFit:
    """What a fold fitted, for keeping."""
    solutions = found.solutions
    return LinearFit(
        part=found.fold.part,
        rows=fit_rows[found.fold.train_rows],
        dual=solutions.dual[0],
        intercept=_moved(solutions.intercept[0], center),
        alpha=float(solutions.alphas[0]),
        center=center,
        n_iter=solutions.n_iter,
    )


def _coefficients(phi: MapBlock, dual: FloatArray) -> FloatArray:
    """Return w = Phi' r, score by score, shape (n_scores, m)."""
    if dual.shape[1] == 1:
        return phi.rmatvec(dual[:, 0])[None]
    # Into its place at once: all scores together are the longest array of a fit.
    coef = np.empty((dual.shape[1], phi.shape[1]))
    for k, r in enumerate(dual.T):
        coef[k] = phi.rmatvec(r)
    return coef


def _shares(solved: list[Solutions], *, of_folds: bool) -> FloatArray:
    """Factor of each layer in each score, shape (n_layers, n_scores).

    A score whose class a layer's rows lack is averaged over the other layers; not where the model
    must be the plain average of its folds, of which each has such a score as it is.
    """
    n_scores = solved[0].dual.shape[2]
    if len(solved) == 1 or of_folds:
        return np.full((len(solved), n_scores), 1.0 / len(solved))
    seen = np.array([np.ones(n_scores, bool) if s.seen is None else s.seen for s in solved])
    if not seen.any(axis=0).all():
        raise ValueError(
            "regime='cross-fit' needs rows of every class in at least one fold that fits; "
            "use fewer folds or another regime."
        )
    shares: FloatArray = seen / seen.sum(axis=0)
    return shares
