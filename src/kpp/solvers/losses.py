r"""Losses: everything that the linear layer, the choice of alpha and the answer know of the task.

A loss is one object. The solvers ask it for values, gradient and curvature, the choice of alpha for
its unit and its figure of merit, the model for the link from scores to answers. A new loss is a
new subclass of `Loss`; unless it brings a solver of its own, as the squared loss does, Newton's
method (`kpp.solvers.newton`) takes it as it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax

from kpp._typing import AnyArray, FloatArray

# Takes a change of the scores to the change of the gradient, in place.
Curvature = Callable[[FloatArray], FloatArray]


class Loss(ABC):
    r"""A convex loss :math:`\ell(y, g)` of the scores g of a row.

    Attributes
    ----------
    name : str
        What people call its mean.
    n_scores : int
        Scores of a row.
    is_averaged : bool
        Whether the objective divides the loss by the sum of the weights, as scikit-learn does for
        logistic regression and not for ridge. It sets the meaning of alpha.
    search_tol, final_tol : float
        Tolerances to which fits are solved while alpha is chosen: for the choice itself, and for
        the out-of-fold predictions that are kept.
    alphas_share_products : bool
        Whether one more alpha costs no product with the Gram.
    negligible : float
        A gain of the mean loss that is not worth another alpha.
    """

    name: str
    n_scores: int
    is_averaged: bool
    search_tol: float
    final_tol: float
    alphas_share_products: bool = False
    negligible: float = 0.0

    @abstractmethod
    def prepare(self, target: AnyArray) -> Any:
        """Return the target in the form that `values` and `gradient` take."""

    @abstractmethod
    def values(self, target: Any, scores: FloatArray) -> FloatArray:
        r"""Return :math:`\ell`, an array of shape (n_rows, 1) or one that adds up to it."""

    @abstractmethod
    def gradient(self, target: Any, scores: FloatArray) -> FloatArray:
        r"""Return :math:`\partial \ell / \partial g`, shape (n_rows, n_scores)."""

    def values_and_gradient(self, target: Any, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `values` and `gradient`; a loss may have a shorter way to both."""
        return self.values(target, scores), self.gradient(target, scores)

    @abstractmethod
    def curvature(self, scores: FloatArray, share: FloatArray) -> Curvature:
        r"""Return the product with :math:`\partial^2 \ell / \partial g^2`, times each row's share.

        Parameters
        ----------
        scores : array of shape (n_rows, n_scores)
            Where.
        share : array of shape (n_rows, 1)
            Weights of the rows, summing to 1.
        """

    def best_constant(self, target: Any, share: FloatArray) -> FloatArray:
        """Return a constant score to start from, shape (n_scores,); 0 where none is known.

        Parameters
        ----------
        target : object
            From `prepare`.
        share : array of shape (n_rows, 1)
            Weights of the rows, summing to 1.
        """
        return np.zeros(self.n_scores)

    @abstractmethod
    def merit(self, target: AnyArray, scores: FloatArray, weight: FloatArray) -> float:
        """Return minus the mean loss as it is reported, higher is better."""

    @abstractmethod
    def link(self, scores: FloatArray) -> FloatArray:
        """Return what the scores say of the target: numbers, or probabilities of the classes."""

    def unit(self, spread: float, weight: FloatArray) -> float:
        """Return the alpha that a relative alpha of 1 stands for on a map of this spread."""
        return spread / float(weight.sum()) if self.is_averaged else spread


