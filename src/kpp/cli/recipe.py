"""How a report is made again: the command as it was given, and what it read."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kpp.tables.reading import TableFile


def recipe_of(arguments: Sequence[str], *paths: str | Path | None) -> dict[str, Any]:
    """The command line, ready to be pasted, and the sha256 of every input.

    Folders are nobody's business who reads a report: files stand without them, and the command is
    one for the folder that holds the files.

    Parameters
    ----------
    arguments : sequence of str
        Those of the command, as they were given.
    *paths : str, Path or None
        Names of files among them: the table, a table of test rows, a model, and what is written.

    Returns
    -------
    recipe : dict
        "command" and "inputs", each of these with "name", "what" and "sha256".

    Examples
    --------
    >>> from kpp.cli.recipe import recipe_of
    >>> recipe_of(["report", "iris", "--out=/home/my iris.html"], "/home/my iris.html")
    {'command': "kpp report iris '--out=my iris.html'", 'inputs': []}
    """
    known = {str(path) for path in paths if path is not None and str(path) != "-"}
    words = []
    for word in arguments:
        option, equals, value = word.partition("=")
        if word in known:
            word = _here(word)
        elif equals and option.startswith("--") and value in known:
            word = f"{option}={_here(value)}"
        words.append(word)
    return {"command": shlex.join(["kpp", *words]), "inputs": []}


def _here(path: str) -> str:
    name = Path(path).name
    # A name that begins like an option would be taken for one.
    return f"./{name}" if name.startswith("-") else name


def input_of(source: TableFile | Path, what: str) -> dict[str, str | None]:
    """What was read: its name, and its sha256, that of the rows as CSV where there is no file."""
    if isinstance(source, TableFile) and source.path is None:
        if not source.is_built_in:
            return {"name": "standard input", "what": what, "sha256": None}
        text = source.read().to_csv(index=False).encode()
        built_in = f"{source.name} (built in; its rows as CSV)"
        return {"name": built_in, "what": what, "sha256": hashlib.sha256(text).hexdigest()}
    path = source if isinstance(source, Path) else source.path
    assert path is not None
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "what": what, "sha256": found}
