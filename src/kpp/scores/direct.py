"""`DirectScores`: rows of numbers straight to scores, without leaf ids in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kpp._parallel import blocks_of, run_blocks
from kpp._typing import FloatArray, IntArray, OffsetArray
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
        self._trees = [_Trees.of(block) for block in blocks]
        self._rounds = any(trees.rounds for trees in self._trees)
        self._terms = [_Terms.of(one) for one in linear]

    @staticmethod
    def takes(blocks: Sequence[ScoreBlock], linear: Sequence[LinearScores]) -> bool:
        """Whether all splits compare one number, and the tables are not too large."""
        forests = [block.forest for block in blocks]
        widths = {forest.n_features for forest in forests}
        widths |= {one.terms.n_features for one in linear}
        return (
            0 < sum(forest.n_nodes for forest in forests) <= MAX_NODES
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

        def add(first: int, last: int) -> None:
            for trees in self._trees:
                trees.add_to(out, rounded if trees.rounds else exact, first, last)
            for terms in self._terms:
                terms.add_to(out, exact, first, last)

        if n_rows < ROWS_FOR_THREADS and exact.nbytes <= BYTES_PER_BLOCK:
            add(0, n_rows)
        else:
            blocks = blocks_of(n_rows, max(2, -(-exact.nbytes // BYTES_PER_BLOCK)))
            run_blocks(lambda b: add(*blocks[b]), len(blocks), n_jobs)
        return out.T + self.intercept


class _Trees(NamedTuple):
    """One forest: node v has four integers in `nodes`, the last two of them one of `thresholds`."""

    rounds: bool
    n_features: int
    nodes: IntArray
    thresholds: FloatArray
    tree_offsets: OffsetArray
    values: FloatArray

    @classmethod
    def of(cls, block: ScoreBlock) -> _Trees:
        forest = block.forest
        is_leaf = forest.left < 0
        nodes = np.empty((forest.n_nodes, 4), dtype=np.int32)
        nodes[:, 0] = np.where(is_leaf, 0, forest.feature)
        # A leaf is its own left child, and its threshold is beyond every number.
        nodes[:, 1] = np.where(is_leaf, np.arange(forest.n_nodes), forest.left)
        nodes.view(np.float64)[:, 1] = np.where(is_leaf, np.inf, forest.threshold)
        flat = nodes.reshape(-1)
        rounds = bool(forest.dtype == np.float32)
        thresholds: FloatArray = flat.view(np.float64)
        offsets, values = forest.tree_offsets, block.node_values
        return cls(rounds, forest.n_features, flat, thresholds, offsets, values)

    def add_to(self, out: FloatArray, rows: FloatArray, first: int, last: int) -> None:
        """Add the leaf values of the rows from `first` to before `last`."""
        loop = add_leaves_of_few if last - first <= FEW_ROWS else add_leaves
        loop(
            rows,
            self.n_features,
            self.nodes,
            self.thresholds,
            self.tree_offsets,
            self.values,
            first,
            last,
            out,
        )


class _Terms(NamedTuple):
    """Linear terms. One that says that a value is missing says nothing of finite numbers."""

    n_features: int
    columns: OffsetArray
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    slope: FloatArray
    coef: FloatArray

    @classmethod
    def of(cls, linear: LinearScores) -> _Terms:
        terms = linear.terms
        own = ~terms.is_missing
        return cls(
            terms.n_features,
            np.ascontiguousarray(terms.column[own], dtype=np.int64),
            np.ascontiguousarray(terms.low[own]),
            np.ascontiguousarray(terms.high[own]),
            np.ascontiguousarray(terms.mean[own]),
            np.ascontiguousarray(terms.slope[own]),
            np.ascontiguousarray(linear.coef[:, own]),
        )

    def add_to(self, out: FloatArray, rows: FloatArray, first: int, last: int) -> None:
        """Add the terms of the rows from `first` to before `last`."""
        add_terms(rows, *self, first, last, out)
