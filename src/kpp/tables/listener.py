"""Who is told what happens to a table on its way."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Listener(Protocol):
    """Takes remarks: a terminal prints them, a service would send them along."""

    @property
    def shows_progress(self) -> bool:
        """Whether somebody watches."""

    def note(self, text: str) -> None:
        """Take what is good to know."""

    def warn(self, text: str) -> None:
        """Take what the user ought to look at."""

    def working(self, text: str) -> AbstractContextManager[None]:
        """Show, while this is entered, that something is going on."""
