"""Which fields objects have in a file, since which format, and what stands for missing ones.

A file is of one format, the number in its first bytes. A field that came later is not in older
files: its default stands for it, or the decoder of the kind rebuilds it. Nothing is ignored: a
field that this package does not know could be one that predictions depend on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kpp.io.errors import FileFormatError

REQUIRED: Any = object()


@dataclass(frozen=True)
class Field:
    """One field of a kind of object.

    Parameters
    ----------
    since : int
        The format that brought it. An older file must not have it.
    default : value, optional
        What stands for it where it is missing; without one it must be there. A field that came
        later has one, so that older files load.
    inside : table of fields, optional
        For a dict with fields of its own, or a list of such dicts; None may stand for each.
    """

    since: int = 1
    default: Any = REQUIRED
    inside: FieldTable | None = None


FieldTable = dict[str, Field]


def required(*names: str) -> FieldTable:
    """Return fields of the first format, which are never missing."""
    return {name: Field() for name in names}


def complete(fields: Any, table: FieldTable, version: int, kind: str) -> dict[str, Any]:
    """Put defaults for missing fields; refuse what a format does not have, or must have.

    Parameters
    ----------
    fields : dict
        As the file has them.
    table : dict of str to Field
        Those of the kind.
    version : int
        The file's format.
    kind : str
        For errors.

    Returns
    -------
    fields : dict
        All of the table.

    Examples
    --------
    >>> from kpp.io.schema import Field, complete, required
    >>> table = required("forest") | {"colour": Field(since=2, default="green")}
    >>> complete({"forest": "oak"}, table, 1, "Wood")
    {'forest': 'oak', 'colour': 'green'}
    """
    if not isinstance(fields, dict):
        raise FileFormatError(f"{kind} must have fields by name.")
    # A field of a later format in an older file is as unknown as any other: nobody wrote it.
    known = {name for name, field in table.items() if field.since <= version}
    missing = sorted(n for n in known - fields.keys() if table[n].default is REQUIRED)
    unknown = sorted(str(name)[:50] for name in fields.keys() - known)
    if missing or unknown:
        raise FileFormatError(
            f"{kind}: missing fields {missing}, unknown fields {unknown[:10]} in a file of format "
            f"{version}."
        )
    result = {}
    for name, field in table.items():
        value = fields.get(name, field.default)
        if field.inside is not None:
            several = isinstance(value, list)
            parts = [
                None if part is None else complete(part, field.inside, version, f"{kind}.{name}")
                for part in (value if several else [value])
            ]
            value = parts if several else parts[0]
        result[name] = value
    return result
