"""Ctrl-C, at any moment of the command: one line and the exit code 130, never a traceback.

Where an import is under way, the process ends at once: an interruption that is raised there can be
turned into another error by compiled modules, or get lost, and there is nothing yet to clean up.
Anywhere else it is raised, so that bars are taken away and unfinished files are deleted; a second
one does not wait for that.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # what only checkers need would make the start longer
    from types import FrameType
    from typing import Any, NoReturn

INTERRUPTED = 130
LINE = "kpp: interrupted."
_IMPORTING = "<frozen importlib._bootstrap>"

_arrived = False


def answer_interrupts() -> None:
    """Answer Ctrl-C from now on, for the whole process."""
    try:
        # As a job in the background it may have been told to let them pass.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, _answer)
    except ValueError:  # not in the main thread, where no signals arrive
        return
    sys.unraisablehook = _unraisable


def arrived() -> bool:
    """Whether there was a Ctrl-C since `answer_interrupts`, whatever became of it."""
    return _arrived


def end_on_interrupts() -> None:
    """End at once from now on: nothing is left to do but what the interpreter does at its end."""
    if signal.getsignal(signal.SIGINT) is _answer:
        signal.signal(signal.SIGINT, _end)


def end(line: str = "") -> NoReturn:
    """End the process with the exit code of an interruption, without waiting for threads.

    Parameters
    ----------
    line : str
        What to say on standard error; by default nothing more.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed, not there, or in the middle of writing
            continue
    if line:
        try:
            # A bar hides the cursor of a terminal.
            shown = "\r\x1b[K\x1b[?25h" if os.name != "nt" and os.isatty(2) else ""
            os.write(2, f"{shown}{line}\n".encode())
        except OSError:
            pass
    os._exit(INTERRUPTED)


def _answer(number: int, frame: FrameType | None) -> None:
    global _arrived
    _arrived = True
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            end(LINE)
        frame = frame.f_back
    signal.signal(signal.SIGINT, _end)
    raise KeyboardInterrupt


def _end(number: int, frame: FrameType | None) -> None:
    end(LINE)


def _unraisable(lost: Any) -> None:
    """An interruption that was raised where Python drops errors must not be dropped."""
    if lost.exc_type is KeyboardInterrupt:
        end(LINE)
    sys.__unraisablehook__(lost)
