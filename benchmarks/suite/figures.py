"""Critical-difference diagrams, losses against one rival set by set, and ablations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from suite.markdown import plain

# Vermillion of Okabe and Ito marks our own entries; everything else is grey or black.
OURS, THEIRS = "#D55E00", "#222222"
# Of arms: clearly worse, clearly better, neither.
WORSE, BETTER, NEITHER = "#D55E00", "#0072B2", "#555555"
# Changes beyond these stand at the edge of their panel, as a triangle.
REACH = {True: (-0.30, 0.60), False: (-0.05, 0.08)}


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
            # Three digits: mean ranks over 20 sets are multiples of 0.025.
            f"{name}  {rank:.3f}" if left else f"{rank:.3f}  {name}",
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


def draw_ratios(
    ratios: dict[str, dict[str, float]], ours: str, rival: str, path: Path, reach: float = 2.0
) -> Path:
    """Draw the loss of one method over that of another, a bar a set, a panel a kind of loss.

    Parameters
    ----------
    ratios : dict of str to dict of str to float
        By panel, then by set.
    ours, rival : str
        Their names.
    path : Path
        Where the picture goes.
    reach : float
        Ratios beyond it, or below one over it, end at the edge; their value stands beside them.
    """
    most = max(len(known) for known in ratios.values())
    size = (5.2 * len(ratios), 0.24 * most + 1.4)
    figure, axes = plt.subplots(1, len(ratios), figsize=size, squeeze=False, layout="constrained")
    for ax, (title, known) in zip(axes[0], ratios.items(), strict=True):
        names = sorted(known, key=lambda name: known[name])
        values = np.array([known[name] for name in names])
        ends = np.clip(values, 1 / reach, reach)
        colors = np.where(values < 1, BETTER, WORSE)
        ax.barh(range(len(names)), np.log(ends), color=colors, height=0.72)
        for y, (value, end) in enumerate(zip(values, ends, strict=True)):
            side = 1 if value > 1 else -1
            ax.annotate(
                f"{value:.2f}",
                (np.log(end), y),
                xytext=(3 * side, 0),
                textcoords="offset points",
                ha="left" if side > 0 else "right",
                va="center",
                fontsize=7.5,
                color="0.25",
            )
        ax.axvline(0, color="black", lw=0.8)
        ticks = np.array([0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0])
        ticks = ticks[(ticks >= ends.min() * 0.93) & (ticks <= max(ends.max(), 1.1) * 1.05)]
        ax.set_xticks(np.log(ticks), [f"{tick:g}" for tick in ticks], fontsize=8)
        low, high = np.log(min(ends.min(), 0.9)), np.log(max(ends.max(), 1.1))
        ax.set_xlim(low - 0.16 * (high - low), high + 0.16 * (high - low))
        ax.set_yticks(range(len(names)), names, fontsize=8)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.tick_params(left=False)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.set_title(f"{title}: better on {(values < 1).sum()} of {len(values)}", fontsize=10)
        ax.set_xlabel(f"loss of {ours} / loss of {rival}", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)
    plt.close(figure)
    return path


def draw_effects(
    effects: dict[str, list[Any]],
    groups: dict[str, list[str]],
    titles: dict[str, str],
    path: Path,
    relative: tuple[str, ...],
    level: float,
) -> Path:
    """One panel a metric, one line an arm: every set a dot, quartiles as a bar, the median on it.

    Parameters
    ----------
    effects : dict of str to list of Effect
        By metric.
    groups : dict of str to list of str
        Arms by what they change; lines between them.
    titles : dict of str to str
        Of the panels, by metric.
    path : Path
        Where the picture goes.
    relative : tuple of str
        Metrics whose changes are ratios; the others are rates.
    level : float
        Arms whose corrected p-value is below it are coloured.
    """
    present = {effect.arm for known in effects.values() for effect in known}
    order = [(group, arm) for group, arms in groups.items() for arm in arms if arm in present]
    size = (3.1 + 2.6 * len(effects), 0.29 * len(order) + 1.5)
    figure, axes = plt.subplots(1, len(effects), figsize=size, sharey=True, squeeze=False)
    for ax, (metric, known) in zip(axes[0], effects.items(), strict=True):
        by_arm = {effect.arm: effect for effect in known}
        low, high = (100 * edge for edge in REACH[metric in relative])
        for y, (_, arm) in enumerate(order):
            if arm in by_arm:
                _draw_arm(ax, y, by_arm[arm], low, high, level)
        ax.axvline(0, color="black", lw=0.8, zorder=1)
        ax.set_xlim(low, high)
        ax.set_title(titles[metric], fontsize=10)
        unit = "change, %" if metric in relative else "change, points"
        ax.set_xlabel(f"{unit} (right is worse)", fontsize=9)
        ax.tick_params(labelsize=9, left=False)
        ax.grid(axis="x", alpha=0.25, lw=0.6)
        for k in range(1, len(order)):
            if order[k][0] != order[k - 1][0]:
                ax.axhline(k - 0.5, color="0.75", lw=0.7)
    axes[0, 0].set_yticks(range(len(order)), [plain(arm) for _, arm in order])
    axes[0, 0].set_ylim(len(order) - 0.5, -0.5)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)
    plt.close(figure)
    return path


def _draw_arm(ax: Any, y: int, effect: Any, low: float, high: float, level: float) -> None:
    changes = 100 * np.array(list(effect.changes.values()))
    inside = (changes >= low) & (changes <= high)
    ax.plot(changes[inside], np.full(inside.sum(), y), ".", color="0.6", ms=4, zorder=2)
    for edge, marker, beyond in ((low, "<", changes < low), (high, ">", changes > high)):
        if beyond.any():
            ax.plot(edge, y, marker, color="0.6", ms=5, clip_on=False, zorder=2)
    color = NEITHER
    if effect.p_holm < level:
        color = WORSE if effect.median > 0 else BETTER
    ends = np.clip([100 * effect.lower, 100 * effect.upper], low, high)
    ax.plot(ends, (y, y), color=color, lw=3, alpha=0.55, solid_capstyle="butt", zorder=3)
    ax.plot(np.clip(100 * effect.median, low, high), y, "o", color=color, ms=5.5, zorder=4)
