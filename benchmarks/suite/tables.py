"""Pages in Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from suite.config import Config, read
from suite.effects import sections as effect_sections
from suite.figures import draw_critical_difference, draw_ratios
from suite.markdown import grid, plain
from suite.rankings import METRICS, TITLES, Ranking, all_rankings, mean_losses
from suite.records import table, write_csv

SCOPES = {"all": "all sets", "unseen": "sets that no earlier experiment had seen"}


def write_report(folder: Path) -> Path:
    """Write ``report.md``, its figures, its figures' numbers and ``results.csv`` to the folder.

    A run with ``default`` under ``[report]`` is one of ablations: its page compares every arm with
    that method (``effects.json``). Others rank their methods (``rankings.json``).
    """
    config = read(folder / "config.toml")
    results = table(folder)
    write_csv(folder)
    path = folder / "report.md"
    lines = [f"# {config.name}", "", *_about(folder, config, results)]
    if "default" in config.report:
        lines += effect_sections(folder, config, results)
        path.write_text("\n".join(lines).rstrip() + "\n")
        return path
    rankings = all_rankings(results, config)
    if "rival" in config.report:
        _draw_rival(folder, config, results)
    lines += [
        "A method that did not finish a set in every seed ranks last there; one that finished on "
        "fewer than nine sets in ten is not ranked. A pair is compared over the sets and seeds "
        "that both finished.",
        "",
    ]
    for task in config.data:
        lines += _task_section(task, config, results, rankings, folder)
    path.write_text("\n".join(lines).rstrip() + "\n")
    kept = [asdict(r) | {"losses": None, "omnibus": r.omnibus._asdict()} for r in rankings]
    for entry, ranking in zip(kept, rankings, strict=True):
        entry["pairs"] = [pair._asdict() for pair in ranking.pairs]
        del entry["losses"]
    (folder / "rankings.json").write_text(json.dumps(kept, indent=1) + "\n")
    return path


def _draw_rival(folder: Path, config: Config, results: Any) -> None:
    """One picture of the ratio of losses, set by set."""
    ours, rival = config.report["kpp"][0], config.report["rival"]
    ratios = {}
    for task, metric in (("regression", "rmse"), ("classification", "log_loss")):
        losses = mean_losses(results, config, task, metric)
        if losses is None or not {ours, rival} <= set(losses.columns):
            return
        both = losses[[ours, rival]].replace(np.inf, np.nan).dropna()
        ratios[f"{task}, {TITLES[metric]}"] = {
            plain(str(name)): value for name, value in (both[ours] / both[rival]).items()
        }
    draw_ratios(ratios, plain(ours), plain(rival), folder / f"ratios_{rival}.png")


def _about(folder: Path, config: Config, results: Any) -> list[str]:
    """What ran, and what did not."""
    last = json.loads((folder / "environment.json").read_text())[-1]
    versions = dict.fromkeys(last["versions"].values())
    lines = [
        "Written by `python -m suite report`. The run is described by `config.toml`, every task "
        "stands in `results.csv`.",
        "",
        f"Seeds {', '.join(map(str, config.shown_seeds))} of {len(config.seeds)}; "
        f"{config.test_size:.0%} test rows"
        + (f"; at most {config.max_rows} rows a set" if config.max_rows else "")
        + f". Limits of a task: {config.seconds:g} s of processor time and "
        f"{config.memory_gb:g} GB; one thread. "
        f"{', '.join(versions)}; Python {last['python']}; {last['cores']} cores.",
        "",
        "Losses are means over the seeds; lower is better.",
        "",
    ]
    for what in ("data", "methods"):
        for name, reason in last[f"missing_{what}"].items():
            lines += [f"Missing: **{name}** ({reason}).", ""]
    wanted, done = len(config.work()), len(results)
    if done < wanted:
        lines += [f"**Not complete: {done} of {wanted} tasks.**", ""]
    counts = results.groupby(["method", "status"]).size().unstack(fill_value=0)
    troubled = counts.drop(columns="ok", errors="ignore")
    troubled = troubled[troubled.sum(axis=1) > 0]
    if len(troubled):
        rows = [[plain(str(name)), *row] for name, row in troubled.iterrows()]
        lines += ["Tasks that gave no result:", ""]
        lines += grid(["method", *troubled.columns], rows)
    return lines


def _task_section(
    task: str, config: Config, results: Any, rankings: list[Ranking], folder: Path
) -> list[str]:
    lines = [f"## {task.capitalize()}", ""]
    for metric in METRICS[task]:
        losses = mean_losses(results, config, task, metric)
        if losses is None:
            continue
        title = TITLES[metric]
        lines += [f"### {title[0].upper()}{title[1:]}", "", *_losses(losses)]
        for ranking in rankings:
            if (ranking.task, ranking.metric) == (task, metric):
                lines += _ranking(ranking, folder)
    return lines + _times(task, config, results)


def _losses(losses: Any) -> list[str]:
    """Losses by set, the best in bold."""
    rows = []
    for name, row in losses.iterrows():
        best = np.nanmin(row.to_numpy())
        cells = []
        for value in row:
            text = f"{value:.4g}" if np.isfinite(value) else ("–" if np.isinf(value) else "")
            cells.append(f"**{text}**" if value == best and np.isfinite(value) else text)
        rows.append([plain(str(name)), *cells])
    return grid(["data", *map(plain, losses.columns)], rows)


def _ranking(ranking: Ranking, folder: Path) -> list[str]:
    """Mean ranks, tests, diagram."""
    test, ours = ranking.omnibus, plain(ranking.ours)
    name = f"cd_{ranking.task}_{ranking.metric}_{ranking.ours}_{ranking.scope}.png"
    draw_critical_difference(
        {plain(method): value for method, value in ranking.mean_ranks.items()},
        ranking.difference,
        f"{ranking.task}, {TITLES[ranking.metric]}: mean ranks on {test.n_sets} sets",
        folder / name,
        ours=(ours,),
    )
    lines = [
        f"#### {ours}: {SCOPES[ranking.scope]} ({test.n_sets}), {TITLES[ranking.metric]}",
        "",
        f"Friedman (tie-corrected): chi-square {test.statistic:.2f}, p = {test.p_value:.3g}, "
        f"{test.n_methods} methods. Nemenyi's critical difference at 5%: "
        f"{ranking.difference:.3f}.",
        "",
        f"![Mean ranks]({name})",
        "",
    ]
    order = sorted(ranking.methods, key=lambda m: ranking.mean_ranks[m])
    order += ranking.unranked
    pairs = {pair.rival: pair for pair in ranking.pairs}
    rows = []
    for method in order:
        shown = ranking.mean_ranks.get(method)
        cells = [plain(method), f"{shown:.3f}" if shown is not None else "not ranked"]
        if method == ranking.ours:
            rows.append([f"**{cells[0]}**", cells[1], "", "", "", "", ""])
            continue
        pair = pairs[method]
        relative = ranking.metric == "rmse"
        if shown is None:
            status = ""
        else:
            gap = abs(shown - ranking.mean_ranks[ranking.ours])
            status = "separated" if gap > ranking.difference else "parity"
        rows.append(
            [
                *cells,
                status,
                f"{ranking.p_nemenyi[method]:.2g}" if shown is not None else "",
                f"{pair.wins}/{pair.ties}/{pair.losses}",
                f"{np.expm1(pair.median):+.2%}" if relative else f"{pair.median:+.4f}",
                f"{pair.p_holm:.2g}",
            ]
        )
    unit = "median excess of the method" if ranking.metric == "rmse" else "median difference"
    header = ["method", "mean rank", "Nemenyi", "p", f"{ours} won/tied/lost", unit]
    return [*lines, *grid([*header, "Wilcoxon-Holm p"], rows)]


def _times(task: str, config: Config, results: Any) -> list[str]:
    """Fit time and memory by method."""
    rows = results[(results["task"] == task) & (results["status"] == "ok")]
    if rows.empty:
        return []
    lines = ["### Time and memory of a fit", "", "Processor seconds, one thread.", ""]
    grouped = rows.groupby("method")
    shown = []
    for method in config.methods:
        if method in grouped.groups:
            own = grouped.get_group(method)
            shown.append(
                [
                    plain(method),
                    len(own),
                    f"{own['fit_cpu_s'].median():.3g}",
                    f"{own['fit_cpu_s'].mean():.3g}",
                    f"{own['fit_cpu_s'].max():.3g}",
                    f"{own['predict_s'].median():.3g}",
                    f"{own['fit_mb'].max():.0f}",
                ]
            )
    header = ["method", "tasks", "median fit, s", "mean, s", "longest, s", "median predict, s"]
    return lines + grid([*header, "largest fit, MB"], shown)
