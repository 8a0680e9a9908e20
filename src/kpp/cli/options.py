"""The options of the command: each once, with its help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kpp.tables.errors import UserError


class Task(StrEnum):
    """Tasks."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


class ForestName(StrEnum):
    """Named forests."""

    blend = "blend"
    extra_trees = "extra-trees"
    random_forest = "random-forest"
    boosted = "boosted"
    lightgbm = "lightgbm"
    xgboost = "xgboost"
    catboost = "catboost"


class GeometryForest(StrEnum):
    """Forests of `kpp geometry`."""

    extra_trees = "extra-trees"
    random_forest = "random-forest"


class Loss(StrEnum):
    """Losses of a regressor, by their names in ``kpp.models.loss_choice``."""

    squared = "squared"
    huber = "huber"
    quantile = "quantile"
    poisson = "poisson"


class Regime(StrEnum):
    """Regimes that grow their own forest, by their names in ``kpp.models.regimes``.

    Written out: the help must not wait for scikit-learn.
    """

    shared = "shared"
    honest = "honest"
    cross_fit = "cross-fit"
    cross_validated = "cross-validated"


class Width(StrEnum):
    """Widths of intervals."""

    adaptive = "adaptive"
    constant = "constant"


class Level(StrEnum):
    """What a contribution belongs to."""

    variable = "variable"
    node = "node"
    rules = "rules"


class Scale(StrEnum):
    """Unit of raw radii."""

    std = "std"
    raw = "raw"


class FailOn(StrEnum):
    """Findings that make the exit code 1."""

    never = "never"
    warning = "warning"
    info = "info"


class Sample(StrEnum):
    """Which rows a diagnosis is given."""

    test = "test"
    train = "train"
    fit = "fit"


class ExportFormat(StrEnum):
    """Formats of other tools."""

    onnx = "onnx"
    treelite = "treelite"


class Precision(StrEnum):
    """What an exported model computes in."""

    double = "double"
    single = "single"


class RowChoice(StrEnum):
    """Rows of a table that a command takes."""

    auto = "auto"
    held_out = "held-out"
    new = "new"
    all = "all"


_COLUMNS, _MODEL, _TEST = "Columns", "Model", "Test"

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, TSV, Parquet or Arrow file, also with gzip; - for standard input; or the "
        "built-in breast_cancer, diabetes, digits, iris or wine.",
        show_default=False,
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Work on a Dask cluster: the address of its scheduler, or local. DATA is then Parquet "
        "files, as 'data/*.parquet'.",
        show_default=False,
    ),
]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file of kpp fit.", show_default=False)
]
Target = Annotated[
    str | None,
    typer.Option(help="Column to predict.", rich_help_panel=_COLUMNS, show_default=False),
]
TargetOfFile = Annotated[
    str | None,
    typer.Option(
        help="Column of the true values; by default that of the fit.",
        show_default=False,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="A column to leave out; may be given again.",
        rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]
IdOfFit = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="Column that names the rows, not for the model.",
        rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]
Id = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="Column to carry through.", show_default=False),
]
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of row weights.",
        rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column that names the group of each row, not for the model: groups stay whole in "
        "the split, the folds and the test.",
        rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column that says when a row is of, not for the model: the last rows are the test, "
        "and the folds are blocks of time.",
        rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="A column whose numbers are names, such as codes; may be given again.",
        rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]
Numerical = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="A column of numbers, in which texts count as gaps; may be given again.",
        rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]
