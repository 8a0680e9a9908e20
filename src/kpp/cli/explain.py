"""`kpp explain`: what moved one prediction, or all those of a file; sums that are exact."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from kpp import explain, explain_rules
from kpp._optional import optional
from kpp.cli.console import Terminal, clean
from kpp.cli.files import read_rows, refuse_several, show_table, table_output
from kpp.explanations import Attribution
from kpp.explanations.outputs import place_of
from kpp.models.asking import Question
from kpp.scores import RoutedRows
from kpp.tables.columns import free_name, take_row
from kpp.tables.conventions import attribution_words
from kpp.tables.errors import UserError
from kpp.tables.numbers import short
from kpp.tables.reading import TableFile
from kpp.tables.rows import Rows

BASELINE = "(baseline)"
Line = tuple[str, float, float]


def run_explain(
    model: Path,
    table: str,
    *,
    row: int | None,
    top: int,
    level: str,
    label: str | None,
    id_column: str | None,
    out: Path | None,
    terminal: Terminal,
) -> int:
    """Explain a row on the screen, or all rows in a table."""
    source = TableFile(table)
    out = table_output(out, terminal, source, model, row=row)
    if top < 1:
        raise UserError(f"--top must be at least 1; got {top}.")
    rows = read_rows(model, source, id_column, terminal)
    refuse_several(rows, "kpp explain")
    if row is not None:
        return _one(rows, take_row(len(rows), row, rows.name), top, level, label, out, terminal)
    frame = _table(rows, level, label, top, id_column)
    if out is not None:
        show_table(frame, out, terminal, what="Attributions")
    if terminal.json:
        columns = {name: frame[name].tolist() for name in frame.columns}
        terminal.result({"level": level, "n_rows": len(rows), "columns": columns})
    elif out is None:
        show_table(frame, None, terminal, what="Attributions")
    return 0


def _one(
    rows: Rows,
    row: int,
    top: int,
    level: str,
    label: str | None,
    out: Path | None,
    terminal: Terminal,
) -> int:
    data = explain_one(rows, row, level=level, label=label, top=top)
    if out is not None:
        pd = optional("pandas", "kpp explain", "cli")
        lines = data.get("contributions") or data.get("nodes") or data.get("rules")
        show_table(pd.DataFrame(lines), out, terminal, what="Explanation")
    if terminal.json:
        terminal.result(data)
    else:
        show_one(data, top, terminal)
    return 0


def explain_one(rows: Rows, row: int, *, level: str, label: str | None, top: int) -> dict[str, Any]:
    """Explain one row, as plain data; contributions and baseline sum to the score."""
    at = rows.at(slice(row, row + 1))
    prediction = rows.model.predict(at)[0]
    output = _output(rows.question, label, prediction)
    rules = explain_rules(rows.question, at, top=top, output=output)
    data: dict[str, Any] = {
        "data": rows.name,
        "row": row,
        "id": rows.ids.iloc[row],
        "prediction": prediction,
        "output": output,
        "score": rules.score,
        "probability": rules.probability,
        "regime": rows.question.regime.name,
        "level": level,
    }
    if level == "variable":
        found = _attribution(rows, at, output, "variable")
        names, values = found.feature_names, found.values
        order = np.argsort(-np.abs(values[0]), kind="stable")
        data |= {"baseline": float(found.baseline), "residual": found.residual}
        data["convention"] = attribution_words(is_classifier=rows.question.is_classifier)
        data["contributions"] = [
            {
                "column": names[j],
                "value": rows.raw[names[j]].iloc[row] if names[j] in rows.raw else None,
                "contribution": float(values[0, j]),
            }
            for j in order
        ]
    elif level == "node":
        found = _attribution(rows, at, output, "node")
        lines = _node_lines(found, 0, found.values.nnz)
        data["baseline"] = lines[0][1]
        data["nodes"] = [{"node": text, "contribution": value} for text, value, _ in lines[1:]]
    if level != "node":
        data["rules"] = [
            {
                "rule": r.text,
                "contribution": r.contribution,
                "support": r.support,
                "trees": r.n_trees,
            }
            for r in rules.rules
        ]
        data["rules_baseline"] = rules.baseline
        data["other_rules"] = {"n": rules.n_other, "contribution": rules.remainder}
    return data


def show_one(data: dict[str, Any], top: int, terminal: Terminal) -> None:
    """Print the explanation of a row; the printed numbers add up, to the last digit."""
    named = "" if data["id"] == data["row"] else f" ({data['id']})"
    of = "prediction" if data["output"] is None else f"score of '{data['output']}'"
    share = "" if data["probability"] is None else f", probability {short(data['probability'], 3)}"
    prediction = data["prediction"]
    shown = short(prediction, 6) if isinstance(prediction, float) else str(prediction)
    terminal.heading(f"Row {data['row']}{named} of {data['data']}: predicted {shown}{share}")
    if data["level"] == "variable":
        parts = [(c["column"], _cell(c["value"]), c["contribution"]) for c in data["contributions"]]
        _show_sum(
            ["column", "value", "adds"],
            parts,
            data["baseline"],
            data["score"],
            top,
            of,
            "columns",
            terminal,
        )
        terminal.line(data["convention"])
    elif data["level"] == "node":
        nodes = [(n["node"], "", n["contribution"]) for n in data["nodes"]]
        _show_sum(
            ["node", "", "adds"], nodes, data["baseline"], data["score"], top, of, "nodes", terminal
        )
    if "rules" in data:
        terminal.line()
        terminal.heading("Rules that moved it most (the same score, cut in another way)")
        lines = [
            (
                f"{r['contribution']:+.4g}",
                f"{r['support']:.1%}",
                str(r["trees"] or ""),
                r["rule"],
            )
            for r in data["rules"]
        ]
        other = data["other_rules"]
        lines.append((f"{other['contribution']:+.4g}", "", "", f"({other['n']} other rules)"))
        lines.insert(0, (f"{data['rules_baseline']:+.4g}", "", "", BASELINE))
        terminal.table(["adds", "rows", "trees", "rule"], lines, right=(0, 1, 2))
    terminal.line()
    terminal.line(
        "An exact account of this model's score, not of causes. Regime: " + data["regime"] + "."
    )


def _show_sum(
    head: list[str],
    parts: list[tuple[str, str, float]],
    baseline: float,
    total: float,
    top: int,
    of: str,
    what: str,
    terminal: Terminal,
) -> None:
    size = max(abs(total), abs(baseline), *(abs(p[2]) for p in parts), 1e-300)
    decimals = min(max(4 - math.floor(math.log10(size)), 0), 12)
    shown = [round(value, decimals) for _, _, value in parts[:top]]
    start, end = round(baseline, decimals), round(total, decimals)
    # What rounding leaves over goes to the line that is a sum already.
    rest = round(end - start - math.fsum(shown), decimals)
    lines = [(BASELINE, "", start)]
    lines += [(p[0], p[1], v) for p, v in zip(parts[:top], shown, strict=True)]
    if len(parts) > top:
        lines.append((f"({len(parts) - top} other {what}, and rounding)", "", rest))
    elif rest:
        lines.append(("(rounding)", "", rest))
    lines.append((f"= {of}", "", end))
    terminal.table(
        head, [(clean(a, 40), clean(b, 40), f"{v:+.{decimals}f}") for a, b, v in lines], right=(2,)
    )


def _cell(value: Any) -> str:
    if value is None or value != value:
        return "missing"
    return short(value, 6) if isinstance(value, float) else str(value)


def _output(question: Question, label: str | None, prediction: Any) -> Any:
    """The class to explain; None for a regressor."""
    if not question.is_classifier:
        if label is not None:
            raise UserError("--class is for classification; this model predicts numbers.")
        return None
    classes = question.model.classes_.tolist()
    if label is None:
        return classes[place_of(np.asarray(prediction).item(), classes) or 0]
    for one in classes:
        if str(one) == label:
            return one
    raise UserError(f"--class must be one of {', '.join(map(str, classes))}; got '{label}'.")


def _attribution(rows: Rows, at: RoutedRows, output: Any, level: str) -> Attribution:
    """What adds up to the score of a class; by variable, sums over the columns of the file.

    Contributions of variables are centred, as in a report; those of nodes are not, since a centred
    one has a value at every node of the forest.
    """
    found = explain(rows.question, at, level=level, centered=level == "variable")
    if output is None:
        return found
    classes = rows.model.classes_.tolist()
    if len(classes) == 2 and place_of(output, classes) == 0:
        return found.negated(output)
    return found.for_output(output)


def _node_lines(found: Attribution, row: int, top: int) -> list[Line]:
    one = found.values[[row]].tocoo()
    order = np.argsort(-np.abs(one.data), kind="stable")
    lines: list[Line] = [(BASELINE, float(found.baseline), 1.0)]
    lines += [(found.feature_names[one.col[k]], float(one.data[k]), math.nan) for k in order[:top]]
    others = order[top:]
    if len(others):
        lines.append((f"({len(others)} other nodes)", math.fsum(one.data[others]), math.nan))
    return lines


def _table(rows: Rows, level: str, label: str | None, top: int, id_column: str | None) -> Any:
    if level == "variable":
        return _wide(rows, label, id_column)
    return _long(rows, level, label, top, id_column)


def _wide(rows: Rows, label: str | None, id_column: str | None) -> Any:
    """A line per row (and class, if there are more than two): baseline, columns and their sum."""
    pd = optional("pandas", "kpp explain", "cli")
    model, at = rows.model, rows.at()
    prediction = model.predict(at)
    last = model.classes_[-1] if rows.question.is_classifier else None
    outputs = [_output(rows.question, label, last)]
    if label is None and last is not None and len(model.classes_) > 2:
        outputs = model.classes_.tolist()
    parts = []
    for output in outputs:
        found = _attribution(rows, at, output, "variable")
        names, values, baseline = list(found.feature_names), found.values, found.baseline
        first = free_name("row" if id_column is None else id_column, names)
        used = [first, *names]
        lead: dict[str, Any] = {first: rows.ids, free_name("prediction", used): prediction}
        if output is not None:
            lead[free_name("class", used)] = output
        lead[free_name("score", used)] = baseline + values.sum(axis=1)
        lead[free_name(BASELINE, used)] = baseline
        frame = pd.DataFrame(lead, index=range(len(rows)))
        parts.append(pd.concat([frame, pd.DataFrame(values, columns=names)], axis=1))
    if len(parts) == 1:
        return parts[0]
    return pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)


def _long(rows: Rows, level: str, label: str | None, top: int, id_column: str | None) -> Any:
    """A line per row and rule, or node: the largest, and the sum of the others."""
    pd = optional("pandas", "kpp explain", "cli")
    found = []
    at = rows.at()
    predicted = rows.model.predict(at)
    for row in range(len(rows)):
        one = at.take([row])
        output = _output(rows.question, label, predicted[row])
        if level == "rules":
            rules = explain_rules(rows.question, one, top=top, output=output)
            lines = rules.to_frame().itertuples(index=False)
        else:
            lines = _node_lines(_attribution(rows, one, output, "node"), 0, top)
        for text, contribution, support in lines:
            found.append((rows.ids.iloc[row], output, text, contribution, support))
    first = "row" if id_column is None else id_column
    names = ["class", "rule" if level == "rules" else "node", "contribution", "support"]
    frame = pd.DataFrame(found, columns=[first, *(free_name(name, [first]) for name in names)])
    unused = [] if rows.question.is_classifier else [1]
    unused += [] if level == "rules" else [4]
    return frame.drop(columns=frame.columns[unused])
