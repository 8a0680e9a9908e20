"""`kpp certify`: how far rows may move before the model's answer changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kpp import certify, certify_raw
from kpp._optional import optional
from kpp._typing import AnyArray
from kpp.certificates import Certificate, Change, RawCertificate, changes_to
from kpp.cli.console import Terminal
from kpp.cli.files import read_rows, refuse_several, show_table, table_output
from kpp.explanations.words import SplitWords
from kpp.models.asking import Question
from kpp.models.meanings import CATEGORY
from kpp.tables.columns import free_name, take_row
from kpp.tables.errors import UserError
from kpp.tables.numbers import short
from kpp.tables.reading import TableFile
from kpp.tables.rows import Rows

NEVER = -2


def run_certify(
    model: Path,
    table: str,
    *,
    row: int | None,
    raw: bool,
    scale: str,
    epsilon: float | None,
    time_budget: float,
    rows: str,
    top: int,
    id_column: str | None,
    out: Path | None,
    terminal: Terminal,
) -> int:
    """Certify a row on the screen, or all rows in a table."""
    source = TableFile(table)
    out = table_output(out, terminal, source, model, row=row)
    # A row is counted in the whole table.
    given = read_rows(model, source, id_column, terminal, rows=rows if row is None else "all")
    refuse_several(given, "kpp certify")
    _check_epsilon(given.question, epsilon)
    which = slice(None)
    if row is not None:
        row = take_row(len(given), row, given.name)
        which = slice(row, row + 1)
    at = given.at(which)
    if given.chosen is not None:
        what = given.chosen.said if row is None else f"row {row}, {given.chosen.of_row(row)}"
        terminal.note(f"Certified: {what}.")
    with terminal.working("certifying"):
        certificate = certify(given.model, at, epsilon=epsilon)
    boxes = None
    if raw:
        with terminal.bar("certifying raw values") as progress:
            boxes = certify_raw(
                given.model,
                at,
                scale="std" if scale == "std" else None,
                time_budget=time_budget,
                epsilon=epsilon,
                progress=progress,
            )
    prediction = given.model.predict(at)
    changes = None
    if row is not None and boxes is not None:
        changes = changes_to(given.question, at, boxes)
    frame = _table(given, which, prediction, certificate, boxes, id_column)
    if out is not None:
        show_table(frame, out, terminal, what="Certificates")
    if terminal.json:
        terminal.result(_data(given, row, frame, certificate, boxes, top, scale, changes))
    elif row is not None:
        _show_row(given, row, prediction[0], certificate, boxes, top, scale, changes, terminal)
    elif out is None:
        show_table(frame, None, terminal, what="Certificates")
    return 0


def _check_epsilon(question: Question, epsilon: float | None) -> None:
    if question.is_classifier:
        if epsilon is not None:
            raise UserError("--epsilon is for regression; here a change is another class.")
    elif epsilon is None:
        raise UserError(
            "This model predicts numbers: say with --epsilon from which change on, in units of the "
            "target, an answer counts as changed."
        )
    elif not 0 < epsilon < np.inf:
        raise UserError(f"--epsilon must be a positive number; got {epsilon:g}.")


def _changes_to(question: Question, nearest: int) -> Any:
    if nearest == NEVER:
        return None
    if question.is_classifier:
        return question.model.classes_[nearest]
    return "lower" if nearest < 0 else "higher"


def _table(
    rows: Rows,
    which: slice,
    prediction: AnyArray,
    certificate: Certificate,
    boxes: RawCertificate | None,
    id_column: str | None,
) -> Any:
    pd = optional("pandas", "kpp certify", "cli")
    ids = rows.ids.iloc[which].reset_index(drop=True)
    columns: dict[str, Any] = {
        "prediction": prediction,
        "margin": certificate.margin,
        "radius": certificate.radius,
        "lipschitz_radius": certificate.lipschitz,
        "never_changes": certificate.never_flips,
        "changes_to": [_changes_to(rows.question, int(k)) for k in certificate.nearest],
    }
    if boxes is not None:
        columns |= {
            "raw_radius": boxes.radius,
            "raw_upper_radius": boxes.upper_radius,
            "raw_finished": boxes.finished,
        }
    first = "row" if id_column is None else id_column
    return pd.DataFrame(
        {first: ids} | {free_name(name, [first]): column for name, column in columns.items()}
    )


def _data(
    rows: Rows,
    row: int | None,
    frame: Any,
    certificate: Certificate,
    boxes: RawCertificate | None,
    top: int,
    scale: str,
    changes: list[Change] | None,
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "metric": certificate.metric,
        "normalize": certificate.normalize,
        "raw_unit": None if boxes is None else _unit(scale),
        "regime": rows.question.regime.name,
        "columns": {name: frame[name].tolist() for name in frame.columns},
    }
    if row is None and rows.chosen is not None:
        data["rows"] = rows.chosen.to_dict()
    if row is not None:
        data["splits_to_cross"] = [
            {"column": column, "now": now, "distance": distance, "change": change}
            for column, now, distance, change in _crossings(rows, row, certificate, top)
        ]
        if boxes is not None:
            data["box"] = [
                {"column": name, "lower": low, "value": value, "upper": high}
                for name, low, value, high in _box(rows, row, boxes)
            ]
            data["changes"] = None if changes is None else [vars(change) for change in changes]
    return data


def _crossings(
    rows: Rows, row: int, certificate: Certificate, top: int
) -> list[tuple[str, str, float, float]]:
    """Splits to cross: the column of the table, what holds now, how far, what it takes off."""
    names, words = rows.question.names, SplitWords(rows.question, rows.at(slice(row, row + 1)))
    found = []
    for c in certificate.splits_to_cross(0)[:top]:
        side = "<=" if c.goes_left else ">"
        now = f"{side} {short(c.threshold, 6)}" if np.isfinite(c.threshold) else "its category"
        if np.isfinite(c.threshold) and not c.terms:
            now = words.side(c.feature, c.threshold, c.goes_left)
        if c.tree < 0 and np.isnan(c.threshold):  # a linear term of what misses
            now = "not missing" if c.goes_left else "missing"
        tested = _sum(c.terms, names) if c.terms else words.column(c.feature)
        found.append((tested, now, c.distance, c.change))
    return found


def _sum(terms: tuple[tuple[int, float], ...], names: tuple[str, ...]) -> str:
    """What an oblique split adds up."""
    listed = " + ".join(f"{short(weight, 3)} {names[column]}" for column, weight in terms)
    return listed.replace("+ -", "- ")


def _box(rows: Rows, row: int, boxes: RawCertificate) -> list[tuple[str, float, float, float]]:
    """Sides of the certified box that end somewhere; columns that stay are left out."""
    names = rows.question.names
    values = np.asarray(rows.prepared.iloc[row], dtype=np.float64)
    lower, upper = boxes.lower[0], boxes.upper[0]
    ends = (np.isfinite(lower) | np.isfinite(upper)) & (boxes.scale > 0)
    tight = np.minimum(values - lower, upper - values) / np.where(ends, boxes.scale, 1.0)
    order = [j for j in np.argsort(tight, kind="stable") if ends[j]]
    return [(names[j], float(lower[j]), float(values[j]), float(upper[j])) for j in order]


def _sides(rows: Rows, row: int, boxes: RawCertificate) -> list[tuple[str, str, str, str]]:
    """The certified box in the words of the table; a category that may change has no side."""
    meanings, found, told = rows.question.meanings, [], set()
    places = {name: j for j, name in enumerate(rows.question.names)}
    for name, low, value, high in _box(rows, row, boxes):
        one = meanings[places[name]]
        low, value, high = (one.before(end) for end in (low, value, high))
        if one.kind != CATEGORY:
            found.append((one.name, short(low, 6), short(value, 6), short(high, 6)))
        elif one.source not in told and not (low <= 0 and high >= 1):
            told.add(one.source)
            own = rows.raw[one.source].iloc[row] if one.source in rows.raw else ""
            found.append((one.source, "stays", str(own), "stays"))
    return found


def counterexample(question: Question, prediction: Any, changes: list[Change]) -> str:
    """Tell in a sentence which values would have to be others."""
    other = "another class" if question.is_classifier else "a value outside the tolerance"
    if question.is_classifier and len(question.model.classes_) == 2:
        first, second = question.model.classes_.tolist()
        other = str(second if prediction == first else first)
    return f"It would be {other} if {' and '.join(map(str, changes))}."


def _unit(scale: str) -> str:
    return (
        "standard deviations of each column in the training rows"
        if scale == "std"
        else "units of each column"
    )


def _show_row(
    rows: Rows,
    row: int,
    prediction: Any,
    certificate: Certificate,
    boxes: RawCertificate | None,
    top: int,
    scale: str,
    changes: list[Change] | None,
    terminal: Terminal,
) -> None:
    to = _changes_to(rows.question, int(certificate.nearest[0]))
    shown = short(prediction, 6) if isinstance(prediction, float) else str(prediction)
    terminal.heading(f"Row {row} of {rows.name}: predicted {shown}")
    if certificate.never_flips[0]:
        terminal.line("No combination of leaves changes this answer: it holds for every input.")
    terminal.facts(
        [
            ("margin", short(certificate.margin[0])),
            ("certified radius", f"{short(certificate.radius[0])}  in {certificate.metric}"),
            ("the paper's radius", f"{short(certificate.lipschitz[0])}  never larger"),
            ("changes first to", "nothing" if to is None else str(to)),
        ]
    )
    crossings = _crossings(rows, row, certificate, top)
    if crossings:
        terminal.line()
        terminal.heading("Splits that a change of the answer would cross")
        lines = [(name, now, short(d), short(change)) for name, now, d, change in crossings]
        terminal.table(["column", "now", "distance", "off the margin"], lines, right=(2, 3))
    if boxes is not None:
        terminal.line()
        terminal.heading("In raw values")
        ends = "" if boxes.finished[0] else "  (time was up: sound, perhaps not the largest)"
        upper = boxes.upper_radius[0]
        terminal.facts(
            [
                ("certified radius", f"{short(boxes.radius[0])}{ends}"),
                ("another answer at", short(upper) if boxes.found[0] else "none found"),
                ("unit", _unit(scale)),
            ]
        )
        if changes:
            terminal.line(counterexample(rows.question, prediction, changes))
        sides = _sides(rows, row, boxes)
        if sides:
            terminal.table(["column", "from", "now", "to"], sides[:top], right=(1, 2, 3))
            more = f" ({len(sides) - top} columns more: --json lists all)" * (len(sides) > top)
            terminal.line(
                f"While every column stays between its sides{more}, and columns without spread "
                "stay as they are, the answer stays. Sides are shown rounded."
            )
        if rows.question.preparation is not None:
            terminal.line(
                "The radius is one of the columns that the model sees: categories and parts of "
                "dates are columns of their own, in single precision."
            )
    terminal.line()
    terminal.line("That is about this model's answer, not about whether it is right.")
