"""Parts that are whole models: each chooses its alpha and its weights on rows of its own.

In the regime "cross-validated" the part of a fold must come from the other folds alone. Where all
parts share one alpha, chosen by all folds, a bound pays for every alpha that might have been
chosen. Here each part is fitted as a shared model of its rows would be, with folds among them: the
choices are a function of rows outside of its fold, like all else, and there is nothing to pay for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.geometry.composed import BlockMap, named_blocks
from kpp.geometry.maps import MapBlock
from kpp.models.blend import fit_blend, weights_by_name
from kpp.models.blend_plans import BlendPlan, of_fold
from kpp.models.data import FitData
from kpp.models.fits import BareFit, LinearFit, MapPart
from kpp.models.fitting import FittedPlan, fit_plan
from kpp.models.fold_predictors import FoldBare, FoldPredictors, folds_of_rows
from kpp.models.grower import Grower
from kpp.models.plans import FitPlan, Splits
from kpp.models.selection import LayerSettings
from kpp.solvers import Loss

if TYPE_CHECKING:
    from kpp.models.regimes import Regime

# The value of `alpha_selection`.
NESTED = "nested"
# Folds among the rows of a part.
INNER_FOLDS = 5


@dataclass(frozen=True, eq=False)
class NestedPlan:
    """How a model is fitted whose parts are whole models.

    Parameters
    ----------
    splits : list of (int array, int array)
        For every fold the rows of its part, and those of the fold.
    parts : list of (Regime, Grower)
        For every fold how its part is laid out, with seeds of its own.
    """

    splits: Splits
    parts: list[tuple[Regime, Grower]]

    def plan(self, q: int, own: FitData, loss: Loss) -> FitPlan | BlendPlan:
        """Grow the forests of a part, and lay out its fit; its rows are numbered from 0."""
        regime, grower = self.parts[q]
        grower, rows = replace(grower, loss=loss), np.arange(len(own))
        make = regime.plan_blend if grower.blends else regime.plan
        return make(own, grower, rows, rows)


@dataclass(frozen=True, eq=False)
class _Part:
    """A fitted part, with its map at all rows and nothing that is at its own rows alone."""

    map: MapBlock
    fits: list[LinearFit]
    bare_fits: list[BareFit]
    node_coef: FloatArray
    intercept: FloatArray
    alpha: Any
    merit: Any
    n_iter: int
    is_blend: bool

    @classmethod
    def of(cls, fitted: FittedPlan, X: Any, rows: AnyArray) -> _Part:
        """Put a fit of some rows at all rows."""
        whole, n_scores = fitted.map.on(X), len(fitted.intercept)
        # By the place of a block in the map, for these are others.
        pairs = zip(named_blocks(fitted.map), named_blocks(whole), strict=True)
        there = {id(own): block for (_, own), (_, block) in pairs} | {id(fitted.map): whole}
        return cls(
            map=whole,
            fits=[
                replace(
                    fit,
                    part=MapPart(there[id(fit.part.whole)], rows),
                    rows=rows,
                    share=np.broadcast_to(fit.share, n_scores),
                )
                for fit in fitted.fits
            ],
            bare_fits=[
                replace(bare, part=MapPart(there[id(bare.part.whole)])) for bare in fitted.bare_fits
            ],
            node_coef=fitted.node_coef,
            intercept=fitted.intercept,
            alpha=fitted.alpha,
            merit=_merits(fitted) if fitted.weights is not None else None,
            n_iter=fitted.n_iter,
            is_blend=fitted.weights is not None,
        )

    @property
    def bare_of_fold(self) -> list[FoldBare]:
        """Its bare ensembles, as the predictor of a fold has them."""
        return [replace(FoldBare.of(own.part.whole), share=own.share) for own in self.bare_fits]

    @property
    def constant(self) -> FloatArray:
        """What its intercept has beyond those of layers and bare ensembles: of a blend its own."""
        parts: list[LinearFit | BareFit] = [*self.fits, *self.bare_fits]
        return self.intercept - np.sum([p.share * p.intercept for p in parts], axis=0)

    def scores(self, rows: AnyArray) -> FloatArray:
        at = self.map.rows(rows)
        return np.column_stack([at.matvec(w) for w in self.node_coef]) + self.intercept


def fit_nested(plan: NestedPlan, data: FitData, settings: LayerSettings) -> FittedPlan:
    r"""Fit a model for every fold on all other rows, and average them.

    .. math:: g = \frac1Q \sum_q g_q, \qquad g_q = A(\text{rows outside of fold } q)

    with A the fit of the shared regime, its choices of alpha and weights included.

    Parameters
    ----------
    plan : NestedPlan
        From a regime.
    data : FitData
        All rows.
    settings : LayerSettings
        Loss and alpha, for every part.

    Returns
    -------
    fitted : FittedPlan
        Its `alphas` are those that the parts have chosen, and `cv_scores` the score of each part on
        the fold that it has not seen; in a blend dicts by block, with the scores that the alphas
        were chosen by. Nothing was chosen by the folds of the model: `n_candidates` is 1.
    """
    parts = []
    for q, (train, _) in enumerate(plan.splits):
        own = data.alone(train)
        _check_classes(own, settings, q)
        # A scale or a threshold of the loss is read from these rows, too.
        alone = replace(settings, task=settings.task.scaled(own.target, own.weight))
        laid_out = plan.plan(q, own, alone.task.loss)
        if isinstance(laid_out, BlendPlan):
            fitted = fit_blend(laid_out, own, alone)
        else:
            fitted = fit_plan(laid_out, own, alone)
        parts.append(_Part.of(fitted, data.X, train))
    return _average(parts, plan.splits, data, settings)


def _average(
    parts: Sequence[_Part], splits: Splits, data: FitData, settings: LayerSettings
) -> FittedPlan:
    """One coefficient vector, with 1 / Q of every part's on the trees of that part."""
    n_folds, task, is_blend = len(parts), settings.task, parts[0].is_blend
    names = [name for name, _ in named_blocks(parts[0].map)]
    of_folds = [fit for part in parts for fit in part.fits]
    fits = [replace(fit, share=fit.share / n_folds) for fit in of_folds]
    bare = [own for part in parts for own in part.bare_fits]
    bare_fits = [replace(own, share=own.share / n_folds) for own in bare]
    tests = [test for _, test in splits]
    out_of_fold = np.empty((len(data), len(parts[0].intercept)))
    merits = []
    for part, test in zip(parts, tests, strict=True):
        own = out_of_fold[test] = part.scores(test)
        weight = data.weight[test] if data.weight[test].any() else np.ones(len(test))
        merits.append(task.merit(data.target[test], own, weight, settings.scoring))
    merit = task.merit(data.target, out_of_fold, data.weight, settings.scoring)
    return FittedPlan(
        map=BlockMap(
            [
                (of_fold(name, q), block)
                for q, part in enumerate(parts)
                for name, block in named_blocks(part.map)
            ]
        ),
        node_coef=np.hstack([part.node_coef / n_folds for part in parts]),
        intercept=np.mean([part.intercept for part in parts], axis=0),
        # A row is in several parts.
        dual=None,
        alpha=_by_block([part.alpha for part in parts], _mean),
        alphas=_by_block([part.alpha for part in parts], np.array),
        cv_scores=_by_block([p.merit for p in parts], np.array) if is_blend else np.array(merits),
        out_of_fold=out_of_fold,
        fits=fits,
        fold_fits=None if is_blend else of_folds,
        n_iter=sum(part.n_iter for part in parts),
        weights=weights_by_name(names, fits, bare_fits, task) if is_blend else None,
        score=merit if is_blend else None,
        bare_fits=bare_fits,
        fold_predictors=FoldPredictors(
            fits=of_folds,
            bare=[own for part in parts for own in part.bare_of_fold],
            constant=np.array([part.constant for part in parts]),
            fold_of_row=folds_of_rows(tests, len(data)),
            target=data.target,
            out_of_fold=task.answers(out_of_fold).reshape(len(data), -1),
            classes=task.classes,
        ),
    )


