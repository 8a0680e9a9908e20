"""What a report is about: a model, its test rows, and the names under which both are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from kpp._checks import RefusedError, check_sample_weight
from kpp._typing import AnyArray, FloatArray, OffsetArray
from kpp.bounds.samples import seen_rows
from kpp.diagnostics.metrics import loss_name
from kpp.explanations.attribution import column_of
from kpp.explanations.explain import explain
from kpp.models.asking import Question, ask
from kpp.models.data import check_groups, check_target, group_codes
from kpp.models.linear import KPPLinearModel
from kpp.models.pipelines import Preparation
from kpp.reports.escaping import distinct, shown
from kpp.scores import RoutedRows
from kpp.solvers.regression_losses import losses_of_answers

# More rows than this say nothing more about the average contribution of a variable.
ATTRIBUTION_ROWS = 5000
LONGEST = 600


@dataclass(frozen=True, eq=False)
class Training:
    """What was given to fit, where the caller has it.

    Parameters
    ----------
    question : Question
        The model.
    X : array or data frame of shape (n_training_rows, n_columns)
        Rows as the user has them.
    y : array of shape (n_training_rows,) or (n_training_rows, n_targets)
        Their targets.
    target : int array of shape (n_training_rows,) or array of shape (n_training_rows, k)
        Their targets as the scores have them: codes of classes, or numbers.
    groups : array of shape (n_training_rows,) or None
        Their groups, where the caller gave them.
    """

    question: Question
    X: Any
    y: AnyArray
    target: AnyArray
    groups: AnyArray | None = None

    @cached_property
    def rows(self) -> RoutedRows:
        """The rows, prepared, checked and routed."""
        return self.question.rows(self.X)


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model and the test rows of its report.

    Parameters
    ----------
    question : Question
        The model, and what prepares the user's columns.
    given : array or data frame of shape (n_rows, n_columns)
        The test rows as the user has them.
    all_rows : RoutedRows
        The same rows, prepared, checked and routed, once for all sections.
    y : array of shape (n_rows,) or (n_rows, n_targets)
        Their targets, as the user has them.
    target : int array of shape (n_rows,) or array of shape (n_rows, k)
        Their targets as the scores have them: codes of classes, or numbers.
    weight : array of shape (n_rows,)
        Their weights.
    training : Training or None
        What was given to fit.
    groups : array of shape (n_rows,) or None
        Numbers of the groups of the test rows, where the caller gave them.
    independent_duplicates : bool
        Whether the caller says that equal rows are independent draws.
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
    n_seen : int or None
        How many of them fit has used, where the caller knows it.
    """

    question: Question
    given: Any
    all_rows: RoutedRows
    y: AnyArray
    target: AnyArray
    weight: FloatArray
    training: Training | None = None
    groups: AnyArray | None = None
    independent_duplicates: bool = False
    random_state: int = 0
    max_rows: int = 60
    y_range: tuple[float, float] | None = None
    target_name: str | None = None
    source: Sequence[str] = ()
    unseen: bool = True
    n_seen: int | None = None
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
        groups: Any = None,
        independent_duplicates: bool = False,
        target_name: str | None = None,
        source: str | Sequence[str] = (),
        unseen: bool = True,
        n_seen: int | None = None,
    ) -> Subject:
        """Check what the caller gives, once."""
        question = ask(model)
        if not isinstance(max_rows, int | np.integer) or isinstance(max_rows, bool) or max_rows < 1:
            raise ValueError(f"max_rows must be a number of rows, at least 1; got {max_rows!r}.")
        if isinstance(X, RoutedRows) and question.preparation is not None:
            raise TypeError(
                "A report on a Pipeline shows the columns before the preparation, which routed "
                "rows do not have: give it X itself."
            )
        if loss_name(question.model.loss_) and question.additive.n_scores > 1:
            raise RefusedError(
                "A report shows one quantile, and this model has several: fit one for the report, "
                "with quantile a number."
            )
        given = X.X if isinstance(X, RoutedRows) else _as_table(X)
        if len(given) == 0:
            raise ValueError("X has no rows: a report needs test rows.")
        target = question.encode(y, len(given))
        groups = check_groups(groups, len(given))
        return cls(
            question=question,
            given=given,
            training=_training(question, train),
            all_rows=question.rows(X if isinstance(X, RoutedRows) else given),
            y=check_target(y, len(given)),
            target=target,
            weight=check_sample_weight(sample_weight, len(given)),
            groups=None if groups is None else group_codes(groups),
            independent_duplicates=bool(independent_duplicates),
            random_state=int(random_state),
            max_rows=int(max_rows),
            y_range=y_range,
            target_name=None if target_name is None else shown(target_name),
            source=[shown(s, LONGEST) for s in ([source] if isinstance(source, str) else source)],
            unseen=bool(unseen),
            n_seen=n_seen,
        )

    # The rows and their answers.

    @property
    def n_rows(self) -> int:
        """Number of test rows."""
        return len(self.y)

    @cached_property
    def seen(self) -> str | None:
        """Why the rows look like those of the fit; None where they do not."""
        if self.n_seen is None:
            # As the dashboard does: a few equal rows by chance leave a score a score on test rows.
            return seen_rows(self.question, self.all_rows, independent_duplicates=True)
        known = f"{self.n_seen:,} of {self.n_rows:,} are known to be"
        return known if self.n_seen else None

    @property
    def called(self) -> str:
        """What a row of the report is called: a test row only if fit has not used it."""
        return "test row" if self.unseen and self.seen is None else "row"

    @property
    def model(self) -> KPPLinearModel:
        """The model behind the preparation."""
        return self.question.model

    @property
    def preparation(self) -> Preparation | None:
        """What prepares the user's columns."""
        return self.question.preparation

    @property
    def is_classifier(self) -> bool:
        """Whether the answers are classes."""
        return self.question.is_classifier

    @property
    def scores(self) -> FloatArray:
        """Scores of the test rows, shape (n_rows, n_scores)."""
        return self.all_rows.scores

    @cached_property
    def probability(self) -> FloatArray:
        """Probabilities of the test rows, shape (n_rows, n_classes)."""
        return np.asarray(self.model.predict_proba(self.all_rows))

    @cached_property
    def prediction(self) -> AnyArray:
        """Predictions of the test rows: codes of classes, or numbers of shape (n_rows, k)."""
        prediction = np.asarray(self.model.predict(self.all_rows))
        if self.is_classifier:
            return np.searchsorted(self.model.classes_, prediction)
        return prediction.reshape(self.n_rows, -1)

    @cached_property
    def loss(self) -> FloatArray:
        """Loss of each test row: log loss, squared error averaged over targets, or another."""
        if self.is_classifier:
            own = self.model.predict_log_proba(self.all_rows)[np.arange(self.n_rows), self.target]
            return -np.asarray(own)
        loss = self.model.loss_
        if loss_name(loss) is not None:
            return losses_of_answers(loss, self.target[:, 0], self.prediction[:, 0])
        return np.square(self.target - self.prediction).mean(axis=1)

    @cached_property
    def tolerance(self) -> Any:
        """For a regressor, the change that counts: its root mean squared error on these rows.

        Where scores are logarithms, their own standard deviation on these rows.
        """
        if self.is_classifier:
            return None
        if self.question.additive.is_log:
            return float(self.scores.std()) or 1.0
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
    def variables(self) -> list[str]:
        """Names of the variables that contributions are summed to, to be shown."""
        question = self.question
        return distinct(
            question.names if self.preparation is None else dict.fromkeys(question.sources)
        )

    @cached_property
    def places(self) -> list[tuple[bool, int]]:
        """Where the values of each variable are: in the user's columns, or the prepared ones."""
        if self.preparation is None:
            return [(True, j) for j in range(len(self.variables))]
        own = list(self.question.raw_names)
        columns = [str(name) for name in getattr(self.given, "columns", ())]
        if set(own) <= set(columns):  # a preparation finds its columns by name, in any order
            own = columns
        return [
            (True, own.index(name)) if name in own else (False, self.question.names.index(name))
            for name in dict.fromkeys(self.question.sources)
        ]

    def values_of(self, variable: int) -> AnyArray:
        """Values of a variable in the test rows, as the user has them; shape (n_rows,)."""
        if variable not in self._columns:
            of_user, column = self.places[variable]
            self._columns[variable] = column_of(self.given if of_user else self.all_rows.X, column)
        return self._columns[variable]

    def row_label(self, row: int) -> str:
        """How the user's frame calls a row; its number where there is nothing better."""
        return self._label(_names_of_rows(self.given), row)

    def training_label(self, row: int) -> str:
        """How the user's frame calls a training row; its number where there is nothing better."""
        return self._label(None if self.training is None else _names_of_rows(self.training.X), row)

    @staticmethod
    def _label(names: Any, row: int) -> str:
        return str(row) if names is None else shown(names[row])

    @property
    def is_weighted(self) -> bool:
        """Whether some test rows count more than others."""
        return bool(np.any(self.weight != 1))

    @property
    def is_grouped(self) -> bool:
        """Whether some group has several test rows."""
        return self.groups is not None and int(np.bincount(self.groups).max()) > 1

    # Contributions.

    def draw_whole(self, most: int) -> OffsetArray:
        """As `draw`, in whole groups where there are groups: then about so many rows.

        The number of groups is fixed beforehand, and each is as likely as any other: what is drawn
        are groups, as a bound that counts them needs.
        """
        if self.groups is None or self.n_rows <= most:
            return self.draw(most)
        n_groups = int(self.groups.max()) + 1
        n_drawn = max(1, n_groups * most // self.n_rows)
        order = np.random.default_rng(self.random_state).permutation(n_groups)
        return np.flatnonzero(np.isin(self.groups, order[:n_drawn]))

    def draw(self, most: int) -> OffsetArray:
        """At most so many test rows, the same at every call, in their order."""
        if self.n_rows <= most:
            return np.arange(self.n_rows)
        random = np.random.default_rng(self.random_state)
        return np.sort(random.choice(self.n_rows, most, replace=False))

    def rows(self, index: OffsetArray) -> RoutedRows:
        """Some of the test rows; nothing is routed again."""
        if np.array_equal(index, np.arange(self.n_rows)):
            return self.all_rows
        return self.all_rows.take(index)

    def contributions(self, index: AnyArray) -> tuple[FloatArray, FloatArray]:
        """Centred contributions by variable at some rows, and their baseline.

        Returns
        -------
        values : array of shape (n_index, n_variables, n_scores)
        baseline : array of shape (n_scores,)
        """
        attribution = explain(self.question, self.rows(index), centered=True)
        values = attribution.values
        values = values[..., None] if values.ndim == 2 else values
        return values, np.atleast_1d(attribution.baseline)

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


def _as_table(X: Any) -> Any:
    return X if hasattr(X, "columns") or hasattr(X, "ndim") else np.asarray(X)


def _training(question: Question, train: Any) -> Training | None:
    """Check what the caller says was given to fit."""
    if train is None:
        return None
    expected = "train must be the pair (X, y) that was given to fit, or (X, y, groups)"
    if not isinstance(train, tuple) or len(train) not in (2, 3):
        raise ValueError(f"{expected}; got {type(train).__name__}.")
    X, y, *more = train
    if len(y) <= np.max(question.model.fit_rows_):
        raise ValueError(f"{expected}, all of its rows; got {len(y)}.")
    groups = check_groups(more[0] if more else None, len(X))
    return Training(question, X, check_target(y, len(X)), question.encode(y, len(X)), groups)
