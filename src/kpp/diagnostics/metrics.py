"""How good predictions are: the figures that dashboard, report and command share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kpp._parallel import one_blas_thread
from kpp._typing import AnyArray, FloatArray
from kpp.bounds.samples import encode_target
from kpp.diagnostics.ranking import ranked
from kpp.models.asking import ask
from kpp.models.linear import KPPLinearModel
from kpp.solvers import HuberLoss, Loss, PinballLoss, PoissonLoss
from kpp.solvers.regression_losses import losses_of_answers

N_BINS = 10
# Figures of losses other than the squared error, and what people call them.
LOSS_NAMES = {
    "huber_loss": "mean Huber loss",
    "pinball_loss": "mean pinball loss",
    "poisson_deviance": "mean Poisson deviance",
}


def predictive_metrics(model: Any, X: Any, y: AnyArray) -> dict[str, float]:
    """Score a model on rows, in the usual figures of its task.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline that ends in one
        Fitted.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows.
    y : array of shape (n_rows,)
        Labels or numbers.

    Returns
    -------
    metrics : dict
        "rmse", "mae" and "r2", with another loss its mean first; or "error",
        "balanced_accuracy", "auc" (one class against the rest for more than two), "log_loss",
        "brier" and "calibration_error". NaN where the rows do not define one: a single row, a
        class that is absent.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> from kpp.diagnostics import predictive_metrics
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=10, alpha=1e-2, random_state=0).fit(X, y)
    >>> sorted(predictive_metrics(model, X, y))
    ['auc', 'balanced_accuracy', 'brier', 'calibration_error', 'error', 'log_loss']
    """
    question = ask(model)
    rows = question.rows(X)
    fitted: Any = question.model
    codes, answer = encode_target(question, y, len(rows)), fitted.predict(rows)
    if not question.is_classifier:
        return regression_metrics(codes, answer, loss=fitted.loss_)
    probability, prediction = fitted.predict_proba(rows), np.searchsorted(fitted.classes_, answer)
    found = classification_metrics(codes, probability, prediction)
    names = ("balanced_accuracy", "auc", "log_loss", "brier")
    return {
        "error": float(np.mean(codes != prediction)),
        **{name: found[name] for name in names},
        "calibration_error": calibration_error(probability, codes),
    }


def regression_metrics(
    y: AnyArray,
    prediction: FloatArray,
    weight: FloatArray | None = None,
    *,
    loss: Loss | None = None,
) -> dict[str, float]:
    r"""Score predicted numbers.

    .. math::
        \text{MSE} = \sum_i w_i (y_i - \hat y_i)^2 / \sum_i w_i, \qquad
        R^2 = 1 - \text{MSE} / \mathrm{Var}_w(y)

    Parameters
    ----------
    y, prediction : arrays of shape (n_rows,)
        Numbers, and what was predicted.
    weight : array of shape (n_rows,), optional
        Weights of the rows.
    loss : Loss, optional
        What the model minimises, where it is not the squared error.

    Returns
    -------
    metrics : dict
        "rmse", "mae" and "r2"; the latter is NaN where all of y is the same. With another loss
        its mean comes first: "huber_loss", "pinball_loss" or "poisson_deviance".

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics import regression_metrics
    >>> regression_metrics(np.array([0.0, 2.0]), np.array([0.0, 1.0]))["r2"]
    0.5
    """
    rest = y - prediction
    mse = float(np.average(np.square(rest), weights=weight))
    middle = np.average(y, weights=weight)
    spread = float(np.average(np.square(y - middle), weights=weight))
    own = {}
    if (name := loss_name(loss)) is not None and loss is not None:
        own[name] = float(np.average(losses_of_answers(loss, y, prediction), weights=weight))
    return own | {
        "rmse": float(np.sqrt(mse)),
        "mae": float(np.average(np.abs(rest), weights=weight)),
        "r2": 1 - mse / spread if spread > 0 else np.nan,
    }


def loss_name(loss: Loss | None) -> str | None:
    """Return the name of the figure of a loss; None for the squared and the log loss.

    Parameters
    ----------
    loss : Loss, optional
        Of a model.

    Returns
    -------
    name : str or None

    Examples
    --------
    >>> from kpp.diagnostics.metrics import loss_name
    >>> from kpp.solvers import PinballLoss
    >>> loss_name(PinballLoss([0.5]))
    'pinball_loss'
    """
    if isinstance(loss, HuberLoss):
        return "huber_loss"
    if isinstance(loss, PinballLoss):
        return "pinball_loss"
    return "poisson_deviance" if isinstance(loss, PoissonLoss) else None


def classification_metrics(
    codes: AnyArray,
    probability: FloatArray,
    prediction: AnyArray | None = None,
    weight: FloatArray | None = None,
) -> dict[str, float]:
    """Score predicted probabilities and classes.

    Parameters
    ----------
    codes : int array of shape (n_rows,)
        Classes as 0, ..., n_classes - 1.
    probability : array of shape (n_rows, n_classes)
        Predicted probabilities.
    prediction : int array of shape (n_rows,), optional
        Predicted classes; those of the largest probability by default.
    weight : array of shape (n_rows,), optional
        Weights of the rows.

    Returns
    -------
    metrics : dict
        "accuracy"; "balanced_accuracy", the mean over the classes that are present; "auc", of one
        class against the rest, averaged, for more than two, and NaN where one is absent;
        "log_loss", with probabilities kept off 0 and 1 by a rounding error, as scikit-learn does;
        and "brier".

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics import classification_metrics
    >>> p = np.array([0.1, 0.4, 0.35, 0.8])
    >>> found = classification_metrics(np.array([0, 0, 1, 1]), np.column_stack([1 - p, p]))
    >>> found["accuracy"], found["auc"]
    (0.75, 0.75)
    """
    w = np.ones(len(codes)) if weight is None else weight
    tiny = np.finfo(np.float64).eps
    own = np.clip(probability[np.arange(len(codes)), codes], tiny, 1 - tiny)
    is_right = (probability.argmax(axis=1) if prediction is None else prediction) == codes
    by_class = [
        float(np.average(is_right[codes == c], weights=w[codes == c]))
        for c in np.unique(codes[w > 0])
    ]
    return {
        "accuracy": float(np.average(is_right, weights=w)),
        "balanced_accuracy": float(np.mean(by_class)),
        "auc": _auc(codes, probability, w),
        "log_loss": float(np.average(-np.log(own), weights=w)),
        "brier": brier_score(probability, codes, w),
    }


def constant_metrics(
    model: KPPLinearModel, target: AnyArray, weight: FloatArray | None = None, output: int = 0
) -> dict[str, float] | None:
    """Score the constant of a fit on rows: what takes no columns, fitted on the training rows.

    It is the mean of the target, or the shares of the classes, of the rows of the linear layer by
    their weights. Report, command and dashboard compare with this one.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.
    target : array of shape (n_rows,), or (n_rows, n_targets) for numbers
        Numbers, or classes as 0, ..., n_classes - 1.
    weight : array of shape (n_rows,), optional
        Weights of the rows.
    output : int
        Which of several targets of a regressor.

    Returns
    -------
    metrics : dict or None
        As `regression_metrics` or `classification_metrics` have them; None for a model of an older
        file, which does not keep its constant.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp import KPPRegressor
    >>> from kpp.diagnostics import constant_metrics
    >>> X, y = np.arange(8.0).reshape(4, 2), np.array([0.0, 2.0, 4.0, 6.0])
    >>> model = KPPRegressor("extra-trees", n_estimators=2, alpha=1.0, random_state=0).fit(X, y)
    >>> constant_metrics(model, np.array([3.0, 5.0]))["mae"]
    1.0
    """
    constant = model.constant_
    if constant is None:
        return None
    if model.additive_.classes is None:
        # One column: against a vector, columns would be compared row by row with all rows.
        numbers = np.asarray(target, dtype=np.float64).reshape(len(target), -1)
        truth = numbers[:, output if numbers.shape[1] > 1 else 0]
        own = model.loss_
        return regression_metrics(truth, np.full(len(truth), constant[output]), weight, loss=own)
    share = np.tile(constant, (len(target), 1))
    return classification_metrics(target, share, weight=weight)


@one_blas_thread()
def _auc(codes: AnyArray, probability: FloatArray, weight: FloatArray) -> float:
    n_classes = probability.shape[1]
    one_against_rest = [1] if n_classes == 2 else range(n_classes)
    areas = []
    for c in one_against_rest:
        false, true = roc_curve(codes == c, probability[:, c], weight)
        # The trapezoidal rule; a class that is absent has no curve.
        areas.append(float(np.diff(false) @ (true[1:] + true[:-1]) / 2) if len(true) else np.nan)
    return float(np.mean(areas))


def auc_reason(
    codes: AnyArray, classes: Sequence[object], weight: FloatArray | None = None
) -> str | None:
    """Say why rows define no area under the ROC curve; None where they do.

    Parameters
    ----------
    codes : int array of shape (n_rows,)
        Classes as 0, ..., n_classes - 1.
    classes : sequence of length n_classes
        Their names.
    weight : array of shape (n_rows,), optional
        Weights of the rows.

    Returns
    -------
    why : str or None

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics import auc_reason
    >>> auc_reason(np.array([0, 1, 1]), ["a", "b", "c"])
    "not defined: none of these rows is of class 'c'"
    """
    share = np.bincount(codes, weight, minlength=len(classes))
    absent = [f"'{name}'" for name, size in zip(classes, share, strict=True) if size == 0]
    if not absent:
        return None
    more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
    return f"not defined: none of these rows is of class {', '.join(absent[:3])}{more}"


def roc_curve(
    positive: AnyArray, score: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """False and true positive rates at every distinct score, the highest first.

    Parameters
    ----------
    positive : bool array of shape (n_rows,)
        Rows of the class.
    score, weight : arrays of shape (n_rows,)
        What ranks the rows, and what they count.

    Returns
    -------
    false, true : arrays of shape (n_scores + 1,)
        Both from 0 to 1; empty where the rows are of a single class.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.metrics import roc_curve
    >>> false, true = roc_curve(np.array([True, False]), np.array([0.9, 0.2]), np.ones(2))
    >>> false.tolist(), true.tolist()
    ([0.0, 0.0, 1.0], [0.0, 1.0, 1.0])
    """
    _, true, false = (np.append(0.0, found) for found in ranked(positive, score, weight))
    if true[-1] == 0 or false[-1] == 0:
        return np.empty(0), np.empty(0)
    return false / false[-1], true / true[-1]


def brier_score(
    probability: FloatArray, codes: AnyArray, weight: FloatArray | None = None
) -> float:
    r"""Brier score: the mean squared distance of the probabilities from the label.

    For two classes, of the second class alone, as is usual; for more, summed over classes.

    Parameters
    ----------
    probability : array of shape (n_rows, n_classes)
        Predicted probabilities.
    codes : int array of shape (n_rows,)
        Classes as 0, ..., n_classes - 1.
    weight : array of shape (n_rows,), optional
        Weights of the rows.

    Returns
    -------
    score : float

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.metrics import brier_score
    >>> round(brier_score(np.array([[0.2, 0.8], [0.9, 0.1]]), np.array([1, 0])), 3)
    0.025
    """
    target = codes[:, None] == np.arange(probability.shape[1])
    each = np.square(probability - target).sum(axis=1)
    return float(np.average(each, weights=weight) / (2 if probability.shape[1] == 2 else 1))


def calibration_error(probability: FloatArray, codes: AnyArray, n_bins: int = N_BINS) -> float:
    r"""Expected calibration error of the predicted class.

    .. math:: \sum_b \frac{n_b}{n} \bigl|\text{accuracy}_b - \text{confidence}_b\bigr|

    over bins b of equally many rows, by the probability of the predicted class.

    Parameters
    ----------
    probability : array of shape (n_rows, n_classes)
        Predicted probabilities.
    codes : int array of shape (n_rows,)
        Classes as 0, ..., n_classes - 1.
    n_bins : int
        Number of bins.

    Returns
    -------
    error : float
        Not 0 for a calibrated model of few rows: about :math:`(2 b / \pi n)^{1/2}` times the
        standard deviation of the labels in a bin, for b bins.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.diagnostics.metrics import calibration_error
    >>> always = np.tile([0.25, 0.75], (4, 1))
    >>> calibration_error(always, np.array([1, 1, 1, 0]), n_bins=1)
    0.0
    """
    confidence = probability.max(axis=1)
    right = probability.argmax(axis=1) == codes
    order = np.argsort(confidence, kind="stable")
    bins = np.array_split(order, min(n_bins, len(order)))
    gaps = [abs(right[b].mean() - confidence[b].mean()) * len(b) for b in bins]
    return float(sum(gaps) / len(codes))
