"""`kpp info`: what the file of a model holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kpp.cli.console import Terminal
from kpp.cli.files import load_any, outline_of
from kpp.models.pipelines import prepared_names, raw_columns, source_columns
from kpp.tables.errors import listed
from kpp.tables.fit_rows import KEY as ROWS
from kpp.tables.fit_rows import FitRows
from kpp.tables.numbers import short

if TYPE_CHECKING:
    from kpp.io import ModelOutline

KINDS = {
    "numeric": "number",
    "datetime": "date",
    "low_cardinality": "category",
    "high_cardinality": "text",
}


def run_info(model: Path, terminal: Terminal, *, check: bool = False) -> int:
    """Show what a file holds, from the small part of it that says so; with `check`, read it all."""
    if check:
        load_any(model, terminal)
    data = info(model, terminal, checked=check)
    if terminal.json:
        terminal.result(data)
        return 0
    classes, target = data["classes"], data["target"]
    task = data["task"] or ""
    task += "" if target is None else f" of '{target}'"
    task += "" if classes is None else f", classes {listed(classes)}"
    alpha = "" if data["alpha"] is None else short(data["alpha"])
    n_rows = data["rows_fitted"]
    checksums = "right"
    if not check:
        checksums += (
            f" where it was read, {data['bytes_checked']:,} bytes; --check reads all and builds "
            "the model"
        )
    facts = [
        ("file", f"{data['file']}, {data['bytes']} bytes, format {data['format_version']}"),
        ("checksums", checksums),
        ("holds", data["kind"]),
        ("task", task),
        ("regime", data["regime"]),
        ("alpha", alpha),
        ("forest", f"{data['trees']} trees, {data['nodes']} nodes"),
        ("groups", "" if data["groups"] is None else f"of the column '{data['groups']}'"),
        ("fitted on", "" if n_rows is None else f"{n_rows} rows (of the linear layer)"),
        ("written with", ", ".join(f"{k} {v}" for k, v in data["versions"].items())),
    ]
    terminal.facts([(name, text) for name, text in facts if text])
    if data["columns"]:
        terminal.line()
        terminal.table(
            ["column", "read as", "prepared columns"],
            [(c["name"], c["kind"], str(c["prepared"])) for c in data["columns"]],
            right=(2,),
        )
    return 0


def info(path: Path, terminal: Terminal, *, checked: bool = False) -> dict[str, Any]:
    """What a file of a model holds, as plain data."""
    found = outline_of(path, terminal)
    said = found.summary
    target, groups = (said.metadata.get(name) for name in ("target", "groups"))
    steps = [] if found.preparation is None else [type(found.preparation).__name__]
    return {
        "file": str(path),
        "bytes": said.n_bytes,
        "bytes_read": said.n_bytes_read,
        "bytes_checked": said.n_bytes if checked else found.n_bytes_taken,
        "format_version": said.format_version,
        "checksums": "right",
        "kind": " and ".join([*steps, found.kind]),
        "task": found.task,
        "target": target if isinstance(target, str) else None,
        "groups": groups if isinstance(groups, str) else None,
        "classes": None if found.classes is None else found.classes.tolist(),
        "regime": found.regime,
        "alpha": found.alpha,
        "trees": found.n_trees,
        "nodes": found.n_nodes,
        "rows_fitted": found.n_rows,
        "columns": [] if found.columns is None else _columns(found),
        "versions": said.libraries,
        "written_beside": _without_rows(said.metadata),
    }


def _without_rows(metadata: dict[str, Any]) -> dict[str, Any]:
    """What was written beside a model, with the number of rows in place of their fingerprints."""
    if (rows := FitRows.from_dict(metadata.get(ROWS))) is None:
        return metadata
    return metadata | {ROWS: rows.counts()}


def _columns(found: ModelOutline) -> list[dict[str, Any]]:
    preparation = found.preparation
    names_out = prepared_names(preparation, found.columns)
    names = raw_columns(preparation, found.columns) or names_out
    sources = source_columns(preparation, names, names_out)
    kinds = {
        str(name): KINDS.get(kind, kind)
        for kind, own in (getattr(preparation, "kind_to_columns_", None) or {}).items()
        for name in own
    }
    return [
        {"name": name, "kind": kinds.get(name, "number"), "prepared": sources.count(name)}
        for name in names
    ]
