"""Blocks of the results page, each a list of lines of Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from suite.config import Config, read
from suite.markdown import grid, plain
from suite.rankings import TITLES, mean_losses, paired_losses
from suite.statistics import compare_pairs

TASK_OF = {"rmse": "regression", "error": "classification", "log_loss": "classification"}
SCOPES = ("all", "unseen")
# How many sets are shown where KPP is farthest from the best.
N_FAR = 6
TIE = 1e-9


def read_rankings(folder: Path) -> list[dict[str, Any]]:
    """The rankings that `report` has written."""
    found: list[dict[str, Any]] = json.loads((folder / "rankings.json").read_text())
    return found


def about(folder: Path, config: Config, results: Any) -> list[str]:
    """What ran."""
    starts = json.loads((folder / "environment.json").read_text())
    versions = dict.fromkeys(version for start in starts for version in start["versions"].values())
    named = ", ".join(f"{n} {status}" for status, n in results["status"].value_counts().items())
    left = len(config.work()) - len(results)
    sets = " and ".join(f"{len(names)} {task}" for task, names in config.data.items())
    seeds = ", ".join(map(str, config.shown_seeds))
    return [
        f"{sets} sets, {len(config.methods)} methods, {len(config.seeds)} seeds: "
        f"{len(config.work())} tasks, {named}{f', {left} not run' if left else ''}. "
        f"Shown: seeds {seeds}. {', '.join(versions)}.",
    ]


def unfinished(config: Config, results: Any) -> list[str]:
    """Methods that did not finish everywhere."""
    rows = []
    for method, own in results.groupby("method"):
        wanted = len(config.seeds) * sum(
            len(names)
            for task, names in config.data.items()
            if task in config.methods[method].tasks
        )
        ok = own[own["status"] == "ok"]
        if len(ok) == wanted:
            continue
        sets = ok.groupby("data")["seed"].nunique()
        counts = own["status"].value_counts()
        cells = [int(counts.get(s, 0)) for s in ("ok", "overrun", "skipped", "failed")]
        cells.append(wanted - len(own))
        rows.append([plain(str(method)), *cells, int((sets == len(config.seeds)).sum())])
    if not rows:
        return ["Every method finished every task."]
    header = ["method", "finished", "overran", "skipped", "failed", "not run"]
    return grid([*header, "sets with all seeds"], rows)


def ranks(rankings: list[dict[str, Any]], ours: str) -> list[str]:
    """Mean ranks of all methods beside one entry of KPP; a column a metric and scope."""
    chosen = [r for r in rankings if r["ours"] == ours]
    first = chosen[0]["mean_ranks"]
    methods = sorted(
        {method for r in chosen for method in r["mean_ranks"]},
        key=lambda m: (first.get(m, np.inf), m),
    )
    rows = []
    for method in methods:
        cells = [
            f"{r['mean_ranks'][method]:.3f}{_mark(r, method)}" if method in r["mean_ranks"] else "–"
            for r in chosen
        ]
        name = f"**{plain(method)}**" if method == ours else plain(method)
        rows.append([name, *cells])
    header = [f"{TITLES[r['metric']]}, {_sets(r)}" for r in chosen]
    return grid(["mean rank", *header], rows)


def _sets(ranking: dict[str, Any]) -> str:
    scope = "unseen" if ranking["scope"] == "unseen" else "all"
    return f"{scope} {ranking['omnibus']['n_sets']}"


def _mark(ranking: dict[str, Any], method: str) -> str:
    """A star where Nemenyi's test separates a method from KPP."""
    ours = ranking["mean_ranks"][ranking["ours"]]
    gap = abs(ranking["mean_ranks"][method] - ours)
    return "*" if gap > ranking["difference"] else ""


def tests(rankings: list[dict[str, Any]]) -> list[str]:
    """Friedman's test, critical difference and KPP's place, a row a ranking."""
    rows = []
    for r in rankings:
        own, test = r["mean_ranks"][r["ours"]], r["omnibus"]
        others = [value for method, value in r["mean_ranks"].items() if method != r["ours"]]
        place = 1 + sum(value < own - TIE for value in others)
        shared = ", shared" if any(abs(value - own) <= TIE for value in others) else ""
        cells = [f"{test['statistic']:.1f}", f"{test['p_value']:.1e}", f"{r['difference']:.3f}"]
        place_text = f"{place} of {test['n_methods']}{shared}"
        rows.append(
            [plain(r["ours"]), TITLES[r["metric"]], _sets(r), *cells, f"{own:.3f}", place_text]
        )
    header = ["entry", "metric", "sets", "Friedman chi-square", "p", "critical difference"]
    return grid([*header, "its mean rank", "place"], rows)


