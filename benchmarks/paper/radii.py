"""Table robust-radius, and the panel of curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from suite.markdown import grid

from kpp.certificates import robustness_curve
from paper.comparing import Row, as_records, comparison, of_seeds, summary
from paper.models import Context, Fitted
from paper.published import RADII, RADII_COLUMNS

matplotlib.use("Agg")
import matplotlib.pyplot as plt

STEPS = np.logspace(-4, 0, 50)
NAMES = {
    "u_max": "u_max",
    "at_0": "metric at 0",
    "at_tenth": "metric at u_max/10",
    "at_max": "metric at u_max",
    "u_half": "u_half",
}


def curve(fitted: Fitted) -> tuple[float, Any, float]:
    """The paper's curve: u_max, its values on the grid, and the value at 0."""
    L = fitted.norm
    if fitted.task == "classification":
        margins = fitted.margins
        u_max = float((np.abs(margins).max() / L) ** 2)
        reach = L * np.sqrt(u_max * STEPS)
        values = (margins[:, None] > reach).mean(axis=0)
        return u_max, values, float((margins > 0).mean())
    errors = fitted.parts.y_test - fitted.model.predict(fitted.parts.X_test)
    u_max = (fitted.largest / L) ** 2
    mse, mae = float(np.square(errors).mean()), float(np.abs(errors).mean())
    reach = L * np.sqrt(u_max * STEPS)
    return u_max, mse + 2 * mae * reach + reach**2, mse


def leafwise(fitted: Fitted) -> Any:
    """The same curve by the leafwise certificate, at the same radii."""
    parts, radii = fitted.parts, curve(fitted)[0] * STEPS
    found = robustness_curve(
        fitted.model, parts.X_test, parts.y_test, radii=radii, method="leafwise"
    )
    return found.values


def measure(fitted: Fitted) -> dict[str, float]:
    """A row of the table; "u_max/10" is the nearest grid point, u_half the first one past."""
    u_max, values, start = curve(fitted)
    crossed = values <= start / 2 if fitted.task == "classification" else values >= 2 * start
    tenth = int(np.abs(STEPS - 0.1).argmin())
    return {
        "u_max": u_max,
        "at_0": start,
        "at_tenth": float(values[tenth]),
        "at_max": float(values[-1]),
        "u_half": float(u_max * STEPS[np.argmax(crossed)]),
    }


def run(context: Context) -> tuple[dict[str, Any], str]:
    """Figures, page and panel."""
    rows: list[Row] = []
    figures: dict[str, Any] = {}
    cells, curves = [], {}
    for name, seeds in context.models():
        found = [measure(fitted) for fitted in seeds]
        figures[name] = found
        curves[name] = (seeds[0].task, [(curve(f), leafwise(f)) for f in seeds])
        for key, printed in zip(RADII_COLUMNS, RADII[name], strict=True):
            rows += of_seeds(name, NAMES[key], printed, [f[key] for f in found], 0)
        exact = {
            method: float(np.mean([_exact(fitted, method) for fitted in seeds]))
            for method in ("lipschitz", "leafwise")
        }
        shown = float(np.mean([f["u_half"] for f in found]))
        ratio = exact["leafwise"] / exact["lipschitz"]
        radii = (f"{value:.3g}" for value in (shown, *exact.values()))
        cells.append([name.replace("_", " "), *radii, f"{ratio:.1f}"])
    lines = [
        "# Robust radii",
        "",
        f"`python -m paper radii`: certificates in the path metric, on test rows. {summary(rows)}",
        "",
        *comparison(rows),
        *context.note(),
        "## Exact and leafwise",
        "",
        "The paper's u_half is rounded up to its grid of 50 points, by up to a factor 1.21, which "
        "is not sound. Exact, and by the leafwise certificate, which is never smaller:",
        "",
        *grid(["data", "on the grid", "exact", "leafwise, exact", "leafwise / exact"], cells),
    ]
    if context.out and curves:
        draw(curves, Path(context.out) / "paper_radii.png")
        lines += [
            "Higher is better for the accuracy, lower for the squared error:",
            "",
            "![Curves](paper_radii.png)",
            "",
        ]
    return {"rows": as_records(rows), "figures": figures}, "\n".join(lines)


def _exact(fitted: Fitted, method: str) -> float:
    parts = fitted.parts
    return float(robustness_curve(fitted.model, parts.X_test, parts.y_test, method=method).u_half)


def draw(curves: dict[str, Any], path: Path) -> None:
    """One panel a set, mean and standard deviation over the seeds, as in the paper."""
    figure, axes = plt.subplots(2, 3, figsize=(10, 5.6), layout="constrained")
    lines: list[Any] = []
    for ax, (name, (task, found)) in zip(axes.ravel(), curves.items(), strict=False):
        radii = np.mean([printed[0] for printed, _ in found]) * STEPS
        both = (
            ("the paper's certificate", "#0072B2", [printed[1] for printed, _ in found]),
            ("leafwise certificate", "#D55E00", [values for _, values in found]),
        )
        lines = []
        for label, color, values in both:
            mean, spread = np.mean(values, axis=0), np.std(values, axis=0)
            ax.fill_between(radii, mean - spread, mean + spread, color=color, alpha=0.2, lw=0)
            lines += ax.plot(radii, mean, color=color, lw=1.8, label=label)
        ax.set_xscale("log")
        if task == "regression":
            ax.set_yscale("log")
        ax.set_title(name.replace("_", " "), fontsize=10)
        ax.set_xlabel(r"radius $u$ in $\delta_T$")
        ax.set_ylabel("RobAcc(u)" if task == "classification" else "RobMSE(u)")
        ax.grid(alpha=0.25, lw=0.6)
    for ax in axes.ravel()[len(curves) :]:
        ax.axis("off")
    if len(curves) < axes.size:
        axes.ravel()[len(curves)].legend(
            handles=lines, loc="center", frameon=False, title="mean and std over the seeds"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
