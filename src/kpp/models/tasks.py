"""Regression and classification: from y to a loss, and from scores to answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer
from sklearn.utils import compute_sample_weight

from kpp._typing import AnyArray, FloatArray
from kpp.models.loss_choice import LossChoice
from kpp.solvers import LogLoss, Loss, SquaredLoss, log_loss


class Task(ABC):
    """What a fit needs to know of the target."""

    loss: Loss
    classes: AnyArray | None = None

    @abstractmethod
    def answers(self, scores: FloatArray) -> FloatArray:
        """Return what `oof_prediction_` holds: predictions, or probabilities."""

    @abstractmethod
    def labels(self, target: AnyArray) -> AnyArray:
        """Return the loss's target as the user's."""

    @abstractmethod
    def shaped(self, per_score: FloatArray) -> Any:
        """Return numbers per score in scikit-learn's shape for this task."""

    @abstractmethod
    def fixed_predictor(self, scores: FloatArray) -> Any:
        """Return an estimator whose predictions are these scores', for a scorer."""

    @abstractmethod
    def constant(self, target: AnyArray, weight: FloatArray) -> FloatArray:
        """Return the best prediction that takes no columns: means, or shares of the classes."""

    def scaled(self, target: AnyArray, weight: FloatArray) -> Task:
        """Return the task whose loss has what it needs of the target: a size, a threshold.

        Parameters
        ----------
        target : array of shape (n_rows,) or (n_rows, n_targets)
            As the loss takes it, of rows that it may be read from.
        weight : array of shape (n_rows,)
            Weights.

        Returns
        -------
        task : Task
        """
        return self

    def merit(
        self, target: AnyArray, scores: FloatArray, weight: FloatArray, scoring: Any
    ) -> float:
        """Return the figure of merit of out-of-fold scores, higher is better."""
        if scoring is None:
            return self.loss.merit(target, scores, weight)
        # A scorer asks an estimator about X. This one has the answers already, and X are row
        # numbers.
        shim, rows = self.fixed_predictor(scores), np.arange(len(scores))
        # Not every scorer takes weights; without any in the fit none are asked of it.
        weights = {} if (weight == 1).all() else {"sample_weight": weight}
        return float(get_scorer(scoring)(shim, rows, self.labels(target), **weights))


class Regression(Task):
    """One target, or several.

    Parameters
    ----------
    n_targets : int
        Number of targets.
    is_single : bool
        Whether a prediction is one number: y has one dimension, and one quantile of it is asked
        for.
    loss : Loss, optional
        Squared loss by default.
    choice : LossChoice, optional
        What `scaled` makes the loss from.
    """

    def __init__(
        self,
        n_targets: int,
        is_single: bool,
        loss: Loss | None = None,
        choice: LossChoice | None = None,
    ) -> None:
        self.loss = SquaredLoss(n_targets) if loss is None else loss
        self.is_single = is_single
        self._choice = choice

    def scaled(self, target: AnyArray, weight: FloatArray) -> Regression:
        """Return the task with the loss that was chosen; that of other rows can be made of it."""
        if self._choice is None:
            return self
        loss = self._choice.loss(target, weight, target.shape[1])
        return Regression(loss.n_scores, self.is_single, loss, self._choice)

    @property
    def n_targets(self) -> int:
        """Columns of the target; several quantiles are of one."""
        return self.loss.n_scores if isinstance(self.loss, SquaredLoss) else 1

    def answers(self, scores: FloatArray) -> FloatArray:
        """Return predictions, shape (n_rows,) or (n_rows, n_scores)."""
        found = self.loss.link(scores)
        return found[:, 0] if self.is_single else found

    def labels(self, target: AnyArray) -> AnyArray:
        """Return y, shape (n_rows,) or (n_rows, n_targets)."""
        is_column = self.is_single or not isinstance(self.loss, SquaredLoss)
        return target[:, 0] if is_column else target

    def shaped(self, per_score: FloatArray) -> Any:
        """Return the numbers of the only target, or of each."""
        return per_score[0] if self.is_single else per_score

    def fixed_predictor(self, scores: FloatArray) -> Any:
        """Return a regressor of these scores."""
        return _FixedRegressor(self.answers(scores))

    def constant(self, target: AnyArray, weight: FloatArray) -> FloatArray:
        """Return the weighted mean of each target, or what the loss has instead; per score."""
        columns = np.asarray(target, dtype=np.float64).reshape(len(weight), -1)
        if isinstance(self.loss, SquaredLoss):
            return np.average(columns, axis=0, weights=weight)
        share = (weight / weight.sum())[:, None]
        return self.loss.link(self.loss.best_constant(columns, share)[None])[0]


