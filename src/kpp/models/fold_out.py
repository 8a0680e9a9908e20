"""Leaving out one fold at a time: forest and linear layer of the other folds, at a given alpha."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing

from kpp._checks import check_sample_weight
from kpp._parallel import one_blas_thread
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.models.blocks import blocks_of
from kpp.models.data import FitData, check_groups
from kpp.models.fits import LinearFit
from kpp.models.plans import Splitter
from kpp.scores import AdditiveForest
from kpp.solvers import SquaredLoss

if TYPE_CHECKING:
    from kpp.models.linear import KPPLinearModel

# Up to here all eigenvalues of a fold's Gram are computed; above, `kpp.bounds` has estimates.
EXACT_ROWS = 2000


@dataclass(frozen=True, eq=False)
class LeaveOneFoldOut(Shown):
    r"""Predictions of every fold by a model of the others, and these models.

    Parameters
    ----------
    oof_prediction : array of shape (n_rows,), (n_rows, n_targets) or (n_rows, n_classes)
        Prediction of each row, or its probabilities, by the model that has not seen its fold.
    models : list of KPPRegressor or KPPClassifier
        The fitted model of each fold's other rows.
    folds : list of (train rows, test rows)
        The folds; `models[q]` was fitted on the first and has predicted the second.
    alpha : float
        The penalty, the same number in every fold.
    errors : array of shape (n_folds,)
        Root mean squared error, or share of wrong classes, in each fold; by the weights of rows.
        NaN where a fold has no weight.
    error : float
        The same over all rows: not the mean of `errors`, where it is a root.
    """

    oof_prediction: FloatArray
    models: list[Any]
    folds: list[tuple[AnyArray, AnyArray]]
    alpha: float
    errors: FloatArray
    error: float

    def __repr__(self) -> str:
        return (
            f"LeaveOneFoldOut(n_folds={len(self.folds)}, alpha={self.alpha:.4g}, "
            f"error={self.error:.4g})"
        )

    @cached_property
    def fits(self) -> list[LinearFit]:
        """The linear layer of each fold with its map; its `rows` are those of the whole X.

        Their `share` in the averaged predictor is one over the number of folds.
        """
        pairs = zip(self.models, self.folds, strict=True)
        share = 1.0 / len(self.folds)
        return [
            replace(model.fits_[0], rows=train[model.fits_[0].rows], share=share)
            for model, (train, _) in pairs
        ]

    @cached_property
    def norms(self) -> FloatArray:
        r"""Norm :math:`\|w_q\|` of each fold's coefficients, shape (n_folds,)."""
        with one_blas_thread():
            return np.array([np.linalg.norm(fit.node_coef) for fit in self.fits])

    @cached_property
    def traces(self) -> FloatArray:
        r""":math:`\mathrm{Tr}(G) / n` of each fold's map at the n rows of its fit."""
        return np.array([fit.map.row_norms(squared=True).mean() for fit in self.fits])

    @cached_property
    @one_blas_thread()
    def effective_dimensions(self) -> FloatArray:
        r""":math:`d_{\mathrm{eff}}(\alpha) / n` of each fold's map at the n rows of its fit.

        Of the Gram as it is, neither centred nor weighted, as in the paper. NaN for classes and
        losses whose penalty is not that of ridge, and for fits of more than 2,000 rows: there
        ``kpp.bounds.gram_spectrum(fit.map).effective_dimension(fit.alpha)`` gives an estimate.
        """
        found = np.full(len(self.fits), np.nan)
        for q, fit in enumerate(self.fits):
            n_rows = len(fit.rows)
            if n_rows <= EXACT_ROWS and isinstance(self.models[q]._task.loss, SquaredLoss):
                values = np.maximum(np.linalg.eigvalsh(fit.map.gram()), 0.0)
                found[q] = (values / (values + fit.alpha)).sum() / n_rows
        return found

    @cached_property
    def averaged(self) -> AdditiveForest:
        r"""The average of the folds' scores as one additive forest.

        Its blocks stand side by side, those of fold q with the coefficients :math:`w_q / Q` in
        ``coef``, and its intercept is the mean of theirs. Every row was seen by all but one
        of its parts: its predictions of these rows are not out of fold.
        """
        share = 1.0 / len(self.models)
        blocks = [
            replace(
                block,
                name=f"fold{q}" + (f"_{block.name}" if len(model.additive_.blocks) > 1 else ""),
                node_values=block.node_values * share,
                coef=block.coef * share,
                map=None,  # the folds have other rows
                node_rows=None,
            )
            for q, model in enumerate(self.models)
            for block in model.additive_.blocks
        ]
        additive = [model.additive_ for model in self.models]
        linear = [
            terms.scaled(share, f"fold{q}_{terms.name}")
            for q, part in enumerate(additive)
            for terms in part.linear
        ]
        intercept = np.mean([part.intercept for part in additive], axis=0)
        return AdditiveForest(tuple(blocks), intercept, additive[0].classes, tuple(linear))


