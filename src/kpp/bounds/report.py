"""All bounds of a model on one sample."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kpp._checks import RefusedError
from kpp._parallel import one_blas_thread
from kpp.bounds.assumptions import (
    Range,
    check_range,
    range_assumption,
    representation_assumption,
    rows_assumption,
)
from kpp.bounds.cross_validated import cross_validated_bounds
from kpp.bounds.grouped import group_bounds
from kpp.bounds.informed import NO_LIMITS, held_out_parts, informed_on, trivial_level
from kpp.bounds.lipschitz_losses import constant_level, held_out_loss_parts, name_of
from kpp.bounds.predictors import LinearPredictor
from kpp.bounds.rademacher import check_covers, check_radius, trace_bounds
from kpp.bounds.results import Assumption, Bound, BoundReport, check_delta
from kpp.bounds.samples import Sample, ask_for_bounds, sample_of
from kpp.bounds.terms import Parts
from kpp.bounds.uniform import uniform_bounds
from kpp.solvers import ClippedLoss


@one_blas_thread()
def risk_bounds(
    model: Any,
    X: Any,
    y: Any,
    *,
    delta: float = 0.05,
    sample: str = "fit",
    y_range: tuple[float, float] | None = None,
    groups: Any = None,
    independent_duplicates: bool = False,
    radius: float | None = None,
    unlabelled: Any = None,
) -> BoundReport:
    r"""Bound the risk of a fitted model, and say which of the bounds are guarantees.

    The paper's bounds are evaluated at `radius`, or at :math:`B = \|\hat w\|`: the trace bound
    (RG-02, CL-02), the uniform squared-loss bound with the printed constant and the one that its
    proof gives (RG-03), the uniform logistic bound and its calibration to the 0/1 error (CL-03).
    A regressor with Huber's or the pinball loss has the uniform bound of that loss in place of the
    squared one's; Poisson's has none. On the fit fold of an honest, fixed or cross-fit model with
    squared or log loss follow the informed bounds. On test rows follows the plain held-out bound
    of the model. The parts of a cross-validated model are bounded on the folds that they have not
    seen, instead of all these. All speak of the unweighted risk, also where the fit had weights.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline that ends in one
        Fitted. A preparation that has learned from the rows of the fit leaves no guarantee on them.
    X, y : arrays of shape (n_rows, n_features) and (n_rows,)
        The sample: for "fit" and "train" what was given to fit, all rows.
    delta : float
        Probability with which each bound may fail.
    sample : {"fit", "train", "test"}
        "fit": the rows that the linear layer was fitted on, found by ``fit_rows_``; a cross-fit
        model is taken fold by fold, each with delta over the number of folds. "train": all rows
        that were given to fit. "test": other rows, which fit has not used.
    y_range : tuple of float, optional
        L and U with :math:`L \le Y \le U`, known beforehand; regression only. Without it M and
        the limits are plugged in, and no bound of a regression is a guarantee; nor is one where
        a target of the call lies outside.
    groups : array-like of shape (n_rows,), optional
        Which rows of X belong together. Bounds that count rows are then no guarantees where a
        group has several; bounds that count groups are added, where folds or fit keep them
        whole.
    independent_duplicates : bool
        Whether rows that are equal in every column are independent draws that happen to agree,
        as in a table of few whole numbers. Otherwise they are taken for copies, and void what
        rests on independent rows.
    radius : float, optional
        B, fixed before the sample, with :math:`\|\hat w\| \le B` over all scores (fit with
        ``max_norm=B``): the paper's bounds are then those that it states, and can be guarantees
        on the fit fold. In the cross-fit regime it holds for the coefficients of every fold.
    unlabelled : array-like or data frame of shape (n_unlabelled, n_features), optional
        Rows without labels, drawn like the others, which fit has not used; for a classifier of the
        regime "cross-validated" and ``sample="fit"``. On them the folds' predictors and the model
        are compared, which bounds the 0/1 error of the vote and of the model itself.

    Returns
    -------
    report : BoundReport

    References
    ----------
    Propositions trace-rademacher and uniform-squared-loss-bound, theorem uniform-logistic-bound,
    equation logistic-calibration.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kpp import KPPClassifier
    >>> from kpp.bounds import risk_bounds
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=20, alpha=1e-3, random_state=0).fit(X, y)
    >>> report = risk_bounds(model, X, y)
    >>> report.names
    ['CL-02 trace', 'CL-02 trace, symmetrised', 'CL-03 uniform logistic', 'CL-03 calibrated']
    >>> report["CL-03 calibrated"].is_guarantee
    False
    >>> [assumption.name for assumption in report["CL-03 calibrated"].failing]
    ['representation independent of the sample', 'radius B fixed before the sample',
     'homogeneous class']
    """
    question = ask_for_bounds(model)
    check_delta(delta)
    limits, ball = check_range(question, y_range), check_radius(radius)
    data = sample_of(
        question, X, y, sample, groups=groups, independent_duplicates=independent_duplicates
    )
    is_regression = data.n_classes == 0
    of_left_out = sample == "fit" and question.regime.leaves_folds_out
    if unlabelled is not None and (is_regression or not of_left_out):
        raise RefusedError(
            "unlabelled rows are of use for a classifier with sample='fit' of "
            "regime='cross-validated' alone."
        )
    if of_left_out:
        if ball is not None:
            raise RefusedError(
                "radius belongs to the paper's bounds, and on the rows of a cross-validated fit "
                "there are none: its trees have seen the labels of its linear layers. Leave it "
                "out, or use sample='test'."
            )
        return cross_validated_bounds(data, delta, limits, unlabelled)
    if data.by_folds:
        found = _by_folds(data, delta, limits, ball)
    else:
        check_covers(ball, data.predictor)
        found = _of_the_paper(data, data.predictor, delta, limits, ball)
    loss = question.model.loss_
    if isinstance(loss, ClippedLoss):
        notes = [
            f"No informed bound: these are of squared errors, and this model has the "
            f"{name_of(loss)} loss."
        ]
        if sample == "test":
            found += _held_out(data, delta, limits)
            notes = [] if limits is not None else ["No held-out bound: give y_range."]
        return BoundReport(found, notes)
    notes = []
    fresh = sample == "test" or (sample == "fit" and not question.regime.grows_on_fit_rows)
    if data.groups is not None and fresh and not data.by_folds:
        found += group_bounds(data, delta, limits)
    if sample == "test":
        found += _held_out(data, delta, limits)
        if is_regression and limits is None:
            notes.append(
                "No held-out bound: the squared loss of a target without limits has none that "
                "the sample could show; give y_range."
            )
    elif sample == "fit" and not question.regime.grows_on_fit_rows:
        found += informed_on(data, delta, limits)
        if is_regression and not any("clipped" in bound.quantity for bound in found):
            notes.append(
                "No informed bound: there are no limits of Y. The fixed regime has no partition "
                "fold to take them from, and a constant target has no range; give y_range."
            )
    else:
        notes.append(
            "No informed bound: it needs sample='fit' and a regime other than 'shared', whose "
            "forest has seen all labels."
        )
    return BoundReport(found, notes)


def _of_the_paper(
    sample: Sample,
    predictor: LinearPredictor,
    delta: float,
    y_range: Range | None,
    radius: float | None,
) -> list[Bound]:
    bounds = trace_bounds(sample, predictor, delta, radius)
    return bounds + uniform_bounds(sample, predictor, delta, y_range, radius)


def _by_folds(
    sample: Sample, delta: float, y_range: Range | None, radius: float | None
) -> list[Bound]:
    """The paper's bounds fold by fold; the logistic and squared losses are convex."""
    by_name: dict[str, list[Bound]] = {}
    predictors = sample.folds()
    for q, predictor in enumerate(predictors):
        check_covers(radius, predictor, f" in fold {q}")
        for bound in _of_the_paper(sample, predictor, delta / len(predictors), y_range, radius):
            own = replace(bound, name=f"{bound.name}, fold {q}")
            by_name.setdefault(bound.name, []).append(own)
    return [bound for bounds in by_name.values() for bound in bounds]


