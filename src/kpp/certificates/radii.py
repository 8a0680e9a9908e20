"""Radii at which a box meets a threshold: millions in a large forest, few of them looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kpp._typing import FloatArray

LARGEST = float(np.finfo(np.float64).max)
# Every so many thresholds of a column are looked at first, those between them later.
EVERY = 64


class Radii:
    """Radii just below those at which a side of the box around x meets a threshold, rising.

    Just below: what rounding may add to a side is taken off, some units in the last place. The last
    one is infinite. Before it comes the largest float where an infinite value, which no finite
    radius moves, is all that is left to move.

    Parameters
    ----------
    thresholds : sequence of arrays
        Thresholds on each column, rising.
    x : array of shape (n_features,)
        The row.
    scale : array of shape (n_features,)
        Unit of each column.
    sums : array, optional
        Radii just below those at which the sum of an oblique split can meet its threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.certificates.radii import Radii
    >>> radii = Radii([np.array([0.0, 1.0, 5.0])], np.array([2.0]), np.ones(1))
    >>> radii.between(0.0, np.inf).round(9).tolist()
    [1.0, 2.0, 3.0, inf]
    >>> round(radii.last(lambda radius: radius < 1.5), 9)
    1.0
    """

    def __init__(
        self,
        thresholds: Sequence[FloatArray],
        x: FloatArray,
        scale: FloatArray,
        sums: FloatArray | None = None,
    ) -> None:
        self.thresholds, self.x, self.scale = thresholds, x, scale
        self.sums = np.empty(0) if sums is None else np.unique(sums)
        # Columns without a unit stay, columns of an infinite one are free at any radius: neither
        # has a radius at which a side meets a threshold.
        counted = (scale > 0) & np.isfinite(scale)
        counted &= np.array([len(own) > 0 for own in thresholds], dtype=bool)
        self.columns = np.flatnonzero(counted & np.isfinite(x)).tolist()
        self.stays = bool((counted & np.isinf(x)).any())
        every = [self.thresholds[j][::EVERY] for j in self.columns]
        self.pivots = self._rising(every, self.sums[::EVERY])

    def between(self, low: float, high: float) -> FloatArray:
        """All radii above the first and not above the second."""
        parts = []
        for j in self.columns:
            own, value, unit = self.thresholds[j], self.x[j], self.scale[j]
            # Wide enough for the rounding below: what is too much goes again.
            with np.errstate(over="ignore"):
                far = (high * unit + 16 * np.spacing(abs(value))) * (1 + 1e-12)
                near = low * unit * (1 - 1e-12)
                edges = [value - far, value - near, value + near, value + far]
            first, second, third, last = np.searchsorted(own, edges).tolist()
            # The threshold at an edge itself is counted in.
            parts.append(np.concatenate([own[first : second + 1], own[third : last + 1]]))
        first, last = np.searchsorted(self.sums, [low, high], side="right").tolist()
        radii = self._rising(parts, self.sums[first:last])
        return radii[(radii > low) & (radii <= high)]

    def last(self, holds: Callable[[float], bool]) -> float:
        """Return the last radius for which a test holds that turns false once; 0 if none."""
        k = _last_true(lambda k: holds(self.pivots[k]), len(self.pivots))
        if k == len(self.pivots) - 1:
            return float(np.inf)
        low = float(self.pivots[k]) if k >= 0 else 0.0
        between = self.between(low, float(self.pivots[k + 1]))
        k = _last_true(lambda k: holds(between[k]), len(between))
        return float(between[k]) if k >= 0 else low

    def _rising(self, thresholds: list[FloatArray], sums: FloatArray) -> FloatArray:
        """Radii of some thresholds of each column, of some sums, and those always there."""
        n = [len(own) for own in thresholds]
        t = np.concatenate([*thresholds, []])
        value, unit = (np.repeat(every[self.columns], n) for every in (self.x, self.scale))
        with np.errstate(over="ignore", invalid="ignore"):
            ulp = np.spacing(np.maximum(np.abs(value), np.abs(t)))
            radius = (np.abs(value - t) - 4 * ulp) / unit * (1 - 2.0**-50)
        radius = radius[np.isfinite(t)]
        radius = np.concatenate([radius, sums, [LARGEST if self.stays else 0.0, np.inf]])
        return np.unique(radius[radius > 0])


class RisingRadii:
    """The radii above a given one, from the least on, as many as are asked for.

    Parameters
    ----------
    radii : Radii
        All of them.
    above : float
        The given one.

    Attributes
    ----------
    known : array
        Those that were asked for, and some more.
    """

    def __init__(self, radii: Radii, above: float) -> None:
        self._radii, self._low = radii, above
        self._ends = radii.pivots[radii.pivots > above]
        self._step = 1
        self.known = np.empty(0)

    def first(self, n: int) -> FloatArray:
        """Return at least the n least radii, or all where there are not so many."""
        while len(self.known) < n and len(self._ends):
            self._extend()
        return self.known

    def up_to(self, radius: float) -> FloatArray:
        """Return at least all radii up to a given one, that one included."""
        while len(self._ends) and (len(self.known) == 0 or self.known[-1] < radius):
            self._extend()
        return self.known

    def _extend(self) -> None:
        taken, self._ends = self._ends[: self._step], self._ends[self._step :]
        high = float(taken[-1])
        self.known = np.concatenate([self.known, self._radii.between(self._low, high)])
        # Twice as many each time: the work is that for the last, however many are needed.
        self._low, self._step = high, 2 * self._step


def _last_true(holds: Callable[[int], bool], n: int) -> int:
    """Last index at which a test that turns false once is true; -1 if it never is."""
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
