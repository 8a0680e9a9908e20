"""Every product of a map against the dense embedding, written node by node."""

import copy
import pickle

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator, lsqr, svds
from zoo import obvious_embedding, random_forest, random_node_weight, random_rows

from kpp.geometry import (
    BlockMap,
    MapBlock,
    PathMap,
    leaf_indicator_weights,
    path_weights,
)

KINDS = ["path", "path, tree", "leaf weights", "leaf weights, tree", "leaf only"]
EPS = np.finfo(float).eps


def map_of(kind, seed=0, n_rows=40, n_jobs=None, n_trees=5):
    """A map of one kind, and what it is to be: its rows, and the squares of its coordinates."""
    forest = random_forest(seed, n_trees=n_trees)
    X = random_rows(seed, n_rows)
    if kind == "leaf only":
        weights = leaf_indicator_weights(forest)
        squared = forest.is_leaf / forest.n_trees
    else:
        leaf_weight = np.where(forest.is_leaf, 0.4, 0.0) if "leaf" in kind else None
        weights = path_weights(forest, random_node_weight(seed, forest), leaf_weight)
        mass = np.repeat(weights.tree_mass, np.diff(forest.tree_offsets)) * forest.n_trees
        with np.errstate(invalid="ignore"):
            by_tree = np.where(mass > 0, weights.edge / mass, 0.0)
        squared = by_tree if "tree" in kind else weights.edge / weights.forest_mass
    normalize = "tree" if "tree" in kind else "forest"
    phi = PathMap(forest, weights, normalize=normalize, n_jobs=n_jobs).on(X)
    return phi, squared, X


def make(kind, seed=0):
    """A map of one kind, and the same as a dense matrix."""
    phi, squared, X = map_of(kind, seed)
    return phi, obvious_embedding(phi.forest, X, squared), X


def make_blocks(seed=0):
    (a, dense_a, X), (b, dense_b, _) = make("path", seed), make("leaf only", seed)
    return BlockMap([("a", a), ("b", b)]), np.hstack([dense_a, dense_b]), X


def make_any(kind):
    if kind == "blocks":
        return make_blocks()
    if kind.startswith("centred"):
        phi, dense, X = make_any(kind.removeprefix("centred "))
        weight = np.arange(len(X)) + 1.0
        mean = (weight / weight.sum()) @ dense
        np.testing.assert_allclose(phi.mean_row(weight), mean, atol=4 * EPS)
        return phi.centered(mean), dense - mean, X
    return make(kind)


ALL = [*KINDS, "blocks", "centred path", "centred leaf weights, tree", "centred blocks"]


def close(mine, dense):
    """Equal up to a few roundings of the largest number involved."""
    np.testing.assert_allclose(mine, dense, atol=100 * EPS * np.abs(dense).max(initial=1), rtol=0)


@pytest.mark.parametrize("kind", ALL)
def test_products(kind):
    phi, dense, _ = make_any(kind)
    rng = np.random.default_rng(0)
    w, r = rng.normal(size=phi.shape[1]), rng.normal(size=phi.shape[0])
    close(phi @ w, dense @ w)
    close(phi.T @ r, dense.T @ r)
    close(phi.gram_matvec(r), dense @ (dense.T @ r))
    some = phi.rows(slice(3, 20))
    close(phi.gram_matvec(r, at=some), dense[3:20] @ (dense.T @ r))
    W, R = rng.normal(size=(phi.shape[1], 3)), rng.normal(size=(phi.shape[0], 2))
    close(phi @ W, dense @ W)
    close(phi.T @ R, dense.T @ R)
    close(phi.gram_matvec(R), dense @ (dense.T @ R))
    close(phi.gram_matvec(R, at=some), dense[3:20] @ (dense.T @ R))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("n_rows", [0, 1, 2, 40])
def test_prepared_products(kind, n_rows):
    # Few rows leave nodes without any, and with the rows of their parent.
    phi, dense, _ = make_any(kind)
    some, dense = phi.rows(slice(0, n_rows)), dense[:n_rows]
    product = some.gram_operator()
    rng = np.random.default_rng(0)
    r, R = rng.normal(size=n_rows), rng.normal(size=(n_rows, 2))
    close(product(r), dense @ (dense.T @ r))
    close(product(R), dense @ (dense.T @ R))


