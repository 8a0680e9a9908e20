r"""Choosing alpha: folds, their out-of-fold scores, and the grid.

Alphas are carried between maps as a relative number tau. With t the trace of the (weighted,
centred) Gram and n the rows, ridge has ``alpha = tau t / n`` and logistic regression, whose
loss is averaged, ``alpha = tau t / (n sum of weights)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kpp._parallel import run_blocks
from kpp._progress import Progress
from kpp._typing import AnyArray, FloatArray
from kpp.geometry.maps import MapBlock
from kpp.models.max_norm import within_norm
from kpp.models.plans import Fold
from kpp.models.tasks import Task
from kpp.solvers import LinearProblem, Solutions, mean_squared_spread, pose

# Small alphas take many products and seldom win. They are cut off early, which regularises them,
# and taken further where the choice depends on it: first to this many products, then to twice
# as many, and so on.
SEARCH_PRODUCTS = 25
# The tolerances of a loss for the search are those of a fit to this one, the default; a fit to a
# smaller one searches as much more closely.
USUAL_TOL = 1e-4
# So many points on either side of the best are solved to the tolerance of the search, cut off or
# not. To take them as far as the best itself would make fits of some hundred rows 10-20% slower.
NEAR = 2
DEFAULT_TAUS = np.logspace(-4, 2, 20)
# Where every alpha costs products of its own, the grid is scored from above: first so many points,
# then on until the last so many were worse than the best.
FIRST_POINTS, FALLING_POINTS = 8, 3
# Of several scores one fold finds the place, and the others look so many points to either side,
# after a way down in steps of so many points. Where it has at least so many test rows, its choice
# is precise enough: on six sets of 3 to 26 classes, two splits each, the log loss of other rows was
# the same to 0.2% on five, and on the sixth (errors of 1%) 3% less and 4% more.
AROUND, AROUND_STEP, PILOT_ROWS = 2, 3, 250
# Where the points of the grid are counted (`regime="cross-validated"`): fewer, further apart, and
# all there is; for each block of a blend, whose numbers multiply, fewer still.
COUNTED_TAUS = np.logspace(-4, 2, 13)
COUNTED_TAUS_OF_BLOCKS = np.logspace(-3, 1, 5)
CHOOSING = "choosing alpha"
# How often the grid may grow beyond an edge, and by how many points each time.
EXTENSIONS, EXTENSION_POINTS = 2, 5


# What a board keeps of the fits that were chosen.
Kept = TypeVar("Kept", covariant=True)
# From taus to merits, and how far each fit is from its solution.
Grid = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


def counted_taus(*, is_blend: bool) -> FloatArray:
    """The relative alphas of a regime that counts them."""
    return COUNTED_TAUS_OF_BLOCKS if is_blend else COUNTED_TAUS


@dataclass(frozen=True, eq=False)
class LayerSettings:
    """How linear layers are fitted, and how their alpha is chosen.

    Parameters
    ----------
    task : Task
        Loss, and figure of merit.
    alpha : float, optional
        The penalty; None to choose it.
    alphas : array-like, optional
        Grid; None for a relative one that may grow.
    taus : array of shape (n_alphas,), optional
        A relative grid that may not grow, where `alphas` is None.
    scoring : str or callable, optional
        Figure of merit of the out-of-fold predictions; None is the loss's own.
    fit_intercept, tol, max_iter
        As in `kpp.solvers`.
    max_norm : float, optional
        Most that the norm of the coefficients of a layer may be.
    progress : Progress
        Told of every fold.
    n_jobs : int, optional
        Threads; folds are solved side by side.
    """

    task: Task
    alpha: float | None
    alphas: Any
    scoring: Any
    fit_intercept: bool
    tol: float
    max_iter: int
    progress: Progress
    max_norm: float | None = None
    n_jobs: int | None = None
    taus: FloatArray | None = None

    def pose(
        self,
        block: MapBlock,
        target: AnyArray,
        weight: FloatArray,
        offset: FloatArray | None = None,
    ) -> LinearProblem:
        """Hand rows to the solver of the task's loss."""
        return pose(self.task.loss, block, target, weight, offset, fit_intercept=self.fit_intercept)

    def unit(self, block: MapBlock, weight: FloatArray, target: AnyArray | None = None) -> float:
        """Return the alpha that a relative alpha of 1 stands for on a map.

        With the target of its rows, the scale of the loss is read from these alone.
        """
        task = self.task if target is None else self.task.scaled(target, weight)
        return task.loss.unit(mean_squared_spread(block, weight), weight)

    @property
    def search_tol(self) -> float:
        """The tolerance to which fits are solved while alpha is looked for."""
        return self.task.loss.search_tol * min(1.0, self.tol / USUAL_TOL)

    @property
    def final_tol(self) -> float:
        """The tolerance of the fits that decide, and whose predictions are kept."""
        return self.task.loss.final_tol * min(1.0, self.tol / USUAL_TOL)

    def grid(self, unit: float) -> FloatArray:
        """Return the relative alphas to try, rising."""
        if self.alphas is None:
            return DEFAULT_TAUS if self.taus is None else self.taus
        taus = np.unique(np.asarray(self.alphas, dtype=np.float64)) / unit
        if taus.size == 0 or not (taus > 0).all() or not np.isfinite(taus).all():
            raise ValueError(f"alphas must be positive and finite; got {self.alphas!r}.")
        return taus


