"""Why figures differ: each that is not the printed one has a cause, kept in ``causes.toml``."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from suite.markdown import grid

from paper.comparing import Row, finer, like
from paper.conventions import BEST, figures, hits, installed, measured

FILE = Path(__file__).parent / "causes.toml"
PAGES = ("five", "dashboard", "bounds", "radii", "diabetes", "suite")
Key = tuple[str, str, str]


class Cause(NamedTuple):
    """The cause of one figure and the evidence for it."""

    kind: str
    evidence: str


def kinds() -> dict[str, str]:
    """What every kind of cause means."""
    found: dict[str, str] = tomllib.loads(FILE.read_text())["kinds"]
    return found


def causes() -> dict[Key, Cause]:
    """Cause of every figure that differs, by page, set and quantity."""
    found: dict[Key, Cause] = {}
    for entry in tomllib.loads(FILE.read_text())["cause"]:
        for quantity in entry["quantities"]:
            key = (entry["page"], entry["data"], quantity)
            if key in found:
                raise ValueError(f"{' / '.join(key)} has two causes.")
            found[key] = Cause(entry["kind"], entry["evidence"])
    return found


def differing(folder: Path) -> dict[Key, dict[str, Any]]:
    """Committed figures that are not the printed ones to their digits."""
    found = {}
    for name in PAGES:
        for row in json.loads((folder / f"paper_{name}.json").read_text())["rows"]:
            if not row["agrees"]:
                found[(name, row["data"], row["quantity"])] = row
    return found


def in_environment(folder: Path, label: str = BEST) -> dict[Key, Row]:
    """Figures of an environment, by page, set and quantity."""
    own = figures(measured(folder, label))
    return {(f.page, f.row.data, f.row.quantity): f.row for f in own}


def counts(folder: Path) -> dict[str, Counter[str]]:
    """Figures that differ, by page and kind of cause."""
    found: dict[str, Counter[str]] = {name: Counter() for name in PAGES}
    known = causes()
    for key in differing(folder):
        found[key[0]][known[key].kind] += 1
    return found


def n_figures(folder: Path, name: str) -> int:
    """Figures of a page."""
    return len(json.loads((folder / f"paper_{name}.json").read_text())["rows"])


def table(folder: Path) -> dict[str, Any]:
    """By page, figures that agree and those that do not by cause."""
    by_page = counts(folder)
    used = [kind for kind in kinds() if any(count[kind] for count in by_page.values())]
    rows, total = [], Counter[str]()
    for name, count in by_page.items():
        n = n_figures(folder, name)
        own = Counter({"figures": n, "agree": n - sum(count.values())}) + count
        total += own
        rows.append([name, *(own[key] for key in ("figures", "agree", *used))])
    rows.append(["all", *(total[key] for key in ("figures", "agree", *used))])
    return {"header": ["page", "figures", "agree", *used], "rows": rows}


def builds(folder: Path) -> dict[str, dict[str, int]]:
    """Of the figures measured in the paper's build, how many agree there and as installed."""
    best = figures(measured(folder, BEST))
    same = {(f.page, f.row.data, f.row.quantity) for f in best}
    plain = [f for f in installed(folder) if (f.page, f.row.data, f.row.quantity) in same]
    return {
        label: {"agree": sum(hits(f.row) for f in own), "figures": len(own)}
        for label, own in (("installed", plain), ("paper_build", best))
    }


def summary(folder: Path) -> list[str]:
    """The same as a table of a page."""
    known = table(folder)
    return grid(known["header"], [[r[0], *(cell or "" for cell in r[1:])] for r in known["rows"]])


def write(folder: Path) -> None:
    """Write the page, and its counts for the results page."""
    (folder / "paper_causes.md").write_text(page(folder))
    (folder / "causes.json").write_text(json.dumps(table(folder) | builds(folder), indent=1) + "\n")


def page(folder: Path) -> str:
    """Figure by figure."""
    known, best = causes(), in_environment(folder)
    rows: list[list[str]] = []
    evidence: dict[Cause, int] = {}
    for key, row in differing(folder).items():
        cause, other = known[key], best.get(key)
        printed, value = row["published"], row["reproduced"]
        size = abs(value / float(printed) - 1) if float(printed) else abs(value)
        shown = "–"
        if other is not None:
            shown = like(finer(printed), other.reproduced)
            shown += "" if hits(other) else " (differs)"
        number = evidence.setdefault(cause, len(evidence) + 1)
        cells = [key[0], key[1].replace("_", " "), key[2], printed, like(finer(printed), value)]
        rows.append([*cells, f"{size:.1e}", shown, f"{cause.kind} ({number})"])
    lines = [
        "# Why figures differ",
        "",
        "`python -m paper causes`, from `paper/causes.toml`. A test holds it to the figures: each "
        "that differs has a cause, none that agrees has one, and where the cause is the build or "
        "the version of a library, or rounding, the figure measured there must be the printed one.",
        "",
        *summary(folder),
        *(f"- **{kind}**: {about}" for kind, about in kinds().items()),
        "",
        "## Figure by figure",
        "",
        "*Paper's build*: scikit-learn 1.7.2 with its trees compiled with fused multiply-adds "
        "(`paper/fused.py`). The number refers to the evidence below.",
        "",
    ]
    header = ["page", "data", "quantity", "published", "here", "relative", "paper's build", "cause"]
    lines += grid(header, rows)
    lines += ["## Evidence", ""]
    lines += [f"{number}. {cause.evidence}" for cause, number in evidence.items()]
    return "\n".join(lines).rstrip() + "\n"
