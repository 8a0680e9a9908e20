r"""How far two samples are apart in a model's own metric, and whether chance explains it.

With :math:`p_v` and :math:`q_v` the shares of the rows of two samples in node v, the squared
distance of the mean rows of the embedding is

.. math::
    \mathrm{MMD}^2 = \| \bar\Phi_p - \bar\Phi_q \|^2 = \sum_v s_v^2 (p_v - q_v)^2,

the maximum mean discrepancy of the path kernel, and half of the energy distance of
:math:`\delta_T`. It costs one product with the map; nothing of size n squared is formed. A sum over
nodes, it can be regrouped by the column of the split above each node, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kpp._typing import AnyArray, FloatArray, OffsetArray
from kpp.geometry.composed import named_blocks
from kpp.geometry.linear import LinearMap
from kpp.geometry.maps import MapBlock, PathMap

MOST_TEST_ROWS = 5000


@dataclass(frozen=True, eq=False)
class Shift:
    """Two samples in one embedding.

    Parameters
    ----------
    reference, new : MapBlock
        The same embedding at the rows of both.
    """

    reference: MapBlock
    new: MapBlock

    @cached_property
    def means(self) -> tuple[FloatArray, FloatArray]:
        """The mean row of each sample, shapes (m,)."""
        return self.reference.mean_row(), self.new.mean_row()

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows of each sample."""
        return self.reference.shape[0], self.new.shape[0]

    @cached_property
    def by_coordinate(self) -> FloatArray:
        """What every coordinate adds to the squared distance, shape (m,)."""
        reference, new = self.means
        return np.square(new - reference)

    @cached_property
    def variance(self) -> FloatArray:
        """Variance of every coordinate over all rows of both samples, shape (m,)."""
        n, m = self.sizes
        share = n / (n + m)
        mean = share * self.means[0] + (1 - share) * self.means[1]
        squares = share * _mean_squares(self.reference, self.means[0])
        squares += (1 - share) * _mean_squares(self.new, self.means[1])
        return np.maximum(squares - np.square(mean), 0.0)

    @cached_property
    def expected(self) -> FloatArray:
        r"""What chance alone adds, shape (m,): the mean over all ways to cut the rows in two.

        .. math:: \Bigl(\frac1n + \frac1m\Bigr) \frac{N}{N-1} \mathrm{Var}_v, \qquad N = n + m
        """
        n, m = self.sizes
        return (1 / n + 1 / m) * (n + m) / (n + m - 1) * self.variance

    @property
    def distance(self) -> float:
        """The squared distance itself."""
        return float(self.by_coordinate.sum())

    @property
    def share(self) -> float:
        r"""Share of the variance, in the model's metric, that tells which sample a row is of.

        Both samples count alike: between them lies :math:`\mathrm{MMD}^2 / 4`. What chance alone
        adds is taken off. From 0 to 1, like :math:`R^2`.
        """
        reference, new = self.means
        squares = _mean_squares(self.reference, reference) + _mean_squares(self.new, new)
        total = float((squares / 2 - np.square((reference + new) / 2)).sum())
        between = (self.distance - float(self.expected.sum())) / 4
        return min(1.0, max(0.0, between / total)) if total > 0 else 0.0

    def permutation_test(
        self, n_permutations: int, random: np.random.Generator
    ) -> tuple[float, int]:
        """Cut the rows of both samples in two at random, many times.

        Parameters
        ----------
        n_permutations : int
            How often.
        random : numpy.random.Generator
            Draws the cuts, and at most 5,000 rows of each sample.

        Returns
        -------
        p_value : float
            Share of the cuts, the given one among them, with at least its distance.
        n_rows : int
            Rows that the test is on.
        """
        parts = [_drawn(block, random) for block in (self.reference, self.new)]
        n, m = (part.shape[0] for part in parts)
        pooled = stack(parts)
        sign = np.concatenate([np.full(n, -1.0 / n), np.full(m, 1.0 / m)])
        own = _squared(pooled, sign)
        # Cuts that give the same distance up to rounding count as at least as large.
        least = own * (1 - 1e-9)
        cuts = (_squared(pooled, random.permutation(sign)) for _ in range(n_permutations))
        n_larger = sum(value >= least for value in cuts)
        return (1 + n_larger) / (1 + n_permutations), n + m


def _squared(pooled: MapBlock, sign: FloatArray) -> float:
    difference = pooled.rmatvec(sign)
    return float(np.square(difference).sum())


def _mean_squares(at: MapBlock, mean: FloatArray) -> FloatArray:
    """Mean square of every coordinate, shape (m,)."""
    found = []
    first = 0
    for _, block in named_blocks(at):
        own = mean[first : first + block.shape[1]]
        if isinstance(block, LinearMap):
            found.append(np.square(block.values).mean(axis=0))
        else:
            assert isinstance(block, PathMap)
            found.append(own * block.scale)  # a coordinate is s_v or 0
        first += block.shape[1]
    return np.concatenate(found)


def _drawn(block: MapBlock, random: np.random.Generator) -> MapBlock:
    n_rows = block.shape[0]
    if n_rows <= MOST_TEST_ROWS:
        return block
    index: OffsetArray = np.sort(random.choice(n_rows, MOST_TEST_ROWS, replace=False))
    return block.rows(index)


def routed_of(at: MapBlock) -> list[AnyArray]:
    """What places the rows of an embedding: leaf ids, or coordinates, of each block.

    Parameters
    ----------
    at : MapBlock
        An embedding at rows.
    """
    return [
        block.values if isinstance(block, LinearMap) else block.leaf_ids
        for _, block in named_blocks(at)
    ]


def stack(parts: Sequence[MapBlock]) -> MapBlock:
    """One embedding at the rows of several, one after the other.

    Parameters
    ----------
    parts : sequence of MapBlock
        The same embedding at rows.
    """
    routed = zip(*(routed_of(part) for part in parts), strict=True)
    placed = [
        np.asfortranarray(np.concatenate(own))
        if own[0].dtype.kind == "f"
        else np.ascontiguousarray(np.concatenate(own, axis=1))
        for own in routed
    ]
    return parts[0].at_routed(placed)
