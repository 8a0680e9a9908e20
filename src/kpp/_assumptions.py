"""`Assumption`: one condition of a guarantee, whether it holds, and why."""

from __future__ import annotations

from dataclasses import dataclass

from kpp._shown import Shown


@dataclass(frozen=True)
class Assumption(Shown):
    """One condition of a bound, or of another guarantee.

    Parameters
    ----------
    name : str
        The condition.
    holds : bool or None
        True or False where this can be read from the model and the call; None where only the
        caller can know, and it is taken on trust.
    why : str
        The reason.
    """

    name: str
    holds: bool | None
    why: str

    @property
    def word(self) -> str:
        """Holds, FAILS or trusted."""
        return {True: "holds", False: "FAILS", None: "trusted"}[self.holds]

    def __str__(self) -> str:
        return f"{self.word:7} {self.name}: {self.why}"
