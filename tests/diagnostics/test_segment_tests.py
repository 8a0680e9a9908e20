"""Tests of segments: moments by enumeration, p-values by permuting, false alarms by simulation."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from kpp.diagnostics.segment_tests import holm, pearson_tail, segment_statistics


def test_figures_and_intervals_of_plain_rows_are_those_of_scipy():
    rng = np.random.default_rng(0)
    codes, loss = rng.integers(0, 3, 200), rng.exponential(size=200)
    codes[:5] = -1  # in no part, but among the rest
    found = segment_statistics(codes, 3, loss, np.ones(200))
    for k in range(3):
        here, rest = loss[codes == k], loss[codes != k]
        welch = stats.ttest_ind(here, rest, equal_var=False, alternative="greater")
        both = stats.ttest_ind(here, rest, equal_var=False).confidence_interval(0.95)
        own = stats.ttest_1samp(here, 0).confidence_interval(0.95)
        assert found.n_rows[k] == len(here)
        assert (found.mean[k], found.rest[k]) == pytest.approx((here.mean(), rest.mean()))
        assert (found.low[k], found.high[k]) == pytest.approx((own.low, own.high), rel=1e-9)
        ends = (found.difference_low[k], found.difference_high[k])
        assert ends == pytest.approx((both.low, both.high), rel=1e-9)
        assert found.p_value[k] >= welch.pvalue * (1 - 1e-9)


def by_all_permutations(codes, loss, weight):
    """Mean, variance and third moment of the difference over every order of the losses."""
    here = codes == 0
    share = np.where(here, weight / weight[here].sum(), -weight / weight[~here].sum())
    values = np.array([share @ loss[list(order)] for order in permutations(range(len(loss)))])
    return values.mean(), values.var(), ((values - values.mean()) ** 3).mean()


@pytest.mark.parametrize("weighted", [False, True])
def test_the_moments_of_the_permutation_test_are_exact(monkeypatch, weighted):
    rng = np.random.default_rng(1)
    loss, codes = rng.exponential(size=7) ** 2, np.array([0, 0, 1, 1, 1, 1, 1])
    weight = rng.random(7) + 0.5 if weighted else np.ones(7)
    seen = {}

    def remember(z, skewness):
        seen.update(z=z, skewness=skewness)
        return np.ones_like(z)

    monkeypatch.setattr("kpp.diagnostics.segment_tests.pearson_tail", remember)
    found = segment_statistics(codes, 2, loss, weight)
    mean, variance, third = by_all_permutations(codes, loss, weight)
    assert mean == pytest.approx(0, abs=1e-12)
    assert seen["z"][0] == pytest.approx(found.difference[0] / np.sqrt(variance), rel=1e-9)
    assert seen["skewness"][0] == pytest.approx(third / variance**1.5, rel=1e-9)


def test_the_tail_is_that_of_scipy():
    z, skewness = np.meshgrid(np.linspace(-3, 8, 40), [-2.0, -0.3, 1e-3, 0.2, 1.0, 4.0])
    oracle = stats.pearson3.sf(z, skewness)
    np.testing.assert_allclose(pearson_tail(z, skewness), oracle, rtol=1e-7, atol=1e-14)
    near = np.full(40, 1e-5)  # the normal law, where both would divide by nothing
    np.testing.assert_allclose(pearson_tail(z[0], near), stats.norm.sf(z[0]), rtol=1e-12)


def test_p_values_are_about_those_of_permuting():
    """Where losses have one law, the larger p-value is close to that of the permutation test."""
    rng = np.random.default_rng(3)
    for _ in range(3):
        loss = rng.exponential(size=150)
        codes = (np.arange(150) >= 30).astype(int)
        loss[:30] += 0.35
        found = segment_statistics(codes, 2, loss, np.ones(150)).p_value[0]
        draws = np.array([rng.permutation(loss)[:30].mean() for _ in range(4000)])
        permuted = np.mean(draws >= loss[:30].mean())
        assert found >= permuted - 3 * np.sqrt(permuted / 4000) - 0.002
        assert found <= permuted + 0.05


def alarms(draw, n_sets=400, n_columns=6, n_rows=240, seed=0):
    """Share of data sets in which some segment is called worse although none is."""
    rng = np.random.default_rng(seed)
    called = 0
    for _ in range(n_sets):
        columns, loss, weight, groups = draw(rng, n_rows, n_columns)
        p = [segment_statistics(c, 4, loss, weight, groups).p_value for c in columns]
        called += np.nanmin(holm(np.concatenate(p))) <= 0.05
    return called / n_sets


def columns_of_segments(rng, n_rows, n_columns):
    """Parts of very different sizes, the smallest of about 20 rows."""
    return [rng.choice(4, n_rows, p=[0.1, 0.15, 0.25, 0.5]) for _ in range(n_columns)]


LAWS = {
    "squared errors": lambda rng, n: rng.normal(size=n) ** 2,
    "heavy tails": lambda rng, n: rng.standard_t(5, size=n) ** 2,
    "log losses": lambda rng, n: np.where(rng.random(n) < 0.05, 3.0, 0.05) * rng.random(n),
    "0/1 errors": lambda rng, n: (rng.random(n) < 0.1).astype(float),
}
# 5%, and what 400 data sets can be above it by chance in one run of a hundred.
MOST = stats.binom.ppf(0.99, 400, 0.05) / 400


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("weighted", [False, True])
def test_false_alarms_are_rare_where_nothing_is_worse(law, weighted):
    def draw(rng, n_rows, n_columns):
        weight = rng.integers(1, 4, n_rows).astype(float) if weighted else np.ones(n_rows)
        return columns_of_segments(rng, n_rows, n_columns), LAWS[law](rng, n_rows), weight, None

    assert alarms(draw) <= MOST


def test_false_alarms_are_rare_where_only_the_spread_differs():
    """Equal means, five times the spread in the small segments: what permuting alone gets wrong."""

    def draw(rng, n_rows, n_columns):
        columns = columns_of_segments(rng, n_rows, 1)
        loss = 10 + rng.normal(size=n_rows) * np.where(columns[0] == 0, 5.0, 1.0)
        return columns, loss, np.ones(n_rows), None

    assert alarms(draw) <= MOST


def test_false_alarms_are_rare_with_groups_and_not_without_them():
    def draw(rng, n_rows, n_columns, known=True):
        groups = np.arange(n_rows) // 6
        columns = [c[groups] for c in columns_of_segments(rng, n_rows // 6, n_columns)]
        loss = (rng.normal(size=n_rows // 6)[groups] + 0.5 * rng.normal(size=n_rows)) ** 2
        return columns, loss, np.ones(n_rows), groups if known else None

    assert alarms(draw, n_rows=720) <= MOST
    # The rows of a group repeat each other: taken for independent they tell too much.
    assert alarms(lambda *a: draw(*a, known=False), n_rows=720, n_sets=100) > 0.15


def test_a_worse_segment_is_found():
    rng = np.random.default_rng(0)
    codes = rng.choice(4, 600, p=[0.1, 0.2, 0.3, 0.4])
    loss = rng.exponential(size=600) * np.where(codes == 0, 2.5, 1.0)
    p = holm(segment_statistics(codes, 4, loss, np.ones(600)).p_value)
    assert p[0] < 0.01
    assert (p[1:] > 0.05).all()


def test_rows_of_no_weight_are_no_rows():
    rng = np.random.default_rng(0)
    codes, loss = rng.integers(0, 2, 80), rng.exponential(size=80)
    weight = rng.integers(0, 2, 80).astype(float)
    kept = weight > 0
    for groups in (None, np.arange(80) // 4):
        one = segment_statistics(codes, 2, loss, weight, groups)
        own = None if groups is None else groups[kept]
        two = segment_statistics(codes[kept], 2, loss[kept], np.ones(kept.sum()), own)
        for name in one.__dataclass_fields__:
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-9)


def test_single_rows_in_groups_are_rows():
    """With a group for every row the sums over groups are those of Welch, up to small factors."""
    rng = np.random.default_rng(0)
    codes, loss = rng.integers(0, 2, 4000), rng.exponential(size=4000)
    one = segment_statistics(codes, 2, loss, np.ones(4000))
    two = segment_statistics(codes, 2, loss, np.ones(4000), np.arange(4000))
    np.testing.assert_allclose(one.difference_low, two.difference_low, rtol=1e-2, atol=1e-3)


def test_all_losses_alike_are_no_finding():
    found = segment_statistics(np.arange(40) % 2, 2, np.ones(40), np.ones(40))
    assert not (found.p_value < 0.05).any()


@pytest.mark.parametrize("seed", range(3))
def test_holm_is_the_closed_test(seed):
    """Adjusted p-values by their definition: step down until one is not called."""
    p = np.random.default_rng(seed).random(12) ** 3
    adjusted = holm(p)
    for level in (0.01, 0.05, 0.2):
        called = set()
        for k, i in enumerate(np.argsort(p)):
            if p[i] > level / (len(p) - k):
                break
            called.add(int(i))
        assert set(np.flatnonzero(adjusted <= level).tolist()) == called
