"""The table of results: lines of JSON, only ever appended to, and a CSV made from them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from suite.config import Task

RESULTS = "results.jsonl"
# Columns of the CSV that come first; long texts stay in the lines.
FIRST = ["task", "data", "method", "seed", "status"]
LONG = ["trace", "warnings"]


class Records:
    """The results of a run, in a folder.

    A line is written whole, flushed and synchronised before the task counts as done. A line that a
    kill has cut short is removed when the folder is opened again, and its task runs again. Of
    several lines of one task the last counts (a failure that was tried again).
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS
        self.done: dict[Task, dict[str, Any]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            _cut_broken_end(self.path)
            for record in read_records(self.path):
                self.done[task_of(record)] = record

    def append(self, record: dict[str, Any]) -> None:
        """Add one record."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.done[task_of(record)] = record


def task_of(record: dict[str, Any]) -> Task:
    """Which task a record is of."""
    return Task(record["data"], record["method"], record["seed"])


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """All whole lines."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def table(folder: Path) -> Any:
    """The results as a data frame, one row a task."""
    latest = {task_of(record): record for record in read_records(folder / RESULTS)}
    frame = pd.DataFrame(list(latest.values()))
    rest = [column for column in frame.columns if column not in FIRST]
    return frame[FIRST + rest].sort_values(FIRST[:4], ignore_index=True)


def write_csv(folder: Path) -> Path:
    """Write ``results.csv`` beside the lines."""
    path = folder / "results.csv"
    table(folder).drop(columns=LONG, errors="ignore").to_csv(path, index=False)
    return path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second run out of the folder; the lock goes with the process, even if killed."""
    try:
        import fcntl
    except ImportError:  # Windows: two runs in one folder are the user's affair
        yield
        return
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RuntimeError(f"Another run is at work in {folder}.") from error
        yield


def _cut_broken_end(path: Path) -> None:
    with path.open("rb+") as file:
        content = file.read()
        end = content.rfind(b"\n") + 1
        if end < len(content):
            file.truncate(end)
