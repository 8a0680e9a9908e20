r"""Bounds of a model that has used every row, by the folds that its parts have not seen.

Theorems 5 and 6 of docs/bounds.md. With :math:`g_q` the predictor without fold q, and losses in
[0, 1], the mean of their risks is bounded by `folds_betting`, and for losses that are 0 or 1 by
`folds_binomial`. That is the risk of one of them, drawn at random; convexity, or a count of votes,
carries it over to one predictor that all of them make together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from kpp._typing import FloatArray
from kpp.bounds.assumptions import (
    Range,
    preparation_assumptions,
    range_assumption,
    rows_assumption,
)
from kpp.bounds.combined import (
    CLIPPED,
    LOG_ODDS,
    MODEL,
    PROBABILITIES,
    RANDOM,
    SCORES,
    VOTE,
    log_scores,
    margin_scores,
)
from kpp.bounds.dissent import Unlabelled
from kpp.bounds.grouped import groups_assumption, n_divided_groups
from kpp.bounds.left_out import LeftOut
from kpp.bounds.lipschitz_losses import constant_level, name_of, threshold_assumption
from kpp.bounds.results import Assumption, Bound, BoundReport
from kpp.bounds.samples import Sample
from kpp.forest.columns import categorical_columns
from kpp.models.intervals import predictors_of
from kpp.models.nested import NESTED
from kpp.solvers import ClippedLoss, Loss

# Where scores may be cut, for the error of their mean and for its log loss. One that is chosen by
# the rows is one of so many, and counted like an alpha.
MARGINS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
LOG_CLIPS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
NAME = "cross-validated"


def cross_validated_bounds(
    sample: Sample, delta: float, y_range: Range | None, unlabelled: Any = None
) -> BoundReport:
    """Bound the risks of a cross-validated model on the rows of its fit.

    Parameters
    ----------
    sample : Sample
        Of kind "fit".
    delta : float
        Probability with which each bound may fail; those of one fold at random and of the vote
        hold together.
    y_range : tuple of float, optional
        Limits of the target, for regression.
    unlabelled : array-like or data frame of shape (n_unlabelled, n_features), optional
        For classes further rows, for the 0/1 error of the vote and of the model itself.

    Returns
    -------
    report : BoundReport
        For classes the 0/1 error of a fold at random, of the vote and of the mean of clipped
        scores, the log loss of clipped log-odds, the Brier score of the mean probabilities and,
        with unlabelled rows, the 0/1 errors of the vote and of the model by their dissent; for
        numbers the loss of the mean of clipped predictions. With groups that the folds keep whole
        follow the same, of a random row of a random group.
    """
    model = sample.model
    predictors = predictors_of(model, "risk_bounds")
    scores = predictors.scores(sample.rows)
    by_rows = LeftOut(
        scores=scores[predictors.fold_of_row, np.arange(len(sample.rows))],
        target=sample.target,
        fold_of_row=predictors.fold_of_row,
        n_classes=sample.n_classes,
        n_candidates=model.fit_record_.n_candidates,
    )
    notes = [
        "The paper's bounds are not among these: trees and linear layer of a fold have seen the "
        "same labels. Each bound speaks of the predictor that its quantity names; "
        "bounded_prediction predicts by it."
    ]
    if by_rows.n_candidates > 1:
        notes.append(
            f"All parts share what was chosen among N = {by_rows.n_candidates:,}, and every bound "
            "pays for these; parts that choose for themselves, alpha_selection='nested', do not."
        )
    further: tuple[Assumption, ...] = ()
    limits, outside = y_range, 0.0
    if not sample.n_classes:
        if limits is None:
            limits = float(sample.target.min()), float(sample.target.max())
            notes.append("The limits of Y are those of these rows; for a guarantee give y_range.")
        if not limits[0] < limits[1]:
            return BoundReport([], [*notes, "No bound: a constant target has no range."])
        of_range = range_assumption(sample.target, limits)
        if y_range is None:
            of_range = Assumption("range of Y", False, "taken from these rows; give y_range")
        further = (of_range,)
        if isinstance(model.loss_, ClippedLoss):
            # A threshold that was read from all labels is known to every fold's predictor.
            further += (*threshold_assumption(sample, model.loss_),)
        is_outside = (scores < limits[0]) | (scores > limits[1])
        outside = float(is_outside.any(axis=(0, 2)).mean())
    ways = [(by_rows, rows_assumption(sample), "", "")]
    if sample.groups is not None:
        if n_divided := n_divided_groups(sample, predictors.fold_of_row):
            notes.append(
                f"No bound that counts groups: {n_divided} of them have rows in several folds. "
                "Give groups to fit."
            )
        else:
            by_groups = replace(by_rows, groups=sample.groups)
            of_groups = groups_assumption(sample)
            ways.append((by_groups, of_groups, " by groups", ", a random row of a random group"))
    bounds = []
    for left_out, of_draws, suffix, which in ways:
        if limits is not None:
            found = [_of_loss(model.loss_, left_out, limits, delta, outside)]
        else:
            probability = predictors.probabilities(left_out.scores)
            wrong = (probability.argmax(axis=1) != left_out.target).astype(np.float64)
            found = [
                *_errors(left_out, wrong, delta),
                _of_mean_scores(left_out, delta),
                _log_loss(left_out, delta),
                _brier(left_out, probability, delta),
            ]
            if unlabelled is not None and left_out is by_rows:
                found += _by_dissent(left_out, wrong, Unlabelled.of(sample, unlabelled), delta)
        sizes = left_out.sizes
        common = {
            "n_folds": len(sizes),
            "smallest fold": int(sizes.min()),
            "largest fold": int(sizes.max()),
            "N": left_out.n_candidates,
        }
        if left_out.groups is not None:
            common["groups"] = int(sizes.sum())
        assumptions = (
            of_draws,
            _without_its_fold(sample),
            _counted(sample),
            *preparation_assumptions(sample),
            *further,
        )
        bounds += [
            Bound(
                name=f"{NAME} {part.name}{suffix}",
                quantity=f"{part.quantity}{which}",
                empirical_risk=part.mean,
                complexity=part.price,
                confidence=part.total - part.mean - part.price,
                trivial_level=part.level,
                regime=sample.question.regime.name,
                sample="fit",
                n_rows=len(sample.rows),
                delta=delta,
                assumptions=(*assumptions, *part.assumptions),
                details={"combined": part.combined, **part.details, **common},
            )
            for part in found
        ]
    return BoundReport(bounds, notes)


@dataclass(frozen=True)
class _Part:
    """A bound without what all of them share."""

    name: str
    quantity: str
    combined: str
    mean: float
    price: float
    total: float
    level: float
    details: dict[str, Any]
    assumptions: tuple[Assumption, ...] = ()


def vote_factor(n_folds: int) -> float:
    r"""How often the mean error of the folds counts for the error of their vote.

    Where the vote is wrong, the right class has at most half of the votes: at least
    :math:`\lceil Q/2 \rceil` of Q predictors are wrong, and by Markov's inequality that is so
    with probability at most :math:`Q / \lceil Q/2 \rceil` times their mean error.

    Parameters
    ----------
    n_folds : int
        Q.

    Returns
    -------
    factor : float
        2 where Q is even, :math:`2Q / (Q + 1)` where it is odd.

    Examples
    --------
    >>> from kpp.bounds.cross_validated import vote_factor
    >>> vote_factor(3), vote_factor(4)
    (1.5, 2.0)
    """
    return n_folds / -(-n_folds // 2)


def _errors(left_out: LeftOut, wrong: FloatArray, delta: float) -> list[_Part]:
    """One predictor at random, and the vote: the same event, so that both hold together."""
    level = left_out.trivial_level
    mean, bound = left_out.error_bound(wrong, delta)
    factor = vote_factor(len(left_out.sizes))
    return [
        _Part(
            "randomised",
            "0/1 error: of one fold's predictor, drawn at random",
            RANDOM,
            mean,
            0.0,
            bound,
            level,
            {},
        ),
        _Part(
            "vote",
            "0/1 error: of the vote of the folds' predictors",
            VOTE,
            mean,
            (factor - 1) * mean,
            factor * bound,
            level,
            {"factor": factor},
        ),
    ]


def _by_dissent(
    left_out: LeftOut, wrong: FloatArray, unlabelled: Unlabelled, delta: float
) -> list[_Part]:
    """Vote and model err where a part errs, or where the two disagree; half of delta for each."""
    mean, bound = left_out.error_bound(wrong, delta / 2)
    n_rows, factor = unlabelled.chosen.shape[1], vote_factor(len(left_out.sizes))
    found = []
    for name, quantity, combined, of, most in (
        ("vote by dissent", "the vote of the folds' predictors", VOTE, "vote", factor * bound),
        ("model", "the model itself", MODEL, "model", np.inf),
    ):
        apart = unlabelled.from_the_vote if of == "vote" else unlabelled.from_the_model
        dissent, of_dissent = apart(delta / 2)
        # The factor of a vote needs no event beyond that of the mean error.
        total = min(bound + of_dissent, most)
        found.append(
            _Part(
                name,
                f"0/1 error: of {quantity}",
                combined,
                mean,
                dissent,
                total,
                left_out.trivial_level,
                {
                    "dissent": dissent,
                    "bound of the dissent": of_dissent,
                    "unlabelled rows": n_rows,
                },
                (unlabelled.assumption,),
            )
        )
    return found


def _of_mean_scores(left_out: LeftOut, delta: float) -> _Part:
    """A hinge: where the mean of the margins is not positive, that of 1 - margin is at least 1."""
    rows = np.arange(len(left_out.target))

    def hinges(margin: float) -> tuple[FloatArray, float]:
        v = margin_scores(left_out.scores, margin)
        others = v.copy()
        others[rows, left_out.target] = -np.inf
        own = v[rows, left_out.target] - others.max(axis=1)
        return 1 - own / margin, 2.0

    margin, mean, bound = left_out.best(hinges, MARGINS, delta)
    return _Part(
        "average",
        f"0/1 error: of the mean of the folds' scores, each cut at margins of {margin:g}",
        SCORES,
        mean,
        0.0,
        bound,
        left_out.trivial_level,
        {"clip": margin, "cells": len(MARGINS)},
    )


def _log_loss(left_out: LeftOut, delta: float) -> _Part:
    rows, k = np.arange(len(left_out.target)), left_out.n_classes

    def losses(clip: float) -> tuple[FloatArray, float]:
        v = log_scores(left_out.scores, clip)
        own = logsumexp(v, axis=1) - v[rows, left_out.target]
        # The right class as low as may be, all others at the top.
        return own, clip + float(np.log(k - 1 + np.exp(-clip)))

    clip, mean, bound = left_out.best(losses, LOG_CLIPS, delta)
    share = left_out.class_shares
    return _Part(
        "log loss",
        f"log loss: of the mean of the folds' log-odds, each cut at {clip:g}",
        LOG_ODDS,
        mean,
        0.0,
        bound,
        float(-np.sum(share * np.log(np.where(share > 0, share, 1.0)))),
        {"clip": clip, "cells": len(LOG_CLIPS)},
    )


def _brier(left_out: LeftOut, probability: FloatArray, delta: float) -> _Part:
    """As scikit-learn has it: of two classes the square of one difference, otherwise their sum."""
    k = left_out.n_classes
    truth = np.eye(k)[left_out.target]
    half = np.square(probability - truth).sum(axis=1) / 2
    mean, bound = left_out.bound(half, delta)
    scale = 1.0 if k == 2 else 2.0
    share = left_out.class_shares
    return _Part(
        "Brier score",
        "Brier score: of the mean of the folds' probabilities",
        PROBABILITIES,
        mean * scale,
        0.0,
        bound * scale,
        scale * float(np.sum(share * (1 - share)) / 2),
        {},
    )


def _of_loss(
    loss: Loss | None, left_out: LeftOut, limits: Range, delta: float, outside: float
) -> _Part:
    """The loss of the fit, which is convex in the prediction: squared, Huber's or the pinball."""
    width = limits[1] - limits[0]
    error = left_out.target - np.clip(left_out.scores[:, 0], *limits)
    if isinstance(loss, ClippedLoss):
        (clip,) = loss.clips
        name, losses = name_of(loss), clip.values(error)
        # Of groups it is not known: a constant would have to be found by their weights.
        level = np.nan if left_out.groups is not None else constant_level(loss, left_out.target)
        most = float(clip.values(np.array([-width, width])).max())
    else:
        name, losses, level = "squared", np.square(error), left_out.trivial_level
        most = width**2
    mean, bound = left_out.bound(losses / most, delta)
    return _Part(
        f"{name} loss",
        f"{name} loss, clipped: of the mean of the folds' predictions, each clipped to the limits",
        CLIPPED,
        mean * most,
        0.0,
        bound * most,
        level,
        {"clip": limits, "share outside": outside},
    )


