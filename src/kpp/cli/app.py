"""The commands, as typer reads them from the signatures; each hands over to a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kpp.cli import options as o
from kpp.cli.console import Terminal
from kpp.cli.examples import EXAMPLES

HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="kpp",
    help="Kernel of Partition Paths: a forest that explains and certifies itself.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)


@app.callback()
def common(
    debug: Annotated[
        bool, typer.Option("--debug", help="Errors with their traceback; with any command.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Kernel of Partition Paths: a forest that explains and certifies itself."""
    # Both are read before the commands are (see running.py), and stand here for the help.


@app.command()
def fit(
    data: o.Data,
    target: o.Target = None,
    task: o.TaskOption = o.Task.auto,
    forest: o.Forest = o.ForestName.blend,
    trees: o.Trees = 100,
    regime: o.RegimeOption = o.Regime.shared,
    folds: o.Folds = 5,
    nested: o.Nested = False,
    alpha: o.Alpha = "auto",
    loss: o.LossOption = o.Loss.squared,
    quantile: o.Quantile = None,
    test_size: o.TestSize = 0.2,
    test: o.TestFile = None,
    drop: o.Drop = None,
    id_column: o.IdOfFit = None,
    weights: o.Weights = None,
    groups: o.Groups = None,
    time: o.Time = None,
    categorical: o.Categorical = None,
    numerical: o.Numerical = None,
    independent_duplicates: o.IndependentDuplicates = False,
    seed: o.Seed = 0,
    jobs: o.Jobs = -1,
    dask: o.Dask = None,
    out: o.Out = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Fit a table, save the model and say how good it is."""
    from kpp.cli.fit import run_fit
    from kpp.tables.fitting import FitOptions

    asked = FitOptions(
        target=target,
        task=task.value,
        forest=forest.value,
        trees=trees,
        regime=regime.value,
        folds=folds,
        nested=nested,
        alpha=alpha,
        loss=loss.value,
        quantile=tuple(quantile or ()),
        test_size=test_size,
        test=test,
        drop=tuple(drop or ()),
        id=id_column,
        weights=weights,
        groups=groups,
        time=time,
        categorical=tuple(categorical or ()),
        numerical=tuple(numerical or ()),
        independent_duplicates=independent_duplicates,
        seed=seed,
        jobs=jobs,
    )
    terminal = Terminal(json=json, quiet=quiet)
    if dask is not None:
        from kpp.cli.dask import run_dask_fit

        o.refuse_with_dask(time, categorical, numerical)
        return run_dask_fit(data, asked, out, dask, terminal)
    return run_fit(data, asked, out, terminal)


@app.command()
def predict(
    model: o.ModelFile,
    data: o.Data,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities of the classes.")] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Intervals of numbers that should cover this share of new rows.",
            show_default=False,
        ),
    ] = None,
    width: Annotated[
        o.Width | None,
        typer.Option(
            help="With --interval: wider where the target varies more (the default), or all much "
            "of one width.",
            show_default=False,
        ),
    ] = None,
    label_set: Annotated[
        float | None,
        typer.Option(
            "--set",
            metavar="SHARE",
            help="Sets of classes that should cover this share of new rows.",
            show_default=False,
        ),
    ] = None,
    independent_duplicates: o.IndependentDuplicates = False,
    id_column: o.Id = None,
    dask: o.Dask = None,
    out: o.OutTable = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Predict the rows of a raw file, as CSV."""
    from kpp.cli.predict import run_predict

    o.check_share("--interval", interval)
    o.check_share("--set", label_set)
    if dask is not None:
        from kpp.cli.dask import run_dask_predict

        return run_dask_predict(
            model,
            data,
            out,
            dask,
            proba=proba,
            interval=interval,
            width=width,
            terminal=Terminal(json=json, quiet=quiet),
        )

    return run_predict(
        model,
        data,
        out,
        id_column,
        proba=proba,
        interval=interval,
        width=width,
        label_set=label_set,
        independent_duplicates=independent_duplicates,
        terminal=Terminal(json=json, quiet=quiet),
    )


@app.command()
def explain(
    model: o.ModelFile,
    data: o.Data,
    row: o.Row = None,
    top: o.Top = 10,
    level: Annotated[
        o.Level, typer.Option(help="Contributions of columns, of nodes, or of rules.")
    ] = o.Level.variable,
    label: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="LABEL",
            help="Class to explain: for a row by default the predicted one, for a file the "
            "second of two, and each of more.",
            show_default=False,
        ),
    ] = None,
    id_column: o.Id = None,
    out: o.OutTable = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Say what moved a prediction; all predictions of a file, without --row."""
    from kpp.cli.explain import run_explain

    return run_explain(
        model,
        data,
        row=row,
        top=top,
        level=level.value,
        label=label,
        id_column=id_column,
        out=out,
        terminal=Terminal(json=json, quiet=quiet),
    )


@app.command()
def certify(
    model: o.ModelFile,
    data: o.Data,
    row: o.Row = None,
    raw: Annotated[bool, typer.Option("--raw", help="Radii in raw values as well.")] = False,
    scale: Annotated[
        o.Scale, typer.Option(help="Unit of raw radii: spread of each column, or its own unit.")
    ] = o.Scale.std,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Regression: the change that counts as one, in units of the target.",
            show_default=False,
        ),
    ] = None,
    time_budget: Annotated[
        float, typer.Option(min=0, help="Seconds for raw radii; sound whenever it ends.")
    ] = 60.0,
    rows: o.Rows = o.RowChoice.auto,
    top: o.Top = 10,
    id_column: o.Id = None,
    out: o.OutTable = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Say how far rows may move before the answer changes."""
    from kpp.cli.certify import run_certify

    return run_certify(
        model,
        data,
        row=row,
        raw=raw,
        scale=scale.value,
        epsilon=epsilon,
        time_budget=time_budget,
        rows=rows.value,
        top=top,
        id_column=id_column,
        out=out,
        terminal=Terminal(json=json, quiet=quiet),
    )