def leave_one_fold_out(
    model: KPPLinearModel,
    X: Any,
    y: Any,
    *,
    cv: Any = None,
    alpha: float | None = None,
    sample_weight: Any = None,
    groups: Any = None,
) -> LeaveOneFoldOut:
    """Fit a model without each fold in turn; the function behind the method of that name.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Its parameters count; it is left as it is.
    X, y, cv, alpha, sample_weight, groups
        As in the method.

    Returns
    -------
    result : LeaveOneFoldOut
    """
    if blocks_of(model).is_blend:
        raise ValueError(
            "Leave-one-fold-out is that of one linear layer, and this model blends several: its "
            "oof_prediction_ are out of fold. Use combine='joint' for a model of one layer."
        )
    if model.regime in ("cross-fit", "cross-validated"):
        raise ValueError(
            f"regime={model.regime!r} has folds of its own, and its model is the average over "
            "them: use another regime, or alpha='auto', whose oof_prediction_ are out of fold."
        )
    if getattr(model, "loss", "squared") != "squared":
        raise ValueError(
            f"Leave-one-fold-out reports squared errors, and this model has loss={model.loss!r}: "
            "use alpha='auto', whose cv_scores_ are of that loss, or cross_val_score."
        )
    alpha = _alpha(model, alpha)
    unfitted = clone(model).set_params(alpha=alpha)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    task, labels, target = unfitted._read_target(y, n_rows)
    weight = check_sample_weight(sample_weight, n_rows)
    groups = check_groups(groups, n_rows)
    splitter = Splitter(model.cv if cv is None else cv, unfitted.random_state, is_classifier(model))
    data = FitData(X, labels, target, weight, groups, is_weighted=sample_weight is not None)
    folds = splitter.split(data)
    _check_classes(labels, folds, classified=task.classes is not None)
    models, prediction = [], None
    for train, test in folds:
        # A whole fit, so that nothing of the fold is used: not in weights of classes, nor in a
        # spread of columns.
        fitted = clone(unfitted).fit(
            _safe_indexing(X, train),
            labels[train],
            sample_weight=None if sample_weight is None else weight[train],
            groups=None if groups is None else groups[train],
        )
        scores = fitted.at(_safe_indexing(X, test)).scores
        answers = fitted._task.answers(scores)
        if prediction is None:
            prediction = np.empty((n_rows, *answers.shape[1:]))
        prediction[test] = answers
        models.append(fitted)
    assert prediction is not None
    loss = _losses(prediction, target, classified=task.classes is not None)
    mean = np.array([_mean(loss[test], weight[test]) for _, test in folds])
    whole = _mean(loss, weight)
    if task.classes is None:
        mean, whole = np.sqrt(mean), float(np.sqrt(whole))
    return LeaveOneFoldOut(prediction, models, folds, alpha, mean, whole)


def _alpha(model: KPPLinearModel, alpha: float | None) -> float:
    """The given penalty, the model's own, or the one that its fit has chosen."""
    if alpha is None and not isinstance(model.alpha, str):
        alpha = model.alpha
    if alpha is None:
        alpha = getattr(model, "alpha_", None)
    if alpha is None:
        raise ValueError(
            "alpha is not known: this model chooses it when it is fitted. Give alpha, or fit the "
            "model first."
        )
    return float(alpha)


def _check_classes(
    labels: AnyArray, folds: list[tuple[AnyArray, AnyArray]], *, classified: bool
) -> None:
    if not classified:
        return
    for q, (train, _) in enumerate(folds):
        lacking = np.setdiff1d(labels, labels[train]).tolist()
        if lacking:
            raise ValueError(
                f"Without fold {q} there is no row of class {lacking[0]!r} to fit on. Use "
                "stratified folds, fewer of them, or leave out classes of a single row."
            )


def _losses(prediction: FloatArray, target: AnyArray, *, classified: bool) -> FloatArray:
    """Squared errors, over targets their mean; or whether the likeliest class is wrong."""
    if classified:
        wrong: FloatArray = (prediction.argmax(axis=1) != target).astype(np.float64)
        return wrong
    difference = prediction.reshape(len(target), -1) - target
    mean: FloatArray = np.square(difference).mean(axis=1)
    return mean


def _mean(values: FloatArray, weight: FloatArray) -> float:
    total = weight.sum()
    return float(values @ weight / total) if total > 0 else np.nan
