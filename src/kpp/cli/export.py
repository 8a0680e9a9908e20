"""`kpp export`: the file of a model in the format of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kpp.cli.console import Terminal
from kpp.cli.files import load_model
from kpp.export import to_onnx, to_treelite
from kpp.models.asking import ask
from kpp.tables.errors import UserError
from kpp.tables.writing import check_output, replace_file

SUFFIX = {"onnx": ".onnx", "treelite": ".tl"}


def run_export(
    model: Path, to: str, out: Path | None, *, precision: str, opset: int, terminal: Terminal
) -> int:
    """Write a model for another tool, and say what the new file takes and gives."""
    path = model.with_suffix(SUFFIX[to]) if out is None else out
    check_output(path, model)
    if to == "treelite" and (precision != "double" or opset != 5):
        raise UserError("--precision and --opset are for --to onnx.")
    fitted = load_model(model, terminal).model
    with terminal.working(f"writing {path.name}"):
        data = _onnx(fitted, path, precision, opset) if to == "onnx" else _treelite(fitted, path)
    data |= {"file": str(path), "format": to, "bytes": path.stat().st_size}
    if terminal.json:
        terminal.result(data)
        return 0
    facts = [
        ("file", f"{path}, {data['bytes']} bytes"),
        ("takes", ", ".join(data["takes"])),
        ("gives", ", ".join(data["gives"])),
    ]
    if "score_tolerance" in data:
        facts.append(("exact to", f"{data['score_tolerance']:.1e} in a score"))
    terminal.facts(facts)
    return 0


def _onnx(fitted: Any, path: Path, precision: str, opset: int) -> dict[str, Any]:
    graph = to_onnx(fitted, precision=precision, ml_opset=opset)
    replace_file(path, lambda beside: beside.write_bytes(graph.SerializeToString()))
    said = {entry.key: entry.value for entry in graph.metadata_props}
    return {
        "takes": [value.name for value in graph.graph.input],
        "gives": [value.name for value in graph.graph.output],
        "score_tolerance": float(said["kpp.score_tolerance"]),
    }


def _treelite(fitted: Any, path: Path) -> dict[str, Any]:
    question = ask(fitted)
    made = to_treelite(fitted)
    replace_file(path, lambda beside: made.serialize(str(beside)))
    rows = "rows" if question.preparation is None else "prepared rows"
    return {"takes": [f"{rows} of {len(question.names)} columns"], "gives": ["predictions, scores"]}