@pytest.mark.parametrize("n_rows", [4, 8, 40])
def test_prepared_products_with_any_number_of_columns(n_rows):
    # Loops take 1, 4, 8 or all columns at once.
    phi, dense, _ = make_any("path")
    some, dense = phi.rows(slice(0, n_rows)), dense[:n_rows]
    product = some.gram_operator()
    for n_columns in range(1, 19):
        R = np.random.default_rng(0).normal(size=(n_rows, n_columns))
        found = product(R)
        assert found.shape == R.shape
        close(found, dense @ (dense.T @ R))


def test_rows_longer_than_a_tile(monkeypatch):
    phi, dense, _ = make_any("path")
    monkeypatch.setattr("kpp.geometry.maps._BYTES_PER_TILE", 8 * 39)  # 39 numbers, of 40
    close(phi.gram(), dense @ dense.T)


def test_prepared_products_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr("kpp.geometry.maps.WORK_PER_BLOCK", 1)
    r = np.random.default_rng(0).normal(size=40)
    one, three = (map_of("path", n_jobs=n_jobs, n_trees=20)[0] for n_jobs in (1, 3))
    assert np.array_equal(one.gram_operator()(r), three.gram_operator()(r))


def test_neighbouring_trees_share_memory():
    phi, _, X = make("path, tree")
    part, listed = phi.trees(slice(1, 4)), phi.trees([1, 2, 3])
    assert np.shares_memory(part.forest.threshold, phi.forest.threshold)
    assert np.array_equal(part.gram(), listed.gram())
    assert np.array_equal(part.on(X).leaf_ids, listed.leaf_ids)
    assert np.array_equal(phi.trees(slice(None, None, 2)).gram(), phi.trees([0, 2, 4]).gram())


@pytest.mark.parametrize("kind", ALL)
def test_norms(kind):
    phi, dense, _ = make_any(kind)
    close(phi.row_norms(squared=True), (dense**2).sum(axis=1))
    close(phi.row_norms(), np.linalg.norm(dense, axis=1))
    assert phi.row_norms().max() <= phi.sup_norm() * (1 + 4 * EPS)


