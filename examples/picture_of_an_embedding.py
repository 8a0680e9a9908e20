"""Draw the digits in the leading components of their embedding, and how it settles with trees.

Needs the extra ``plot``. Run ``python examples/picture_of_an_embedding.py picture.png``.
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from scipy.sparse.linalg import svds
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kpp import KPPEmbedding, half_forest_discrepancy

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
model = KPPEmbedding(n_estimators=256, n_jobs=-1, random_state=0).fit(X_train, y_train)

# Principal components of rows that the forest has not seen, from products alone.
centred = model.map_.on(X_test).centered()
left, singular, _ = svds(centred, k=2, random_state=0)
component_2, component_1 = (left * singular).T
curve = half_forest_discrepancy(model, X_test, curve=True)

figure, (map_axis, curve_axis) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
points = map_axis.scatter(
    component_1, component_2, c=y_test, cmap="tab10", s=7, vmin=-0.5, vmax=9.5
)
bar = figure.colorbar(points, ax=map_axis, ticks=range(10))
bar.set_label("digit")
map_axis.set(
    title=f"{len(y_test)} held-out digits in the embedding",
    xlabel="first component",
    ylabel="second component",
)
curve_axis.loglog(curve.n_trees, curve.values, "o-", color="#1f5fa8")
curve_axis.set(
    title="Would another forest of this size differ?",
    xlabel="number of trees K",
    ylabel=r"half-forest discrepancy $\Delta_K$",
)
curve_axis.grid(alpha=0.3, which="both")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "embedding.png", dpi=110)