def pairs(rankings: list[dict[str, Any]], metric: str) -> list[str]:
    """Entries of KPP against each rival: counts, median and p on all sets, p on the unseen."""
    chosen = {(r["ours"], r["scope"]): r for r in rankings if r["metric"] == metric}
    entries = list(dict.fromkeys(ours for ours, _ in chosen))
    rivals = [pair["rival"] for pair in chosen[entries[0], "all"]["pairs"]]
    rows = []
    for rival in rivals:
        cells: list[str] = [plain(rival)]
        for ours in entries:
            by_scope = [
                next(p for p in chosen[ours, scope]["pairs"] if p["rival"] == rival)
                for scope in SCOPES
            ]
            full = by_scope[0]
            cells += [
                f"{full['wins']}/{full['ties']}/{full['losses']}",
                _median(full["median"], metric),
                *(_p_value(pair) for pair in by_scope),
            ]
        rows.append(cells)
    header = ["against"]
    for ours in entries:
        name = plain(ours)
        header += [f"{name} won/tied/lost", "median", "p, all", "p, unseen"]
    return grid(header, rows)


def entries(config: Config, results: Any) -> list[str]:
    """The first entry of KPP against each other one."""
    ours, *others = config.report["kpp"]
    rows = []
    for rival in others:
        for metric, task in TASK_OF.items():
            for scope in SCOPES:
                pair = _pair(config, results, task, metric, ours, rival, scope)
                p = f"{pair.p_value:.2g}"
                cells = [f"{pair.wins}/{pair.ties}/{pair.losses}", _median(pair.median, metric)]
                cells.append(f"**{p}**" if pair.p_value < 0.05 else p)
                rows.append([plain(rival), TITLES[metric], f"{scope} {pair.n_sets}", *cells])
    return grid(["against", "metric", "sets", f"{plain(ours)} won/tied/lost", "median", "p"], rows)


def against_rival(config: Config, results: Any) -> list[str]:
    """KPP at its defaults against the one rival that is drawn set by set: losses and time."""
    ours, rival = config.report["kpp"][0], config.report["rival"]
    rows = []
    for metric, task in TASK_OF.items():
        for scope in SCOPES:
            losses = paired_losses(results, config, task, metric, ours, rival)
            losses = losses[~losses.index.isin(_hidden(config, scope))]
            pair = _pair(config, results, task, metric, ours, rival, scope)
            known = (losses > 0).all(axis=1)
            ratio = losses[ours][known] / losses[rival][known]
            rows.append(
                [
                    f"{TITLES[metric]}, {scope} {pair.n_sets}",
                    f"{pair.wins}/{pair.ties}/{pair.losses}",
                    f"{ratio.median():.3f}",
                    f"{np.exp(np.log(ratio).mean()):.3f}",
                    f"{pair.p_value:.2g}",
                ]
            )
    ok = results[results["status"] == "ok"]
    lines = grid(
        [
            "metric",
            f"{plain(ours)} won/tied/lost",
            "median ratio of the loss",
            "geometric mean",
            "Wilcoxon p, this pair alone",
        ],
        rows,
    )
    for task in config.data:
        times = ok[ok["task"] == task].pivot_table("fit_cpu_s", ["data", "seed"], "method")
        ratio = (times[ours] / times[rival]).median()
        lines.append(f"- {task}: the median ratio of the processor times of a fit is {ratio:.2f}.")
    return lines


def _hidden(config: Config, scope: str) -> list[str]:
    return list(config.report["seen"]) if scope == "unseen" else []


def _pair(
    config: Config, results: Any, task: str, metric: str, ours: str, rival: str, scope: str
) -> Any:
    both = paired_losses(results, config, task, metric, ours, rival)
    kept = both[~both.index.isin(_hidden(config, scope))]
    (pair,) = compare_pairs(
        {rival: (kept[ours].to_numpy(), kept[rival].to_numpy())}, relative=metric == "rmse"
    )
    return pair


def _median(value: float, metric: str) -> str:
    if not np.isfinite(value):
        return "–"
    return f"{np.expm1(value):+.2%}" if metric == "rmse" else f"{value:+.4f}"


def _p_value(pair: dict[str, Any]) -> str:
    """Holm's p-value; bold where it is below 5%."""
    text = f"{pair['p_holm']:.2g}"
    return f"**{text}**" if pair["p_holm"] < 0.05 else text


