"""A loaded model keeps what a prediction needs; the rest is made when it is asked for."""

import pickle

import numpy as np
import pytest
from size_models import array_bytes
from sklearn.datasets import make_friedman1

from kpp import (
    KPPClassifier,
    KPPEmbedding,
    KPPRegressor,
    certify,
    explain,
    explain_training_rows,
    load,
    risk_bounds,
    save,
)

X, Y = make_friedman1(150, 5, noise=1.0, random_state=0)
MEDIAN = np.median(Y)
LABELS = np.where(Y > MEDIAN, "high", "low")


def regressor(**parameters):
    return KPPRegressor("extra-trees", n_estimators=10, random_state=0, **parameters).fit(X, Y)


def classifier(**parameters):
    return KPPClassifier("extra-trees", n_estimators=10, random_state=0, **parameters).fit(
        X, LABELS
    )


def multiclass():
    third = np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3]))
    return KPPClassifier("extra-trees", n_estimators=10, random_state=0, alpha=0.1).fit(X, third)


def held(loaded):
    """Names of what the parts of a loaded model hold."""
    block = loaded.map_
    return {
        *vars(loaded).keys() & {"node_coef_"},
        *vars(block).keys() & {"squared_scale", "scale", "leaf_ids"},
        *vars(block.weights).keys() & {"node", "edge"},
        *vars(block.forest).keys() & {"parent", "source_leaf", "split_kind", "is_leaf"},
        *vars(block.forest.statistics).keys() & {"count", "mean", "variance", "class_share"},
        *vars(loaded.fits_[0]).keys() & {"node_coef"},
    }


@pytest.mark.parametrize("make", [regressor, classifier, multiclass])
def test_a_prediction_asks_for_nothing_more(make, again):
    model = make()
    loaded = again(model)
    assert held(loaded) == set()
    before = array_bytes(loaded)
    assert loaded.predict(X).tobytes() == model.predict(X).tobytes()
    assert held(loaded) == set()
    # But the nodes as predictions walk along them, 16 bytes each.
    assert array_bytes(loaded) == before + 16 * loaded.forest_.n_nodes


def test_half_of_the_memory_of_the_fitted_model(again):
    # Of many trees: what a model keeps for each row is the same in both.
    for kind, y in ((KPPRegressor, Y), (KPPClassifier, LABELS)):
        model = kind("extra-trees", n_estimators=60, random_state=0).fit(X, y)
        assert array_bytes(again(model)) < 0.55 * array_bytes(model)


@pytest.mark.parametrize("make", [regressor, classifier, multiclass])
def test_all_that_can_be_asked_is_the_same(make, again):
    model = make()
    y = {regressor: Y, classifier: LABELS}.get(make, np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3])))
    loaded = again(model)
    assert explain(loaded, X[:9]).values.tobytes() == explain(model, X[:9]).values.tobytes()
    assert loaded.node_coef_.tobytes() == model.node_coef_.tobytes()
    assert loaded.feature_importances_.tobytes() == model.feature_importances_.tobytes()
    for mine, theirs in zip(model.additive_.blocks, again(model).additive_.blocks, strict=True):
        for name in ("coef", "squared_scale", "scale", "contribution"):
            assert getattr(mine, name).tobytes() == getattr(theirs, name).tobytes()
        assert np.array_equal(mine.rows_of_nodes(), theirs.rows_of_nodes())
    rows = [explain_training_rows(m, X[0]).all_contributions for m in (model, again(model))]
    assert rows[0].tobytes() == rows[1].tobytes()
    bounds = [[vars(b) for b in risk_bounds(m, X, y)] for m in (model, again(model))]
    assert repr(bounds[0]) == repr(bounds[1])
    if make is classifier:
        radii = [certify(m, X[:5]).radius for m in (model, again(model))]
        assert radii[0].tobytes() == radii[1].tobytes()


def test_weights_that_do_not_follow_are_kept(again, differ):
    model = regressor().set_params(node_weight="uniform")  # no longer what it was fitted with
    loaded = again(model)
    assert {"node", "edge"} <= held(loaded)
    assert differ(model, loaded) == []
    given = regressor(leaf_weight=0.5)
    assert differ(given, again(given)) == []


def test_coefficients_that_do_not_follow_are_kept(again):
    model = regressor()
    changed = np.nextafter(model.node_coef_, np.inf)
    model.node_coef_ = changed
    loaded = again(model)
    assert loaded.node_coef_.tobytes() == changed.tobytes()
    assert loaded.fits_[0].node_coef.tobytes() == changed.tobytes()


def test_pickled_after_loading_and_fitted_again(again):
    model = classifier()
    loaded = again(model)
    copied = pickle.loads(pickle.dumps(loaded))
    assert copied.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    assert explain(copied, X[:3]).values.tobytes() == explain(model, X[:3]).values.tobytes()
    assert loaded.fit(X, LABELS).node_coef_.tobytes() == model.node_coef_.tobytes()


def test_an_embedding_is_lean_too(tmp_path):
    model = KPPEmbedding(n_estimators=10, random_state=0).fit(X, Y)
    loaded = load(save(model, tmp_path / "embedding.kpp"))
    assert not {"parent", "source_leaf"} & vars(loaded.forest_).keys()
    assert (loaded.transform(X) != model.transform(X)).nnz == 0
    assert loaded.map_.gram().tobytes() == model.map_.gram().tobytes()


def test_weights_of_some_trees():
    model = regressor()
    part = model.map_.trees(slice(2, 5))
    nodes = model.forest_.nodes_of(slice(2, 5))
    assert part.weights.node.tobytes() == model.map_.weights.node[nodes].tobytes()
    assert part.weights.edge.tobytes() == model.map_.weights.edge[nodes].tobytes()
    assert part.weights.forest_mass == model.map_.weights.tree_mass[2:5].sum()
