"""What a report is about: a model, its test rows, and the names under which both are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kpp._checks import check_sample_weight
from kpp._rows import take_rows
from kpp._typing import AnyArray, FloatArray, OffsetArray
from kpp.explanations.attribution import column_of
from kpp.explanations.explain import explain
from kpp.models.data import check_target
from kpp.models.pipelines import (
    prepared,
    prepared_names,
    source_columns,
    split_pipeline,
    sum_by_source,
)
from kpp.models.reading import check_model, scores_of
from kpp.reports.escaping import distinct, shown

# More rows than this say nothing more about the average contribution of a variable.
ATTRIBUTION_ROWS = 5000
LONGEST = 600


@dataclass(frozen=True, eq=False)
class Training:
    """What was given to fit, where the caller has it.

    Parameters
    ----------
    X : array or data frame of shape (n_training_rows, n_features)
        Prepared for the model.
    y : array of shape (n_training_rows,) or (n_training_rows, n_targets)
        Targets, as the model knows them.
    names : index of shape (n_training_rows,) or None
        How the user's frame calls these rows.
    """

    X: Any
    y: AnyArray
    names: Any = None


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model and the test rows of its report.

    Parameters
    ----------
    model : KPPRegressor or KPPClassifier
        The model behind the preparation.
    preparation : transformer or None
        What prepares the user's columns.
    given : array or data frame of shape (n_rows, n_columns)
        The test rows as the user has them.
    X : array or data frame of shape (n_rows, n_features)
        The same rows, prepared.
    y : array of shape (n_rows,) or (n_rows, n_targets)
        Their targets.
    weight : array of shape (n_rows,)
        Their weights.
    training : Training or None
        What was given to fit.
    random_state : int
        Seed of every draw of the report.
    max_rows : int
        Most rows of the explorer.
    y_range : tuple of float, optional
        Limits of a regression's target that were known beforehand.
    target_name : str or None
        What y is called, to be shown.
    source : list of str
        Sentences on where the rows come from, to be shown.
    unseen : bool
        Whether the caller knows that fit has not used the test rows.
    """

    model: Any
    preparation: Any
    given: Any
    X: Any
    y: AnyArray
    weight: FloatArray
    training: Training | None = None
    random_state: int = 0
    max_rows: int = 60
    y_range: tuple[float, float] | None = None
    target_name: str | None = None
    source: Sequence[str] = ()
    unseen: bool = True
    _columns: dict[int, AnyArray] = field(default_factory=dict, repr=False)

    @classmethod
    def read(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        sample_weight: Any,
        train: Any,
        max_rows: int,
        random_state: int,
        y_range: tuple[float, float] | None,
        target_name: str | None = None,
        source: str | Sequence[str] = (),
        unseen: bool = True,
    ) -> Subject:
        """Check what the caller gives, once."""
        preparation, inner = split_pipeline(model)
        check_model(inner)
        if not isinstance(max_rows, int | np.integer) or isinstance(max_rows, bool) or max_rows < 1:
            raise ValueError(f"max_rows must be a number of rows, at least 1; got {max_rows!r}.")
        given = X if hasattr(X, "columns") or hasattr(X, "ndim") else np.asarray(X)
        if len(given) == 0:
            raise ValueError("X has no rows: a report needs test rows.")
        target = _check_y(inner, y, len(given))
        training = None
        if train is not None:
            if not isinstance(train, tuple) or len(train) != 2:
                raise ValueError(
                    "train must be the pair (X, y) that was given to fit; got "
                    f"{type(train).__name__}."
                )
            if len(train[1]) <= np.max(inner.fit_rows_):
                raise ValueError(
                    "train must be the pair (X, y) that was given to fit, all of its rows; got "
                    f"{len(train[1])}."
                )
            training = Training(
                prepared(preparation, train[0]),
                _check_y(inner, train[1], len(train[0])),
                _names_of_rows(train[0]),
            )
        return cls(
            model=inner,
            preparation=preparation,
            given=given,
            X=prepared(preparation, given),
            y=target,
            weight=check_sample_weight(sample_weight, len(given)),
            training=training,
            random_state=int(random_state),
            max_rows=int(max_rows),
            y_range=y_range,
            target_name=None if target_name is None else shown(target_name),
            source=[shown(s, LONGEST) for s in ([source] if isinstance(source, str) else source)],
            unseen=bool(unseen),
        )

    # The rows and their answers.

    @property
    def n_rows(self) -> int:
        """Number of test rows."""
        return len(self.y)

    @property
    def is_classifier(self) -> bool:
        """Whether the answers are classes."""
        return bool(is_classifier(self.model))

    @cached_property
    def scores(self) -> FloatArray:
        """Scores of the test rows, shape (n_rows, n_scores)."""
        return scores_of(self.model, self.X)

    @cached_property
    def probability(self) -> FloatArray:
        """Probabilities of the test rows, shape (n_rows, n_classes)."""
        return np.asarray(self.model.predict_proba(self.X))

    @cached_property
    def prediction(self) -> AnyArray:
        """Predictions of the test rows: codes of classes, or numbers of shape (n_rows, k)."""
        if self.is_classifier:
            return np.searchsorted(self.model.classes_, self.model.predict(self.X))
        return np.asarray(self.model.predict(self.X)).reshape(self.n_rows, -1)

    @cached_property
    def target(self) -> AnyArray:
        """Targets of the test rows: codes of classes, or numbers of shape (n_rows, k)."""
        return self.encode(self.y)

    def encode(self, y: AnyArray) -> AnyArray:
        """Targets as codes of classes, or as numbers of shape (n_rows, k)."""
        if self.is_classifier:
            return np.searchsorted(self.model.classes_, y)
        return np.asarray(y, dtype=np.float64).reshape(len(y), -1)

    @cached_property
    def loss(self) -> FloatArray:
        """Loss of each test row: log loss, or squared error averaged over targets."""
        if self.is_classifier:
            own = self.model.predict_log_proba(self.X)[np.arange(self.n_rows), self.target]
            return -np.asarray(own)
        return np.square(self.target - self.prediction).mean(axis=1)

    @cached_property
    def tolerance(self) -> Any:
        """For a regressor, the change that counts: its root mean squared error on these rows."""
        if self.is_classifier:
            return None
        squares = np.square(self.target - self.prediction)
        rmse = np.sqrt(np.average(squares, axis=0, weights=self.weight))
        spread = self.target.std(axis=0)
        epsilon = np.where(rmse > 0, rmse, np.where(spread > 0, spread, 1.0))
        return float(epsilon[0]) if len(epsilon) == 1 else epsilon

    # Names.

    @cached_property
    def class_names(self) -> list[str]:
        """The classes, to be shown."""
        return distinct(self.model.classes_.tolist())

    @cached_property
    def output_names(self) -> list[str]:
        """What each score is of, to be shown: classes, or targets."""
        if self.is_classifier:
            names = self.class_names
            return names if len(names) > 2 else names[1:]
        n = self.prediction.shape[1]
        return ["prediction"] if n == 1 else [f"target {k}" for k in range(n)]

    @cached_property
    def _columns_in(self) -> list[str]:
        """Names of the user's columns; x0, x1, ... where they have none."""
        columns = getattr(self.given, "columns", None)
        if columns is None:
            columns = getattr(self.preparation, "feature_names_in_", None)
        if columns is None:
            columns = [f"x{j}" for j in range(self.given.shape[1])]
        return [str(column) for column in columns]

    @cached_property
    def prepared_names(self) -> list[str]:
        """Names of the columns that the model sees, as the preparation calls them."""
        return prepared_names(self.preparation, self.model, self._columns_in)

    @cached_property
    def _sources(self) -> list[str] | None:
        """The user's column behind every prepared one; None where they are the same."""
        if self.preparation is None:
            return None
        return source_columns(self.preparation, self._columns_in, self.prepared_names)

    @cached_property
    def variables(self) -> list[str]:
        """Names of the variables that contributions are summed to, to be shown."""
        sources = self._sources
        return distinct(self.prepared_names if sources is None else dict.fromkeys(sources))

    @cached_property
    def _places(self) -> list[tuple[bool, int]]:
        """Where the values of each variable are: in the user's columns, or the prepared ones."""
        if self._sources is None:
            return [(True, j) for j in range(len(self.variables))]
        own = self._columns_in
        return [
            (True, own.index(name)) if name in own else (False, self.prepared_names.index(name))
            for name in dict.fromkeys(self._sources)
        ]

    def values_of(self, variable: int) -> AnyArray:
        """Values of a variable in the test rows, as the user has them; shape (n_rows,)."""
        if variable not in self._columns:
            of_user, column = self._places[variable]
            self._columns[variable] = column_of(self.given if of_user else self.X, column)
        return self._columns[variable]

    def row_label(self, row: int) -> str:
        """How the user's frame calls a row; its number where there is nothing better."""
        return self._label(_names_of_rows(self.given), row)

    def training_label(self, row: int) -> str:
        """How the user's frame calls a training row; its number where there is nothing better."""
        return self._label(None if self.training is None else self.training.names, row)

    @staticmethod
    def _label(names: Any, row: int) -> str:
        return str(row) if names is None else shown(names[row])

    @property
    def is_weighted(self) -> bool:
        """Whether some test rows count more than others."""
        return bool(np.any(self.weight != 1))

    # Contributions.

    def draw(self, most: int) -> OffsetArray:
        """At most so many test rows, the same at every call, in their order."""
        if self.n_rows <= most:
            return np.arange(self.n_rows)
        random = np.random.default_rng(self.random_state)
        return np.sort(random.choice(self.n_rows, most, replace=False))

    def rows(self, index: AnyArray) -> Any:
        """Some of the prepared test rows."""
        return take_rows(self.X, index)

    def contributions(self, index: AnyArray) -> tuple[FloatArray, FloatArray]:
        """Centred contributions by variable at some rows, and their baseline.

        Returns
        -------
        values : array of shape (n_index, n_variables, n_scores)
        baseline : array of shape (n_scores,)
        """
        attribution = explain(self.model, self.rows(index), centered=True)
        values = attribution.values
        values = values[..., None] if values.ndim == 2 else values
        if self._sources is not None:
            values = sum_by_source(values, self._sources)[1]
        return np.asarray(values), np.atleast_1d(attribution.baseline)

    @cached_property
    def overview(self) -> tuple[OffsetArray, FloatArray]:
        """The rows that the average contributions are of, and their contributions."""
        index = self.draw(ATTRIBUTION_ROWS)
        return index, self.contributions(index)[0]

    @cached_property
    def importance(self) -> FloatArray:
        """Mean absolute contribution, shape (n_variables, n_scores)."""
        index, values = self.overview
        weight = self.weight[index]
        if not weight.any():  # drawn rows of no weight count alike
            weight = np.ones(len(index))
        return np.average(np.abs(values), axis=0, weights=weight)


def _names_of_rows(X: Any) -> Any:
    """The index of a data frame; lists have a method of that name."""
    index = getattr(X, "index", None)
    return None if callable(index) else index


def _check_y(model: Any, y: Any, n_rows: int) -> AnyArray:
    target = check_target(y, n_rows)
    if is_classifier(model):
        known = model.classes_
        unknown = sorted(set(target.tolist()) - set(known.tolist()), key=repr)
        if target.ndim != 1 or unknown:
            raise ValueError(
                f"y holds labels that the model does not know: {unknown[:5]}; it knows "
                f"{known.tolist()[:10]}."
            )
        return target
    numbers = np.asarray(target, dtype=np.float64)
    n_targets = len(np.atleast_1d(model.intercept_))
    if numbers.reshape(n_rows, -1).shape[1] != n_targets:
        raise ValueError(
            f"y must have {n_targets} target(s) per row, as the model; got shape {numbers.shape}."
        )
    return numbers
