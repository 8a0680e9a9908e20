"""Kernel and distance through the public functions."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from kpp import KPPEmbedding, kernel, path_distance
from kpp.geometry import kernel_chunks


@pytest.fixture(scope="module")
def model():
    X, y = load_breast_cancer(return_X_y=True)
    return KPPEmbedding(n_estimators=20, random_state=0).fit(X[:400], y[:400])


@pytest.fixture(scope="module")
def rows():
    return load_breast_cancer().data


def test_new_points_beside_training_points(model, rows):
    phi = model.transform(rows).toarray()
    np.testing.assert_allclose(kernel(model, rows[:50]), phi[:50] @ phi[:50].T, atol=1e-15)
    np.testing.assert_allclose(
        kernel(model, rows[400:450], rows[:30]), phi[400:450] @ phi[:30].T, atol=1e-15
    )
    squared = ((phi[400:410, None] - phi[None, :30]) ** 2).sum(axis=2)
    np.testing.assert_allclose(path_distance(model, rows[400:410], rows[:30]), squared, atol=1e-14)


@pytest.mark.parametrize("normalize", ["forest", "tree"])
def test_gram_and_distance_reconstruct_each_other(model, rows, normalize):
    gram = kernel(model, rows, normalize=normalize)
    distance = path_distance(model, rows, normalize=normalize)
    norms = gram.diagonal()
    np.testing.assert_allclose(distance, norms[:, None] + norms - 2 * gram, atol=1e-14)
    np.testing.assert_allclose(gram, (norms[:, None] + norms - distance) / 2, atol=1e-14)
    assert np.linalg.eigvalsh(gram).min() > -1e-13


def test_the_argument_decides_the_normalisation(rows):
    y = load_breast_cancer().target
    by_tree = KPPEmbedding(n_estimators=5, normalize="tree", random_state=0).fit(rows, y)
    by_forest = KPPEmbedding(n_estimators=5, random_state=0).fit(rows, y)
    for normalize in ("forest", "tree"):
        assert np.array_equal(
            kernel(by_tree, rows[:9], normalize=normalize),
            kernel(by_forest, rows[:9], normalize=normalize),
        )
    assert not np.allclose(kernel(by_tree, rows[:9], normalize="tree"), kernel(by_tree, rows[:9]))


def test_a_map_instead_of_a_model(model, rows):
    assert np.array_equal(kernel(model.map_, rows[:9]), kernel(model, rows[:9]))


@pytest.mark.parametrize("distance", [False, True])
@pytest.mark.parametrize("normalize", ["forest", "tree"])
@pytest.mark.parametrize("other", [None, slice(7)])
def test_chunks_fit_the_cap_and_join_to_the_whole(model, rows, distance, normalize, other):
    Y = None if other is None else rows[other]
    cap = 0.01 if Y is None else 0.001
    pieces = list(
        kernel_chunks(
            model, rows[:100], Y, distance=distance, normalize=normalize, working_memory=cap
        )
    )
    assert len(pieces) > 1
    assert all(block.nbytes <= cap * 2**20 for _, block in pieces)
    assert np.array_equal(
        np.concatenate([np.arange(100)[piece] for piece, _ in pieces]), np.arange(100)
    )
    whole = (path_distance if distance else kernel)(model, rows[:100], Y, normalize=normalize)
    # A sum may run from the other end, depending on which side is longer.
    np.testing.assert_allclose(np.concatenate([block for _, block in pieces]), whole, rtol=1e-14)


def test_leaf_coordinates_give_the_forest_proximity():
    quantile_forest = pytest.importorskip("quantile_forest")
    X, y = load_iris(return_X_y=True)
    settings = {"min_samples_leaf": 5, "bootstrap": False, "max_features": 1, "random_state": 0}
    other = quantile_forest.RandomForestQuantileRegressor(20, max_samples_leaf=None, **settings)
    other.fit(X, y)
    expected = np.zeros((30, len(X)))
    for i, pairs in enumerate(other.proximity_counts(X[:30])):
        for j, count in pairs:
            expected[i, j] = count / 20
    model = KPPEmbedding(RandomForestRegressor(20, **settings), coordinates="leaf").fit(X, y)
    np.testing.assert_allclose(kernel(model, X[:30], X), expected, rtol=1e-14)


@pytest.mark.parametrize("not_a_model", [None, 3, Ridge, np.zeros(3)])
def test_what_is_no_model(not_a_model):
    with pytest.raises(TypeError, match="Expected a fitted KPPEmbedding"):
        kernel(not_a_model, [[0.0]])


def test_unfitted_and_wrong_arguments(model, rows):
    with pytest.raises(NotFittedError):
        kernel(KPPEmbedding(), rows)
    with pytest.raises(ValueError, match="normalize must be one of"):
        path_distance(model, rows, normalize=None)
    with pytest.raises(ValueError):
        kernel(model, rows, rows[:, :3])
