"""`kpp info`: what the file of a model holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kpp.cli.console import Terminal
from kpp.cli.files import load_any
from kpp.geometry import forest_blocks
from kpp.models.linear import KPPLinearModel
from kpp.models.pipelines import (
    FittedModel,
    Preparation,
    prepared_names,
    source_columns,
    split_pipeline,
)
from kpp.tables.columns import model_columns
from kpp.tables.errors import UserError, listed
from kpp.tables.fit_rows import KEY as ROWS
from kpp.tables.fit_rows import FitRows
from kpp.tables.numbers import short

KINDS = {
    "numeric": "number",
    "datetime": "date",
    "low_cardinality": "category",
    "high_cardinality": "text",
}


def run_info(model: Path, terminal: Terminal) -> int:
    """Show what a file holds; that it loads says that its checksums are right."""
    data = info(model, terminal)
    if terminal.json:
        terminal.result(data)
        return 0
    classes, target = data["classes"], data["target"]
    task = data["task"] or ""
    task += "" if target is None else f" of '{target}'"
    task += "" if classes is None else f", classes {listed(classes)}"
    alpha = "" if data["alpha"] is None else short(data["alpha"])
    trees = f"{data['trees']} trees, {data['nodes']} nodes" if "trees" in data else ""
    rows = f"{data['rows_fitted']} rows (of the linear layer)" if "trees" in data else ""
    facts = [
        ("file", f"{data['file']}, {data['bytes']} bytes, format {data['format_version']}"),
        ("checksums", "right"),
        ("holds", data["kind"]),
        ("task", task),
        ("regime", data["regime"]),
        ("alpha", alpha),
        ("forest", trees),
        ("fitted on", rows),
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


def info(path: Path, terminal: Terminal) -> dict[str, Any]:
    """What a file of a model holds, as plain data."""
    file = load_any(path, terminal)
    said = file.summary
    data: dict[str, Any] = {
        "file": str(path),
        "bytes": said.n_bytes,
        "bytes_read": said.n_bytes_read,
        "format_version": said.format_version,
        "checksums": "right",
        "kind": type(file.model).__name__,
        "task": None,
        "target": file.target,
        "classes": None,
        "regime": None,
        "alpha": None,
        "columns": [],
        "versions": said.libraries,
        "written_beside": _without_rows(said.metadata),
    }
    try:
        preparation, inner = split_pipeline(file.model)
    except TypeError:  # a forest by itself
        return data
    forests = [block.forest for _, block in forest_blocks(inner.map_)]
    steps = [] if preparation is None else [type(preparation).__name__]
    data["kind"] = " and ".join([*steps, type(inner).__name__])
    data["task"] = "embedding"
    if isinstance(inner, KPPLinearModel):
        classes = inner.additive_.classes
        data |= {"regime": inner.regime_, "alpha": float(inner.alpha_)}
        data["task"] = "regression" if classes is None else "classification"
        data["classes"] = None if classes is None else classes.tolist()
    return data | {
        "trees": sum(forest.n_trees for forest in forests),
        "nodes": sum(forest.n_nodes for forest in forests),
        "rows_fitted": int(inner.map_.shape[0]),
        "columns": _columns(preparation, inner, file.model),
    }


def _without_rows(metadata: dict[str, Any]) -> dict[str, Any]:
    """What was written beside a model, with the number of rows in place of their fingerprints."""
    if (rows := FitRows.from_dict(metadata.get(ROWS))) is None:
        return metadata
    return metadata | {ROWS: rows.counts()}


def _columns(
    preparation: Preparation | None, inner: FittedModel, model: Any
) -> list[dict[str, Any]]:
    names_out = prepared_names(preparation, inner)
    try:
        names = model_columns(model)
    except UserError:
        names = names_out
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
