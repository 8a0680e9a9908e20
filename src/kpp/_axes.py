"""Where a display draws."""

from __future__ import annotations

from typing import Any

from kpp._optional import optional


def axes_or_new(ax: Any, caller: str, width: float = 5.6, height: float = 3.8) -> Any:
    """Return the given axes, or those of a new figure of this size in inches for None."""
    plt = optional("matplotlib.pyplot", caller, "plot")
    return plt.subplots(figsize=(width, height), layout="constrained")[1] if ax is None else ax
