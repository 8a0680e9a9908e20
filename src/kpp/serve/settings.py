"""What a service was asked for; the names are those of the options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"
TOKEN_VARIABLE = "KPP_SERVE_TOKEN"


@dataclass(frozen=True)
class Settings:
    """Settings of a service; plain data, so that every worker gets the same.

    Parameters
    ----------
    model : Path
        File of the model, read again on SIGHUP.
    report : Path, optional
        A page of `kpp report`, shown under ``/report``.
    host : str
        Address to bind to: only this machine by default.
    port : int
        Port; 0 takes a free one.
    workers : int
        Processes that answer.
    token : str, optional
        What ``Authorization: Bearer`` must hold; everybody may ask where there is none.
    max_bytes, max_rows : int
        Most bytes of a body, and rows in it.
    max_slow_rows : int
        Most rows of a question that takes long: explanations, rules, certificates.
    threads, slow_threads : int
        Questions that one worker answers at a time: quick ones, and those that take long.
    queue, slow_queue : int
        How many of each may wait for their turn; more are refused.
    seconds : float
        Longest time from a question's body to its answer.
    body_seconds : float
        Longest time for the head, and then for the body, of a request to arrive.
    stop_seconds : float
        Longest time that a stop waits for what is under way.
    shared : str, optional
        Folder where several workers keep their counters.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kpp.serve import Settings
    >>> Settings(Path("model.kpp")).host
    '127.0.0.1'
    """

    model: Path
    report: Path | None = None
    host: str = LOOPBACK
    port: int = 8000
    workers: int = 1
    token: str | None = None
    max_bytes: int = 16 * 2**20
    max_rows: int = 100_000
    max_slow_rows: int = 1_000
    threads: int = 2
    slow_threads: int = 1
    queue: int = 256
    slow_queue: int = 16
    seconds: float = 30.0
    body_seconds: float = 20.0
    stop_seconds: float = 30.0
    shared: str | None = None
