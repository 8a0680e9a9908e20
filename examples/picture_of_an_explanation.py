"""Draw what moved one prediction, and what moves all of them.

Needs the extra ``plot``. Run ``python examples/picture_of_an_explanation.py picture.png``.
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from kpp import KPPRegressor
from kpp.explanations import BeeswarmDisplay, WaterfallDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
model = KPPRegressor(random_state=0).fit(X_train, y_train)

figure, (one, many) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
WaterfallDisplay.from_estimator(model, X_test.iloc[0], ax=one)
one.set_title("One patient", loc="left", pad=20)
BeeswarmDisplay.from_estimator(model, X_test, ax=many)
many.set_title(f"{len(X_test)} held-out patients", loc="left", pad=20)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "explanation.png", dpi=120)