def _merits(fitted: FittedPlan) -> dict[str, float]:
    """Of the blocks of a blend the out-of-fold score of their alphas, among the rows of a part."""
    assert isinstance(fitted.alpha, dict)
    assert isinstance(fitted.alphas, dict)
    assert isinstance(fitted.cv_scores, dict)
    return {
        name: _at(alpha, fitted.alphas[name], fitted.cv_scores[name])
        for name, alpha in fitted.alpha.items()
    }


def _at(alpha: float, alphas: Any, scores: Any) -> float:
    return float(scores[np.argmin(np.abs(np.log(alphas / alpha)))])


def _mean(values: list[float]) -> float:
    # One that all have been given stays as it is.
    return values[0] if len(set(values)) == 1 else float(np.mean(values))


def _by_block(values: list[Any], together: Any) -> Any:
    """One value of all parts; where each has a dict, a dict."""
    if isinstance(values[0], dict):
        return {name: _by_block([own[name] for own in values], together) for name in values[0]}
    return together(values)


def _check_classes(own: FitData, settings: LayerSettings, q: int) -> None:
    """Refuse a part that would not know all classes: it must be fitted as any other."""
    classes = settings.task.classes
    known = own.weight > 0
    if classes is not None and len(np.unique(own.target[known])) < len(classes):
        raise ValueError(
            f"Without fold {q} the rows lack one of the {len(classes)} classes, and "
            "alpha_selection='nested' fits every part by itself: use fewer folds, or "
            "alpha_selection='fold-grown'."
        )