@pytest.mark.parametrize("kind", ALL)
def test_pairs(kind):
    phi, dense, X = make_any(kind)
    other, other_dense = phi.on(X[:7]), dense[:7]
    close(phi.gram(), dense @ dense.T)
    close(phi.gram(other), dense @ other_dense.T)
    close(phi.distances(), ((dense[:, None] - dense[None]) ** 2).sum(axis=2))
    close(phi.distances(other), ((dense[:, None] - other_dense[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("kind", ALL)
def test_some_rows(kind):
    phi, dense, _ = make_any(kind)
    for index in (slice(3, 9), [5, 1, 1], np.arange(40) % 2 == 0):
        part = phi.rows(index)
        close(part.gram(), dense[index] @ dense[index].T)
        close(part @ np.ones(phi.shape[1]), dense[index].sum(axis=1))


@pytest.mark.parametrize("kind", [*KINDS, "blocks"])
def test_csr(kind):
    phi, dense, _ = make_any(kind)
    csr = phi.to_csr()
    close(csr.toarray(), dense)
    assert csr.nnz == np.count_nonzero(dense)
    assert csr.has_sorted_indices
    checked = csr.copy()
    checked.has_canonical_format = False
    checked.sum_duplicates()
    assert checked.nnz == csr.nnz


def test_distances_are_nonnegative_symmetric_and_0_in_a_common_leaf():
    phi, _, X = make("path", seed=3)
    gram, distances = phi.gram(), phi.distances()
    same = (phi.leaf_ids[:, :, None] == phi.leaf_ids[:, None, :]).all(axis=0)
    assert same.sum() > len(X)
    assert (distances[same] == 0).all()
    assert (distances >= 0).all()
    assert np.array_equal(distances, distances.T)
    assert np.array_equal(gram, gram.T)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("center", [False, True])
def test_sup_norm_over_all_combinations_of_leaves(kind, center):
    phi, _, _ = make(kind, seed=1)
    forest = phi.forest
    c = np.random.default_rng(0).normal(size=forest.n_nodes) if center else None
    total = 0.0
    for t in range(forest.n_trees):
        nodes = np.arange(forest.tree_offsets[t], forest.tree_offsets[t + 1])
        squares = []
        for leaf in nodes[forest.is_leaf[nodes]]:
            vector = np.zeros(forest.n_nodes)
            v = leaf
            while v >= 0:
                vector[v] = phi.scale[v]
                v = forest.parent[v]
            shift = 0 if c is None else c
            squares.append(((vector - shift)[nodes] ** 2).sum())
        total += max(squares)
    assert phi.sup_norm(c) == pytest.approx(np.sqrt(total), rel=1e-13)
    if center:
        assert phi.centered(c).sup_norm() == phi.sup_norm(c)
        both = BlockMap([("a", phi), ("b", phi)])
        twice = both.centered(np.concatenate([c, c])).sup_norm()
        assert twice == pytest.approx(np.sqrt(2 * total), rel=1e-13)


def test_tree_factors():
    phi, dense, _ = make("path")
    factor = np.array([1.0, -2.0, 0.0, 0.5, 3.0])
    r = np.random.default_rng(0).normal(size=40)
    signed = dense * factor[phi.forest.tree_of_node]
    close(phi.gram_matvec(r, tree_factor=factor), signed @ (dense.T @ r))


@pytest.mark.parametrize("kind", ["path", "leaf weights, tree"])
def test_bit_identical_for_any_number_of_threads(kind):
    one, _, _ = map_of(kind, n_rows=2000, n_jobs=1, n_trees=37)
    rng = np.random.default_rng(0)
    w, r = rng.normal(size=one.shape[1]), rng.normal(size=one.shape[0])
    for n_jobs in (2, 3, -1):
        many, _, _ = map_of(kind, n_rows=2000, n_jobs=n_jobs, n_trees=37)
        for mine, theirs in (
            (one @ w, many @ w),
            (one.T @ r, many.T @ r),
            (one.gram_matvec(r), many.gram_matvec(r)),
            (one.row_norms(), many.row_norms()),
            (one.gram(one.rows(slice(50))), many.gram(many.rows(slice(50)))),
            (one.distances(), many.distances()),
            (one.to_csr().data, many.to_csr().data),
            (one.to_csr().indices, many.to_csr().indices),
        ):
            assert np.array_equal(mine, theirs)


def test_is_a_linear_operator():
    phi, dense, _ = make("path")
    assert isinstance(phi, LinearOperator)
    assert aslinearoperator(phi) is phi
    largest = svds(phi, k=3, return_singular_vectors=False, random_state=0)
    exact = np.linalg.svd(dense, compute_uv=False)[:3]
    np.testing.assert_allclose(np.sort(largest)[::-1], exact, rtol=1e-9)
    y = dense @ np.ones(dense.shape[1])
    solution = lsqr(phi, y, atol=1e-14, btol=1e-14)[0]
    np.testing.assert_allclose(dense @ solution, y, atol=1e-9)
    twice = 2.0 * phi
    close(twice @ np.ones(phi.shape[1]), 2 * y)


def test_names_and_variables():
    phi, _, _ = make("path")
    names, variable, forest = phi.coordinate_names, phi.coordinate_variable, phi.forest
    assert names[0] == "kpp_t0_n0"
    assert names[forest.tree_offsets[2] + 1] == "kpp_t2_n1"
    assert len(set(names)) == forest.n_nodes
    for v in range(forest.n_nodes):
        parent = forest.parent[v]
        assert variable[v] == (-1 if parent < 0 else forest.feature[parent])
    both, _, _ = make_blocks()
    assert both.coordinate_names[0] == "a__kpp_t0_n0"
    assert both.coordinate_names[phi.shape[1]] == "b__kpp_t0_n0"
    assert np.array_equal(both.coordinate_variable, np.tile(variable, 2))


def test_normalisations_of_the_same_rows():
    phi, _, _ = make("path")
    tree, expected, _ = make("path, tree")
    close(phi.normalized("tree").gram(), expected @ expected.T)
    assert phi.normalized("forest") is phi
    assert np.array_equal(phi.normalized("tree").normalized("forest").scale, phi.scale)
    blocks, _, _ = make_blocks()
    close(blocks.normalized("tree").blocks[0][1].gram(), tree.gram())


def test_no_rows():
    phi, _, X = make("path")
    empty = phi.on(X[:0])
    assert (empty @ np.ones(phi.shape[1])).shape == (0,)
    assert not (empty.T @ np.empty(0)).any()
    assert empty.gram().shape == (0, 0)
    assert empty.distances(phi).shape == (0, 40)
    assert empty.to_csr().shape == (0, phi.shape[1])


def test_pickle_and_copy():
    phi, _, _ = make("path")
    r = np.arange(40.0)
    for other in (pickle.loads(pickle.dumps(phi)), copy.deepcopy(phi)):
        assert np.array_equal(other.gram_matvec(r), phi.gram_matvec(r))


def test_read_only_and_strided_vectors():
    phi, dense, _ = make("path")
    w = np.random.default_rng(0).normal(size=2 * phi.shape[1])[::2]
    w.flags.writeable = False
    close(phi @ w, dense @ w)
    r = np.arange(80, dtype=np.float32)[::2]
    close(phi.gram_matvec(r), dense @ (dense.T @ r.astype(float)))


def test_wrong_shapes():
    phi, _, _ = make("path")
    other, _, _ = make("path", seed=1)
    with pytest.raises(ValueError, match=r"shape \(40,\) or \(40, n_columns\); got \(3,\)"):
        phi.gram_matvec(np.ones(3))
    for wrong in (
        phi.path_sums,
        phi.sup_norm,
        lambda v: phi.gram_matvec(np.ones(40), tree_factor=v),
    ):
        with pytest.raises(ValueError, match=r"Expected a vector of shape \(\d+,\); got \(3,\)"):
            wrong(np.ones(3))
    for operator in (phi, phi.T):
        with pytest.raises(ValueError):
            operator @ np.ones(3)
    with pytest.raises(ValueError, match=r"leaf_ids must have shape \(n_trees, n_rows\)"):
        PathMap(phi.forest, phi.weights, phi.leaf_ids.T)
    with pytest.raises(ValueError, match="rows of one embedding"):
        phi.gram(other)
    with pytest.raises(ValueError, match="rows of one embedding"):
        phi.gram(phi.normalized("tree"))
    reweighted = PathMap(phi.forest, path_weights(phi.forest, "uniform"), phi.leaf_ids)
    with pytest.raises(ValueError, match="rows of one embedding"):
        phi.gram(reweighted)
    with pytest.raises(ValueError, match="belong to another forest"):
        PathMap(phi.forest, other.weights)
    for wrong_id in (-5, 0, 2**30):
        with pytest.raises(ValueError, match="leaf_ids must hold leaves of each tree"):
            PathMap(phi.forest, phi.weights, np.full((5, 3), wrong_id, dtype=np.int32))
    with pytest.raises(ValueError, match="shift must have shape"):
        phi.centered(np.ones(3))
    with pytest.raises(ValueError, match="normalize must be one of 'forest', 'tree'; got 'row'"):
        phi.normalized("row")


def test_centred_maps_are_not_written_out():
    phi, _, _ = make("path")
    with pytest.raises(TypeError, match="dense and is not written out"):
        phi.centered().to_csr()
    with pytest.raises(TypeError, match="Normalise first"):
        phi.centered().normalized("tree")


def test_centred_maps_of_different_shifts():
    phi, dense, _ = make("path")
    part, rest = phi.rows(slice(10)), phi.rows(slice(10, 40))
    with pytest.raises(ValueError, match="same shift"):
        part.centered().gram(rest.centered())
    shift = phi.mean_row()
    centred = dense - dense.mean(axis=0)
    close(part.centered(shift).gram(rest.centered(shift)), centred[:10] @ centred[10:].T)
    assert phi.centered().normalized("forest").shape == phi.shape


def test_the_gram_of_one_tree():
    # H_t: one tree, divided by its own mass; their average is G_K.
    phi, _, _ = make("path, tree")
    forest, weights = phi.forest, phi.weights
    total = np.zeros((40, 40))
    for t in range(forest.n_trees):
        one = phi.trees(t)
        assert one.forest.n_trees == 1
        nodes = forest.nodes_of(t)
        inside = phi.to_csr()[:, nodes].toarray() * np.sqrt(forest.n_trees)
        close(one.gram(), inside @ inside.T)
        if weights.tree_mass[t] > 0:
            assert one.sup_norm() <= 1 + 4 * EPS
        total += one.gram()
    close(total / forest.n_trees, phi.gram())
    close(phi.trees([1, 3]).gram() * 2, phi.trees(1).gram() + phi.trees(3).gram())


def test_the_protocol_is_abstract():
    class Half(MapBlock):
        pass

    with pytest.raises(TypeError):
        Half(3, 4)


def test_refused_blocks():
    phi, _, X = make("path")
    with pytest.raises(ValueError, match="at least one block"):
        BlockMap([])
    with pytest.raises(ValueError, match="names must differ"):
        BlockMap([("a", phi), ("a", phi)])
    with pytest.raises(ValueError, match="same rows"):
        BlockMap([("a", phi), ("b", phi.on(X[:3]))])
