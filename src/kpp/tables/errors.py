"""Errors that are the user's to mend: said in a line or two, without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

LISTED = 8


class UserError(Exception):
    """What was expected, what came, and what to do."""


def listed(names: Sequence[object], most: int = LISTED) -> str:
    """Names in quotes, not too many of them.

    Examples
    --------
    >>> from kpp.tables.errors import listed
    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def near(name: str, names: Sequence[object]) -> str:
    """Say which names are meant, perhaps, or which there are.

    Examples
    --------
    >>> from kpp.tables.errors import near
    >>> near("pirce", ["price", "size"])
    "Did you mean 'price'?"
    """
    texts = [str(other) for other in names]
    folded = {text.casefold().strip(): text for text in texts}
    close = difflib.get_close_matches(name.casefold().strip(), list(folded), n=3, cutoff=0.6)
    if close:
        return f"Did you mean {' or '.join(repr(folded[key]) for key in close)}?"
    return f"There are: {listed(texts)}." if texts else "There are none."


def check_columns(given: Sequence[str], names: Sequence[object], option: str, where: str) -> None:
    """Refuse names of columns that a table does not have."""
    known = {str(name) for name in names}
    for name in given:
        if name not in known:
            raise UserError(f"{where} has no column '{name}' ({option}). {near(name, names)}")
