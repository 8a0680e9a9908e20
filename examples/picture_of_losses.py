"""The picture of docs/losses.md: quantiles where the noise differs, and outliers.

Run ``python examples/picture_of_losses.py losses.png``; needs the extra `plot`.
"""

import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from kpp import KPPRegressor

rng = np.random.default_rng(0)
n = 600
x = rng.uniform(0, 3, n)
truth = np.sin(2 * x)
y = truth + (0.05 + 0.25 * x) * rng.normal(size=n)
at = np.linspace(0.02, 2.98, 300)[:, None]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), sharex=True)
model = KPPRegressor(loss="quantile", quantile=[0.05, 0.5, 0.95], random_state=0)
model.fit(x[:, None], y)
ends = model.predict_interval(at, coverage=0.9)
squared = KPPRegressor(random_state=0).fit(x[:, None], y)
others = squared.predict_interval(at, coverage=0.9, width="constant")
left.plot(x, y, ".", color="0.75", markersize=3)
left.fill_between(
    at[:, 0], ends.lower, ends.upper, color="tab:blue", alpha=0.25, label="conformal quantiles"
)
left.plot(at, model.predict(at)[:, 1], color="tab:blue", label="quantile 0.5")
left.plot(at, others.lower, "--", color="tab:orange", label="CV+ of the squared loss, constant")
left.plot(at, others.upper, "--", color="tab:orange")
left.set_title("intervals for 0.9")
left.legend(loc="lower left", fontsize=8, frameon=False)

wrong = rng.random(n) < 0.05
spoiled = truth + 0.2 * rng.normal(size=n) + 8 * wrong
right.plot(x[~wrong], spoiled[~wrong], ".", color="0.75", markersize=3)
for loss, color in (("squared", "tab:orange"), ("huber", "tab:blue")):
    fitted = KPPRegressor(loss=loss, random_state=0).fit(x[:, None], spoiled)
    right.plot(at, fitted.predict(at), color=color, label=loss)
right.plot(at, np.sin(2 * at), ":", color="black", label="truth")
right.set_ylim(-2, 2.5)
right.set_title("one target in 20 is 8 too high (not shown)")
right.legend(loc="lower left", fontsize=8, frameon=False)
for axes in (left, right):
    axes.set_xlabel("x")
    axes.spines[["top", "right"]].set_visible(False)
figure.tight_layout()
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "losses.png", dpi=110)
