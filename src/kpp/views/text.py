"""The same pictures as plain text, for ``print``: a title and small tables, at most 15 lines."""

from __future__ import annotations

import textwrap
from html.parser import HTMLParser

MOST_LINES = 15
WIDTH = 100
LONGEST_CELL = 60


class _Reader(HTMLParser):
    """Titles, notes and tables of a card, in their order."""

    def __init__(self, card: str) -> None:
        super().__init__()
        self.parts: list[str | list[list[tuple[str, bool]]]] = []
        self._open: list[str] = []
        self._is_number = False
        self.feed(card)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open.append(tag)
        if tag == "table":
            self.parts.append([])
        elif tag == "tr" and isinstance(self.parts[-1], list):
            self.parts[-1].append([])
        elif tag in ("td", "th") and isinstance(self.parts[-1], list):
            self.parts[-1][-1].append(("", ("class", "kpp-number") in attrs))
        elif tag in ("p", "caption"):
            self.parts.insert(len(self.parts) - (tag == "caption"), "")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        last = self.parts[-1] if self.parts else None
        if inside in ("td", "th") and isinstance(last, list) and last and last[-1]:
            text, is_number = last[-1][-1]
            last[-1][-1] = (text + data, is_number)
        elif inside == "p" and isinstance(last, str):
            self.parts[-1] = last + data
        elif inside == "caption" and len(self.parts) > 1:
            self.parts[-2] = f"{self.parts[-2]}{data}"


def plain(card: str) -> str:
    """Write a card as text.

    Parameters
    ----------
    card : str
        HTML, from `kpp.views.html.card`.

    Returns
    -------
    text : str
        At most 15 lines: tables are cut first, then notes.

    Examples
    --------
    >>> from kpp.views.html import card, facts
    >>> from kpp.views.text import plain
    >>> print(plain(card("Fit", facts({"rows": 1200, "alpha": 0.5}))))
    Fit
    rows   1,200
    alpha  0.5
    """
    parts = _Reader(card).parts
    tables = [_aligned(part) for part in parts if isinstance(part, list)]
    notes = [textwrap.shorten(part, 2 * WIDTH) for part in parts[1:] if isinstance(part, str)]
    title = [parts[0]] if parts and isinstance(parts[0], str) else []
    room = MOST_LINES - len(title) - (1 if notes else 0)
    lines: list[str] = []
    for number, table in enumerate(tables):
        left = sum(min(3, len(other)) for other in tables[number + 1 :])
        kept = table[: max(1, room - len(lines) - left)]
        if len(kept) < len(table):
            kept[-1] = f"... ({len(table) - len(kept) + 1} more)"
        lines += kept
    told = [line for note in notes for line in textwrap.wrap(note, WIDTH)]
    return "\n".join([*title, *lines, *told[: max(0, MOST_LINES - len(title) - len(lines))]])


def _aligned(rows: list[list[tuple[str, bool]]]) -> list[str]:
    """Lines of a table: numbers to the right, texts to the left; columns of bars are left out."""
    n_columns = max((len(row) for row in rows), default=0)
    cells = [[_cut(text) for text, _ in row] + [""] * (n_columns - len(row)) for row in rows]
    kept = [k for k in range(n_columns) if any(row[k] for row in cells)]
    widths = {k: max(len(row[k]) for row in cells) for k in kept}
    numbers = {k: any(len(row) > k and row[k][1] for row in rows) for k in kept}
    return [
        "  ".join(
            row[k].rjust(widths[k]) if numbers[k] else row[k].ljust(widths[k]) for k in kept
        ).rstrip()
        for row in cells
    ]


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"
