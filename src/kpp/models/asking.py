"""How a question reaches a fitted model: alone, or at the end of a ``Pipeline``; rows in any form.

Explanations, certificates, bounds, diagnostics and exports take the same things: a model, or a
Pipeline that ends in one, and rows, or rows that were routed before. `ask` turns the first into a
`Question`, whose methods turn the second into `RoutedRows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kpp._typing import AnyArray, FloatArray
from kpp.models.data import check_target
from kpp.models.left_rows import check_has_rows, left_rows
from kpp.models.linear import KPPLinearModel
from kpp.models.meanings import Meaning, meanings_of
from kpp.models.pipelines import (
    Preparation,
    as_rows,
    prepared,
    prepared_names,
    raw_columns,
    source_columns,
    split_pipeline,
)
from kpp.models.regimes import Regime, regime_of
from kpp.scores import AdditiveForest, RoutedRows, routed_rows
from kpp.solvers import SquaredLoss


@dataclass(frozen=True, eq=False)
class Question:
    """A fitted linear model, and what comes before it.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        Fitted.
    preparation : transformer, Pipeline of transformers, or None
        What raw rows go through before.
    """

    model: KPPLinearModel
    preparation: Preparation | None = None

    @property
    def additive(self) -> AdditiveForest:
        """The model as forests with one number per node and score."""
        return self.model.additive_

    @property
    def regime(self) -> type[Regime]:
        """The model's regime."""
        return regime_of(self.model)

    @property
    def is_classifier(self) -> bool:
        """Whether the answer is a class."""
        return self.additive.classes is not None

    @property
    def is_ridge(self) -> bool:
        """Whether its linear layers are those of the squared loss, with its closed forms."""
        return not self.is_classifier and isinstance(self.model._task.loss, SquaredLoss)

    @property
    def node_coef(self) -> FloatArray:
        """Coefficients w of shape (n_scores, m)."""
        return np.atleast_2d(np.asarray(self.model.node_coef_, dtype=np.float64))

    @property
    def intercept(self) -> FloatArray:
        """Intercepts b of shape (n_scores,)."""
        return self.additive.intercept

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that the model sees; x0, x1, ... where it has seen none."""
        return tuple(prepared_names(self.preparation, self.model))

    @cached_property
    def raw_names(self) -> tuple[str, ...]:
        """Names of the columns that the user gives; x0, x1, ... where the fit has seen none."""
        names = raw_columns(self.preparation, self.model)
        if names is not None:
            return tuple(names)
        n_raw = getattr(self.preparation, "n_features_in_", len(self.names))
        return tuple(f"x{j}" for j in range(n_raw))

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """For every column that the model sees, the raw column that it was made of."""
        return tuple(source_columns(self.preparation, self.raw_names, self.names))

    @cached_property
    def meanings(self) -> tuple[Meaning, ...]:
        """For every column that the model sees, what it says of the user's columns."""
        return meanings_of(self.preparation, self.raw_names, self.names, self.sources)

    @property
    def fit_weight(self) -> FloatArray:
        """Weights of the rows of the fit, summing to 1; shape (n_fit_rows,)."""
        check_has_rows(self.model, "This question")
        weight, n_rows = self.model.sample_weight_, self.model.map_.shape[0]
        if weight is None:
            return np.full(n_rows, 1.0 / n_rows)
        return np.asarray(weight, dtype=np.float64) / np.sum(weight)

    @property
    def mean_row(self) -> FloatArray:
        r"""The weighted mean :math:`\bar\phi` of the rows of the fit, shape (m,)."""
        left = left_rows(self.model)
        if left is not None:
            return left.mean_row(self.model.map_, is_weighted=True)
        return self.model.map_.mean_row(self.fit_weight)

    def encode(self, y: Any, n_rows: int) -> AnyArray:
        """Check the targets of rows, and return them as the scores have them.

        Parameters
        ----------
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
            Labels that the model knows, or numbers.
        n_rows : int
            Number of rows.

        Returns
        -------
        target : array of shape (n_rows,) or (n_rows, n_targets)
            Numbers of classes, or numbers, also of a single target with two dimensions.
        """
        target, classes = check_target(y, n_rows), self.additive.classes
        if classes is not None:
            unknown = sorted(set(target.ravel().tolist()) - set(classes.tolist()), key=repr)
            if target.ndim != 1 or unknown:
                raise ValueError(
                    f"y holds labels that the model does not know: {unknown[:5]}; it knows "
                    f"{classes.tolist()[:10]}."
                )
            # Classes are sorted, and every label is among them.
            return np.searchsorted(classes, target)
        numbers = np.asarray(target, dtype=np.float64)
        n_targets = self.additive.n_scores
        if numbers.reshape(n_rows, -1).shape[1] != n_targets:
            raise ValueError(
                f"y must have {n_targets} target(s) per row, as the model; got shape "
                f"{numbers.shape}."
            )
        return numbers.reshape(n_rows, n_targets)

    def rows(self, X: Any, *, least: int = 1) -> RoutedRows:
        """Prepare, check and route rows; routed ones are taken as they are.

        Parameters
        ----------
        X : array-like, data frame or RoutedRows of shape (n_rows, n_columns)
            Rows as the user has them; one row also as a 1-d array, a Series or a dict.
        least : int
            Fewest rows that the question makes sense for.

        Returns
        -------
        rows : RoutedRows
        """
        if not isinstance(X, RoutedRows):
            # One row in any form first becomes a table: a preparation may know its columns by name
            # only.
            X = prepared(self.preparation, as_rows(X, raw_columns(self.preparation, self.model)))
        rows = routed_rows(self.model, X)
        if len(rows) < least:
            raise ValueError(
                f"Found array with {len(rows)} sample(s) (shape={rows.shape}) while a minimum of "
                f"{least} is required by {type(self.model).__name__}."
            )
        return rows

    def row(self, x: Any, name: str = "x") -> RoutedRows:
        """Prepare, check and route the one row that a question is about.

        Parameters
        ----------
        x : array of shape (n_columns,) or (1, n_columns), Series, dict, data frame of one row
            The row.
        name : str
            What an error calls it.

        Returns
        -------
        row : RoutedRows
            Of length 1.
        """
        if not isinstance(x, RoutedRows):
            x = as_rows(x, raw_columns(self.preparation, self.model))
        # A table of several rows is refused here, before it is prepared and routed for nothing.
        shape = np.shape(x) if isinstance(x, list) else tuple(x.shape)
        if len(shape) != 2 or shape[0] != 1:
            n = self.model.n_features_in_
            raise ValueError(
                f"{name} must be one row, of shape ({n},) or (1, {n}); got shape {shape}. Pass "
                "X[i], or X.iloc[[i]] of a data frame; explain takes many rows."
            )
        return self.rows(x)


def ask(model: Any) -> Question:
    """Take a fitted linear model, or a Pipeline that ends in one; refuse anything else.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier, Pipeline or Question
        Fitted. A question is returned as it is.

    Returns
    -------
    question : Question

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kpp import KPPRegressor
    >>> from kpp.models.asking import ask
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> regressor = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0)
    >>> pipeline = make_pipeline(StandardScaler(), regressor).fit(X, y)
    >>> question = ask(pipeline)
    >>> question.regime.number, len(question.rows(X)), len(question.row(X.iloc[0]))
    ('PB-04', 442, 1)
    """
    if isinstance(model, Question):
        return model
    preparation, found = split_pipeline(model)
    if not isinstance(found, KPPLinearModel):
        raise TypeError(
            f"Expected a fitted KPPRegressor or KPPClassifier; got {found!r}. An embedding alone "
            "has no scores."
        )
    return Question(found, preparation)
