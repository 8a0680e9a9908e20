"""Findings: each is raised where it should be, and the page knows all of them."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from kpp import KPPClassifier, KPPRegressor
from kpp.diagnostics import diagnose
from kpp.diagnostics.findings import CHECKS

X, Y = load_breast_cancer(return_X_y=True)
DX, DY = load_diabetes(return_X_y=True)
PAGE = Path(__file__).parents[2] / "docs" / "diagnostics.md"


def fit(estimator, data, **parameters):
    own = {"forest": "extra-trees", "n_estimators": 10, "random_state": 0}
    return estimator(**(own | parameters)).fit(*data)


def test_codes_are_distinct_and_documented():
    codes = [check.code for check in CHECKS]
    assert codes == [f"KPP{k:03d}" for k in range(1, len(codes) + 1)]
    text = PAGE.read_text()
    for check in CHECKS:
        assert re.search(rf"^### {check.code}$", text, re.MULTILINE), check.code
        assert check.source
        assert check.meaning.endswith(".")
        assert check.severity in ("info", "warning")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_every_check_compares_with_its_threshold(check):
    step = 1e-6 * max(abs(check.threshold), 1)
    inside, outside = check.threshold - step, check.threshold + step
    if not check.above:
        inside, outside = outside, inside
    model = fit(KPPRegressor, (DX, DY), alpha=1.0)
    assert check.run(model, {check.observable: inside}) is None
    finding = check.run(model, {check.observable: outside})
    assert finding.code == check.code
    assert finding.anchor.endswith(check.code.lower())
    assert check.code in str(finding)
    assert check.run(model, {check.observable: np.nan}) is None
    assert check.run(model, {}) is None


def test_a_fit_without_penalty():
    model = fit(KPPRegressor, (DX, DY), alpha=1e-9, tol=1e-4)
    found = diagnose(model, DX, DY, sample="train")
    assert {"KPP002", "KPP007", "KPP009"} <= set(found.codes)
    assert [f.severity for f in found.findings] == sorted(
        (f.severity for f in found.findings), reverse=True
    )


@pytest.mark.filterwarnings("ignore:These rows were called test rows")
def test_rows_that_occur_twice_make_a_singular_gram():
    model = fit(KPPRegressor, (DX, DY), alpha=1e-9, tol=1e-4)
    assert "KPP003" not in diagnose(model, DX, DY).codes
    assert "KPP003" in diagnose(model, np.vstack([DX, DX]), np.concatenate([DY, DY])).codes


@pytest.mark.filterwarnings("ignore:These rows were called test rows")
def test_interpolated_rows():
    model = fit(KPPRegressor, (DX, DY), alphas=[1e-9, 1e-8], tol=1e-5)
    assert "KPP012" in diagnose(model, DX, DY, sample="train").codes
    assert "KPP012" not in diagnose(model, DX, DY).codes  # of test rows it says nothing
    model = fit(KPPRegressor, (DX, DY), n_estimators=50)
    assert "KPP012" not in diagnose(model, DX, DY, sample="train").codes


def test_calibration_is_judged_on_new_rows_only():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(600, 4)), rng.integers(0, 2, 600)
    model = fit(KPPClassifier, (rows[:300], y[:300]), alpha=1e-6, n_estimators=25)
    assert "KPP010" in diagnose(model, rows[300:], y[300:]).codes
    for sample in ("train", "fit"):
        assert "KPP010" not in diagnose(model, rows[:300], y[:300], sample=sample).codes


def test_noise_has_weak_partitions_and_no_skill():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(600, 4)), rng.normal(size=600)
    model = fit(KPPRegressor, (rows[:300], y[:300]), alpha=0.01)
    found = diagnose(model, rows[300:], y[300:])
    assert {"KPP005", "KPP011"} <= set(found.codes)
    good = fit(KPPClassifier, (X[::2], Y[::2]), alpha=1e-3, n_estimators=50)
    assert not {"KPP005", "KPP011"} & set(diagnose(good, X[1::2], Y[1::2]).codes)


def test_overconfident_probabilities():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 4))
    labels = (rows[:, 0] + 1.5 * rng.normal(size=2000) > 0).astype(int)
    model = fit(KPPClassifier, (rows[:1000], labels[:1000]), alpha=1e-9, tol=1e-3)
    assert "KPP010" in diagnose(model, rows[1000:], labels[1000:]).codes
    auto = fit(KPPClassifier, (rows[:1000], labels[:1000]))
    assert "KPP010" not in diagnose(auto, rows[1000:], labels[1000:]).codes


def test_a_calibrated_model_of_few_rows_is_not_accused():
    # Confident and right, as its probabilities say: chance is that of p (1 - p), not of the errors.
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 2))
    p = np.where(rows[:, 0] > 0, 0.9, 0.1)
    labels = (rng.random(4000) < p).astype(int)
    model = fit(KPPClassifier, (rows[:3000], labels[:3000]), alpha=1e-2)
    model.predict_proba = lambda rows: np.column_stack([1 - q(rows.X), q(rows.X)])
    raised = 0
    for start in range(3000, 4000, 50):
        some = slice(start, start + 50)
        raised += "KPP010" in diagnose(model, rows[some], labels[some]).codes
    assert raised <= 1


def q(X):
    return np.where(X[:, 0] > 0, 0.9, 0.1)


def test_alpha_on_the_edge():
    model = fit(KPPRegressor, (DX, DY), alphas=[1e-6, 1e-5])
    assert "KPP008" in diagnose(model, DX, DY, sample="train").codes
    model = fit(KPPRegressor, (DX, DY))
    assert "KPP008" not in diagnose(model, DX, DY, sample="train").codes


def test_silence():
    model = fit(KPPRegressor, (DX, DY), alpha=1e-9, tol=1e-4)
    found = diagnose(model, DX, DY, sample="train", silence=["KPP002", "KPP009"])
    assert not {"KPP002", "KPP009"} & set(found.codes)
    with pytest.raises(ValueError, match="no code: known are"):
        diagnose(model, DX, DY, sample="train", silence=["KPP999"])
    with pytest.raises(ValueError, match="look like"):
        diagnose(model, DX, DY, sample="train", silence=["capacity"])
