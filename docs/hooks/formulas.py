"""Formulas of docstrings as MathML, which browsers draw themselves: no script, no network.

Docstrings write them in Sphinx's way, ``:math:`x^2` `` in a line and ``.. math::`` in a block.
Imports are inside, so that collecting this file for doctests does not need the extra ``docs``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

INLINE = re.compile(r":math:`([^`]+)`")
BLOCK = re.compile(r"^( *)\.\. math::[ ]*(.*)$")
ROLE = re.compile(r":(?:class|func|meth|mod|ref):`~?([^`]+)`")


def blocks_and_inlines(
    lines: list[str], draw: Callable[[str, str], str], keep: Callable[[str], str]
) -> list[str]:
    """Replace every formula of a page by what `draw` makes of it, kept out of Markdown's way.

    >>> shout = lambda formula, display: f"<{display}: {formula}>"
    >>> blocks_and_inlines([".. math:: a", "    b", "", "so :math:`c`."], shout, str)
    ['', '<block: a b>', '', 'so <inline: c>.']
    >>> blocks_and_inlines(["and :math:`d +", "    e` too"], shout, str)
    ['and <inline: d + e> too']
    """
    # A formula may go on in the next line.
    text = INLINE.sub(lambda m: re.sub(r"\s*\n\s*", " ", m.group()), "\n".join(lines))
    lines = text.split("\n")
    out: list[str] = []
    at = 0
    while at < len(lines):
        found = BLOCK.match(lines[at])
        if not found:
            line = INLINE.sub(lambda m: keep(draw(m.group(1), "inline")), lines[at])
            out.append(ROLE.sub(r"`\1`", line))
            at += 1
            continue
        formula, indent = [found.group(2)], len(found.group(1))
        at += 1
        # The block goes on while lines are indented further, empty ones included.
        while at < len(lines) and (
            not lines[at].strip() or len(lines[at]) - len(lines[at].lstrip()) > indent
        ):
            formula.append(lines[at].strip())
            at += 1
        out += ["", keep(draw(" ".join(part for part in formula if part), "block")), ""]
    return out


def on_config(config: Any) -> Any:
    """Give MkDocs, and mkdocstrings with it, one more extension of Markdown."""
    from latex2mathml.converter import convert
    from markdown.extensions import Extension
    from markdown.preprocessors import Preprocessor

    def draw(formula: str, display: str) -> str:
        return str(convert(formula, display=display))

    class Formulas(Preprocessor):
        def run(self, lines: list[str]) -> list[str]:
            return blocks_and_inlines(lines, draw, self.md.htmlStash.store)

    class FormulaExtension(Extension):
        def extendMarkdown(self, md: Any) -> None:
            # After the fences, whose code must stay as it is.
            md.preprocessors.register(Formulas(md), "formulas", 22)

    config.markdown_extensions.append(FormulaExtension())
    return config
