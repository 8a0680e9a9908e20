"""From the table of results to losses by set and method, and to rankings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from suite.config import Config
from suite.statistics import (
    Friedman,
    Pair,
    compare_pairs,
    critical_difference,
    friedman,
    nemenyi,
    rank,
)

METRICS = {"regression": ("rmse",), "classification": ("error", "log_loss")}
TITLES = {"rmse": "RMSE", "error": "error rate", "log_loss": "log loss"}
# A method that finished on fewer sets than this share is compared pairwise only.
FINISHED_SHARE = 0.9


@dataclass(frozen=True, eq=False)
class Ranking:
    """A ranking of one metric over some sets, with one entry of KPP.

    Parameters
    ----------
    task, metric, scope : str
        What is ranked, and over which sets.
    ours : str
        The entry of KPP.
    sets, methods : list of str
        Rows and columns.
    losses : array of shape (n_sets, n_methods)
        Means over the seeds; infinite where a seed did not finish.
    mean_ranks : dict of str to float
        By method.
    omnibus : Friedman
        The tie-corrected test.
    difference : float
        Nemenyi's critical difference.
    p_nemenyi : dict of str to float
        Against `ours`.
    pairs : list of Pair
        `ours` against every other method, those that are not ranked too, over the sets and seeds
        that both finished.
    unranked : list of str
        Methods that finished on too few sets.
    """

    task: str
    metric: str
    scope: str
    ours: str
    sets: list[str]
    methods: list[str]
    losses: Any
    mean_ranks: dict[str, float]
    omnibus: Friedman
    difference: float
    p_nemenyi: dict[str, float]
    pairs: list[Pair]
    unranked: list[str]


def mean_losses(table: Any, config: Config, task: str, metric: str) -> Any:
    """Mean loss by set and method.

    Returns
    -------
    losses : data frame of shape (n_sets, n_methods)
        Infinite where a seed overran, failed or was skipped; NaN where one has not run yet.
    """
    rows = table[(table["task"] == task) & table["seed"].isin(config.shown_seeds)]
    if rows.empty or metric not in rows:
        return None
    finished = rows["status"] == "ok"
    values = rows[metric].where(finished, np.inf)
    grouped = values.groupby([rows["data"], rows["method"]])
    means = grouped.mean().where(grouped.size() == len(config.shown_seeds))
    losses = means.unstack()
    sets = [name for name in config.data[task] if name in losses.index]
    methods = [name for name in config.methods if name in losses.columns]
    return losses.loc[sets, methods]


def paired_losses(table: Any, config: Config, task: str, metric: str, ours: str, rival: str) -> Any:
    """Mean losses of two methods by set, over the seeds that both finished.

    Returns
    -------
    losses : data frame of shape (n_sets, 2)
        Columns `ours` and `rival`; sets without such a seed are absent.
    """
    rows = table[(table["task"] == task) & (table["status"] == "ok")]
    rows = rows[rows["seed"].isin(config.shown_seeds)]
    values = rows.set_index(["data", "seed", "method"])[metric].unstack()
    both = values.reindex(columns=[ours, rival]).dropna()
    return both.groupby(level="data").mean()


def rank_methods(
    table: Any, config: Config, task: str, metric: str, scope: str, ours: str
) -> Ranking | None:
    """Rank all methods, with one entry of KPP; sets that are not complete are left out."""
    losses = mean_losses(table, config, task, metric)
    if losses is None or ours not in losses:
        return None
    entries = config.report.get("kpp", [])
    chosen = losses.loc[
        losses[ours].notna(), [m for m in losses.columns if m == ours or m not in entries]
    ]
    if scope == "unseen":
        chosen = chosen.drop(index=config.report.get("seen", []), errors="ignore")
    # What has not run yet counts as not finished here: a method that is far behind the others
    # shall not take their sets away.
    share = np.isfinite(chosen).mean()
    ranked = [m for m in chosen.columns if share[m] >= FINISHED_SHARE or m == ours]
    kept = chosen[ranked].dropna()
    if len(ranked) < 2 or kept.empty:
        return None
    values = kept.to_numpy()
    p_values = nemenyi(values)[ranked.index(ours)]
    pairs = {}
    for name in chosen.columns.drop(ours):
        both = paired_losses(table, config, task, metric, ours, name)
        both = both[both.index.isin(kept.index)]
        pairs[name] = both[ours].to_numpy(), both[name].to_numpy()
    return Ranking(
        task=task,
        metric=metric,
        scope=scope,
        ours=ours,
        sets=list(kept.index),
        methods=ranked,
        losses=values,
        mean_ranks=dict(zip(ranked, rank(values).mean(axis=0).tolist(), strict=True)),
        omnibus=friedman(values),
        difference=critical_difference(len(ranked), len(kept)),
        p_nemenyi=dict(zip(ranked, p_values.tolist(), strict=True)),
        pairs=compare_pairs(pairs, relative=metric == "rmse"),
        unranked=[m for m in chosen.columns if m not in ranked],
    )


def all_rankings(table: Any, config: Config) -> list[Ranking]:
    """Every task, metric, scope and entry of KPP. Tasks are never pooled."""
    scopes = ["all", "unseen"] if config.report.get("seen") else ["all"]
    found = []
    for task in config.data:
        for metric in METRICS[task]:
            for ours in config.report.get("kpp", []):
                for scope in scopes:
                    found.append(rank_methods(table, config, task, metric, scope, ours))
    return [ranking for ranking in found if ranking is not None]
