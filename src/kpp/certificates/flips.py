"""The ways in which an answer can change, each as a margin that reaches 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kpp._typing import FloatArray, OffsetArray
from kpp.certificates.node_tables import UNIT, Contrast, NodeTables
from kpp.scores import AdditiveForest


@dataclass(frozen=True, eq=False)
class Flip:
    r"""One way for the answer to change: the margin :math:`o + \sum_t v_t(\ell_t)` reaching 0.

    A class against another, or an output against a tolerance. The offset holds what is not in
    the leaves, and already gives away the rounding :math:`\tau` of the model's own sums.

    Parameters
    ----------
    rows : int array of shape (n,)
        The rows that it is about.
    contrast : Contrast
        Which scores.
    value : array of shape (n_nodes,)
        What each node's leaf value adds to the margin.
    offset : array of shape (n,)
        o, one number per row.
    margin : array of shape (n,)
        The margin as it is reported, without rounding.
    norm : float
        :math:`\|w\|` of the margin as a function on the embedding, rounded up.
    weight_error : float
        How far leaf values may lie from w, for the Lipschitz radius.
    tau : float
        The rounding that the offset gives away.
    to : int
        The class that the answer would change to; for a regressor -1 for falling, 1 for rising.
    terms : array of shape (p,)
        Coefficients of the linear terms in the margin.
    """

    rows: OffsetArray
    contrast: Contrast
    value: FloatArray
    offset: FloatArray
    margin: FloatArray
    norm: float
    weight_error: float
    tau: float
    to: int
    terms: FloatArray = field(default_factory=lambda: np.zeros(0))


def flips_of(tables: NodeTables, scores: FloatArray, epsilon: FloatArray | None) -> Iterator[Flip]:
    """Yield every way in which the answers of rows with these scores can change.

    Parameters
    ----------
    tables : NodeTables
        The model.
    scores : array of shape (n_rows, n_scores)
        Scores of the rows.
    epsilon : array of shape (n_scores,), optional
        Tolerances of a regressor, from `check_epsilon`.

    Yields
    ------
    flip : Flip
    """
    if epsilon is not None:
        return _leaving_a_band(tables, scores, epsilon)
    if scores.shape[1] == 1:
        return _changing_sign(tables, scores[:, 0])
    return _losing_to_a_class(tables, scores)


def _changing_sign(tables: NodeTables, score: FloatArray) -> Iterator[Flip]:
    tau = tables.score_error(0)
    for sign in (1, -1):
        # The positive class is predicted where the score exceeds 0, strictly.
        rows = np.flatnonzero(score > 0 if sign > 0 else score <= 0)
        if len(rows):
            offset = np.full(len(rows), sign * tables.intercept[0])
            margin, to = sign * score[rows], int(sign < 0)
            yield _flip(tables, Contrast(0, None, sign), rows, offset, margin, tau, to)


def _losing_to_a_class(tables: NodeTables, scores: FloatArray) -> Iterator[Flip]:
    predicted = scores.argmax(axis=1)
    n_scores = scores.shape[1]
    errors = [tables.score_error(k) for k in range(n_scores)]
    for c in np.unique(predicted).tolist():
        rows = np.flatnonzero(predicted == c)
        for k in range(n_scores):
            if k == c:
                continue
            # The difference of two floats is rounded once more, relative to both.
            tau = 2 * (errors[c] + errors[k])
            offset = np.full(len(rows), tables.intercept[c] - tables.intercept[k])
            margin = scores[rows, c] - scores[rows, k]
            yield _flip(tables, Contrast(c, k, 1), rows, offset, margin, tau, k)


def _leaving_a_band(tables: NodeTables, scores: FloatArray, epsilon: FloatArray) -> Iterator[Flip]:
    rows = np.arange(len(scores))
    for k, score in enumerate(scores.T):
        # Both predictions are rounded: the one that is compared with, and the new one.
        tau = 2 * tables.score_error(k) + 4 * UNIT * epsilon[k]
        margin = np.full(len(rows), epsilon[k])
        for sign in (1, -1):
            # sign = 1: the output falls by epsilon; -1: it rises by epsilon.
            offset = sign * (tables.intercept[k] - score) + epsilon[k]
            yield _flip(tables, Contrast(k, None, sign), rows, offset, margin, tau, -sign)


def _flip(
    tables: NodeTables,
    contrast: Contrast,
    rows: OffsetArray,
    offset: FloatArray,
    margin: FloatArray,
    tau: float,
    to: int,
) -> Flip:
    """Look up what the nodes add to a margin, and give its rounding away."""
    return Flip(
        rows=rows,
        contrast=contrast,
        value=tables.value(contrast),
        offset=offset - tau,
        margin=margin,
        norm=tables.norm(contrast),
        weight_error=float(tables.weight_error[contrast.scores].sum()),
        tau=tau,
        terms=tables.terms(contrast),
        to=to,
    )


def check_epsilon(additive: AdditiveForest, epsilon: Any) -> FloatArray | None:
    """Return the tolerance per score for a regressor, None for a classifier."""
    if additive.classes is not None:
        if epsilon is not None:
            raise ValueError(
                "epsilon is the tolerance of a regressor's output; a classifier's answer either "
                f"changes or does not. Leave it out; got epsilon={epsilon!r}."
            )
        return None
    if epsilon is None:
        raise ValueError(
            "A regressor needs epsilon: the change of the output, in units of y, that still "
            "counts as the same answer. For example the root mean squared error of "
            "oof_prediction_."
        )
    n_scores = additive.n_scores
    try:
        given = np.asarray(epsilon, dtype=np.float64)
        tolerance = np.broadcast_to(given, n_scores)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"epsilon must be a number, or one per target ({n_scores}); got {epsilon!r}."
        ) from error
    if not (tolerance > 0).all() or not np.isfinite(tolerance).all():
        raise ValueError(f"epsilon must be positive and finite; got {epsilon!r}.")
    return tolerance
