"""The loss of single rows, as comparisons and segments average it."""

from __future__ import annotations

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.diagnostics.metrics import LOSS_NAMES, loss_name
from kpp.models.asking import Question
from kpp.scores import RoutedRows
from kpp.solvers.regression_losses import losses_of_answers

LOSSES = ("auto", "error")


def row_losses(
    question: Question, rows: RoutedRows, target: AnyArray, loss: str = "auto"
) -> tuple[str, FloatArray]:
    """Return what a model loses on each row, and what that is called.

    Parameters
    ----------
    question : Question
        The model.
    rows : RoutedRows
        Of length n_rows.
    target : array of shape (n_rows,) or (n_rows, n_targets)
        Numbers of classes, or numbers, as ``question.encode`` gives them.
    loss : {"auto", "error"}
        "auto" is what the model minimises: the log loss, squared errors averaged over targets, or
        another. "error" is 1 for a wrong class, or the absolute error.

    Returns
    -------
    name : str
    losses : array of shape (n_rows,)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.diagnostics.losses import row_losses
    >>> from kpp.models.asking import ask
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0).fit(X, y)
    >>> question = ask(model)
    >>> name, losses = row_losses(question, question.rows(X), question.encode(y, len(y)))
    >>> name, losses.shape
    ('squared error', (442,))
    """
    model = question.model
    classes = question.additive.classes
    if classes is not None:
        if loss == "error":
            wrong = np.asarray(model.predict(rows)) != classes[target]
            return "0/1 error", wrong.astype(np.float64)
        # Off minus infinity by a rounding error, as the other figures have it.
        log = np.asarray(model.predict_log_proba(rows))[np.arange(len(rows)), target]
        return "log loss", np.minimum(-log, -np.log(np.finfo(np.float64).eps))
    prediction = np.asarray(model.predict(rows)).reshape(len(rows), -1)
    if loss == "error":
        return "absolute error", np.abs(target - prediction).mean(axis=1)
    own = loss_name(model.loss_)
    if own is not None:
        name = LOSS_NAMES[own].removeprefix("mean ")
        return name, losses_of_answers(model.loss_, target[:, 0], prediction[:, 0])
    return "squared error", np.square(target - prediction).mean(axis=1)
