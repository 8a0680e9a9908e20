"""Radii of a box: those that are looked at are the right ones, whatever is left out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpp.certificates import radii as radii_module
from kpp.certificates.radii import LARGEST, Radii, RisingRadii


def all_radii(thresholds, x, scale):
    """Every radius, one threshold at a time, as the page on certificates has it."""
    found = {np.inf}
    for own, value, unit in zip(thresholds, x, scale, strict=True):
        if not 0 < unit < np.inf:
            continue
        if np.isinf(value) and len(own):
            found.add(LARGEST)
        for t in own:
            if np.isfinite(value) and np.isfinite(t):
                with np.errstate(over="ignore"):
                    ulp = np.spacing(max(abs(value), abs(t)))
                    found.add((abs(value - t) - 4 * ulp) / unit * (1 - 2.0**-50))
    return np.array(sorted(r for r in found if r > 0))


def made(seed, every):
    """Columns of all kinds, and a row that lies on thresholds, far from them, or nowhere."""
    random = np.random.default_rng(seed)
    thresholds, x, scale = [], [], []
    for _ in range(random.integers(1, 6)):
        own = random.normal(size=random.integers(0, 5 * every)) * 10.0 ** random.integers(-8, 8)
        if random.random() < 0.2:
            own = np.append(own, [np.inf, -np.inf])
        own = np.unique(np.concatenate([own, np.nextafter(own, np.inf)]))
        thresholds.append(own)
        somewhere = random.choice([0.0, 1.5, 1e6, np.nan, np.inf, -np.inf])
        x.append(random.choice(own) if len(own) and random.random() < 0.4 else somewhere)
        scale.append(random.choice([1.0, 0.3, 1e-9, 1e9, 0.0, np.inf]))
    return thresholds, np.array(x), np.array(scale)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_all_ways_to_ask_give_the_same_radii(seed):
    every = radii_module.EVERY
    thresholds, x, scale = made(seed, every)
    random = np.random.default_rng(seed)
    # Radii of oblique splits, which come as they are: some negative, some twice.
    sums = random.normal(size=random.integers(0, 4 * every)) * 10.0 ** random.integers(-8, 8)
    sums = np.append(sums, sums[:3])
    expected = np.union1d(all_radii(thresholds, x, scale), sums[sums > 0])
    radii = Radii(thresholds, x, scale, sums)
    assert np.array_equal(radii.between(0.0, np.inf), expected)
    for _ in range(5):
        low, high = np.sort(random.choice(np.append(expected, 0.0), 2))
        inside = expected[(expected > low) & (expected <= high)]
        assert np.array_equal(radii.between(low, high), inside)
        with np.errstate(over="ignore"):
            limit = random.choice(expected) * random.choice([0.5, 1.0, 1.5])
        last = expected[expected <= limit]
        assert radii.last(lambda r, limit=limit: r <= limit) == (last[-1] if len(last) else 0.0)
        beyond = expected[expected > low]
        n = int(random.integers(0, len(beyond) + 3))
        first = RisingRadii(radii, low).first(n)
        assert len(first) >= min(n, len(beyond))
        assert np.array_equal(first, beyond[: len(first)])
        up_to = RisingRadii(radii, low).up_to(high)
        assert np.array_equal(up_to, beyond[: len(up_to)])
        assert set(up_to) >= set(inside)


def test_few_radii_of_many_are_computed():
    thresholds = [np.linspace(0, 1, 10**6)]
    radii = Radii(thresholds, np.array([0.3]), np.ones(1))
    rising = RisingRadii(radii, 0.01)
    assert len(rising.first(10)) < 1000
    assert rising.known[0] == pytest.approx(0.01 + 5e-7, abs=5e-7)
