"""What `predict_interval` and `predict_set` return: ends or sets, and what they are worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kpp._assumptions import Assumption
from kpp._shown import Shown
from kpp._typing import AnyArray, BoolArray, FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class CrossConformal(Shown):
    """What intervals and sets have in common.

    Parameters
    ----------
    prediction : array of shape (n_rows,) or (n_rows, n_targets)
        The model's own, by all folds together.
    coverage : float
        The share of new rows that is aimed at.
    proven_coverage : float
        The share that the theorem promises at this level, where its conditions hold: less than
        the aim, and 0 where it promises nothing.
    conditions : tuple of Assumption
        Of the theorem: which hold, which fail, and why.
    n_calibration : int
        Rows of the fit whose out-of-fold errors were ranked.
    n_folds : int
        Folds that they came in.
    """

    prediction: AnyArray
    coverage: float
    proven_coverage: float
    conditions: tuple[Assumption, ...]
    n_calibration: int
    n_folds: int

    def __len__(self) -> int:
        return len(self.prediction)

    @property
    def is_guarantee(self) -> bool:
        """Whether `proven_coverage` is promised: no condition is known to fail."""
        return self.proven_coverage > 0 and not self.failing

    @property
    def failing(self) -> tuple[Assumption, ...]:
        """The conditions that fail."""
        return tuple(own for own in self.conditions if own.holds is False)

    @property
    def status(self) -> str:
        """What the coverage is worth, in words."""
        if self.is_guarantee:
            return f"guaranteed for at least {self.proven_coverage:.4g}"
        return "not a guarantee"

    def _lines(self, first: str) -> str:
        how = (
            f"coverage {self.coverage:.4g} aimed at, {self.status}; cross-conformal (CV+), "
            f"{self.n_calibration} rows in {self.n_folds} folds"
        )
        return "\n".join([first, how, *(f"  {own}" for own in self.conditions)])


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictionIntervals(CrossConformal):
    """An interval for every row, and every target.

    Parameters
    ----------
    lower, upper : arrays of shape (n_rows,) or (n_rows, n_targets)
        Its ends. They need not have the prediction in their middle.
    widths : {"adaptive", "constant"}
        Whether errors were scaled by the spread of the target around each row.
    prediction, coverage, proven_coverage, conditions, n_calibration, n_folds
        As in `CrossConformal`. The coverage is that of each target by itself.
    """

    lower: FloatArray
    upper: FloatArray
    widths: str = "constant"

    @property
    def width(self) -> FloatArray:
        """Upper less lower end, shape (n_rows,) or (n_rows, n_targets)."""
        return self.upper - self.lower

    def __repr__(self) -> str:
        return (
            f"PredictionIntervals(n_rows={len(self)}, coverage={self.coverage:.4g}, "
            f"is_guarantee={self.is_guarantee})"
        )

    def __str__(self) -> str:
        width = f", median width {np.median(self.width):.4g}" if len(self) else ""
        each = f" of {self.lower.shape[1]} targets each" if self.lower.ndim == 2 else ""
        return self._lines(f"Intervals for {len(self)} rows{each}{width} ({self.widths} widths)")


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictionSets(CrossConformal):
    """A set of classes for every row.

    Parameters
    ----------
    sets : bool array of shape (n_rows, n_classes)
        Whether each class is in the set.
    classes : array of shape (n_classes,)
        The labels.
    method : {"lac", "aps"}
        The score that was ranked.
    per_class : bool
        Whether ranks are among the rows of each class by itself.
    random_state : int, optional
        Seed of the random step of "aps"; None without it.
    prediction, coverage, proven_coverage, conditions, n_calibration, n_folds
        As in `CrossConformal`.
    """

    sets: BoolArray
    classes: AnyArray
    method: str
    per_class: bool
    random_state: int | None = None

    @property
    def sizes(self) -> AnyArray:
        """Number of classes in each set, int array of shape (n_rows,)."""
        return self.sets.sum(axis=1)

    @property
    def mean_size(self) -> float:
        """Mean number of classes in a set; NaN for no rows."""
        return float(self.sizes.mean()) if len(self) else np.nan

    @property
    def n_empty(self) -> int:
        """Sets without any class: rows that are unlike the rows of every class."""
        return int((self.sizes == 0).sum())

    @property
    def labels(self) -> list[AnyArray]:
        """The classes in each set, one array per row."""
        return [self.classes[own] for own in self.sets]

    def __repr__(self) -> str:
        return (
            f"PredictionSets(n_rows={len(self)}, coverage={self.coverage:.4g}, "
            f"mean_size={self.mean_size:.4g}, is_guarantee={self.is_guarantee})"
        )

    def __str__(self) -> str:
        each = ", ranks in each class" if self.per_class else ""
        return self._lines(
            f"Sets of {len(self.classes)} classes for {len(self)} rows, mean size "
            f"{self.mean_size:.4g}, {self.n_empty} empty; score {self.method}{each}"
        )