class SquaredLoss(Loss):
    r"""Half the squared error, :math:`\tfrac12 (y - g)^2`, of each target.

    Parameters
    ----------
    n_targets : int
        Number of targets.
    """

    name = "mean squared error"
    is_averaged = False
    # On real data a hundredth of the objective moves the error of other rows by less than a
    # thousandth (docs/models.md).
    search_tol, final_tol = 1e-2, 1e-3
    alphas_share_products = True

    def __init__(self, n_targets: int = 1) -> None:
        self.n_scores = n_targets

    def prepare(self, target: AnyArray) -> FloatArray:
        """Return the target as float64 of shape (n_rows, n_targets)."""
        target = np.asarray(target, dtype=np.float64)
        return target.reshape(len(target), -1)

    def values(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Return half the squared errors, shape (n_rows, n_targets)."""
        return np.square(target - scores) / 2

    def gradient(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Return the errors, shape (n_rows, n_targets)."""
        return scores - target

    def curvature(self, scores: FloatArray, share: FloatArray) -> Curvature:
        """Return the product with the shares: the second derivative is 1."""
        return lambda change: np.multiply(change, share, out=change)

    def merit(self, target: AnyArray, scores: FloatArray, weight: FloatArray) -> float:
        """Return minus the mean squared error over rows and targets."""
        return -float(np.average(np.square(target - scores).mean(axis=1), weights=weight))

    def link(self, scores: FloatArray) -> FloatArray:
        """Return the scores: they are the prediction."""
        return scores


class LogLoss(Loss):
    """What the log loss of two and of more classes share; make one with `log_loss`."""

    name = "log loss"
    is_averaged = True
    search_tol, final_tol = 5e-3, 1e-3
    # Where classes are told apart without a mistake the loss goes on falling to 0 with alpha.
    negligible = 1e-4
    n_classes: int

    @abstractmethod
    def log_link(self, scores: FloatArray) -> FloatArray:
        """Return the logarithms of the probabilities, shape (n_rows, n_classes)."""

    @abstractmethod
    def classes(self, scores: FloatArray) -> AnyArray:
        """Return the number of the most probable class, shape (n_rows,)."""

    def merit(self, target: AnyArray, scores: FloatArray, weight: FloatArray) -> float:
        """Return the mean log-likelihood of class numbers."""
        own = np.take_along_axis(self.log_link(scores), target[:, None], axis=1)[:, 0]
        return float(np.average(own, weights=weight))


class BinaryLogLoss(LogLoss):
    r"""Log loss of one score, :math:`\log(1 + e^{-z g})` with :math:`z = \pm 1`."""

    n_scores, n_classes = 1, 2

    def prepare(self, target: AnyArray) -> FloatArray:
        """Return z, shape (n_rows, 1), from class numbers 0 and 1."""
        return np.where(np.asarray(target) == 1, 1.0, -1.0)[:, None]

    def values(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Return the losses, shape (n_rows, 1)."""
        # log(1 + e^(-z g)) without overflow for scores that are far on the wrong side.
        return np.logaddexp(0.0, -target * scores)

    def gradient(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        r"""Return :math:`-z \sigma(-z g)`, shape (n_rows, 1)."""
        return -target * expit(-target * scores)

    def curvature(self, scores: FloatArray, share: FloatArray) -> Curvature:
        r"""Return the product with :math:`\sigma(g) \sigma(-g)` and the shares."""
        slope = expit(scores) * expit(-scores) * share
        return lambda change: np.multiply(change, slope, out=change)

    def best_constant(self, target: FloatArray, share: FloatArray) -> FloatArray:
        """Return the log-odds of the shares of the classes."""
        ups = float(share[target > 0].sum())
        return np.array([np.log(ups / (1 - ups))]) if 0 < ups < 1 else np.zeros(1)

    def link(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities, shape (n_rows, 2)."""
        return expit(np.hstack([-scores, scores]))

    def log_link(self, scores: FloatArray) -> FloatArray:
        """Return the logarithms of the probabilities, shape (n_rows, 2)."""
        return log_expit(np.hstack([-scores, scores]))

    def classes(self, scores: FloatArray) -> AnyArray:
        """Return 1 where the score exceeds 0, strictly."""
        return (scores[:, 0] > 0).astype(int)


class MultinomialLogLoss(LogLoss):
    r"""Log loss of the softmax of one score per class.

    Parameters
    ----------
    n_classes : int
        Number of classes.
    """

    def __init__(self, n_classes: int) -> None:
        self.n_scores = self.n_classes = n_classes

    def prepare(self, target: AnyArray) -> tuple[AnyArray, FloatArray]:
        """Return class numbers, shape (n_rows, 1), and their indicators (n_rows, n_classes)."""
        codes = np.asarray(target)[:, None]
        return codes, (codes == np.arange(self.n_classes)).astype(np.float64)

    def values(self, target: tuple[AnyArray, FloatArray], scores: FloatArray) -> FloatArray:
        """Return the losses, shape (n_rows, 1)."""
        return -np.take_along_axis(log_softmax(scores, axis=1), target[0], axis=1)

    def gradient(self, target: tuple[AnyArray, FloatArray], scores: FloatArray) -> FloatArray:
        """Return probabilities minus indicators, shape (n_rows, n_classes)."""
        return np.exp(log_softmax(scores, axis=1)) - target[1]

    def values_and_gradient(
        self, target: tuple[AnyArray, FloatArray], scores: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return losses and their gradient from one exponential of every score."""
        logs = log_softmax(scores, axis=1)
        values = -np.take_along_axis(logs, target[0], axis=1)
        p = np.exp(logs, out=logs)
        p -= target[1]
        return values, p

    def curvature(self, scores: FloatArray, share: FloatArray) -> Curvature:
        r"""Return the product with :math:`\mathrm{diag}(p) - p p^\top` and the shares."""
        p = softmax(scores, axis=1)
        weighted = p * share

        def product(change: FloatArray) -> FloatArray:
            # (diag(p) - p p') c = p (c - <p, c>), entry by entry.
            change -= np.einsum("ij,ij->i", p, change)[:, None]
            return np.multiply(change, weighted, out=change)

        return product

    def best_constant(self, target: tuple[AnyArray, FloatArray], share: FloatArray) -> FloatArray:
        """Return the logarithms of the shares of the classes, centred."""
        shares = (share * target[1]).sum(axis=0)
        logs = np.log(np.maximum(shares, np.finfo(float).tiny))
        return logs - logs.mean()

    def link(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities, shape (n_rows, n_classes)."""
        return softmax(scores, axis=1)

    def log_link(self, scores: FloatArray) -> FloatArray:
        """Return the logarithms of the probabilities, shape (n_rows, n_classes)."""
        return log_softmax(scores, axis=1)

    def classes(self, scores: FloatArray) -> AnyArray:
        """Return the class of the largest score."""
        return scores.argmax(axis=1)


def log_loss(n_classes: int) -> LogLoss:
    """Return the log loss: one score for two classes, otherwise one per class.

    Parameters
    ----------
    n_classes : int
        At least 2.

    Returns
    -------
    loss : LogLoss

    Examples
    --------
    >>> from kpp.solvers import log_loss
    >>> log_loss(2).n_scores, log_loss(3).n_scores
    (1, 3)
    """
    return BinaryLogLoss() if n_classes == 2 else MultinomialLogLoss(n_classes)
