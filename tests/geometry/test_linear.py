"""Clipped linear terms: the embedding against a few lines of NumPy, and its norms."""

import numpy as np
import pandas as pd
import pytest

from kpp.geometry import BlockMap, LinearMap, LinearTerms, linear_blocks


def made_rows(n_rows=40, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 5)) * [1, 10, 1e-3, 1, 1] + [0, 100, 0, 0, 0]
    X[:, 3] = 2.0  # does not vary
    X[::5, 4] = np.nan
    return X


def by_hand(X, X_train, weight=None):
    """The embedding of columns 0, 1, 2, 4 and of what misses in 4, with c from all of them."""
    weight = np.ones(len(X_train)) if weight is None else weight
    columns, sizes = [], []
    for j in (0, 1, 2, 4):
        own, there = X_train[:, j], ~np.isnan(X_train[:, j]) & (weight > 0)
        low, high = own[there].min(), own[there].max()
        mean = np.average(own[there], weights=weight[there])
        sd = np.sqrt(np.average((own[there] - mean) ** 2, weights=weight[there]))
        z = (np.clip(X[:, j], low, high) - mean) / sd
        columns.append(np.where(np.isnan(X[:, j]), 0.0, z))
        sizes.append(max(((low - mean) / sd) ** 2, ((high - mean) / sd) ** 2))
    columns.append(np.isnan(X[:, 4]) * 1.0)
    sizes[-1] = max(sizes[-1], 1.0)
    return np.column_stack(columns) / np.sqrt(np.sum(sizes))


@pytest.mark.parametrize("weighted", [False, True])
def test_coordinates_are_those_of_numpy(weighted):
    X, new = made_rows(), 3 * made_rows(seed=1)
    weight = np.random.default_rng(2).integers(0, 3, len(X)) * 1.0 if weighted else None
    terms = LinearTerms.fit(X, weight)
    assert terms.column.tolist() == [0, 1, 2, 4, 4]
    assert terms.is_missing.tolist() == [False] * 4 + [True]
    new[0, 0] = np.nan  # missing where none was in training: as the mean
    np.testing.assert_allclose(terms.coordinates(new), by_hand(new, X, weight), rtol=1e-12)


def test_products_norms_and_distances_are_those_of_the_matrix():
    X, new = made_rows(), made_rows(12, seed=1)
    psi = LinearMap(LinearTerms.fit(X)).on(X)
    Z, other = by_hand(X, X), psi.on(new)
    random = np.random.default_rng(0)
    w, r = random.normal(size=5), random.normal(size=(40, 3))
    close = {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(psi @ w, Z @ w, **close)
    np.testing.assert_allclose(psi.T @ r[:, 0], Z.T @ r[:, 0], **close)
    np.testing.assert_allclose(psi.gram_matvec(r), Z @ Z.T @ r, **close)
    np.testing.assert_allclose(psi.gram_operator()(r[:, 0]), Z @ Z.T @ r[:, 0], **close)
    np.testing.assert_allclose(psi.gram_matvec(r, at=other), by_hand(new, X) @ Z.T @ r, **close)
    np.testing.assert_allclose(psi.row_norms(), np.linalg.norm(Z, axis=1), **close)
    np.testing.assert_allclose(psi.gram(other), Z @ by_hand(new, X).T, **close)
    differences = Z[:, None] - by_hand(new, X)
    np.testing.assert_allclose(psi.distances(other), np.square(differences).sum(axis=2), **close)
    assert (np.diag(psi.distances()) == 0).all()
    np.testing.assert_allclose(psi.to_csr().toarray(), Z, **close)
    np.testing.assert_allclose(psi.rows([3, 1]).values, Z[[3, 1]], **close)
    assert psi.coordinate_variable.tolist() == [0, 1, 2, 4, 4]
    assert psi.coordinate_names[-2:].tolist() == ["kpp_x4", "kpp_x4_missing"]
    with pytest.raises(ValueError, match="one embedding"):
        psi.gram(LinearMap(LinearTerms.fit(X)).on(new))


def test_the_largest_norm_is_1_and_attained():
    X = made_rows()
    terms = LinearTerms.fit(X)
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    mean = np.nanmean(X, axis=0)
    farthest = np.where(mean - low > high - mean, low, high)
    missing = farthest.copy()
    missing[4] = np.nan
    reached = LinearMap(terms).on([farthest, missing]).row_norms().max()
    assert terms.sup_norm() == pytest.approx(1, abs=1e-14)
    assert reached == pytest.approx(1, abs=1e-14)
    # With a centre: the largest over all corners, and over what misses.
    corners = [
        [a, b, c, 2.0, d]
        for a in (low[0], high[0])
        for b in (low[1], high[1])
        for c in (low[2], high[2])
        for d in (low[4], high[4], np.nan)
    ]
    away = np.array([0, 0, 0, 0, -5.0])  # from here what misses is farthest
    for center in [*np.random.default_rng(0).normal(size=(20, 5)), away]:
        largest = np.linalg.norm(terms.coordinates(corners) - center, axis=1).max()
        assert terms.sup_norm(center) == pytest.approx(largest, rel=1e-14)


def test_columns_of_frames_by_what_they_hold():
    frame = pd.DataFrame(
        {
            "a": [1.0, 2.0, 4.0],
            "word": ["x", "y", "x"],
            "count": pd.array([1, None, 5], dtype="Int64"),
            "kind": pd.Categorical([1, 2, 1]),
            "is": [True, False, True],
        }
    )
    terms = LinearTerms.fit(frame)
    assert terms.column.tolist() == [0, 2, 2, 4]
    numbers = frame[["a", "count", "is"]].astype(float).to_numpy()
    alone = LinearTerms.fit(numbers)
    np.testing.assert_array_equal(terms.coordinates(frame), alone.coordinates(numbers))
    assert LinearTerms.fit(frame, without=[0]).column.tolist() == [2, 2, 4]
    with pytest.raises(ValueError, match="Column 0"):
        terms.coordinates(frame.assign(a=["u", "v", "w"]))
    with pytest.raises(ValueError, match="5 columns"):
        terms.coordinates(numbers)


def test_extreme_columns_have_finite_terms_or_none():
    X = np.array([[1e289, -1.7e308, 5e-324, np.inf], [-1e289, 1.7e308, 0.0, 1.0], [0, 0, 0, 2.0]])
    terms = LinearTerms.fit(X)
    # The second column spreads too far, the third too little; an infinite value is clipped.
    assert terms.column.tolist() == [0, 3]
    values = terms.coordinates(X)
    assert np.isfinite(values).all()
    assert values[0, 1] == values[2, 1]
    assert terms.sup_norm() == pytest.approx(1, abs=1e-14)


def test_no_column_varies():
    psi = LinearMap(LinearTerms.fit(np.ones((3, 2)))).on(np.ones((3, 2)))
    assert psi.shape == (3, 0)
    assert psi.sup_norm() == 0
    assert (psi.gram() == 0).all()
    assert (psi.distances() == 0).all()
    assert (psi.gram_matvec(np.ones(3)) == 0).all()
    assert len(linear_blocks(BlockMap([("linear", psi)]))) == 1
