"""Files of models that have left their rows on a cluster."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_friedman1

import kpp
from kpp import KPPClassifier, KPPRegressor
from kpp._checks import RefusedError
from kpp.io import FileFormatError
from kpp.io.left_rows import decode_left_rows, left_rows_fields
from kpp.io.models import LINEAR
from kpp.io.outlines import outline
from kpp.io.schema import complete
from kpp.models.fits import LinearFit, MapPart
from kpp.models.left_rows import LeftRows

X, Y = make_friedman1(120, 5, random_state=0)
WEIGHT = np.random.default_rng(0).uniform(0.5, 2.0, 120)


def without_rows(model):
    """The same model, as a fit on a cluster leaves it without its rows."""
    left, fit = copy.copy(model), model.fits_[0]
    left.map_ = model.map_.rows(np.arange(0))
    forest, ids = model.forest_, model.map_.leaf_ids.ravel()
    weight = np.tile(model.sample_weight_ / model.sample_weight_.sum(), forest.n_trees)
    count, share = (
        np.bincount(ids, own, minlength=forest.n_nodes)[forest.is_leaf] for own in (None, weight)
    )
    left.left_rows_ = LeftRows(model.map_.shape[0], count, share)
    own = LinearFit(MapPart(left.map_), np.arange(0), fit.dual[:0], fit.intercept, fit.alpha)
    vars(own)["node_coef"] = fit.node_coef
    left.fits_, left.dual_coef_ = [own], own.dual
    left.fit_rows_ = left.partition_rows_ = np.arange(0)
    left.row_fingerprints_ = left.sample_weight_ = None
    left.fit_record_ = replace(model.fit_record_, target_digest=None)
    return left


@pytest.fixture(scope="module", params=["numbers", "classes"])
def models(request, tmp_path_factory):
    kind, y = KPPRegressor, Y
    if request.param == "classes":
        kind, y = KPPClassifier, np.where(np.median(Y) < Y, "high", "low")
    model = kind("extra-trees", n_estimators=4, alpha=0.1, random_state=0).fit(X, y, WEIGHT)
    left = without_rows(model)
    path = tmp_path_factory.mktemp("left") / "model.kpp"
    return model, left, kpp.load(kpp.save(left, path)), path, y


def test_a_model_without_rows_comes_back_from_its_file(models, tmp_path):
    model, left, back, path, _ = models
    assert_array_equal(back.predict(X), model.predict(X))
    assert back.left_rows_.n_rows == outline(path).n_rows == 120
    assert_array_equal(back.left_rows_.leaf_count, left.left_rows_.leaf_count)
    again = kpp.save(back, tmp_path / "again.kpp")
    assert again.read_bytes() == path.read_bytes()
    # Half of the file of a model with its rows, or less: these are most of it.
    assert path.stat().st_size < kpp.save(model, tmp_path / "whole.kpp").stat().st_size


def test_means_over_the_rows_are_what_they_were(models):
    model, _, back, _, _ = models
    assert_allclose(back.feature_importances_, model.feature_importances_, rtol=1e-12)
    ours, theirs = (kpp.explain(m, X[:5], centered=True) for m in (back, model))
    assert_allclose(ours.values, theirs.values, rtol=0, atol=1e-12)
    rules = [kpp.explain_rules(m, X[:1], top=5) for m in (back, model)]
    assert str(rules[0]) == str(rules[1])


def test_what_needs_the_rows_says_so(models):
    _, _, back, _, y = models
    interval = back.predict_interval if isinstance(back, KPPRegressor) else back.predict_set
    for ask in (
        lambda: kpp.explain_training_rows(back, X[0]),
        lambda: interval(X[:2]),
        lambda: kpp.risk_bounds(back, X, y),
        lambda: kpp.diagnose(back, X, y, sample="fit"),
    ):
        with pytest.raises(RefusedError, match="left its 120 on a cluster"):
            ask()
    # What is asked of new rows has its answer.
    assert len(kpp.risk_bounds(back, X, y, sample="test")) > 0
    assert kpp.diagnose(back, X, y)["norm"] > 0
    assert "120 in the linear layer" in back._repr_html_()


def test_a_file_whose_trees_do_not_hold_all_rows_is_refused(models):
    _, left, _, _, _ = models
    absent = dict.fromkeys(LINEAR)
    fields = absent | left_rows_fields(left)
    assert decode_left_rows(fields, left).n_rows == 120
    table = fields["left_rows"]
    count, weight = table["leaf_count"].copy(), table["leaf_weight"]
    count[0] += 1
    for wrong in (
        {"left_rows": table | {"leaf_count": count}},
        {"left_rows": table | {"leaf_count": table["leaf_count"][1:]}},
        {"left_rows": table | {"leaf_weight": weight * 1.01}},
        {"n_rows_left": 119},
        {"left_rows": None},
        {"sample_weight_": np.ones(3)},
    ):
        with pytest.raises(FileFormatError):
            decode_left_rows(fields | wrong, left)


def test_who_does_not_know_the_field_refuses_the_file(models):
    older = {name: field for name, field in LINEAR.items() if "left" not in name}
    fields = dict.fromkeys(older) | left_rows_fields(models[1])
    with pytest.raises(FileFormatError, match=r"unknown fields.*left_rows"):
        complete(fields, {n: replace(f, inside=None) for n, f in older.items()}, 2, "model")


def test_another_fit_has_its_rows(models):
    _, _, back, _, y = models
    again = copy.copy(back).fit(X, y)
    assert again.left_rows_ is None
    assert len(kpp.explain_training_rows(again, X[0]).rows) > 0
