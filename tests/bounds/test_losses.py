"""Uniform bounds of Huber's and the pinball loss: their terms, and that they hold."""

import numpy as np
import pytest

import kpp
from kpp import KPPRegressor
from kpp._checks import RefusedError
from kpp.bounds import risk_bounds
from kpp.bounds.lipschitz_losses import lipschitz_loss_terms
from kpp.solvers import HuberLoss, PinballLoss


def draw(rng, n_rows):
    X = rng.uniform(-1, 1, size=(n_rows, 2))
    return X, np.clip(X[:, 0] + 0.5 * rng.standard_t(2, size=n_rows), -2, 2)


@pytest.mark.parametrize(
    ("loss", "slope", "most"),
    [
        # B = 0.5, M = 1.5: errors up to 2.
        (PinballLoss([0.9]), 0.9, 1.8),
        (PinballLoss([0.3]), 0.7, 1.4),
        (HuberLoss(0.5), 0.5, 0.5 * 2 - 0.125),
        (HuberLoss(10.0), 2.0, 2.0),  # no error reaches the threshold: half the squared loss
    ],
)
def test_terms_by_hand(loss, slope, most):
    complexity, confidence = lipschitz_loss_terms(loss.clips[0], 0.5, 1.5, 36.0, 100, 0.1)
    assert complexity == pytest.approx(2 * slope * 0.5 * 6 / 100, rel=1e-12)
    assert confidence == pytest.approx(3 * most * np.sqrt(np.log(20) / 200), rel=1e-12)


@pytest.mark.parametrize("parameters", [{"loss": "huber", "huber_delta": 0.3}, {"quantile": 0.8}])
def test_a_guarantee_on_the_fit_fold_holds(parameters):
    rng = np.random.default_rng(0)
    parameters = {"loss": "quantile"} | parameters
    X, y = draw(rng, 1000)
    model = KPPRegressor(
        "extra-trees",
        n_estimators=10,
        regime="honest",
        alpha=0.05,
        fit_intercept=False,
        max_norm=2.0,
        random_state=0,
        **parameters,
    ).fit(X, y)
    report = risk_bounds(model, X, y, radius=2.0, y_range=(-2, 2))
    (bound,) = [own for own in report if own.name.startswith("uniform")]
    assert bound.is_guarantee
    X_new, y_new = draw(rng, 20_000)
    clip = model.loss_.clips[0]
    risk = clip.values(y_new - model.predict(X_new)).mean()
    assert risk <= bound.total
    own = model.fit_rows_
    assert bound.empirical_risk == pytest.approx(
        clip.values(y[own] - model.predict(X[own])).mean(), rel=1e-9
    )
    # Half of the error's worth of the squared loss: its own constants are smaller.
    trace = model.map_.row_norms(squared=True).sum()
    terms = lipschitz_loss_terms(clip, 2.0, 2.0, trace, len(own))
    assert (bound.complexity, bound.confidence) == pytest.approx(terms, rel=1e-9)
    held_out = risk_bounds(model, X_new, y_new, sample="test", y_range=(-2, 2))["held-out bound"]
    assert held_out.is_guarantee
    assert risk - 0.01 < held_out.empirical_risk <= held_out.total < bound.total
    no_range = risk_bounds(model, X, y, radius=2.0)
    assert not any(own.is_guarantee for own in no_range if own.name.startswith("uniform"))


def test_a_threshold_that_was_read_is_fixed_before_some_samples():
    rng = np.random.default_rng(1)
    X, y = draw(rng, 300)
    X_new, y_new = draw(rng, 300)
    options = {"n_estimators": 5, "alpha": 1.0, "loss": "huber", "random_state": 0}

    def holds(regime, *sample):
        model = KPPRegressor("extra-trees", regime=regime, **options).fit(X, y)
        (bound,) = [b for b in risk_bounds(model, *sample) if "Huber" in b.name]
        (own,) = [a for a in bound.assumptions if a.name == "loss fixed before the sample"]
        return own.holds

    assert holds("shared", X, y) is False
    assert holds("honest", X, y) is True
    options["huber_delta"] = 1.0
    assert holds("shared", X, y) is None
    del options["huber_delta"]
    model = KPPRegressor("extra-trees", **options).fit(X, y)
    bound = risk_bounds(model, X_new, y_new, sample="test")["uniform Huber"]
    (own,) = [a for a in bound.assumptions if a.name == "loss fixed before the sample"]
    assert own.holds is True


def test_every_fold_of_a_cross_fit_model_has_its_own():
    rng = np.random.default_rng(2)
    X, y = draw(rng, 300)
    model = KPPRegressor(
        "extra-trees", n_estimators=10, alpha=1.0, loss="quantile", regime="cross-fit", cv=3
    ).fit(X, y)
    names = risk_bounds(model, X, y).names
    assert [name for name in names if "pinball" in name] == [
        f"uniform pinball, fold {q}" for q in range(3)
    ]


def test_poisson_has_none_and_says_why():
    rng = np.random.default_rng(3)
    X, y = draw(rng, 100)
    model = KPPRegressor("extra-trees", n_estimators=3, alpha=1.0, loss="poisson", random_state=0)
    counts = np.floor(np.abs(y))
    model.fit(X, counts)
    for call in (kpp.risk_bounds, kpp.bounds.informed_bounds):
        with pytest.raises(RefusedError, match="exponential of the score"):
            call(model, X, counts)
