"""`explain` against a few lines of NumPy on the written-out embedding, and against other tools."""

import numpy as np
import pytest
from explanations.fitted_models import MODELS, fitted
from scipy import sparse
from sklearn import config_context
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError

from kpp import KPPEmbedding, KPPRegressor
from kpp.explanations import Attribution, explain


def own_scores(model, X):
    own = model.predict(X) if isinstance(model, KPPRegressor) else model.decision_function(X)
    return own.reshape(len(X), -1)


def obvious_nodes(model, X):
    """w_v Phi_v(x) as dense arrays, (n_scores, n_rows, n_nodes); at the rows, and at the fit's."""
    w = np.atleast_2d(model.node_coef_)
    return [phi.to_csr().toarray() * w[:, None] for phi in (model.map_.on(X), model.map_)]


def obvious_variables(model, nodes):
    """Nodes grouped by the split above them; the roots, which have none, apart."""
    variable = model.map_.coordinate_variable
    grouped = np.stack(
        [nodes[..., variable == j].sum(axis=-1) for j in range(model.n_features_in_)], axis=-1
    )
    return grouped, nodes[..., variable < 0].sum(axis=-1)


def outputs_last(values, several):
    return np.moveaxis(values, 0, -1) if several else values[0]


def close(mine, other, size=None):
    size = np.abs(other).max() if size is None else size
    np.testing.assert_allclose(mine, other, rtol=0, atol=1e-10 * size)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_by_variable(kind, centered):
    model, X = fitted(kind)
    here, fit = obvious_nodes(model, X)
    values, roots = obvious_variables(model, here)
    means, mean_roots = (part.mean(axis=1) for part in obvious_variables(model, fit))
    baseline = np.atleast_1d(model.intercept_) + mean_roots
    np.testing.assert_allclose(roots, np.broadcast_to(mean_roots[:, None], roots.shape))
    if centered:
        values = values - means[:, None]
        baseline = baseline + means.sum(axis=1)
    attribution = explain(model, X, centered=centered)
    several = len(baseline) > 1
    close(attribution.values, outputs_last(values, several))
    close(np.atleast_1d(attribution.baseline), baseline, np.abs(own_scores(model, X)).max())
    assert attribution.values.shape == (len(X), X.shape[1], len(baseline))[: 2 + several]


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_by_node(kind, centered):
    model, X = fitted(kind)
    values, fit = obvious_nodes(model, X)
    baseline = np.atleast_1d(model.intercept_)
    if centered:
        values = values - fit.mean(axis=1)[:, None]
        baseline = baseline + fit.mean(axis=1).sum(axis=1)
    attribution = explain(model, X, level="node", centered=centered)
    mine = attribution.values
    if not centered:
        mine = mine if isinstance(mine, list) else [mine]
        assert all(sparse.issparse(one) for one in mine)
        mine = np.stack([one.toarray() for one in mine], axis=2)
        mine = mine if len(baseline) > 1 else mine[..., 0]
    close(mine, outputs_last(values, len(baseline) > 1))
    close(np.atleast_1d(attribution.baseline), baseline, np.abs(own_scores(model, X)).max())
    assert attribution.feature_names == tuple(model.map_.coordinate_names)


@pytest.mark.parametrize("level", ["variable", "node"])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_adds_up(kind, level, centered):
    model, X = fitted(kind)
    attribution = explain(model, X, level=level, centered=centered)
    values = attribution.values
    if isinstance(values, list):
        values = np.stack([one.toarray() for one in values], axis=2)
    total = attribution.baseline + np.asarray(values.sum(axis=1)).reshape(attribution.scores.shape)
    scores = own_scores(model, X).reshape(total.shape)
    close(total, scores)
    assert attribution.residual == pytest.approx(np.abs(total - scores).max(), abs=1e-13)


def test_centred_baseline_is_the_mean_target():
    model, _ = fitted("regression")
    y = MODELS["regression"][2]
    assert explain(model, MODELS["regression"][1], centered=True).baseline == pytest.approx(
        y.mean(), rel=1e-7
    )


def test_rows_that_were_not_in_the_fit_and_one_row():
    model, _ = fitted("regression")
    X = load_diabetes().data[200:]
    whole = explain(model, X)
    np.testing.assert_array_equal(explain(model, X[3:4]).values, whole.values[3:4])


