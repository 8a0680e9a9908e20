"""The dashboard: the paper's figures, definitions, regimes, and large samples."""

import json
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesClassifier, RandomForestRegressor
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import KFold, train_test_split

from kpp import KPPClassifier, KPPEmbedding, KPPRegressor, half_forest_discrepancy
from kpp.bounds import partition_oracles
from kpp.diagnostics import constant_metrics, diagnose, predictive_metrics
from kpp.diagnostics.metrics import brier_score, calibration_error
from kpp.geometry import PathMap

X, Y = load_breast_cancer(return_X_y=True)
DX, DY = load_diabetes(return_X_y=True)
ALPHA = np.logspace(-4, 4, 12)[5]


@pytest.fixture(scope="module")
def classifier():
    return KPPClassifier("extra-trees", n_estimators=20, random_state=0).fit(X[::2], Y[::2])


@pytest.fixture(scope="module")
def regressor():
    return KPPRegressor("extra-trees", n_estimators=20, random_state=0).fit(DX[::2], DY[::2])


# The paper's tables.


def test_the_papers_diabetes_rows():
    # PB-01: RMSE 45.40, Tr/n .143, d_eff/n .073, mu_min 3.7e-5, |w| 727.4, IG 3609.
    forest = RandomForestRegressor(30, max_depth=6, random_state=0)
    fixed = KPPRegressor(forest, alpha=ALPHA, tol=1e-12).fit(DX, DY)
    fixed = diagnose(fixed, DX, DY, sample="train")
    assert round(fixed["rmse"], 2) == 45.40
    assert round(fixed["trace_per_row"], 3) == 0.143
    assert round(fixed["effective_dimension_per_row"], 3) == 0.073
    assert f"{fixed['smallest_eigenvalue']:.1e}" == "3.7e-05"
    assert round(fixed["norm"], 1) == 727.4
    assert round(fixed["gain"]) == 3609
    # PB-02, on the full sample as in the paper: 53.26, .195, 4.8e-5, 505.7, 3029.
    honest = KPPRegressor(forest, regime="honest", alpha=ALPHA, random_state=0, tol=1e-12)
    honest.fit(DX, DY)
    full = diagnose(honest, DX, DY, sample="train")
    assert round(full["rmse"], 2) == 53.26
    assert round(full["trace_per_row"], 3) == 0.195
    assert f"{full['smallest_eigenvalue']:.1e}" == "4.8e-05"
    assert round(full["norm"], 1) == 505.7
    assert round(full["gain"]) == 3029
    # On the fit fold, which the regime is about: Tr/n .1956, d_eff/n .0966, mu_min 9.2e-4.
    fit = diagnose(honest, DX, DY, sample="fit")
    assert fit.n_rows == 221
    assert round(fit["trace_per_row"], 4) == 0.1956
    assert round(fit["effective_dimension_per_row"], 4) == 0.0966
    assert f"{fit['smallest_eigenvalue']:.1e}" == "9.2e-04"


def test_the_papers_breast_cancer_row():
    # Five seeds, test inputs: error .0281 ± .0039, |w| 397.92 ± 15.54, Tr/n .0542 ± .0033,
    # mu_min + lambda 8.02e-4 ± 1.15e-4, Delta_K .149 ± .043, IG_h .582 ± .024.
    found = []
    for seed in range(5):
        X_train, X_test, y_train, y_test = train_test_split(
            X, Y, test_size=0.2, random_state=seed, stratify=Y
        )
        forest = ExtraTreesClassifier(200, random_state=seed)
        model = KPPClassifier(forest, alpha=1e-10, max_iter=5000, tol=1e-12).fit(X_train, y_train)
        found.append(diagnose(model, X_test, y_test))

    def table(name):
        values = [diagnostics[name] for diagnostics in found]
        return np.mean(values), np.std(values)

    assert [round(v, 4) for v in table("error")] == [0.0281, 0.0035]
    assert round(np.std([d["error"] for d in found], ddof=1), 4) == 0.0039  # benchmark's ddof
    assert table("norm") == pytest.approx((397.92, 15.54), abs=0.15)
    assert [round(v, 4) for v in table("trace_per_row")] == [0.0542, 0.0033]
    assert f"{table('shifted_smallest_eigenvalue')[0]:.2e}" == "8.02e-04"
    assert f"{table('shifted_smallest_eigenvalue')[1]:.2e}" == "1.15e-04"
    assert [round(v, 3) for v in table("half_forest_discrepancy")] == [0.149, 0.043]
    assert [round(v, 3) for v in table("gain")] == [0.582, 0.024]


# Definitions.


