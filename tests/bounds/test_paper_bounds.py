"""The paper's bounds: formulas, published figures, and what each rests on."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, train_test_split

from kpp import KPPClassifier, KPPEmbedding, KPPRegressor
from kpp.bounds import (
    logistic_loss_terms,
    rademacher_complexity,
    risk_bounds,
    squared_loss_terms,
)
from kpp.bounds.samples import sample_of
from kpp.models.asking import ask

X, Y = load_breast_cancer(return_X_y=True)
DX, DY = load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def classifier():
    return KPPClassifier("extra-trees", n_estimators=10, alpha=1e-3, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def honest():
    return KPPClassifier(
        "extra-trees",
        n_estimators=10,
        alpha=1e-3,
        regime="honest",
        center="partition",
        random_state=0,
    ).fit(X, Y)


def test_the_complexity_bounds_the_supremum_over_signs(classifier):
    # E sup over the ball is B E|sum of signed rows| / n; the proposition bounds it by the trace.
    phi = classifier.map_.to_csr()[:100]
    signs = np.random.default_rng(0).choice([-1, 1], size=(2000, 100))
    supremum = np.linalg.norm(signs @ phi.toarray(), axis=1).mean() / 100
    trace = phi.multiply(phi).sum()
    bound = rademacher_complexity(1.0, trace, 100)
    assert supremum <= bound <= 1 / np.sqrt(100)
    assert bound <= 1.5 * supremum


def test_formulas_by_hand():
    B, M, trace, n, delta = 3.0, 2.0, 7.0, 50, 0.1
    complexity, confidence = squared_loss_terms(B, M, trace, n, delta, constant="printed")
    assert complexity == pytest.approx(4 * (M + B) * B / n * np.sqrt(trace))
    assert confidence == pytest.approx(3 * (M + B) ** 2 * np.sqrt(2 * np.log(2 / delta) / n))
    assert squared_loss_terms(B, M, trace, n, delta)[1] == pytest.approx(confidence / 2)
    complexity, confidence = logistic_loss_terms(B, trace, n, delta)
    assert complexity == pytest.approx(2 * B / n * np.sqrt(trace))
    assert confidence == pytest.approx(
        3 * np.log(1 + np.exp(B)) * np.sqrt(np.log(2 / delta) / (2 * n))
    )
    assert np.isfinite(logistic_loss_terms(1e4, trace, n, delta)[1])


def test_the_papers_bounds_on_breast_cancer():
    # Table of conditional bounds: Trace 8.66 ± 0.13, Uniform 169.17 ± 6.13, trivial in 5 of 5.
    trace, uniform = [], []
    for seed in range(5):
        X_train, X_test, y_train, y_test = train_test_split(
            X, Y, test_size=0.2, random_state=seed, stratify=Y
        )
        forest = ExtraTreesClassifier(200, random_state=seed)
        model = KPPClassifier(forest, alpha=1e-10, max_iter=5000, tol=1e-12).fit(X_train, y_train)
        report = risk_bounds(model, X_test, y_test, sample="test")
        trace.append(report["CL-02 trace"].total)
        bound = report["CL-03 uniform logistic"]
        uniform.append(bound.complexity + bound.confidence)
        assert bound.is_trivial
    assert round(np.mean(trace), 2) == 8.66
    assert np.std(trace) == pytest.approx(0.13, abs=0.01)
    assert np.mean(uniform) == pytest.approx(169.17, abs=0.05)
    assert np.std(uniform) == pytest.approx(6.13, abs=0.1)


def test_parts_of_a_regression(tmp_path):
    forest = RandomForestRegressor(30, max_depth=6, random_state=0)
    model = KPPRegressor(forest, alpha=0.4329).fit(DX, DY)
    report = risk_bounds(model, DX, DY)
    assert report.names[0] == "RG-02 trace"
    norm = np.linalg.norm(model.node_coef_)
    trace = model.map_.row_norms(squared=True).sum()
    assert report["RG-02 trace"].total == pytest.approx(norm * np.sqrt(trace) / 442)
    printed, proof = (report[f"RG-03 uniform squared, {c}"] for c in ("printed", "proof"))
    assert printed.empirical_risk == pytest.approx(np.mean((model.predict(DX) - DY) ** 2))
    assert round(np.sqrt(printed.empirical_risk), 2) == 45.40
    assert printed.confidence == pytest.approx(2 * proof.confidence)
    assert printed.trivial_level == DY.max() ** 2
    assert printed.total == printed.empirical_risk + printed.complexity + printed.confidence
    assert {a.name for a in printed.failing} == {
        "representation independent of the sample",
        "radius B fixed before the sample",
        "homogeneous class",
        "bound M of |Y|",
    }


def test_calibration_is_pointwise(classifier):
    report = risk_bounds(classifier, X, Y)
    uniform, calibrated = report["CL-03 uniform logistic"], report["CL-03 calibrated"]
    assert calibrated.total == pytest.approx(uniform.total / np.log(2))
    assert calibrated.empirical_risk >= 1 - classifier.score(X, Y)
    assert uniform.trivial_level == pytest.approx(np.log(2))
    assert calibrated.trivial_level == pytest.approx(min(Y.mean(), 1 - Y.mean()))


def test_multiclass_losses_and_calibration():
    X3, y3 = load_iris(return_X_y=True)
    model = KPPClassifier("extra-trees", n_estimators=10, alpha=1e-2, random_state=0).fit(X3, y3)
    report = risk_bounds(model, X3, y3)
    uniform = report["CL-03 uniform logistic"]
    expected = -np.log(model.predict_proba(X3)[np.arange(150), y3]).mean()
    assert uniform.empirical_risk == pytest.approx(expected)
    assert uniform.trivial_level == pytest.approx(np.log(3))
    assert uniform.constant == "vector contraction"
    assert report["CL-03 calibrated"].empirical_risk >= 1 - model.score(X3, y3)
    two, three = logistic_loss_terms(1, 5, 50), logistic_loss_terms(1, 5, 50, n_classes=3)
    assert three[0] == pytest.approx(2 * np.sqrt(3) * two[0])


def test_multiclass_loss_is_lipschitz_as_the_bound_assumes():
    rng = np.random.default_rng(0)
    g, h = rng.normal(size=(2, 500, 4)) * 3
    y = rng.integers(0, 4, 500)

    def loss(s):
        return np.log(np.exp(s).sum(axis=1)) - s[np.arange(500), y]

    assert (np.abs(loss(g) - loss(h)) <= np.sqrt(2) * np.linalg.norm(g - h, axis=1) + 1e-12).all()


# What is a guarantee.


def test_a_shared_model_has_no_guarantee_on_its_own_rows(classifier):
    report = risk_bounds(classifier, X, Y)
    assert not any(bound.is_guarantee for bound in report)
    assert "shared" in report.notes[0]


def test_test_rows_fix_the_radius_beforehand():
    model = KPPClassifier(
        "extra-trees", n_estimators=10, alpha=1e-3, fit_intercept=False, random_state=0
    )
    model.fit(X[::2], Y[::2])
    report = risk_bounds(model, X[1::2], Y[1::2], sample="test")
    assert report["CL-03 uniform logistic"].is_guarantee
    held_out = report["held-out bound"]
    assert held_out.is_guarantee
    assert held_out.empirical_risk == pytest.approx(1 - model.score(X[1::2], Y[1::2]))
    assert held_out.empirical_risk < held_out.total < held_out.trivial_level
    model = KPPClassifier("extra-trees", n_estimators=10, alpha=1e-3, random_state=0).fit(
        X[::2], Y[::2]
    )
    report = risk_bounds(model, X[1::2], Y[1::2], sample="test")
    assert [a.name for a in report["CL-03 uniform logistic"].failing] == ["homogeneous class"]


def test_fixed_and_honest_fail_only_where_they_do(honest):
    forest = FrozenEstimator(ExtraTreesRegressor(5, random_state=0).fit(DX[::2], DY[::2]))
    model = KPPRegressor(forest, regime="fixed", alpha=1.0, fit_intercept=False)
    model.fit(DX[1::2], DY[1::2])
    report = risk_bounds(model, DX[1::2], DY[1::2], y_range=(0, 400))
    failing = [a.name for a in report["RG-03 uniform squared, proof"].failing]
    assert failing == ["radius B fixed before the sample"]
    failing = {a.name for a in risk_bounds(honest, X, Y)["CL-03 calibrated"].failing}
    assert failing == {"radius B fixed before the sample", "homogeneous class"}
    failing = {a.name for a in risk_bounds(honest, X, Y, sample="train")["CL-02 trace"].failing}
    assert "representation independent of the sample" in failing


@pytest.mark.parametrize(
    ("forests", "is_attained"),
    [
        # All paths of a tree with one split have the whole mass of the tree: norm 1 in each block.
        ([ExtraTreesRegressor(5, max_depth=1), RandomForestRegressor(5, max_depth=1)], True),
        (["extra-trees", "boosted"], False),
    ],
)
def test_several_forests_have_a_larger_norm(forests, is_attained):
    named = list(zip("ab", forests, strict=True))
    model = KPPRegressor(named, combine="joint", n_estimators=5, alpha=1.0, random_state=0).fit(
        DX, DY
    )
    report = risk_bounds(model, DX, DY)
    sup = model.map_.sup_norm()
    assert sup <= np.sqrt(2) * (1 + 1e-15)
    phi = model.map_.on(DX).to_csr()
    norms = np.sqrt(phi.multiply(phi).sum(axis=1))
    assert norms.max() <= sup * (1 + 1e-14)
    if is_attained:
        assert norms.min() == pytest.approx(np.sqrt(2), rel=1e-14)
    bound = report["RG-03 uniform squared, proof"]
    radius = np.linalg.norm(model.node_coef_) * max(1.0, sup)
    expected = squared_loss_terms(radius, DY.max(), bound.details["trace"], 442)
    assert (bound.complexity, bound.confidence) == pytest.approx(expected)


def test_cross_fit_fold_by_fold():
    cv = KFold(4, shuffle=True, random_state=0)
    model = KPPRegressor(
        "extra-trees", n_estimators=8, regime="cross-fit", alpha=1.0, cv=cv, random_state=0
    )
    model.fit(DX, DY)
    report = risk_bounds(model, DX, DY, delta=0.2)
    folds = [b for b in report if b.name.startswith("RG-03 uniform squared, proof")]
    assert [b.n_rows for b in folds] == [len(fit) for fit, _ in model.folds_]
    assert all(b.delta == pytest.approx(0.05) for b in folds)
    # The folds' predictors average to the model.
    parts = sample_of(ask(model), DX, DY, "fit").folds()
    total = sum(
        m.matvec(part.node_coef[0]) + part.intercept[0]
        for (_, m), part in zip(model.map_.on(DX).blocks, parts, strict=True)
    )
    np.testing.assert_allclose(total / 4, model.predict(DX), rtol=1e-8)


def test_cross_fit_intercepts_of_a_classifier():
    cv = KFold(4, shuffle=True, random_state=0)
    model = KPPClassifier(
        "extra-trees", n_estimators=8, regime="cross-fit", alpha=1e-2, cv=cv, random_state=0
    )
    model.fit(X, Y)
    parts = sample_of(ask(model), X, Y, "fit").folds()
    assert np.mean([part.intercept[0] for part in parts]) == pytest.approx(
        model.intercept_[0], abs=1e-6
    )


# The report, and bad input.


def test_the_report_is_a_sequence_and_a_frame(classifier):
    report = risk_bounds(classifier, X, Y)
    assert [b.name for b in report] == report.names
    assert len(report[:2]) == 2
    assert report[-1] is report["CL-03 calibrated"]
    frame = report.to_frame()
    assert frame.loc["CL-03 calibrated", "total"] == report[-1].total
    assert "FAILS" in str(report)
    with pytest.raises(KeyError, match="this report has"):
        report["no such"]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"delta": 0.0}, "delta is a probability"),
        ({"delta": "a"}, "delta is a probability"),
        ({"sample": "all"}, "sample must be one of"),
        ({"X": X[:50], "y": Y[:50]}, "given to fit"),
        ({"X": X[::-1], "y": Y[::-1]}, "other leaves"),
        ({"y": Y[:-1]}, "rows"),
        ({"y": np.where(Y == 0, 7, Y)}, "does not know"),
        ({"y_range": (1.0, 0.0)}, "this is a classifier"),
        ({"y": None}, "y is None"),
        ({"X": X[:0], "y": Y[:0], "sample": "test"}, None),
    ],
)
def test_bad_input(classifier, change, match):
    arguments = {"X": X, "y": Y} | change
    with pytest.raises(ValueError, match=match):
        risk_bounds(classifier, **arguments)


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match="KPPRegressor or KPPClassifier"):
        risk_bounds(KPPEmbedding(n_estimators=3).fit(X, Y), X, Y)
    many = KPPRegressor("extra-trees", n_estimators=3, alpha=1.0).fit(DX, np.column_stack([DY, DY]))
    with pytest.raises(ValueError, match="one model per target"):
        risk_bounds(many, DX, DY)
