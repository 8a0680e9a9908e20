"""What the plots share: axes, colours, numbers as text."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kpp._axes import axes_or_new
from kpp._checks import is_missing
from kpp._colours import DOWN, UP
from kpp._numbers import MINUS, significant
from kpp._typing import AnyArray, FloatArray
from kpp.explanations._rule import shorten_rule

LOWER, HIGHER, NEUTRAL = DOWN, UP, "#666666"
COLOUR_MAP = "viridis"
ROW_HEIGHT = 0.36


def axes(ax: Any, caller: str, height: float, width: float = 7.0) -> tuple[Any, Any]:
    """Return the axes to draw on and their figure; a new one of the given size for None."""
    drawn = axes_or_new(ax, caller, width, height)
    if ax is None:
        drawn.figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    return drawn, drawn.figure


@dataclass(eq=False)
class Display:
    """What a display was drawn on last."""

    ax_: Any = field(init=False, repr=False, default=None)
    figure_: Any = field(init=False, repr=False, default=None)

    def new_axes(self, ax: Any, n_rows: float, width: float = 7.0) -> Any:
        """Return the axes to draw on, with room for so many rows, and remember them."""
        height = 1.1 + ROW_HEIGHT * n_rows
        self.ax_, self.figure_ = axes(ax, type(self).__name__, height, width)
        return self.ax_


def check_level(level: Any) -> None:
    """Refuse nodes, of which there are too many to draw, and blocks, which have no values."""
    if level in ("node", "block"):
        raise ValueError(
            "Displays are of variables: use level='variable' or level='shapley'. Single nodes are "
            "drawn as rules, by RuleDisplay."
        )


def clean(ax: Any, *, left: bool = False) -> None:
    """Leave only the lines that carry information."""
    for side in ("top", "right") if left else ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    if not left:
        ax.tick_params(axis="y", length=0)
    ax.set_axisbelow(True)


def label_rows(ax: Any, labels: list[str]) -> None:
    """Put one label beside each row, the first on top."""
    ax.set_yticks(
        range(len(labels)), [label if "\n" in label else shorten(label) for label in labels]
    )
    ax.set_ylim(len(labels) - 0.4, -0.6)


def shorten(text: str, most: int = 60) -> str:
    """Cut a long label in its middle; dollar signs are no mathematics."""
    if len(text) > most:
        text = f"{text[: most // 2 - 2]} ... {text[-most // 2 + 3 :]}"
    return text.replace("$", r"\$")


def wrap(text: str) -> str:
    """Break a long rule into lines; a longer one loses conditions from its middle."""
    text = shorten(shorten_rule(text, 170), 240)
    return textwrap.fill(text, 62)


def others(n_others: int) -> str:
    """What the last line of a list is called."""
    return "1 other" if n_others == 1 else f"{n_others} others"


def number(value: float, signed: bool = False) -> str:
    """Three significant digits, a proper minus sign, no exponent at usual sizes."""
    text = significant(value, 3, signed=signed)
    if "e" in text and 1e-4 < abs(value) < 1e7:
        text = (f"{value:+.0f}" if signed else f"{value:.0f}").replace("-", MINUS)
    return text


def shown_value(value: Any) -> str | None:
    """A value of X beside the name of its column; None where it is missing."""
    if is_missing(value):
        return None
    if isinstance(value, float | int | np.number) and not isinstance(value, bool | np.bool_):
        return number(float(value))
    return str(value)


def largest(size: FloatArray, most: int) -> tuple[AnyArray, AnyArray]:
    """Positions of the largest numbers, and of the others, in falling order.

    Room for `most` lines: where not all fit, one line is kept for the others.
    """
    order = np.argsort(-np.abs(size), kind="stable")
    n_shown = len(order) if len(order) <= most else max(0, most - 1)
    return order[:n_shown], order[n_shown:]


def spread_out(values: FloatArray, n_bins: int = 60) -> FloatArray:
    """Offsets in [-1, 1] that keep points of nearly equal value from covering each other.

    Points of one bin are stacked around the middle line, in order; the fullest bin has the
    whole height.
    """
    offset = np.zeros(len(values))
    low, high = values.min(initial=np.inf), values.max(initial=-np.inf)
    if len(values) < 2 or not high > low:
        return offset
    bins = np.minimum(((values - low) / (high - low) * n_bins).astype(int), n_bins - 1)
    for b in np.unique(bins):
        inside = np.flatnonzero(bins == b)
        rank = np.arange(len(inside))
        # 0, 1, -1, 2, -2, ...: from the middle line outwards.
        offset[inside] = np.where(rank % 2, 1, -1) * ((rank + 1) // 2)
    top = np.abs(offset).max()
    # A few points per bin stay close to the line instead of filling the whole height.
    return offset / max(top, 5.0)
