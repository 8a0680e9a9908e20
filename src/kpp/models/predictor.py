"""Prediction from one number per leaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._parallel import blocks_of, run_blocks
from kpp._typing import FloatArray
from kpp.forest.route import route
from kpp.forest.sums import gather_leaves
from kpp.geometry.composed import BlockMap
from kpp.geometry.maps import MapBlock, PathMap

ROWS_PER_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class LeafValues:
    r"""A linear function of the embedding, collapsed to the leaves.

    Along a path :math:`\langle w, \Phi(x) \rangle` adds :math:`s_v w_v`; the sum at a leaf is the
    same for every row that reaches it. A prediction gathers K of these numbers and adds them.

    Parameters
    ----------
    parts : list of (PathMap, array of shape (n_scores, n_nodes))
        Forests with the path sums of :math:`s_v w_v`.
    intercept : array of shape (n_scores,)
        b.
    """

    parts: list[tuple[PathMap, FloatArray]]
    intercept: FloatArray

    @classmethod
    def from_coefficients(
        cls, embedding: MapBlock, w: FloatArray, intercept: FloatArray
    ) -> LeafValues:
        """Collapse coefficients of shape (n_scores, m)."""
        blocks = [embedding]
        columns = [w]
        if isinstance(embedding, BlockMap):
            blocks = [block for _, block in embedding.blocks]
            columns = np.split(w, embedding.offsets[1:-1], axis=1)
        parts = []
        for block, part in zip(blocks, columns, strict=True):
            assert isinstance(block, PathMap)
            values = np.stack([block.path_sums(block.scale * row) for row in part])
            parts.append((block, values))
        return cls(parts, np.asarray(intercept, dtype=np.float64))

    def scores(self, X: Any, n_jobs: int | None = None) -> FloatArray:
        """Return the scores of rows, shape (n_rows, n_scores)."""
        out = None
        for block, values in self.parts:
            leaf_ids = route(block.forest, X, n_jobs=n_jobs)
            n_rows = leaf_ids.shape[1]
            if out is None:
                out = np.zeros((len(self.intercept), n_rows))
            for total, leaf_values in zip(out, values, strict=True):
                # Every row adds its trees in order: the cut into rows changes nothing.
                _gather(leaf_ids, leaf_values, total, n_jobs)
        assert out is not None
        return out.T + self.intercept


def _gather(leaf_ids: Any, leaf_values: FloatArray, out: FloatArray, n_jobs: int | None) -> None:
    blocks = blocks_of(len(out), -(-len(out) // ROWS_PER_BLOCK))

    def work(b: int) -> None:
        rows = slice(*blocks[b])
        part = leaf_ids if len(blocks) == 1 else np.ascontiguousarray(leaf_ids[:, rows])
        gather_leaves(part, leaf_values, 0, len(leaf_ids), out[rows])

    run_blocks(work, len(blocks), n_jobs)
