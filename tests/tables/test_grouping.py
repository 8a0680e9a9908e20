"""Groups of rows: their names, how they are known again, and splits that keep them whole."""

import numpy as np
import pandas as pd
import pytest

from kpp.tables.errors import UserError
from kpp.tables.fit_rows import FITTED, HELD_OUT, NEW, FitRows
from kpp.tables.grouping import group_prints, groups_of, in_groups, split_by_groups


def names(*values):
    return groups_of(pd.DataFrame({"g": list(values)}), "g", "x.csv")


def test_a_group_is_the_same_in_every_file():
    assert names(7, 12).tolist() == names(7.0, 12.0).tolist() == names("7", "12").tolist()
    assert names(1.5, 1e300).tolist()[0] == "1.5"
    assert groups_of(pd.DataFrame({"g": [1]}), None, "x.csv") is None


def test_what_cannot_name_groups():
    with pytest.raises(UserError, match=r"x\.csv has no column 'h' \(--groups\)"):
        groups_of(pd.DataFrame({"g": [1]}), "h", "x.csv")
    with pytest.raises(UserError, match=r"2 row\(s\) of x\.csv have no 'g'"):
        names("a", None, np.nan)


def test_large_numbers_are_told_apart():
    """As numbers in single precision they would be one."""
    groups = names(1_000_000_001, 1_000_000_002)
    assert len(group_prints(groups)) == 2
    assert in_groups(groups, group_prints(groups[:1])).tolist() == [True, False]


def test_groups_are_known_whatever_the_order():
    groups = names(*"cabbac")
    assert len(group_prints(groups)) == 3
    known = group_prints(names("b", "z", "c"))
    assert in_groups(groups, known).tolist() == [True, False, True, True, False, True]


@pytest.mark.parametrize("seed", range(5))
def test_a_split_keeps_groups_whole_and_their_number(seed):
    groups = np.repeat(names(*range(30)), np.random.default_rng(1).integers(1, 9, 30))
    train, test = split_by_groups(groups, 0.2, seed)
    assert sorted([*train, *test]) == list(range(len(groups)))
    assert not set(groups[train]) & set(groups[test])
    assert len(set(groups[test])) == 6
    assert (np.diff(train) > 0).all()


def test_every_group_is_as_likely_as_any_other():
    """Large groups as small ones: a split until enough rows are drawn would favour some."""
    groups = np.repeat(names(*"abcde"), [50, 1, 1, 1, 1])
    found = [set(groups[split_by_groups(groups, 0.4, seed)[1]]) for seed in range(2000)]
    counts = [sum(name in drawn for drawn in found) for name in "abcde"]
    # Each is drawn with probability 2/5; five standard deviations of 2000 draws.
    assert max(abs(np.array(counts) - 800)) < 5 * np.sqrt(2000 * 0.4 * 0.6)


def test_too_few_groups():
    with pytest.raises(UserError, match="2 groups are too few"):
        split_by_groups(names(*"aabb"), 0.2, 0)


def test_rows_of_groups_of_the_fit_count_as_its_rows():
    table, part = np.arange(4, dtype=np.uint64), np.array([FITTED, FITTED, HELD_OUT, NEW])
    prints = group_prints(names("a", "b"))
    rows = FitRows(table, part.astype(np.uint8), np.empty(0, np.uint64), prints)
    rows = FitRows.from_dict(rows.to_dict())
    # In its own table rows are known by their place.
    assert rows.part_of(table, names("a", "b", "b", "b")).tolist() == part.tolist()
    other = np.array([9, 8, 2], dtype=np.uint64)
    assert rows.part_of(other).tolist() == [NEW, NEW, HELD_OUT]
    assert rows.part_of(other, names("b", "c", "c")).tolist() == [FITTED, NEW, HELD_OUT]
    assert rows.in_fitted_groups(names("b", "c", "b")) == 2
    assert rows.in_fitted_groups(None) == 0


def test_files_without_groups():
    rows = FitRows(np.arange(2, dtype=np.uint64), np.ones(2, np.uint8), np.empty(0, np.uint64))
    kept = rows.to_dict()
    assert "groups" not in kept
    rows = FitRows.from_dict(kept)
    assert rows.groups is None
    assert rows.part_of(np.array([5], np.uint64), names("a")).tolist() == [NEW]
    assert FitRows.from_dict(kept | {"groups": "?"}) is None
    assert FitRows.from_dict(list(kept)) is None
