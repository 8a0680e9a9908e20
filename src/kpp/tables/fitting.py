"""Fitting a table: split, pipeline, scores. Used by `kpp fit` and by `kpp report`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline

from kpp._optional import optional
from kpp._typing import AnyArray, FloatArray
from kpp.models import KPPClassifier, KPPRegressor
from kpp.models.asking import ask
from kpp.models.linear import KPPLinearModel
from kpp.models.nested import NESTED
from kpp.models.plans import USUAL_FOLDS
from kpp.tables.builtin import TARGET
from kpp.tables.columns import Columns, choose_columns, prepare, row_names
from kpp.tables.errors import UserError, check_columns, near
from kpp.tables.fingerprints import table_fingerprints
from kpp.tables.fit_rows import FITTED, HELD_OUT, FitRows
from kpp.tables.grouping import group_prints, groups_of, split_by_groups
from kpp.tables.kinds import almost_numbers, blanks_alone, check_kinds, force_kinds
from kpp.tables.labelled import LabelledRows, labelled_rows
from kpp.tables.listener import Listener
from kpp.tables.reading import TableFile
from kpp.tables.scores import Scores, baseline_scores, scores_of_model, scores_out_of_fold
from kpp.tables.target import Target, read_target
from kpp.tables.timing import blocks_of_time, split_by_time, times_of

PREPARE, MODEL = "prepare", "model"


@dataclass(frozen=True)
class FitOptions:
    """What a fit was asked for; the names are those of the options."""

    target: str | None = None
    task: str = "auto"
    forest: str = "blend"
    trees: int = 100
    regime: str = "shared"
    folds: int = USUAL_FOLDS
    nested: bool = False
    alpha: str = "auto"
    test_size: float = 0.2
    test: Path | None = None
    drop: Sequence[str] = ()
    id: str | None = None
    weights: str | None = None
    groups: str | None = None
    time: str | None = None
    categorical: Sequence[str] = ()
    numerical: Sequence[str] = ()
    independent_duplicates: bool = False
    seed: int = 0
    jobs: int = -1
    loss: str = "squared"
    quantile: Sequence[float] = ()

    def penalty(self) -> str | float:
        """Alpha, "auto" or a positive number."""
        if self.alpha == "auto":
            return "auto"
        try:
            value = float(self.alpha)
        except ValueError:
            value = -1.0
        if not 0 < value < np.inf:
            raise UserError(f"--alpha must be 'auto' or a positive number; got '{self.alpha}'.")
        return value

    def quantiles(self) -> float | list[float]:
        """What the model is given: a number, by default one half, or a list of several."""
        given = list(self.quantile) or [0.5]
        return given[0] if len(given) == 1 else given

    def _check_quantiles(self) -> None:
        for q in self.quantile:
            if not 0 < q < 1:
                raise UserError(f"--quantile is a share, strictly between 0 and 1; got {q:g}.")
            if list(self.quantile).count(q) > 1:
                raise UserError(f"--quantile {q:g} is given twice.")
        if self.quantile and self.loss != "quantile":
            raise UserError(
                f"--quantile {self.quantile[0]:g} is of --loss quantile: give that, too, or leave "
                f"it out; the loss is {self.loss}."
            )

    def check(self) -> None:
        """Refuse values that no fit can use."""
        self.penalty()
        self._check_quantiles()
        if self.folds < 2:
            raise UserError(f"--folds must be at least 2; got {self.folds}.")
        if self.nested and self.regime != "cross-validated":
            raise UserError(
                "--nested lets every part of --regime cross-validated choose for itself; got "
                f"--regime {self.regime}."
            )
        if self.nested and self.time is not None:
            raise UserError(
                "--nested does not go with --time: within a part its folds are drawn at random, "
                "and neighbours in time would choose for each other. Leave out --nested."
            )
        if self.trees < 1:
            raise UserError(f"--trees must be at least 1; got {self.trees}.")
        if not 0 <= self.test_size < 1:
            raise UserError(
                "--test-size is a share of the rows, from 0 (no test) to below 1; got "
                f"{self.test_size:g}."
            )
        if self.time is not None and self.groups is not None:
            raise UserError(
                "--time and --groups do not go together: groups that last would be on both sides "
                "of the split. Split the table yourself, and give the later rows as --test."
            )
        if self.time is not None and self.regime == "honest":
            raise UserError(
                "--time does not go with --regime honest, which draws the rows of the trees at "
                "random: use --regime shared or cross-validated."
            )


@dataclass(frozen=True)
class Fitted:
    """A fitted table, with what was found on the way.

    The frames of `train` and `X_test` name their rows by the id, or by the place in the file.
    `about_test` says in sentences where the test rows come from; `fit_rows` knows the rows of the
    fit and the test rows again. `groups` and `test_groups` name the groups of both, or are None.
    """

    pipeline: Pipeline
    target: Target
    columns: Columns
    options: FitOptions
    train: tuple[Any, AnyArray]
    X_test: Any
    y_test: AnyArray | None
    test_weight: AnyArray | None
    about_test: Sequence[str]
    seconds: float
    fit_rows: FitRows
    groups: AnyArray | None = None
    test_groups: AnyArray | None = None
    scores: dict[str, Scores | None] = field(default_factory=dict)

    @property
    def n_of_fitted_groups(self) -> int:
        """How many test rows are of groups of the fit: those of a test file may be."""
        return self.fit_rows.in_fitted_groups(self.test_groups)

    @property
    def splits_by_time(self) -> bool:
        """Whether the test rows are the last ones of the table."""
        return self.options.time is not None and self.options.test is None

    @property
    def model(self) -> KPPLinearModel:
        """The model behind the preparation."""
        return ask(self.pipeline).model


def target_of(table: TableFile, frame: Any, given: str | None) -> str:
    """The column of the target: the given one, or that of a built-in data set."""
    if given is not None:
        return given
    if table.is_built_in:
        return TARGET
    names = [str(name) for name in frame.columns]
    raise UserError(
        f"Which column of {table.name} is to be predicted? Give --target. {near('', names)}"
    )


def fit_table(table: TableFile, options: FitOptions, listener: Listener) -> Fitted:
    """Read a table, fit it and score the fit.

    Parameters
    ----------
    table : TableFile
        The rows.
    options : FitOptions
        What was asked for.
    listener : Listener
        Where remarks go.

    Returns
    -------
    fitted : Fitted
    """
    options.check()
    with listener.working(f"reading {table.name}"):
        frame = table.read(options.categorical)
    target = read_target(frame, target_of(table, frame, options.target), options.task, table.name)
    listener.note(f"Task: {target.task}, since {target.reason}.")
    if target.n_missing:
        listener.warn(f"{target.n_missing} row(s) without '{target.name}' are left out.")
    reserved = _reserved(frame, options, target.name, table.name)
    whole = frame  # as it is read again, by commands that ask which rows these were
    frame, remarks = force_kinds(frame, options.categorical, options.numerical, table.name)
    for remark in remarks:
        listener.warn(remark)
    times = times_of(frame, options.time, table)
    frame = frame[target.kept].reset_index(drop=True)
    numbers = np.flatnonzero(target.kept)
    times = _take(times, numbers)
    groups = groups_of(frame, options.groups, table.name)
    train, test = _split(target, groups, times, options)
    _check_variety(target.values[train], target.name)
    _check_folds(options, len(train), _take(groups, train), _take(times, train))
    columns = choose_columns(frame, target.name, options.drop, reserved, table.name)
    texts = (*almost_numbers(frame, columns.used), *blanks_alone(frame, columns.used))
    for remark in (*columns.remarks(), *texts):
        listener.note(remark)
    X, weight = frame[columns.used], weights_of(frame, options.weights)
    pipeline = build(target.task, options, verbose=int(listener.shows_progress))
    if times is not None:
        pipeline.set_params(**{f"{MODEL}__cv": blocks_of_time(times[train], options.folds)})
    start = time.perf_counter()
    X_train, y_train = X.iloc[train].reset_index(drop=True), target.values[train]
    _fit(pipeline, X_train, y_train, _take(weight, train), _take(groups, train), listener)
    seconds = time.perf_counter() - start
    names = np.array(row_names(frame, options.id, numbers), dtype=object)
    drawn = TestRows(
        X.set_axis(names).iloc[test],
        target.values[test],
        _take(weight, test),
        _take(groups, test),
    )
    if times is not None and len(test):
        drawn = replace(drawn, about=[_later(frame[options.time], times, test, options.time)])
    tested = _test_rows(pipeline, drawn, target, options, listener)
    X_test, about = tested.X, list(tested.about)
    if times is not None and tested.times is not None:
        early = int((tested.times <= times[train].max()).sum())
        if early:
            about.append(f"{early} of them are not later than the last row of the fit.")
            listener.warn(
                f"{early} rows of {options.test} are not later by '{options.time}' than the last "
                "row of the fit: their score is not one on later rows."
            )
    part = np.zeros(len(whole), dtype=np.uint8)
    part[numbers[train]], part[numbers[test]] = FITTED, HELD_OUT
    other = whole[:0] if options.test is None else X_test
    fit_rows = FitRows(
        table_fingerprints(whole, columns.used),
        part,
        table_fingerprints(other, columns.used),
        None if groups is None else group_prints(groups[train]),
    )
    if shared := fit_rows.in_fitted_groups(tested.groups):
        about.append(f"{shared} of them are of groups of the fit.")
        listener.warn(
            f"{shared} rows of {options.test} are of groups ('{options.groups}') that the fit has "
            "used: their score is not one on new groups."
        )
    if twins := int(fit_rows.equals_fitted(fit_rows.test_file).sum()):
        about.append(f"{twins} of them equal a row of the fit in every column.")
        listener.warn(f"{twins} rows of {options.test} equal a row of the fit in every column.")
    return Fitted(
        pipeline,
        target,
        columns,
        options,
        (X_train.set_axis(names[train]), y_train),
        X_test,
        tested.y,
        tested.weight,
        about,
        seconds,
        fit_rows,
        _take(groups, train),
        tested.groups,
        _all_scores(pipeline, y_train, X_test, tested.y, tested.weight, options.seed),
    )


def build(task: str, options: FitOptions, *, verbose: int = 0) -> Pipeline:
    """The preparation and the model, not fitted."""
    skrub = optional("skrub", "kpp fit", "cli")
    # The encoder of long texts draws random directions: without a seed no fit would be the same.
    preparation = skrub.TableVectorizer(
        high_cardinality=skrub.StringEncoder(random_state=options.seed)
    )
    estimator: Any = KPPClassifier
    own: dict[str, Any] = {}
    if task != "classification":
        estimator, own = KPPRegressor, {"loss": options.loss, "quantile": options.quantiles()}
    elif options.loss != "squared":
        raise UserError(
            f"--loss {options.loss} is of numbers, and the target is one of classes. Give "
            "--task regression, or leave the loss."
        )
    model = estimator(
        options.forest,
        n_estimators=options.trees,
        regime=options.regime,
        alpha_selection=NESTED if options.nested else "fold-grown",
        cv=options.folds,
        alpha=options.penalty(),
        n_jobs=options.jobs,
        random_state=options.seed,
        verbose=verbose,
        **own,
    )
    return Pipeline([(PREPARE, preparation), (MODEL, model)])


def _fit(
    pipeline: Pipeline, X: Any, y: AnyArray, weight: Any, groups: Any, listener: Listener
) -> None:
    known = {"sample_weight": weight, "groups": groups}
    given = {f"{MODEL}__{name}": value for name, value in known.items() if value is not None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pipeline.fit(X, y, **given)
    for text in dict.fromkeys(str(w.message) for w in caught if _is_for_users(w)):
        listener.warn(text)
    pipeline.set_params(**{f"{MODEL}__verbose": 0})  # of the saved model


def _is_for_users(caught: Any) -> bool:
    return not issubclass(
        caught.category, DeprecationWarning | FutureWarning | PendingDeprecationWarning
    )


def _reserved(frame: Any, options: FitOptions, target: str, where: str) -> list[str]:
    named = [
        *(("--id", options.id), ("--weights", options.weights)),
        *(("--groups", options.groups), ("--time", options.time)),
    ]
    for option, name in named:
        if name is not None:
            check_columns([name], list(frame.columns), option, where)
        if name == target:
            raise UserError(f"'{target}' is the target, and cannot be {option} as well.")
    taken = {name: option for option, name in named if name is not None}
    taken |= dict.fromkeys(options.drop, "--drop") | {target: "the target"}
    check_kinds(options.categorical, options.numerical, list(frame.columns), where, taken)
    return [name for _, name in named if name is not None]


def weights_of(frame: Any, name: str | None) -> FloatArray | None:
    """The column of weights, as numbers; None where none is named."""
    if name is None:
        return None
    try:
        weight: FloatArray = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise UserError(f"The weights '{name}' must be numbers: {error}.") from error
    if not (weight >= 0).all() or not np.isfinite(weight).all() or not weight.any():
        raise UserError(
            f"The weights '{name}' must be finite, not negative, not missing and not all 0."
        )
    return weight


def _take(values: Any, rows: AnyArray) -> Any:
    return None if values is None else values[rows]


def _later(column: Any, times: FloatArray, test: AnyArray, name: str | None) -> str:
    """Say which rows a split by time has kept."""
    first = column.iloc[test[times[test].argmin()]]
    return (
        f"The test rows are the last {len(test)} of its rows by '{name}', from {first} on; the fit "
        "has used earlier ones only. Their score is one on later rows; bounds on them take them "
        "for independent draws, which rows in the order of time need not be."
    )


def _split(
    target: Target, groups: AnyArray | None, times: FloatArray | None, options: FitOptions
) -> tuple[AnyArray, AnyArray]:
    """Rows to fit and rows to test: the last by time; or at random, in whole groups if any."""
    rows = np.arange(len(target.values))
    if options.test is not None or options.test_size == 0:
        return rows, rows[:0]
    if times is not None:
        return split_by_time(times, options.test_size)
    if groups is not None:
        return split_by_groups(groups, options.test_size, options.seed)
    n_test = int(np.ceil(options.test_size * len(rows)))
    if len(rows) - n_test < 2:
        raise UserError(
            f"{len(rows)} rows are too few for a test share of {options.test_size:g}: at least 2 "
            "must be left to fit. Use --test-size 0, or more rows."
        )
    # Not stratified: then the test rows are draws like any, which the bounds on them need.
    train, test = train_test_split(rows, test_size=n_test, random_state=options.seed)
    return np.sort(train), np.sort(test)


def _check_folds(
    options: FitOptions, n_rows: int, groups: AnyArray | None, times: FloatArray | None
) -> None:
    """Refuse folds of less than 2 rows, or of no group: forests are grown for each of them.

    The usual number is not refused: of very few rows it makes fewer folds.
    """
    most, why = n_rows // 2, "2 rows"
    for name, units in (("group", groups), ("moment", times)):
        if units is not None and (n_units := len(np.unique(units))) < most:
            most, why = n_units, f"a {name} of its own"
    if options.folds > max(most, USUAL_FOLDS):
        raise UserError(
            f"--folds {options.folds} is too many for {n_rows} rows to fit: every fold needs "
            f"{why}, so that there are at most {most}."
        )


def _check_variety(values: AnyArray, name: str) -> None:
    different = np.unique(values)
    if len(different) < 2:
        raise UserError(
            f"The target '{name}' has one value only in the rows to fit, '{different[0]}': there "
            "is nothing to learn."
        )


@dataclass(frozen=True)
class TestRows:
    """Test rows with what goes along with them; X and y are None where there are none."""

    __test__ = False  # no test of pytest's

    X: Any = None
    y: AnyArray | None = None
    weight: AnyArray | None = None
    groups: AnyArray | None = None
    about: Sequence[str] = ()
    times: FloatArray | None = None


def _test_rows(
    pipeline: Pipeline, drawn: TestRows, target: Target, options: FitOptions, listener: Listener
) -> TestRows:
    """Those that were drawn, or those of a file of their own."""
    if options.test is not None:
        return _of_test_file(pipeline, target, options, listener)
    y_test = drawn.y
    if y_test is None or not len(y_test):
        return TestRows()
    whole = ""
    if drawn.groups is not None:
        whole = f" in {len(set(drawn.groups.tolist()))} whole groups of '{options.groups}'"
    about = list(drawn.about) or [
        f"The test rows are {len(y_test)} of its rows{whole}, drawn at random with the seed "
        f"{options.seed}; the fit has not used them."
    ]
    if target.task == "regression" or np.isin(y_test, pipeline.classes_).all():
        return replace(drawn, about=about)
    known = np.isin(y_test, pipeline.classes_)
    listener.warn(
        f"{int((~known).sum())} test rows are of classes that no row of the fit has; they are not "
        "scored."
    )
    about.append(
        f"{int((~known).sum())} test rows of classes that no row of the fit has were left out: "
        "with them the scores would be worse."
    )
    weight, groups = _take(drawn.weight, known), _take(drawn.groups, known)
    return TestRows(drawn.X[known], y_test[known], weight, groups, about)


def _of_test_file(
    pipeline: Pipeline, target: Target, options: FitOptions, listener: Listener
) -> TestRows:
    other = TableFile(str(options.test))
    rows = labelled_rows(pipeline, other, listener, target=target.name)
    about = [
        f"The test rows are the {len(rows.y)} rows of {other.short}; that the fit has not used "
        "them is taken on trust."
    ]
    if rows.n_missing:
        about.append(f"{rows.n_missing} of its rows were left out: they have no '{target.name}'.")
    own_id = options.id if options.id in rows.frame.columns else None
    X_test, weight = named_and_weighted(rows, own_id, options.weights, other.name)
    groups = groups_of(rows.frame, options.groups, other.name)
    timed = options.time if options.time in rows.frame.columns else None
    times = times_of(rows.frame, timed, other, rows.numbers)
    return TestRows(X_test, rows.y, weight, groups, about, times)


def named_and_weighted(
    rows: LabelledRows, id_column: str | None, weights: str | None, where: str
) -> tuple[Any, Any]:
    """The columns of the model with the names of the rows, and their weights or None."""
    for option, name in (("--id", id_column), ("--weights", weights)):
        if name is not None:
            check_columns([name], list(rows.frame.columns), option, where)
    names = row_names(rows.frame, id_column, rows.numbers)
    return rows.X.set_axis(names), weights_of(rows.frame, weights)


def _all_scores(
    pipeline: Pipeline,
    y_train: AnyArray,
    X_test: Any,
    y_test: AnyArray | None,
    weight: Any,
    seed: int,
) -> dict[str, Scores | None]:
    model = ask(pipeline).model
    found: dict[str, Scores | None] = {"out_of_fold": scores_out_of_fold(model, y_train)}
    found |= {"test": None, "baseline": None}
    if y_test is not None and len(y_test):
        rows, _ = prepare(pipeline, X_test)
        found["test"] = scores_of_model(model, rows, y_test, weight, random_state=seed)
        found["baseline"] = baseline_scores(model, y_test, weight)
    return found
