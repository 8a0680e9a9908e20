"""What the command says of what the fit did not have: categories, gaps, values out of range."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from kpp.diagnostics.ranges import chance_of_all_new, new_gaps, outside_range
from kpp.models.asking import ask
from kpp.tables.columns import prepare
from kpp.tables.fitting import FitOptions, build


def table(n_rows=120, seed=0):
    """A column with '?' for a gap, one of numbers as text with '?', and plain ones."""
    random = np.random.default_rng(seed)
    days = pd.to_timedelta(random.integers(0, 99, n_rows), "D")
    return pd.DataFrame(
        {
            "work": random.choice(["state", "own", "?"], n_rows),
            "hours": random.choice(["20", "35", "40", "?"], n_rows),
            "age": random.integers(18, 66, n_rows),
            "sex": random.choice(["f", "m"], n_rows),
            "when": pd.Timestamp("2024-01-01") + days,
        }
    )


@pytest.fixture(scope="module")
def pipeline():
    frame = table()
    options = FitOptions(forest="extra-trees", trees=5, alpha="1", jobs=1)
    return build("regression", options).fit(frame, frame["age"] + np.arange(len(frame)) % 3)


def test_the_rows_of_the_fit_raise_no_remark(pipeline):
    assert prepare(pipeline, table())[1] == []


def test_a_category_is_new_where_it_is(pipeline):
    frame = table()
    frame.loc[3, "work"] = "church"
    frame.loc[4, "hours"] = "many"
    remarks = prepare(pipeline, frame)[1]
    assert len(remarks) == 2
    assert "'hours': 1 of 120 values are not the numbers" in remarks[0]
    assert "'work': 1 of 120 values are categories" in remarks[1]
    assert "'church'" in remarks[1]


def test_gaps_where_the_fit_had_none(pipeline):
    frame = table()
    frame.loc[:2, "work"] = None  # the fit had gaps here
    frame.loc[:2, "sex"] = "N/A"
    frame["age"] = frame["age"].astype(float)
    frame.loc[:1, "age"] = np.nan
    remarks = prepare(pipeline, frame)[1]
    assert remarks == [
        "Column 'sex': 3 of 120 values are missing; in the fit none was.",
        "Column 'age': 2 of 120 values are missing; in the fit none was.",
    ]


def test_values_out_of_range(pipeline):
    frame = table()
    frame.loc[:19, "age"] = 90
    (remark,) = prepare(pipeline, frame)[1]
    assert "'age' (20 of 120 rows outside 18 to 65)" in remark
    # One row a little out is what chance gives; one that is far out is told all the same.
    for value, n_remarks in ((70, 0), (1000, 1)):
        frame = table()
        frame.loc[0, "age"] = value
        assert len(prepare(pipeline, frame)[1]) == n_remarks
    later = table()
    later["when"] += pd.Timedelta(days=60)
    (remark,) = prepare(pipeline, later)[1]
    assert "when_total_seconds" in remark


def test_the_chance_by_counting():
    for n_new, n_old, k in ((3, 4, 1), (3, 4, 2), (4, 2, 3), (2, 2, 3)):
        ways = list(combinations(range(n_new + n_old), k))
        all_new = sum(max(way) < n_new for way in ways)
        assert chance_of_all_new(k, n_new, n_old) == pytest.approx(all_new / len(ways), abs=1e-12)


def test_alike_rows_are_seldom_out_of_range():
    from kpp import KPPRegressor

    random = np.random.default_rng(0)
    alarms = 0
    for _ in range(60):
        X = random.standard_t(2, size=(160, 6))  # heavy tails: the range is far from settled
        model = KPPRegressor("extra-trees", n_estimators=1, alpha=1.0, random_state=0)
        question = ask(model.fit(X[:100], X[:100, 0]))
        alarms += any(one.p_value <= 0.05 for one in outside_range(question, X[100:]))
        assert new_gaps(question, X[100:]) == []
    assert alarms <= 8  # of 60 at most 3 are expected; 9 or more have a chance below 1 in 200


def test_the_range_of_the_fit(tmp_path):
    from kpp import KPPRegressor, load, save

    X = np.array([[1.0, np.nan, 5.0], [3.0, np.nan, -5.0], [2.0, np.nan, 0.0]] * 5)
    model = KPPRegressor("extra-trees", n_estimators=2, alpha=1.0, random_state=0)
    model = model.fit(X, X[:, 0])
    expected = [[1.0, np.nan, -5.0], [3.0, np.nan, 5.0]]
    np.testing.assert_array_equal(model.feature_range_, expected)
    save(model, tmp_path / "model.kpp")
    np.testing.assert_array_equal(load(tmp_path / "model.kpp").feature_range_, expected)
    model.feature_range_ = None  # as in an older file
    assert outside_range(ask(model), X + 100) == []
