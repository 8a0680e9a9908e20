"""Differences with their intervals as a small chart: a name, a dot and a line for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from kpp.reports.svg import Scale, escape, markup, padded, text_width, tick_texts

WIDTH, SIDE = 420, 10
TOP, LINE, BOTTOM = 6, 34, 46
# Of a line so much is for the name.
NAMED = 20


class Dot(NamedTuple):
    """A difference: what it is of, its interval, and the class of its colour."""

    name: str
    middle: float
    low: float | None
    high: float | None
    kind: str = "first"


def _beside_names(x: float, n_lines: int) -> str:
    """A vertical line through the dots, with gaps where the names are."""
    tops = (TOP + LINE * k for k in range(n_lines))
    return "".join(f"M{x:.1f} {top + NAMED}V{top + LINE}" for top in tops)


def dot_plot(dots: Sequence[Dot], x_label: str, label: str) -> Any:
    """Draw differences below each other around a line at 0, names above their lines.

    Parameters
    ----------
    dots : sequence of Dot
        From top to bottom. An interval without ends is not drawn.
    x_label : str
        What the differences are.
    label : str
        The chart in one sentence, for those who do not see it.

    Returns
    -------
    chart : Markup
    """
    ends = [end for dot in dots for end in (dot.low, dot.middle, dot.high) if end is not None]
    scale = Scale(*padded([0.0, *ends]), SIDE, WIDTH - SIDE)
    bottom = TOP + LINE * len(dots)
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {bottom + BOTTOM}" role="img" '
        f'aria-label="{escape(label)}">'
    ]
    for most in (5, 4, 3, 2, 1):
        ticks = scale.ticks(most)
        texts = tick_texts(ticks)
        if sum(map(text_width, texts)) < 0.8 * WIDTH:
            break
    for tick, text in zip(ticks, texts, strict=True):
        place, half = scale(tick), text_width(text) / 2 + 4  # a minus is wider than a digit
        middle = min(max(place, half), WIDTH - half)
        parts.append(f'<path class="grid" d="{_beside_names(place, len(dots))}V{bottom + 4}"/>')
        parts.append(
            f'<text class="tick" x="{middle:.1f}" y="{bottom + 18}" text-anchor="middle">'
            f"{text}</text>"
        )
    zero = _beside_names(scale(0.0), len(dots))
    parts.append(f'<path class="line reference" d="{zero}"/>')
    parts.append(f'<path class="axis" d="M{SIDE} {bottom}H{WIDTH - SIDE}"/>')
    parts.append(
        f'<text class="name" x="{WIDTH / 2}" y="{bottom + 38}" text-anchor="middle">'
        f"{escape(x_label)}</text>"
    )
    for k, dot in enumerate(dots):
        y = TOP + LINE * k + 24
        parts.append(f'<text class="name over" x="{SIDE}" y="{y - 10}">{escape(dot.name)}</text>')
        if dot.low is not None and dot.high is not None:
            path = f"M{scale(dot.low):.1f} {y}H{scale(dot.high):.1f}"
            parts.append(f'<path class="whisker {dot.kind}" d="{path}"/>')
        if math.isfinite(dot.middle):
            parts.append(
                f'<circle class="dot {dot.kind}" cx="{scale(dot.middle):.1f}" cy="{y}" r="4"/>'
            )
    return markup("".join([*parts, "</svg>"]))
