"""What may be signed: a bound, an interval and certificates, each with what it rests on.

Run ``python examples/validate_and_sign.py``. The decisions come first: how the rows are split,
which bound will count and at which delta. Chosen afterwards, no number is a guarantee.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import KFold

from kpp import KPPClassifier, certify, certify_raw, risk_bounds

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
BOUND, DELTA = "cross-validated vote", 0.05

# Every row is used, and every part of the model has left out a fold, which bounds its error.
folds = KFold(3, shuffle=True, random_state=0)
model = KPPClassifier("extra-trees", regime="cross-validated", cv=folds, random_state=0).fit(X, y)

bound = risk_bounds(model, X, y, delta=DELTA)[BOUND]
print(f"1. {'I sign' if bound.is_guarantee and not bound.is_trivial else 'I do not sign'}:")
print(f"   the vote of its parts is wrong on at most {bound.total:.1%} of new rows,")
print(f"   with probability {1 - DELTA:g} over the rows, if these conditions hold:")
for condition in bound.assumptions:
    print(f"   - {condition}")

# A bound is no promise for one row. Sets of classes speak of rows, on average over them.
sets = model.predict_set(X, coverage=0.95)
print(f"\n2. Sets of classes for a coverage of 0.95: {sets.status}.")
for condition in sets.failing:
    print(f"   - {condition}")

# Certificates need no assumption on the data: they speak of the fitted function alone.
certificate = certify(model, X)
print(f"\n3. I sign: no row within {np.median(certificate.radius):.3f} of a row, in the metric of")
print("   the forest, has another class; for half of these rows (each has a radius of its own).")
raw = certify_raw(model, X[:20], scale="std")
print("   In raw values, by the median of 20 rows: every column may move by at most")
print(f"   {np.median(raw.radius):.2f} of its standard deviation, and the class stays.")

# The default model is more accurate, and the same sentence may not be said of it.
shared = KPPClassifier("extra-trees", random_state=0).fit(X, y)
of_fit = risk_bounds(shared, X, y)
n_signed = sum(b.is_guarantee for b in of_fit)
print(f"\n4. In the regime 'shared' {n_signed} of {len(of_fit)} bounds on the rows of the fit are")
print(f"   guarantees: {of_fit[0].failing[0].why}.")
