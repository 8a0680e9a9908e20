r"""Choosing alpha: folds, their out-of-fold scores, and the grid.

Alphas are carried between maps as a relative number tau. With t the trace of the (weighted,
centred) Gram and n the rows, ridge has ``alpha = tau t / n`` and logistic regression, whose
loss is averaged, ``alpha = tau t / (n sum of weights)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kpp._progress import Progress
from kpp._typing import AnyArray, FloatArray
from kpp.geometry.maps import MapBlock

# Small alphas take many products and seldom win. They are cut off early, which regularises them,
# and taken further where the choice depends on it: first to this many products, then to twice
# as many, and so on.
SEARCH_PRODUCTS = 50
DEFAULT_TAUS = np.logspace(-4, 2, 20)
# How often the grid may grow beyond an edge, and by how many points each time.
EXTENSIONS, EXTENSION_POINTS = 2, 5


class Solve(Protocol):
    """Fit the linear layer of given rows for several alphas: a solver with its data."""

    def __call__(
        self, alphas: FloatArray, *, tol: float | None = None, max_iter: int | None = None
    ) -> Solved:
        """Return the solutions; `tol` and `max_iter` are the user's by default."""


class Pose(Protocol):
    """Hand rows, targets, weights and offsets to a solver."""

    def __call__(
        self, block: MapBlock, target: AnyArray, weight: FloatArray, offset: FloatArray | None
    ) -> Solve:
        """Return the solver of these rows."""


@dataclass(frozen=True, eq=False)
class Solved:
    """Solutions for several alphas.

    Parameters
    ----------
    dual : array of shape (n_alphas, n_rows, n_scores)
        Coefficients of the rows.
    intercept : array of shape (n_alphas, n_scores)
        b.
    n_iter : int
        Products with the Gram.
    residual : array of shape (n_alphas,)
        How far each is from the solution, in the solver's measure.
    seen : bool array of shape (n_scores,), optional
        Scores whose class these rows hold; None for all.
    """

    dual: FloatArray
    intercept: FloatArray
    n_iter: int
    residual: FloatArray
    seen: AnyArray | None = None


@dataclass(frozen=True, eq=False)
class Fold:
    """One fold: an embedding that has not seen the test rows, at train and test rows.

    Parameters
    ----------
    train, test : MapBlock
        The same embedding at both sets of rows.
    train_rows, test_rows : int arrays
        Which rows these are.
    """

    train: MapBlock
    test: MapBlock
    train_rows: AnyArray
    test_rows: AnyArray


@dataclass(frozen=True, eq=False)
class Selection:
    """What the search found.

    Parameters
    ----------
    taus : array of shape (n_alphas,)
        The grid, rising.
    cv_scores : array of shape (n_alphas,)
        Score of the out-of-fold predictions, higher is better.
    best : int
        Position of the best.
    out_of_fold : array of shape (n_rows, n_scores)
        Out-of-fold scores at the best tau.
    """

    taus: FloatArray
    cv_scores: FloatArray
    best: int
    out_of_fold: FloatArray


def mean_squared_spread(block: MapBlock, weight: FloatArray) -> float:
    r"""Trace of the weighted centred Gram over the number of rows.

    .. math:: \frac1n \sum_i s_i \|\Phi_i - \bar\phi\|^2
    """
    share = weight / weight.sum()
    square = share @ block.row_norms(squared=True)
    spread = square - share @ block.gram_matvec(share)
    if spread <= 4 * np.finfo(float).eps * square:
        spread = 1.0  # all rows in one place: w is 0 for every alpha
    return float(spread * weight.sum() / np.count_nonzero(weight))


