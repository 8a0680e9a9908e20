"""Checks of a table: clean ones raise nothing, and every fault that is put in is found."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from kpp import check_data
from kpp.diagnostics.data_findings import DATA_CHECKS, data_findings
from kpp.diagnostics.leaks import bins_of, copies_target, target_scores, unexplained
from kpp.diagnostics.table_columns import as_dates, histogram, is_id_like, profile_of

PAGE = Path(__file__).parents[2] / "docs" / "diagnostics.md"


def clean(seed, n_rows=300, *, classification=False):
    """Numbers, heavy tails, counts, categories, gaps, dates in no order; a noisy target."""
    random = np.random.default_rng(seed)
    a, b = random.normal(size=(2, n_rows))
    days = pd.to_timedelta(random.integers(0, 2000, n_rows), "D")
    frame = pd.DataFrame(
        {
            "a": a,
            "b": np.where(random.random(n_rows) < 0.2, np.nan, b),
            "tail": random.standard_cauchy(n_rows),
            "count": random.poisson(3.0, n_rows),
            "word": random.choice(["red", "green", "blue"], n_rows),
            "flag": random.random(n_rows) < 0.3,
            "when": (pd.Timestamp("2020-01-01") + days).strftime("%Y-%m-%d"),
        }
    )
    y = 2 * a + np.abs(b) + (frame["word"] == "red") + random.normal(size=n_rows)
    return frame, (np.where(y > 1, "yes", "no") if classification else y.to_numpy())


def test_codes_are_distinct_and_documented():
    codes = [check.code for check in DATA_CHECKS]
    assert codes == [f"KPP{k}" for k in range(101, 101 + len(codes))]
    text = PAGE.read_text()
    for check in DATA_CHECKS:
        assert re.search(rf"^### {check.code}$", text, re.MULTILINE), check.code
        assert check.meaning.endswith(".")
        assert check.source


@pytest.mark.parametrize("classification", [False, True])
def test_clean_tables_raise_nothing(classification):
    for seed in range(25):
        X, y = clean(seed, classification=classification)
        assert check_data(X, y).codes == [], seed


def test_one_strong_column_is_no_leak():
    """Nine tenths of the variance by one column, and others that say nothing: a real effect."""
    for seed in range(15):
        random = np.random.default_rng(seed)
        X = random.normal(size=(400, 5))
        y = 3 * X[:, 0] + random.normal(size=400)
        assert check_data(X, y).codes == []


@pytest.mark.parametrize("loader", [load_iris, load_wine, load_breast_cancer, load_diabetes])
def test_built_in_tables(loader):
    X, y = loader(return_X_y=True, as_frame=True)
    assert check_data(X, y).codes == []


def faults(seed=0):
    X, y = clean(seed)
    random = np.random.default_rng(seed + 1)
    n = len(y)
    gaps = np.where(random.random(n) < 0.7, np.nan, random.normal(size=n))
    return {
        "KPP101": (X.assign(bad=1), y),
        "KPP102": (X.assign(bad=gaps), y),
        "KPP104": (X.assign(bad=[f"c{k:05d}" for k in random.permutation(n)]), y),
        "KPP105": (X.assign(bad=np.exp(-y)), y),
        "KPP106": (X.assign(bad=y + 0.01 * random.normal(size=n)), y),
        "KPP109": (X.assign(bad=np.sort(X["when"])), y),
        # The gap tells the class: the value is filled in only afterwards.
        "KPP106 by its gaps": (X.assign(bad=np.where(y > 1, np.nan, 1.0)), y > 1),
    }


@pytest.mark.parametrize("name", ["KPP101", "KPP102", "KPP104", "KPP105", "KPP106", "KPP109"])
def test_faults_are_found(name):
    X, y = faults()[name]
    found = check_data(X, y)
    assert found.codes == [name]
    assert found.named_by(name) == ["bad"]
    assert found.columns[0].name == "bad"
    (finding,) = found.findings
    assert finding.meaning.startswith("'bad': ")
    assert name in str(found)
    assert check_data(X, y, silence=[name]).codes == []


def test_a_gap_that_tells_the_class():
    X, y = faults()["KPP106 by its gaps"]
    assert check_data(X, y).named_by("KPP106") == ["bad"]


def test_a_leak_far_above_all_others():
    """It leaves 5%: too much for certainty, but a twentieth of what all others leave."""
    X, y = clean(3, 600)
    random = np.random.default_rng(0)
    other = random.normal(size=600)
    y = other + 0.1 * y
    noisy = X.assign(bad=other)
    found = check_data(noisy, y)
    assert found.named_by("KPP106") == ["bad"]
    assert 0.9 < found.columns[0].skill < 0.99
    assert found.together > 0.5


def test_copies_of_rows():
    X, y = clean(0)
    found = check_data(pd.concat([X, X[:10]]), np.concatenate([y, y[:10]]))
    assert found.codes == ["KPP103"]
    assert found.n_duplicates == 10
    twice = check_data(pd.concat([X, X[:10]]), np.concatenate([y, y[10:20]]))
    assert (twice.n_duplicates, twice.n_contradictions) == (0, 10)
    assert twice.codes == []
    # Three coins are often equal.
    coins = np.random.default_rng(0).integers(0, 2, (400, 3))
    assert check_data(coins, np.random.default_rng(1).normal(size=400)).codes == []


def test_balance():
    X, _ = clean(0)
    rare = np.array(["no"] * 288 + ["yes"] * 12)
    assert check_data(X, rare).codes == ["KPP107"]
    assert check_data(X, np.array(["no"] * 150 + ["yes"] * 145 + ["none"] * 5)).codes == ["KPP108"]
    assert check_data(X, np.array(["no"] * 295 + ["yes"] * 5)).codes == ["KPP108", "KPP107"]


def test_skill_by_hand():
    random = np.random.default_rng(0)
    x, fold = random.integers(0, 4, 90), random.permutation(90) % 3
    y = (x + random.normal(size=90))[:, None]
    left = whole = 0.0
    for i in range(90):
        others = fold != fold[i]
        mean = y[others].mean()
        same = y[others & (x == x[i])]
        left += (y[i, 0] - (same.sum() + mean) / (len(same) + 1)) ** 2
        whole += (y[i, 0] - mean) ** 2
    assert unexplained(x, y, fold) == pytest.approx(left / whole, rel=1e-12)


def test_bins_and_targets():
    numbers = pd.Series([3.0, np.nan, 1.0, 3.0] * 30)
    assert len(np.unique(bins_of(numbers))) == 3
    many = bins_of(pd.Series(np.random.default_rng(0).normal(size=1000)))
    assert np.bincount(many).min() >= 10
    assert many.max() == 63
    words = pd.Series(["b", None, "a"])
    assert len(set(bins_of(words))) == 3
    assert target_scores(np.array([5.0, -1.0, 1e9]), classification=False).ravel().tolist() == [
        2 / 3,
        1 / 3,
        1.0,
    ]
    assert target_scores(np.array(["a", "b", "a"]), classification=True).tolist() == [
        [1, 0],
        [0, 1],
        [1, 0],
    ]
    labels = np.array(["u", "v"] * 20)
    assert copies_target(pd.Series([0, 1] * 20), labels, classification=True)
    assert not copies_target(pd.Series([0, 1] * 19 + [1, 1]), labels, classification=True)


def test_profiles_dates_and_names():
    assert histogram(np.array([0.0, 1.0, 1.0])) == (1, *[0] * 10, 2)
    assert sum(profile_of("x", pd.Series([1.0, np.inf, 2.0, np.nan])).counts) == 2
    profile = profile_of("w", pd.Series(["a", "b", "a", None, 3]))
    assert (profile.top[0], profile.n_missing, profile.n_distinct) == (("a", 2), 1, 3)
    assert as_dates(pd.Series(["2020-01-02", "31/12/2021"] * 30)) is not None
    assert as_dates(pd.Series(["1.5", "2.5"])) is None
    assert as_dates(pd.Series(["a", "b"])) is None
    assert is_id_like("x", pd.Series(range(30)), 30)
    assert is_id_like("user_id", pd.Series(np.random.default_rng(0).permutation(30)), 30)
    assert not is_id_like("x", pd.Series(np.random.default_rng(0).permutation(30)), 30)
    assert data_findings({}, {}) == []


def test_shapes_and_words():
    X, y = clean(0)
    found = check_data(X.to_numpy(dtype=object)[:, :2].astype(float))
    assert found.target is None
    assert [column.name for column in found.columns] == ["x0", "x1"]
    assert np.isnan(found.columns[0].skill)
    whole = check_data(X, y)
    assert whole.to_frame().loc["a", "skill"] > 0.4
    assert whole.to_dict()["findings"] == []
    assert "No findings." in str(whole)
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 60)))
    assert "and 20 more columns" in str(check_data(wide))
    with pytest.raises(ValueError, match="one value for each of the 300 rows"):
        check_data(X, y[:-1])
    with pytest.raises(ValueError, match="silence holds"):
        check_data(X, y, silence=["KPP001"])
    with pytest.raises(ValueError, match="must differ"):
        check_data(pd.concat([X, X], axis=1), y)
    gaps = pd.Series(y).where(np.arange(300) > 4)
    assert check_data(X, gaps).n_rows == 295


def test_names_that_are_numbers_and_mixed_values():
    mixed = np.array([1, "a", 2.5, "b", 1, "a"] * 5, dtype=object)
    frame = pd.DataFrame({0: mixed, 1: np.tile(np.arange(6.0), 5)})
    # Six different rows, each five times, whatever the target is called.
    labels = pd.Series(["x", "y", "x", "y", "x", "y"] * 5, dtype=object, name=3)
    assert check_data(frame, labels).n_duplicates == 24
