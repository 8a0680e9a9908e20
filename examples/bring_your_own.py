"""Bring the ensemble that you have: its leaves, its score, and what a linear layer adds.

Run ``python examples/bring_your_own.py``. LightGBM, XGBoost and CatBoost models are read alike.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split

from kpp import Forest, KPPRegressor, explain, path_distance

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
theirs = GradientBoostingRegressor(n_estimators=60, max_depth=3, random_state=0)
theirs.fit(X_train, y_train)
error = root_mean_squared_error(y_test, theirs.predict(X_test))

# 1. Read it. Nothing is approximated: the same leaves, and the same predictions.
forest = Forest.from_model(theirs)
gap = np.abs(forest.bare_scores(X_test).ravel() - theirs.predict(X_test)).max()
print(f"{forest.n_trees} trees, {forest.n_nodes} nodes; predictions differ by {gap:.0e} at most.")

# 2. Keep it as it is, and fit a linear layer on its nodes, on rows that it has not seen.
X_layer, X_new, y_layer, y_new = train_test_split(X_test, y_test, random_state=0)
frozen = KPPRegressor(FrozenEstimator(theirs), regime="fixed", random_state=0)
frozen.fit(X_layer, y_layer)
layer = root_mean_squared_error(y_new, frozen.predict(X_new))
alone = root_mean_squared_error(y_new, theirs.predict(X_new))
print(f"As it is, with a layer of {len(y_layer)} rows: error {layer:.1f}; without {alone:.1f}.")

# 3. Or let it be grown again, once for each of five folds, and fit all of its trees jointly.
grown = KPPRegressor(theirs, random_state=0).fit(X_train, y_train)
again = root_mean_squared_error(y_test, grown.predict(X_test))
print(f"Grown again and fitted jointly: error {again:.1f}; the booster alone {error:.1f}.")

# Either answers what the booster cannot. Why this prediction?
found = explain(grown, X_test.iloc[[0]], centered=True)
for j in np.argsort(-np.abs(found.values[0]))[:3]:
    name = found.feature_names[j]
    print(f"{found.values[0, j]:+8.1f}  {name} = {X_test[name].iloc[0]:g}")

# Which patient of the fit is most like this one, in the eyes of its trees?
near = path_distance(grown, X_test.iloc[[0]], X_train)[0]
print(f"The nearest row of the fit had the target {y_train.iloc[near.argmin()]:.0f}, ", end="")
print(f"this one {y_test.iloc[0]:.0f}.")
