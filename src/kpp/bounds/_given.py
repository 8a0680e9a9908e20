"""Is what the caller gives what it is said to be: rows of the fit, unseen rows, limits?"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from scipy.special import bdtrc, softmax
from sklearn.base import is_classifier

from kpp._checks import RefusedError, check_choice
from kpp._rows import take_rows
from kpp._typing import AnyArray, FloatArray
from kpp.bounds._sample import (
    best_intercept,
    encode,
    fit_weights,
    fold_parts,
    lacks_class,
    n_training_rows,
    with_both_scores,
)
from kpp.bounds.results import Assumption
from kpp.geometry import leaf_ids_of
from kpp.geometry.maps import MapBlock
from kpp.models.data import check_new_rows
from kpp.models.reading import coefficients_of

SAMPLES = ("fit", "train", "test")
EPS = float(np.finfo(float).eps)
# Rows of the same leaves in so many trees are taken as the same row.
MANY_TREES = 20
# How often an independent row reaches the leaves of some row of the fit in all of so many trees, at
# most. Where 95% of the rows of the fit are alone in their leaves, few rows are the same by
# chance, as categories are; trees that have seen the rows of the fit set them apart from each
# other better than from new ones, which adds a few percent for two columns and nothing for five.
# Along one column a new row has one of two neighbours in every tree, and often the same.
CHANCE, CHANCE_OF_ONE_COLUMN = 0.1, 0.6
Range = tuple[float, float]


def sample_rows(
    model: Any, X: Any, y: Any, sample: str, *, has_target: bool = True
) -> tuple[Any, Any, AnyArray, int]:
    """Check the rows of a call; return X, y of all of them, and which belong to the sample.

    Without a target y is anything of the right length, and is not compared with the fit.
    """
    check_choice("sample", sample, SAMPLES)
    X = check_new_rows(model, X)
    codes, n_classes = encode(model, y, len(X))
    if len(X) == 0:
        raise ValueError("X has no rows: a bound needs a sample.")
    if sample == "test":
        return X, codes, np.arange(len(X)), n_classes
    n_train = n_training_rows(model)
    if len(X) != n_train:
        raise RefusedError(
            f"sample={sample!r} takes the X and y that were given to fit, {n_train} rows; got "
            f"{len(X)}. For other rows use sample='test'."
        )
    own = leaf_ids_of(model.map_)
    found = leaf_ids_of(model.map_.on(take_rows(X, model.fit_rows_)))
    if not np.array_equal(own, found):
        raise RefusedError(
            f"sample={sample!r} takes the X and y that were given to fit, in the same order; these "
            "rows fall into other leaves. For other rows use sample='test'."
        )
    if has_target:
        check_same_target(model, codes, n_classes, sample)
    rows = model.fit_rows_ if sample == "fit" else np.arange(n_train)
    return X, codes, rows, n_classes


def check_same_target(model: Any, y: AnyArray, n_classes: int, sample: str = "fit") -> None:
    r"""Refuse a target that the coefficients were not fitted to.

    At a ridge solution :math:`\alpha r_i = s_i (y_i - g_i)` for every row; at a logistic one the
    gradient :math:`\Phi^\top (\gamma + \alpha v)` is 0. Both hold up to the tolerance of the
    solver, for the labels of the fit and for no others. Labels of rows that only grew trees leave
    no such trace, and a fit that was cut off by `max_iter` is not asked.
    """
    dual = getattr(model, "dual_coef_", None)
    if dual is None or model.n_iter_ >= model.max_iter:
        return
    weight = fit_weights(model)
    if model.regime_ != "cross-fit":
        w, b = coefficients_of(model)
        own = y[model.fit_rows_]
        alpha = float(model.alpha_)
        if n_classes > 2 and model.center == "zero" and len(np.unique(own[weight > 0])) == 2:
            alpha *= 2  # one penalised score was written as two halves
        parts = [(model.map_, own, w, b, dual, weight, alpha)]
    else:
        parts = _fold_problems(model, y, n_classes, np.asarray(dual), weight)
    for block, own, w, b, v, s, alpha in parts:
        scores = np.column_stack([block.matvec(row) for row in w]) + b
        broken = _logistic_gap if n_classes else _ridge_gap
        gap, allowed = broken(block, own, scores, np.asarray(v), s, alpha)
        if gap > 10 * float(model.tol) + 1e-7 + allowed:
            raise RefusedError(
                f"sample={sample!r} takes the X and y that were given to fit, and this y is "
                f"another: the fitted coefficients do not solve its problem (they miss by "
                f"{gap:.1e}, relative to its scale). For other rows use sample='test'."
            )


def _fold_problems(
    model: Any, y: AnyArray, n_classes: int, dual: FloatArray, weight: FloatArray
) -> list[tuple[MapBlock, AnyArray, FloatArray, FloatArray, FloatArray, FloatArray, float]]:
    """What each fold of a cross-fit model solved; nothing where one of them lacked a class."""
    folds = fold_parts(model)
    if any(lacks_class(y[rows], weight[rows], n_classes) for rows, _, _ in folds):
        return []  # the others were then averaged with shares of their own
    units = [model._unit(block, weight[rows]) for rows, block, _ in folds]
    # A chosen alpha is the same for all folds relative to their scale, a given one as it is.
    chosen = isinstance(model.alpha, str)
    found = []
    for (rows, block, w), unit in zip(folds, units, strict=True):
        own, s = y[rows], weight[rows]
        b = np.zeros(len(w))
        if model.fit_intercept:
            scores = np.column_stack([block.matvec(row) for row in w])
            b = np.concatenate(
                [best_intercept(scores, own, n_classes, s)]
                if n_classes
                else [
                    best_intercept(scores[:, [k]], own.reshape(len(s), -1)[:, k], 0, s)
                    for k in range(len(w))
                ]
            )
        alpha = float(model.alpha_) * (unit / float(np.mean(units)) if chosen else 1.0)
        found.append((block, own, w, b, len(folds) * dual[rows], s, alpha))
    return found


def _ridge_gap(
    block: MapBlock, y: AnyArray, scores: FloatArray, dual: FloatArray, s: FloatArray, alpha: float
) -> tuple[float, float]:
    """How far the dual is from the residuals, relative to the target; and what rounding allows."""
    known = s > 0
    root = np.sqrt(s[known])[:, None]
    target = np.asarray(y, dtype=np.float64).reshape(len(s), -1)[known]
    rest = root * (target - scores[known]) - alpha * dual.reshape(len(s), -1)[known] / root
    middle = s[known] @ target / s[known].sum()
    size = np.linalg.norm(root * (target - middle)) + 1e-6 * np.linalg.norm(root * target)
    trace = float(s @ block.row_norms(squared=True))
    gap = float(np.linalg.norm(rest))
    return gap / float(size) if size > 0 else gap, 10 * EPS * trace / alpha


def _logistic_gap(
    block: MapBlock, y: AnyArray, scores: FloatArray, dual: FloatArray, s: FloatArray, alpha: float
) -> tuple[float, float]:
    """Norm of the gradient relative to its scale; and what rounding allows."""
    full = softmax(with_both_scores(scores), axis=1)
    full[np.arange(len(y)), y] -= 1
    slope = (s / s.sum())[:, None] * full
    slope = slope[:, 1:] if scores.shape[1] == 1 else slope
    v = dual.reshape(slope.shape)
    norms = block.row_norms()
    scale = float(np.sqrt(s @ np.square(norms) / s.sum())) or 1.0
    gap = float(np.linalg.norm(block.rmatmat(slope + alpha * v))) / scale
    return gap, 10 * EPS * float(np.abs(v).sum(axis=1) @ norms) * float(norms.max())


def seen_rows(model: Any, at_rows: MapBlock) -> str | None:
    """Why rows that are called unseen look like those of the fit; None where they do not."""
    own, found = leaf_ids_of(model.map_), leaf_ids_of(at_rows)
    keys = [column.tobytes() for column in np.ascontiguousarray(own.T)]
    counts = Counter(keys)
    same = found.shape == own.shape and np.array_equal(found, own)
    if not same and found.shape[1] == n_training_rows(model):
        same = np.array_equal(found[:, model.fit_rows_], own)
    if same:
        # Independent rows would do so with the product of these probabilities.
        surprise = -sum(n * np.log(n / len(keys)) for n in counts.values())
        if surprise > np.log(1e6):
            return (
                "these are the rows that were given to fit: they reach the same leaves, in the "
                "same order. Use sample='fit' or 'train'"
            )
    alone = sum(n for n in counts.values() if n == 1) / len(keys)
    if len(own) >= MANY_TREES and alone >= 0.95 and found.shape[1] >= 10:
        n_rows = found.shape[1]
        n_same = sum(c.tobytes() in counts for c in np.ascontiguousarray(found.T))
        chance = CHANCE_OF_ONE_COLUMN if model.n_features_in_ == 1 else CHANCE
        # P(Binomial(n_rows, chance) >= n_same): that so many independent rows coincide.
        if bdtrc(n_same - 1, n_rows, chance) < 1e-4:
            return (
                f"{n_same / n_rows:.0%} of these rows reach the same leaf as a row of the fit in "
                "every tree, which few rows of the fit do among each other: rows of the fit are "
                "among them"
            )
    return None


def check_range(model: Any, y_range: Any) -> Range | None:
    """Refuse limits that are not two rising numbers, or that a classifier has no use for."""
    if y_range is None:
        return None
    if is_classifier(model):
        raise RefusedError(
            f"y_range holds the limits of a number; this is a classifier; got {y_range!r}."
        )
    try:
        low, high = (float(limit) for limit in y_range)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise RefusedError(f"y_range must be two finite numbers L < U; got {y_range!r}.")
    return low, high


def range_assumption(y: AnyArray, limits: Range, name: str = "range of Y") -> Assumption:
    """Limits that the caller knows: on trust, unless the target of the call contradicts them."""
    y = np.asarray(y, dtype=np.float64)
    outside = int(np.count_nonzero((y < limits[0]) | (y > limits[1])))
    said = f"the caller says that Y lies in [{limits[0]:g}, {limits[1]:g}]"
    if outside:
        return Assumption(name, False, f"{said}; {outside} of the {len(y)} rows given do not")
    return Assumption(name, None, said)
