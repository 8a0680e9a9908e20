"""What the predictors of folds lose on the rows, or groups of rows, that they have not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.bounds.betting import folds_betting
from kpp.bounds.folds_kl import folds_binomial


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What the predictors of the folds say of the rows that they have not seen.

    Parameters
    ----------
    scores : array of shape (n_rows, n_scores)
        Of each row by the predictor without its fold.
    target : array of shape (n_rows,)
        Class numbers, or numbers.
    fold_of_row : int array of shape (n_rows,)
        The fold that each row was left out with.
    n_classes : int
        0 for regression.
    n_candidates : int
        N.
    groups : int array of shape (n_rows,), optional
        Numbers of groups that folds keep whole. Then a draw is a group, and loses what its rows
        lose on average; otherwise a draw is a row.
    """

    scores: FloatArray
    target: AnyArray
    fold_of_row: AnyArray
    n_classes: int
    n_candidates: int
    groups: AnyArray | None = None

    @property
    def sizes(self) -> AnyArray:
        """Draws of each fold: rows, or groups."""
        return np.bincount(self._folds)

    @cached_property
    def _folds(self) -> AnyArray:
        """The fold of each draw."""
        if self.groups is None:
            return self.fold_of_row
        folds = np.empty(int(self.groups.max()) + 1, dtype=np.int64)
        folds[self.groups] = self.fold_of_row
        return folds

    def of_draws(self, values: FloatArray) -> FloatArray:
        """Values of rows as those of draws: themselves, or the means of groups."""
        if self.groups is None:
            return values
        return np.bincount(self.groups, values) / np.bincount(self.groups)

    def bound(self, losses: FloatArray, delta: float, n_cells: int = 1) -> tuple[float, float]:
        """Mean over folds of losses in [0, 1], and the bound of its expectation."""
        # Sums may be off by a rounding.
        drawn = np.clip(self.of_draws(losses), 0.0, 1.0)
        by_fold = [drawn[self._folds == q] for q in range(len(self.sizes))]
        n_candidates = self.n_candidates * n_cells
        found = folds_betting(by_fold, n_candidates=n_candidates, delta=delta)
        return float(np.mean([own.mean() for own in by_fold])), found

    def error_bound(self, wrong: FloatArray, delta: float) -> tuple[float, float]:
        """The same of losses that are 0 or 1: of rows there is a count, of larger groups none."""
        if len(self._folds) < len(wrong):
            return self.bound(wrong, delta)
        counts = np.bincount(self._folds, self.of_draws(wrong))
        found = folds_binomial(counts, self.sizes, n_candidates=self.n_candidates, delta=delta)
        return float((counts / self.sizes).mean()), found

    def best(
        self,
        losses: Callable[[float], tuple[FloatArray, float]],
        cells: tuple[float, ...],
        delta: float,
    ) -> tuple[float, float, float]:
        """The cell with the smallest bound, its mean loss and the bound.

        `losses` gives those of a cell, and the most that they can be.
        """
        found = []
        for cell in cells:
            own, most = losses(cell)
            mean, bound = self.bound(own / most, delta, len(cells))
            found.append((cell, mean * most, bound * most))
        return min(found, key=lambda one: one[2])

    @cached_property
    def class_shares(self) -> FloatArray:
        """Share of each class, draws counted alike; shape (n_classes,)."""
        each = [self.of_draws((self.target == k) * 1.0).mean() for k in range(self.n_classes)]
        return np.array(each)

    @cached_property
    def trivial_level(self) -> float:
        """Error of the likeliest class, or variance, draws counted alike."""
        if self.n_classes:
            return float(1 - self.class_shares.max())
        middle = self.of_draws(self.target).mean()
        return float(self.of_draws(np.square(self.target - middle)).mean())
