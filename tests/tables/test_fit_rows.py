"""Rows of a fit are known again, in whatever file they come."""

import numpy as np
import pandas as pd
import pytest

from kpp.tables.errors import UserError
from kpp.tables.fingerprints import table_fingerprints
from kpp.tables.fit_rows import FITTED, HELD_OUT, NEW, FitRows, choose_rows
from kpp.tables.reading import TableFile

COLUMNS = ["number", "whole", "text", "day", "flag"]


def frame(n=400):
    random = np.random.default_rng(0)
    found = pd.DataFrame(
        {
            "number": random.normal(size=n) * 10.0 ** random.integers(-8, 9, n),
            "whole": random.integers(0, 5, n).astype(float),
            "text": random.choice(["a", "b c", "é", "1.50"], n),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 90, n), "D"),
            "flag": random.random(n) < 0.5,
        }
    )
    found.loc[::7, "number"] = np.nan
    found.loc[::5, "text"] = None
    found.loc[::11, "day"] = pd.NaT
    return found


def prints(table):
    return table_fingerprints(table, COLUMNS)


@pytest.mark.parametrize("kind", ["csv", "parquet", "semicolon", "single"])
def test_a_row_is_the_same_in_every_file(tmp_path, kind):
    table = frame()
    if kind == "csv":
        table.to_csv(tmp_path / "x", index=False)
    elif kind == "semicolon":
        table.to_csv(tmp_path / "x", index=False, sep=";", decimal=",")
    else:
        cast = table.astype({"number": "float32", "whole": "Int64"}) if kind == "single" else table
        cast.to_parquet(tmp_path / "x")
    read = TableFile(str(tmp_path / "x")).read()
    assert (prints(read) == prints(table)).all()
    # Texts where numbers were, as when one cell of a column is none.
    texts = read.astype({"whole": "object"})
    texts["whole"] = [str(v) for v in texts["whole"]]
    assert (prints(texts) == prints(table)).all()


def test_neither_order_nor_other_columns_count():
    table = frame()
    other = table[COLUMNS[::-1]].assign(target=1.0)
    assert (table_fingerprints(other, COLUMNS[::-1]) == prints(table)).all()


def test_different_rows_differ():
    # Each row differs from each other in one cell, also by the column that holds a value.
    table = pd.DataFrame({name: ["z"] * 11 for name in COLUMNS})
    for k, name in enumerate(COLUMNS):
        table.loc[k, name] = "value"
        table.loc[k + 5, name] = None
    assert len(set(prints(table).tolist())) == 11
    numbers = pd.DataFrame(np.random.default_rng(0).normal(size=(100_000, 2)), columns=["a", "b"])
    assert len(np.unique(table_fingerprints(numbers, ["a", "b"]))) == 100_000
    # Two columns with their values exchanged are another row.
    assert (
        table_fingerprints(numbers, ["a"])[0]
        != table_fingerprints(numbers.rename(columns={"a": "b", "b": "a"}), ["a"])[0]
    )


def test_values_of_a_fingerprint_stay_as_they_are():
    """Files keep them: another value would not know the rows of an older file again."""
    table = pd.DataFrame({"a": [1.5, np.nan], "b": ["x", "2020-02-03"]})
    # By hand: splitmix64's finaliser over the sum of mixed (value xor name), in Python's integers.
    mask = 2**64 - 1

    def mixed(bits):
        bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & mask
        bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & mask
        return bits ^ bits >> 31

    from hashlib import blake2b

    def text(words):
        return int.from_bytes(blake2b(words.encode(), digest_size=8).digest(), "little")

    number = mixed(int(np.float32(1.5).view(np.uint32)) + 1)
    first = mixed((mixed(number ^ text("column a")) + mixed(text("x") ^ text("column b"))) & mask)
    gap, day = 0x5DEECE66D1234567, text("2020-02-03T00:00:00")
    second = mixed((mixed(gap ^ text("column a")) + mixed(day ^ text("column b"))) & mask)
    assert table_fingerprints(table, ["a", "b"]).tolist() == [first, second]


def rows_of_a_fit():
    """Rows 0 to 5, of which 2 and 5 were held out; 5 equals row 0."""
    table = np.array([10, 11, 12, 13, 14, 10], dtype=np.uint64)
    part = np.array([1, 1, 2, 1, 0, 2], dtype=np.uint8)
    return FitRows(table, part, np.array([20, 21], dtype=np.uint64))


