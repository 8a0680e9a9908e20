"""The forests that can be asked for by name."""

import pytest
from sklearn.ensemble import RandomForestRegressor

from kpp.forest.grow import FOREST_NAMES, grow_forest, named_forest


@pytest.mark.parametrize("name", FOREST_NAMES)
@pytest.mark.parametrize("classification", [True, False, None])
def test_names(name, classification):
    forest = named_forest(
        name, classification=classification, n_rows=1000, n_estimators=7, random_state=3
    )
    parameters = forest.get_params()
    assert 7 in (parameters.get("n_estimators"), parameters.get("max_iter"))
    assert parameters["random_state"] == 3
    if classification is None:
        assert type(forest).__name__ == "RandomTreesEmbedding"
    else:
        assert type(forest).__name__.endswith("Classifier" if classification else "Regressor")


def test_a_random_forest_for_regression_looks_at_a_third_of_the_columns():
    forest = named_forest("random-forest", classification=False, n_rows=100)
    assert forest.max_features == 1 / 3


@pytest.mark.parametrize(("n_rows", "leaf"), [(5, 1), (50, 5), (199, 19), (200, 20), (10**5, 20)])
def test_boosted_trees_see_all_rows_and_can_split_few(n_rows, leaf):
    forest = named_forest("boosted", classification=True, n_rows=n_rows)
    assert forest.early_stopping is False
    assert forest.min_samples_leaf == leaf


def test_feature_names_are_added_where_the_source_has_none():
    X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], [0.0, 1.0, 2.0]
    forest = grow_forest(RandomForestRegressor(2), X, y, feature_names=["a", "b"])
    assert forest.feature_names == ("a", "b")
