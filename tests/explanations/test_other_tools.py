"""The attribution against treeinterpreter; Shapley values and plots by shap."""

import sys

import numpy as np
import pytest
from explanations.fitted_models import fitted

from kpp.explanations import explain
from kpp.export import collapse

NUMERICAL = ["regression", "several targets", "binary", "multiclass", "blocks", "partition"]


class FlatValues:
    """A tree whose node values are one number each, as treeinterpreter expects them."""

    def __init__(self, tree):
        self._tree = tree
        self.value = tree.value.reshape(-1, 1, 1)[:, :, 0]

    def __getattr__(self, name):
        return getattr(self._tree, name)


def saabas(forest, X):
    """Constant and values of the mean over the trees, by treeinterpreter."""
    treeinterpreter = pytest.importorskip("treeinterpreter.treeinterpreter")

    class Member(treeinterpreter.DecisionTreeRegressor):
        def __init__(self, own):
            self.own = own

        @property
        def tree_(self):
            return FlatValues(self.own.tree_)

        def apply(self, X):
            return self.own.apply(X)

    constant, values = 0.0, np.zeros(X.shape)
    for tree in forest.estimators_:
        _, bias, parts = treeinterpreter._predict_tree(Member(tree), X.astype(np.float32))
        constant += bias[0] / len(forest.estimators_)
        values += parts / len(forest.estimators_)
    return constant, values


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", NUMERICAL)
def test_saabas_of_the_collapsed_forest(kind):
    model, X = fitted(kind)
    attribution = explain(model, X)
    mine = attribution.values.reshape(*X.shape, -1)
    size = np.abs(attribution.scores).max()
    for k, baseline in enumerate(np.atleast_1d(attribution.baseline)):
        constant, values = saabas(collapse(model).to_sklearn(k), X)
        assert constant == pytest.approx(baseline, abs=1e-10 * size)
        np.testing.assert_allclose(mine[..., k], values, rtol=0, atol=1e-10 * size)


@pytest.mark.parametrize("kind", NUMERICAL)
def test_shapley_values_add_up_to_the_same_score(kind):
    pytest.importorskip("shap")
    model, X = fitted(kind)
    attribution = explain(model, X[:40], level="shapley")
    own = model.decision_function(X[:40]) if hasattr(model, "classes_") else model.predict(X[:40])
    total = attribution.baseline + attribution.values.sum(axis=1)
    size = np.abs(own).max()
    np.testing.assert_allclose(total, own, rtol=0, atol=1e-8 * size)
    assert attribution.residual <= 1e-8 * size
    # It is another decomposition than ours.
    assert np.abs(attribution.values - explain(model, X[:40]).values).max() > 1e-3 * size


def test_shapley_of_categories_is_refused_by_name():
    pytest.importorskip("shap")
    model, X = fitted("categories")
    with pytest.raises(TypeError, match=r"[Cc]ategor"):
        explain(model, X, level="shapley")


@pytest.mark.parametrize("kind", ["regression", "categories", "binary"])
def test_shap_draws_it(kind, monkeypatch):
    shap = pytest.importorskip("shap")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    model, X = fitted(kind)
    attribution = explain(model, X[:60])
    explanation = attribution.to_shap()
    assert isinstance(explanation, shap.Explanation)
    np.testing.assert_array_equal(explanation.values, attribution.values)
    total = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(total, attribution.scores, rtol=1e-8)
    assert explanation.feature_names == list(attribution.feature_names)
    for draw, given in [
        (shap.plots.waterfall, explanation[0]),
        (shap.plots.beeswarm, explanation),
        (shap.plots.bar, explanation),
    ]:
        plt.figure()
        draw(given, show=False)
        plt.gcf().canvas.draw()
        assert plt.gca().get_yticklabels()
        plt.close("all")


def test_shap_of_several_outputs():
    shap = pytest.importorskip("shap")
    model, X = fitted("multiclass")
    explanation = explain(model, X).to_shap()
    assert explanation.shape == (150, 4, 3)
    assert explanation.base_values.shape == (150, 3)
    assert isinstance(explanation[..., 1], shap.Explanation)
    assert explanation[..., 1].shape == (150, 4)


def test_shap_takes_variables_only():
    pytest.importorskip("shap")
    model, X = fitted("regression")
    with pytest.raises(ValueError, match="plots are of variables"):
        explain(model, X, level="node").to_shap()


@pytest.mark.parametrize(
    ("module", "call", "says"),
    [
        ("shap", lambda m, X: explain(m, X).to_shap(), r"to_shap\(\).*kpp\[shap\]"),
        ("shap", lambda m, X: explain(m, X, level="shapley"), r"level='shapley'.*kpp\[shap\]"),
        ("pandas", lambda m, X: explain(m, X).to_frame(), r"to_frame\(\).*pip install pandas"),
    ],
)
def test_what_is_not_installed_is_named(monkeypatch, module, call, says):
    model, X = fitted("regression")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=says):
        call(model, X)
