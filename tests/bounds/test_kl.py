"""The binary relative entropy, its inverse, and the bounds of a fixed predictor."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from kpp.bounds import binary_kl, held_out_kl, kl_inverse, smallest_rows

share = st.floats(0, 1)


@settings(deadline=None)
@given(share, share)
def test_kl_is_nonnegative_and_above_pinskers(q, p):
    value = float(binary_kl(q, p))
    assert value >= 2 * (q - p) ** 2 - 1e-12


def test_kl_by_hand():
    assert binary_kl(0.0, 0.3) == pytest.approx(-np.log(0.7))
    assert binary_kl(1.0, 0.3) == pytest.approx(-np.log(0.3))
    assert binary_kl(0.3, 0.3) == pytest.approx(0.0, abs=1e-15)
    assert binary_kl(0.5, 0.0) == np.inf


@settings(deadline=None)
@given(share, st.floats(0, 10))
def test_the_inverse_is_the_largest_p(q, c):
    p = float(kl_inverse(q, c))
    assert q <= p <= 1
    if p < 1:
        assert binary_kl(q, p) >= c - 1e-12  # rounded upwards
        assert binary_kl(q, max(q, p - 1e-9)) <= c + 1e-12


def test_the_inverse_at_the_ends():
    np.testing.assert_allclose(
        kl_inverse([0.0, 1.0, 0.2], [0.1, 0.1, 0.0]), [1 - np.exp(-0.1), 1, 0.2]
    )
    assert kl_inverse(0.1, np.inf) == 1
    with pytest.raises(ValueError, match="q in"):
        kl_inverse(1.2, 0.1)


@pytest.mark.parametrize("risk", [0.02, 0.3])
def test_the_held_out_bound_holds_exactly(risk):
    # The probability that it fails is a sum of binomial probabilities: no simulation needed.
    n, delta = 80, 0.05
    counts = np.arange(n + 1)
    fails = held_out_kl(counts / n, n, delta) < risk
    assert binom.pmf(counts, n, risk)[fails].sum() <= delta


def test_smallest_rows_is_the_first_that_succeeds():
    n = smallest_rows(0.1, 0.15)
    assert held_out_kl(0.1, n) < 0.15 <= held_out_kl(0.1, n - 1)
    assert smallest_rows(0.2, 0.15) is None
