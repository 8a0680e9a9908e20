"""Write a file whole or not at all, without harm to what stands in its place."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Names of this process's own open files: they are written to, and never opened or replaced.
_OPEN_FILE = re.compile(r"/dev/(?:stdin|(stdout)|(stderr))|(?:/dev|/proc/self)/fd/(\d+)")


def write_file(path: Any, write: Callable[[Path], object], *, devices: bool = False) -> None:
    """Let a function write a file beside the target, which takes its place when it is whole.

    A link stays, and what it leads to is replaced. A new file has the permissions of any new
    file, and an existing one keeps its own; one that may not be written is left alone.

    Parameters
    ----------
    path : str or Path
        The target.
    write : callable
        Takes the path of an empty file and fills it.
    devices : bool, default=False
        What to do where the target is not a regular file, such as a pipe or /dev/stdout: write
        into it (True), or refuse (False). It is never replaced.

    Raises
    ------
    OSError
        Where nothing can be written. The old file is still there, whole.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from kpp._atomic import write_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.txt"
    ...     write_file(path, lambda beside: beside.write_text("whole"))
    ...     path.read_text()
    'whole'
    """
    target = Path(os.path.realpath(path))
    if (number := _open_file(path)) is not None or (target.exists() and not target.is_file()):
        if not devices or target.is_dir():
            raise OSError(f"{path} is not a regular file, and is not replaced by one.")
        _write_into(target if number is None else number, write)
        return
    mode = target.stat().st_mode if target.exists() else None
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    beside = target.parent / f".kpp-{secrets.token_hex(8)}.tmp"
    try:
        # Until it has the permissions of the old file, nobody else reads it.
        new = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        os.close(os.open(beside, new, 0o666 if mode is None else 0o600))
        write(beside)
        with open(beside, "rb+") as file:
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(beside, stat.S_IMODE(mode))
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the new name, too, is to survive a loss of power
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _open_file(path: Any) -> int | None:
    """Number of the open file that a path names, None if it names none."""
    match = _OPEN_FILE.fullmatch(os.path.abspath(path)) if os.name == "posix" else None
    if match is None:
        return None
    output, error, number = match.groups()
    return int(number) if number else 1 if output else 2 if error else 0


def _write_into(target: Path | int, write: Callable[[Path], object]) -> None:
    """Write a file, then its content into what is open or can be opened."""
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        whole.touch()
        write(whole)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        # A copy of the descriptor goes on where the others are, a redirected file included.
        with (
            open(whole, "rb") as source,
            open(os.dup(target) if isinstance(target, int) else target, "wb") as sink,
        ):
            shutil.copyfileobj(source, sink)