def test_parts():
    rows = rows_of_a_fit()
    again = FitRows.from_dict(rows.to_dict())
    for one in (rows, again):
        # In the same table by place, so that equal rows stay what they were.
        assert one.part_of(one.table).tolist() == one.part.tolist()
        assert one.part_of(np.array([20, 21], np.uint64)).tolist() == [HELD_OUT, HELD_OUT]
        other = np.array([12, 10, 14, 99, 20], np.uint64)
        assert one.part_of(other).tolist() == [HELD_OUT, FITTED, NEW, NEW, HELD_OUT]
        assert one.counts() == {"fitted": 3, "held_out": 2, "test_file": 2}


@pytest.mark.parametrize(
    "kept",
    [
        None,
        {},
        {"fingerprints": 3, "parts": "", "test_file": ""},
        {"fingerprints": "AAAA", "parts": "", "test_file": ""},
        {"fingerprints": "%%%%", "parts": "", "test_file": ""},
        rows_of_a_fit().to_dict() | {"parts": "AQ=="},
        rows_of_a_fit().to_dict() | {"parts": "AQEBAQEJ"},
    ],
)
def test_what_is_no_record_is_none(kept):
    assert FitRows.from_dict(kept) is None


class Model:
    """What `choose_rows` asks a model for: the names of its columns."""

    feature_names_in_ = np.array(["a"], dtype=object)


def chosen(monkeypatch, values, asked, has_target=None):
    monkeypatch.setattr("kpp.tables.fit_rows.model_columns", lambda model: ["a"])
    table = pd.DataFrame({"a": np.arange(10.0)})
    part = np.array([FITTED] * 6 + [HELD_OUT] * 3 + [NEW], dtype=np.uint8)
    kept = FitRows(table_fingerprints(table, ["a"]), part, np.empty(0, np.uint64)).to_dict()
    return choose_rows(Model(), pd.DataFrame({"a": values}), kept, asked, "x.csv", has_target)


@pytest.mark.parametrize(
    ("values", "asked", "kind", "index", "n_fitted", "words"),
    [
        (np.arange(10.0), "auto", "held-out", [6, 7, 8], 0, "the 3 rows of x.csv that fit held"),
        (np.arange(10.0), "held-out", "held-out", [6, 7, 8], 0, "the 3 rows"),
        (np.arange(10.0), "new", "new", [6, 7, 8, 9], 0, "6 rows of the fit are left out"),
        (np.arange(10.0), "all", "all", list(range(10)), 6, "all 10 rows of x.csv, 6 of them rows"),
        (np.arange(10.0), "fitted", "fitted", list(range(6)), 6, "6 rows of x.csv that are rows"),
        (
            [3.0, 50.0, 51.0],
            "auto",
            "new",
            [1, 2],
            0,
            "that fit has not seen; 1 row of",
        ),
        ([50.0, 51.0], "auto", "new", [0, 1], 0, "the 2 rows of x.csv that fit has not seen"),
        ([1.0, 2.0], "auto", "fitted", [0, 1], 2, "there are no held-out rows, and no score here"),
        ([50.0], "all", "all", [0], 0, "all 1 row of x.csv, 0 of them"),
    ],
)
def test_which_rows_are_taken(monkeypatch, values, asked, kind, index, n_fitted, words):
    found = chosen(monkeypatch, values, asked)
    assert found.kind == kind
    assert found.index.tolist() == index
    assert found.n_fitted == n_fitted
    assert found.are_unseen == (n_fitted == 0)
    assert words in found.said


def test_rows_without_a_target_are_not_taken(monkeypatch):
    has_target = np.arange(10) != 7
    assert chosen(monkeypatch, np.arange(10.0), "auto", has_target).index.tolist() == [6, 8]


@pytest.mark.parametrize(("values", "asked"), [([50.0], "held-out"), ([1.0, 2.0], "new")])
def test_rows_that_are_not_there(monkeypatch, values, asked):
    with pytest.raises(UserError, match=f"--rows {asked}"):
        chosen(monkeypatch, values, asked)


def test_files_that_do_not_say():
    table = pd.DataFrame({"a": [1.0]})
    found = choose_rows(Model(), table, None, "auto", "x.csv")
    assert found.kind == "unknown"
    assert found.n_fitted is None
    assert not found.are_unseen
    assert "is not known" in found.said
    with pytest.raises(UserError, match="does not say which rows"):
        choose_rows(Model(), table, None, "held-out", "x.csv")
