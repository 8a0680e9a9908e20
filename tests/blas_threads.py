"""Numbers that must not depend on how many threads BLAS has: their hashes, as JSON.

Run by `test_blas_threads.py` in processes of their own: the environment sets the number of threads
before NumPy is loaded.
"""

import hashlib
import json
import sys

import numpy as np
from sklearn.datasets import load_diabetes, make_classification, make_regression

from kpp import (
    KPPClassifier,
    KPPEmbedding,
    KPPRegressor,
    audit,
    certify,
    certify_raw,
    diagnose,
    explain,
    half_forest_discrepancy,
    partition_oracles,
    risk_bounds,
    robustness_curve,
)
from kpp.bounds import bias_variance, effective_dimension, gram_spectrum
from kpp.explanations import leave_one_out

# Dot products are cut into parts above 10,000 numbers, matrix products and eigenvalues far below.
N_LARGE = 12_500


def digest(*values):
    """The bits of numbers, whatever holds them."""
    total = hashlib.sha256()
    for value in values:
        total.update(np.ascontiguousarray(np.asarray(value, dtype=np.float64)).tobytes())
    return total.hexdigest()[:16]


def of_fit(model):
    oof = [] if model.oof_prediction_ is None else model.oof_prediction_
    return digest(model.node_coef_, model.intercept_, model.alpha_, model.fits_[0].dual, oof)


def of_report(report):
    return digest([b.total for b in report])


def small():
    """Grams that are written out: eigenvalues, solutions and products of small matrices."""
    X, y = load_diabetes(return_X_y=True)
    X, y, label = X[:250], y[:250], (y[:250] > 140).astype(int)
    options = {"n_estimators": 10, "random_state": 0}
    ridge = KPPRegressor("extra-trees", **options).fit(X, y)
    given = KPPRegressor("extra-trees", alpha=0.3, **options).fit(X, y)
    logistic = KPPClassifier("extra-trees", **options).fit(X, label)
    honest = KPPClassifier("extra-trees", regime="honest", alpha=1e-3, **options).fit(X, label)
    yield "dense ridge", of_fit(ridge)
    yield "dense ridge, given alpha", of_fit(given)
    yield "dense logistic", of_fit(logistic)
    yield "explain", digest(explain(ridge, X).values, explain(ridge, X, centered=True).values)
    yield "certify", digest(certify(logistic, X).radius, certify(given, X, epsilon=9.0).radius)
    yield "certify raw", digest(certify_raw(logistic, X[:10], scale="std").radius)
    yield "curve", digest(robustness_curve(ridge, X, y).values)
    yield "risk bounds", of_report(risk_bounds(honest, X, label))
    yield "bias and variance", digest(bias_variance(given, X, noise_variance=9.0, signal=y).total)
    yield "leave one out", digest(leave_one_out(given, y).residuals)
    yield "audit", digest([c.violation for c in audit(given, X, y).checks])


def middle():
    """Diagnoses of a few hundred to a few thousand rows."""
    X, y = make_regression(1500, 8, noise=20.0, random_state=0)
    model = KPPRegressor("extra-trees", n_estimators=10, alpha=0.3, random_state=0).fit(X, y)
    found = diagnose(model, X[:900], y[:900], sample="test")
    yield "diagnose", digest([o.value for o in found.observables], list(found.metrics.values()))
    yield "effective dimension", digest(float(effective_dimension(model, X)))
    phi = model.map_.on(X)
    drawn = gram_spectrum(phi, exact_rows=0)
    yield "drawn spectrum", digest(float(drawn.effective_dimension(0.1)), drawn.largest.value)
    yield "centred map", digest(phi.centered().gram_matvec(y), phi.centered().matvec(phi.T @ y))
    embedding = KPPEmbedding(n_estimators=10, random_state=0).fit(X, y)
    yield "half-forest discrepancy", digest(half_forest_discrepancy(embedding, X))


def large():
    """Krylov spaces, Newton steps and bounds of vectors that are cut into parts."""
    X, y = make_regression(N_LARGE, 5, noise=50.0, random_state=0)
    C, label = make_classification(N_LARGE, 8, n_informative=5, flip_y=0.2, random_state=0)
    options = {"n_estimators": 4, "random_state": 0}
    ridge = KPPRegressor("extra-trees", alpha=1.0, **options).fit(X, y)
    logistic = KPPClassifier("extra-trees", alpha=1e-3, **options).fit(C, label)
    honest = KPPClassifier("extra-trees", alpha=1e-3, regime="honest", **options).fit(C, label)
    boosted = KPPRegressor("boosted", alpha=1.0, **options).fit(X, y)
    yield "iterative ridge", of_fit(ridge)
    yield "iterative logistic", of_fit(logistic)
    yield "boosted", of_fit(boosted)
    yield "large bounds", of_report(risk_bounds(honest, C, label))
    yield "large oracles", digest(partition_oracles(ridge, X, y).gain)
    yield "large certify", digest(certify(ridge, X, epsilon=5.0).radius)
    yield (
        "large diagnose",
        digest([o.value for o in diagnose(ridge, X, y, sample="fit").observables]),
    )


PARTS = {"small": small, "middle": middle, "large": large}

if __name__ == "__main__":
    json.dump(dict(PARTS[sys.argv[1]]()), sys.stdout)