class Classification(Task):
    """Two classes, or more.

    Parameters
    ----------
    classes : array of shape (n_classes,)
        Labels, sorted.
    """

    loss: LogLoss
    classes: AnyArray

    def __init__(self, classes: AnyArray) -> None:
        self.classes = classes
        self.loss = log_loss(len(classes))

    def answers(self, scores: FloatArray) -> FloatArray:
        """Return probabilities, shape (n_rows, n_classes)."""
        return self.loss.link(scores)

    def labels(self, target: AnyArray) -> AnyArray:
        """Return class labels, shape (n_rows,)."""
        return self.classes[target]

    def shaped(self, per_score: FloatArray) -> Any:
        """Return the numbers as they are, one entry per score."""
        return per_score

    def fixed_predictor(self, scores: FloatArray) -> Any:
        """Return a classifier of these scores."""
        return _FixedClassifier(scores, self)

    def constant(self, target: AnyArray, weight: FloatArray) -> FloatArray:
        """Return the weighted shares of the classes, shape (n_classes,)."""
        total = np.bincount(target, weight, minlength=len(self.classes))
        return total / total.sum()


def weight_of_classes(
    class_weight: Any, labels: AnyArray, counted_rows: AnyArray | None = None
) -> FloatArray:
    """Weight each row by its class.

    Parameters
    ----------
    class_weight : "balanced" or dict
        scikit-learn's.
    labels : array of shape (n_rows,)
        Class labels.
    counted_rows : int array, optional
        The rows whose classes "balanced" counts; all by default. A class that they lack counts
        as one that they hold once.

    Returns
    -------
    weight : array of shape (n_rows,)
    """
    if counted_rows is not None and isinstance(class_weight, str) and class_weight == "balanced":
        # scikit-learn's n / (n_classes * count), from the rows that may be counted: in the honest
        # regime the forest, and so its weights, must not see labels of the fit fold.
        known = labels[counted_rows]
        count = dict(zip(*np.unique(known, return_counts=True), strict=True))
        scale = len(known) / len(count)
        class_weight = {c: scale / count.get(c, 1) for c in np.unique(labels).tolist()}
    return np.asarray(compute_sample_weight(class_weight, labels), dtype=np.float64)


class _FixedRegressor(RegressorMixin, BaseEstimator):
    """Predictions that are already there; X are row numbers."""

    def __init__(self, prediction: Any = None) -> None:
        self.prediction = prediction

    def predict(self, X: Any) -> Any:
        return self.prediction[X]

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _FixedClassifier(ClassifierMixin, BaseEstimator):
    """Predictions that are already there; X are row numbers."""

    def __init__(self, scores: Any = None, task: Any = None) -> None:
        self.scores = scores
        self.task = task

    @property
    def classes_(self) -> Any:
        return self.task.classes

    def predict(self, X: Any) -> Any:
        return self.task.classes[self.task.loss.classes(self.scores[X])]

    def predict_proba(self, X: Any) -> Any:
        return self.task.loss.link(self.scores[X])

    def decision_function(self, X: Any) -> Any:
        return self.scores[X, 0] if self.scores.shape[1] == 1 else self.scores[X]

    def __sklearn_is_fitted__(self) -> bool:
        return True
