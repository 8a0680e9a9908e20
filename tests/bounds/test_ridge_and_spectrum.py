"""Effective dimension, the bias-variance decomposition, and traces from random vectors."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator

from kpp import KPPClassifier, KPPRegressor
from kpp.bounds import Spectrum, bias_variance, effective_dimension, gram_spectrum

X, Y = load_diabetes(return_X_y=True)
ALPHA = np.logspace(-4, 4, 12)[5]


@pytest.fixture(scope="module")
def paper():
    forest = RandomForestRegressor(30, max_depth=6, random_state=0)
    return KPPRegressor(forest, alpha=ALPHA).fit(X, Y)


def test_the_papers_diabetes_table(paper):
    # PB-01: d_eff/n .073, mu_min 3.7e-5; PB-02, on the full sample: .080, 4.8e-5.
    spectrum = gram_spectrum(paper.map_.on(X))
    assert round(effective_dimension(paper, X).value / 442, 3) == 0.073
    assert f"{spectrum.smallest.value:.1e}" == "3.7e-05"
    forest = RandomForestRegressor(30, max_depth=6, random_state=0)
    honest = KPPRegressor(forest, regime="honest", alpha=ALPHA, random_state=0).fit(X, Y)
    assert f"{effective_dimension(honest, X).value / 442:.4f}" == "0.0795"
    assert f"{gram_spectrum(honest.map_.on(X)).smallest.value:.1e}" == "4.8e-05"
    # On the fit fold alone, which is what the regime is about: .0966 and 9.2e-4.
    fit = X[honest.fit_rows_]
    assert f"{effective_dimension(honest, fit).value / 221:.4f}" == "0.0966"
    assert f"{gram_spectrum(honest.map_.on(fit)).smallest.value:.1e}" == "9.2e-04"


@pytest.mark.parametrize("centered", [False, True])
def test_the_definition(paper, centered):
    gram = paper.map_.gram()
    if centered:
        middle = np.eye(442) - 1 / 442
        gram = middle @ gram @ middle
    smoother = gram @ np.linalg.inv(gram + 0.3 * np.eye(442))
    spectrum = gram_spectrum(paper.map_, centered=centered)
    assert spectrum.effective_dimension(0.3).value == pytest.approx(np.trace(smoother))
    assert spectrum.trace_of_square(0.3).value == pytest.approx(np.trace(smoother @ smoother))
    assert spectrum.trace == pytest.approx(np.trace(gram))
    assert spectrum.largest.value == pytest.approx(np.linalg.norm(gram, 2))


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("centered", [False, True])
def test_random_vectors_come_within_the_stated_error(paper, alpha, centered):
    exact = gram_spectrum(paper.map_, centered=centered).effective_dimension(alpha).value
    within = 0
    for seed in range(10):
        drawn = gram_spectrum(paper.map_, centered=centered, exact_rows=0, random_state=seed)
        estimate = drawn.effective_dimension(alpha)
        within += abs(estimate.value - exact) <= 3 * estimate.error
    assert within == 10


def test_quadratures_bracket_from_below_and_above(paper):
    spectrum = gram_spectrum(paper.map_, exact_rows=0, n_steps=12)
    gram = paper.map_.gram()
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(2, 442))
    for alpha in (1e-3, 0.1):
        truth = np.einsum(
            "pi,ij,pj->p", signs, gram @ np.linalg.inv(gram + alpha * np.eye(442)), signs
        )
        upper = (spectrum.weights * spectrum.nodes / (spectrum.nodes + alpha)).sum(axis=1)
        lower = 442 - alpha * spectrum._radau_inverse(alpha)
        assert (lower <= truth + 1e-7).all()
        assert (truth <= upper + 1e-7).all()


def test_a_space_that_is_exhausted():
    stump = KPPRegressor(RandomForestRegressor(2, max_depth=1, random_state=0), alpha=1.0).fit(X, Y)
    exact = gram_spectrum(stump.map_).effective_dimension(0.01)
    drawn = gram_spectrum(stump.map_, exact_rows=0, n_probes=50)
    estimate = drawn.effective_dimension(0.01)
    assert abs(estimate.value - exact.value) < 4 * estimate.error
    assert drawn.smallest.value == 0


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_bias_and_variance_are_what_a_simulation_gives(fit_intercept):
    rng = np.random.default_rng(0)
    signal = X @ rng.normal(size=10) * 20
    forest = FrozenEstimator(RandomForestRegressor(10, max_depth=4, random_state=0).fit(X, Y))
    model = KPPRegressor(forest, regime="fixed", alpha=0.5, fit_intercept=fit_intercept, tol=1e-18)
    model.fit(X, signal)
    parts = bias_variance(model, X, noise_variance=4.0, signal=signal)
    gram = model.map_.gram()
    if fit_intercept:
        middle = np.eye(442) - 1 / 442
        centred = middle @ gram @ middle
        smoother = 1 / 442 + centred @ np.linalg.inv(centred + 0.5 * np.eye(442))
    else:
        smoother = gram @ np.linalg.inv(gram + 0.5 * np.eye(442))
    y = signal[:, None] + 2.0 * rng.normal(size=(442, 4000))
    np.testing.assert_allclose(
        clone_predict(model, y[:, 0]), smoother @ y[:, 0], atol=1e-6 * np.abs(y).max()
    )
    errors = np.square(smoother @ y - signal[:, None]).mean(axis=0)
    assert parts.total == pytest.approx(errors.mean(), abs=4 * errors.std() / np.sqrt(4000))
    assert parts.is_guarantee
    assert parts.trace_of_square <= parts.trace


def clone_predict(model, y, weight=None):
    return clone(model).fit(X, y, sample_weight=weight).predict(X)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_weights_of_the_fit_are_those_of_the_smoother(fit_intercept, monkeypatch):
    rng = np.random.default_rng(0)
    weight = np.where(np.arange(442) < 221, 10.0, 0.1) * (np.arange(442) % 7 > 0)
    forest = FrozenEstimator(RandomForestRegressor(5, max_depth=3, random_state=0).fit(X, Y))
    model = KPPRegressor(forest, regime="fixed", alpha=0.5, fit_intercept=fit_intercept, tol=1e-18)
    # The columns of S are the predictions of a fit to one label.
    units = rng.normal(size=(442, 30))
    columns = np.column_stack([clone_predict(model, u, weight) for u in units.T])
    model.fit(X, Y, sample_weight=weight)
    parts = bias_variance(model, X, noise_variance=4.0, signal=Y)
    fitted = clone_predict(model, Y, weight)
    assert parts.bias == pytest.approx(np.square(Y - fitted).mean(), rel=1e-6)
    # Tr(S S') is the mean of |S z|^2.
    size = np.square(columns).sum(axis=0)
    spread = 4 * size.std() / np.sqrt(30)
    assert parts.trace_of_square == pytest.approx(size.mean(), abs=spread)
    assert parts.variance == pytest.approx(4 * parts.trace_of_square / 442)
    assert parts.is_guarantee
    unweighted = bias_variance(clone(model).fit(X, Y), X, noise_variance=4.0, signal=Y)
    assert abs(unweighted.trace_of_square - parts.trace_of_square) > 2 * spread
    # Random vectors give the same, with an error.
    monkeypatch.setattr("kpp.bounds.ridge.EXACT_ROWS", 10)
    drawn = bias_variance(model, X, noise_variance=4.0, signal=Y)
    assert 0 < abs(drawn.variance - parts.variance) < 4 * drawn.error
    assert abs(drawn.trace - parts.trace) < 0.3 * parts.trace
    assert not drawn.is_guarantee


def test_weights_of_two_are_half_the_penalty():
    forest = FrozenEstimator(RandomForestRegressor(5, random_state=0).fit(X, Y))
    twice = KPPRegressor(forest, regime="fixed", alpha=0.5).fit(X, Y, sample_weight=np.full(442, 2))
    half = KPPRegressor(forest, regime="fixed", alpha=0.25).fit(X, Y)
    ours, theirs = (bias_variance(m, X, noise_variance=1.0, signal=Y) for m in (twice, half))
    assert ours.trace == pytest.approx(theirs.trace)
    assert ours.total == pytest.approx(theirs.total)


def test_a_chosen_alpha_makes_no_identity():
    forest = FrozenEstimator(RandomForestRegressor(5, random_state=0).fit(X[::2], Y[::2]))
    for alpha, holds in (("auto", False), (0.5, None)):
        model = KPPRegressor(forest, regime="fixed", alpha=alpha).fit(X[1::2], Y[1::2])
        parts = bias_variance(model, X[1::2], noise_variance=1.0, signal=Y[1::2])
        assumption = next(a for a in parts.assumptions if a.name == "alpha fixed beforehand")
        assert assumption.holds is holds
        assert parts.is_guarantee is (holds is None)


def test_many_rows_state_the_error_of_the_variance(monkeypatch):
    forest = FrozenEstimator(RandomForestRegressor(5, random_state=0).fit(X[::2], Y[::2]))
    model = KPPRegressor(forest, regime="fixed", alpha=0.5).fit(X, Y)
    exact = bias_variance(model, X, noise_variance=1.0, signal=Y)
    assert (exact.error, exact.is_guarantee) == (0.0, True)
    monkeypatch.setattr("kpp.bounds.ridge.EXACT_ROWS", 10)
    drawn = bias_variance(model, X, noise_variance=1.0, signal=Y)
    assert 0 < abs(drawn.variance - exact.variance) < 4 * drawn.error
    assert "Lanczos" in drawn.method
    assert not drawn.is_guarantee


def test_the_error_of_the_variance_is_that_of_a_mean(monkeypatch):
    rows, y = X[:60], Y[:60]
    weight = np.random.default_rng(0).uniform(0.5, 2, 60)
    forest = FrozenEstimator(RandomForestRegressor(5, max_depth=3, random_state=0).fit(X, Y))
    model = KPPRegressor(forest, regime="fixed", alpha=0.5, tol=1e-18)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], (8, 60))
    # S z is the prediction of a fit to z, and z'S'S z is drawn for the trace of S S'.
    smooth = [clone(model).fit(rows, z, sample_weight=weight).predict(rows) for z in signs]
    drawn = np.square(smooth).sum(axis=1)
    model.fit(rows, y, sample_weight=weight)
    monkeypatch.setattr("kpp.bounds.ridge.EXACT_ROWS", 10)

    class Draws:
        def choice(self, values, shape):
            assert shape == signs.shape
            return signs

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Draws())
    parts = bias_variance(model, rows, noise_variance=4.0, signal=y)
    assert parts.trace_of_square == pytest.approx(sum(drawn) / 8, rel=1e-7)
    assert parts.variance == pytest.approx(4 / 60 * sum(drawn) / 8, rel=1e-7)
    # The variance of a mean of 8: sum of squares over 7, over 8.
    squares = sum((one - sum(drawn) / 8) ** 2 for one in drawn)
    assert parts.error == pytest.approx(4 / 60 * np.sqrt(squares / 7 / 8), rel=1e-6)


def test_the_error_of_random_signs_is_that_of_what_the_chord_leaves(paper):
    gram = paper.map_.gram()
    values, vectors = np.linalg.eigh(gram)
    inside = np.square(values / (values + 0.1))
    # The trace of G is known; random signs are for f(G) - c G, the chord c at the largest.
    rest = (vectors * (inside - inside[-1] / values[-1] * values)) @ vectors.T
    # z'Az has variance 2 (Tr A^2 - sum of A_ii^2), at most 2 Tr A^2.
    n_probes = 200
    error = np.sqrt(2 * np.square(rest).sum() / n_probes)
    drawn = gram_spectrum(paper.map_, exact_rows=0, n_probes=n_probes, n_steps=60)
    found = drawn.trace_of_square(0.1)
    assert found.error == pytest.approx(error, rel=0.05)
    assert abs(found.value - inside.sum()) < 4 * error


def test_the_noise_is_estimated_by_residuals_and_their_freedom():
    forest = FrozenEstimator(RandomForestRegressor(10, max_depth=4, random_state=0).fit(X, Y))
    model = KPPRegressor(forest, regime="fixed", alpha=0.5, fit_intercept=False, tol=1e-18)
    parts = bias_variance(model.fit(X, Y), X, Y)
    gram = model.map_.gram()
    rest = np.eye(442) - gram @ np.linalg.inv(gram + 0.5 * np.eye(442))
    # E |(I - S) noise|^2 = variance Tr (I - S)'(I - S).
    expected = np.square(rest @ Y).sum() / np.square(rest).sum()
    assert parts.noise_variance == pytest.approx(expected, rel=1e-6)
    assert parts.variance == pytest.approx(expected * np.square(np.eye(442) - rest).sum() / 442)


def test_what_is_estimated_is_said(paper):
    parts = bias_variance(paper, X, Y)
    assert parts.noise_is_estimated
    assert parts.signal_is_estimated
    assert not parts.is_guarantee
    assert parts.assumptions[0].holds is False
    known = bias_variance(paper, X, Y, noise_variance=1.0)
    assert (known.noise_is_estimated, known.noise_variance) == (False, 1.0)


def test_refusals(paper):
    with pytest.raises(ValueError, match="Give y"):
        bias_variance(paper, X)
    with pytest.raises(ValueError, match="must not be negative"):
        bias_variance(paper, X, Y, noise_variance=-1.0)
    cancer = load_breast_cancer(return_X_y=True)
    classifier = KPPClassifier("extra-trees", n_estimators=3, alpha=1e-2).fit(*cancer)
    with pytest.raises(TypeError, match="KPPRegressor"):
        bias_variance(classifier, *cancer)
    with pytest.raises(ValueError, match="alpha must be given"):
        effective_dimension(classifier, cancer[0])
    cross = KPPRegressor("extra-trees", n_estimators=3, regime="cross-fit", cv=3, alpha=1.0).fit(
        X, Y
    )
    with pytest.raises(ValueError, match="not cross-fit"):
        bias_variance(cross, X, Y)
    with pytest.raises(ValueError, match="alpha must be positive"):
        effective_dimension(paper, X, 0.0)


def test_a_spectrum_of_nothing_but_zeros():
    zeros = np.zeros((2, 3))
    spectrum = Spectrum(4, 0.0, nodes=zeros, weights=zeros + 4 / 3, coefficients=(zeros, zeros))
    found = spectrum.trace_of_square(0.5)
    assert (found.value, found.error) == (0, 0)
    found = spectrum.effective_dimension(0.5)
    assert (found.value, found.error) == (0, 0)
    assert (spectrum.largest.value, spectrum.smallest.value) == (0, 0)


def test_the_dimension_is_the_middle_of_both_quadratures():
    model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0).fit(
        X[:120], Y[:120]
    )
    spectrum = gram_spectrum(model.map_, exact_rows=0, n_steps=4)
    alpha = 0.05
    found = spectrum.effective_dimension(alpha)
    inside = spectrum.nodes / (spectrum.nodes + alpha)
    upper, error = spectrum._drawn(inside)
    above = (spectrum.weights * inside).sum(axis=1).mean()
    below = np.mean(spectrum.n_rows - alpha * spectrum._radau_inverse(alpha))
    assert above - below > 1e-3
    assert found.value == pytest.approx(upper - (above - below) / 2, rel=1e-12)
    assert found.error == pytest.approx(error + (above - below) / 2, rel=1e-12)
