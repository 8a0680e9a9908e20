"""What the command prints: results on standard output, everything else on standard error.

Names and values come from anybody's file. They are printed as they are, never read as markup, and
control characters (which could move the cursor or rewrite the screen) are shown as escapes.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

# On narrower terminals numbers are folded too, so that nothing is lost.
NARROW = 60
# Control, format (direction marks among them), surrogate, private use, unassigned.
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def clean(text: Any, most: int | None = None) -> str:
    r"""Text that is safe on a terminal, on one line, and not too long.

    Examples
    --------
    >>> from kpp.cli.console import clean
    >>> print(clean("a\x1b[31m\nb"))
    a\x1b[31m\nb
    """
    shown = "".join(
        c if unicodedata.category(c) not in HIDDEN else c.encode("unicode_escape").decode()
        for c in str(text)
    )
    return shown if most is None or len(shown) <= most else f"{shown[: most - 1]}…"


class Terminal:
    """Where a command writes.

    Parameters
    ----------
    json : bool
        Whether the result is wanted as JSON: then nothing else goes to standard output.
    quiet : bool
        Whether notes are left out; warnings stay.
    """

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        plain: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False}
        self.out = Console(file=sys.stdout, soft_wrap=False, **plain)
        self.err = Console(file=sys.stderr, soft_wrap=True, **plain)

    def note(self, text: str) -> None:
        """Say something that is good to know."""
        if not self.quiet:
            self.err.print(Text(clean(text), style="dim"))

    def warn(self, text: str) -> None:
        """Say something that the user ought to look at."""
        self.err.print(Text.assemble(("warning: ", "yellow"), clean(text)))

    def result(self, data: dict[str, Any]) -> None:
        """Print a result as JSON."""
        from kpp.tables.plain import plain_data  # NumPy, which the help can do without

        sys.stdout.write(json.dumps(plain_data(data), indent=2, ensure_ascii=False) + "\n")

    def heading(self, text: str) -> None:
        """Print a heading."""
        self.out.print(Text(clean(text), style="bold"))

    def line(self, text: str = "") -> None:
        """Print a line, wrapped."""
        self.out.print(Text(clean(text)))

    def facts(self, pairs: Iterable[tuple[str, Any]]) -> None:
        """Print names and what they stand for, side by side."""
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, style="bold")
        table.add_column(overflow="fold")
        for name, value in pairs:
            table.add_row(Text(clean(name)), Text(clean(value)))
        self.out.print(table)

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[int] = ()
    ) -> None:
        """Print a table; `right` are the columns of numbers."""
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for k, name in enumerate(columns):
            table.add_column(
                Text(clean(name)),
                justify="right" if k in right else "left",
                no_wrap=k in right and self.out.width >= NARROW,
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(Text(clean(cell)) for cell in row))
        self.out.print(table)

    @property
    def shows_progress(self) -> bool:
        """Whether bars are drawn: on a terminal only."""
        return bool(self.err.is_terminal) and sys.stderr.isatty() and not (self.quiet or self.json)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Show that something is going on, where a terminal is there to show it."""
        if not self.shows_progress:
            yield
            return
        with self.err.status(Text(clean(text))):
            yield

    @contextmanager
    def bar(self, text: str) -> Iterator[Any]:
        """Give a function of (done, total) that draws a bar; None without a terminal."""
        if not self.shows_progress:
            yield None
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=self.err, transient=True) as progress:
            task = progress.add_task(clean(text), total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)
