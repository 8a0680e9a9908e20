"""What notebooks show of explanations: the largest parts first, with a bar each."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from scipy import sparse

from kpp._numbers import number
from kpp._shown import picture
from kpp._typing import FloatArray
from kpp.explanations import (
    Attribution,
    AttributionSummary,
    DistanceExplanation,
    Interactions,
    LeaveOneOut,
    RuleExplanation,
    TrainingRowExplanation,
)
from kpp.explanations.attribution import column_of
from kpp.views.html import (
    LONGEST_TABLE,
    Bar,
    card,
    facts,
    largest,
    left_out,
    note,
    quantiles,
    table,
)


@picture.register
def attribution(result: Attribution) -> str:
    """One row with its values, or mean absolute values over the rows."""
    several = result.scores.ndim == 2
    one_row = result.n_rows == 1 and not several
    what = result.level if result.level in ("node", "block") else "variable"
    figures: dict[str, Any] = {
        "rows": result.n_rows,
        "level": result.level + (", centred" if result.centered else ""),
        "largest deviation of a sum from the score": result.residual,
        "regime": result.regime,
    }
    if several:
        figures["outputs"] = ", ".join(str(output) for output in result.outputs)
    else:
        figures["baseline"] = float(result.baseline)
    if one_row:
        figures["score"] = float(result.scores[0])
    return card(
        f"Attribution by {what}",
        facts(figures),
        _one_row(result, what) if one_row else _means_over_rows(result, what),
        note("An account of this parametrisation: exact as a sum, no cause and no Shapley value.")
        if result.level != "shapley"
        else "",
    )


@picture.register
def attribution_summary(summary: AttributionSummary) -> str:
    """Mean absolute values of the variables."""
    columns = summary.mean_abs.reshape(len(summary.feature_names), -1).T
    return card(
        "AttributionSummary",
        _table_of_means(summary.feature_names, list(columns), summary.outputs, "variable"),
    )


@picture.register
def rule_explanation(explanation: RuleExplanation) -> str:
    """Rules that add up to the score, line by line."""
    unit = max((abs(rule.contribution) for rule in explanation.rules), default=0.0) or 1.0
    rows: list[tuple[Any, ...]] = [("(baseline)", explanation.baseline, "", "")]
    rows += [
        (rule.text, rule.contribution, f"{rule.support:.1%}", Bar(rule.contribution / unit))
        for rule in explanation.rules
    ]
    rows.append((f"({explanation.others})", explanation.remainder, "", ""))
    rows.append((f"= {explanation.output}", explanation.score, "", ""))
    known = explanation.probability is not None
    return card(
        "RuleExplanation",
        table(["rule", "adds", "rows of the fit", ""], rows),
        note(f"Probability {explanation.probability:.3g}; shown, not decomposed.") if known else "",
    )


@picture.register
def distance_explanation(explanation: DistanceExplanation) -> str:
    """What each variable adds to the distance of two rows."""
    part = explanation.by_variable
    unit = float(part.max(initial=0.0)) or 1.0
    parted_by = explanation.parted_by
    parted = np.bincount(parted_by[parted_by >= 0], minlength=len(part))
    shown = largest(part)
    rows = [
        (explanation.feature_names[j], float(part[j]), int(parted[j]), Bar(float(part[j]) / unit))
        for j in shown
    ]
    return card(
        "DistanceExplanation",
        facts(
            {
                "distance": explanation.total,
                "trees": len(explanation.tree_names),
                "same leaf in": int((parted_by < 0).sum()),
                "deviation of the sum": explanation.residual,
            }
        ),
        table(["variable", "part", "trees parted by it", ""], rows),
        left_out(len(shown), len(part), "variables"),
    )


@picture.register
def interactions(result: Interactions) -> str:
    """The pairs that add most together, beside what columns add alone."""
    size = result.mean_abs if result.mean_abs.ndim == 1 else result.mean_abs.sum(axis=1)
    unit = float(size.max(initial=0.0)) or 1.0
    rows = [
        (" × ".join(pair), float(own), Bar(float(own) / unit))
        for pair, own in zip(result.pairs, size, strict=True)
    ][:LONGEST_TABLE]
    n_pairs = len(result.pairs) + result.n_others
    return card(
        f"Interactions over {len(result.scores):,} rows",
        table(["columns together", "mean absolute value", ""], rows),
        left_out(len(rows), n_pairs, "pairs"),
        facts({f"{name}, in all": own for name, own in result.sizes().items()}),
    )


@picture.register
def training_row_explanation(explanation: TrainingRowExplanation) -> str:
    """The training rows that carry the score, and what the others add."""
    unit = float(np.abs(explanation.contribution).max(initial=0.0)) or 1.0
    rows = [
        (int(row), float(adds), float(near), float(pull), Bar(float(adds) / unit))
        for row, adds, near, pull in zip(
            explanation.rows,
            explanation.contribution,
            explanation.kernel,
            explanation.dual_coef,
            strict=True,
        )
    ]
    n_other = len(explanation.all_rows) - len(explanation.rows)
    return card(
        f"TrainingRowExplanation of {explanation.output}",
        table(["row", "adds", "kernel", "dual coefficient", ""], rows),
        facts(
            {
                "intercept": explanation.intercept,
                "centre of the penalty": explanation.partition,
                f"{number(n_other)} other rows": explanation.remainder,
                "score": explanation.score,
            }
        ),
    )


@picture.register
def leave_one_out(result: LeaveOneOut) -> str:
    """The rows with the largest residuals when they are left out."""
    n_rows = len(result.rows)
    size = np.abs(result.loo_residuals.reshape(n_rows, -1)).max(axis=1, initial=0.0)
    shown = largest(size)
    rows = [(int(result.rows[i]), float(result.leverage[i]), float(size[i])) for i in shown]
    return card(
        "LeaveOneOut",
        facts(
            {
                "rows": n_rows,
                "degrees of freedom": result.degrees_of_freedom,
                "median leverage": quantiles(result.leverage)["median"],
            }
        ),
        table(["row", "leverage", "leave-one-out residual, absolute"], rows),
        left_out(len(shown), n_rows, "rows"),
        note(
            "Of the linear layer: in the shared regime the forest has still seen the row, and "
            "these are too small."
        ),
    )


def _one_row(result: Attribution, what: str) -> str:
    """The largest parts of one row's score, beside the row's values."""
    values = result.values.toarray() if sparse.issparse(result.values) else result.values
    own = np.asarray(values)[0]
    shown = largest(own)
    unit = float(np.abs(own).max(initial=0.0)) or 1.0
    known = result.data is not None and result.level != "node"
    rows = [
        (
            result.feature_names[j],
            str(column_of(result.data, int(j))[0]) if known else "",
            float(own[j]),
            Bar(float(own[j]) / unit),
        )
        for j in shown
    ]
    return table([what, "value", "adds", ""], rows) + left_out(len(shown), len(own), f"{what}s")


def _means_over_rows(result: Attribution, what: str) -> str:
    """Mean absolute values; a whole `summary()` would also sum by tree."""
    n_rows = max(1, result.n_rows)
    means = [
        np.asarray(abs(result.for_output(output).values).sum(axis=0)).ravel() / n_rows
        for output in result.outputs
    ]
    return _table_of_means(result.feature_names, means, result.outputs, what)


def _table_of_means(
    names: tuple[str, ...], means: list[FloatArray], outputs: tuple[Hashable, ...], what: str
) -> str:
    """Mean absolute values of the largest variables, a column an output."""
    means, total = means[:LONGEST_TABLE], np.sum(means, axis=0)
    shown = largest(total)
    unit = float(total.max(initial=0.0)) or 1.0
    header = ["mean absolute value"] if len(outputs) == 1 else [str(o) for o in outputs]
    rows = [
        (names[j], *(float(mean[j]) for mean in means), Bar(float(total[j]) / unit)) for j in shown
    ]
    return table(
        [what, *header[: len(means)], ""],
        rows,
        caption="" if len(outputs) == 1 else "mean absolute value, by output",
    ) + left_out(len(shown), len(names), f"{what}s")
