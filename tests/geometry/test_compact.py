"""The prepared Gram against the explicit embedding: sets of rows, and cells of small trees."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

from kpp import KPPEmbedding
from kpp.geometry.compact import MOST_CELLS, CompactGram

X, Y = make_friedman1(700, 5, noise=1.0, random_state=0)
SMALL = {
    "boosted": HistGradientBoostingRegressor(
        max_iter=70, max_leaf_nodes=8, early_stopping=False, random_state=0
    ),
    "shallow": RandomForestRegressor(40, max_depth=3, random_state=0),
    "stumps": ExtraTreesRegressor(30, max_depth=1, random_state=0),
}
LARGE = {
    "unpruned": ExtraTreesRegressor(8, random_state=0),
    "one tree": RandomForestRegressor(1, max_depth=3, random_state=0),
}


def embedding(forest, n_rows=None, **parameters):
    # Grown on all rows, so that nodes without a row occur too.
    return KPPEmbedding(forest, **parameters).fit(X, Y).map_.on(X[:n_rows])


def explicit(phi):
    """Phi Phi' by SciPy, from the coordinates."""
    rows = phi.to_csr()
    return (rows @ rows.T).toarray()


@pytest.mark.parametrize("n_rows", [1, 2, 9, 60, 700])
@pytest.mark.parametrize("forest", [*SMALL, *LARGE])
def test_products(forest, n_rows):
    phi = embedding((SMALL | LARGE)[forest], n_rows)
    gram, compact = explicit(phi), CompactGram(phi)
    R = np.random.default_rng(0).normal(size=(n_rows, 3))
    scale = np.abs(gram) @ np.abs(R) + 1e-300
    # Sums of a few hundred positive terms in another order.
    assert (np.abs(compact(R) - gram @ R) / scale).max() < 1e-13
    assert compact(R[:, 0]).shape == (n_rows,)
    assert (np.abs(compact(R[:, 0]) - gram @ R[:, 0]) / scale[:, 0]).max() < 1e-13


@pytest.mark.parametrize("forest", SMALL)
def test_small_trees_are_grouped(forest):
    phi = embedding(SMALL[forest])
    cells, stop, n_cells, cell_sets = CompactGram(phi)._groups
    (first,) = np.nonzero(stop)
    # Groups follow one another, and hold every tree once.
    assert first[0] == 0
    assert [*first[1:], phi.forest.n_trees] == stop[first].tolist()
    assert len(first) < phi.forest.n_trees / 2
    for t in first:
        trees = range(t, stop[t])
        used = np.unique(cells[t])
        assert used.tolist() == list(range(n_cells[t]))  # none is empty
        assert n_cells[t] <= MOST_CELLS
        # A cell is what its rows have in common: rows share one exactly if all trees say so.
        leaves = phi.leaf_ids[t : stop[t]].T
        assert len(np.unique(leaves, axis=0)) == n_cells[t]
        for k, tree in enumerate(trees):
            sets = cell_sets[tree][cells[t]]
            pairs = np.unique(np.column_stack([sets, leaves[:, k]]), axis=0)
            assert len(pairs) == len(np.unique(sets)) == len(np.unique(leaves[:, k]))


@pytest.mark.parametrize("forest", LARGE)
def test_others_are_not(forest):
    assert CompactGram(embedding(LARGE[forest]))._groups is None


def test_the_same_bits_on_any_number_of_threads():
    many = np.tile(X, (8, 1))
    r = np.random.default_rng(0).normal(size=len(many))
    products = []
    for n_jobs in (1, 2, 3):
        phi = embedding(SMALL["boosted"], n_jobs=n_jobs).on(many)
        assert len(phi._tree_blocks()) > 1
        products.append(CompactGram(phi)(r).tobytes())
    assert len(set(products)) == 1
