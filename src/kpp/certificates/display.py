"""Robustness curves as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kpp._axes import axes_or_new
from kpp.certificates.curves import CurveBand, RobustnessCurve, robustness_curve
from kpp.models.asking import ask

LABELS = {"accuracy": "certified accuracy", "squared error": "certified mean squared error"}
AXIS_LABELS = {
    "forest": r"radius $u$ in $\delta_T$ (the forest's metric)",
    "tree": r"radius $u$ in $\bar\delta_K$ (the mean over trees)",
    "mixed": r"radius $u$ in the metric of the model's map",
}
METHOD_LABELS = {"leafwise": "leafwise", "lipschitz": "Lipschitz"}


class RobustnessCurveDisplay:
    r"""Plot of certified accuracy, or certified squared error, against the radius.

    Parameters
    ----------
    curves : sequence of RobustnessCurve or CurveBand
        All of one metric. A band is drawn as its mean, plus and minus a standard deviation.
    labels : sequence of str, optional
        One per curve; by default the methods.

    Attributes
    ----------
    ax_, figure_ : matplotlib's axes and figure
        After `plot`.
    lines_ : list of matplotlib lines
        After `plot`, one per curve.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kpp import KPPClassifier
    >>> from kpp.certificates import RobustnessCurveDisplay, robustness_curve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=5, alpha=1e-3, random_state=0).fit(X, y)
    >>> display = RobustnessCurveDisplay([robustness_curve(model, X, y)])
    >>> len(display.curves)
    1
    """

    def __init__(
        self, curves: Sequence[RobustnessCurve | CurveBand], labels: Sequence[str] | None = None
    ) -> None:
        self.curves = list(curves)
        self.labels = labels

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        methods: Sequence[str] = ("leafwise", "lipschitz"),
        ax: Any = None,
    ) -> RobustnessCurveDisplay:
        """Compute the curves of a model and plot them.

        Parameters
        ----------
        model : KPPRegressor, KPPClassifier or Pipeline
            Fitted.
        X : array-like, data frame or RoutedRows of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,)
            Their labels.
        methods : sequence of str
            One curve each, at the radii of the first.
        ax : matplotlib axes, optional
            Where to draw.

        Returns
        -------
        display : RobustnessCurveDisplay
        """
        rows = ask(model).rows(X)
        curves = [robustness_curve(model, rows, y, method=method) for method in methods]
        return cls(curves).plot(ax=ax)

    def plot(self, ax: Any = None) -> RobustnessCurveDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        self : RobustnessCurveDisplay
        """
        metrics = {curve.metric for curve in self.curves}
        if len(metrics) != 1:
            raise ValueError(
                f"One plot shows one metric, of at least one curve; got {sorted(metrics)}."
            )
        metric = metrics.pop()
        ax = axes_or_new(ax, "RobustnessCurveDisplay.plot")
        labels = self.labels or [METHOD_LABELS[curve.method] for curve in self.curves]
        end = max(float(curve.radii.max()) for curve in self.curves)
        self.lines_ = []
        for number, (curve, label) in enumerate(zip(self.curves, labels, strict=True)):
            self.lines_.append(_draw(ax, curve, label, end, f"C{number}", metric))
        kinds = {curve.normalize for curve in self.curves}
        if len(kinds) != 1:
            raise ValueError(
                f"One plot has radii of one normalisation; got {sorted(kinds)}: these distances "
                "are not comparable."
            )
        ax.set_xlabel(AXIS_LABELS[kinds.pop()])
        ax.set_ylabel(LABELS[metric])
        ax.set_xlim(0, end)
        if metric == "accuracy":
            ax.set_ylim(0, 1.02)
        else:
            ax.set_ylim(bottom=0)
        ax.grid(alpha=0.25, linewidth=0.6)
        ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _draw(
    ax: Any, curve: RobustnessCurve | CurveBand, label: str, end: float, color: str, metric: str
) -> Any:
    if isinstance(curve, CurveBand):
        mean, std = curve.mean, curve.std
        ax.fill_between(
            curve.radii, np.maximum(mean - std, 0), mean + std, color=color, alpha=0.2, linewidth=0
        )
        (line,) = ax.plot(curve.radii, mean, color=color, label=label)
        return line
    radii = curve.radii
    if radii[-1] < end:
        radii = np.union1d(radii, np.linspace(radii[-1], end, 50))
    style = "steps-post" if metric == "accuracy" else "default"
    (line,) = ax.plot(radii, curve(radii), color=color, drawstyle=style, label=label)
    if np.isfinite(curve.u_half) and curve.u_half <= end:
        ax.plot(curve.u_half, curve(curve.u_half), "o", color=color, markersize=4)
    return line
