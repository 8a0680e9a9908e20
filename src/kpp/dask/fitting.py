"""Linear layers on rows on workers: alpha out of fold, and the final fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.dask.data import DaskData
from kpp.dask.losses import RowsLoss, class_weights, sum_of_merits
from kpp.dask.maps import DaskMap
from kpp.dask.rows import Rows, add
from kpp.models.selection import CHOOSING, SEARCH_PRODUCTS, LayerSettings, search, settle
from kpp.solvers.losses import LogLoss
from kpp.solvers.newton import NewtonProblem
from kpp.solvers.problem import LinearProblem, Solutions
from kpp.solvers.ridge import RidgeProblem

FITTING = "fitting the linear layer"


@dataclass(frozen=True, eq=False)
class FoldLayer:
    """The linear layer that has not seen a fold.

    Parameters
    ----------
    dual : Rows of shape (n_rows, n_scores)
        0 at the rows of the fold.
    intercept : array of shape (n_scores,)
        b.
    alpha : float
        The penalty.
    n_iter : int
        Products with the Gram.
    coef : array of shape (n_scores, m)
        w.
    """

    dual: Rows
    intercept: FloatArray
    alpha: float
    n_iter: int
    coef: FloatArray


@dataclass(frozen=True, eq=False)
class DaskLayer:
    """A fitted linear layer, and what chose its alpha.

    Parameters
    ----------
    dual : Rows of shape (n_rows, n_scores)
        r.
    coef : array of shape (n_scores, m)
        w.
    intercept : array of shape (n_scores,)
        b.
    alpha : float
        The penalty.
    n_iter : int
        Products with the Gram.
    alphas, cv_scores : arrays of shape (n_alphas,)
        The grid and its out-of-fold scores; the latter None for a given alpha.
    out_of_fold : Rows of shape (n_rows, n_scores), optional
        Scores by layers that have not seen the rows.
    folds : list of FoldLayer
        These layers.
    """

    dual: Rows
    coef: FloatArray
    intercept: FloatArray
    alpha: float
    n_iter: int
    alphas: FloatArray
    cv_scores: FloatArray | None = None
    out_of_fold: Rows | None = None
    folds: list[FoldLayer] = field(default_factory=list)


def pose(data: DaskData, block: DaskMap, weight: Rows, settings: LayerSettings) -> LinearProblem:
    """Hand rows on workers to the solver of the task's loss."""
    loss = settings.task.loss
    if isinstance(loss, LogLoss):
        return NewtonProblem(
            block,
            data.target,
            weight,
            loss=RowsLoss(loss),
            fit_intercept=settings.fit_intercept,
        )
    return RidgeProblem(block, data.target, weight, fit_intercept=settings.fit_intercept)


def fit_layer(
    data: DaskData,
    block: DaskMap,
    settings: LayerSettings,
    fold: Rows | None = None,
    n_folds: int = 0,
    groups: list[DaskMap] | None = None,
    *,
    is_relative: bool = True,
) -> DaskLayer:
    """Choose alpha, where it is not given, and fit the layer.

    Parameters
    ----------
    data : DaskData
        Rows.
    block : DaskMap
        The model's map at them.
    settings : LayerSettings
        Loss and alpha.
    fold : Rows of int of shape (n_rows,), optional
        The fold of each row, where alpha is to be chosen.
    n_folds : int
        Number of folds.
    groups : list of DaskMap, optional
        For each fold the map that has not seen it; the model's own by default.
    is_relative : bool
        Whether alpha is carried relative to the scale of the maps of the folds.

    Returns
    -------
    layer : DaskLayer
    """
    unit = settings.unit(block, data.weight)  # type: ignore[arg-type]
    alphas, cv_scores, out_of_fold = None, None, None
    layers: list[FoldLayer] = []
    alpha = settings.alpha
    if alpha is None:
        assert fold is not None
        maps = [block] * n_folds if groups is None else groups
        is_relative = is_relative and groups is not None
        board = DaskBoard(data, fold, maps, settings, unit, is_relative=is_relative)
        taus, cv_scores, residual = search(board, settings, unit)
        best, kept = settle(board, settings, taus, cv_scores, residual)
        out_of_fold, layers = kept
        board.release()
        alpha = float(taus[best] * unit)
        alphas = taus * unit
    settings.progress(FITTING, 0, 1)
    problem = pose(data, block, data.weight, settings)
    if layers:
        problem.start_at(*_first_guess(layers, data, alpha, settings))
    found = problem.solve(np.array([alpha]), tol=settings.tol, max_iter=settings.max_iter)
    dual: Any = found.dual[0]
    coef = block.coefficients(dual)
    settings.progress(FITTING, 1, 1)
    return DaskLayer(
        dual,
        coef,
        found.intercept[0],
        alpha,
        found.n_iter,
        np.array([alpha]) if alphas is None else alphas,
        cv_scores,
        out_of_fold,
        layers,
    )


