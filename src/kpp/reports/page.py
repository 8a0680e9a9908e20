"""From the data of a report to its page, and the page to its file."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from kpp._atomic import write_file
from kpp._optional import optional
from kpp.reports.charts import bar, draw_all, fifths, spark
from kpp.reports.escaping import json_for_script
from kpp.reports.glossary import explained, meanings, place_of, term
from kpp.reports.svg import marker, markup
from kpp.tables.numbers import count, figure, number, percent, signed
from kpp.tables.plain import plain_data

TEMPLATES = Path(__file__).parent / "templates"
# Digits of the figures that the script shows; those of the data have all.
SIGNIFICANT = 6
MOST_BYTES = 2_900_000
# What sections take that are made after the model of the page: pictures, bounds, words.
RESERVED = 700_000
# Sections whose data the script reads. Each has a file in templates/scripts, which adds itself to
# `starts`; what they share stands in tools.js.
SCRIPTED = ("quality", "variables", "rows", "whatif")
# Their numbers keep all digits.
EXACT = ("whatif",)
# Scripts beside those of the sections.
SHARED = ("tools", "words", "downloads", "model")


def render(data: dict[str, Any]) -> str:
    """Fill the templates.

    Parameters
    ----------
    data : dict
        From `report_data`.

    Returns
    -------
    html : str
        The page. Its own style and script are the only ones that its policy lets run.
    """
    environment = _environment()
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    script = page_script()
    words = [(place_of(word), word, meaning) for word, meaning in meanings().items()]
    sections = data["sections"]
    charts = draw_all(sections)
    template = environment.get_template("page.html")
    while True:
        embedded = {
            name: plain_data(sections[name], None if name in EXACT else SIGNIFICANT)
            for name in SCRIPTED
            if name in sections
        }
        html = str(
            template.render(
                report=data,
                sections=sections,
                charts=charts,
                words=words,
                style=markup(style),
                script=markup(script),
                policy=policy(style, script),
                embedded=markup(json_for_script(embedded)),
            )
        )
        listed = sections["rows"].get("rows", [])
        if len(html.encode()) <= MOST_BYTES or len(listed) <= 1:
            return html
        # Only the rows to explore grow with what the caller asks for.
        kept = listed[: len(listed) * 2 // 3]
        sections = {**sections, "rows": {**sections["rows"], "rows": kept}}


@cache
def _environment() -> Any:
    """Templates with their filters, compiled once: that is a fifth of a report."""
    jinja2 = optional("jinja2", "report()", "report")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "figure": figure,
        "signed": signed,
        "percent": percent,
        "bar": bar,
        "spark": spark,
        "fifths": fifths,
        "marker": marker,
        "explained": explained,
    }
    environment.globals |= {"count": count, "term": term}
    return environment


def room_for_model(sections: dict[str, Any]) -> int:
    """Bytes that the page has left for a model, beside the sections made so far."""
    # What the script reads stands there once; of the rest the markup is about as long again.
    made = sum(len(json_for_script(plain_data(own, SIGNIFICANT))) for own in sections.values())
    return MOST_BYTES - RESERVED - made - made // 4


def page_script() -> str:
    """The scripts of the page as one: the tools, those of the sections, and what starts them."""
    files = [f"scripts/{name}.js" for name in (*SHARED, *SCRIPTED, "start")]
    body = "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in files)
    return f'"use strict";\n(function () {{\n{body}}})();\n'


def policy(style: str, script: str) -> str:
    """A content security policy: nothing is loaded, and only this style and script are used."""
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def write(html: str, path: Path) -> Path:
    """Write a page so that the old file stays whole until the new one is.

    Parameters
    ----------
    html : str
        The page.
    path : Path
        Where to write. Its folder must exist. A link stays a link, an existing file keeps its
        permissions, and a pipe or a device, such as /dev/stdout, is written into.

    Returns
    -------
    path : Path
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {str(path.parent)!r} to write the report into: make it first."
        )
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder: give the name of a file in it.")
    write_file(path, lambda beside: beside.write_bytes(html.encode()), devices=True)
    return path