def _without_its_fold(sample: Sample) -> Assumption:
    """Say whether the predictor of a fold is made of the other folds alone."""
    name, record = "every part without its fold", sample.model.fit_record_
    if record.class_weight == "balanced":
        return Assumption(
            name,
            False,
            "class_weight='balanced' counts the labels of all folds; give the weights as a dict",
        )
    said = []
    if record.caller_weights:
        said.append(f"{' and '.join(record.caller_weights)} was made without these labels")
    if any(categorical_columns(b.forest).any() for b in sample.question.additive.blocks):
        said.append("the lists of categories, which are read from all rows, were known before")
    if said:
        return Assumption(name, None, f"the caller says that {', and that '.join(said)}")
    return Assumption(name, True, "trees and linear layer of each were made of the other folds")


def _counted(sample: Sample) -> Assumption:
    """Say among how many the fit has chosen, and whose word that is."""
    name, model = "choices counted", sample.model
    record, n = model.fit_record_, model.fit_record_.n_candidates
    blend = "" if model.blend_weights_ is None else " and weights on a lattice"
    if model.alpha_selection_ == NESTED:
        what = "alpha" if model.blend_weights_ is None else "alphas and weights"
        if record.alphas_given:
            why = f"the caller says that the alphas were not made by these labels; N = {n}"
            return Assumption(name, None, why)
        return Assumption(name, True, f"N = {n}: every part has chosen {what} on its own rows")
    if model.alpha_selection_ == "given" or record.alphas_given:
        what = "alpha" if model.alpha_selection_ == "given" else "the grid of alphas"
        return Assumption(
            name,
            None,
            f"N = {n:,}{blend}; the caller says that {what} was not made by these labels",
        )
    return Assumption(name, True, f"N = {n:,}: a fixed grid of relative alphas{blend}")
