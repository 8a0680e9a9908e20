"""What a fit keeps of the values of its columns."""

import numpy as np
import pandas as pd
import pytest

from kpp import KPPRegressor, load, save
from kpp._rows import MOST_VALUES, as_decimals, known_values


def test_values_and_decimals():
    n = 2 * MOST_VALUES
    X = pd.DataFrame(
        {
            "whole": np.arange(n) % 7,
            "cents": np.arange(n) / 100,
            "free": np.random.default_rng(0).normal(size=n),
            "single": (np.arange(n) % 9 / 10).astype(np.float32),
            "single cents": (np.arange(n) / 100).astype(np.float32),
            "text": ["a"] * n,
            "flag": np.arange(n) % 2 == 0,
            "gaps": np.where(np.arange(n) % 3, np.nan, 1.5),
        }
    )
    values, decimals = known_values(X)
    assert values[0].tolist() == list(range(7))
    assert values[3].tolist() == [k / 10 for k in range(9)]
    assert values[6].tolist() == [0.0, 1.0]
    assert values[7].tolist() == [1.5]
    assert [len(values[j]) for j in (1, 2, 4, 5)] == [0, 0, 0, 0]
    assert decimals.tolist() == [0, 2, -1, 1, 2, -1, 0, 1]


def test_numbers_of_single_precision_are_their_decimals():
    numbers = np.array([0.1, 75.8, 1e-8, 123456.0, -3.5], dtype=np.float32)
    found = as_decimals(numbers)
    assert found.tolist() == [0.1, 75.8, 1e-8, 123456.0, -3.5]
    np.testing.assert_array_equal(found.astype(np.float32), numbers)


def test_files_keep_them(tmp_path):
    X = np.random.default_rng(0).integers(0, 5, (60, 3)) / 10
    model = KPPRegressor("extra-trees", n_estimators=3, alpha=0.1, random_state=0).fit(X, X.sum(1))
    again = load(save(model, tmp_path / "model.kpp"))
    for own, other in zip(model.feature_values_, again.feature_values_, strict=True):
        np.testing.assert_array_equal(own, other)
    np.testing.assert_array_equal(model.feature_decimals_, again.feature_decimals_)


@pytest.mark.parametrize("absent", [True, False])
def test_rules_need_none_of_it(absent):
    from kpp import explain_rules

    X = np.random.default_rng(0).integers(0, 5, (60, 3)) / 10
    model = KPPRegressor("extra-trees", n_estimators=3, alpha=0.1, random_state=0).fit(X, X.sum(1))
    if absent:  # as in files of an earlier version
        del model.feature_values_, model.feature_decimals_
    found = explain_rules(model, X[0])
    total = found.baseline + sum(rule.contribution for rule in found.rules) + found.remainder
    assert total == pytest.approx(model.predict(X[:1])[0], rel=1e-10)
