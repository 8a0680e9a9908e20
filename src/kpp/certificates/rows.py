"""Rows of a question about one row or many."""

from __future__ import annotations

from typing import Any

from kpp.models.asking import Question
from kpp.models.pipelines import as_rows, raw_columns
from kpp.scores import RoutedRows


def one_or_many(question: Question, X: Any) -> RoutedRows:
    """Prepare, check and route rows; a single one may also come alone.

    Parameters
    ----------
    question : Question
        The model.
    X : array-like, data frame or RoutedRows of shape (n_rows, n_columns), or one row
        One row as a 1-d array, a Series or a mapping from names to values.

    Returns
    -------
    rows : RoutedRows
    """
    return question.rows(as_rows(X, raw_columns(question.preparation, question.model)))
