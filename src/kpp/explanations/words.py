"""Single splits in words, for those who show them one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp.explanations._conditions import Condition
from kpp.explanations._rule import shorten_rule
from kpp.explanations.rules import wording_of
from kpp.models.asking import ask

__all__ = ["SplitWords", "shorten_rule"]


class SplitWords:
    """How splits read at one row of a model.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier, Pipeline or Question
        Fitted.
    x : one row, or RoutedRows of length 1
        The row.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp import KPPRegressor
    >>> from kpp.explanations.words import SplitWords
    >>> X = np.arange(20.0)[:, None]
    >>> model = KPPRegressor("extra-trees", n_estimators=3, alpha=0.1).fit(X, X[:, 0])
    >>> SplitWords(model, X[3]).side(0, 7.4, True)
    'x0 <= 7'
    """

    def __init__(self, model: Any, x: Any) -> None:
        question = ask(model)
        self.question = question
        self.wording = wording_of(question, question.row(x))

    def side(self, column: int, threshold: float, goes_left: bool) -> str:
        """Write the side of a numerical split that the row is on.

        Parameters
        ----------
        column : int
            Of those that the model sees.
        threshold : float
            Where it splits.
        goes_left : bool
            Whether the row is at or below it.

        Returns
        -------
        text : str
        """
        low, high = (-np.inf, threshold) if goes_left else (threshold, np.inf)
        return self.wording.cell((Condition(column, low, high),))

    def column(self, column: int) -> str:
        """Name of the column of the table that a column of the model was made of."""
        return self.question.meanings[column].source
