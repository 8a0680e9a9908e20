"""What a bound rests on: who has seen which labels, how rows were drawn, limits of the target.

The one place that decides what holds: bounds, oracles, dashboards and reports ask here. What it
knows of the fit is the model's `fit_record_`, which later changes of parameters do not touch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._checks import RefusedError
from kpp._typing import AnyArray
from kpp.bounds.results import Assumption
from kpp.bounds.samples import SAY_SO, Sample
from kpp.models.asking import Question
from kpp.models.linear import KPPLinearModel
from kpp.models.pipelines import has_learned
from kpp.models.regimes import regime_of

# Kinds of folds that do not look at labels.
UNSTRATIFIED = ("random", "grouped")
PREPARED = Assumption(
    "columns prepared without these rows",
    False,
    "the preparation was fitted on the rows that the bound is of",
)
DRAWS = "rows are taken as independent draws of one distribution"
Range = tuple[float, float]


def representation_assumption(sample: Sample) -> Assumption:
    """Say whether the representation has seen the labels of the sample."""
    name = "representation independent of the sample"
    record, regime = sample.model.fit_record_, sample.question.regime
    if sample.kind == "test":
        if sample.seen is not None:
            return Assumption(name, False, sample.seen)
        return Assumption(name, None, "the caller says that these rows were not used by fit")
    holds, why = regime.independence
    if holds and sample.kind == "train":
        return Assumption(
            name, False, "part of these rows grew the trees; the fit fold alone did not"
        )
    if regime.averages_folds and record.class_weight == "balanced":
        return Assumption(
            name,
            False,
            "class_weight='balanced' counts the labels of all folds, and its weights reach the "
            "trees of each; give the weights as a dict",
        )
    if holds is not False and record.caller_weights:
        given = " and ".join(record.caller_weights)
        return Assumption(
            name, None, f"{why}; and the caller says that {given} was made without these labels"
        )
    return Assumption(name, holds, why)


def rows_assumption(sample: Sample) -> Assumption:
    """Say whether the rows are independent draws, given what fixed the class."""
    on_fit = fit_rows_assumption(sample.model)
    if sample.kind != "test" and on_fit.holds is False:
        return on_fit
    name = on_fit.name
    if sample.largest_group > 1:
        return Assumption(
            name, False, _of_groups(sample.largest_group, "the rows come in groups of up to")
        )
    if sample.kind == "test" and sample.groups is None and sample.model.fit_record_.is_grouped:
        return Assumption(
            name,
            False,
            "the rows of the fit came in groups of several rows, and those of the call may: give "
            "groups",
        )
    if sample.n_twins == 0:
        return Assumption(name, None, DRAWS)
    among = "another of them" if sample.kind == "test" else "another row that fit was given"
    twins = f"{sample.n_twins} of these {len(sample.rows)} rows equal {among} in every column"
    if sample.independent_duplicates:
        return Assumption(
            name, None, f"{twins}; the caller says that they are independent draws, as are all rows"
        )
    return Assumption(
        name,
        False,
        f"{twins}, and copies of a row are not independent draws. Where rows agree by chance, as "
        f"in a table of few whole numbers, say {SAY_SO}; where they belong together, give groups "
        "to fit; otherwise drop the copies",
    )


def fit_rows_assumption(model: KPPLinearModel) -> Assumption:
    """Say whether rows of a fit may be independent draws, by its groups and folds alone."""
    name, record = "independent rows", model.fit_record_
    if record.is_grouped:
        start = f"the fit was given {record.n_groups} groups of up to"
        return Assumption(name, False, _of_groups(record.largest_group, start))
    if regime_of(model).averages_folds and record.folds not in UNSTRATIFIED:
        return Assumption(
            name,
            False,
            "stratified folds, or folds that may be: the labels of a fold then depend on the "
            "other folds. Use cv=KFold(5, shuffle=True)",
        )
    return Assumption(name, None, DRAWS)


def _of_groups(largest: int, start: str) -> str:
    return (
        f"{start} {largest} rows: rows of a group are not independent draws, and n counts rows, "
        "not groups"
    )


def preparation_assumptions(sample: Sample) -> tuple[Assumption, ...]:
    """Return what fails where a Pipeline has learned from the rows of its own fit; else nothing."""
    learned = sample.kind != "test" and has_learned(sample.question.preparation)
    return (PREPARED,) if learned else ()


def is_honest(sample: Sample) -> bool | None:
    """Whether the trees know nothing of these labels; None where only the caller knows."""
    holds = representation_assumption(sample).holds
    if sample.kind == "test" or holds is False:
        return holds
    if sample.question.regime.splits_rows and sample.model.fit_record_.is_grouped:
        # Whole groups on either side: dependent among each other, but not on the trees.
        leaks = sample.n_leaked > 0 and not sample.independent_duplicates
    else:
        leaks = rows_assumption(sample).holds is False  # folds by label, groups, copies
    return False if leaks or preparation_assumptions(sample) else holds


def check_range(question: Question, y_range: Any) -> Range | None:
    """Refuse limits that are not two rising numbers, or that a classifier has no use for."""
    if y_range is None:
        return None
    if question.is_classifier:
        raise RefusedError(
            f"y_range holds the limits of a number; this is a classifier; got {y_range!r}."
        )
    return check_limits(y_range)


def check_limits(y_range: Any) -> Range | None:
    """Refuse limits that are not two rising numbers; None stays None."""
    if y_range is None:
        return None
    try:
        low, high = (float(limit) for limit in y_range)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise RefusedError(f"y_range must be two finite numbers L < U; got {y_range!r}.")
    return low, high


def range_assumption(y: AnyArray, limits: Range, name: str = "range of Y") -> Assumption:
    """Take limits that the caller knows on trust, unless the target contradicts them."""
    y = np.asarray(y, dtype=np.float64)
    outside = int(np.count_nonzero((y < limits[0]) | (y > limits[1])))
    said = f"the caller says that Y lies in [{limits[0]:g}, {limits[1]:g}]"
    if outside:
        return Assumption(name, False, f"{said}; {outside} of the {len(y)} rows given do not")
    return Assumption(name, None, said)