def test_observables_against_the_written_out_gram(regressor):
    rows, y = DX[1::2], DY[1::2]
    found = diagnose(regressor, rows, y)
    phi = regressor.map_.on(rows).to_csr().toarray()
    gram = phi @ phi.T
    mu = np.linalg.eigvalsh(gram)
    alpha = regressor.alpha_
    assert found["trace_per_row"] == pytest.approx(np.trace(gram) / len(y))
    assert found["effective_dimension_per_row"] == pytest.approx((mu / (mu + alpha)).mean())
    assert found["shifted_smallest_eigenvalue"] == pytest.approx(max(mu[0], 0) + alpha)
    assert found["condition_number"] == pytest.approx(
        (mu[-1] + alpha) / (max(mu[0], 0) + alpha), rel=1e-6
    )
    delta = half_forest_discrepancy(regressor, rows)
    assert found["half_forest_discrepancy"] == pytest.approx(delta, rel=1e-9)
    tree = regressor.map_.normalized("tree").on(rows).gram()
    assert found["relative_discrepancy"] == pytest.approx(delta / np.linalg.norm(tree, 2), rel=1e-3)
    guarded = max(max(mu[0], 0) - delta, 0) + alpha
    assert found["guarded_smallest_eigenvalue"] == pytest.approx(guarded)
    squared = gram.diagonal()[:, None] + gram.diagonal() - 2 * gram
    radius = (y.std() / np.linalg.norm(regressor.node_coef_)) ** 2
    assert found["relative_radius"] == pytest.approx(radius / squared.mean())


def test_margins(classifier):
    rows, y = X[1::2], Y[1::2]
    found = diagnose(classifier, rows, y)
    m = np.where(y == 1, 1, -1) * classifier.decision_function(rows)
    np.testing.assert_allclose(found.margins, m)
    assert found["wrong_side"] == found["error"] == np.mean(m <= 0)
    near = np.abs(m) <= 0.1 * np.sqrt(np.mean(m**2))
    assert found["margins_near_zero"] == near.mean()
    three = load_iris(return_X_y=True)
    model = KPPClassifier("extra-trees", n_estimators=10, alpha=1e-2, random_state=0).fit(*three)
    scores = model.decision_function(three[0])
    own = scores[np.arange(150), three[1]]
    scores[np.arange(150), three[1]] = -np.inf
    found = diagnose(model, *three, sample="train")
    np.testing.assert_allclose(found.margins, own - scores.max(axis=1))


def test_the_adjusted_share_of_noise_is_near_zero():
    # Labels that the trees have not seen and that nothing explains: gains are chance alone.
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(2000, 4)), rng.normal(size=2000)
    forest = RandomForestRegressor(20, max_leaf_nodes=100, random_state=0)
    model = KPPRegressor(forest, alpha=1.0).fit(rows[:1000], y[:1000])
    found = diagnose(model, rows[1000:], y[1000:])
    assert found["gain_share"] > 0.05
    assert abs(found["adjusted_gain_share"]) < 0.03
    labels = (y > 0).astype(int)
    forest = ExtraTreesClassifier(20, max_leaf_nodes=100, random_state=0)
    model = KPPClassifier(forest, alpha=1.0).fit(rows[:1000], labels[:1000])
    found = diagnose(model, rows[1000:], labels[1000:])
    assert found["gain_share"] > 0.04
    assert abs(found["adjusted_gain_share"]) < 0.05


# Metrics.


def test_metrics_are_scikit_learns(classifier, regressor):
    rows, y = X[1::2], Y[1::2]
    p = classifier.predict_proba(rows)
    found = predictive_metrics(classifier, rows, y)
    assert found["brier"] == pytest.approx(brier_score_loss(y, p[:, 1]))
    assert found["error"] == pytest.approx(1 - classifier.score(rows, y))
    found = predictive_metrics(regressor, DX[1::2], DY[1::2])
    assert found["r2"] == pytest.approx(regressor.score(DX[1::2], DY[1::2]))


def test_calibration_error():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    calibrated = (rng.random(20_000) < p).astype(int)
    both = np.column_stack([1 - p, p])
    assert calibration_error(both, calibrated) < 0.02
    sharp = np.column_stack([p < 0.5, p >= 0.5]).astype(float)
    assert calibration_error(sharp, calibrated) == pytest.approx(0.25, abs=0.02)
    assert brier_score(both, calibrated) == pytest.approx(1 / 6, abs=0.01)


@pytest.mark.filterwarnings("ignore:These rows were called test rows")
def test_rows_that_lack_a_class(classifier):
    only = Y == 1
    found = diagnose(classifier, X[only][:30], Y[only][:30])
    assert np.isnan(found["auc"])
    assert found["balanced_accuracy"] == pytest.approx(1 - found["error"])
    assert found["root"] == 0


