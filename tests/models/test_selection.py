"""The scale that alphas are carried by."""

import numpy as np
import pytest
from zoo import random_forest, random_node_weight, random_rows

from kpp.geometry import PathMap, path_weights
from kpp.solvers import mean_squared_spread


def test_spread_is_the_trace_of_the_centred_gram_over_the_rows():
    forest = random_forest(0)
    phi = PathMap(forest, path_weights(forest, random_node_weight(0, forest))).on(random_rows(0))
    weight = np.arange(40) % 3.0
    dense = phi.to_csr().toarray()
    centred = dense - np.average(dense, axis=0, weights=weight)
    expected = (weight * (centred**2).sum(axis=1)).sum() / np.count_nonzero(weight)
    assert mean_squared_spread(phi, weight) == pytest.approx(expected, rel=1e-12)


def test_rows_in_one_place_have_the_spread_of_one():
    forest = random_forest(0)
    nothing = path_weights(forest, np.zeros(forest.n_nodes), allow_no_mass=True)
    phi = PathMap(forest, nothing).on(random_rows(0))
    assert mean_squared_spread(phi, np.ones(40)) == 1.0
    assert mean_squared_spread(phi, np.full(40, 3.0)) == 3.0
