"""Linear terms on boxes of raw inputs: where each is least, and where that happens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kpp._typing import BoolArray, FloatArray, OffsetArray
from kpp.geometry.linear import LinearTerms


class BoxTerms:
    r"""The linear terms of a model, on boxes.

    A coordinate rises with its column, as rounded too, and is constant beyond its range: over a box
    the term :math:`\beta_j \psi_j` is least at an end of the interval of column j. A missing value
    stays missing.

    Parameters
    ----------
    blocks : sequence of LinearTerms
        Those of all blocks.
    n_features : int
        Columns of X.
    """

    def __init__(self, blocks: Sequence[LinearTerms], n_features: int) -> None:
        self.blocks = list(blocks)
        columns = [terms.column for terms in self.blocks]
        self.column: OffsetArray = np.concatenate([np.zeros(0, dtype=np.int64), *columns])
        self._low, self._high, self._mean, self._slope, self._of_missing = (
            np.concatenate([np.zeros(0), *parts])
            for parts in (
                [terms.low for terms in self.blocks],
                [terms.high for terms in self.blocks],
                [terms.mean for terms in self.blocks],
                [terms.slope for terms in self.blocks],
                [np.where(terms.is_missing, terms.factor, 0.0) for terms in self.blocks],
            )
        )
        flags = [terms.is_missing for terms in self.blocks]
        self._is_missing: BoolArray = np.concatenate([np.zeros(0, dtype=bool), *flags])
        # Beyond these no term of a column changes; a column without terms has them at infinity.
        self.low, self.high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
        for terms in self.blocks:
            there = ~terms.is_missing
            np.minimum.at(self.low, terms.column[there], terms.low[there])
            np.maximum.at(self.high, terms.column[there], terms.high[there])

    def __len__(self) -> int:
        return len(self.column)

    def ends(self, column: int) -> FloatArray:
        """Values at which a term of a column begins or stops to change, rising."""
        found = [
            np.concatenate([terms.low[own], terms.high[own]])
            for terms in self.blocks
            for own in [(terms.column == column) & ~terms.is_missing]
        ]
        return np.unique(np.concatenate([np.zeros(0), *found]))

    def at(self, x: FloatArray) -> FloatArray:
        """Coordinates of one row, shape (p,): those of ``LinearTerms.coordinates``, to the bit."""
        value = x[self.column]
        present = (np.clip(value, self._low, self._high) - self._mean) * self._slope
        present[self._is_missing] = 0.0
        return np.where(np.isnan(value), self._of_missing, present)

    def least(self, coef: FloatArray, low: FloatArray, high: FloatArray) -> float:
        """The least sum of terms that a box reaches.

        Parameters
        ----------
        coef : array of shape (p,)
            Coefficients.
        low, high : arrays of shape (n_features,)
            Sides of the box; NaN where a value is missing.

        Returns
        -------
        least : float
        """
        if not len(self):
            return 0.0
        return float(np.minimum(coef * self.at(low), coef * self.at(high)).sum())

    def corner(
        self, coef: FloatArray, x: FloatArray, low: FloatArray, high: FloatArray
    ) -> FloatArray:
        """A point of a box where the terms are least, near x in all that does not matter.

        Columns of several blocks go to the end that is better for their sum.
        """
        point = x.copy()
        if not len(self):
            return point
        gain = coef * (self.at(high) - self.at(low))
        total = np.bincount(self.column, gain, minlength=len(x))
        up, down = total < 0, total > 0
        # No farther than where the terms stop to change.
        point[up] = np.maximum(np.minimum(high, self.high), low)[up]
        point[down] = np.minimum(np.maximum(low, self.low), high)[down]
        return point

    def moves(self, coef: FloatArray) -> BoolArray:
        """Columns with a term of a coefficient that is not 0, shape (n_features,)."""
        found = np.zeros(len(self.low), dtype=bool)
        found[self.column[coef != 0]] = True
        return found
