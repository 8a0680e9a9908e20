"""What a bound rests on: who has seen which labels, how rows were drawn, limits of the target."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit

from kpp._checks import RefusedError
from kpp._typing import AnyArray
from kpp.bounds.results import Assumption
from kpp.bounds.samples import Sample
from kpp.models.asking import Question
from kpp.models.linear import KPPLinearModel
from kpp.models.pipelines import has_learned
from kpp.models.regimes import regime_of

UNSTRATIFIED = (KFold, RepeatedKFold, ShuffleSplit)
PREPARED = Assumption(
    "columns prepared without these rows",
    False,
    "the preparation was fitted on the rows that the bound is of",
)
Range = tuple[float, float]


def representation_assumption(
    model: KPPLinearModel, sample: str, seen: str | None = None
) -> Assumption:
    """Say whether the representation has seen the labels of the sample; `seen` is why it may."""
    name = "representation independent of the sample"
    if sample == "test":
        if seen is not None:
            return Assumption(name, False, seen)
        return Assumption(name, None, "the caller says that these rows were not used by fit")
    regime = regime_of(model)
    holds, why = regime.independence
    if holds and sample == "train":
        return Assumption(
            name, False, "part of these rows grew the trees; the fit fold alone did not"
        )
    if regime.averages_folds and isinstance(getattr(model, "class_weight", None), str):
        return Assumption(
            name,
            False,
            "class_weight='balanced' counts the labels of all folds, and its weights reach the "
            "trees of each; give the weights as a dict",
        )
    return Assumption(name, holds, why)


def rows_assumption(model: KPPLinearModel, sample: str) -> Assumption:
    """Say whether the rows are independent draws, given what fixed the class."""
    name = "independent rows"
    if sample != "test" and regime_of(model).averages_folds:
        drawn = isinstance(model.cv, int | np.integer) and model.additive_.classes is None
        if not drawn and not isinstance(model.cv, UNSTRATIFIED):
            return Assumption(
                name,
                False,
                "stratified folds, or folds that may be: the labels of a fold then depend on the "
                "other folds. Use cv=KFold(5, shuffle=True)",
            )
    return Assumption(name, None, "rows are taken as independent draws of one distribution")


def preparation_assumptions(sample: Sample) -> tuple[Assumption, ...]:
    """Return what fails where a Pipeline has learned from the rows of its own fit; else nothing."""
    learned = sample.kind != "test" and has_learned(sample.question.preparation)
    return (PREPARED,) if learned else ()


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
