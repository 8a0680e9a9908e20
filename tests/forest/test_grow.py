"""The forests that can be asked for by name."""

from dataclasses import replace

import pytest
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.tree import ExtraTreeRegressor

from kpp.forest.grow import NAMED_FORESTS, grow_forest, named_forest, traits_of
from kpp.forest.importers import IMPORTERS, Traits, importer_of


@pytest.mark.parametrize("name", sorted(NAMED_FORESTS.keys() - {"ladders"}))
@pytest.mark.parametrize("classification", [True, False, None])
def test_names(name, classification):
    forest = named_forest(
        name, classification=classification, n_rows=1000, n_estimators=7, random_state=3
    )
    parameters = forest.get_params()
    n_trees = 14 if name == "boosted-small" and classification else 7
    assert n_trees in (parameters.get("n_estimators"), parameters.get("max_iter"))
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


AVERAGING = Traits(splits_into_groups=True, independent_trees=True)
KNOWN_TRAITS = [
    ("extra-trees", AVERAGING),
    ("random-forest", AVERAGING),
    ("boosted", Traits("sum", takes_frames=True, one_target=True)),
    (ExtraTreesClassifier(), AVERAGING),
    (BaggingRegressor(), AVERAGING),
    (HistGradientBoostingRegressor(), Traits("sum", takes_frames=True, one_target=True)),
    (GradientBoostingClassifier(), Traits("sum", one_target=True)),
    (IsolationForest(), replace(AVERAGING, supervised=False)),
    (RandomTreesEmbedding(), replace(AVERAGING, supervised=False)),
    (ExtraTreeRegressor(), Traits()),
    # What nobody knows is refused later, where its trees are read.
    ("no such forest", Traits()),
    (Ridge(), Traits()),
    (None, Traits()),
]


@pytest.mark.parametrize(("spec", "traits"), KNOWN_TRAITS)
def test_traits(spec, traits):
    assert traits_of(spec) == traits
    if hasattr(spec, "fit"):
        assert traits_of(FrozenEstimator(spec)) == traits


def test_a_subclass_has_the_traits_of_its_family():
    class Own(ExtraTreesClassifier):
        pass

    assert traits_of(Own()) == AVERAGING


def test_traits_of_a_forest_are_its_own():
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]
    assert traits_of(grow_forest(RandomForestRegressor(2), X, y)) == Traits(independent_trees=True)
    assert not traits_of(grow_forest(RandomTreesEmbedding(2), X)).supervised
    frame = pytest.importorskip("pandas").DataFrame({"a": ["u", "v"] * 10}, dtype="category")
    boosted = HistGradientBoostingRegressor(max_iter=2, categorical_features="from_dtype")
    forest = grow_forest(boosted, frame, [0.0, 1.0] * 10)
    assert traits_of(forest) == Traits("sum", takes_frames=True)


def test_every_importer_says_what_it_reads_and_how():
    classes = [kind for importer in IMPORTERS for kind in importer.classes]
    assert len(set(classes)) == len(classes)
    for importer in IMPORTERS:
        for kind in importer.classes:
            assert importer_of(kind) is importer
            assert kind.__name__.replace("Regressor", "Classifier") in importer.supported
