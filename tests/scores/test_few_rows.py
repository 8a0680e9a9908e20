"""Few rows take a shorter way through linear terms, to the same bits."""

import numpy as np
import pytest

from kpp.geometry.linear import FEW_ROWS, LinearTerms
from kpp.scores.linear import LinearScores


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_few_rows_have_the_bits_of_many(dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)).astype(dtype)
    X[rng.random(X.shape) < 0.2] = np.nan
    terms = LinearTerms.fit(X[:100])
    assert terms.is_missing.any()
    X[::3] *= 7
    X[5, 0], X[6, 1] = np.inf, -np.inf
    whole = terms.coordinates(X)
    linear = LinearScores("", terms, rng.normal(size=(3, len(terms))))
    scores = np.tile(rng.normal(size=(3, 1)), (1, len(X)))
    few = scores.copy()
    linear.add_to(scores, whole)
    for first in range(0, len(X), FEW_ROWS):
        part = slice(first, first + FEW_ROWS)
        own = terms.coordinates(X[part])
        assert own.flags.f_contiguous
        np.testing.assert_array_equal(own, whole[part])
        linear.add_to(few[:, part], own)
    np.testing.assert_array_equal(few, scores)