IndependentDuplicates = Annotated[
    bool,
    typer.Option(
        "--independent-duplicates",
        help="Equal rows are independent draws that agree by chance, not copies; for "
        "bounds, intervals and sets.",
    ),
]
TaskOption = Annotated[
    Task, typer.Option("--task", help="auto finds it from the target.", rich_help_panel=_MODEL)
]
Forest = Annotated[ForestName, typer.Option(help="Which forest is grown.", rich_help_panel=_MODEL)]
Trees = Annotated[int, typer.Option(help="Number of trees.", rich_help_panel=_MODEL)]
RegimeOption = Annotated[
    Regime,
    typer.Option(
        "--regime",
        help="Which labels the forest sees: shared is the most accurate, honest and "
        "cross-validated have guarantees.",
        rich_help_panel=_MODEL,
    ),
]
Folds = Annotated[
    int, typer.Option(help="Folds of rows that are left out in turn.", rich_help_panel=_MODEL)
]
Nested = Annotated[
    bool,
    typer.Option(
        "--nested",
        help="With --regime cross-validated: every part chooses for itself, which guarantees more "
        "and takes longer.",
        rich_help_panel=_MODEL,
    ),
]
Alpha = Annotated[str, typer.Option(help="Penalty: auto, or a number.", rich_help_panel=_MODEL)]
LossOption = Annotated[
    Loss,
    typer.Option(
        "--loss",
        help="Of numbers: squared errors; huber for outliers; a quantile; poisson for counts.",
        rich_help_panel=_MODEL,
    ),
]
Quantile = Annotated[
    list[float] | None,
    typer.Option(
        help="With --loss quantile, the share below, 0.5 by default; may be given again: several "
        "quantiles are one model.",
        rich_help_panel=_MODEL,
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", rich_help_panel=_MODEL)]
Jobs = Annotated[
    int,
    typer.Option(help="Threads; -1 for all. Results do not depend on it.", rich_help_panel=_MODEL),
]
TestSize = Annotated[
    float, typer.Option(help="Share of rows kept for the test; 0 for none.", rich_help_panel=_TEST)
]
TestFile = Annotated[
    Path | None,
    typer.Option(
        "--test",
        metavar="FILE",
        help="Test rows in a file of their own.",
        rich_help_panel=_TEST,
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Where to write.", show_default=False),
]
OutTable = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Where to write the table: .csv, .tsv, .json, .parquet or .arrow; - for standard "
        "output.",
        show_default=False,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="The result as JSON on standard output, and nothing else.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No remarks; warnings stay.")]
Row = Annotated[
    int | None,
    typer.Option(
        help="One row, counted from 0, or from -1 at the end; all rows without.",
        show_default=False,
    ),
]
Rows = Annotated[
    RowChoice,
    typer.Option(
        "--rows",
        help="Which rows of the table: those that kpp fit held out, those that it has not seen, or "
        "all; auto takes the first of these that there are.",
    ),
]
Compare = Annotated[
    bool,
    typer.Option(
        "--compare", help="Fit forests and boosters too, and compare them on the same test rows."
    ),
]
Segments = Annotated[
    list[str] | None,
    typer.Option(
        "--segments",
        metavar="COLUMN",
        help="Scores by the values of this column, or of several with commas between; again for "
        "more. Or one of columns (all, the default), pairs, none.",
        show_default=False,
    ),
]
Top = Annotated[int, typer.Option(help="Lines to show for a row.")]

# What a model that is already fitted has no use for.
OF_A_FIT = {
    "task": "--task",
    "forest": "--forest",
    "trees": "--trees",
    "regime": "--regime",
    "folds": "--folds",
    "nested": "--nested",
    "alpha": "--alpha",
    "loss": "--loss",
    "quantile": "--quantile",
    "test_size": "--test-size",
    "test": "--test",
    "drop": "--drop",
    "time": "--time",
    "categorical": "--categorical",
    "numerical": "--numerical",
    "jobs": "--jobs",
}


def refuse_fit_options(context: typer.Context) -> None:
    """Refuse options of a fit beside a model, also where they are given as they are by default."""
    given = [
        option
        for name, option in OF_A_FIT.items()
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        raise UserError(
            f"{', '.join(given)}: for a fit, and --model is fitted already. Leave out one of them."
        )


def refuse_with_dask(
    time: str | None, categorical: list[str] | None, numerical: list[str] | None
) -> None:
    """Refuse what needs the whole table in one place."""
    given = {"--time": time, "--categorical": categorical, "--numerical": numerical}
    named = [option for option, value in given.items() if value]
    if named:
        raise UserError(f"{', '.join(named)}: not with --dask yet.")


def check_share(option: str, value: float | None) -> None:
    """Refuse a coverage that is no share; a percentage is the usual slip."""
    if value is None or 0 < value < 1:
        return
    meant = f": {value:g}% is {value / 100:g}" if 1 < value < 100 else ""
    raise UserError(
        f"{option} is a share of rows, strictly between 0 and 1, such as 0.9; got {value:g}{meant}."
    )


def refuse_rows(rows: RowChoice) -> None:
    """Refuse a choice of rows where the fit makes it."""
    if rows is not RowChoice.auto:
        raise UserError("--rows needs --model: without one the report is on the test rows.")
