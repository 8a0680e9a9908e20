"""`kpp predict`: predictions for the rows of a raw file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kpp._assumptions import Assumption
from kpp._optional import optional
from kpp._typing import AnyArray
from kpp.cli.console import Terminal
from kpp.cli.files import read_rows, show_table, table_output
from kpp.models import PredictionIntervals, PredictionSets
from kpp.models.interval_conditions import ALPHA, FOLDS, OTHERS, ROWS
from kpp.models.intervals import NoFoldPredictorsError, predictors_of
from kpp.models.linear import KPPLinearModel
from kpp.models.pipelines import behind_preparation
from kpp.tables.columns import free_name
from kpp.tables.errors import UserError
from kpp.tables.reading import TableFile
from kpp.tables.rows import Rows

NESTED = "use --regime cross-validated --nested"
# What to do about a condition that fails, in words of the command.
ADVICE = {
    ROWS: "where rows agree by chance say --independent-duplicates",
    FOLDS: NESTED,
    ALPHA: NESTED,
    OTHERS: NESTED,
}
WITHOUT_FOLDS = {
    "given": "this one was fitted at a given alpha, which leaves none out. Fit it again without "
    "--alpha, or with --regime cross-validated, which leaves one out at any alpha, and with "
    "--nested guarantees its coverage, too",
    "frozen": "the trees of this one have seen all rows. Fit it again with kpp fit",
    "file": "the file of this one does not hold them: it is of an older version, or of a model "
    "whose folds have forests of their own. Fit it again with kpp fit",
}


def run_predict(
    model: Path,
    table: str,
    out: Path | None,
    id_column: str | None,
    *,
    proba: bool,
    interval: float | None,
    width: str | None,
    label_set: float | None,
    independent_duplicates: bool,
    terminal: Terminal,
) -> int:
    """Predict the rows of a file."""
    check_width(width, interval)
    is_asked = interval is not None or label_set is not None
    if independent_duplicates and not is_asked:
        raise UserError(
            "--independent-duplicates is about the guarantee of intervals and sets: give "
            "--interval or --set, such as 0.9, too."
        )
    source = TableFile(table)
    out = table_output(out, terminal, source, model)
    rows = read_rows(model, source, id_column, terminal)
    if proba and not rows.question.is_classifier:
        raise UserError("--proba is for classification; this model predicts numbers.")
    if interval is not None and rows.question.is_classifier:
        raise UserError("--interval is for numbers; this model predicts classes: use --set.")
    if label_set is not None and not rows.question.is_classifier:
        raise UserError("--set is for classes; this model predicts numbers: use --interval.")
    if is_asked:
        check_folds(rows.model, "--set" if interval is None else "--interval")
    frame = predictions(rows, id_column, proba)
    if is_asked:
        independent = independent_duplicates or rows.independent_duplicates
        say(add_coverage(frame, rows, interval, width, label_set, independent), terminal)
    if out is not None:
        show_table(frame, out, terminal, what="Predictions")
    if terminal.json:
        columns = {name: frame[name].tolist() for name in frame.columns}
        terminal.result({"n_rows": len(frame), "columns": columns})
    elif out is None:
        show_table(frame, None, terminal, what="Predictions")
    return 0


def predictions(rows: Rows, id_column: str | None, proba: bool) -> Any:
    """The id, if asked for, the prediction, and the probabilities, if asked for."""
    pd = optional("pandas", "kpp predict", "cli")
    columns: dict[str, Any] = {} if id_column is None else {id_column: rows.ids}
    at = rows.at()
    found = np.asarray(rows.model.predict(at))
    quantiles = getattr(rows.model.loss_, "quantiles", None)
    for name, values in each_column("prediction", found, quantiles):
        columns[free_name(name, list(columns))] = values
    if proba and rows.question.is_classifier:
        probability = rows.model.predict_proba(at)
        for k, label in enumerate(rows.model.classes_):
            columns[free_name(f"probability_{label}", list(columns))] = probability[:, k]
    return pd.DataFrame(columns)


def each_column(
    name: str, values: AnyArray, several: Sequence[Any] | None = None
) -> Iterator[tuple[str, AnyArray]]:
    """Yield columns with their names: of several targets or quantiles with their number."""
    if values.ndim == 1 or values.shape[1] == 1:
        yield name, values.reshape(-1)
        return
    for k, own in enumerate(range(values.shape[1]) if several is None else several):
        yield f"{name}_{own}", values[:, k]


def check_width(width: str | None, interval: float | None) -> None:
    """Refuse a width of intervals that nobody has asked for."""
    if width is not None and interval is None:
        raise UserError(f"--width {width} is of intervals: give --interval, such as 0.9, too.")


def check_folds(model: KPPLinearModel, option: str) -> None:
    """Refuse a model whose folds have no predictors of their own, in words of the command."""
    try:
        predictors_of(model, option)
    except NoFoldPredictorsError as error:
        raise UserError(
            f"{option} needs a model with fits that have left a fold out, and "
            f"{WITHOUT_FOLDS[error.reason]}."
        ) from error


def add_coverage(
    frame: Any,
    rows: Rows,
    interval: float | None,
    width: str | None,
    label_set: float | None,
    independent_duplicates: bool = False,
) -> PredictionIntervals | PredictionSets:
    """Add the ends of intervals, or a column of true and false for each class."""
    at, preparation = rows.at(), rows.question.preparation
    how: dict[str, Any] = {"independent_duplicates": independent_duplicates}
    if interval is not None:
        if width is not None:
            how["width"] = str(width)
        found = rows.model.predict_interval(at, interval, **how)
        for end, values in (("lower", found.lower), ("upper", found.upper)):
            for name, own in each_column(end, values):
                frame[free_name(name, list(frame.columns))] = own
        return behind_preparation(found, preparation)
    sets = rows.model.predict_set(at, label_set, **how)
    for k, label in enumerate(sets.classes):
        frame[free_name(f"set_{label}", list(frame.columns))] = sets.sets[:, k]
    return behind_preparation(sets, preparation)


def say(found: PredictionIntervals | PredictionSets, terminal: Terminal) -> None:
    """Say what the coverage is worth, and that some sets are empty."""
    # What nobody can see in a table is said with what rests on it.
    on_trust = ", on average, if new rows are drawn like those of the fit"
    worth = found.status + (on_trust if found.is_guarantee else "")
    terminal.note(f"Coverage of {found.coverage:.4g} aimed at; {worth}.")
    for condition in found.failing:
        terminal.note(f"  {in_words_of_the_command(condition)}")
    if isinstance(found, PredictionSets) and found.n_empty:
        terminal.note(f"{found.n_empty} of {len(found)} sets are empty.")


def in_words_of_the_command(condition: Assumption) -> str:
    """A condition with its advice, which speaks Python, in options of `kpp fit`."""
    why, _, advice = condition.why.partition("; ")
    own = ADVICE.get(condition.name) if advice else None
    if condition.name == FOLDS and "stratified" not in why:
        own = None  # folds of groups or of blocks of time are what was asked for
    said = why if own is None else f"{why}; {own}"
    return str(replace(condition, why=said))
