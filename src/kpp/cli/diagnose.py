"""`kpp diagnose`: the dashboard of a model on the rows of a file, and findings with advice."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from kpp import diagnose
from kpp.cli.console import Terminal
from kpp.cli.files import load_model
from kpp.diagnostics import Diagnostics
from kpp.models.asking import ask
from kpp.tables.columns import prepare
from kpp.tables.errors import UserError
from kpp.tables.fit_rows import ChosenRows
from kpp.tables.labelled import labelled_rows
from kpp.tables.numbers import short
from kpp.tables.reading import TableFile

# Below this the symbols of the figures would break their names.
WIDE = 100


def run_diagnose(
    model: Path,
    table: str,
    *,
    target: str | None,
    sample: str,
    rows: str,
    silence: Sequence[str],
    fail_on: str,
    terminal: Terminal,
) -> int:
    """Diagnose a model; exit code 1 if there is a finding of the asked level."""
    source = TableFile(table)
    file = load_model(model, terminal)
    loaded = file.model
    if sample != "test" and rows != "auto":
        raise UserError(f"--sample {sample} takes the rows of the fit, and --rows {rows} others.")
    given = labelled_rows(
        loaded,
        source,
        terminal,
        target=target,
        fitted_to=file.target,
        rows=rows if sample == "test" else "fitted",
        fit_rows=file.fit_rows,
        fitted_groups=file.groups,
    )
    chosen = given.chosen
    assert chosen is not None
    if sample == "test" and chosen.n_fitted:
        terminal.warn(f"Diagnosed on {chosen.said}.")
    if file.weights is not None:
        terminal.note(
            f"The fit had weights ('{file.weights}'); here every row counts the same. Weighted "
            "scores are in kpp report --model."
        )
    prepared, remarks = prepare(loaded, given.X)
    for remark in remarks:
        terminal.warn(remark)
    with terminal.working("diagnosing"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = diagnose(
            ask(loaded),
            ask(loaded).model.at(prepared),
            given.y,
            sample=sample,
            silence=list(silence),
        )
    for text in dict.fromkeys(str(w.message) for w in caught):
        terminal.warn(text)
    failed = any(fails(finding.severity, fail_on) for finding in found.findings)
    if terminal.json:
        terminal.result(
            found.to_dict()
            | {"target": given.target, "rows": chosen.to_dict()}
            | {"fail_on": fail_on, "failed": failed}
        )
    else:
        _show(found, chosen, terminal)
    return int(failed)


def fails(severity: str, fail_on: str) -> bool:
    """Whether a finding is of the level that was asked for, or above.

    Examples
    --------
    >>> from kpp.cli.diagnose import fails
    >>> fails("warning", "info"), fails("info", "warning"), fails("warning", "never")
    (True, False, False)
    """
    return fail_on == "info" or (fail_on == "warning" and severity == "warning")


def _show(found: Diagnostics, chosen: ChosenRows, terminal: Terminal) -> None:
    terminal.heading(f"On {chosen.said}; regime {found.regime}")
    lines = []
    for o in found.observables:
        error = f" ± {o.error:.2g}" if o.error else ""
        lines.append((o.family, o.name, f"{short(o.value)}{error}", o.symbol))
    lines += [("predictive", name, short(value), "") for name, value in found.metrics.items()]
    if found.constant is not None:
        shared = [name for name in found.constant if name in found.metrics]
        lines += [("a constant", name, short(found.constant[name]), "") for name in shared]
    shown = 4 if terminal.out.width >= WIDE else 3
    head = ["family", "figure", "value", "symbol"]
    terminal.table(head[:shown], [line[:shown] for line in lines], right=(2,))
    if found.no_auc is not None:
        terminal.line(f"The area under the ROC curve is {found.no_auc}.")
    terminal.line()
    if not found.findings:
        terminal.line("No findings.")
    for finding in found.findings:
        terminal.heading(f"{finding.code} {finding.severity}: {finding.title}")
        terminal.line(
            f"{finding.meaning} {finding.action} ({finding.observable} = "
            f"{short(finding.value, 3)}, threshold {short(finding.threshold, 3)}; "
            f"{finding.source})"
        )