@pytest.mark.parametrize("kind", ["regression", "multiclass", "blocks"])
def test_threads_change_no_bit(kind):
    model, X = fitted(kind)
    X = np.tile(X, (10, 1))
    results = []
    for n_jobs in (1, 2, 3):
        model.set_params(n_jobs=n_jobs)
        attribution = explain(model, X)
        results.append((attribution.values, attribution.summary().by_tree))
    model.set_params(n_jobs=None)
    for values, by_tree in results[1:]:
        np.testing.assert_array_equal(values, results[0][0])
        np.testing.assert_array_equal(by_tree, results[0][1])


def test_a_tree_as_deep_as_its_rows():
    # Every split cuts off the largest value, whose target dwarfs all others together.
    n_rows = 200
    X = np.arange(n_rows, dtype=float)[:, None]
    y = 3.0 ** np.arange(n_rows)
    model = KPPRegressor(
        RandomForestRegressor(3, bootstrap=False), alpha=1.0, node_weight="uniform"
    )
    model.fit(X, y)
    path = model.map_.on(X).to_csr()
    assert np.diff(path.indptr).max() > 3 * 190
    attribution = explain(model, X)
    assert attribution.residual <= 1e-10 * np.abs(attribution.scores).max()


# The object.


def test_a_wrong_sum_is_refused():
    model, X = fitted("regression")
    right = explain(model, X)
    wrong = right.values.copy()
    wrong[3, 2] += 1e-6 * np.abs(wrong).max()
    with pytest.raises(ArithmeticError, match="miss the model's score"):
        Attribution(wrong, right.baseline, right.scores, right.feature_names)
    wrong[3, 2] = np.nan
    with pytest.raises(ArithmeticError, match="miss the model's score"):
        Attribution(wrong, right.baseline, right.scores, right.feature_names)


def test_a_model_that_was_changed_is_noticed():
    X, y = load_diabetes(return_X_y=True)
    model = KPPRegressor("extra-trees", alpha=1.0, n_estimators=3, random_state=0).fit(X, y)
    model.node_coef_ *= 2
    with pytest.raises(ArithmeticError, match="changed after its fit"):
        explain(model, X)


@pytest.mark.parametrize("level", ["variable", "node"])
def test_frame_rows_sum_to_the_scores(level):
    model, X = fitted("categories")
    frame = explain(model, X, level=level).to_frame()
    assert frame.index.equals(X.index)
    assert frame.columns[0] == "(baseline)"
    close(frame.sum(axis=1).to_numpy(), model.predict(X))
    if level == "variable":
        assert frame.columns[1:].tolist() == X.columns.tolist()


def test_frame_of_several_outputs():
    model, X = fitted("multiclass")
    frame = explain(model, X).to_frame()
    assert frame.columns.get_level_values(0).unique().tolist() == [0, 1, 2]
    for k in range(3):
        close(frame[k].sum(axis=1).to_numpy(), model.decision_function(X)[:, k])
    assert explain(model, X, level="node").to_frame().shape == (
        150,
        3 + 3 * model.node_coef_.shape[1],
    )


def test_for_output():
    model, X = fitted("multiclass")
    whole = explain(model, X, centered=True)
    one = whole.for_output(2)
    np.testing.assert_array_equal(one.values, whole.values[..., 2])
    assert one.baseline == whole.baseline[2]
    np.testing.assert_array_equal(one.scores, model.decision_function(X)[:, 2])
    np.testing.assert_allclose(one.summary().mean_abs, whole.summary().mean_abs[:, 2])
    with pytest.raises(ValueError, match=r"one of \[0, 1, 2\]; got 'setosa'"):
        whole.for_output("setosa")
    for output in (True, [1], np.array([1, 2])):
        with pytest.raises(ValueError, match=r"one of \[0, 1, 2\]; got"):
            whole.for_output(output)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(
    "kind", ["regression", "multiclass", "blocks", "cross-fit", "cross-validated"]
)
def test_summary(kind, centered):
    model, X = fitted(kind)
    attribution = explain(model, X, centered=centered)
    summary = attribution.summary()
    np.testing.assert_allclose(summary.mean_abs, np.abs(attribution.values).mean(axis=0))
    np.testing.assert_allclose(summary.mean, attribution.values.mean(axis=0), atol=1e-12)
    # By tree, from the definition: sums over the coordinates of one tree at a time.
    here, fit = obvious_nodes(model, X)
    if centered:
        here = here - fit.mean(axis=1)[:, None]
    names = [name.rpartition("_n")[0] for name in model.map_.coordinate_names]
    trees = list(dict.fromkeys(names))
    by_tree = []
    for tree in trees:
        own = here * (np.array(names) == tree)
        values = outputs_last(obvious_variables(model, own)[0], here.shape[0] > 1)
        by_tree.append((np.sign(attribution.values) * values).mean(axis=0))
    np.testing.assert_allclose(summary.by_tree, by_tree, atol=1e-10)
    np.testing.assert_allclose(summary.by_tree.sum(axis=0), summary.mean_abs, atol=1e-10)
    spread = np.sqrt(len(trees)) * np.std(by_tree, axis=0, ddof=1)
    np.testing.assert_allclose(summary.spread, spread, atol=1e-10)
    frame = summary.to_frame()
    assert len(frame) == X.shape[1]
    if kind != "multiclass":
        assert frame["mean_abs"].is_monotonic_decreasing


