"""Progress of long work: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

BAR_WIDTH = 30


class Progress:
    """Tell how far a piece of work is.

    Parameters
    ----------
    verbose : int
        0: say nothing. 1: a bar that is drawn anew on a terminal; elsewhere a line when a phase
        is done. 2: a line for every step.
    stream : text stream, optional
        Where to write; standard error by default.

    Examples
    --------
    >>> import sys
    >>> from kpp._progress import Progress
    >>> progress = Progress(2, sys.stdout)
    >>> progress("growing trees", 1, 2)  # doctest: +ELLIPSIS
    kpp: growing trees, 1 of 2, ... s
    """

    def __init__(self, verbose: int, stream: TextIO | None = None) -> None:
        self._verbose = int(verbose)
        self._stream = sys.stderr if stream is None else stream
        self._bar = self._verbose == 1 and self._stream.isatty()
        self._phase: str | None = None
        self._start = 0.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Report that `done` of `total` steps of a phase are done."""
        if self._verbose <= 0:
            return
        if phase != self._phase:
            self._phase, self._start = phase, time.perf_counter()
        seconds = time.perf_counter() - self._start
        if self._bar:
            filled = "#" * (BAR_WIDTH * done // total)
            line = f"\r\x1b[Kkpp: {phase} [{filled:<{BAR_WIDTH}}] {done}/{total} {seconds:.1f} s"
            self._stream.write(line + "\n" * (done == total))
        elif done == total or (self._verbose > 1 and done):
            self._stream.write(f"kpp: {phase}, {done} of {total}, {seconds:.1f} s\n")
        self._stream.flush()