def far(config: Config, results: Any, metric: str) -> list[str]:
    """Sets on which KPP at its defaults is farthest from the best method."""
    task = TASK_OF[metric]
    losses = mean_losses(results, config, task, metric)
    others = [m for m in losses.columns if m not in config.report["kpp"]]
    own, best = losses["kpp"], losses[others].min(axis=1)
    ahead = int((own <= best).sum())
    gap = (own / best - 1) if metric == "rmse" else own - best
    rows = []
    for name in gap.sort_values(ascending=False).index[:N_FAR]:
        winner = losses.loc[name, others].idxmin()
        change = f"{gap[name]:+.1%}" if metric == "rmse" else f"{gap[name]:+.4f}"
        cells = [f"{best[name]:.4g}", f"{own[name]:.4g}", change]
        cells.append(f"{losses.loc[name, 'kpp_paper']:.4g}")
        rows.append([plain(name), plain(winner), *cells])
    header = ["set", "best rival", "its " + TITLES[metric], plain("kpp"), "gap", plain("kpp_paper")]
    lines = [
        f"{plain('kpp')} has the lowest {TITLES[metric]}, or shares it, on {ahead} of {len(own)} "
        f"sets. Where it is farthest from the best rival:",
        "",
        *grid(header, rows),
    ]
    return lines


def times(config: Config, results: Any) -> list[str]:
    """Processor seconds of a fit: median and longest, by task."""
    ok = results[results["status"] == "ok"]
    rows = []
    for method in config.methods:
        cells = []
        for task in config.data:
            own = ok[(ok["method"] == method) & (ok["task"] == task)]["fit_cpu_s"]
            cells += [f"{own.median():.2g}", f"{own.max():.3g}"] if len(own) else ["–", "–"]
        rows.append([plain(method), *cells])
    header = [f"{task}, {what}" for task in config.data for what in ("median", "longest")]
    return grid(["fit, processor s", *header], rows)


def paper(folder: Path) -> list[str]:
    """How many figures of the paper's tables agree."""
    rows = []
    for path in sorted(folder.glob("paper_*.json")):
        known = json.loads(path.read_text())["rows"]
        agree, twice = (sum(row[key] for row in known) for key in ("agrees", "rounded_twice"))
        rows.append([path.stem.removeprefix("paper_"), agree, twice or "", len(known)])
    header = ["`python -m paper`", "agree to the printed digit", "if rounded twice", "figures"]
    return grid(header, rows)


def paper_causes(folder: Path) -> list[str]:
    """Figures of the paper's tables that agree, and those that do not by cause."""
    known = json.loads((folder / "causes.json").read_text())
    rows = [[cells[0], *(cell or "" for cell in cells[1:])] for cells in known["rows"]]
    return [
        *grid(known["header"], rows),
        f"With trees compiled as the paper's were, {known['paper_build']['agree']} of the "
        f"{known['paper_build']['figures']} figures that were measured with them agree (rounding "
        f"twice allowed); as installed, {known['installed']['agree']}.",
    ]


def paper_ranks(folder: Path) -> list[str]:
    """The paper's seven methods: published mean ranks and those of our suite."""
    known = json.loads((folder / "paper_suite.json").read_text())
    lines = []
    for task in ("regression", "classification"):
        if task not in known:
            continue
        found = known[task]
        order = sorted(found["mean_ranks"], key=lambda m: found["mean_ranks"][m])
        rows = []
        for m in order:
            digits = len(found["published"][m].partition(".")[2])
            rows.append([plain(m), found["published"][m], f"{found['mean_ranks'][m]:.{digits}f}"])
        test = found["friedman"]
        rows.append(
            ["Friedman chi-square", found["published_friedman"], f"{test['statistic']:.2f}"]
        )
        lines += grid([f"{task}, {test['n_sets']} sets", "published", "our suite"], rows)
    return lines


def ablations(folder: Path) -> list[str]:
    """Median change of each loss by arm, with counts; bold where Holm's p is below 5%."""
    config = read(folder / "config.toml")
    groups = config.report["groups"]
    known = json.loads((folder / "effects.json").read_text())
    rows = []
    for group, arms in groups.items():
        for arm in arms:
            cells = []
            for metric, effects in known.items():
                cells.append(next((_effect(e, metric) for e in effects if e["arm"] == arm), "–"))
            first = next(e for effects in known.values() for e in effects if e["arm"] == arm)
            rows.append([group, plain(arm), *cells, f"{first['seconds']:.2g}x"])
    sets = " and ".join(f"{len(names)} {task}" for task, names in config.data.items())
    seeds = ", ".join(map(str, config.shown_seeds))
    return [
        f"{sets} sets, seeds {seeds}:",
        "",
        *grid(["", "arm", *(TITLES[metric] for metric in known), "time"], rows),
    ]


def _effect(effect: dict[str, Any], metric: str) -> str:
    value = effect["median"]
    text = f"{100 * value:+.2f} pt" if metric == "error" else f"{value:+.1%}"
    text = f"**{text}**" if effect["p_holm"] < 0.05 else text
    return f"{text} ({effect['better']}/{effect['tied']}/{effect['worse']})"
