"""Categories that are whole numbers, where a library reads 2.7 as 2."""

from dataclasses import replace

import numpy as np
import pytest

import kpp
from kpp.forest import Forest, Tree
from kpp.forest.coded import CodedRows
from kpp.forest.join import check_one_reading


def stump_of(known, whole):
    """One split of column 0 whose first category goes left; column 1 is a number."""
    tree = Tree([1, -1, -1], [2, -1, -1], [0] * 3, [0] * 3, left_categories={0: [0]})
    return Forest.from_trees(
        [tree], n_features=2, categories={0: np.array(known)}, whole_categories=whole
    )


def test_a_number_counts_as_its_whole_part():
    values = [2, 2.7, 1.99, 3, -2.5, -0.5, np.nan, 2.0, 3.5]
    X = np.column_stack([values, np.zeros(len(values))])
    known = [2, 0, 3]
    sides = [1, 1, 2, 2, 2, 2, 2, 1, 2]
    forest = stump_of(known, {0})
    assert forest.apply(X).ravel().tolist() == sides
    assert forest.apply(X.tolist()).ravel().tolist() == sides
    zero_first = replace(forest, categories={0: np.array([0, 2, 3])})
    assert zero_first.apply(X).ravel().tolist() == [2, 2, 2, 2, 2, 1, 2, 2, 2]
    # Otherwise such a number is no category.
    assert stump_of(known, set()).apply(X).ravel().tolist() == [1, 2, 2, 2, 2, 2, 2, 1, 2]


def test_rows_of_a_table_are_read_alike():
    values = np.array([2, 2.7, 1.99, 3, -2.5, np.nan])
    names = np.array(["a", "b"] * 3, dtype=object)
    rows = CodedRows.read(np.column_stack([values.astype(object), names]))
    assert 1 in rows.categories
    assert stump_of([2, 0, 3], {0}).apply(rows).ravel().tolist() == [1, 1, 2, 2, 2, 2]


def test_texts_are_refused():
    forest = stump_of([2, 0, 3], {0})
    with pytest.raises(ValueError, match="column 0"):
        forest.apply(np.array([["red", 1.0]], dtype=object))


def test_a_saved_forest_keeps_them(tmp_path):
    kpp.save(stump_of([2, 0, 3], {0}), tmp_path / "forest.kpp")
    loaded = kpp.load(tmp_path / "forest.kpp")
    assert loaded.whole_categories == {0}
    assert loaded.apply([[2.7, 0.0]]).item() == 1


def test_forests_that_read_a_column_differently_are_not_joined():
    whole, exact = stump_of([2, 0, 3], {0}), stump_of([2, 0, 3], set())
    with pytest.raises(ValueError, match="alike"):
        Forest.concatenate([whole, exact])
    with pytest.raises(TypeError, match=r"2\.7 counts as"):
        check_one_reading([whole, exact])
    joined = Forest.concatenate([whole, stump_of([5, 2], {0})])
    assert joined.whole_categories == {0}
    assert joined.apply([[2.7, 0.0], [5.1, 0.0]]).tolist() == [[1, 5], [2, 4]]
    # A forest that does not look at the column may be joined with either.
    single = Forest.from_trees([Tree([-1], [-1], [0], [0.0])], n_features=2)
    check_one_reading([whole, single])
    assert Forest.concatenate([single, whole]).whole_categories == {0}


def test_columns_without_categories_are_refused():
    with pytest.raises(ValueError, match="whole_categories"):
        replace(stump_of([2, 0, 3], {0}), whole_categories={1})
