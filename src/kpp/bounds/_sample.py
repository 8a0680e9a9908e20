"""What the bounds read from a fitted model: rows, scores, and what the partition fold fixes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import is_classifier
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit

from kpp._checks import RefusedError
from kpp._typing import AnyArray, FloatArray
from kpp.bounds.results import Assumption
from kpp.geometry import named_blocks
from kpp.geometry.composed import BlockMap
from kpp.geometry.maps import MapBlock, PathMap
from kpp.models.data import check_target
from kpp.models.reading import check_model as check_linear_model
from kpp.models.reading import coefficients_of

UNSTRATIFIED = (KFold, RepeatedKFold, ShuffleSplit)


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear predictor at the rows of a sample.

    Parameters
    ----------
    block : MapBlock
        The embedding at the rows.
    y : array of shape (n,)
        Class codes, or numbers.
    w : array of shape (n_scores, m)
        Coefficients.
    b : array of shape (n_scores,)
        Intercepts.
    n_classes : int
        0 for regression.
    """

    block: MapBlock
    y: AnyArray
    w: FloatArray
    b: FloatArray
    n_classes: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.block.shape[0])

    @property
    def norm(self) -> float:
        """Norm of all coefficients."""
        return float(np.linalg.norm(self.w))

    @property
    def scores(self) -> FloatArray:
        """Scores, shape (n, n_scores)."""
        return np.column_stack([self.block.matvec(row) for row in self.w]) + self.b

    @property
    def trace(self) -> float:
        """Trace of the Gram."""
        return float(self.block.row_norms(squared=True).sum())


def check_model(model: Any) -> None:
    """Refuse what is not a fitted linear model of this package, or has several targets."""
    check_linear_model(model)
    if not is_classifier(model) and np.ndim(model.node_coef_) == 2:
        raise RefusedError(
            f"Bounds speak of one target, and this model has {len(model.node_coef_)}: fit one "
            "model per target, each with its share of delta."
        )


def encode(model: Any, y: Any, n_rows: int) -> tuple[AnyArray, int]:
    """The target as codes (and the number of classes), or as numbers (and 0)."""
    if y is None:
        raise ValueError("y is None: give the target of the rows of X.")
    y = check_target(y, n_rows)
    if not is_classifier(model):
        return np.asarray(y, dtype=np.float64), 0
    unknown = np.setdiff1d(y, model.classes_)
    if len(unknown):
        raise ValueError(
            f"y holds labels that the model does not know: {unknown[:5].tolist()}; it knows "
            f"{model.classes_.tolist()}."
        )
    return np.searchsorted(model.classes_, y), len(model.classes_)


def n_training_rows(model: Any) -> int:
    """Number of rows that were given to fit."""
    n_fit = len(model.fit_rows_)
    return n_fit + len(model.partition_rows_) if model.regime_ == "honest" else n_fit


def linear_at(model: Any, X: Any, y: AnyArray, n_classes: int) -> Linear:
    """The model's own predictor at some rows."""
    w, b = coefficients_of(model)
    return Linear(
        block=model.map_.on(X),
        y=y,
        w=w,
        b=b,
        n_classes=n_classes,
    )


def fit_weights(model: Any) -> FloatArray:
    """Weights of the rows of the fit, class weights included; shape (n_fit_rows,)."""
    weight = getattr(model, "sample_weight_", None)
    return np.ones(len(model.fit_rows_)) if weight is None else np.asarray(weight, dtype=float)


def fold_parts(model: Any) -> list[tuple[AnyArray, MapBlock, FloatArray]]:
    """Rows, embedding and coefficients of each fold of a cross-fit model.

    The model keeps :math:`w_q / Q`; here is :math:`w_q`, as far as every fold has every class.
    """
    names = [name for name, _ in named_blocks(model.map_)]
    blocks = [block for _, block in named_blocks(model.map_)]
    columns = np.split(np.atleast_2d(model.node_coef_), model.map_.offsets[1:-1], axis=1)
    found = []
    for q, (fit_rows, _) in enumerate(model.folds_):
        own = [k for k, name in enumerate(names) if name.endswith(f"fold{q}")]
        at_rows = [(names[k], blocks[k].rows(fit_rows)) for k in own]
        block: MapBlock = at_rows[0][1] if len(own) == 1 else BlockMap(at_rows)
        w = len(model.folds_) * np.hstack([columns[k] for k in own])
        found.append((fit_rows, block, w))
    return found


def fold_predictors(model: Any, y: AnyArray, n_classes: int) -> list[Linear]:
    r"""The predictors that a cross-fit model averages, each at the rows it was fitted on.

    The model keeps the sum of the intercepts; each is found again as the minimiser of the
    unpenalised, weighted loss, given the coefficients.
    """
    predictors = []
    weight = fit_weights(model)
    for q, (rows, block, w) in enumerate(fold_parts(model)):
        if lacks_class(y[rows], weight[rows], n_classes):
            raise RefusedError(
                f"Fold {q} of this cross-fit model was fitted without one of the classes, and its "
                "predictor cannot be taken apart from the average: use fewer folds."
            )
        b = np.zeros(len(w))
        if model.fit_intercept:
            scores = np.column_stack([block.matvec(row) for row in w])
            b = best_intercept(scores, y[rows], n_classes, weight[rows])
        predictors.append(Linear(block, y[rows], w, b, n_classes))
    return predictors


