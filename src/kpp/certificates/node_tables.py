"""What certificates add to an `AdditiveForest`: distances, norms and rounding."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kpp._typing import FloatArray
from kpp.certificates._loops import Terms
from kpp.forest.arrays import Forest
from kpp.scores import AdditiveForest

UNIT = 2.0**-53


def gamma(n: int) -> float:
    r"""Return :math:`\gamma_n = n u / (1 - n u)`, the relative error of n roundings."""
    return n * UNIT / (1 - n * UNIT)


class Contrast(NamedTuple):
    """A combination of scores that a margin is: ``sign * score``, or ``score - against``."""

    score: int
    against: int | None
    sign: int

    @property
    def scores(self) -> list[int]:
        """The scores in it."""
        return [self.score] if self.against is None else [self.score, self.against]


@dataclass(frozen=True, eq=False)
class NodeTables:
    r"""The scores of a model, with what certificates need beside them at every node.

    Parameters
    ----------
    additive : AdditiveForest
        The model's scores.
    values : array of shape (n_scores, n_nodes)
        Its path sums :math:`P_k(v)` of :math:`s_v w_v`, those of all blocks side by side.
    coef : array of shape (n_scores, n_nodes)
        w.
    C : array of shape (n_nodes,)
        Path sums of :math:`\omega_v / S_T` without the root, whose coordinate never changes.
    depth : int
        Most nodes on a path.
    weight_error : array of shape (n_scores,)
        How far the sum of leaf values may lie from :math:`\langle w, \Phi \rangle`.
    linear : array of shape (n_scores, p)
        Coefficients of the linear terms of all blocks; p is 0 for most models.
    least, most : arrays of shape (p,)
        The ranges of their coordinates.
    n_jobs : int, optional
        Number of threads.
    """

    additive: AdditiveForest
    values: FloatArray
    coef: FloatArray
    C: FloatArray
    depth: int
    weight_error: FloatArray
    linear: FloatArray
    least: FloatArray
    most: FloatArray
    n_jobs: int | None = None

    @classmethod
    def of(cls, additive: AdditiveForest, *, n_jobs: int | None = None) -> NodeTables:
        """Read coefficients and coordinates; refuse scores that came without them."""
        return cls(additive, *additive.once(_read, additive), n_jobs=n_jobs)

    @property
    def forest(self) -> Forest:
        """All trees, those of several blocks one after the other."""
        return self.additive.forest

    @property
    def intercept(self) -> FloatArray:
        """b, shape (n_scores,)."""
        return self.additive.intercept

    @property
    def diameter(self) -> float:
        """The sum over the trees of the largest C: half of the largest distance."""
        of_terms = np.square(self.most - self.least).sum() / 2
        return float(largest_values(self.forest, self.C).sum() + of_terms)

    @property
    def rounding(self) -> float:
        r"""Relative error of a computed :math:`D(\mu)`, and of the distances compared with it."""
        return 2 * gamma(self.forest.n_trees + 2 * self.depth + 4 * len(self.least) + 16)

    @property
    def n_sums(self) -> int:
        """Numbers that a score adds up, and roundings of those: trees, and two for each term."""
        return self.forest.n_trees + 2 * len(self.least)

    def score_error(self, score: int) -> float:
        r"""Return :math:`\tau = \gamma_{K+2} (|b| + \sum_t \max_\ell |v_t(\ell)|)`.

        Linear terms count with the largest that each can add, and twice in K.
        """
        largest = largest_values(self.forest, self.values[score]).sum()
        largest = largest + self.largest_terms(self.linear[score])
        return gamma(self.n_sums + 2) * (abs(self.intercept[score]) + largest)

    def largest_terms(self, coef: FloatArray) -> float:
        """The most that linear terms can add, by magnitude."""
        return float((np.abs(coef) * np.maximum(np.abs(self.least), np.abs(self.most))).sum())

    def lowest_terms(self, coef: FloatArray) -> float:
        """The least that linear terms can add."""
        return float(np.minimum(coef * self.least, coef * self.most).sum())

    def terms(self, contrast: Contrast) -> FloatArray:
        """Coefficients of the linear terms of a margin, shape (p,)."""
        return np.asarray(contrast.sign * _combined(self.linear, contrast), dtype=np.float64)

    def loop_terms(self, coef: FloatArray, values: FloatArray | None, n_rows: int) -> Terms:
        """Linear terms as loops take them: read-only, rows one after the other."""
        if values is None:
            if len(coef):
                raise ValueError("The coordinates of the rows in the linear terms are missing.")
            values = np.empty((n_rows, 0))
        found = Terms(
            *(np.ascontiguousarray(a).view() for a in (coef, values, self.least, self.most))
        )
        for array in found:
            array.flags.writeable = False
        return found

    def value(self, contrast: Contrast) -> FloatArray:
        """What each node's leaf value adds to a margin, shape (n_nodes,)."""
        return contrast.sign * _combined(self.values, contrast)

    def is_constant(self, contrast: Contrast) -> bool:
        """Whether every leaf adds 0 to the scores of a margin: then they are the intercepts."""
        # Tree by tree: nearly always the first has a leaf that adds something.
        if self.linear[contrast.scores].any():
            return False
        trees = pairwise(self.forest.tree_offsets.tolist())
        is_leaf = self.forest.is_leaf
        return not any(
            self.values[score, first:last][is_leaf[first:last]].any()
            for first, last in trees
            for score in contrast.scores
        )

    def norm(self, contrast: Contrast) -> float:
        r"""Return :math:`\|w\|` of a margin as a function on the embedding, rounded up."""
        w = _combined(self.coef, contrast)
        if len(self.least):
            w = np.concatenate([w, _combined(self.linear, contrast)])
        largest = float(np.abs(w).max())
        if largest == 0:
            return 0.0
        # Divided by the largest entry no square is lost below the smallest float. Sums are
        # pairwise: fewer than 64 roundings for any length that fits memory.
        return largest * float(np.sqrt(np.square(w / largest).sum())) * (1 + 80 * UNIT)


