"""Draw the rooms of the package, and the walk of one row through them.

Needs the extra ``plot``. Run ``python examples/picture_of_the_rooms.py picture.png``.
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

# Room, what it holds, column, row. Dependencies point to the left.
ROOMS = [
    ("forest", "an ensemble\nas flat arrays", 0, 1),
    ("geometry", "weights, maps,\nkernel", 1, 1),
    ("solvers", "a map and a loss:\nridge, Newton", 2, 1),
    ("scores", "AdditiveForest,\nRoutedRows", 3, 1),
    ("models", "regimes, fits,\nestimators", 4, 1),
    ("explanations", "why", 5, 2.4),
    ("certificates", "how far", 5, 1.7),
    ("bounds", "how sure", 5, 1.0),
    ("diagnostics", "how healthy", 5, 0.3),
    ("export", "for other tools", 5, -0.4),
    ("views", "in notebooks", 6, 2.4),
    ("tables", "raw tables", 6, 1.7),
    ("io", "files", 6, 1.0),
    ("reports", "one page", 6, 0.3),
    ("cli", "the command", 6, -0.4),
]
# What happens to one row x, and in which column.
WALK = [
    (0, "x is checked once\nand routed: K leaf ids"),
    (1, "the ids imply Φ(x);\nit is never stored"),
    (2, "fit: v and b from\nproducts ΦΦᵀv"),
    (3, "w = Φᵀv becomes one\nnumber per node"),
    (4, "predict: K numbers\nare added"),
    (5, "the same numbers,\nregrouped or compared"),
    (6, "shown, saved,\nserved"),
]
WIDTH, GAP = 1.7, 0.3
INK, ROOM, PATH = "#1f2933", "#e8eef6", "#c2571a"


def draw(path: str) -> None:
    """Rooms as boxes, the walk below them."""
    figure, axes = plt.subplots(figsize=(13, 4.6))
    step = WIDTH + GAP
    for name, holds, column, row in ROOMS:
        alone = column < 5
        height, bottom = (1.0, row - 0.5) if alone else (0.56, row - 0.28)
        axes.add_patch(
            FancyBboxPatch(
                (column * step, bottom),
                WIDTH,
                height,
                boxstyle="round,pad=0,rounding_size=0.08",
                facecolor=ROOM,
                edgecolor=INK,
                linewidth=1,
            )
        )
        middle = column * step + WIDTH / 2
        if alone:
            axes.text(middle, row + 0.26, name, ha="center", va="center", weight="bold", color=INK)
            axes.text(middle, row - 0.14, holds, ha="center", va="center", fontsize=8.5, color=INK)
        else:
            axes.text(middle, row + 0.1, name, ha="center", va="center", weight="bold", color=INK)
            axes.text(middle, row - 0.13, holds, ha="center", va="center", fontsize=8.5, color=INK)
    for column in range(1, 7):
        right = column * step
        axes.annotate(
            "",
            (right - GAP + 0.02, 1.0),
            (right - 0.02, 1.0),
            arrowprops={"arrowstyle": "->", "color": INK},
        )
    axes.text(0, 2.5, "Rooms: each uses those to its left, through their public names", color=INK)
    for k, (column, text) in enumerate(WALK):
        middle = column * step + WIDTH / 2
        axes.text(middle, -1.45, text, ha="center", va="center", fontsize=8.5, color=PATH)
        if k:
            axes.annotate(
                "",
                (middle - 0.06, -0.98),
                (middle - step + 0.06, -0.98),
                arrowprops={"arrowstyle": "->", "color": PATH},
            )
        axes.plot(middle, -0.98, "o", color=PATH, markersize=5)
    axes.text(0, -1.98, "One row's walk", color=PATH)
    axes.set_xlim(-0.1, 7 * step - GAP + 0.1)
    axes.set_ylim(-2.2, 2.85)
    axes.axis("off")
    figure.savefig(path, dpi=130, bbox_inches="tight")


if __name__ == "__main__":
    draw(sys.argv[1] if len(sys.argv) > 1 else "rooms.png")
