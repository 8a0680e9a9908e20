"""Texts and values from anybody's file, made safe to show and to embed.

Four things stand between a column name and the page: `shown` takes out what cannot be shown or
would turn the text around it; jinja2's autoescape writes it into HTML and SVG; `json_for_script`
writes it into the data block; and the script puts it into the page as text, never as markup.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from typing import Any

LONGEST_TEXT = 80
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Controls, lone surrogates, unassigned and private characters, line and paragraph separators.
_UNSHOWN = {"Cc", "Cs", "Cn", "Co", "Zl", "Zp"}
# Format characters that make letters and emoji of several characters.
_JOINERS = {"\u200c", "\u200d"}


def shown(value: Any, longest: int = LONGEST_TEXT) -> str:
    r"""Return any value as one short line of text that cannot disturb its surroundings.

    Characters that turn the direction of the text around them, or are not shown at all, become
    the replacement character; white space becomes a space; long texts are cut in the middle.

    Examples
    --------
    >>> from kpp.reports.escaping import shown
    >>> shown("a\nb"), shown(""), shown(7)
    ('a b', '(empty)', '7')
    """
    text = value if isinstance(value, str) else str(value)
    # What is cut away anyway is not looked at: a value may be a whole book.
    if len(text) > 4 * longest:
        text = text[: 2 * longest] + text[-2 * longest :]
    text = " ".join("".join(_character(c) for c in text).split())
    if len(text) > longest:
        half = (longest - 1) // 2
        text = f"{text[: longest - 1 - half]}…{text[-half:]}"
    return text or "(empty)"


def _character(c: str) -> str:
    if c.isspace():
        return " "
    category = unicodedata.category(c)
    if category in _UNSHOWN or (category == "Cf" and c not in _JOINERS):
        return REPLACEMENT
    return c


def distinct(names: Iterable[Any]) -> list[str]:
    """Return names as `shown`, with a number where two have become the same.

    Examples
    --------
    >>> from kpp.reports.escaping import distinct
    >>> distinct(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    taken: set[str] = set()
    found = []
    for name in names:
        text = base = shown(name)
        number = 1
        while text in taken:
            number += 1
            text = f"{base} ({number})"
        taken.add(text)
        found.append(text)
    return found


def json_for_script(data: Any) -> str:
    r"""Write data as JSON that is safe between the tags of a script element.

    ``<``, ``>`` and ``&`` are written as escapes, so that no ``</script>``, ``<!--`` or ``]]>`` can
    end or open anything, and so are the two line separators that are no white space in JSON.

    Examples
    --------
    >>> from kpp.reports.escaping import json_for_script
    >>> json_for_script("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for c in "<>&\u2028\u2029":
        text = text.replace(c, f"\\u{ord(c):04x}")
    return text
