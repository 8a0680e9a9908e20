"""The picture of a drift: which boxes gained and lost rows."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from kpp._axes import axes_or_new
from kpp._colours import DOWN, UP

if TYPE_CHECKING:
    from kpp.diagnostics.drifting import Drift


class DriftDisplay:
    """Shares of rows in the boxes that changed most, before and now.

    Parameters
    ----------
    drift : Drift
        From `kpp.drift`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor, drift
    >>> from kpp.diagnostics import DriftDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0).fit(X, y)
    >>> DriftDisplay(drift(model, X[:50] + 0.02, n_permutations=19)).drift.n_new
    50
    """

    def __init__(self, drift: Drift) -> None:
        self.drift = drift

    def plot(self, ax: Any = None) -> DriftDisplay:
        """Draw an arrow a box, from its share of the reference to that of the new rows.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        self : DriftDisplay
        """
        boxes = self.drift.boxes
        ax = axes_or_new(ax, "DriftDisplay.plot", 8.0, 1.2 + 0.5 * max(1, len(boxes)))
        for place, box in enumerate(boxes):
            color = UP if box.new > box.reference else DOWN
            ax.plot([box.reference, box.new], [place, place], color=color, linewidth=2)
            ax.plot(box.reference, place, "o", color="white", markeredgecolor="0.3", zorder=3)
            ax.plot(box.new, place, "o", color=color, zorder=3)
        ax.set_yticks(range(len(boxes)), [textwrap.fill(box.text, 48) for box in boxes], fontsize=8)
        ax.set_ylim(len(boxes) - 0.5, -0.5)
        ax.set_xlim(left=-0.02 * max((max(b.reference, b.new) for b in boxes), default=1.0))
        ax.set_xlabel("share of rows: reference (hollow), new (filled; orange gained, blue lost)")
        ax.set_title(self.drift.verdict, fontsize=9, loc="left", wrap=True)
        self.ax_, self.figure_ = ax, ax.figure
        return self