def select(
    folds: list[Fold],
    target: AnyArray,
    weight: FloatArray,
    taus: FloatArray,
    offset: FloatArray | None = None,
    *,
    pose: Pose,
    unit: Callable[[MapBlock, FloatArray], float],
    score: Callable[[FloatArray], float],
    tols: tuple[float, float],
    truncate: bool,
    extend: bool,
    progress: Progress,
) -> Selection:
    """Score every tau out of fold, and extend the grid while its edge is best.

    Parameters
    ----------
    folds : list of Fold
        Their test rows are disjoint and together all rows.
    target, weight : arrays over all rows
        What is fitted.
    taus : array
        Grid, rising.
    offset : array of shape (n_rows, n_scores), optional
        Scores that the fitted ones are added to.
    pose : Pose
        The solver.
    unit : callable
        ``(map, weight) -> alpha of tau = 1``.
    score : callable
        Out-of-fold scores of shape (n_rows, n_scores) -> figure of merit.
    tols : tuple of float
        Residuals: the first for the choice, the second for the predictions that are kept.
    truncate : bool
        Whether alphas well below the best may be scored by iterates that were cut off early.
    extend : bool
        Whether the grid may grow.
    progress : Progress
        Told of every fold.

    Returns
    -------
    selection : Selection
    """
    fits = [_FoldFit(fold, target, weight, offset, pose, unit) for fold in folds]

    def out_of_fold(
        points: FloatArray, tol: float, max_iter: int | None
    ) -> tuple[FloatArray, FloatArray]:
        """Scores (n_points, n_rows, n_scores) by the folds that have not seen the rows."""
        out, residual = None, np.zeros(len(points))
        for q, fit in enumerate(fits):
            progress("choosing alpha", q, len(fits))
            part, left = fit.scores(points, tol, max_iter)
            if out is None:
                out = np.empty((len(points), len(weight), part.shape[2]))
            out[:, folds[q].test_rows] = part
            np.maximum(residual, left, out=residual)
        assert out is not None
        return out, residual

    def grid(points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        limit = SEARCH_PRODUCTS if truncate else None
        scores, residual = out_of_fold(points, tols[0], limit)
        merits = np.array([score(s) for s in scores])
        while limit is not None:
            best = _last_best(merits)
            # Beyond the best one itself its lower neighbour must be right.
            open_ = np.arange(len(points)) >= best - 1
            open_ &= residual > tols[0]
            if not open_[: best + 1].any():
                break
            limit = 2 * limit if limit < 500 else None
            scores[open_], residual[open_] = out_of_fold(points[open_], tols[0], limit)
            merits[open_] = [score(s) for s in scores[open_]]
        return scores, merits, residual

    scores, merits, residual = grid(taus)
    for extension in range(EXTENSIONS + 1):
        best = _last_best(merits)
        if not extend or 0 < best < len(taus) - 1 or len(taus) < 2:
            break
        if merits[best] == merits[1 if best == 0 else -2]:
            break  # a tie with its neighbour: nothing to gain beyond
        if offset is not None and best > 0 and extension == EXTENSIONS:
            break  # what the penalty shrinks to is best as it is
        if extension == EXTENSIONS:
            at = "lower" if best == 0 else "upper"
            warnings.warn(
                f"The best alpha lies on the {at} edge of the grid, even after extending it: the "
                "scores may still improve beyond. Give your own alphas, or a fixed alpha.",
                ConvergenceWarning,
                stacklevel=2,
            )
            break
        step = taus[1] / taus[0] if best == 0 else taus[-1] / taus[-2]
        powers = step ** np.arange(1, EXTENSION_POINTS + 1)
        more = taus[0] / powers[::-1] if best == 0 else taus[-1] * powers
        pairs = list(zip((more, *grid(more)), (taus, scores, merits, residual), strict=True))
        if best != 0:
            pairs = [pair[::-1] for pair in pairs]
        taus, scores, merits, residual = (np.concatenate(pair) for pair in pairs)
    kept = scores[best]
    progress("choosing alpha", len(fits), len(fits))
    if residual[best] > tols[1]:
        kept = out_of_fold(taus[best : best + 1], tols[1], None)[0][0]
        merits[best] = score(kept)
    return Selection(taus, merits, best, kept)


def _last_best(merits: FloatArray) -> int:
    """Position of the best; of several equally good, the one with the largest alpha."""
    return len(merits) - 1 - int(np.argmax(merits[::-1]))


class _FoldFit:
    """The linear layer of one fold, and what it predicts for the rows that it has not seen."""

    def __init__(
        self,
        fold: Fold,
        target: AnyArray,
        weight: FloatArray,
        offset: FloatArray | None,
        pose: Pose,
        unit: Callable[[MapBlock, FloatArray], float],
    ) -> None:
        rows = fold.train_rows
        self._fold = fold
        self._unit = unit(fold.train, weight[rows])
        self._offset = 0.0 if offset is None else offset[fold.test_rows]
        own = None if offset is None else offset[rows]
        self._solve = pose(fold.train, target[rows], weight[rows], own)

    def scores(
        self, taus: FloatArray, tol: float, max_iter: int | None
    ) -> tuple[FloatArray, FloatArray]:
        """Scores of the test rows, shape (n_taus, n_test_rows, n_scores), and the residuals."""
        with warnings.catch_warnings():
            # The final fit warns where the alpha that is used does not converge.
            warnings.simplefilter("ignore", ConvergenceWarning)
            solved = self._solve(taus * self._unit, tol=tol, max_iter=max_iter)
        n_taus, n_train, n_scores = solved.dual.shape
        # One column per alpha and score; a view where there is one score.
        columns = solved.dual.transpose(0, 2, 1).reshape(-1, n_train).T
        product = self._fold.train.gram_matvec(columns, at=self._fold.test)
        scores = product.reshape(-1, n_taus, n_scores).transpose(1, 0, 2)
        scores += solved.intercept[:, None]
        scores += self._offset
        return scores, solved.residual
