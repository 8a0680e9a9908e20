"""How the predictors of folds are put together to the one predictor that a bound speaks of."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.utils import check_random_state

from kpp._checks import RefusedError
from kpp._fingerprints import rounded_fingerprints
from kpp._typing import AnyArray, FloatArray
from kpp.bounds.predictors import with_both_scores
from kpp.bounds.results import Bound
from kpp.models.asking import Question, ask
from kpp.models.fold_predictors import FoldPredictors
from kpp.models.intervals import predictors_of

# What `Bound.details["combined"]` says.
RANDOM, VOTE, SCORES = "one fold at random", "vote", "mean of clipped scores"
LOG_ODDS, PROBABILITIES = "mean of clipped log-odds", "mean of probabilities"
CLIPPED, MODEL = "mean of clipped predictions", "the model itself"


def margin_scores(scores: FloatArray, clip: float) -> FloatArray:
    r"""Scores around the middle of the two largest, cut at half of `clip` on either side.

    .. math:: v_k = \max(-c/2, \min(c/2,\; s_k - (s_{(1)} + s_{(2)}) / 2))

    so that the margin of any class against any other lies in [-c, c]; of two classes it is the
    score cut at c.

    Parameters
    ----------
    scores : array of shape (..., n_scores)
        Of one predictor: one score for two classes, otherwise one per class.
    clip : float
        c.

    Returns
    -------
    v : array of shape (..., n_classes)

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.bounds.combined import margin_scores
    >>> margin_scores(np.array([[3.0], [-0.5]]), 1.0).tolist()
    [[-0.5, 0.5], [0.25, -0.25]]
    """
    full = _full(scores)
    top = np.partition(full, -2, axis=-1)[..., -2:]
    middle = top.mean(axis=-1, keepdims=True)
    return np.clip(full - middle, -clip / 2, clip / 2)


def log_scores(scores: FloatArray, clip: float) -> FloatArray:
    r"""Scores below the largest, by `clip` at most: :math:`v_k = \max(-c, s_k - \max_j s_j)`.

    Of two classes the difference of the two is the score cut at c.

    Parameters
    ----------
    scores : array of shape (..., n_scores)
        As in `margin_scores`.
    clip : float
        c.

    Returns
    -------
    v : array of shape (..., n_classes)
    """
    full = _full(scores)
    return np.maximum(full - full.max(axis=-1, keepdims=True), -clip)


def _full(scores: FloatArray) -> FloatArray:
    if scores.shape[-1] > 1:
        return scores
    return with_both_scores(scores.reshape(-1, 1)).reshape(*scores.shape[:-1], 2)


def votes(chosen: AnyArray, n_classes: int) -> AnyArray:
    """Class numbers that most predictors choose, shape (n_rows,), from (n_folds, n_rows)."""
    counts = np.array([(chosen == k).sum(axis=0) for k in range(n_classes)])
    return counts.argmax(axis=0)


def bounded_prediction(
    model: Any, X: Any, bound: Bound, *, random_state: Any = None, key: int | None = None
) -> AnyArray:
    """Predict by the very predictor that a bound of a cross-validated model speaks of.

    The model's own `predict` is the mean of the folds' scores as they are. The bounds are of their
    vote, or of means of scores, probabilities or predictions that are clipped first; elsewhere
    than at the limits these are the same.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline that ends in one
        Fitted with ``regime="cross-validated"``.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows.
    bound : Bound
        From `risk_bounds` of this model on the rows of its fit.
    random_state : int, RandomState or None
        For the bound of a fold that is drawn at random: it is drawn anew in every call.
    key : int, optional
        For the same bound, and instead of `random_state`: draw the fold once for each distinct row,
        by its values in single precision and this number. A row then has one answer in all calls,
        also after a cast. The bound is of the mean over keys, so take one without looking at
        answers.

    Returns
    -------
    prediction : array of shape (n_rows,) or (n_rows, n_classes)
        Labels for a bound of the 0/1 error, probabilities for one of the log loss or the Brier
        score, numbers for one of the squared loss.

    Raises
    ------
    RefusedError
        Where the bound is not of this model, as far as numbers of folds, rows and candidates tell,
        and where `key` has nothing to draw, or stands beside `random_state`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kpp import KPPClassifier
    >>> from kpp.bounds import bounded_prediction, risk_bounds
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KPPClassifier("extra-trees", regime="cross-validated", random_state=0).fit(X, y)
    >>> vote = risk_bounds(model, X, y)["cross-validated vote"]
    >>> bounded_prediction(model, X[:3], vote).tolist()
    [0, 0, 0]
    """
    question = ask(model)
    if not isinstance(bound, Bound):
        raise TypeError(
            "bound must be a Bound, as risk_bounds(model, X, y)[name] is; got "
            f"{type(bound).__name__} {bound!r}."
        )
    how: str | None = bound.details.get("combined")
    clip: Any = bound.details.get("clip")
    if not question.regime.leaves_folds_out or how is None:
        raise RefusedError(
            "bounded_prediction takes a model of regime='cross-validated' and a bound that "
            "risk_bounds has given for the rows of its fit."
        )
    predictors = predictors_of(question.model, "bounded_prediction")
    _check_is_of(bound, question, predictors)
    if key is not None and how != RANDOM:
        raise RefusedError(
            f"key draws one fold's predictor for each row, and this bound is of another: {how}."
        )
    if key is not None and random_state is not None:
        raise RefusedError("Give key or random_state: each says how the fold is drawn.")
    rows = question.rows(X)
    if how == MODEL:
        return np.asarray(question.model.predict(rows))
    scores, classes = predictors.scores(rows), predictors.classes
    if classes is None:
        low, high = clip
        return np.clip(scores[:, :, 0], low, high).mean(axis=0)
    if how == LOG_ODDS:
        return np.asarray(softmax(log_scores(scores, clip).mean(axis=0), axis=1))
    if how == PROBABILITIES:
        return np.mean([predictors.probabilities(own) for own in scores], axis=0)
    if how == SCORES:
        return np.asarray(classes[margin_scores(scores, clip).mean(axis=0).argmax(axis=1)])
    chosen = np.array([predictors.probabilities(own).argmax(axis=1) for own in scores])
    if how == VOTE:
        return np.asarray(classes[votes(chosen, len(classes))])
    n_folds, n_rows = chosen.shape
    if key is None:
        drawn = check_random_state(random_state).randint(n_folds, size=n_rows)
    else:
        drawn = _by_row(rows.X, key, n_folds)
    return np.asarray(classes[chosen[drawn, np.arange(n_rows)]])


def _check_is_of(bound: Bound, question: Question, predictors: FoldPredictors) -> None:
    """Refuse a bound whose figures are not those of the model."""
    is_numbers = bound.details["combined"] == CLIPPED
    if is_numbers != (predictors.classes is None):
        kinds = ("numbers", "a model of classes") if is_numbers else ("classes", "one of numbers")
        raise RefusedError(f"This bound is of {kinds[0]}, and this is {kinds[1]}.")
    own = {
        "folds": predictors.n_folds,
        "rows": len(predictors.fold_of_row),
        "candidates": question.model.fit_record_.n_candidates,
    }
    of_bound = {
        "folds": bound.details.get("n_folds"),
        "rows": bound.n_rows,
        "candidates": bound.details.get("N"),
    }
    for what, n in own.items():
        if of_bound[what] != n:
            raise RefusedError(
                f"This bound is of another model: it counts {of_bound[what]} {what}, and the model "
                f"has {n}. Take one that risk_bounds has given for this model."
            )


def _by_row(X: Any, key: int, n_folds: int) -> AnyArray:
    """A fold for each row, as if drawn once for all that are equal in single precision."""
    if not isinstance(key, int | np.integer) or key < 0:
        raise RefusedError(f"key must be a whole number of at least 0; got {key!r}.")
    prints = rounded_fingerprints(X).tolist()
    drawn = {
        own: int.from_bytes(blake2b(f"{key}:{own}".encode(), digest_size=8).digest(), "little")
        for own in set(prints)
    }
    # 2^64 is so much larger than the folds that the shares are equal to 2^-60.
    return np.array([drawn[own] % n_folds for own in prints])
