"""What strangers' texts become before they are shown, and how data is embedded."""

import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports.subjects import HOSTILE

from kpp.reports.escaping import distinct, json_for_script, shown
from kpp.tables.numbers import count, figure, number, percent, signed
from kpp.tables.plain import plain_data


@given(st.text(st.characters(exclude_categories=[]), max_size=60))
def test_shown_text_is_one_short_visible_line(text):
    found = shown(text, 40)
    assert 0 < len(found) <= 40
    categories = {unicodedata.category(c) for c in found if c not in "\u200c\u200d"}
    assert not categories & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    found.encode("utf-8")


def test_plain_text_is_shown_as_it_is():
    assert shown("worst concave points, µm²") == "worst concave points, µm²"
    assert shown("👩‍👩‍👧") == "👩‍👩‍👧"
    assert shown("a" * 50 + "b" * 50, 11) == "aaaaa…bbbbb"


@given(st.lists(st.text(max_size=3), max_size=12))
def test_distinct_names_differ(names):
    found = distinct(names)
    assert len(set(found)) == len(names)


def test_cut_names_stay_apart():
    first, second = distinct(["x" * 200 + "1" + "x" * 200, "x" * 200 + "2" + "x" * 200])
    assert first != second


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(json_values)
def test_embedded_json_is_the_same_data_and_no_markup(value):
    text = json_for_script(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_survive_embedding(name):
    text = json_for_script({name: name})
    assert json.loads(text) == {name: name}
    assert not set(text) & set("<>&\u2028\u2029")


def test_not_finite_numbers_are_refused_by_embedding_and_emptied_by_plain():
    with pytest.raises(ValueError):
        json_for_script(np.inf)
    assert plain_data([np.inf, -np.inf, np.nan, np.float32(0.5), np.bool_(True)]) == [
        None,
        None,
        None,
        0.5,
        True,
    ]
    assert plain_data({"a": np.arange(3), 7: (1, "x")}) == {"a": [0, 1, 2], "7": [1, "x"]}
    assert plain_data(1 / 3, digits=3) == 0.333


@given(st.floats(-1e300, 1e300, allow_subnormal=False))
def test_written_numbers_are_within_half_a_unit_of_the_last_digit(value):
    for write in (number, figure, signed):
        text = write(value, 3).replace("−", "-").replace(",", "").replace("+", "")
        assert abs(float(text) - value) <= 0.0051 * abs(value)


def test_numbers_as_people_write_them():
    assert [number(v) for v in (0.0, 1e-7, 12345.6, np.inf, -np.inf, np.nan)] == [
        "0",
        "1e−7",
        "12,346",
        "∞",
        "−∞",
        "–",
    ]
    assert [percent(v) for v in (0, 0.5, -0.031, np.nan)] == ["0%", "50.0%", "−3.1%", "–"]
    assert [signed(v) for v in (0.25, -0.25, 0, None)] == ["+0.250", "−0.250", "0", "–"]
    assert count(1, "class", "classes") == "1 class"
