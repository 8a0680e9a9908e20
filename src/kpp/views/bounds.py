"""What notebooks show of bounds, oracles and decompositions of the risk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kpp._shown import picture
from kpp.bounds import (
    Assumption,
    BiasVariance,
    Bound,
    BoundPath,
    BoundReport,
    GainInterval,
    PartitionOracles,
    RefinementOracle,
)
from kpp.views.html import card, chart, facts, note, table

SEEN_LABELS = {
    True: "The trees have not seen these labels.",
    False: "The trees have seen these labels: the gain is optimistic.",
    None: "Whether the trees have seen these labels, only the caller knows.",
}


@picture.register
def bound(result: Bound) -> str:
    """The bound and its parts, what it is worth, and its conditions."""
    return card(
        f"Bound {result.name}: {result.quantity}",
        facts(
            {
                "bound": result.total,
                "= empirical risk": result.empirical_risk,
                "+ complexity": result.complexity,
                "+ confidence": result.confidence,
                "trivial from": result.trivial_level,
                "status": result.status,
                "regime": result.regime,
                "rows": f"{result.n_rows:,} ({result.sample})",
                "may fail with probability": result.delta,
                "constant": result.constant,
            }
        ),
        conditions(result.assumptions),
    )


@picture.register
def bound_report(report: BoundReport) -> str:
    """One line a bound."""
    rows = [
        (b.name, b.quantity, b.total, b.trivial_level, b.status, b.regime, b.sample, b.n_rows)
        for b in report.bounds
    ]
    header = ["name", "of", "bound", "trivial from", "status", "regime", "sample", "rows"]
    return card(
        "BoundReport",
        table(header, rows),
        note(
            "Each bound holds with probability 1 - delta on its own. The smallest of several "
            "is not covered: choose by name before looking, or divide delta."
        ),
        *(note(text) for text in report.notes),
    )


@picture.register
def bound_path(path: BoundPath) -> str:
    """The bound by alpha: at the fit, at its smallest, and at the centre."""
    places = {"of the fit": path.chosen, "of the smallest bound": path.best}
    rows = [
        (f"alpha {name}", float(path.alphas[i]), float(path.radius[i]), float(path.bound[i]))
        for name, i in places.items()
    ]
    last = ("the centre, held-out bound", float(path.alphas[-1]), 0.0, path.center_bound)
    worth = "guarantee" if path.is_guarantee else "diagnostic only"
    if path.is_trivial.all():
        worth += ", trivial at every alpha"
    return card(
        f"BoundPath {path.name}: {path.quantity}",
        facts(
            {
                "trivial from": path.trivial_level,
                "status": worth,
                "regime": path.regime,
                "rows": path.n_rows,
                "may fail with probability": path.delta,
            }
        ),
        table(["", "alpha", "B", "bound"], [*rows, last]),
        chart(np.log(path.alphas), path.bound, "the bound, for rising alpha (logarithmic)"),
        note("The smallest bound may be chosen: one delta covers all alphas."),
        conditions(path.assumptions),
    )


@picture.register
def bias_variance(result: BiasVariance) -> str:
    """The expected squared error and its parts, and what they were computed from."""
    return card(
        "BiasVariance",
        facts(
            {
                "expected squared error": result.total,
                "= bias": result.bias,
                "+ variance": result.variance,
                "standard error of the variance": result.error,
                "noise variance": result.noise_variance,
                "noise estimated": result.noise_is_estimated,
                "signal estimated": result.signal_is_estimated,
                "Tr(S)": result.trace,
                "Tr(SS')": result.trace_of_square,
                "regime": result.regime,
                "status": "identity" if result.is_guarantee else "diagnostic only",
            }
        ),
        conditions(result.assumptions),
    )


@picture.register
def partition_oracles(oracles: PartitionOracles) -> str:
    """What the partitions explain, on average over the trees."""
    return card(
        f"PartitionOracles, {oracles.kind}",
        facts(
            {
                f"{oracles.kind} at the root": oracles.root,
                "= leaf risk, mean over trees": oracles.leaf_risk,
                "+ gain, mean over trees": oracles.gain,
                "share explained": oracles.share,
                "largest violation": oracles.residual,
                "trees": len(oracles.per_tree.root),
                "rows": oracles.n_rows,
                "regime": oracles.regime,
            }
        ),
        note(SEEN_LABELS[oracles.is_honest]),
    )


@picture.register
def refinement_oracle(result: RefinementOracle) -> str:
    """The refinement beside the raw sum of its trees."""
    return card(
        f"RefinementOracle, {result.oracles.kind}",
        facts(
            {
                f"{result.oracles.kind} at the root": result.root,
                "gain on the sample": result.gain,
                "estimate": result.estimate,
                "raw sum, the gain of no partition": result.raw_sum,
                "trees": result.n_trees,
                "cells": result.n_cells,
                "rows alone in a cell": result.n_alone,
                "rows": result.oracles.n_rows,
            }
        ),
        *([note(result.reason)] if result.reason else []),
    )


@picture.register
def gain_interval(result: GainInterval) -> str:
    """The limits, what they are worth, and their conditions."""
    worth = "guarantee" if result.is_guarantee else "diagnostic only"
    return card(
        f"GainInterval, {result.kind}",
        facts(
            {
                "lower limit": result.lower,
                "estimate": result.estimate,
                "upper limit": result.upper,
                "never above": result.most,
                "status": f"{worth}, trivial" if result.is_trivial else worth,
                "rows": result.n_rows,
                "may fail with probability": result.delta,
            }
        ),
        conditions(result.assumptions),
        *([note(result.note)] if result.note else []),
    )


def conditions(assumptions: Sequence[Assumption]) -> str:
    """A table of the conditions of a bound; nothing where there are none."""
    rows = [(a.word, a.name, a.why) for a in assumptions]
    return table(["", "condition", "why"], rows) if rows else ""