def _held_out(sample: Sample, delta: float, y_range: Range | None) -> list[Bound]:
    limits = NO_LIMITS if y_range is None else y_range
    predictor, seen = sample.predictor, sample.seen
    loss, n = sample.question.model.loss_, predictor.n_classes
    level = trivial_level(predictor.target, n)
    if isinstance(loss, ClippedLoss):
        found = held_out_loss_parts(loss, predictor, limits, delta)
        parts = None if found is None else Parts(found[0], 0.0, found[1], {})
        level = constant_level(loss, predictor.target)
    else:
        parts = held_out_parts(predictor, limits, delta)
    if parts is None:
        return []
    assumptions = [
        Assumption(
            "predictor fixed before the sample",
            None if seen is None else False,
            seen or "the caller says that fit has not used these rows",
        ),
        rows_assumption(sample),
        representation_assumption(sample),
    ]
    if n:
        quantity = "0/1 error"
    else:
        of_loss = name_of(loss) if isinstance(loss, ClippedLoss) else "squared"
        quantity = f"{of_loss} loss, clipped"
        assumptions.append(range_assumption(predictor.target, limits))
    return [
        Bound(
            name="held-out bound",
            quantity=quantity,
            empirical_risk=parts.empirical_risk,
            complexity=0.0,
            confidence=parts.confidence,
            trivial_level=level,
            regime=sample.question.regime.name,
            sample="test",
            n_rows=predictor.n_rows,
            delta=delta,
            assumptions=tuple(assumptions),
        )
    ]
