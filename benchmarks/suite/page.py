"""The results page of the docs: its prose is written by hand, its tables come from the results.

A block of the page stands between ``<!-- table: NAME -->`` and ``<!-- end -->``; what lies between
is replaced. Numbers stand in blocks only, so that the page cannot disagree with the results.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from suite import page_tables
from suite.config import read
from suite.records import table

BLOCK = re.compile(r"(<!-- table: (?P<name>[\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Sources:
    """Folders of the results: of the suite, of the ablations, of the paper's tables."""

    suite: Path
    ablations: Path
    paper: Path


def blocks(sources: Sources) -> dict[str, list[str]]:
    """Lines of every block, by name."""
    config, results = read(sources.suite / "config.toml"), table(sources.suite)
    rankings = page_tables.read_rankings(sources.suite)
    found = {
        "about": page_tables.about(sources.suite, config, results),
        "unfinished": page_tables.unfinished(config, results),
        "tests": page_tables.tests(rankings),
        "entries": page_tables.entries(config, results),
        "rival": page_tables.against_rival(config, results),
        "times": page_tables.times(config, results),
        "paper": page_tables.paper(sources.paper),
        "paper causes": page_tables.paper_causes(sources.paper),
        "paper ranks": page_tables.paper_ranks(sources.paper),
        "ablations": page_tables.ablations(sources.ablations),
    }
    shown = config.report["shown"]
    rankings = [ranking for ranking in rankings if ranking["ours"] in shown]
    for ours in shown:
        found[f"ranks {ours}"] = page_tables.ranks(rankings, ours)
    for metric in ("rmse", "error", "log_loss"):
        found[f"pairs {metric}"] = page_tables.pairs(rankings, metric)
        found[f"far {metric}"] = page_tables.far(config, results, metric)
    return found


def fill(text: str, found: dict[str, list[str]]) -> str:
    """The page with its blocks filled; a block that is not known is an error."""

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in found:
            raise ValueError(f"The page has a block {name!r}; known are {', '.join(found)}.")
        return match[1] + "\n" + "\n".join(found[name]).strip() + "\n\n" + match[3]

    return BLOCK.sub(replace, text)


def write(path: Path, sources: Sources) -> Path:
    """Fill the page, and copy the pictures that it shows to ``images`` beside it."""
    text = fill(path.read_text(), blocks(sources))
    path.write_text(text)
    for target, origin in pictures(sources).items():
        if f"images/{target}" in text:
            shutil.copyfile(origin, path.parent / "images" / target)
    return path


def pictures(sources: Sources) -> dict[str, Path]:
    """Where each picture of the page comes from."""
    found = {path.name: path for path in sorted(sources.suite.glob("*.png"))}
    return found | {
        "ablations.png": sources.ablations / "effects.png",
        "robust_radii.png": sources.paper / "paper_radii.png",
    }
