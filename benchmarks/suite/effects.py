"""Ablations: what each arm changes against one default, set by set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from suite.config import Config
from suite.figures import draw_effects
from suite.markdown import grid, plain
from suite.rankings import METRICS, TITLES, mean_losses
from suite.statistics import compare_with

# An error rate may be 0, so its changes are differences; the others are ratios.
RELATIVE = ("rmse", "log_loss")
LEVEL = 0.05


class Effect(NamedTuple):
    """One arm against the default, in one metric.

    Parameters
    ----------
    arm, metric : str
        What is compared.
    n_sets, better, tied, worse : int
        Sets that both finished, and how the arm did there.
    median, lower, upper : float
        Median and quartiles over the sets of the change of the loss: relative for RMSE and log
        loss, a difference of rates for the error. Positive is worse than the default.
    p_value, p_holm : float
        Wilcoxon's signed-rank test of the changes, and Holm's correction over the arms.
    seconds : float
        Median over the sets of the ratio of the fits' processor time.
    changes : dict of str to float
        By set.
    """

    arm: str
    metric: str
    n_sets: int
    better: int
    tied: int
    worse: int
    median: float
    lower: float
    upper: float
    p_value: float
    p_holm: float
    seconds: float
    changes: dict[str, float]


def measure(table: Any, config: Config, task: str, metric: str) -> list[Effect]:
    """Effects of all arms of a task; sets that are not complete are left out."""
    losses = mean_losses(table, config, task, metric)
    default = config.report["default"]
    if losses is None or default not in losses:
        return []
    losses = losses[np.isfinite(losses[default])]
    losses = losses.loc[:, np.isfinite(losses).any()]
    relative = metric in RELATIVE
    rows = table[(table["task"] == task) & (table["status"] == "ok")]
    seconds = rows.groupby(["data", "method"])["fit_cpu_s"].mean().unstack()
    found = []
    pairs = compare_with(list(losses.columns), losses.to_numpy(), default, relative=relative)
    for pair in pairs:
        arm = pair.rival
        kept = np.isfinite(losses[arm])
        theirs, own = losses.loc[kept, arm], losses.loc[kept, default]
        changes = theirs / own - 1 if relative else theirs - own
        lower, median, upper = np.quantile(changes, (0.25, 0.5, 0.75))
        found.append(
            Effect(
                arm=arm,
                metric=metric,
                n_sets=pair.n_sets,
                better=pair.losses,
                tied=pair.ties,
                worse=pair.wins,
                median=float(median),
                lower=float(lower),
                upper=float(upper),
                p_value=pair.p_value,
                p_holm=pair.p_holm,
                seconds=float((seconds[arm] / seconds[default])[kept[kept].index].median()),
                changes={str(name): float(value) for name, value in changes.items()},
            )
        )
    return found


def show(effect: Effect, value: float) -> str:
    """A change as a percentage, or as points of the error rate."""
    return f"{value:+.1%}" if effect.metric in RELATIVE else f"{100 * value:+.2f} pt"


def sections(folder: Path, config: Config, results: Any) -> list[str]:
    """Lines of the page; writes ``effects.json`` and ``effects.png`` beside it."""
    metrics = [(task, metric) for task in config.data for metric in METRICS[task]]
    known = {metric: measure(results, config, task, metric) for task, metric in metrics}
    known = {metric: effects for metric, effects in known.items() if effects}
    kept = {metric: [e._asdict() for e in effects] for metric, effects in known.items()}
    (folder / "effects.json").write_text(json.dumps(kept, indent=1) + "\n")
    groups = config.report.get("groups", {"": list(config.methods)})
    titles = {metric: f"{TITLES[metric]}, {task}" for task, metric in metrics}
    draw_effects(known, groups, titles, folder / "effects.png", RELATIVE, LEVEL)
    default = plain(config.report["default"])
    lines = [
        f"Every arm is {default} with one thing changed, and chooses its own alpha. A change is "
        "that of the test loss, mean over the seeds, against the default on the same set: in per "
        "cent for RMSE and log loss, in points (hundredths) for the error rate; positive is worse. "
        "Wilcoxon's signed-rank test, Holm-corrected over the arms of a table; time is the median "
        "ratio of processor seconds of the fit. These sets are those that the defaults were chosen "
        "on, so the comparison is not blind.",
        "",
        "![Change of the loss by arm](effects.png)",
        "",
    ]
    for metric, effects in known.items():
        lines += [f"## {titles[metric][0].upper()}{titles[metric][1:]}", ""]
        lines += grid(*table_of(effects, groups))
    return lines


def table_of(effects: list[Effect], groups: dict[str, list[str]]) -> tuple[list[str], list[Any]]:
    """Header and rows of a table of effects."""
    header = ["", "arm", "sets", "median", "quartiles", "better/tied/worse", "p, Holm", "time"]
    by_arm = {effect.arm: effect for effect in effects}
    rows = []
    for group, arms in groups.items():
        for arm in arms:
            if (e := by_arm.get(arm)) is None:
                continue
            clear = e.p_holm < LEVEL
            rows.append(
                [
                    group,
                    plain(arm),
                    e.n_sets,
                    f"**{show(e, e.median)}**" if clear else show(e, e.median),
                    f"{show(e, e.lower)} to {show(e, e.upper)}",
                    f"{e.better}/{e.tied}/{e.worse}",
                    f"{e.p_holm:.2g}",
                    f"{e.seconds:.2g}x",
                ]
            )
    return header, rows