@app.command()
def diagnose(
    model: o.ModelFile,
    data: o.Data,
    target: o.TargetOfFile = None,
    sample: Annotated[
        o.Sample, typer.Option(help="Which rows these are: new ones, or those given to fit.")
    ] = o.Sample.test,
    rows: o.Rows = o.RowChoice.auto,
    silence: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE", help="A finding to leave out.", show_default=False),
    ] = None,
    fail_on: Annotated[
        o.FailOn, typer.Option(help="Findings that make the exit code 1.")
    ] = o.FailOn.never,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Show the dashboard of a model on rows with a target, and findings with advice."""
    from kpp.cli.diagnose import run_diagnose

    return run_diagnose(
        model,
        data,
        target=target,
        sample=sample.value,
        rows=rows.value,
        silence=silence or [],
        fail_on=fail_on.value,
        terminal=Terminal(json=json, quiet=quiet),
    )


@app.command()
def drift(
    model: o.ModelFile,
    data: o.Data,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Rows to compare with; of the table of the fit those that it held out. By default "
            "the rows of the fit.",
            show_default=False,
        ),
    ] = None,
    fail: Annotated[bool, typer.Option("--fail", help="Exit code 1 if there is drift.")] = False,
    level: Annotated[float, typer.Option(help="Chance of a false alarm.")] = 0.05,
    top: o.Top = 10,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Say whether new rows have moved away from those of the fit, where, and what it does."""
    from kpp.cli.drift import run_drift

    return run_drift(
        model,
        data,
        reference=reference,
        level=level,
        top=top,
        fail=fail,
        terminal=Terminal(json=json, quiet=quiet),
    )


@app.command()
def report(
    context: typer.Context,
    data: o.Data,
    target: o.Target = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="A file of kpp fit; else fits.", show_default=False),
    ] = None,
    rows: o.Rows = o.RowChoice.auto,
    out: o.Out = None,
    json: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="The same content as JSON; - for standard output.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title.", show_default=False)] = None,
    max_rows: Annotated[int, typer.Option(min=1, help="Most rows to explore.")] = 60,
    y_range: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH",
            help="Regression: limits of the target known before any data, for the bounds.",
            show_default=False,
        ),
    ] = None,
    compare: o.Compare = False,
    segments: o.Segments = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    task: o.TaskOption = o.Task.auto,
    forest: o.Forest = o.ForestName.blend,
    trees: o.Trees = 100,
    regime: o.RegimeOption = o.Regime.shared,
    folds: o.Folds = 5,
    nested: o.Nested = False,
    alpha: o.Alpha = "auto",
    loss: o.LossOption = o.Loss.squared,
    quantile: o.Quantile = None,
    test_size: o.TestSize = 0.2,
    test: o.TestFile = None,
    drop: o.Drop = None,
    id_column: o.IdOfFit = None,
    weights: o.Weights = None,
    groups: o.Groups = None,
    time: o.Time = None,
    categorical: o.Categorical = None,
    numerical: o.Numerical = None,
    independent_duplicates: o.IndependentDuplicates = False,
    seed: o.Seed = 0,
    jobs: o.Jobs = -1,
    quiet: o.Quiet = False,
) -> int:
    """Write one HTML file about a model; fits one first if none is given."""
    from kpp.cli.report import run_report
    from kpp.tables.fitting import FitOptions

    if model is not None:
        o.refuse_fit_options(context)
    else:
        o.refuse_rows(rows)
    asked = FitOptions(
        target=target,
        task=task.value,
        forest=forest.value,
        trees=trees,
        regime=regime.value,
        folds=folds,
        nested=nested,
        alpha=alpha,
        loss=loss.value,
        quantile=tuple(quantile or ()),
        test_size=test_size,
        test=test,
        drop=tuple(drop or ()),
        id=id_column,
        weights=weights,
        groups=groups,
        time=time,
        categorical=tuple(categorical or ()),
        numerical=tuple(numerical or ()),
        independent_duplicates=independent_duplicates,
        seed=seed,
        jobs=jobs,
    )
    return run_report(
        data,
        asked,
        model=model,
        rows=rows.value,
        out=out,
        json_path=json,
        title=title,
        max_rows=max_rows,
        y_range=y_range,
        compare=compare,
        segments=segments or [],
        open_it=open_it,
        arguments=context.find_object(list),
        terminal=Terminal(quiet=quiet),
    )


