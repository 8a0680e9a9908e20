"""`DirectScores`: rows of numbers straight to scores, without leaf ids in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kpp._parallel import blocks_of, run_blocks
from kpp._typing import FloatArray, IntArray
from kpp.forest.arrays import Forest
from kpp.scores._loops import add_leaves, add_leaves_of_few, add_terms

if TYPE_CHECKING:
    from kpp.scores.additive import ScoreBlock
    from kpp.scores.linear import LinearScores

# The tables take 16 bytes a node: beyond so many nodes the forest's own arrays are walked along.
MAX_NODES = 1 << 22
# So few rows walk down several trees at a time; more, several rows down one tree.
FEW_ROWS = 16
# Rows pass down one tree after the other. In large blocks, since a large forest is read from memory
# once for each; in two at least where there are many rows, for two threads.
BYTES_PER_BLOCK = 1 << 20
ROWS_FOR_THREADS = 2048
TYPES = (np.dtype(np.float64), np.dtype(np.float32))


class DirectScores:
    """Trees with the numbers of a node side by side, for predictions of finite numbers.

    The scores are those of routed rows to the bit: the same comparisons, and the same sums in the
    same order.

    Parameters
    ----------
    blocks : sequence of ScoreBlock
        Forests with numerical splits only: see `takes`.
    linear : sequence of LinearScores
        Linear terms beside them.
    intercept : array of shape (n_scores,)
        Intercepts.
    """

    def __init__(
        self, blocks: Sequence[ScoreBlock], linear: Sequence[LinearScores], intercept: FloatArray
    ) -> None:
        self.intercept = intercept
        self.n_features = blocks[0].forest.n_features
        self._tables = [
            (
                block.forest.dtype == np.float32,
                *_nodes_side_by_side(block.forest),
                block.forest.tree_offsets,
                block.node_values,
            )
            for block in blocks
        ]
        self._rounds = any(table[0] for table in self._tables)
        self._terms = [_numbers_of_terms(one) for one in linear]

    @staticmethod
    def takes(blocks: Sequence[ScoreBlock], linear: Sequence[LinearScores]) -> bool:
        """Whether all splits compare one number, and the tables are not too large."""
        forests = [block.forest for block in blocks]
        widths = {forest.n_features for forest in forests}
        widths |= {one.terms.n_features for one in linear}
        return (
            sum(forest.n_nodes for forest in forests) <= MAX_NODES
            and len(widths) == 1
            and not any(
                len(forest.category_offsets)
                or len(forest.term_offsets)
                or forest.categories
                or forest.missing_values
                for forest in forests
            )
        )

    def scores(self, X: Any, n_jobs: int | None) -> FloatArray | None:
        """Return the scores of rows.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Rows.
        n_jobs : int, optional
            Number of threads. The result does not depend on it.

        Returns
        -------
        scores : array of shape (n_rows, n_scores), or None
            None for rows that need another look: missing or infinite values, another type or
            number of columns.
        """
        if type(X) is not np.ndarray or X.dtype not in TYPES or X.shape[1:] != (self.n_features,):
            return None
        exact = rounded = np.ascontiguousarray(X, dtype=np.float64).reshape(-1)
        if self._rounds and X.dtype != np.float32:
            with np.errstate(over="ignore"):
                rounded = exact.astype(np.float32).astype(np.float64)
        # What is finite in single precision, where a large number is not, is finite in double.
        if not np.isfinite(rounded).all():
            return None
        n_rows = len(X)
        out = np.zeros((len(self.intercept), n_rows))
        if n_rows <= FEW_ROWS:
            for rounds, *table in self._tables:
                add_leaves_of_few(rounded if rounds else exact, self.n_features, *table, out)
            for terms in self._terms:
                add_terms(exact, self.n_features, *terms, 0, n_rows, out)
            return out.T + self.intercept
        n_blocks = max(-(-exact.nbytes // BYTES_PER_BLOCK), 2 if n_rows >= ROWS_FOR_THREADS else 1)
        blocks = blocks_of(n_rows, n_blocks)

        def add(b: int) -> None:
            for rounds, *table in self._tables:
                rows = rounded if rounds else exact
                add_leaves(rows, self.n_features, *table, *blocks[b], out)
            for terms in self._terms:
                add_terms(exact, self.n_features, *terms, *blocks[b], out)

        run_blocks(add, len(blocks), n_jobs)
        return out.T + self.intercept


def _nodes_side_by_side(forest: Forest) -> tuple[IntArray, FloatArray]:
    """Feature, left child and threshold of each node in 16 bytes, as integers and as numbers.

    A leaf is its own left child, and its threshold is beyond every number.
    """
    is_leaf = forest.left < 0
    nodes = np.empty((forest.n_nodes, 4), dtype=np.int32)
    nodes[:, 0] = np.where(is_leaf, 0, forest.feature)
    nodes[:, 1] = np.where(is_leaf, np.arange(forest.n_nodes), forest.left)
    nodes.view(np.float64)[:, 1] = np.where(is_leaf, np.inf, forest.threshold)
    flat = nodes.reshape(-1)
    numbers: Any = flat.view(np.float64)
    return flat, numbers


def _numbers_of_terms(linear: LinearScores) -> tuple[Any, ...]:
    """Columns, ranges, means, slopes and coefficients of the terms, as the loop takes them.

    A term that says that a value is missing says nothing of the finite numbers that come here.
    """
    terms = linear.terms
    own = ~terms.is_missing
    numbers = (terms.low, terms.high, terms.mean, terms.slope)
    return (
        np.ascontiguousarray(terms.column[own], dtype=np.int64),
        *(np.ascontiguousarray(of_terms[own]) for of_terms in numbers),
        np.ascontiguousarray(linear.coef[:, own]),
    )
