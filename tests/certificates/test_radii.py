"""Radii of a box: those that are looked at are the right ones, whatever is left out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpp import KPPClassifier
from kpp.certificates import certify_raw
from kpp.certificates import radii as radii_module
from kpp.certificates.radii import LARGEST, Radii, RisingRadii
from kpp.forest import Forest, Tree


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


@pytest.mark.parametrize("last", range(2, 8))
def test_the_radius_is_found_among_those_that_no_step_outwards_met(make_linear, last):
    # Along one column a tree falls by 1 at 1, 2, ..., 8 and another rises by 1, until at `last` it
    # falls too: there the answer changes, and nowhere before, though tree by tree it may at 1.
    left, right, threshold = [-1] * 17, [-1] * 17, [0.0] * 17
    for t in range(8, 0, -1):  # the left child of each split has the next one
        v = 16 - 2 * t
        left[v], right[v], threshold[v] = v + 2, v + 1, float(t)
    tree = Tree(left=left, right=right, feature=[0] * 17, threshold=threshold)
    forest = Forest.from_trees([tree, tree], n_features=1)
    rows = np.arange(9.0)[:, None] + 0.5
    model = KPPClassifier(forest, regime="fixed", alpha=1.0, node_weight="uniform")
    model.fit(rows, np.arange(9) % 2)
    coefficients, steps = np.zeros(forest.n_nodes), np.arange(9.0)
    values = -steps, np.where(steps < last, steps, steps - 3)
    for tree_values, leaves in zip(values, model.map_.on(rows).leaf_ids, strict=True):
        coefficients[leaves] = tree_values / model.map_.scale[leaves]
    make_linear(model, coefficients, 1.0)
    score = np.where(steps < last, 1.0, -2.0)
    assert model.decision_function(rows) == pytest.approx(score, abs=1e-12)
    certificate = certify_raw(model, [[0.5]])
    assert certify_raw(model, [[0.5]], effort=0).radius[0] == pytest.approx(0.5)
    assert certificate.radius[0] == pytest.approx(last - 0.5, rel=1e-6)
    assert certificate.upper_radius[0] == pytest.approx(last - 0.5, rel=1e-6)


def test_pairs_of_trees_that_cancel_are_proved_in_pairs(make_linear):
    # Two trees for each of 20 columns, that lose and gain the same on either side of x: the score
    # is constant. Tree by tree it seems to fall, and all trees jointly have 3^20 combinations.
    tree = {"left": [1, -1, 3, -1, -1], "right": [2, -1, 4, -1, -1], "threshold": [-0.5, 0, 0.5]}
    tree["threshold"] += [0, 0]
    trees = [Tree(feature=[j // 2] * 5, **tree) for j in range(40)]
    forest = Forest.from_trees(trees, n_features=20)
    rows = np.random.default_rng(0).normal(size=(30, 20))
    model = KPPClassifier(forest, regime="fixed", alpha=1.0, node_weight="uniform")
    model.fit(rows, np.arange(30) % 2)
    coefficients = np.zeros(forest.n_nodes)
    for j, root in enumerate(model.map_.forest.roots):
        size = (-1) ** j * (1 + j // 2 / 32)  # of its own in each pair
        leaves = root + np.array([1, 3, 4])
        coefficients[leaves] = np.array([-size, 0.0, size]) / model.map_.scale[leaves]
    make_linear(model, coefficients, 0.25)
    assert model.decision_function(rows) == pytest.approx(np.full(30, 0.25), abs=1e-12)
    x = np.zeros((1, 20))
    assert certify_raw(model, x, effort=0).radius[0] < 0.5
    certificate = certify_raw(model, x, effort=5000)
    assert certificate.radius[0] == np.inf
    assert not certificate.found[0]
