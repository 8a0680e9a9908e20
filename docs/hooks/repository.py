"""Pages that live beside ``docs``: measured results, the changelog. Links to them keep working.

In the repository a page links to ``../benchmarks/results/bounds.md``. The site holds that file as
``benchmarks/results/bounds.md``; links to files that it does not hold (programs, data) become text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SHOWN = ("benchmarks/results/**/*.md", "benchmarks/results/**/*.png", "benchmarks/suite/README.md")
SINGLE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def shown_files() -> list[str]:
    """Paths, within the repository, of the files beside ``docs`` that the site shows."""
    found = {p.relative_to(ROOT).as_posix() for pattern in SHOWN for p in ROOT.glob(pattern)}
    return sorted({*found, *(name for name in SINGLE if (ROOT / name).exists())})


def relink(markdown: str, page: str, shown: set[str]) -> str:
    """Point the links of a page, given by its path in the repository, at the site's files.

    >>> relink("[a](../benchmarks/r.md#x), [b](../c.py)", "docs/p.md", {"benchmarks/r.md"})
    '[a](benchmarks/r.md#x), b'
    >>> relink("[a](../../docs/models.md)", "benchmarks/results/r.md", set())
    '[a](../../models.md)'
    """

    def replace(found: re.Match[str]) -> str:
        mark, text, target = found.groups()
        path, hash_sign, anchor = target.partition("#")
        if "://" in target or not path:
            return found.group()
        goal = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if goal.startswith("docs/"):
            goal = goal.removeprefix("docs/")
        elif goal not in shown:
            return text
        here = posixpath.dirname(page.removeprefix("docs/"))
        return f"{mark}[{text}]({posixpath.relpath(goal, here or '.')}{hash_sign}{anchor})"

    return LINK.sub(replace, markdown)


def on_files(files: Any, config: Any) -> Any:
    """Add the files beside ``docs``."""
    from mkdocs.structure.files import File

    for path in shown_files():
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Repair the links of a page."""
    shown = shown_files()
    uri = page.file.src_uri
    path = uri if uri in shown else f"docs/{uri}"
    return relink(markdown, path, set(shown))