def test_rows_that_fit_has_seen_are_no_test_rows():
    model = KPPClassifier("extra-trees", n_estimators=25, alpha=1e-3, random_state=0).fit(
        X[::2], Y[::2]
    )
    order = np.random.default_rng(0).permutation(len(X[::2]))
    for rows, labels in ((X[::2], Y[::2]), (X[::2][order], Y[::2][order]), (X, Y)):
        with pytest.warns(UserWarning, match="were called test rows, but .* not scores on new"):
            found = diagnose(model, rows, labels)
        assert found.sample == "seen"
        assert "test rows" not in str(found)
        assert "KPP010" not in found.codes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = diagnose(model, X[1::2], Y[1::2])
    assert found.sample == "test"


# Samples and regimes.


@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit", "cross-validated"])
@pytest.mark.parametrize("sample", ["fit", "train", "test"])
def test_every_regime_and_sample(regime, sample):
    model = KPPRegressor(
        "extra-trees", n_estimators=12, regime=regime, alpha=1.0, cv=3, random_state=0
    )
    model.fit(DX, DY)
    # Other rows, for what is called a test: those of the fit would be a warning.
    moved = DX + 0.01 if sample == "test" else DX
    found = diagnose(model, moved, DY, sample=sample)
    assert found.sample == sample
    assert found.regime == regime
    families = {o.family for o in found.observables}
    assert families == {"capacity", "conditioning", "stability", "partition", "norm"}
    spread = found.to_frame().loc["norm", "spread"]
    assert np.isfinite(spread) == (regime in ("cross-fit", "cross-validated"))
    # Where every row has a leaf of its own, the share cannot be corrected for leaves.
    grown_here = regime in ("shared", "cross-validated")
    allowed = {"adjusted_gain_share"} if grown_here else set()
    assert {o.name for o in found.observables if not np.isfinite(o.value)} <= allowed


def test_cross_fit_norms_are_those_of_the_folds():
    model = KPPRegressor(
        "extra-trees", n_estimators=12, regime="cross-fit", alpha=1.0, cv=KFold(3)
    ).fit(DX, DY)
    found = diagnose(model, DX, DY, sample="fit")
    parts = np.split(model.node_coef_, model.map_.offsets[1:-1])
    norms = [3 * np.linalg.norm(part) for part in parts]
    frame = found.to_frame()
    assert frame.loc["norm", "value"] == pytest.approx(np.mean(norms))
    assert frame.loc["norm", "spread"] == pytest.approx(np.std(norms))


def test_cross_fit_partitions_are_those_of_the_folds():
    # The trees of a fold at rows that they have not grown on, not all trees at all rows.
    model = KPPRegressor(
        "extra-trees", n_estimators=12, regime="cross-fit", alpha=1.0, cv=KFold(3)
    ).fit(DX, DY)
    found = diagnose(model, DX, DY, sample="fit")
    assert found.oracles.is_honest
    assert found["gain"] == pytest.approx(partition_oracles(model, DX, DY, sample="fit").gain)
    rows = model.folds_[0][0]
    assert found.oracles.per_tree.root[0] == pytest.approx(DY[rows].var())


@pytest.mark.filterwarnings("ignore:These rows were called test rows")
def test_fit_takes_the_fit_fold():
    model = KPPRegressor(
        "extra-trees", n_estimators=10, regime="honest", alpha=1.0, random_state=0
    ).fit(DX, DY)
    fold = model.fit_rows_
    ours = diagnose(model, DX, DY, sample="fit")
    theirs = diagnose(model, DX[fold], DY[fold], sample="test")
    assert ours["trace_per_row"] == theirs["trace_per_row"]
    assert ours["rmse"] == theirs["rmse"]


def test_several_forests_and_one_tree():
    model = KPPRegressor(
        [("a", "extra-trees"), ("b", "boosted")], combine="joint", n_estimators=6, alpha=1.0
    )
    found = diagnose(model.fit(DX, DY), DX, DY, sample="train")
    assert found["half_forest_discrepancy"] > 0
    single = KPPRegressor(RandomForestRegressor(1, max_depth=3, random_state=0), alpha=1.0)
    found = diagnose(single.fit(DX, DY), DX, DY, sample="train")
    assert "half_forest_discrepancy" not in {o.name for o in found.observables}
    assert "guarded_smallest_eigenvalue" not in {o.name for o in found.observables}


