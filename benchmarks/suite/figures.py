"""Critical-difference diagrams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# Vermillion of Okabe and Ito marks our own entries; everything else is grey or black.
OURS, THEIRS = "#D55E00", "#222222"


def cliques(mean_ranks: Any, difference: float) -> list[tuple[int, int]]:
    """Largest runs of methods, sorted by rank, whose gap is not above the critical difference.

    Returns
    -------
    runs : list of (first, last)
        Positions in the sorted order; runs of one method, and runs inside others, are left out.
    """
    ranks = np.sort(np.asarray(mean_ranks, dtype=np.float64))
    runs: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.searchsorted(ranks, ranks[first] + difference, side="right")) - 1
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs


def draw_critical_difference(
    mean_ranks: dict[str, float],
    difference: float,
    title: str,
    path: Path,
    ours: tuple[str, ...] = (),
) -> Path:
    """Draw methods at their mean ranks, those within the critical difference joined by a bar."""
    names = sorted(mean_ranks, key=lambda name: (mean_ranks[name], name))
    ranks = np.array([mean_ranks[name] for name in names])
    runs = cliques(ranks, difference)
    low, high = int(np.floor(ranks.min())), int(np.ceil(ranks.max()))
    low, high = max(1, low), max(high, low + 1)
    n_left = (len(names) + 1) // 2
    bars, step = 0.26 * len(runs), 0.42
    height = 1.3 + bars + step * max(n_left, 1)
    figure, ax = plt.subplots(figsize=(8.6, 0.62 * height + 0.5), layout="constrained")
    margin = 0.42 * (high - low)
    ax.set_xlim(low - margin, high + margin)
    ax.set_ylim(-(bars + step * n_left + 0.45), 1.0)
    ax.axis("off")
    ax.set_title(title, fontsize=11, pad=4)
    _draw_axis(ax, low, high, difference)
    for k, (first, last) in enumerate(runs):
        y = -0.22 - 0.26 * k
        reach = 0.006 * (high - low)
        ends = (ranks[first] - reach, ranks[last] + reach)
        ax.plot(ends, (y, y), color="0.35", lw=4.5, solid_capstyle="butt")
    for k, (name, rank) in enumerate(zip(names, ranks, strict=True)):
        left = k < n_left
        row = k if left else len(names) - 1 - k
        y = -(bars + 0.35 + step * row)
        color = OURS if name in ours else THEIRS
        end = low - 0.04 * (high - low) if left else high + 0.04 * (high - low)
        ax.plot((rank, rank, end), (0, y, y), color=color, lw=1.1)
        ax.annotate(
            f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}",
            (end, y),
            xytext=(-4 if left else 4, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=9.5,
            color=color,
            fontweight="bold" if name in ours else "normal",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)
    plt.close(figure)
    return path


def _draw_axis(ax: Any, low: int, high: int, difference: float) -> None:
    """The axis of ranks, best on the left, and the length of the critical difference above it."""
    ax.plot((low, high), (0, 0), color="black", lw=1.2)
    for tick in np.arange(low, high + 0.25, 0.5):
        whole = float(tick).is_integer()
        ax.plot((tick, tick), (0, 0.14 if whole else 0.08), color="black", lw=1)
        if whole:
            ax.text(tick, 0.2, f"{tick:g}", ha="center", va="bottom", fontsize=9)
    y = 0.78
    ax.plot((low, low + difference), (y, y), color="black", lw=1.2)
    for end in (low, low + difference):
        ax.plot((end, end), (y - 0.07, y + 0.07), color="black", lw=1.2)
    text = f"CD = {difference:.3f}"
    ax.annotate(
        text,
        (low + difference, y),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
    )
