"""Boxes in the input space: what leaves they reach, alone and jointly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kpp._typing import BoolArray, FloatArray, OffsetArray
from kpp.certificates._box_loops import box_minima, descend, joint_minimum
from kpp.certificates._loops import Minima, leaf_minima
from kpp.certificates.box_terms import BoxTerms
from kpp.certificates.flips import Flip
from kpp.certificates.node_tables import gamma, largest_values
from kpp.certificates.radii import Radii
from kpp.forest.arrays import Forest
from kpp.forest.columns import categorical_columns
from kpp.forest.layout import OBLIQUE

# In this order: of several outcomes the smallest counts.
PROVED, FOUND, OPEN = 1, -1, 0
GROUP_SIZES = (2, 4, 8)
MAX_SWEEPS = 10


class Splits:
    """The numerical and oblique splits of a float64 forest, and the boxes between them.

    Parameters
    ----------
    forest : Forest
        Compares in float64.
    is_free : bool array of shape (n_features,)
        Categorical columns that may take any category.
    terms : BoxTerms, optional
        Linear terms beside the trees.
    """

    def __init__(self, forest: Forest, is_free: BoolArray, terms: BoxTerms | None = None) -> None:
        self.forest = forest
        self.terms = BoxTerms((), forest.n_features) if terms is None else terms
        self.is_free = is_free
        self.is_categorical = categorical_columns(forest)
        self.thresholds = forest.column_thresholds
        self.in_sum = np.bincount(forest.term_columns, minlength=forest.n_features) > 0
        self.is_split = np.array([len(own) > 0 for own in self.thresholds]) | self.in_sum
        # What the sides of a box meet: thresholds, and the ends of the ranges of linear terms.
        self.meets = list(self.thresholds)
        for j in np.unique(self.terms.column).tolist():
            self.meets[j] = np.union1d(self.thresholds[j], self.terms.ends(j))

    def radii(self, x: FloatArray, scale: FloatArray) -> Radii:
        """Radii at which a side of the box around x meets a threshold, or a sum its own."""
        return Radii(self.meets, x, scale, self._radii_of_sums(x, scale))

    def _radii_of_sums(self, x: FloatArray, scale: FloatArray) -> FloatArray:
        """Radii just below those at which the sum of an oblique split can meet its threshold."""
        forest = self.forest
        oblique = forest.split_kind == OBLIQUE
        if not oblique.any():
            return np.empty(0)
        first, t = forest.term_offsets[:-1][oblique], forest.threshold[oblique]
        a, value, unit = (
            forest.term_weights,
            x[forest.term_columns],
            scale[forest.term_columns],
        )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            total, reach = (
                np.add.reduceat(a * value, first),
                np.add.reduceat(np.abs(a) * unit, first),
            )
            size = np.add.reduceat(np.abs(a * value), first) + np.abs(t)
            # Where exactly the sum meets its threshold does not matter for soundness: every box is
            # tested. What rounding may add, also to the sides of the box, is taken off.
            radius = (np.abs(total - t) - 2.0**-48 * size) / reach * (1 - 2.0**-48)
        return radius[np.isfinite(radius) & (reach > 0)]

    def box(self, x: FloatArray, scale: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        """Interval per column that holds every float within the radius, rounded outward.

        An infinite value has no finite neighbour: it stays, unless the radius or its column's
        scale is infinite, when a value may be anything. Missing values stay. So do categories,
        unless their column is free and may be anything.
        """
        low, high = x.copy(), x.copy()
        if radius > 0:
            moves = (scale > 0) & ~np.isnan(x)
            anything = (moves & (np.isinf(scale) | np.isinf(radius))) | self.is_free
            low[anything], high[anything] = -np.inf, np.inf
            moves &= ~anything & np.isfinite(x)
            # The step rounded up is what it takes: no float within it is lost by the rounding of
            # a side, which is monotone. The sides' own step outward is a second guard.
            with np.errstate(over="ignore"):
                # The product is rounded up, then each side outward: where x and the step nearly
                # cancel, the rounding of the product is many units in the last place of the side.
                step = np.nextafter(radius * scale[moves], np.inf)
                low[moves] = np.nextafter(x[moves] - step, -np.inf)
                high[moves] = np.nextafter(x[moves] + step, np.inf)
        return low, high

    def widened(
        self, x: FloatArray, scale: FloatArray, radius: float
    ) -> tuple[FloatArray, FloatArray]:
        """The largest box that reaches the same children of every split as that of a radius.

        Columns of oblique splits are left as they are: no side of theirs can move alone. So are
        sides within the range of a linear term.
        """
        low, high = self.box(x, scale, radius)
        for j, thresholds in enumerate(self.thresholds):
            # No number beside a category is the same category.
            if np.isnan(low[j]) or self.is_categorical[j] or self.in_sum[j]:
                continue
            above = np.searchsorted(thresholds, high[j], side="left")
            below = np.searchsorted(thresholds, low[j], side="left")
            if high[j] >= self.terms.high[j]:
                high[j] = thresholds[above] if above < len(thresholds) else np.inf
            if low[j] <= self.terms.low[j]:
                low[j] = np.nextafter(thresholds[below - 1], np.inf) if below else -np.inf
        return low, high


@dataclass
class Outcome:
    """What a search in a box gave: PROVED, FOUND (with a point) or OPEN; and its cost."""

    verdict: int
    visits: int
    point: FloatArray | None = None


@dataclass
class Nested:
    """Least values per tree of boxes of one row: of a box around the next, of one in it, the last.

    What the first two leave no doubt of is not computed again.
    """

    floor: FloatArray | None = None
    ceiling: FloatArray | None = None
    latest: FloatArray | None = None


class BoxFlip:
    r"""One way for the answer to change, tested on boxes.

    A box is certified when the margin :math:`o + \sum_t v_t(\ell_t)` stays positive over the
    leaves that it reaches, with the linear terms where they are least in it.

    Parameters
    ----------
    splits : Splits
        The forest.
    flip : Flip
        Values and offsets.
    least_below : array of shape (n_nodes,)
        From `least_values`.
    largest_terms : float
        The most that the linear terms can add to the margin, by magnitude.
    """

    def __init__(
        self, splits: Splits, flip: Flip, least_below: FloatArray, largest_terms: float
    ) -> None:
        self.splits = splits
        self.value, self.coef = flip.value, flip.terms
        self.fixed = np.zeros_like(splits.is_free)
        forest = splits.forest
        self.least_below = least_below
        self.floor = least_below[forest.roots]
        self.ceiling = np.full(forest.n_trees, np.inf)
        size = largest_values(forest, flip.value).sum() + largest_terms
        # sigma of the page on proofs: what the sum over trees and terms may be off by.
        n_sums = forest.n_trees + 2 * len(flip.terms)
        self.slack = 2 * gamma(n_sums + 4) * (size + np.abs(flip.offset))
        # The sum of leaf values must exceed this for the answer to stay; below the second
        # number it changes for certain.
        self.need = self.slack - flip.offset
        self.flips_below = -flip.offset - 2 * flip.tau - self.slack

    def minima(
        self, x: FloatArray, low: FloatArray, high: FloatArray, nested: Nested | None = None
    ) -> FloatArray:
        """Least value that the box reaches in each tree, shape (n_trees,)."""
        floor, ceiling = self.floor, self.ceiling
        if nested is not None:
            floor = floor if nested.floor is None else nested.floor
            ceiling = ceiling if nested.ceiling is None else nested.ceiling
        out = np.empty(self.splits.forest.n_trees)
        nodes, is_free = self.splits.forest.nodes, self.splits.is_free
        least_below, value = self.least_below, self.value
        box_minima(nodes, is_free, least_below, value, x, low, high, floor, ceiling, out)
        return out

    def certifies(
        self,
        i: int,
        x: FloatArray,
        low: FloatArray,
        high: FloatArray,
        nested: Nested | None = None,
    ) -> bool:
        """Whether tree by tree the box keeps the answer of row i."""
        minima = self.minima(x, low, high, nested)
        if nested is not None:
            nested.latest = minima
        return bool(minima.sum() + self.splits.terms.least(self.coef, low, high) > self.need[i])

    def search(
        self,
        i: int,
        x: FloatArray,
        low: FloatArray,
        high: FloatArray,
        max_visits: int,
    ) -> Outcome:
        """Prove the box, or find a point in it with another answer, or give up.

        First all trees jointly. If that takes too long, small groups of trees jointly: their
        least sums add up to less than what is truly reached, and to more than tree by tree.
        """
        minima = self.minima(x, low, high)
        # Trees alone must exceed what is left when the terms are least.
        need = float(self.need[i]) - self.splits.terms.least(self.coef, low, high)
        total = float(minima.sum())
        # Sound already with every tree on its own: no search.
        if total > need:
            return Outcome(PROVED, 0)
        visits = self.splits.forest.n_trees
        # A counterexample is often near, and a few sweeps over the columns cost less than a search.
        point = self._descend(i, x, low, high)
        if point is not None:
            return Outcome(FOUND, visits, point)
        # Trees that can lose most come first: they decide.
        order = np.argsort(minima - self._at(x), kind="stable")
        outcome = self._joint(
            order, minima, x, low, high, need, float(self.flips_below[i]), max_visits // 2
        )
        if outcome.verdict != OPEN:
            return outcome
        visits += outcome.visits
        for size in GROUP_SIZES:
            bounds = minima[order].copy()
            total = float(bounds.sum())
            n_groups = -(-len(order) // size)
            share = max(1, (max_visits - visits) // n_groups)
            for first in range(0, len(order), size):
                group = slice(first, first + size)
                old = float(bounds[group].sum())
                # Above this the group alone makes up for what the others lack.
                enough = need - (total - old)
                least, cost, *_ = self._least_sum(
                    order[group], minima, x, low, high, enough, -np.inf, share
                )
                visits += cost
                # Given up before the least sum was known: the bound tree by tree stays.
                if cost > share:
                    continue
                if least > enough:
                    return Outcome(PROVED, visits)
                total += max(least - old, 0.0)
                bounds[group] = max(least, old) / len(bounds[group])
            if visits >= max_visits:
                break
        return Outcome(OPEN, visits)

    def _descend(
        self, i: int, x: FloatArray, low: FloatArray, high: FloatArray
    ) -> FloatArray | None:
        """Look for a point with another answer column by column, from x."""
        columns = np.flatnonzero((low < high) & self.splits.is_split)
        flips_below = float(self.flips_below[i])
        point, total = x.copy(), np.empty(1)
        if len(columns):
            # What the trees must come to where the terms stay as they are.
            goal = flips_below - self._terms_at(x)
            nodes = self.splits.forest.nodes
            descend(nodes, self.value, x, low, high, columns, goal, MAX_SWEEPS, point, total)
        # The running sums are rounded: look at the point itself.
        if self._total(point) < flips_below:
            return point
        return self._descend_with_terms(point, x, low, high, flips_below)

    def _descend_with_terms(
        self,
        point: FloatArray,
        x: FloatArray,
        low: FloatArray,
        high: FloatArray,
        flips_below: float,
    ) -> FloatArray | None:
        """Move columns to where their terms are least, one by one, where that helps."""
        corner = self.splits.terms.corner(self.coef, x, low, high)
        moved = np.flatnonzero((corner != x) & ~np.isnan(x))
        if not len(moved):
            return None
        best = min((point, corner), key=self._total)
        total = self._total(best)
        for j in moved.tolist():
            for value in (corner[j], point[j]):
                other = best.copy()
                other[j] = value
                here = self._total(other)
                if here < total:
                    best, total = other, here
        return best if total < flips_below else None

    def _terms_at(self, x: FloatArray) -> float:
        """What the linear terms add at a point."""
        return float((self.coef * self.splits.terms.at(x)).sum()) if len(self.coef) else 0.0

    def _total(self, x: FloatArray) -> float:
        """Sum of leaf values and linear terms at a point."""
        return float(self._at(x).sum()) + self._terms_at(x)

    def _at(self, x: FloatArray) -> FloatArray:
        """Values of the leaves that x itself reaches, with the categories that it has."""
        out = np.empty(self.splits.forest.n_trees)
        nodes, bounds = self.splits.forest.nodes, (self.floor, self.ceiling)
        box_minima(nodes, self.fixed, self.least_below, self.value, x, x, x, *bounds, out)
        return out

    def _joint(
        self,
        order: OffsetArray,
        minima: FloatArray,
        x: FloatArray,
        low: FloatArray,
        high: FloatArray,
        need: float,
        flips_below: float,
        max_visits: int,
    ) -> Outcome:
        """Search all trees jointly."""
        goal = flips_below - self._terms_at(x)
        least, visits, lowest, highest = self._least_sum(
            order, minima, x, low, high, need, goal, max_visits
        )
        if least < goal or (len(self.coef) and least <= need):
            near = np.where(np.isnan(x), x, np.clip(x, lowest, highest))
            # Within the cell that the trees ask for, terms may be least elsewhere.
            for point in (near, self.splits.terms.corner(self.coef, near, lowest, highest)):
                # With free categories the leaves need not be those of one category, and oblique
                # splits do not cut the box: look again.
                if self._total(point) < flips_below:
                    return Outcome(FOUND, visits, point)
            return Outcome(OPEN, visits)
        proved = visits <= max_visits and least > need
        return Outcome(PROVED if proved else OPEN, visits)

    def _least_sum(
        self,
        trees: OffsetArray,
        minima: FloatArray,
        x: FloatArray,
        low: FloatArray,
        high: FloatArray,
        need: float,
        flips_below: float,
        max_visits: int,
    ) -> tuple[float, int, FloatArray, FloatArray]:
        """Least sum of some trees that a point of the box reaches, unless it exceeds `need`.

        With it come the nodes visited, more than `max_visits` where the search was given up, and
        the sides of a box that reaches the sum. It ends early below `flips_below`.
        """
        best = np.array([np.nextafter(need, np.inf)])
        lowest, highest = low.copy(), high.copy()
        visits = np.zeros(1, dtype=np.int64)
        joint_minimum(
            np.ascontiguousarray(trees),
            self.splits.forest.nodes,
            self.splits.is_free,
            self.least_below,
            self.value,
            x,
            low,
            high,
            _rest(minima[trees]),
            flips_below,
            max_visits,
            best,
            lowest,
            highest,
            visits,
        )
        return float(best[0]), int(visits[0]), lowest, highest


def least_values(forest: Forest, value: FloatArray) -> FloatArray:
    """Least value of a leaf below each node, shape (n_nodes,)."""
    below, best, arg_value = (np.empty(forest.n_nodes) for _ in range(3))
    # The scan of the leafwise certificate at mu = 1 and without distances: its `below` is the least
    # value below each node.
    minima, no_distance = Minima(1.0, below, best, arg_value), np.zeros(forest.n_nodes)
    arg = np.empty(forest.n_nodes, dtype=np.int32)
    trees = (forest.tree_offsets, forest.parent, forest.left)
    leaf_minima(*trees, no_distance, value, *minima, 0, forest.n_trees, arg)
    return below


def _rest(minima: FloatArray) -> FloatArray:
    """What the trees from each one on can add at least; 0 behind the last."""
    rest = np.zeros(len(minima) + 1)
    rest[:-1] = np.cumsum(minima[::-1])[::-1]
    return rest
