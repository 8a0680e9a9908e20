"""Displays of differences with their intervals, one line a model or a segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kpp._axes import axes_or_new
from kpp._colours import DOWN, UP
from kpp.diagnostics.comparison import Comparison, compare
from kpp.diagnostics.segments import WORSE, Segments, segments

NEITHER = "0.45"
MOST_SHOWN = 15


class ComparisonDisplay:
    """How much more rivals lose than a model, with 95% intervals.

    Parameters
    ----------
    comparison : Comparison
        From `kpp.compare`.

    Examples
    --------
    >>> from kpp.diagnostics import Compared, Comparison, ComparisonDisplay
    >>> models = [
    ...     Compared("mine", 1.0, {"rmse": 1.0}, 0.5, 0.0, 0.0, 0.0),
    ...     Compared("constant", 3.0, {"rmse": 1.7}, 0.1, 2.0, 1.5, 2.5),
    ... ]
    >>> ComparisonDisplay(Comparison(models, "squared error", 80, 20)).names
    ['constant']
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.names = [one.name for one in comparison.models[1:]]

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, *, ax: Any = None, **options: Any
    ) -> ComparisonDisplay:
        """Compare a model with its rivals, and plot the differences.

        Parameters
        ----------
        model, X, y
            As in `kpp.compare`.
        ax : matplotlib axes, optional
            Where to draw.
        **options
            For `kpp.compare`.

        Returns
        -------
        display : ComparisonDisplay
        """
        return cls(compare(model, X, y, **options)).plot(ax=ax)

    def plot(self, ax: Any = None) -> ComparisonDisplay:
        """Draw one line a rival.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        self : ComparisonDisplay
        """
        rivals = self.comparison.models[1:]
        colours = {"worse": UP, "better": DOWN}
        self.ax_ = _dots(
            self.names,
            [(one.difference, one.low, one.high) for one in rivals],
            [colours.get(one.verdict, NEITHER) for one in rivals],
            ax,
            "ComparisonDisplay.plot",
        )
        self.figure_ = self.ax_.figure
        first = self.comparison.models[0].name
        self.ax_.set_xlabel(f"{self.comparison.loss} less that of {first}: above 0 it is worse")
        return self


class SegmentsDisplay:
    """How much more a model loses in segments than on the other rows, with 95% intervals.

    Parameters
    ----------
    segments : Segments
        From `kpp.segments`.
    most : int, default=15
        Most segments to draw, the worst first.

    Examples
    --------
    >>> from kpp.diagnostics import Segments, SegmentsDisplay
    >>> SegmentsDisplay(Segments([], "log loss", 0.3, 100, 0)).names
    []
    """

    def __init__(self, segments: Segments, most: int = MOST_SHOWN) -> None:
        self.segments = segments
        self.shown = segments.segments[:most]
        self.names = [f"{one.name} ({one.n_rows:,})" for one in self.shown]

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, *, ax: Any = None, **options: Any
    ) -> SegmentsDisplay:
        """Score a model by segments, and plot the differences.

        Parameters
        ----------
        model, X, y
            As in `kpp.segments`.
        ax : matplotlib axes, optional
            Where to draw.
        **options
            For `kpp.segments`.

        Returns
        -------
        display : SegmentsDisplay
        """
        return cls(segments(model, X, y, **options)).plot(ax=ax)

    def plot(self, ax: Any = None) -> SegmentsDisplay:
        """Draw one line a segment.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        self : SegmentsDisplay
        """
        self.ax_ = _dots(
            self.names,
            [(one.difference, one.difference_low, one.difference_high) for one in self.shown],
            [UP if one.verdict == WORSE else NEITHER for one in self.shown],
            ax,
            "SegmentsDisplay.plot",
        )
        self.figure_ = self.ax_.figure
        self.ax_.set_xlabel(f"{self.segments.loss} less that of the other rows")
        return self


def _dots(
    names: Sequence[str],
    differences: Sequence[tuple[float, float, float]],
    colours: Sequence[str],
    ax: Any,
    caller: str,
) -> Any:
    """A dot and its interval for every name, the first on top, around a line at 0."""
    ax = axes_or_new(ax, caller, height=1.1 + 0.32 * max(len(names), 2))
    ax.axvline(0, color="0.3", linewidth=0.8)
    for place, ((middle, low, high), colour) in enumerate(zip(differences, colours, strict=True)):
        if np.isfinite(low) and np.isfinite(high):
            ax.plot([low, high], [place, place], color=colour, linewidth=1.6)
        ax.plot([middle], [place], "o", color=colour, markersize=5)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
