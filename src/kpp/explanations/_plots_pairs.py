"""Displays of pairs of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp.explanations import _drawing as draw
from kpp.explanations.interactions import Interactions, explain_interactions


@dataclass(eq=False)
class InteractionDisplay(draw.Display):
    """How much pairs of columns add together, and how much of the score that is.

    Parameters
    ----------
    interactions : Interactions
        From `explain_interactions`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on last.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.explanations import InteractionDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=10, alpha=1.0, random_state=0).fit(X, y)
    >>> display = InteractionDisplay.from_estimator(model, X, top=5)
    >>> len(display.interactions.pairs)
    5
    """

    interactions: Interactions

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, *, top: int = 10, higher: str = "apart", ax: Any = None
    ) -> InteractionDisplay:
        """Take scores apart by pairs and draw them.

        Parameters
        ----------
        model : KPPRegressor, KPPClassifier or Pipeline
            Fitted.
        X : array-like, data frame or RoutedRows of shape (n_rows, n_columns)
            Rows.
        top : int, default=10
            Number of pairs.
        higher : {"apart", "last"}, default="apart"
            As in `explain_interactions`.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : InteractionDisplay
        """
        return cls(explain_interactions(model, X, top=top, higher=higher)).plot(ax)

    def plot(self, ax: Any = None) -> InteractionDisplay:
        """Draw: a bar for each pair, the mean absolute value over the rows.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : InteractionDisplay
        """
        found = self.interactions
        size = found.mean_abs if found.mean_abs.ndim == 1 else found.mean_abs.sum(axis=1)
        ax = self.new_axes(ax, max(1, len(size)))
        ax.barh(range(len(size)), size, color=draw.LOWER, height=0.7)
        for k, value in enumerate(size.tolist()):
            ax.annotate(
                draw.number(value),
                (value, k),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize="small",
            )
        labels = [" × ".join(draw.shorten(name, 28) for name in pair) for pair in found.pairs]
        ax.set_yticks(range(len(labels)), labels)
        ax.set_ylim(max(1, len(labels)) - 0.4, -0.6)
        ax.set_xlim(0, 1.15 * (float(np.max(size, initial=0.0)) or 1.0))
        ax.set_xlabel("mean absolute contribution of the pair")
        parts = [f"{name} {draw.number(own)}" for name, own in found.sizes().items()]
        ax.set_title("in all: " + ", ".join(parts), fontsize="small", loc="left")
        draw.clean(ax)
        return self
