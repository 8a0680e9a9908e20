"""`--time`: dates as people write them, the last rows as the test, blocks as folds."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpp.tables.errors import UserError
from kpp.tables.reading import TableFile
from kpp.tables.timing import blocks_of_time, split_by_time, times_of

DAYS = pd.date_range("2023-12-20", periods=40, freq="D")


def read(tmp_path, texts):
    path = tmp_path / "x.csv"
    pd.DataFrame({"x": range(len(texts)), "when": texts}).to_csv(path, index=False)
    table = TableFile(str(path))
    return times_of(table.read(), "when", table)


@pytest.mark.parametrize(
    "form",
    ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d %B %Y", "%Y/%m/%d", "%Y%m%d", "%Y-%m-%dT%H:%M:%SZ"],
)
def test_dates_in_any_way_of_writing_them_come_in_order(tmp_path, form):
    shuffled = np.random.default_rng(0).permutation(len(DAYS))
    times = read(tmp_path, DAYS[shuffled].strftime(form))
    assert (np.argsort(times) == np.argsort(shuffled)).all()


def test_numbers_are_times_as_they_are(tmp_path):
    assert read(tmp_path, [2020, 2019, 2021.5]).tolist() == [2020, 2019, 2021.5]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["2024-01-31", "soon", "2024-02-01"], "holds 'soon' in line 3"),
        (["31.12.2023", "12.31.2023", "01.01.2024"], r"in line \d, which is no date"),
        (["01.02.2024", "03.04.2024"], "may have the day or the month first: '01.02.2024' in line"),
        (["2024-01-31", None, "2024-02-01"], r"1 row\(s\) .* the first in line 3"),
        ([1.0, np.inf, 2.0], "is infinite in line 3"),
        ([True, False], "is true or false"),
    ],
)
def test_what_is_no_time_is_refused_with_its_line(tmp_path, texts, words):
    with pytest.raises(UserError, match=words):
        read(tmp_path, texts)


TIMES = st.lists(st.integers(0, 12), min_size=4, max_size=60).map(lambda t: np.array(t, float))


@given(TIMES, st.floats(0.05, 0.6))
def test_test_rows_are_later_than_all_others(times, share):
    try:
        train, test = split_by_time(times, share)
    except UserError:
        assert (times < np.sort(times)[len(times) - int(np.ceil(share * len(times)))]).sum() < 2
        return
    assert sorted([*train, *test]) == list(range(len(times)))
    assert times[train].max() < times[test].min()
    assert len(test) >= share * len(times)
    # One moment less would be too few.
    assert (times[test] > times[test].min()).sum() < np.ceil(share * len(times))


@given(TIMES)
def test_folds_are_blocks_of_time(times):
    if len(np.unique(times)) < 2:
        with pytest.raises(UserError, match="of the same time"):
            blocks_of_time(times)
        return
    fold = blocks_of_time(times).test_fold
    assert 2 <= len(np.unique(fold)) <= 5
    assert set(fold) == set(range(fold.max() + 1))
    for moment in np.unique(times):
        assert len(np.unique(fold[times == moment])) == 1
    most = np.unique(times, return_counts=True)[1].max()
    if most == 1:
        sizes = np.bincount(fold)
        assert sizes.max() - sizes.min() <= 1
        assert (np.diff(fold[np.argsort(times)]) >= 0).all()