def _read(
    additive: AdditiveForest,
) -> tuple[FloatArray, FloatArray, FloatArray, int, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Values, w, C, depth, weight error and linear terms of a model; see `NodeTables`."""
    coef = [block.coef for block in additive.blocks if block.coef is not None]
    squared = [b.squared_scale for b in additive.blocks if b.squared_scale is not None]
    if not len(coef) == len(squared) == len(additive.blocks):
        raise ValueError(
            "Certificates need the coefficients and the weights of the nodes, and this "
            "AdditiveForest has path sums only, as old files keep them. Certify the model "
            "itself."
        )
    forest = additive.forest
    w = coef[0] if len(coef) == 1 else np.hstack(coef)
    scale = np.concatenate([block.scale for block in additive.blocks])
    mass = np.concatenate(squared)
    mass[forest.roots] = 0.0
    depth = int(forest.path_sums(np.ones(forest.n_nodes)).max())
    sizes = [largest_values(forest, forest.path_sums(np.abs(scale * row))).sum() for row in w]
    weight_error = 2 * gamma(depth + 2) * np.array(sizes)
    linear = np.hstack([np.zeros((len(w), 0)), *(terms.coef for terms in additive.linear)])
    least, most = (
        np.concatenate([np.zeros(0), *(getattr(t.terms, name) for t in additive.linear)])
        for name in ("least", "most")
    )
    C = forest.path_sums(mass)
    return additive.node_values, w, C, depth, weight_error, linear, least, most


def _combined(table: FloatArray, contrast: Contrast) -> FloatArray:
    score = table[contrast.score]
    return score if contrast.against is None else score - table[contrast.against]


def largest_values(forest: Forest, values: FloatArray) -> FloatArray:
    """Largest absolute value at a leaf of each tree, shape (n_trees,)."""
    return np.maximum.reduceat(np.where(forest.is_leaf, np.abs(values), 0.0), forest.roots)


def lowest_values(forest: Forest, values: FloatArray) -> FloatArray:
    """Lowest value at a leaf of each tree, shape (n_trees,)."""
    return np.minimum.reduceat(np.where(forest.is_leaf, values, np.inf), forest.roots)
