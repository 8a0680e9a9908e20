"""How much the target varies around a row: what adaptive intervals are scaled by.

References
----------
Lei, G'Sell, Rinaldo, Tibshirani, Wasserman (2018), Distribution-free predictive inference for
regression: errors scaled by an estimated spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kpp._typing import FloatArray, IntArray
from kpp.forest.arrays import Forest
from kpp.forest.sums import gather_scores, node_sums
from kpp.geometry.composed import forest_blocks
from kpp.geometry.maps import MapBlock, PathMap
from kpp.models._rank_loops import small_nodes_as_parents
from kpp.models.fits import LinearFit

# Chosen on the development sets: fewer rows do not tell a variance, more are not near enough.
# What they give: benchmarks/interval_coverage.py.
LEAST_ROWS = 5
# Of the mean spread, added to every spread: no row has an interval of almost no width.
FLOOR = 0.5


@dataclass(frozen=True, eq=False)
class FoldSpread:
    r"""The spread of one fold's predictor, from rows of other folds only.

    .. math::
        \sigma_q(x) = s_q(x) + \tfrac12 \bar s_q, \qquad
        s_q(x)^2 = \frac{1}{|T_q|} \sum_{t \in T_q} \mathrm{Var}(y_j : j \in v_t(x))

    where :math:`T_q` are trees of the predictor, :math:`v_t(x)` is the smallest node on the path
    of x in tree t that holds at least five of the rows that the predictor was fitted on, these are
    the rows j, and :math:`\bar s_q` is the mean of :math:`s_q` over all of them.

    Parameters
    ----------
    forest : Forest
        In which rows are routed.
    trees : slice
        Which of its trees they are.
    node_values : array of shape (n_targets, n_nodes of these trees)
        At a leaf, the variance over the number of trees.
    floor : array of shape (n_targets,)
        :math:`\bar s_q / 2`.
    """

    forest: Forest
    trees: slice
    node_values: FloatArray
    floor: FloatArray

    def at(self, leaf_ids: IntArray) -> FloatArray:
        """Return the spread at rows.

        Parameters
        ----------
        leaf_ids : int32 array of shape (n_trees, n_rows)
            Of the trees of `forest` that are meant.

        Returns
        -------
        spread : array of shape (n_targets, n_rows)
            Above 0.
        """
        spread = _roots(leaf_ids, self.node_values) + self.floor[:, None]
        # A target without any variation outside the fold: nothing to scale by.
        return np.where(self.floor[:, None] > 0, spread, 1.0)

    def at_rows(self, leaf_ids: IntArray) -> FloatArray:
        """As `at`, from the leaf ids of all trees of `forest`, numbered in it."""
        first = self.forest.tree_offsets[self.trees.start]
        return self.at(np.ascontiguousarray(leaf_ids[self.trees] - first, dtype=np.int32))


def fold_spread(
    fits: Sequence[LinearFit], target: FloatArray, held_out: MapBlock | None, fold: IntArray
) -> tuple[FoldSpread, FloatArray]:
    """Return the spread of one fold's predictor, and its values at the rows of the fold.

    Of several forests the one is taken in whose nodes the target varies least.

    Parameters
    ----------
    fits : sequence of LinearFit
        The linear layers of the fold, one for each block.
    target : array of shape (n_fit_rows, n_targets)
        Of the rows of the fit. Only those that the layers were fitted on are looked at.
    held_out : MapBlock, optional
        The embedding at the rows of the fold, where the layers' own map has other rows only.
    fold : int array
        Rows of the fold, as places among the rows of the fit.

    Returns
    -------
    spread : FoldSpread
    at_fold : array of shape (n_targets, n_rows of the fold)
    """
    best: tuple[float, FoldSpread, FloatArray] | None = None
    for fit in fits:
        part = fit.part
        # A map of the fold alone has its rows only; then the fit has used all rows, and their
        # numbers are their places.
        seen = fit.rows if part.rows is None else part.rows
        tested = part.at(fold).make() if held_out is None else held_out
        chosen = [own for own in part.trees or () if own is not None]
        blocks = zip(
            forest_blocks(part.whole),
            forest_blocks(part.make()),
            forest_blocks(tested),
            strict=True,
        )
        for k, ((_, whole), (_, own), (_, there)) in enumerate(blocks):
            values = _node_variances(own, target[seen])
            inside = _roots(own.leaf_ids, values)
            trees = chosen[k] if chosen else slice(0, whole.forest.n_trees)
            spread = FoldSpread(whole.forest, trees, values, FLOOR * inside.mean(axis=1))
            # Over targets, by what they vary as a whole.
            size = float(np.mean(inside.mean(axis=1) / _scale(target[seen])))
            if best is None or size < best[0]:
                best = size, spread, spread.at(there.leaf_ids)
    assert best is not None
    return best[1], best[2]


def _scale(target: FloatArray) -> FloatArray:
    deviation = target.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def _node_variances(at_rows: PathMap, target: FloatArray) -> FloatArray:
    """Variance of the target in each node, or where it is small in the next large one above."""
    forest, leaf_ids = at_rows.forest, at_rows.leaf_ids
    counted, ones = np.empty(forest.n_nodes), np.ones(forest.n_nodes)

    def sums(values: FloatArray, out: FloatArray) -> FloatArray:
        node_sums(
            *(leaf_ids, forest.tree_offsets, forest.parent, ones),
            *(np.ascontiguousarray(values), 0, forest.n_trees, out),
        )
        return out

    n_rows = sums(np.ones(len(target)), counted)
    found = np.empty((target.shape[1], forest.n_nodes))
    for k, own in enumerate((target - target.mean(axis=0)).T):
        size = np.maximum(n_rows, 1.0)
        mean = sums(own, np.empty(forest.n_nodes)) / size
        square = sums(own**2, np.empty(forest.n_nodes)) / size
        found[k] = np.maximum(square - mean**2, 0.0) / forest.n_trees
    small_nodes_as_parents(forest.tree_offsets, forest.parent, n_rows, float(LEAST_ROWS), found)
    return found


def _roots(leaf_ids: IntArray, node_values: FloatArray) -> FloatArray:
    """Root of the sums over trees, shape (n_targets, n_rows)."""
    total = np.zeros((len(node_values), leaf_ids.shape[1]))
    gather_scores(np.ascontiguousarray(leaf_ids), node_values, 0, leaf_ids.shape[1], total)
    return np.sqrt(total)
