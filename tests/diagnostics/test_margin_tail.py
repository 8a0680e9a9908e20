"""The tail of margins: exponents and constants that are known, and what has none."""

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.datasets import load_iris, make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpp import KPPClassifier, KPPRegressor
from kpp._checks import RefusedError
from kpp.diagnostics import margin_tail
from kpp.diagnostics.margins import tail_of


def coverage(draw, exponent, constant, n_draws, n_rows=1500, share=0.1, delta=0.1):
    """How often each interval misses."""
    rng = np.random.default_rng(0)
    missed = np.zeros(2, dtype=int)
    for _ in range(n_draws):
        tail = tail_of(draw(rng, n_rows), share=share, delta=delta)
        for place, (value, limits) in enumerate(
            [(exponent, tail.exponent_interval), (constant, tail.constant_interval)]
        ):
            missed[place] += not limits[0] <= value <= limits[1]
    return missed


def power(exponent, scale):
    return lambda rng, n: scale * rng.random(n) ** (1 / exponent) * rng.choice([-1, 1], n)


@pytest.mark.parametrize("exponent", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("scale", [0.2, 5.0])
def test_power_laws_are_covered(exponent, scale):
    missed = coverage(power(exponent, scale), exponent, scale**-exponent, 300)
    most = binom.isf(1e-3, 300, 0.1)
    least = binom.ppf(1e-3, 300, 0.1)
    assert least <= missed[0] <= most  # exact
    assert missed[1] <= binom.isf(1e-3, 300, 0.12)  # a normal approximation


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [0.3, 1.0, 2.5])
def test_power_laws_are_covered_in_many_draws(exponent):
    missed = coverage(power(exponent, 2.0), exponent, 2.0**-exponent, 5000, delta=0.05)
    assert missed[0] <= binom.isf(1e-3, 5000, 0.05)
    assert missed[1] <= binom.isf(1e-3, 5000, 0.06)


def test_a_law_that_holds_in_the_limit():
    # Normal scores have a density at zero: exponent 1, C = 2 phi(0).
    missed = coverage(lambda rng, n: rng.normal(size=n), 1.0, 2 * norm.pdf(0), 300)
    assert (missed <= binom.isf(1e-3, 300, 0.12)).all()


def test_the_formula():
    size = np.linspace(0.01, 1, 100) ** 2
    tail = tail_of(size, share=0.2)
    k, u = 20, size[20]
    kappa = (k - 1) / np.log(u / size[:k]).sum()
    assert (tail.n_tail, tail.threshold) == (20, u)
    assert tail.exponent == pytest.approx(kappa)
    assert tail.probability(u) == pytest.approx(0.2)
    # Scores in other units: the same exponent, another constant.
    scaled = tail_of(10 * size, share=0.2)
    assert scaled.exponent == pytest.approx(kappa)
    assert scaled.constant == pytest.approx(tail.constant * 10**-kappa)


@pytest.mark.parametrize(
    ("margins", "word"),
    [
        (np.arange(1.0, 60.0), "fewer than 10"),
        (np.r_[0.0, np.arange(1.0, 300.0)], "exactly 0"),
        (np.r_[np.full(50, 0.5), np.ones(50)], "equal"),
        ([], "fewer"),
    ],
)
def test_what_has_no_tail_says_why(margins, word):
    tail = tail_of(margins)
    assert np.isnan(tail.exponent)
    assert np.isnan(tail.constant_interval).all()
    assert word in tail.reason


def test_margins_of_a_model():
    X, y = make_classification(600, flip_y=0.2, random_state=0)
    model = make_pipeline(
        StandardScaler(), KPPClassifier("extra-trees", n_estimators=5, alpha=0.01, random_state=0)
    ).fit(X[:300], y[:300])
    found = margin_tail(model, X[300:])
    expected = tail_of(model.decision_function(X[300:]))
    assert found.exponent == expected.exponent
    assert margin_tail(model, X[300:], y[300:]).exponent == pytest.approx(expected.exponent)
    X3, y3 = load_iris(return_X_y=True)
    several = KPPClassifier("extra-trees", n_estimators=5, alpha=0.1, random_state=0).fit(X3, y3)
    scores = np.sort(several.decision_function(X3), axis=1)
    assert margin_tail(several, X3).exponent == tail_of(scores[:, -1] - scores[:, -2]).exponent
    own = several.decision_function(X3)
    others = np.where(np.arange(3) == y3[:, None], -np.inf, own).max(axis=1)
    signed = tail_of(own[np.arange(150), y3] - others)
    assert margin_tail(several, X3, y3).exponent == pytest.approx(signed.exponent)


def test_refusals():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(RefusedError, match="regressor"):
        margin_tail(KPPRegressor("extra-trees", n_estimators=2, alpha=1.0).fit(X, y), X)
    for wrong in ({"share": 0}, {"share": 1}, {"delta": 0}):
        with pytest.raises(ValueError, match="strictly between"):
            tail_of([1.0, 2.0], **wrong)
