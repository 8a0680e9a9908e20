"""Ranked rows against scikit-learn's curves, and thresholds against counting by hand."""

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    precision_recall_curve,
    precision_recall_fscore_support,
)

from kpp._decimals import plain, shortest_above, shortest_from
from kpp.diagnostics.ranking import (
    average_precision,
    class_scores,
    gain_curve,
    precision_recall,
    threshold_table,
)


def drawn(seed, n=300, digits=2):
    """Rows with ties in their scores, weights, and some rows of no weight."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.2
    score = np.clip(0.3 * positive + 0.5 * rng.random(n), 0, 1).round(digits)
    weight = rng.integers(0, 3, n).astype(float)
    return positive, score, weight


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
def test_precision_recall_and_its_area_are_those_of_scikit_learn(seed, weighted):
    positive, score, weight = drawn(seed)
    weight = weight if weighted else np.ones(len(score))
    oracle = average_precision_score(positive, score, sample_weight=weight)
    assert average_precision(positive, score, weight) == pytest.approx(oracle, rel=1e-12)
    kept = weight > 0
    precision, recall, _ = precision_recall_curve(
        positive[kept], score[kept], sample_weight=weight[kept]
    )
    own = precision_recall(positive, score, weight)
    np.testing.assert_allclose(own[0][::-1], precision[:-1], rtol=1e-12)
    np.testing.assert_allclose(own[1][::-1], recall[:-1], rtol=1e-12)


def test_without_the_class_nothing_is_defined():
    none = np.zeros(3, dtype=bool)
    assert np.isnan(average_precision(none, np.arange(3.0), np.ones(3)))
    assert len(gain_curve(none, np.arange(3.0), np.ones(3))[0]) == 0


def test_a_constant_has_the_share_of_the_class():
    positive, _, weight = drawn(0)
    share = np.average(positive, weights=weight)
    found = average_precision(positive, np.full(len(positive), 0.3), weight)
    assert found == pytest.approx(share, rel=1e-12)


@pytest.mark.parametrize(("n", "digits"), [(40, 2), (300, 3), (3000, 12)])
def test_counts_at_every_threshold_are_exact(n, digits):
    positive, score, weight = drawn(1, n, digits)
    table = threshold_table(positive, score, weight)
    assert len(table.threshold) <= 200
    assert np.all(np.diff(table.threshold) > 0)
    assert {0.0, 0.5} <= set(table.threshold.tolist())
    for t, true, false in zip(
        table.threshold, table.true_positive, table.false_positive, strict=True
    ):
        assert float(f"{t:.6g}") == t  # what is written is what was counted
        counts = confusion_matrix(positive, score >= t, sample_weight=weight)
        assert (false, true) == (counts[0, 1], counts[1, 1])
    assert table.true_positive[0] == table.n_positive == weight[positive].sum()
    if digits == 2:  # no threshold tells more: every distinct score is cut off by one
        assert len(np.unique(table.true_positive + table.false_positive)) == len(
            np.unique([weight[score >= s].sum() for s in [*np.unique(score), 2.0]])
        )


def test_steps_are_where_the_rows_and_the_class_are():
    """A class of which one row in a thousand is: half of the steps are among its rows."""
    rng = np.random.default_rng(0)
    positive = np.arange(50_000) % 1000 == 0
    score = np.where(positive, 0.4 + 0.5 * rng.random(50_000), 0.01 * rng.random(50_000))
    table = threshold_table(positive, score, np.ones(len(score)))
    assert len(table.threshold) <= 200
    # All 50 rows of the class are told apart, and the others in steps of about a hundredth.
    assert len(np.unique(table.true_positive)) == 51
    assert np.max(-np.diff(table.false_positive)) < 0.02 * len(score)


@pytest.mark.parametrize("costs", [(1, 1), (1, 20), (7, 0.5), (0, 1)])
def test_the_best_threshold_is_the_cheapest(costs):
    positive, score, weight = drawn(2)
    table = threshold_table(positive, score, weight)
    by_hand = [
        costs[0] * weight[(score >= t) & ~positive].sum()
        + costs[1] * weight[(score < t) & positive].sum()
        for t in table.threshold
    ]
    best = table.best(*costs)
    assert by_hand[best] == min(by_hand)
    ties = [t for t, cost in zip(table.threshold, by_hand, strict=True) if cost == min(by_hand)]
    assert abs(table.threshold[best] - 0.5) == min(abs(t - 0.5) for t in ties)


def test_gains_by_hand():
    positive, score, weight = drawn(3)
    taken, found = gain_curve(positive, score, weight)
    for k, s in enumerate(np.unique(score)[::-1], start=1):
        above = score >= s
        assert taken[k] == pytest.approx(weight[above].sum() / weight.sum(), rel=1e-12)
        assert found[k] == pytest.approx(
            weight[above & positive].sum() / weight[positive].sum(), rel=1e-12
        )


def test_figures_of_classes_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    codes, said = rng.integers(0, 4, 200), rng.integers(0, 3, 200)
    weight = rng.random(200)
    found = class_scores(codes, said, weight, 5)
    oracle = precision_recall_fscore_support(
        codes, said, sample_weight=weight, labels=range(5), zero_division=np.nan
    )
    for k, name in enumerate(("precision", "recall", "f1")):
        own = np.array([one[name] for one in found])
        defined = ~np.isnan(own)
        np.testing.assert_allclose(own[defined], oracle[k][defined], rtol=1e-12)
    assert np.isnan(found[3]["precision"])  # never said
    assert np.isnan(found[4]["recall"])  # not there


def test_short_numbers_lie_where_they_must():
    rng = np.random.default_rng(0)
    for scale in (1e-9, 1e-3, 1.0, 1e4, 1e12):
        for low, width in zip(scale * rng.normal(size=40), scale * rng.random(40), strict=True):
            high = low + max(width, abs(np.spacing(low)))
            assert low <= shortest_from(low, high) < high
            assert low < shortest_above(low, high) <= high
    # Nothing shorter: one digit less leaves the interval.
    assert shortest_from(0.1234, 0.1241) == 0.124
    assert shortest_above(0.1234, 0.1241) == 0.124
    assert shortest_from(0.5, 0.51) == 0.5
    assert plain(0.1 + 0.2) == "0.3"
