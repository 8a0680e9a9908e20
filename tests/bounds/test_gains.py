"""Intervals for the gain of fixed partitions: what the proofs use, and whether the limits hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import xlogy
from scipy.stats import beta, binom, gamma, multinomial
from sklearn.datasets import load_diabetes
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.model_selection import KFold

from kpp import Forest, KPPClassifier, KPPRegressor, partition_oracles
from kpp._checks import RefusedError
from kpp.bounds import entropy_gain_limits, variance_gain_limits
from kpp.bounds.gains import Cells, gamma_tail

from .worlds import World, most_failures

X, Y = load_diabetes(return_X_y=True)


def grown(world, seed, leaves, trees=5):
    """A forest that is fixed before any sample."""
    rng = np.random.default_rng(seed)
    X, y = world.draw(rng, 300)
    kind = ExtraTreesRegressor if leaves < 0 else ExtraTreesClassifier
    forest = kind(trees, max_leaf_nodes=abs(leaves), random_state=seed).fit(np.round(X), y)
    return Forest.from_model(forest)


def truth(forest, world, dtype):
    """The gain on the population, which has so many points: both labels with their masses."""
    points = np.concatenate([world.points] * 2)
    y = np.repeat([0, 1], len(world.rate)).astype(dtype)
    mass = np.concatenate([1 - world.rate, world.rate])
    return partition_oracles(forest, points, y, sample_weight=mass).gain


def failures(world, leaves, n_rows, dtype, n_draws, delta, seed=0):
    """How often the limits miss the truth, and how often the lower one is above 0."""
    forest = grown(world, seed, leaves)
    gain = truth(forest, world, dtype)
    rng = np.random.default_rng(seed + 1)
    below = above = informative = 0
    for _ in range(n_draws):
        X, y = world.draw(rng, n_rows)
        oracles = partition_oracles(forest, np.round(X), y.astype(dtype))
        found = oracles.interval(delta, y_range=(0.0, 1.0) if dtype is float else None)
        below += gain < found.lower - 1e-12
        above += gain > found.upper + 1e-12
        informative += found.lower > 0
    return below + above, informative


WORLDS = [
    (World.classes(noise=0.1), 4, 300),
    (World.classes(noise=0.0), 8, 300),
    (World.coins(), 30, 60),  # the gain is the cells' own
    (World(np.r_[np.full(30, 0.02), np.full(6, 0.5)], 6), 6, 200),  # one rare class
]


@pytest.mark.parametrize("dtype", [int, float])
@pytest.mark.parametrize("place", range(len(WORLDS)))
def test_the_limits_hold(place, dtype):
    world, leaves, n_rows = WORLDS[place]
    failed, informative = failures(world, leaves, n_rows, dtype, 60, 0.2)
    assert failed <= most_failures(60, 0.2)
    if place < 2:
        assert informative == 60


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [int, float])
@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize("place", range(len(WORLDS)))
def test_the_limits_hold_in_1000_draws(place, delta, dtype):
    world, leaves, n_rows = WORLDS[place]
    failed, _ = failures(world, leaves, n_rows, dtype, 1000, delta, seed=place)
    assert failed <= most_failures(1000, delta)


def test_without_the_cells_own_gain_the_lower_limit_fails():
    # Coins in 30 cells of 60 rows: the plug-in gain is far above the true one, which is 0. What
    # keeps the lower limit at 0 is the Gamma term; a shape of one cell does not.
    rng = np.random.default_rng(0)
    failed = {30: 0, 1: 0}
    for _ in range(100):
        cell, y = rng.integers(0, 30, 60), rng.integers(0, 2, 60)
        share = np.array([y[cell == c].mean() for c in np.unique(cell)])
        count = np.array([(cell == c).sum() for c in np.unique(cell)])
        gain = y.var() - count @ (share * (1 - share)) / 60
        for k in failed:
            shape = len(count) if k == 30 else 1
            failed[k] += variance_gain_limits(gain, shape, 60, 1.0, 0.05)[0] > 1e-12
    assert failed[30] == 0
    assert failed[1] > 50


def test_limits_by_hand():
    # t = log 80, a^2 = 8 t / 6000, Gamma shape 5: each line of the formula, at W = 1 and W = 10.
    t = np.log(80)
    u = np.sqrt(2 * t / 5)
    cells = (t + 5 * np.log(1 + u)) * (1 + u) / u / 4000
    for W in (1.0, 10.0):
        low, high = np.array(variance_gain_limits(0.1 * W**2, 10, 2000, W)) / W**2
        a = np.sqrt(8 * t / 6000)
        assert low + a * np.sqrt(low) == pytest.approx(0.1 - t / 6000 - cells)
        assert high - a * np.sqrt(high) == pytest.approx(0.1 + t / 6000 + np.log(160) / 4000)
        # Lambda from 14 cells, a shape of 7.
        v = np.sqrt(2 * t / 7)
        most = (t + 5 * np.log(1 + v)) * (1 + v) / v / 4000
        found = variance_gain_limits(0.1 * W**2, 10, 2000, W, most_cells=14)
        low, again = np.array(found) / W**2
        assert low + a * np.sqrt(low) == pytest.approx(0.1 - t / 6000 - most)
        assert again == high


@pytest.mark.parametrize("K", [2, 3])
def test_limits_of_classes_by_hand(K):
    counts = [1000, 1000] if K == 2 else [600, 600, 800]
    low, high = entropy_gain_limits(0.3, 10, counts)
    t = np.log(100)
    rarest = min(counts)
    V = -np.log(beta.ppf(0.01 / K, rarest, 2001 - rarest))
    a = np.sqrt(2 * (V + 2) * t / 2000)

    def tail(shape):
        u = np.sqrt(2 * t / shape)
        return (t + shape * np.log(1 + u)) * (1 + u) / u / 2000

    assert low + a * np.sqrt(low) == pytest.approx(0.3 - V * t / 6000 - tail(10 * (K - 1)))
    assert high - a * np.sqrt(high) == pytest.approx(0.3 + t / 2000 + tail(K - 1))
    # Lambda from 14 cells, the moments from 10.
    u = np.sqrt(2 * t / (14 * (K - 1)))
    shape = 10 * (K - 1)
    most = (t + shape * np.log(1 + u)) * (1 + u) / u / 2000
    low, again = entropy_gain_limits(0.3, 10, counts, most_cells=14)
    assert low + a * np.sqrt(low) == pytest.approx(0.3 - V * t / 6000 - most)
    assert again == high


@settings(deadline=None)
@given(st.floats(0.5, 200), st.floats(0.5, 12), st.floats(0.3, 3))
def test_the_gamma_tail_is_one(shape, t, off):
    assert gamma.sf(gamma_tail(shape, t), shape) <= np.exp(-t)
    # A lambda chosen for another shape costs something, and still holds.
    assert gamma_tail(shape, t, shape * off) >= gamma_tail(shape, t) * (1 - 0.05)
    assert gamma.sf(gamma_tail(shape, t, shape * off), shape) <= np.exp(-t)


@pytest.mark.parametrize("p", [0.001, 0.2, 0.5])
@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_moments_of_the_relative_entropy_of_two_classes(n, p):
    j = np.arange(n + 1)
    kl = xlogy(j, j / (n * p)) + xlogy(n - j, (n - j) / (n * (1 - p)))
    for at in (0.1, 0.5, 0.9):
        exact = np.sum(binom.pmf(j, n, p) * np.exp(at * kl))
        # The identity of the proof, and what it gives.
        i = np.arange(n + 1)
        bound = np.sum(np.cumprod(np.r_[1.0, (n - i[:-1]) / n]) * at**i)
        assert exact <= bound * (1 + 1e-12) <= 1 / (1 - at) * (1 + 1e-12)


def test_moments_of_the_relative_entropy_of_three_classes():
    n, p = 12, np.array([0.1, 0.3, 0.6])
    counts = np.array([(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)])
    kl = xlogy(counts, counts / (n * p)).sum(axis=1)
    for at in (0.2, 0.7, 0.95):
        assert multinomial.pmf(counts, n, p) @ np.exp(at * kl) <= (1 - at) ** -2


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_the_variance_of_psi_is_at_most_a_multiple_of_the_gain(seed):
    rng = np.random.default_rng(seed)
    k = rng.integers(2, 6)
    p, y = rng.dirichlet(np.ones(k)), rng.uniform(0, 1, (k, 3))
    share = rng.dirichlet(np.full(3, 0.5), k)
    f = (share * y).sum(axis=1)
    m = p @ f
    psi = (y - m) ** 2 - (y - f[:, None]) ** 2
    mass = p[:, None] * share
    gain = p @ (f - m) ** 2
    assert (mass * psi).sum() == pytest.approx(gain)
    assert (mass * psi**2).sum() <= 4 / 3 * gain + 1e-12
    eta = np.maximum(share, 1e-300)
    prior = p @ eta
    psi = np.log(eta / prior)
    mass = p[:, None] * eta
    information, V = (mass * psi).sum(), -np.log(prior.min())
    assert (mass * psi**2).sum() <= (V + 2) * information + 1e-12
    for at in (0.2, 0.7, 1.0):
        moment = (mass * np.exp(-at * (psi - information))).sum()
        assert moment <= np.exp(at**2 * (V + 2) * information / 2) * (1 + 1e-12)


def test_the_corrected_risk_is_the_jackknife_and_unbiased():
    rng = np.random.default_rng(0)
    cell, y = rng.integers(0, 4, 40), rng.integers(0, 3, 40)
    count = np.bincount(cell)
    share = np.array([np.bincount(y[cell == c], minlength=3) / count[c] for c in range(4)])
    variance = np.array([y[cell == c].var() for c in range(4)])
    assert Cells(count, variance).corrected_risk() == pytest.approx(
        sum(count[c] * y[cell == c].var(ddof=1) for c in range(4)) / 40
    )

    def entropy(labels):
        p = np.bincount(labels) / len(labels)
        return -xlogy(p, p).sum()

    jackknife = 0.0
    for c in range(4):
        own = y[cell == c]
        n = len(own)
        left_out = np.mean([entropy(np.delete(own, i)) for i in range(n)])
        jackknife += n / 40 * (n * entropy(own) - (n - 1) * left_out)
    assert Cells(count, class_share=share).corrected_risk() == pytest.approx(jackknife)
    assert np.isnan(Cells(np.ones(5), np.zeros(5)).corrected_risk())
    assert Cells(np.array([1, 1, 3]), np.zeros(3)).n_alone == 2


def test_the_estimate_is_near_the_truth_where_the_gain_is_not():
    world = World.coins()
    forest = grown(world, 0, 30)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(40):
        X, y = world.draw(rng, 240)
        oracles = partition_oracles(forest, np.round(X), y)
        found.append((oracles.gain, oracles.interval().estimate))
    gain, estimate = np.mean(found, axis=0)
    assert gain > 0.05
    assert abs(estimate) < 0.02


def test_what_the_interval_rests_on():
    model = KPPRegressor(
        "extra-trees", n_estimators=5, regime="honest", alpha=1.0, random_state=0
    ).fit(X, Y)
    oracles = partition_oracles(model, X, Y, sample="fit")
    known = oracles.interval(y_range=(0, 400))
    assert known.is_guarantee
    assert known.is_trivial is False
    assert "a cell" in known.note  # unpruned trees: one or two rows a leaf
    plugged = oracles.interval()
    assert [a.name for a in plugged.assumptions if a.holds is False] == ["range of Y"]
    assert not oracles.interval(y_range=(0, 100)).is_guarantee
    train = partition_oracles(model, X, Y, sample="train").interval(y_range=(0, 400))
    assert not train.is_guarantee
    shared = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0).fit(X, Y)
    assert not partition_oracles(shared, X, Y, sample="fit").interval(y_range=(0, 400)).is_guarantee
    # Wider at a smaller delta, and never beyond what a gain can be.
    wide = oracles.interval(1e-6, y_range=(0, 400))
    assert wide.lower <= known.lower
    assert known.upper <= wide.upper <= wide.most == 400**2 / 4
    with pytest.raises(RefusedError, match="weights"):
        partition_oracles(model, X, Y, sample_weight=np.ones(442)).interval()
    with pytest.raises(RefusedError, match="two finite numbers"):
        oracles.interval(y_range=(3, 1))
    several = partition_oracles(shared.forest_, X, np.column_stack([Y, Y]))
    with pytest.raises(RefusedError, match="one column"):
        several.interval()


def test_cross_fit_averages_the_limits_of_its_folds():
    labels = (Y > 140).astype(int)
    model = KPPClassifier(
        ExtraTreesClassifier(6, max_leaf_nodes=3),
        regime="cross-fit",
        cv=KFold(3, shuffle=True, random_state=0),
        alpha=0.1,
        random_state=0,
    ).fit(X, labels)
    found = partition_oracles(model, X, labels, sample="fit").interval(0.15)
    own = []
    for (rows, _), (_, block) in zip(model.folds_, model.map_.blocks, strict=True):
        alone = partition_oracles(block.forest, X[rows], labels[rows]).interval(0.05)
        own.append((alone.lower, alone.estimate, alone.upper))
    np.testing.assert_allclose((found.lower, found.estimate, found.upper), np.mean(own, axis=0))
    assert found.is_guarantee


def test_the_shape_that_fixes_lambda_does_not_depend_on_the_sample():
    # Leaves, of which there are never more than rows; not the leaves that rows reach.
    forest = Forest.from_model(ExtraTreesRegressor(3, random_state=0).fit(X, Y))
    leaves = np.add.reduceat(forest.is_leaf.astype(int), forest.roots)
    (sample,) = partition_oracles(forest, X[:300], Y[:300]).samples
    assert sample.most_cells == np.minimum(leaves, 300).mean()
    assert sample.n_cells < sample.most_cells
    (few,) = partition_oracles(forest, X[:9], Y[:9]).samples
    assert few.most_cells == 9


def test_a_class_without_rows_leaves_nothing_to_say():
    model = KPPClassifier("extra-trees", n_estimators=3, alpha=0.1, random_state=0)
    model.fit(X, np.arange(442) % 3)
    rows = np.flatnonzero(np.arange(442) % 3 < 2)
    found = partition_oracles(model, X[rows], (np.arange(442) % 3)[rows]).interval()
    assert found.is_trivial
    assert found.upper == pytest.approx(np.log(3))
    assert "no rows" in found.note