@dataclass(frozen=True, eq=False)
class FoldSolution:
    """The linear layer of one fold at the chosen alpha.

    Parameters
    ----------
    fold : Fold
        The fold.
    solutions : Solutions
        Of one alpha.
    """

    fold: Fold
    solutions: Solutions


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
    solutions : list of FoldSolution
        The fits that made them.
    """

    taus: FloatArray
    cv_scores: FloatArray
    best: int
    out_of_fold: FloatArray
    solutions: list[FoldSolution]


def select(
    folds: list[Fold],
    target: AnyArray,
    weight: FloatArray,
    settings: LayerSettings,
    *,
    unit: float,
    is_relative: bool,
    reads_anew: bool = False,
    offset: FloatArray | None = None,
) -> Selection:
    """Score every tau out of fold, and extend the grid while its edge is best.

    Parameters
    ----------
    folds : list of Fold
        Their test rows are disjoint and together all rows.
    target, weight : arrays over all rows
        What is fitted.
    settings : LayerSettings
        Loss, grid, figure of merit, tolerances.
    unit : float
        The alpha of tau = 1 on the final map.
    is_relative : bool
        Whether a tau is relative to each fold's own scale; otherwise alpha is the same number in
        every fold.
    reads_anew : bool
        Whether the scale of the loss is read from the rows of each fold's fit alone.
    offset : array of shape (n_rows, n_scores), optional
        Scores that the fitted ones are added to.

    Returns
    -------
    selection : Selection
    """
    fits = []
    for fold in folds:
        # A fold's map has fewer trees, another mass and another spread: the same number alpha would
        # penalise more or less there than on the final map. The ratio to the spread carries over.
        own = unit
        if is_relative:
            rows = fold.train_rows
            own = settings.unit(fold.train, weight[rows], target[rows] if reads_anew else None)
        fits.append(_FoldFit(fold, target, weight, offset, settings, own))
    board = _FoldBoard(fits, target, weight, settings)
    taus, merits, residual = search(board, settings, unit, is_offset=offset is not None)
    best, (kept, solutions) = settle(board, settings, taus, merits, residual)
    return Selection(taus, merits, best, kept, solutions)


class Board(Protocol[Kept]):
    """The folds of a search, wherever their rows are."""

    @property
    def n_folds(self) -> int:
        """Number of folds."""

    @property
    def pilot_rows(self) -> int:
        """Test rows of the first fold."""

    def merits(
        self, taus: FloatArray, tol: float, max_iter: int | None
    ) -> tuple[FloatArray, FloatArray]:
        """Out-of-fold merits of taus, and how far the fits are from their solutions."""

    def pilot(self, taus: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The same on the test rows of the first fold alone."""

    def approach(self, taus: FloatArray) -> None:
        """Solve for some taus from above in all other folds, so that others start close by."""

    def keep(self, tau: float) -> tuple[Kept, float]:
        """The fits of a tau, to the tolerance of what is kept, and their merit."""


