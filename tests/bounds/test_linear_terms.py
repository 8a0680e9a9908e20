"""Bounds, audits, diagnoses and reports of models with linear terms."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_classification

from kpp import KPPClassifier, KPPRegressor, audit, diagnose, partition_oracles, report, risk_bounds
from kpp._checks import RefusedError
from kpp.bounds.informed import _grown_shift
from kpp.views.models import forest_figures

SMALL = {"n_estimators": 6, "random_state": 0, "cv": 3, "main_effects": "linear"}


def classes(n_rows=150, seed=0):
    X, y = make_classification(n_rows, 5, n_informative=4, n_redundant=0, random_state=seed)
    X[::6, 1] = np.nan
    return X, y


MADE = {
    "shared": lambda: KPPClassifier("extra-trees", alpha=0.01, **SMALL).fit(*classes()),
    "blend": lambda: KPPClassifier("blend", alpha=0.01, **SMALL).fit(*classes()),
    "honest": lambda: KPPClassifier("extra-trees", regime="honest", alpha=0.01, **SMALL).fit(
        *classes()
    ),
    "centred": lambda: KPPClassifier(
        "extra-trees", regime="honest", center="partition", alpha=0.01, **SMALL
    ).fit(*classes()),
    "by fold": lambda: KPPRegressor("extra-trees", regime="cross-fit", alpha=1.0, **SMALL).fit(
        *classes()
    ),
}


@pytest.fixture(scope="module")
def models():
    return {name: make() for name, make in MADE.items()}


@pytest.mark.parametrize("name", MADE)
def test_audits_hold(models, name):
    model = models[name]
    found = audit(model, *classes())
    assert found.holds
    # Other coefficients of the linear terms alone are noticed.
    before = model.additive_
    first, *others = before.linear
    changed = (replace(first, coef=first.coef + 0.1), *others)
    model.additive_ = replace(before, linear=changed)
    try:
        assert not audit(model, *classes()).holds
    finally:
        model.additive_ = before


@pytest.mark.parametrize("name", MADE)
def test_the_norm_of_every_row_is_within_that_of_the_map(models, name):
    phi = models[name].map_
    n_blocks = len(phi.blocks)
    far = 1e6 * np.random.default_rng(0).choice([-1.0, 1.0, np.nan], (500, 5))
    assert phi.on(far).row_norms().max() <= phi.sup_norm() <= np.sqrt(n_blocks) + 1e-12
    (_, block) = phi.blocks[-1]
    assert block.sup_norm() == pytest.approx(1, abs=1e-14)
    # A centre: no row is farther from it than the map says.
    shift = _grown_shift(phi)
    if name == "blend":
        assert shift is None  # boosted trees do not know their rows
        return
    assert shift.shape == (phi.shape[1],)
    Z = phi.on(far).to_csr().toarray()
    assert np.linalg.norm(Z - shift, axis=1).max() <= phi.sup_norm(shift) + 1e-12


@pytest.mark.parametrize("name", MADE)
def test_bounds_are_those_of_the_regime(models, name):
    model, (X, y) = models[name], classes()
    bounds = risk_bounds(model, X, y)
    assert len(bounds) > 0
    assert all(np.isfinite(bound.total) for bound in bounds)
    if name in ("shared", "blend"):
        assert not any(bound.is_guarantee for bound in bounds)
    if name in ("honest", "centred"):
        assert any(bound.is_guarantee for bound in bounds)
    assert partition_oracles(model, X, y).per_tree.gain.shape == (model.additive_.n_trees,)


def test_rows_of_the_fit_are_known_by_their_coordinates(models):
    model, (X, y) = models["shared"], classes()
    risk_bounds(model, X.astype(np.float32), y)  # single precision is near enough
    other = X.copy()
    # Beyond all thresholds of a column, so that no leaf changes, yet within its range.
    forest = model.forest_[0][1]
    top = np.nanmax(X[:, 0])
    highest = forest.threshold[(forest.feature == 0) & (forest.left >= 0)].max()
    row = int(np.nanargmax(X[:, 0]))
    assert highest < top
    other[row, 0] = highest + 0.5 * (top - highest)
    assert (model.apply(other) == model.apply(X)).all()
    with pytest.raises(RefusedError, match="given to fit"):
        risk_bounds(model, other, y)


@pytest.mark.parametrize("name", MADE)
def test_a_diagnosis_a_card_and_a_report(models, name, tmp_path):
    model, (X, y) = models[name], classes()
    assert diagnose(model, X, y, sample="train").observables
    n_terms = sum(len(terms.terms) for terms in model.additive_.linear)
    figures = forest_figures(model)
    assert figures["linear terms"] == n_terms
    assert "linear" in figures["blocks"]
    assert "linear terms" in model._html_summary()
    new, labels = classes(190, seed=1)
    text = report(model, new[150:], labels[150:], tmp_path / "report.html").read_text()
    assert f"{n_terms} linear terms" in text