def test_summary_of_nodes_and_of_one_tree():
    model, X = fitted("regression")
    nodes = explain(model, X, level="node")
    np.testing.assert_allclose(nodes.summary().mean_abs, abs(nodes.values.toarray()).mean(axis=0))
    assert np.isnan(nodes.summary().spread).all()
    one = KPPRegressor("extra-trees", n_estimators=1, alpha=1.0, random_state=0).fit(X, X[:, 0])
    assert np.isnan(explain(one, X).summary().spread).all()


def test_repr():
    model, X = fitted("multiclass")
    assert repr(explain(model, X, centered=True)).startswith(
        "Attribution(level='variable', centered=True, n_rows=150, n_features=4, n_outputs=3, "
    )


# What it is not given.


def test_bad_input():
    model, X = fitted("regression")
    with pytest.raises(ValueError):
        explain(model, X[:, :9])
    with pytest.raises(ValueError, match="level must be one of 'variable', 'node', 'shapley'"):
        explain(model, X, level="leaf")
    with pytest.raises(NotFittedError):
        explain(KPPRegressor("extra-trees"), X)
    with pytest.raises(TypeError, match="Expected a fitted KPPRegressor or KPPClassifier"):
        explain(KPPEmbedding(n_estimators=3).fit(X, X[:, 0]), X)
    with pytest.raises(TypeError, match="Expected a fitted KPPRegressor or KPPClassifier"):
        explain(RandomForestRegressor(), X)
    with pytest.raises(ValueError, match="has its own baseline"):
        explain(model, X, level="shapley", centered=True)
    with pytest.raises(TypeError):
        explain(model, sparse.csr_matrix(X))


@pytest.mark.parametrize("level", ["variable", "node"])
def test_no_rows(level):
    for kind in ("regression", "categories", "multiclass"):
        model, X = fitted(kind)
        with pytest.raises(ValueError, match=type(model).__name__):
            explain(model, X[:0], level=level)


def test_unknown_names():
    model, X = fitted("categories")
    with pytest.raises(ValueError, match="weight"):
        explain(model, X.rename(columns={"size": "weight"}))


def test_centred_nodes_are_not_written_out_beyond_the_working_memory():
    model, X = fitted("regression")
    with (
        config_context(working_memory=1),
        pytest.raises(ValueError, match=r"need \d+ MiB, and scikit-learn's working_memory is 1"),
    ):
        explain(model, X, level="node", centered=True)


def test_leaf_coordinates_have_no_variables():
    X, y = load_diabetes(return_X_y=True)
    model = KPPRegressor(
        "extra-trees", coordinates="leaf", alpha=1.0, n_estimators=3, random_state=0
    ).fit(X, y)
    with pytest.raises(ValueError, match="no decomposition by variable"):
        explain(model, X)
    assert explain(model, X, level="node").residual < 1e-10


def test_roots_only():
    X, y = load_diabetes(return_X_y=True)
    model = KPPRegressor(RandomForestRegressor(3, min_samples_leaf=10_000), alpha=1.0).fit(X, y)
    attribution = explain(model, X)
    assert not attribution.values.any()
    assert attribution.baseline == pytest.approx(y.mean())


def test_stored_weights_weigh_the_mean():
    X, y = load_diabetes(return_X_y=True)
    weight = np.random.default_rng(0).exponential(size=len(y))
    model = KPPRegressor("extra-trees", alpha=1.0, n_estimators=3, random_state=0, tol=1e-12)
    model.fit(X, y, sample_weight=weight)
    model.sample_weight_ = weight
    assert explain(model, X, centered=True).baseline == pytest.approx(np.average(y, weights=weight))