class DaskBoard:
    """The folds of a search, on workers: a fold is left out by weights of 0.

    Parameters
    ----------
    data : DaskData
        Rows.
    fold : Rows of int of shape (n_rows,)
        The fold of each row.
    maps : list of DaskMap
        For each fold a map.
    settings : LayerSettings
        Loss and tolerances.
    unit : float
        The alpha of tau = 1 on the final map.
    is_relative : bool
        Whether a tau is relative to each map's own scale.
    """

    def __init__(
        self,
        data: DaskData,
        fold: Rows,
        maps: list[DaskMap],
        settings: LayerSettings,
        unit: float,
        *,
        is_relative: bool,
    ) -> None:
        self._data, self._fold, self._maps, self._settings = data, fold, maps, settings
        self.n_folds = len(maps)
        counts = data.partitions.reduce(_fold_counts, add, fold, len(maps))
        self.pilot_rows = int(counts[0])
        if (counts == 0).any():
            raise ValueError(f"{int((counts == 0).sum())} of {len(maps)} folds have no rows.")
        self._weights = [data.weight * (fold != q) for q in range(len(maps))]
        self._check_classes()
        self._units = [
            settings.unit(block, weight) if is_relative else unit  # type: ignore[arg-type]
            for block, weight in zip(maps, self._weights, strict=True)
        ]
        self._problems: list[LinearProblem | None] = [None] * len(maps)

    def merits(
        self, taus: FloatArray, tol: float, max_iter: int | None
    ) -> tuple[FloatArray, FloatArray]:
        """Out-of-fold merits of taus, and how far the fits are from their solutions."""
        progress, n_folds = self._settings.progress, self.n_folds
        sums, weight, residual = np.zeros(len(taus)), 0.0, np.zeros(len(taus))
        for q in range(n_folds):
            progress(CHOOSING, q, n_folds + 1)
            own, of_fold, left = self._merits(q, taus, tol, max_iter)
            sums, weight, residual = sums + own, weight + of_fold, np.maximum(residual, left)
        return sums / weight, residual

    def pilot(self, taus: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The same on the test rows of the first fold alone."""
        tol = self._settings.search_tol
        sums, weight, residual = self._merits(0, taus, tol, SEARCH_PRODUCTS)
        return sums / weight, residual

    def approach(self, taus: FloatArray) -> None:
        """Solve for some taus from above in all other folds, so that others start close by."""
        for q in range(1, self.n_folds):
            if len(taus):
                self._solve(q, taus, self._settings.search_tol, SEARCH_PRODUCTS)

    def keep(self, tau: float) -> tuple[tuple[Rows, list[FoldLayer]], float]:
        """The out-of-fold scores at one tau with the layers that made them, and their merit."""
        data, loss = self._data, self._settings.task.loss
        kept, layers, total, weight = None, [], 0.0, 0.0
        for q, block in enumerate(self._maps):
            solved = self._solve(q, np.array([tau]), self._settings.final_tol, None)
            dual: Any = solved.dual[0]
            coef = block.coefficients(dual)
            scores = block.scores(coef) + solved.intercept[0]
            sums, own = sum_of_merits(scores, loss, data.target, data.weight, self._fold, q)
            total, weight = total + float(sums[0]), weight + own
            here = (self._fold == q)[:, None]
            kept = scores * here if kept is None else kept + scores * here
            layers.append(
                FoldLayer(dual, solved.intercept[0], float(solved.alphas[0]), solved.n_iter, coef)
            )
            kept.settle()
        progress = self._settings.progress
        progress(CHOOSING, self.n_folds + 1, self.n_folds + 1)
        assert kept is not None
        return (kept, layers), total / weight

    def release(self) -> None:
        """Let go of the solvers: their vectors are as long as the rows are many."""
        self._problems = [None] * self.n_folds

    def _check_classes(self) -> None:
        """Refuse folds without which a class has no rows: its log-odds would have no end."""
        loss = self._settings.task.loss
        if not isinstance(loss, LogLoss):
            return
        for q, weight in enumerate(self._weights):
            rows = class_weights(self._data.target, weight, loss.n_classes)
            if (rows == 0).any():
                assert self._data.classes is not None
                lacking = self._data.classes[rows == 0].tolist()
                raise ValueError(
                    f"Without fold {q} there is no row of class {lacking[0]!r} to fit on: use "
                    "fewer folds, or leave out classes of few rows."
                )

    def _merits(
        self, q: int, taus: FloatArray, tol: float, max_iter: int | None
    ) -> tuple[FloatArray, float, FloatArray]:
        data, loss = self._data, self._settings.task.loss
        solved = self._solve(q, taus, tol, max_iter)
        dual: Any = solved.dual
        columns = dual.map(_dual_columns, axis=0)
        scores = self._maps[q].gram_matvec(columns) + solved.intercept.ravel()
        sums, weight = sum_of_merits(scores, loss, data.target, data.weight, self._fold, q)
        return sums, weight, solved.residual

    def _solve(self, q: int, taus: FloatArray, tol: float, max_iter: int | None) -> Solutions:
        problem = self._problems[q]
        if problem is None:
            problem = pose(self._data, self._maps[q], self._weights[q], self._settings)
            self._problems[q] = problem
        limit = self._settings.max_iter if max_iter is None else max_iter
        return problem.solve(taus * self._units[q], tol=tol, max_iter=limit, warn=False)


def _first_guess(
    layers: list[FoldLayer], data: DaskData, alpha: float, settings: LayerSettings
) -> tuple[Any, FloatArray]:
    """Where the final fit may start: the mean of what the folds found; see `kpp.models`."""
    is_averaged = settings.task.loss.is_averaged
    # Of the log loss alpha counts relative to the sum of weights, which the folds share out.
    share = (len(layers) - 1) / len(layers) if is_averaged else 1.0
    total: Any = layers[0].alpha * share * layers[0].dual
    for layer in layers[1:]:
        total = total + layer.alpha * share * layer.dual
    guess = total / (alpha * (len(layers) - 1))
    return guess, np.mean([layer.intercept for layer in layers], axis=0)


def _dual_columns(dual: FloatArray) -> FloatArray:
    """From (n_taus, n_rows, n_scores) to (n_rows, n_taus * n_scores)."""
    n_taus, n_rows, n_scores = dual.shape
    return dual.transpose(1, 0, 2).reshape(n_rows, n_taus * n_scores)


def _fold_counts(fold: AnyArray, n_folds: int) -> AnyArray:
    return np.bincount(fold, minlength=n_folds)
