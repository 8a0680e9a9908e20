"""Held-out bounds that count groups of rows, not rows."""

from __future__ import annotations

import numpy as np

from kpp._fingerprints import row_fingerprints
from kpp._typing import AnyArray, FloatArray
from kpp.bounds.assumptions import (
    UNSTRATIFIED,
    Range,
    preparation_assumptions,
    range_assumption,
    representation_assumption,
)
from kpp.bounds.held_out import held_out_bound
from kpp.bounds.informed import NO_LIMITS, clipped_losses, loss_scale, make_frame
from kpp.bounds.predictors import LinearPredictor
from kpp.bounds.results import Assumption, Bound
from kpp.bounds.samples import SAY_SO, Sample


def group_bounds(sample: Sample, delta: float, y_range: Range | None) -> list[Bound]:
    r"""Bound the mean loss within a group, for a predictor that was fixed before the sample.

    .. math:: E\,\bar\ell_g \le \sup \{ p : K(p) < 1 / \delta \}, \qquad
        \bar\ell_g = \frac{1}{|g|} \sum_{i \in g} \ell_i,

    with K of `held_out_betting` from the G means; where every group has one row, and an error or
    none, by the exact tail of their count.

    The mean loss of a group lies in [0, 1] and is one draw, however its rows depend on each
    other: n is the number of groups. Groups count alike, so that this is the risk of a row only
    where all groups are of one size; elsewhere that of a random row of a random group. On test
    rows the predictor is the model, on the fit fold its centre.

    Parameters
    ----------
    sample : Sample
        With groups, of kind "test" or "fit"; the latter not of an average of folds.
    delta : float
        Probability with which the bound may fail.
    y_range : tuple of float, optional
        Limits of the target, for regression.

    Returns
    -------
    bounds : list of Bound
        One, or none where there are no limits of the target.
    """
    assert sample.groups is not None
    limits_known = y_range is not None
    if sample.kind == "test":
        predictor, name = sample.predictor, "held-out bound by groups"
        limits = y_range or NO_LIMITS
    else:
        frame = make_frame(sample, y_range)
        predictor = frame.center_at(sample.predictor)
        name, limits = "held-out bound of the centre by groups", frame.limits
    scale = loss_scale(predictor, limits)
    if scale is None:
        return []
    codes = np.unique(sample.groups[sample.index], return_inverse=True)[1].ravel()
    sizes = np.bincount(codes)
    losses = _means_of_groups(clipped_losses(predictor, limits), codes)
    # A group of one row has an error or none.
    are_errors = predictor.n_classes > 0 and int(sizes.max()) == 1
    bound = held_out_bound(losses / scale, delta, are_errors=are_errors) * scale
    risk = float(losses.mean())
    assumptions = [_independent_groups(sample), representation_assumption(sample)]
    if not predictor.n_classes:
        known = range_assumption(sample.all_target, limits)
        plugged_in = Assumption("range of Y", False, "taken from the partition fold; give y_range")
        assumptions.append(known if limits_known else plugged_in)
    of_loss = "0/1 error" if predictor.n_classes else "squared loss, clipped"
    return [
        Bound(
            name=name,
            quantity=f"{of_loss}: of a random row of a random group",
            empirical_risk=risk,
            complexity=0.0,
            confidence=bound - risk,
            trivial_level=_trivial_level(predictor, codes),
            regime=sample.question.regime.name,
            sample=sample.kind,
            n_rows=predictor.n_rows,
            delta=delta,
            assumptions=(*assumptions, *preparation_assumptions(sample)),
            details={
                "groups": len(sizes),
                "smallest": int(sizes.min()),
                "largest": int(sizes.max()),
            },
        )
    ]


def _means_of_groups(values: FloatArray, codes: AnyArray) -> FloatArray:
    return np.bincount(codes, values) / np.bincount(codes)


def _mean_of_groups(values: FloatArray, codes: AnyArray) -> float:
    return float(_means_of_groups(values, codes).mean())


def _trivial_level(predictor: LinearPredictor, codes: AnyArray) -> float:
    """Loss of the best constant, groups counted alike."""
    y = predictor.target
    if predictor.n_classes:
        shares = [_mean_of_groups(y == k, codes) for k in range(predictor.n_classes)]
        return 1 - max(shares)
    return _mean_of_groups(np.square(y - _mean_of_groups(y, codes)), codes)


def _independent_groups(sample: Sample) -> Assumption:
    """Say whether groups may be independent draws: whole on one side, and not copies."""
    name, groups = "independent groups", sample.groups
    assert groups is not None
    inside = np.zeros(len(groups), dtype=bool)
    inside[sample.index] = True
    divided = np.intersect1d(groups[inside], groups[~inside])
    if len(divided):
        return Assumption(
            name,
            False,
            f"{len(divided)} groups have rows that grew the trees and rows of the sample: give "
            "groups to fit",
        )
    prints = row_fingerprints(sample.all_rows.X)
    pairs = np.unique(np.column_stack([prints, groups.astype(np.uint64)]), axis=0)
    copies = len(pairs) - len(np.unique(prints))
    if copies and not sample.independent_duplicates:
        return Assumption(
            name,
            False,
            f"{copies} rows equal one of another group in every column; if groups agree by "
            f"chance, say {SAY_SO}",
        )
    others = "" if sample.kind == "fit" else ", and others than those of the fit"
    return Assumption(name, None, f"groups are taken as independent draws{others}")


def n_divided_groups(sample: Sample, fold_of_row: AnyArray) -> int:
    """Groups of a sample with rows in several folds.

    Parameters
    ----------
    sample : Sample
        With groups.
    fold_of_row : int array of shape (n_rows,)
        The fold that each of its rows was left out with.

    Returns
    -------
    n_divided : int
    """
    assert sample.groups is not None
    pairs = np.unique(np.column_stack([sample.groups[sample.index], fold_of_row]), axis=0)
    return len(pairs) - len(np.unique(pairs[:, 0]))


def groups_assumption(sample: Sample) -> Assumption:
    """Say whether the groups of a fold may be independent draws, given the other folds.

    Parameters
    ----------
    sample : Sample
        Of a model that leaves folds out, with groups that these keep whole.

    Returns
    -------
    assumption : Assumption
    """
    of_groups = _independent_groups(sample)
    if of_groups.holds is not False and sample.model.fit_record_.folds not in UNSTRATIFIED:
        return Assumption(
            of_groups.name,
            False,
            "folds by class or by the sizes of groups, or folds that may be: give cv as a number, "
            "or GroupKFold(5, shuffle=True)",
        )
    return of_groups