def lacks_class(y: AnyArray, weight: FloatArray, n_classes: int) -> bool:
    """Whether some class has no row of positive weight."""
    return n_classes > 0 and len(np.unique(y[weight > 0])) < n_classes


def best_intercept(
    scores: FloatArray, y: AnyArray, n_classes: int, weight: FloatArray | None = None
) -> FloatArray:
    """The intercept that minimises the squared, or logistic, loss of given scores."""
    share = np.full(len(y), 1.0 / len(y)) if weight is None else weight / weight.sum()
    if n_classes == 0:
        return np.array([float(share @ (y - scores[:, 0]))])
    full = with_both_scores(scores)
    rows = np.arange(len(y))
    counted = np.bincount(y, share, minlength=n_classes)

    def loss(b: FloatArray) -> tuple[float, FloatArray]:
        moved = full + with_both_scores(b[None, :])
        log_total = logsumexp(moved, axis=1)
        value = float(share @ (log_total - moved[rows, y]))
        slope = share @ np.exp(moved - log_total[:, None]) - counted
        return value, slope[1:] if n_classes == 2 else slope

    found = minimize(loss, np.zeros(scores.shape[1]), jac=True, method="BFGS", tol=1e-10)
    b: FloatArray = found.x
    return b if n_classes == 2 else b - b.mean()


def with_both_scores(scores: FloatArray) -> FloatArray:
    """One score per class: for two classes 0 and the score."""
    if scores.shape[1] > 1:
        return scores
    return np.hstack([np.zeros_like(scores), scores])


def class_margins(scores: FloatArray, codes: AnyArray) -> FloatArray:
    r"""Margins :math:`g_y - g_k` against every other class, shape (n, n_classes - 1)."""
    full = with_both_scores(scores)
    n_rows, n_classes = full.shape
    others = np.arange(n_classes)[None, :] != codes[:, None]
    own = full[np.arange(n_rows), codes][:, None]
    return (own - full)[others].reshape(n_rows, n_classes - 1)


def logistic_losses(scores: FloatArray, codes: AnyArray) -> FloatArray:
    """Log loss of each row."""
    full = with_both_scores(scores)
    return logsumexp(full, axis=1) - full[np.arange(len(codes)), codes]


def representation_assumption(model: Any, sample: str, seen: str | None = None) -> Assumption:
    """Whether the representation has seen the labels of the sample; `seen` is why it may have."""
    name = "representation independent of the sample"
    regime = model.regime_
    if sample == "test":
        if seen is not None:
            return Assumption(name, False, seen)
        return Assumption(name, None, "the caller says that these rows were not used by fit")
    if regime == "fixed":
        return Assumption(name, None, "the caller says that the forest saw other data (PB-01)")
    if regime == "shared":
        return Assumption(
            name, False, "label-dependent (PB-04): these labels grew the trees and set the weights"
        )
    if sample == "train":
        return Assumption(
            name, False, "part of these rows grew the trees; the fit fold alone did not"
        )
    if regime == "honest":
        return Assumption(name, True, "the forest was grown on the partition fold (PB-02)")
    if isinstance(getattr(model, "class_weight", None), str):
        return Assumption(
            name,
            False,
            "class_weight='balanced' counts the labels of all folds, and its weights reach the "
            "trees of each; give the weights as a dict",
        )
    return Assumption(name, True, "fold by fold, the trees were grown on other folds (PB-03)")


def rows_assumption(model: Any, sample: str) -> Assumption:
    """Whether the rows are independent draws, given what fixed the class."""
    name = "independent rows"
    if sample != "test" and model.regime_ == "cross-fit":
        drawn = isinstance(model.cv, int | np.integer) and not is_classifier(model)
        if not drawn and not isinstance(model.cv, UNSTRATIFIED):
            return Assumption(
                name,
                False,
                "stratified folds, or folds that may be: the labels of a fold then depend on the "
                "other folds. Use cv=KFold(5, shuffle=True)",
            )
    return Assumption(name, None, "rows are taken as independent draws of one distribution")


def grown_shift(block: MapBlock) -> FloatArray | None:
    """Mean row over the rows that the trees were grown on, from the trees' own counts."""
    parts = []
    for _, part in named_blocks(block):
        if not isinstance(part, PathMap) or part.forest.statistics is None:
            return None
        count = part.forest.statistics.count
        root = np.repeat(count[part.forest.roots], np.diff(part.forest.tree_offsets))
        share = np.divide(count, root, out=np.zeros_like(count), where=root > 0)
        parts.append(part.scale * share)
    return np.concatenate(parts)
