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

from kpp._typing import AnyArray, FloatArray
from kpp.geometry.maps import MapBlock

# Small alphas take many products and seldom win. They are cut off early, which regularises them,
# and taken up again where the choice depends on it.
SEARCH_PRODUCTS = (100, 400)
DEFAULT_TAUS = np.logspace(-4, 2, 20)
# How often the grid may grow beyond an edge, and by how many points each time.
EXTENSIONS, EXTENSION_POINTS = 2, 5


class Solve(Protocol):
    """Fit the linear layer for several alphas: a solver, with all but the data settled."""

    def __call__(
        self,
        block: MapBlock,
        target: AnyArray,
        alphas: FloatArray,
        weight: FloatArray,
        offset: FloatArray | None = None,
        *,
        tol: float | None = None,
        max_iter: int | None = None,
    ) -> Solved:
        """Return the solutions; `tol` and `max_iter` are the user's by default."""


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
    solve: Solve,
    unit: Callable[[MapBlock, FloatArray], float],
    score: Callable[[FloatArray], float],
    tols: tuple[float, float, float],
    truncate: bool,
    extend: bool,
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
    solve : Solve
        The solver.
    unit : callable
        ``(map, weight) -> alpha of tau = 1``.
    score : callable
        Out-of-fold scores of shape (n_rows, n_scores) -> figure of merit.
    tols : tuple of float
        Residuals: at most the first where the choice depends on it, the second where the solver
        stops, the third for the predictions that are kept.
    truncate : bool
        Whether alphas well below the best may be scored by iterates that were cut off early.
    extend : bool
        Whether the grid may grow.

    Returns
    -------
    selection : Selection
    """

    def grid(points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        first, scores = 0, None
        merits, residual = np.empty(len(points)), np.empty(len(points))
        limits = [*SEARCH_PRODUCTS, None] if truncate else [None]
        while True:
            # From the second time on, only alphas from the best one's lower neighbours upward.
            products = limits.pop(0) if len(limits) > 1 else limits[0]
            new, residual[first:] = _out_of_fold(
                folds, target, weight, points[first:], offset, solve, unit, tols[1], products
            )
            scores = new if scores is None else np.concatenate([scores[:first], new])
            merits[first:] = [score(s) for s in new]
            best = _last_best(merits)
            needed = max(0, best - 2)
            settled = products is None or (residual[needed : best + 1] <= tols[0]).all()
            if needed >= first and settled:
                break
            first = needed
        assert scores is not None
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
    if residual[best] > tols[2]:
        chosen = taus[best : best + 1]
        kept = _out_of_fold(folds, target, weight, chosen, offset, solve, unit, tols[2], None)[0][0]
        merits[best] = score(kept)
    return Selection(taus, merits, best, kept)


def _last_best(merits: FloatArray) -> int:
    """Position of the best; of several equally good, the one with the largest alpha."""
    return len(merits) - 1 - int(np.argmax(merits[::-1]))


def _out_of_fold(
    folds: list[Fold],
    target: AnyArray,
    weight: FloatArray,
    taus: FloatArray,
    offset: FloatArray | None,
    solve: Solve,
    unit: Callable[[MapBlock, FloatArray], float],
    tol: float | None,
    max_iter: int | None,
) -> tuple[FloatArray, FloatArray]:
    """Scores of every row by the fold that has not seen it, and the largest residuals.

    Returns
    -------
    scores : array of shape (n_taus, n_rows, n_scores)
    residual : array of shape (n_taus,)
    """
    out: FloatArray | None = None
    residual = np.zeros(len(taus))
    for fold in folds:
        train_weight = weight[fold.train_rows]
        train_offset = None if offset is None else offset[fold.train_rows]
        with warnings.catch_warnings():
            # The final fit warns where the alpha that is used does not converge.
            warnings.simplefilter("ignore", ConvergenceWarning)
            solved = solve(
                fold.train,
                target[fold.train_rows],
                taus * unit(fold.train, train_weight),
                train_weight,
                train_offset,
                tol=tol,
                max_iter=max_iter,
            )
        residual = np.maximum(residual, solved.residual)
        if out is None:
            out = np.zeros((len(taus), len(weight), solved.dual.shape[2]))
        for k in range(len(taus)):
            w = fold.train.rmatmat(solved.dual[k])
            out[k, fold.test_rows] = fold.test.matmat(w) + solved.intercept[k]
    assert out is not None
    return (out if offset is None else out + offset), residual
