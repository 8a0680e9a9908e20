"""Values that count as missing: a library may be told that 0 or -999 stands for nothing."""

from dataclasses import replace

import numpy as np
import pytest

import kpp
from kpp.forest import Forest, Tree
from kpp.forest.join import as_float64, check_one_reading


def stump_of(dtype, ranges):
    """One split of column 0 at 0.5, missing values to the left."""
    tree = Tree([1, -1, -1], [2, -1, -1], [0] * 3, [0.5] * 3, missing_left=[True] * 3)
    return Forest.from_trees([tree], n_features=2, dtype=dtype, missing_values=ranges)


def test_a_value_within_the_range_goes_where_nan_goes():
    forest = stump_of(np.float64, {0: (2.0, 3.0)})
    above = np.nextafter(3.0, 4.0)
    X = np.array([[np.nan, 0], [2.0, 0], [3.0, 0], [above, 0], [0.4, 0], [0.6, 2.5]])
    given = X.copy()
    assert forest.apply(X).ravel().tolist() == [1, 1, 1, 2, 1, 2]
    np.testing.assert_array_equal(X, given)  # the caller's rows stay as they are


@pytest.mark.parametrize("value", [-999.0, 1.1, 16777216.0])
def test_in_float64_the_same_numbers_count_as_missing(value):
    single = stump_of(np.float32, {0: (float(np.float32(value)),) * 2})
    # All float64 near the ends of what rounds to the float32 value.
    centre, step = float(np.float32(value)), float(np.spacing(np.float32(value)))
    around = centre + step * np.array([-1, -0.5, -0.25, 0, 0.5, 1])
    near = np.concatenate([np.nextafter(around, -np.inf), around, np.nextafter(around, np.inf)])
    X = np.column_stack([near, np.zeros(len(near))])
    leaves = single.apply(X)
    assert value < 0.5 or len(np.unique(leaves)) == 2
    np.testing.assert_array_equal(as_float64(single).apply(X), leaves)


def test_a_saved_forest_keeps_them(tmp_path):
    forest = stump_of(np.float32, {0: (-999.0, -999.0), 1: (0.0, 0.0)})
    kpp.save(forest, tmp_path / "forest.kpp")
    loaded = kpp.load(tmp_path / "forest.kpp")
    assert loaded.missing_values == forest.missing_values
    assert loaded.apply([[-999.0, 1.0]]).item() == 1


def test_forests_that_read_a_column_differently_are_not_joined():
    one, other = stump_of(np.float64, {}), stump_of(np.float64, {0: (0.0, 0.0)})
    with pytest.raises(ValueError, match="alike"):
        Forest.concatenate([one, other])
    with pytest.raises(TypeError, match="count as missing"):
        check_one_reading([one, other])
    assert Forest.concatenate([other, other]).missing_values == {0: (0.0, 0.0)}


def test_ranges_that_are_none_are_refused():
    forest = stump_of(np.float64, {})
    for ranges in ({2: (0.0, 0.0)}, {0: (1.0, 0.0)}, {0: (np.nan, 0.0)}):
        with pytest.raises(ValueError, match="missing_values"):
            replace(forest, missing_values=ranges)
    with pytest.raises(ValueError, match="missing_values"):
        replace(forest, missing_values={0: (0.0, 0.0)}, allows_nan=False)
