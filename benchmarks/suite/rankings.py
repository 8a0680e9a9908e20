"""From the table of results to losses by set and method, and to rankings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from suite.config import Config
from suite.statistics import (
    Friedman,
    Pair,
    compare_with,
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
        `ours` against every other method, those that are not ranked too.
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
    rows = table[(table["task"] == task) & table["seed"].isin(config.seeds)]
    if rows.empty or metric not in rows:
        return None
    finished = rows["status"] == "ok"
    values = rows[metric].where(finished, np.inf)
    grouped = values.groupby([rows["data"], rows["method"]])
    means = grouped.mean().where(grouped.size() == len(config.seeds))
    losses = means.unstack()
    sets = [name for name in config.data[task] if name in losses.index]
    methods = [name for name in config.methods if name in losses.columns]
    return losses.loc[sets, methods]


def rank_methods(
    losses: Any, config: Config, task: str, metric: str, scope: str, ours: str
) -> Ranking | None:
    """Rank all methods, with one entry of KPP; sets that are not complete are left out."""
    entries = config.report.get("kpp", [])
    chosen = losses[[m for m in losses.columns if m == ours or m not in entries]]
    if scope == "unseen":
        chosen = chosen.drop(index=config.report.get("seen", []), errors="ignore")
    chosen = chosen.dropna(axis="columns", how="all").dropna()
    if ours not in chosen or chosen.empty:
        return None
    share = np.isfinite(chosen).mean()
    ranked = [m for m in chosen.columns if share[m] >= FINISHED_SHARE or m == ours]
    if len(ranked) < 2:
        return None
    kept = chosen[ranked].to_numpy()
    p_values = nemenyi(kept)[ranked.index(ours)]
    names = list(chosen.columns)
    return Ranking(
        task=task,
        metric=metric,
        scope=scope,
        ours=ours,
        sets=list(chosen.index),
        methods=ranked,
        losses=kept,
        mean_ranks=dict(zip(ranked, rank(kept).mean(axis=0).tolist(), strict=True)),
        omnibus=friedman(kept),
        difference=critical_difference(len(ranked), len(chosen)),
        p_nemenyi=dict(zip(ranked, p_values.tolist(), strict=True)),
        pairs=compare_with(names, chosen.to_numpy(), ours, relative=metric == "rmse"),
        unranked=[m for m in names if m not in ranked],
    )


def all_rankings(table: Any, config: Config) -> list[Ranking]:
    """Every task, metric, scope and entry of KPP. Tasks are never pooled."""
    scopes = ["all", "unseen"] if config.report.get("seen") else ["all"]
    found = []
    for task in config.data:
        for metric in METRICS[task]:
            losses = mean_losses(table, config, task, metric)
            if losses is None:
                continue
            for ours in config.report.get("kpp", []):
                for scope in scopes:
                    found.append(rank_methods(losses, config, task, metric, scope, ours))
    return [ranking for ranking in found if ranking is not None]
