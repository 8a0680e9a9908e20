"""Explanations of a model with linear terms: every part by hand."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpp import (
    KPPClassifier,
    KPPRegressor,
    collapse,
    explain,
    explain_distance,
    explain_rules,
    explain_training_rows,
    kernel,
    path_distance,
)
from kpp.explanations import leave_one_out


def rows(n_rows=90, seed=0):
    X, y = make_regression(n_rows, 4, n_informative=3, noise=10, random_state=seed)
    X[::6, 1] = np.nan
    return X, y


SMALL = {"n_estimators": 5, "random_state": 0, "cv": 3, "main_effects": "linear"}


def classes():
    X, y = make_classification(90, 4, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    X[::6, 1] = np.nan
    return X, y


MADE = {
    "joint": lambda: KPPRegressor("extra-trees", **SMALL).fit(*rows()),
    "blend": lambda: KPPRegressor("blend", **SMALL).fit(*rows()),
    "classes": lambda: KPPClassifier("blend", **SMALL).fit(*classes()),
    "by fold": lambda: KPPRegressor("extra-trees", regime="cross-fit", **SMALL).fit(*rows()),
    "weighted": lambda: KPPRegressor("extra-trees", alpha=1.0, **SMALL).fit(
        *rows(), sample_weight=np.arange(90) % 3
    ),
}


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {name: make() for name, make in MADE.items()}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("level", ["variable", "node", "block"])
def test_parts_are_sums_of_coordinates_times_coefficients(models, name, level, centered):
    model, X = models[name], 1.5 * rows(20, seed=1)[0]
    found = explain(model, X, level=level, centered=centered)
    Z, W = model.map_.on(X).to_csr().toarray(), np.atleast_2d(model.node_coef_)
    weight = getattr(model, "sample_weight_", None)
    weight = np.ones(90) if weight is None else weight
    mean = weight @ model.map_.to_csr().toarray() / weight.sum()
    parts = (Z - mean * centered)[:, :, None] * W.T  # rows, coordinates, scores
    if level == "node":
        by_hand = parts
    else:
        # Blocks of linear terms come after all forests.
        variable, names = model.map_.coordinate_variable, []
        for block_name, block in model.map_.blocks:
            names += [block_name] * block.shape[1]
        if level == "block":
            groups, keys = np.array(names), found.feature_names
            are_linear = [key.startswith("linear") for key in keys]
            assert are_linear == sorted(are_linear)
        else:
            groups, keys = variable, range(4)
        # Roots join the baseline.
        by_hand = np.stack([parts[:, (groups == k) & (variable >= 0)].sum(axis=1) for k in keys], 1)
    values = found.values
    if level == "node" and not centered:
        listed = values if isinstance(values, list) else [values]
        values = np.stack([v.toarray() for v in listed], axis=2)
    values = np.asarray(values).reshape(by_hand.shape)
    np.testing.assert_allclose(values, by_hand, atol=1e-10 * np.abs(by_hand).max())
    total = found.baseline + values.reshape(len(X), -1, W.shape[0]).sum(axis=1)
    np.testing.assert_allclose(
        total, model.at(X).scores, atol=1e-10 * np.abs(model.at(X).scores).max()
    )


@pytest.mark.parametrize("name", ["joint", "classes"])
def test_the_summary_by_tree_leaves_linear_terms_out(models, name):
    model, X = models[name], rows(20, seed=1)[0]
    summary = explain(model, X).summary()
    # The trees' part of the mean absolute value, by hand.
    found = explain(model, X)
    linear = model.additive_.linear[0].by_column(model.at(X).linear_values[0]).transpose(1, 2, 0)
    values = found.values.reshape(linear.shape)
    trees = (np.sign(values) * (values - linear)).mean(axis=0)
    np.testing.assert_allclose(
        summary.by_tree.sum(axis=0).reshape(trees.shape), trees, atol=1e-12 * np.abs(values).max()
    )


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("top", [0, 3, 1000])
def test_rules_have_the_linear_terms_of_their_columns(models, name, top):
    model, x = models[name], rows()[0][6]  # the second column misses
    found = explain_rules(model, x, top=top)
    assert found.residual < 1e-11 * (1 + abs(found.score))
    terms = [rule for rule in found.rules if "linear term" in rule.text]
    if top == 1000:
        values = np.sum([block.by_column(own) for block, own in linear_of(model, x)], axis=0)
        k = 0 if values.shape[0] == 1 else model.predict([x])[0]
        by_hand = {j: v for j, v in enumerate(values[k, 0]) if v != 0}
        assert len(terms) == len(by_hand)
        for rule in terms:
            column = int(rule.text[1])
            assert rule.contribution == pytest.approx(by_hand[column], rel=1e-12)
            shown = "missing" if column == 1 else f"{x[column]:.6g}"
            assert rule.text == f"x{column} = {shown} (linear term)"
            assert rule.support == 1
            assert all(f"__kpp_x{column}" in node for node in rule.nodes)
    assert len(found.rules) <= top
    sizes = [abs(rule.contribution) for rule in found.rules]
    assert sizes == sorted(sizes, reverse=True)
    assert found.n_other + len(found.rules) == len(explain_rules(model, x, top=10**6).rules)


def linear_of(model, x):
    return zip(model.additive_.linear, model.at(x[None]).linear_values, strict=True)


@pytest.mark.parametrize("name", MADE)
def test_distances_are_those_of_the_embedding(models, name):
    model, X = models[name], rows(12, seed=1)[0]
    Z = model.map_.on(X).to_csr().toarray()
    apart = np.square(Z[:, None] - Z).sum(axis=2)
    np.testing.assert_allclose(path_distance(model, X), apart, atol=1e-13)
    np.testing.assert_allclose(kernel(model, X), Z @ Z.T, atol=1e-13)
    found = explain_distance(model, X[0], X[6])
    assert found.residual < 1e-14
    assert found.total == pytest.approx(apart[0, 6], abs=1e-14)
    linear = [k for k, tree in enumerate(found.tree_names) if tree.startswith("linear")]
    assert linear == list(range(len(found.tree_names)))[-len(linear) :]
    for k, (_, block) in zip(
        linear, [b for b in model.map_.blocks if b[0].startswith("linear")], strict=True
    ):
        own = block.on(X).to_csr().toarray()
        parts = np.bincount(block.terms.column, np.square(own[0] - own[6]), minlength=4)
        np.testing.assert_allclose(found.values[k], parts, atol=1e-15)
        assert found.parted_by[k] == parts.argmax()


@pytest.mark.parametrize("name", MADE)
def test_predictions_are_sums_over_training_rows(models, name):
    found = explain_training_rows(models[name], rows(12, seed=1)[0][5])
    assert found.residual < 1e-9 * (1 + abs(found.score))


def test_leave_one_out_is_that_of_a_layer_with_linear_terms(models):
    model, y = models["joint"], rows()[1]
    found = leave_one_out(model, y)
    Z = model.map_.to_csr().toarray()
    Z = Z - Z.mean(axis=0)
    hat = Z @ np.linalg.solve(Z.T @ Z + model.alpha_ * np.eye(Z.shape[1]), Z.T) + 1 / len(y)
    np.testing.assert_allclose(found.leverage, np.diag(hat), atol=1e-10)


@pytest.mark.parametrize("name", MADE)
def test_a_collapsed_model_keeps_its_terms(models, name):
    model, X = models[name], 1.5 * rows(12, seed=1)[0]
    collapsed = collapse(model)
    assert len(collapsed.blocks) == 1
    np.testing.assert_allclose(
        collapsed.scores(X), model.at(X).scores, atol=1e-12 * np.abs(model.at(X).scores).max()
    )
    with pytest.raises(TypeError, match="ladders"):
        collapsed.to_sklearn()


def test_behind_a_preparation_terms_belong_to_raw_columns():
    X, y = rows()
    model = make_pipeline(StandardScaler(), KPPRegressor("extra-trees", alpha=1.0, **SMALL))
    found = explain(model.fit(X, y), X[:5])
    assert found.values.shape == (5, 4)
    assert found.residual < 1e-10


def test_shapley_values_of_linear_terms_are_what_they_differ_from_their_mean():
    pytest.importorskip("shap")
    X, y = rows()
    model = KPPRegressor("extra-trees", alpha=1.0, **SMALL).fit(X, y)
    found = explain(model, X[:8], level="shapley")
    assert found.residual < 1e-8
    # Without the trees: the terms of a row, less their mean over the rows of the fit.
    terms = model.additive_.linear[0]
    own = terms.by_column(model.at(X).linear_values[0])[0]
    trees = KPPRegressor("extra-trees", alpha=1.0, **SMALL).fit(X, y)
    place = slice(0, len(model.node_coef_) - len(terms.terms))
    trees.additive_.linear[0].coef[:] = 0.0
    trees.node_coef_[place.stop :] = 0.0
    rest = explain(trees, X[:8], level="shapley")
    np.testing.assert_allclose(found.values - rest.values, (own - own.mean(axis=0))[:8], atol=1e-8)
