"""Fit a table, ask the four questions, and write the report: one HTML file that works offline.

Needs the extra ``report``. Run ``python examples/fit_and_report.py report.html``.
"""

from __future__ import annotations

import sys

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from kpp import KPPClassifier, certify, explain, report, risk_bounds

data = load_breast_cancer(as_frame=True)
labels = data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(data.data, labels, random_state=0)

# What is predicted? By default a blend is fitted; one forest is the small and fast model.
model = KPPClassifier("extra-trees", random_state=0).fit(X_train, y_train)
print(f"Right on {model.score(X_test, y_test):.1%} of {len(y_test)} rows that fit has not seen.")

# Why? Baseline and contributions add up to the score, to the last digit.
row = X_test.iloc[[0]]
found = explain(model, row, centered=True)
print(f"\nThe first of them is called {model.predict(row)[0]}. Log-odds of {model.classes_[1]}:")
print(f"{found.baseline:8.2f}  on average")
largest = np.argsort(-np.abs(found.values[0]))[:4]
for j in largest:
    name = found.feature_names[j]
    print(f"{found.values[0, j]:+8.2f}  {name} = {row[name].iloc[0]:g}")
print(f"{np.delete(found.values[0], largest).sum():+8.2f}  all other columns")
print(f"{found.scores[0]:8.2f}  in sum")

# How far may a row move? In the forest's own metric, in which two rows are 2 apart at most.
radius = certify(model, X_test).radius
print(f"\nHalf of the rows keep their class within {np.median(radius):.3f} of where they are.")

# What is guaranteed? On rows that the fit has not seen, with probability 0.95.
bound = risk_bounds(model, X_test, y_test, sample="test")["held-out bound"]
print(f"Of new rows like these at most {bound.total:.1%} get a wrong class, with probability 0.95.")

name = sys.argv[1] if len(sys.argv) > 1 else "report.html"
path = report(model, X_test, y_test, name, max_rows=10)
print(f"\nAll of this, and more, to look at: {path}")
