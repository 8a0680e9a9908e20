"""Theorem 6: bounds of a mean loss by betting, of one sample and of folds."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import logsumexp

from bounds.betting_by_hand import capital
from kpp.bounds import betting, folds_betting, folds_kl, held_out_betting, held_out_kl
from kpp.bounds.betting import BETS, DIVISION, MANY_ROWS, STEP


def test_the_game_is_fair():
    # All samples of three rows of a law on three losses: the expectation is 1, to rounding.
    values, law = (0.0, 0.3, 1.0), (0.5, 0.2, 0.3)
    mean = np.dot(values, law)
    expected = sum(
        np.prod([law[k] for k in drawn]) * capital([values[k] for k in drawn], mean)
        for drawn in product(range(3), repeat=3)
    )
    assert expected == pytest.approx(1.0, rel=1e-14)
    assert DIVISION.sum() == 1.0
    assert (BETS > 0).all()
    assert (BETS <= 1).all()  # with more a single loss of 1 could leave a debt


@pytest.mark.parametrize("seed", range(5))
def test_one_sample_by_hand(seed):
    rng = np.random.default_rng(seed)
    losses = rng.beta(0.5, 3, rng.integers(3, 40))
    delta = rng.choice([0.3, 0.05, 1e-6])
    if capital(losses, 1.0) < 1 / delta:
        assert held_out_betting(losses, delta) == 1.0
        return
    expected = brentq(lambda p: np.log(capital(losses, p) * delta), losses.mean(), 1.0, xtol=1e-14)
    found = held_out_betting(losses, delta)
    assert found == pytest.approx(expected, rel=1e-7)
    assert found >= expected


@pytest.mark.parametrize("seed", range(6))
def test_folds_by_a_generic_solver(seed):
    rng = np.random.default_rng(seed)
    if seed < 4:
        folds = [rng.beta(1, 4, rng.integers(60, 200)) for _ in range(rng.integers(2, 6))]
    else:  # of two rows nothing is known: the worst mean has 1 there
        folds = [np.zeros(2), *(rng.beta(1, 5, 200) for _ in range(seed - 2))]
    level = np.log(13 / 0.05)

    def log_mean(p):
        logs = [
            [np.log1p(bet * (own - x)).sum() for bet in BETS]
            for own, x in zip(p, folds, strict=True)
        ]
        return logsumexp(np.array(logs) + np.log(DIVISION)) - np.log(len(folds))

    best = minimize(
        lambda p: -p.mean(),
        [x.mean() + 0.05 for x in folds],
        bounds=[(1e-6, 1.0)] * len(folds),
        constraints={"type": "ineq", "fun": lambda p: level - log_mean(p)},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    found = folds_betting(folds, n_candidates=13)
    assert best.x[0] == pytest.approx(1.0) if seed >= 4 else (best.x < 1).all()
    assert found == pytest.approx(-best.fun, rel=1e-5)
    assert found >= -best.fun * (1 - 1e-6)


def test_equal_folds_cost_no_more_than_one():
    x = np.random.default_rng(0).beta(1, 5, 300)
    assert folds_betting([x]) == held_out_betting(x)
    assert folds_betting([x, x, x]) == pytest.approx(held_out_betting(x), rel=1e-6)
    assert folds_betting([x, x, x]) >= held_out_betting(x)


@pytest.mark.parametrize(
    "law",
    [
        lambda rng, n: rng.beta(0.3, 3, n),
        lambda rng, n: (rng.random(n) < 0.02) * 1.0,
        lambda rng, n: np.where(rng.random(n) < 0.01, 1.0, 0.01),
        lambda rng, n: 1 - (rng.random(n) < 0.3) * rng.random(n),
    ],
    ids=["smooth", "rare", "a rare large one", "near one"],
)
@pytest.mark.parametrize("n_rows", [20, 150])
def test_it_fails_as_seldom_as_it_may(law, n_rows):
    delta, n_draws = 0.1, 1500
    truth = law(np.random.default_rng(0), 4_000_000).mean()
    failed = [
        held_out_betting(law(np.random.default_rng([1, k]), n_rows), delta) < truth
        for k in range(n_draws)
    ]
    assert np.mean(failed) <= delta + 3 * np.sqrt(delta * (1 - delta) / n_draws)


def test_folds_that_are_wrong_together_fail_as_seldom():
    # The same rows in all three folds: as dependent as can be, and no price is paid for it.
    delta, n_draws, failed = 0.1, 600, 0
    for k in range(n_draws):
        x = (np.random.default_rng(k).random(60) < 0.05) * 1.0
        failed += folds_betting([x, x, x], delta=delta) < 0.05
    assert failed / n_draws <= delta + 3 * np.sqrt(delta * (1 - delta) / n_draws)


def test_small_where_losses_vary_little():
    rng = np.random.default_rng(0)
    folds = [np.square(rng.normal(size=400)) / 60 for _ in range(3)]
    by_kl = folds_kl([x.mean() for x in folds], [400] * 3)
    assert folds_betting(folds) < 0.7 * by_kl
    assert held_out_betting(folds[0]) < 0.7 * float(held_out_kl(folds[0].mean(), 400))


def test_of_many_rows_losses_are_rounded_up():
    x = np.random.default_rng(0).beta(1, 30, MANY_ROWS + 1)
    exact = np.unique(x)
    game = betting._Game(exact, np.ones(len(exact)))
    expected, found = game.where_capital(np.log(20)), held_out_betting(x)
    assert expected < found < expected * (1 + STEP)


def test_nothing_is_known_of_few_rows():
    assert held_out_betting([0.0]) == 1.0
    assert folds_betting([[0.0], [1.0]]) == 1.0
    assert held_out_betting(np.zeros(100)) < 0.05


@pytest.mark.parametrize("losses", [[], [0.1, 1.2], [-0.1], [np.nan], [[0.1]]])
def test_losses_that_cannot_be(losses):
    with pytest.raises(ValueError, match=r"losses in \[0, 1\]"):
        held_out_betting(losses)
    with pytest.raises(ValueError, match=r"losses in \[0, 1\]"):
        folds_betting([[0.5], losses])


def test_counts_and_levels_that_cannot_be():
    with pytest.raises(ValueError, match="n_candidates"):
        folds_betting([[0.5]], n_candidates=0)
    with pytest.raises(ValueError, match="delta"):
        held_out_betting([0.5], 1.5)
