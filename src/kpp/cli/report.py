"""`kpp report`: one HTML file about a model, fitted on the way if none is given."""

from __future__ import annotations

import json
import sys
import warnings
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kpp._optional import optional
from kpp.cli.console import Terminal
from kpp.cli.files import load_model
from kpp.cli.recipe import input_of, recipe_of
from kpp.models.asking import ask
from kpp.tables.columns import prepare
from kpp.tables.errors import UserError, listed
from kpp.tables.fitting import FitOptions, fit_table, named_and_weighted
from kpp.tables.labelled import labelled_rows
from kpp.tables.reading import TableFile
from kpp.tables.writing import check_output, write_text

SEGMENT_WORDS = ("columns", "pairs", "none")


def run_report(
    table: str,
    options: FitOptions,
    *,
    model: Path | None,
    rows: str,
    out: Path | None,
    json_path: str | None,
    title: str | None,
    max_rows: int,
    y_range: tuple[float, float] | None,
    compare: bool,
    segments: Sequence[str],
    open_it: bool,
    terminal: Terminal,
    arguments: list[str] | None = None,
) -> int:
    """Write the report of a table; print where it is."""
    optional("jinja2", "kpp report", "report")
    source = TableFile(table)
    path = Path(f"{source.stem}-report.html") if out is None else out
    data_path = None if json_path in (None, "-") else Path(str(json_path))
    for one in (path, data_path):
        check_output(one, source, model, options.test)
    if data_path is not None and data_path == path:
        raise UserError(f"--out and --json are the same file, {path}.")
    if y_range is not None and not y_range[0] < y_range[1]:
        raise UserError(
            f"--y-range takes the lowest and the highest possible target; got {y_range[0]:g} and "
            f"{y_range[1]:g}."
        )
    if model is None:
        options.check()
    if model is None and len(options.quantile) > 1:
        # Before the fit, which would be in vain.
        raise UserError(
            "A report shows one quantile: give --quantile once. kpp fit takes several, and kpp "
            "predict writes a column for each."
        )
    if compare and model is not None:
        raise UserError(
            "--compare fits other models on the rows of the fit, and --model comes without them: "
            "leave --model out, and kpp report fits the model itself."
        )
    if set(segments) - set(SEGMENT_WORDS) and (source.path is not None or source.is_built_in):
        # Before the fit, which a misspelt name must not cost; standard input is read only once.
        segments_of(segments, [str(name) for name in source.read().columns])
    if path.exists():
        terminal.note(f"{path} is there already, and will be replaced.")
    fitted, X, y, extra = _subject(source, options, model, rows, terminal)
    by = segments_of(segments, [str(name) for name in X.columns])
    if y_range is not None and ask(fitted).is_classifier:
        raise UserError("--y-range is for regression; here the target is a class.")
    for remark in prepare(fitted, X)[1]:
        terminal.warn(remark)
    page, data = _make(
        fitted,
        X,
        y,
        path,
        title=source.stem if title is None else title,
        max_rows=max_rows,
        y_range=y_range,
        compare=True if compare else None,
        segments=by,
        random_state=options.seed,
        verbose=int(terminal.shows_progress),
        recipe=None
        if arguments is None
        else _recipe(arguments, source, options.test, model, out, json_path),
        **extra,
    )
    for remark in data["sections"]["bounds"].get("duplicates", ()):
        terminal.note(remark)
    if data_path is not None:
        write_text(json.dumps(data, ensure_ascii=False) + "\n", data_path)
        terminal.note(f"The same as JSON: {data_path}")
    if json_path == "-":
        sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
        terminal.note(f"Report: {page}")
    else:
        sys.stdout.write(f"{page}\n")
    if open_it:
        webbrowser.open(page.absolute().as_uri())
    return 0


def segments_of(asked: Sequence[str], columns: Sequence[str]) -> Any:
    """What --segments asks for, as `kpp.segments` takes it: words, columns, or several of them.

    Examples
    --------
    >>> from kpp.cli.report import segments_of
    >>> segments_of([], ["sex", "age"]), segments_of(["pairs"], ["sex"]), segments_of(["none"], [])
    ('columns', 'pairs', None)
    >>> segments_of(["sex", "sex,age"], ["sex", "age"])
    ['sex', ('sex', 'age')]
    """
    if not asked:
        return "columns"
    if len(asked) == 1 and asked[0] in SEGMENT_WORDS and asked[0] not in columns:
        return None if asked[0] == "none" else asked[0]
    found: list[Any] = []
    for one in asked:
        # A comma may be part of a name.
        names = (one,) if one in columns else tuple(part.strip() for part in one.split(","))
        unknown = [name for name in names if name not in columns]
        if unknown:
            raise UserError(
                f"--segments takes columns of the table, several for one cut with commas between, "
                f"or one of {listed(SEGMENT_WORDS)}; there is no column {listed(unknown)}."
            )
        found.append(names[0] if len(names) == 1 else names)
    return found