def search(
    board: Board[Any], settings: LayerSettings, unit: float, *, is_offset: bool = False
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Score a grid of taus, and extend it while its edge is best.

    Parameters
    ----------
    board : Board
        The folds.
    settings : LayerSettings
        Loss, grid, tolerances.
    unit : float
        The alpha of tau = 1 on the final map.
    is_offset : bool
        Whether scores are added to others, so that a very large tau may be best.

    Returns
    -------
    taus : array of shape (n_alphas,)
        The grid, rising.
    merits : array of shape (n_alphas,)
        Higher is better.
    residual : array of shape (n_alphas,)
        How far the fits are from their solutions; `settle` takes those further that decide.
    """
    loss = settings.task.loss

    def grid(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        # Another figure of merit may look at scores in ways in which a cut-off one misleads.
        limit = SEARCH_PRODUCTS if settings.scoring is None else None
        tol = settings.search_tol
        merits, residual = board.merits(points, tol, limit)
        while limit is not None:
            best = last_best(merits)
            # Beyond the best one itself its lower neighbour must be right.
            open_ = np.arange(len(points)) >= best - 1
            open_ &= residual > tol
            if not open_[: best + 1].any():
                break
            # Beyond some hundred products the user's own max_iter is the limit.
            limit = 2 * limit if limit < 500 else None
            merits[open_], residual[open_] = board.merits(points[open_], tol, limit)
        return merits, residual

    taus = settings.grid(unit)
    if settings.alphas is not None and len(taus) == 1:
        # There is nothing to choose; and how far a search would go depends on all folds together,
        # where intervals rest on the fit of a fold that knows nothing of its labels.
        return taus, np.zeros(1), np.zeros(1)
    # Another figure of merit need not fall once it has begun to.
    by_loss = settings.alphas is None and settings.scoring is None and len(taus) > FIRST_POINTS
    may_grow = settings.alphas is None and settings.taus is None
    if by_loss and loss.n_scores > 1 and not loss.alphas_share_products and board.n_folds > 1:
        taus, merits, residual = _around(taus, board, grid)
    elif by_loss and not loss.alphas_share_products:
        taus, merits, residual = _downward(taus, grid)
    else:
        merits, residual = grid(taus)
    for extension in range(EXTENSIONS + 1):
        best = last_best(merits)
        if not may_grow or 0 < best < len(taus) - 1 or len(taus) < 2:
            break
        if merits[best] - merits[1 if best == 0 else -2] <= loss.negligible:
            break  # next to a tie with its neighbour: nothing to gain beyond
        if is_offset and best > 0 and extension == EXTENSIONS:
            break  # what the penalty shrinks to is best as it is
        if extension == EXTENSIONS:
            at = "lower" if best == 0 else "upper"
            warnings.warn(
                f"The best alpha lies on the {at} edge of the grid, even after extending it: the "
                "scores may still improve beyond. Give your own alphas, or a fixed alpha.",
                ConvergenceWarning,
                stacklevel=3,
            )
            break
        # The new points go on with the ratio of the old ones, on the side of the best.
        step = taus[1] / taus[0] if best == 0 else taus[-1] / taus[-2]
        powers = step ** np.arange(1, EXTENSION_POINTS + 1)
        more = taus[0] / powers[::-1] if best == 0 else taus[-1] * powers
        pairs = list(zip((more, *grid(more)), (taus, merits, residual), strict=True))
        if best != 0:
            pairs = [pair[::-1] for pair in pairs]
        taus, merits, residual = (np.concatenate(pair) for pair in pairs)
    return taus, merits, residual


def settle(
    board: Board[Kept],
    settings: LayerSettings,
    taus: FloatArray,
    merits: FloatArray,
    residual: FloatArray,
) -> tuple[int, Kept]:
    """Decide among the taus of a search, by the very scores that are reported.

    Solved further, the best one of a search may turn out to be worse than the next: then that one
    is solved further, too, until the best of all is one that was.

    Parameters
    ----------
    board : Board
        The folds.
    settings : LayerSettings
        Tolerances.
    taus, merits, residual : arrays of shape (n_alphas,)
        From `search`; merits and residuals are brought up to date in place.

    Returns
    -------
    best : int
        Position of the largest merit; of equal ones, that of the largest alpha.
    kept : object
        What the board keeps of its fits.
    """
    kept: dict[int, Kept] = {}
    while (best := last_best(merits)) not in kept:
        near = np.abs(np.arange(len(taus)) - best) <= NEAR
        near &= residual > settings.search_tol
        if near.any():
            merits[near] = board.merits(taus[near], settings.search_tol, None)[0]
            residual[near] = 0.0  # or as far as max_iter goes: not again
            continue
        kept[best], merits[best] = board.keep(float(taus[best]))
        residual[best] = 0.0
    return best, kept[best]


@dataclass(frozen=True, eq=False)
class _FoldBoard:
    """Folds of rows that are here."""

    fits: list[_FoldFit]
    target: AnyArray
    weight: FloatArray
    settings: LayerSettings

    @property
    def n_folds(self) -> int:
        return len(self.fits)

    @property
    def pilot_rows(self) -> int:
        return len(self.fits[0].fold.test_rows)

    def merits(
        self, taus: FloatArray, tol: float, max_iter: int | None
    ) -> tuple[FloatArray, FloatArray]:
        fits, progress = self.fits, self.settings.progress
        # Scores (n_taus, n_rows, n_scores) by the folds that have not seen the rows.
        out = np.empty((len(taus), len(self.weight), self.settings.task.loss.n_scores))
        residual = np.zeros((len(fits), len(taus)))
        done = count(1)

        def work(q: int) -> None:
            out[:, fits[q].fold.test_rows], residual[q] = fits[q].scores(taus, tol, max_iter)
            progress(CHOOSING, next(done), len(fits) + 1)

        # Folds are larger pieces of work than the trees of a product: each has a thread.
        progress(CHOOSING, 0, len(fits) + 1)
        run_blocks(work, len(fits), self.settings.n_jobs)
        return np.array([self.merit(scores) for scores in out]), residual.max(axis=0)

    def merit(self, scores: FloatArray) -> float:
        settings = self.settings
        return settings.task.merit(self.target, scores, self.weight, settings.scoring)

    def pilot(self, taus: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.fits[0].grid(taus)

    def approach(self, taus: FloatArray) -> None:
        others = self.fits[1:]
        run_blocks(lambda q: others[q].approach(taus), len(others), self.settings.n_jobs)

    def keep(self, tau: float) -> tuple[tuple[FloatArray, list[FoldSolution]], float]:
        """The out-of-fold scores at one tau with the fits that made them, and their merit."""
        # The fits that are kept are those that made the predictions that are kept.
        fits, solutions = self.fits, {}
        kept = np.empty((len(self.weight), self.settings.task.loss.n_scores))

        def keep(q: int) -> None:
            solutions[q] = fits[q].at(tau)
            kept[fits[q].fold.test_rows] = fits[q].predict(solutions[q].solutions)[0]

        run_blocks(keep, len(fits), self.settings.n_jobs)
        self.settings.progress(CHOOSING, len(fits) + 1, len(fits) + 1)
        return (kept, [solutions[q] for q in range(len(fits))]), self.merit(kept)


def last_best(merits: FloatArray) -> int:
    """Position of the best; of several equally good, the one with the largest alpha."""
    # `argmax` takes the first of equals; backward that is the strongest penalty.
    return len(merits) - 1 - int(np.argmax(merits[::-1]))


def _around(
    taus: FloatArray, board: Board[Any], grid: Grid
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Find the best tau of one fold, and score all folds around it.

    Several scores make every product dear. The other folds come down to that place in larger
    steps, and see as many taus on either side as it takes for the best to lie within. Where the
    fold has many test rows, they see its best tau alone, once it is chosen.
    """
    tried, merits, _ = _downward(taus, board.pilot)
    middle = len(taus) - len(tried) + last_best(merits)
    # At the edge of the grid all folds must see whether it goes on.
    if board.pilot_rows >= PILOT_ROWS and 0 < middle < len(taus) - 1:
        # The merit of all rows comes with the fits that are kept.
        return taus[middle : middle + 1], np.zeros(1), np.zeros(1)
    low, high = max(0, middle - AROUND), min(len(taus), middle + AROUND + 1)
    board.approach(taus[high:][::-1][::AROUND_STEP])
    found = grid(taus[low:high])
    while True:
        best = last_best(found[0])
        if best < AROUND and low > 0:
            first, low = low, max(0, low - AROUND)
            pairs = zip(grid(taus[low:first]), found, strict=True)
        elif best == high - low - 1 and high < len(taus):
            last, high = high, min(len(taus), high + AROUND)
            pairs = zip(found, grid(taus[last:high]), strict=True)
        else:
            return (taus[low:high], *found)
        merits, residual = (np.concatenate(pair) for pair in pairs)
        found = merits, residual


def _downward(taus: FloatArray, grid: Grid) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Score the grid from its largest tau down, until the scores have fallen for long enough.

    Small alphas cost the most and seldom win; below the best one the scores only get worse.
    """
    first = len(taus) - FIRST_POINTS
    found = grid(taus[first:])
    while first > 0 and last_best(found[0]) < FALLING_POINTS:
        below = max(0, first - FALLING_POINTS)
        pairs = zip(grid(taus[below:first]), found, strict=True)
        merits, residual = (np.concatenate(pair) for pair in pairs)
        found = merits, residual
        first = below
    return (taus[first:], *found)


class _FoldFit:
    """The linear layer of one fold, and what it predicts for the rows that it has not seen."""

    def __init__(
        self,
        fold: Fold,
        target: AnyArray,
        weight: FloatArray,
        offset: FloatArray | None,
        settings: LayerSettings,
        unit: float,
    ) -> None:
        rows = fold.train_rows
        self.fold = fold
        self._unit = unit
        self._settings = settings
        self._offset = 0.0 if offset is None else offset[fold.test_rows]
        own = None if offset is None else offset[rows]
        self._problem = settings.pose(fold.train, target[rows], weight[rows], own)
        self._target, self._weight = target, weight

    def grid(self, taus: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Score taus on the test rows of this fold alone."""
        settings, rows = self._settings, self.fold.test_rows
        scores, residual = self.scores(taus, settings.search_tol, SEARCH_PRODUCTS)
        target, weight = self._target[rows], self._weight[rows]
        if not weight.any():
            weight = np.ones(len(rows))
        merits = [settings.task.merit(target, s, weight, settings.scoring) for s in scores]
        return np.array(merits), residual

    def approach(self, taus: FloatArray) -> None:
        """Solve for some taus from above, so that others start close by."""
        if len(taus):
            self._solve(taus, self._settings.search_tol, SEARCH_PRODUCTS)

    def scores(
        self, taus: FloatArray, tol: float, max_iter: int | None
    ) -> tuple[FloatArray, FloatArray]:
        """Scores of the test rows, shape (n_taus, n_test_rows, n_scores), and the residuals."""
        solved = self._solve(taus, tol, max_iter)
        return self.predict(solved), solved.residual

    def at(self, tau: float) -> FoldSolution:
        """Return the fit at one tau, to the tolerance of the predictions that are kept.

        Where the norm is limited, the fold's own alpha is raised as that of the final fit will be:
        the alpha that the final fit comes to would bring the labels of the fold in.
        """
        settings, tol = self._settings, self._settings.final_tol
        solved = self._solve(np.array([tau]), tol, None)
        if settings.max_norm is not None:
            solved = within_norm(
                self._problem, solved, self.fold.train, settings, tol=tol, warn=False
            )
        return FoldSolution(self.fold, solved)

    def predict(self, solved: Solutions) -> FloatArray:
        """Scores of the test rows, shape (n_taus, n_test_rows, n_scores)."""
        n_taus, n_train, n_scores = solved.dual.shape
        # One column per alpha and score; a view where there is one score.
        columns = solved.dual.transpose(0, 2, 1).reshape(-1, n_train).T
        product = self.fold.train.gram_matvec(columns, at=self.fold.test)
        scores = product.reshape(-1, n_taus, n_scores).transpose(1, 0, 2)
        scores += solved.intercept[:, None]
        scores += self._offset
        return scores

    def _solve(self, taus: FloatArray, tol: float, max_iter: int | None) -> Solutions:
        limit = self._settings.max_iter if max_iter is None else max_iter
        # The final fit warns where the alpha that is used does not converge.
        return self._problem.solve(taus * self._unit, tol=tol, max_iter=limit, warn=False)