def test_many_rows_state_their_error(monkeypatch):
    model = KPPRegressor("extra-trees", n_estimators=20, alpha=1.0, random_state=0).fit(DX, DY)
    exact = diagnose(model, DX, DY, sample="train")
    monkeypatch.setattr("kpp.diagnostics.observables.gram_spectrum", _drawn)
    drawn = diagnose(model, DX, DY, sample="train").to_frame()
    line = drawn.loc["effective_dimension_per_row"]
    assert line["error"] > 0
    assert "probes" in line["method"]
    assert abs(line["value"] - exact["effective_dimension_per_row"]) < 3 * line["error"]
    smallest = drawn.loc["smallest_eigenvalue"]
    assert smallest["value"] >= exact["smallest_eigenvalue"] - 1e-12
    assert "upper bound" in smallest["method"]


@pytest.mark.parametrize("n_rows", [2500, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_rows_take_a_fixed_number_of_products(monkeypatch, n_rows):
    """No Gram is formed, and the products with it are as many for a hundred thousand rows."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_rows + 5000, 8))
    y = rows[:, 0] + np.sin(3 * rows[:, 1]) + 0.5 * rng.normal(size=len(rows))
    model = KPPRegressor("extra-trees", alpha=1.0, random_state=0, tol=1e-3).fit(
        rows[:5000], y[:5000]
    )
    products = _counted_products(monkeypatch)
    found = diagnose(model, rows[5000:], y[5000:])
    # The spectrum takes 2 probes of 30 steps, the largest eigenvalue 12, the mean distance 1; the
    # rest is the half-forest discrepancy, two products a step.
    assert 73 < len(products) < 200
    assert set(products) == {n_rows}
    line = found.to_frame().loc["effective_dimension_per_row"]
    assert 0 < line["error"] < 0.2 * line["value"]


def _counted_products(monkeypatch):
    """The number of rows of every product with a Gram from now on; Grams themselves are refused."""
    products = []
    matvec, operator = PathMap.gram_matvec, PathMap.gram_operator

    def counted_matvec(self, r, **options):
        products.append(len(r))
        return matvec(self, r, **options)

    def counted_operator(self):
        product = operator(self)
        return lambda r: products.append(len(r)) or product(r)

    def refused(self, other=None):
        raise AssertionError("a Gram of all rows was formed")

    monkeypatch.setattr(PathMap, "gram_matvec", counted_matvec)
    monkeypatch.setattr(PathMap, "gram_operator", counted_operator)
    monkeypatch.setattr(PathMap, "gram", refused)
    monkeypatch.setattr(PathMap, "distances", refused)
    return products


def _drawn(block, **options):
    from kpp.bounds.spectrum import gram_spectrum

    return gram_spectrum(block, **(options | {"exact_rows": 0}))


# Output.


def test_output(classifier):
    found = diagnose(classifier, X[1::2], Y[1::2])
    text = json.dumps(found.to_dict())
    assert json.loads(text)["n_rows"] == 284
    frame = found.to_frame()
    assert frame.loc["auc", "family"] == "predictive"
    assert (frame["sample"] == "test").all()
    assert "relative_radius" in str(found)
    with pytest.raises(KeyError, match="there are"):
        found["no such"]


def test_refusals(classifier):
    with pytest.raises(TypeError, match="KPPRegressor or KPPClassifier"):
        diagnose(KPPEmbedding(n_estimators=2).fit(X, Y), X, Y)
    with pytest.raises(ValueError, match="sample must be"):
        diagnose(classifier, X, Y, sample="all")
    with pytest.raises(ValueError, match="given to fit"):
        diagnose(classifier, X, Y, sample="fit")


@pytest.mark.parametrize("regime", ["shared", "honest", "cross-fit", "cross-validated"])
@pytest.mark.filterwarnings("ignore:These rows were called test rows:UserWarning")
def test_constant_columns_and_few_rows(regime):
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    common = {"regime": regime, "n_estimators": 6, "alpha": 1.0, "cv": 3, "random_state": 0}
    model = KPPRegressor("extra-trees", **common).fit(np.ones((60, 3)), y)
    found = diagnose(model, np.ones((60, 3)), y, sample="train")
    assert found["trace_per_row"] == 0
    assert json.dumps(found.to_dict())
    model = KPPRegressor("extra-trees", **common).fit(rows, y)
    for n in (1, 2, 5):
        assert diagnose(model, rows[:n], y[:n]).n_rows == n


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_constant_is_the_mean_of_the_training_rows(shape, weighted):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    model = KPPRegressor("extra-trees", n_estimators=3, alpha=1.0, random_state=0).fit(
        X[:50], y[:50]
    )
    weight = 1.0 + np.arange(30) % 3 if weighted else None
    found = constant_metrics(model, y[50:].reshape(shape), weight)
    expected = np.average((y[50:] - y[:50].mean()) ** 2, weights=weight)
    assert found["rmse"] ** 2 == pytest.approx(expected, rel=1e-12)
