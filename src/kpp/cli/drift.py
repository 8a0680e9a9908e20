"""`kpp drift`: have the rows of a file moved away from those that a model was fitted on?"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from kpp import drift
from kpp.cli.console import Terminal
from kpp.cli.files import load_model
from kpp.diagnostics import Drift
from kpp.tables.errors import UserError
from kpp.tables.numbers import short
from kpp.tables.reading import TableFile
from kpp.tables.rows import Rows

FEWEST_ROWS = 2


def run_drift(
    model: Path,
    table: str,
    *,
    reference: str | None,
    level: float,
    top: int,
    fail: bool,
    terminal: Terminal,
) -> int:
    """Compare the rows of a file with those of the fit, or of another file."""
    if not 0 < level < 1:
        raise UserError(f"--level is a chance, strictly between 0 and 1; got {level:g}.")
    source = TableFile(table)
    beside = None if reference is None else TableFile(reference)
    file = load_model(model, terminal)
    known: dict[str, Any] = {"known": file.known_columns, "fit_rows": file.fit_rows}
    new = Rows(file.model, source, None, terminal, **known)
    others = None
    if beside is not None:
        others = Rows(file.model, beside, None, terminal, rows="auto", **known)
        assert others.chosen is not None
        if others.chosen.n_fitted:
            terminal.warn(
                f"The reference is {others.chosen.said}: rows that have grown the trees. The test "
                "is an approximation then."
            )
    for rows in (new, others):
        if rows is not None and len(rows) < FEWEST_ROWS:
            raise UserError(f"{rows.name} has one row only: drift is of a sample.")
    with terminal.working("comparing"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said above, with the names of the columns
        found = drift(
            file.model, new.raw, None if others is None else others.raw, level=level, top=top
        )
    said = None if others is None or others.chosen is None else others.chosen.said
    if terminal.json:
        reference_rows = None if others is None or others.chosen is None else others.chosen
        terminal.result(
            found.to_dict()
            | {"reference_rows": None if reference_rows is None else reference_rows.to_dict()}
            | {"failed": fail and found.drifted}
        )
    else:
        _show(found, new.name, said, top, terminal)
    return int(fail and found.drifted)


def _show(found: Drift, name: str, said: str | None, top: int, terminal: Terminal) -> None:
    beside = said or f"the {found.n_reference:,} rows of the fit"
    terminal.heading(f"{found.n_new:,} rows of {name}, beside {beside}")
    terminal.line(found.verdict)
    if not found.is_exact:
        terminal.note(
            "The rows of the fit have grown the trees: the test is an approximation. --reference "
            "FILE compares with rows that the fit held out, and tests each column."
        )
    terminal.line()
    terminal.table(
        ["predictions", "reference", "new", "z"],
        [
            [one.name, short(one.reference), short(one.new), f"{one.z:+.1f}"]
            for one in found.predictions
        ],
        right=(1, 2, 3),
    )
    terminal.line()
    terminal.table(
        ["column", "part of the distance", "times chance"],
        [
            [one.column, f"{one.distance / (found.distance or 1.0):.1%}", short(one.times, 3)]
            for one in found.columns[:top]
        ],
        right=(1, 2),
    )
    if found.boxes:
        terminal.line()
        terminal.table(
            ["reference", "new", "z", "box"],
            [
                [f"{one.reference:.1%}", f"{one.new:.1%}", f"{one.z:+.1f}", one.text]
                for one in found.boxes
            ],
            right=(0, 1, 2),
        )
    remarks = found.column_remarks()  # what the fit did not have was said as the rows were read
    if remarks:
        terminal.line()
    for remark in remarks:
        terminal.line(remark)