@app.command()
def info(
    model: o.ModelFile,
    check: Annotated[
        bool,
        typer.Option("--check", help="Read all of the file, and build the model, to check it."),
    ] = False,
    json: o.Json = False,
) -> int:
    """Show what the file of a model holds."""
    from kpp.cli.info import run_info

    return run_info(model, Terminal(json=json), check=check)


@app.command()
def export(
    model: o.ModelFile,
    to: Annotated[o.ExportFormat, typer.Option(help="The other tool.")] = o.ExportFormat.onnx,
    precision: Annotated[
        o.Precision, typer.Option(help="ONNX: takes and gives float64, or float32.")
    ] = o.Precision.double,
    opset: Annotated[
        int, typer.Option(help="ONNX: operators of version 5, or 3 for older runtimes.")
    ] = 5,
    out: o.Out = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Write a model for ONNX or treelite."""
    from kpp.cli.export import run_export

    return run_export(
        model,
        to.value,
        out,
        precision=precision.value,
        opset=opset,
        terminal=Terminal(json=json, quiet=quiet),
    )


@app.command()
def serve(
    model: o.ModelFile,
    report: Annotated[
        Path | None,
        typer.Option(metavar="PAGE", help="A page of kpp report to show.", show_default=False),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to bind to; by default only this machine can ask.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 is any.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes.")] = 1,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Whoever asks must bring the token in this file; or KPP_SERVE_TOKEN.",
            show_default=False,
        ),
    ] = None,
    max_bytes: Annotated[int, typer.Option(min=1, help="Longest body.")] = 16 * 2**20,
    max_rows: Annotated[int, typer.Option(min=1, help="Most rows of a body.")] = 100_000,
    max_slow_rows: Annotated[
        int, typer.Option(min=1, help="Most rows to explain or certify at a time.")
    ] = 1_000,
    threads: Annotated[
        int, typer.Option(min=1, help="Predictions at a time, in each process.")
    ] = 2,
    slow_threads: Annotated[
        int, typer.Option(min=1, help="Explanations and certificates at a time, in each process.")
    ] = 1,
    queue: Annotated[int, typer.Option(min=0, help="Predictions that may wait.")] = 256,
    slow_queue: Annotated[
        int, typer.Option(min=0, help="Explanations and certificates that may wait.")
    ] = 16,
    seconds: Annotated[float, typer.Option(min=0.01, help="Longest time for an answer.")] = 30.0,
    body_seconds: Annotated[
        float, typer.Option(min=0.01, help="Longest time for a body to arrive.")
    ] = 20.0,
    stop_seconds: Annotated[
        float, typer.Option(min=1, help="Longest time that a stop waits for what is under way.")
    ] = 30.0,
) -> int:
    """Answer questions about rows over HTTP; SIGHUP reads the model again."""
    from kpp.cli.serve import run_serve

    return run_serve(
        model,
        token_file=token_file,
        terminal=Terminal(),
        report=report,
        host=host,
        port=port,
        workers=workers,
        max_bytes=max_bytes,
        max_rows=max_rows,
        max_slow_rows=max_slow_rows,
        threads=threads,
        slow_threads=slow_threads,
        queue=queue,
        slow_queue=slow_queue,
        seconds=seconds,
        body_seconds=body_seconds,
        stop_seconds=stop_seconds,
    )


@app.command()
def geometry(
    dataset: Annotated[
        str, typer.Argument(help="breast_cancer, diabetes, digits, iris or wine.")
    ] = "breast_cancer",
    forest: Annotated[
        o.GeometryForest, typer.Option(help="Which forest is grown.")
    ] = o.GeometryForest.extra_trees,
    trees: Annotated[int, typer.Option(help="Number of trees.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the forest.")] = 0,
    json: o.Json = False,
) -> int:
    """Embed a built-in data set, show its geometry and check the isometry."""
    from kpp.cli.geometry import geometry_figures, geometry_lines

    figures, holds = geometry_figures(dataset, forest.value, trees, seed)
    if json:
        Terminal(json=True).result(figures)
    else:
        for name, text in geometry_lines(figures):
            print(f"{name:<17}{text}")
    return 0 if holds else 1


for _command in app.registered_commands:
    assert _command.callback is not None
    _command.epilog = f"Example: {EXAMPLES[_command.callback.__name__]}"
