"""Columns whose kind the user says."""

import numpy as np
import pandas as pd
import pytest

from kpp.tables.errors import UserError
from kpp.tables.kinds import almost_numbers, as_numbers, as_texts, check_kinds


@pytest.mark.parametrize(
    "column",
    [[7, 12, 7], [7.0, 12.0, 7.0], ["7", "12", "7"], pd.array([7, 12, 7], dtype="Int64")],
)
def test_a_code_is_the_same_text_however_a_file_holds_it(column):
    assert as_texts(pd.Series(column)).tolist() == ["7", "12", "7"]


def test_numbers_that_are_not_whole_and_gaps_stay():
    assert as_texts(pd.Series([1.5, np.nan])).tolist() == ["1.5", None]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pd.Series(["a", "b"], name="x"), "no number at all, but 'a', 'b'"),
        (pd.Series(pd.to_datetime(["2024-01-31"]), name="x"), "holds dates"),
    ],
)
def test_what_cannot_be_numbers_is_refused(column, words):
    with pytest.raises(UserError, match=words):
        as_numbers(column, "x.csv")


@pytest.mark.parametrize(
    ("categorical", "numerical", "words"),
    [
        (["b"], [], "x.csv has no column 'b'"),
        (["a"], ["a"], "both name 'a'"),
        ([], ["y"], "'y' is the target"),
        (["id"], [], "'id' is --id"),
    ],
)
def test_columns_that_are_not_there_or_have_another_use(categorical, numerical, words):
    taken = {"y": "the target", "id": "--id"}
    with pytest.raises(UserError, match=words):
        check_kinds(categorical, numerical, ["a", "y", "id"], "x.csv", taken)


def test_texts_that_are_nearly_all_numbers_are_named():
    numbers = [str(k / 4) for k in range(40)]
    frame = pd.DataFrame(
        {
            "numbers": [*numbers, "unknown", "n.k."],
            "gaps": [*numbers, "?", None],
            "texts": [f"town {k}" for k in range(42)],
        }
    )
    (said,) = almost_numbers(frame, list(frame.columns))
    assert "'numbers' is read as text because of 'unknown', 'n.k.'" in said
    assert "--numerical 'numbers'" in said
