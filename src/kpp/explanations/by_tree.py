"""`TreeParts`: the part of each tree in an attribution by variable."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kpp._parallel import run_blocks
from kpp._typing import FloatArray, IntArray
from kpp.explanations._loops import add_by_tree
from kpp.scores import RoutedRows
from kpp.scores.additive import ScoreBlock


@dataclass(frozen=True, eq=False)
class TreeParts:
    r"""What sums by tree are made of; :math:`\Psi_j(x_i) = \sum_t \Psi_{tj}(x_i)`.

    The values by tree, an array of rows times trees times variables, are never written out.

    Parameters
    ----------
    rows : RoutedRows
        The rows, in the leaves of the model.
    place : int array of shape (n_columns,), optional
        The variable that each column of the model belongs to; themselves by default.
    shift : array of shape (n_scores, n_trees, n_features), optional
        What centring subtracted.
    score : int
        Which score.
    sign : float
        -1 for minus the score.
    """

    rows: RoutedRows
    place: IntArray | None = None
    shift: FloatArray | None = None
    score: int = 0
    sign: float = 1.0

    def of_score(self, score: int) -> TreeParts:
        """Return the parts of another score."""
        return replace(self, score=score)

    def negated(self) -> TreeParts:
        """Return the parts of minus the score."""
        return replace(self, sign=-self.sign)

    def sums(self, factor: FloatArray) -> FloatArray:
        r"""Add up :math:`f_{ij} \Psi_{tj}(x_i)` over rows.

        Parameters
        ----------
        factor : array of shape (n_rows, n_features)
            f.

        Returns
        -------
        sums : array of shape (n_trees, n_features)
        """
        assert self.rows.additive is not None
        blocks = zip(self.rows.additive.blocks, self.rows.leaf_ids, strict=True)
        total = np.concatenate([self._of_block(*block, factor) for block in blocks])
        if self.shift is None:
            return total
        # Centring takes the same number off every row: its sum is that times the sum of the
        # factors.
        return total - self.sign * self.shift[self.score] * factor.sum(axis=0)

    def _of_block(self, block: ScoreBlock, leaf_ids: IntArray, factor: FloatArray) -> FloatArray:
        forest, variable, columns = block.forest, block.variable, block.forest.term_columns
        if self.place is not None:
            # A root has no variable, an oblique split several: what they look up is thrown away.
            variable = np.where(variable >= 0, self.place[variable], variable).astype(np.int32)
            columns = self.place[columns]
        terms = forest.term_offsets, columns, forest.term_shares
        contribution = self.sign * block.contribution[self.score]
        out = np.zeros((block.forest.n_trees, factor.shape[1]))
        # A tree has a row of its own: the cut into runs changes nothing.
        run_blocks(
            lambda t: add_by_tree(
                leaf_ids, forest.parent, variable, *terms, contribution, factor, t, t + 1, out
            ),
            len(out),
            self.rows.n_jobs,
        )
        return out
