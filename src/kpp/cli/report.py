"""`kpp report`: one HTML file about a model, fitted on the way if none is given."""

from __future__ import annotations

import json
import sys
import warnings
import webbrowser
from pathlib import Path
from typing import Any

from kpp._optional import optional
from kpp.cli.columns import prepare
from kpp.cli.console import Terminal, plain_data
from kpp.cli.errors import UserError
from kpp.cli.files import load_model, write_text
from kpp.cli.fitting import FitOptions, fit_table
from kpp.cli.labelled import labelled_rows
from kpp.cli.reading import TableFile, check_output


def run_report(
    table: str,
    options: FitOptions,
    *,
    model: Path | None,
    out: Path | None,
    json_path: str | None,
    title: str | None,
    max_rows: int,
    open_it: bool,
    terminal: Terminal,
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
    if path.exists():
        terminal.note(f"{path} is there already, and will be replaced.")
    fitted, X, y, extra = _subject(source, options, model, terminal)
    for remark in prepare(fitted, X)[1]:
        terminal.warn(remark)
    page, data = _make(
        fitted,
        X,
        y,
        path,
        want_data=json_path is not None,
        title=source.stem if title is None else title,
        max_rows=max_rows,
        random_state=options.seed,
        verbose=int(terminal.shows_progress),
        **extra,
    )
    if data_path is not None:
        write_text(json.dumps(plain_data(data), ensure_ascii=False) + "\n", data_path)
        terminal.note(f"The same as JSON: {data_path}")
    if json_path == "-":
        sys.stdout.write(json.dumps(plain_data(data), ensure_ascii=False) + "\n")
        terminal.note(f"Report: {page}")
    else:
        sys.stdout.write(f"{page}\n")
    if open_it:
        webbrowser.open(page.absolute().as_uri())
    return 0


def _subject(
    source: TableFile, options: FitOptions, model: Path | None, terminal: Terminal
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The model, the rows of the report, and what else the report can use."""
    if model is not None:
        file = load_model(model, terminal)
        rows = labelled_rows(
            file.model, source, terminal, target=options.target, fitted_to=file.target
        )
        terminal.note(
            "The report takes these rows as new ones; on rows of the fit its scores mean little."
        )
        return file.model, rows.X, rows.y, {}
    fitted = fit_table(source, options, terminal)
    if fitted.X_test is None:
        raise UserError("A report needs test rows: use a --test-size above 0, or --test.")
    n_train, n_test = len(fitted.train[1]), len(fitted.X_test)
    terminal.note(f"Fitted on {n_train} rows; the report is on {n_test} test rows.")
    extra = {"train": fitted.train, "sample_weight": fitted.test_weight}
    return fitted.pipeline, fitted.X_test.reset_index(drop=True), fitted.y_test, extra


def _make(
    model: Any, X: Any, y: Any, path: Path, *, want_data: bool, **settings: Any
) -> tuple[Path, Any]:
    from kpp.reports import report, report_data

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unknown categories were named before
        if not want_data:
            return report(model, X, y, path, **settings), None
        from kpp.reports.page import render, write

        data = report_data(model, X, y, **settings)
        return write(render(data), path), data