def _recipe(
    arguments: list[str],
    source: TableFile,
    test: Any,
    model: Path | None,
    out: Path | None,
    json_path: str | None,
) -> dict[str, Any]:
    """The command as it was given, and the sha256 of what it reads."""
    inputs = [input_of(source, "table")]
    if test is not None:
        inputs.append(input_of(TableFile(str(test)), "test rows"))
    if model is not None:
        inputs.append(input_of(model, "model"))
    return {**recipe_of(arguments, source.path, test, model, out, json_path), "inputs": inputs}


def _subject(
    source: TableFile, options: FitOptions, model: Path | None, choice: str, terminal: Terminal
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The model, the rows of the report, and what else the report can use."""
    if model is not None:
        file = load_model(model, terminal)
        rows = labelled_rows(
            file.model,
            source,
            terminal,
            target=options.target,
            fitted_to=file.target,
            rows=choice,
            fit_rows=file.fit_rows,
            groups=options.groups,
            fitted_groups=file.groups,
        )
        if rows.groups is None and file.groups is not None:
            terminal.warn(
                f"{source.name} has no column '{file.groups}', which names the groups of the rows "
                "of the fit: bounds on its rows are no guarantees. Say --groups if it is called "
                "otherwise."
            )
        chosen = rows.chosen
        assert chosen is not None
        tell = terminal.warn if chosen.n_fitted else terminal.note
        tell(f"The report is on {chosen.said}.")
        known = file.summary.metadata.get("id")
        known = known if known in rows.frame.columns else None
        id_column = known if options.id is None else options.id
        weights = options.weights
        if weights is None and file.weights in rows.frame.columns:
            weights = file.weights
            terminal.note(f"Rows are weighted by '{weights}', as in the fit.")
        X, weight = named_and_weighted(rows, id_column, weights, source.name)
        about = [f"The report is on {chosen.said}.", f"The model is that of {model.name}."]
        about += _left_out(rows.n_missing, rows.target)
        if isinstance(by := file.summary.metadata.get("time"), str):
            about.append(f"The fit held out the last rows of its table by '{by}'.")
        about += _names_and_weights(id_column, weights)
        about += _in_groups(rows.groups, options.groups or file.groups)
        extra = {
            "sample_weight": weight,
            # With rows of the fit, or of its groups, among them no bound counts new groups.
            "groups": None if chosen.n_fitted else rows.groups,
            "independent_duplicates": options.independent_duplicates or file.independent_duplicates,
            "target": rows.target,
            "source": about,
            "unseen": chosen.are_unseen,
            "n_seen": chosen.n_fitted,
        }
        return file.model, X, rows.y, extra
    fitted = fit_table(source, options, terminal)
    if fitted.X_test is None:
        raise UserError("A report needs test rows: use a --test-size above 0, or --test.")
    n_train, n_test = len(fitted.train[1]), len(fitted.X_test)
    terminal.note(f"Fitted on {n_train} rows; the report is on {n_test} test rows.")
    target = fitted.target
    about = [f"The model was fitted on {n_train} rows of {source.short}."]
    about += _left_out(target.n_missing, target.name)
    about += fitted.about_test
    about += _names_and_weights(options.id, options.weights)
    about += _in_groups(fitted.test_groups, options.groups)
    unused = [*options.drop, *fitted.columns.constant, *fitted.columns.empty]
    if unused:
        about.append(f"Columns of the table that were not used: {listed(unused)}.")
    extra = {
        "train": (*fitted.train, fitted.groups),
        "sample_weight": fitted.test_weight,
        "groups": None if fitted.n_of_fitted_groups else fitted.test_groups,
        "independent_duplicates": options.independent_duplicates,
        "target": target.name,
        "source": about,
    }
    return fitted.pipeline, fitted.X_test, fitted.y_test, extra


def _in_groups(groups: Any, column: str | None) -> list[str]:
    if groups is None:
        return []
    return [f"They are of {len(set(groups.tolist()))} groups, named by the column '{column}'."]


def _left_out(n_missing: int, target: str) -> list[str]:
    return [f"{n_missing} rows were left out: they have no '{target}'."] if n_missing else []


def _names_and_weights(id_column: str | None, weights: str | None) -> list[str]:
    found = [
        "A table row is counted from 0, without the header, as kpp explain --row counts."
        if id_column is None
        else f"Rows are named by the column '{id_column}'."
    ]
    return found if weights is None else [*found, f"Weights are in the column '{weights}'."]


def _make(model: Any, X: Any, y: Any, path: Path, **settings: Any) -> tuple[Path, dict[str, Any]]:
    """Write the page; where it is, and its content as data."""
    from kpp.reports import report_data
    from kpp.reports.page import render, write

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unknown categories were named before
        data = report_data(model, X, y, **settings)
        return write(render(data), path), data
