"""Runs the tasks of a config in parallel processes, and can be continued after a kill.

Every task is a fresh process: its memory is its own, and it can be stopped. Processes are forked
from a server that has the libraries imported, so that a task does not pay for the imports.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TextIO

from suite.config import Config, Task, read
from suite.datasets import MissingDataError, load
from suite.records import Records, locked, write_csv
from suite.rivals import MissingLibraryError, check, find
from suite.worker import ONE_THREAD, run

POLL = 0.1
# The limit of time is of the processor's time: a task has one thread, and what else the machine
# does shall not decide. A task that waits is stopped after so many times the limit.
PATIENCE = 3.0
CONFIG = "config.toml"


@dataclass
class Running:
    """A task under way."""

    task: Task
    process: Any
    channel: Any
    start: float
    peak: int = 0
    record: dict[str, Any] = field(default_factory=dict)


@dataclass
class Survey:
    """What can run (sizes of sets, versions of libraries) and what cannot, with the reason."""

    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    missing_data: dict[str, str] = field(default_factory=dict)
    missing_methods: dict[str, str] = field(default_factory=dict)


def start(
    config_path: Path,
    folder: Path,
    *,
    data_dir: str | None = None,
    workers: int | None = None,
    retry: bool = False,
    only_sets: list[str] | None = None,
    only_methods: list[str] | None = None,
    out: TextIO = sys.stderr,
) -> int:
    """Run what is not done yet and return how many tasks ran.

    Parameters
    ----------
    config_path : Path
        The config. It is copied to the folder; a folder with another one is refused.
    folder : Path
        Where the results are.
    data_dir : str, optional
        Folder with ``<name>.csv.gz``.
    workers : int, optional
        Number of processes; the config's by default.
    retry : bool
        Whether tasks that failed or were skipped run again. Overruns stay.
    only_sets, only_methods : list of str, optional
        Do these now and leave the rest of the config for another time.
    out : text file
        Where the progress is shown.
    """
    config = read(config_path)
    config = replace(config, workers=workers or config.workers)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        _keep_config(config_path, config, folder)
        survey = take_survey(config, data_dir)
        _describe(survey, out)
        records = Records(folder)
        again = ("failed", "skipped") if retry else ()
        todo = [
            task
            for task in config.work()
            if task.data in survey.sizes
            and task.method in survey.versions
            and (not only_sets or task.data in only_sets)
            and (not only_methods or task.method in only_methods)
            and (task not in records.done or records.done[task]["status"] in again)
        ]
        # Small sets first: the first results come soon, and overruns show before they are many.
        todo.sort(key=lambda task: (task.seed, survey.sizes[task.data][0]))
        if todo or not records.done:
            _write_environment(folder, survey, len(todo))
        ran = _Run(config, records, survey, data_dir, out).all(todo)
        if records.done:
            write_csv(folder)
    return ran


def take_survey(config: Config, data_dir: str | None) -> Survey:
    """Load every set and import every library once, here, and name what is not there."""
    survey = Survey()
    for task, names in config.data.items():
        for name in names:
            try:
                rows, columns = load(name, task, data_dir).X.shape
                survey.sizes[name] = (min(rows, config.n_rows(name) or rows), columns)
            except MissingDataError as error:
                survey.missing_data[name] = str(error)
    for name, about in config.methods.items():
        try:
            survey.versions[name] = check(about.adapter)
        except MissingLibraryError as error:
            survey.missing_methods[name] = str(error)
    return survey


class _Run:
    """The loop: start, watch, collect."""

    def __init__(
        self,
        config: Config,
        records: Records,
        survey: Survey,
        data_dir: str | None,
        out: TextIO,
    ) -> None:
        self.config, self.records, self.survey = config, records, survey
        self.data_dir, self.out = data_dir, out
        self.limit = config.memory_gb * 1e9
        kinds = multiprocessing.get_all_start_methods()
        self.context: Any = multiprocessing.get_context(
            "forkserver" if "forkserver" in kinds else "spawn"
        )
        if self.context.get_start_method() == "forkserver":
            adapters = [find(config.methods[name].adapter) for name in survey.versions]
            modules = {adapter.module for adapter in adapters}
            self.context.set_forkserver_preload(["suite.worker", *sorted(modules)])
        self.begin = time.monotonic()
        self.total = self.finished = 0

    def all(self, todo: list[Task]) -> int:
        """Run all; on an error or an interrupt no process is left behind."""
        os.environ.update(ONE_THREAD)
        self.total = len(todo)
        queue, running = deque(todo), list[Running]()
        try:
            while queue or running:
                while queue and len(running) < self.config.workers:
                    task = queue.popleft()
                    if reason := self._given_up(task):
                        self._record(task, {"status": "skipped", "error": reason})
                    else:
                        running.append(self._start(task))
                wait([r.channel for r in running], timeout=POLL)
                running = [r for r in running if not self._finished(r)]
        finally:
            for one in running:
                one.process.kill()
        return self.finished

    def _given_up(self, task: Task) -> str:
        """Say which overrun makes this task hopeless, if one does."""
        if self.config.give_up == "never":
            return ""
        kind, size = self.config.task_of(task.data), self.survey.sizes[task.data]
        for done, known in self.records.done.items():
            if known["status"] != "overrun" or done.method != task.method:
                continue
            smaller = (
                self.config.give_up == "larger"
                and known["task"] == kind
                and _no_larger(self.survey.sizes.get(done.data), size)
            )
            if done.data == task.data or smaller:
                return f"overran on {done.data}, seed {done.seed}"
        return ""

    def _start(self, task: Task) -> Running:
        # Duplex: a task notices by its end of the channel that the run is gone.
        mine, theirs = self.context.Pipe()
        process = self.context.Process(
            target=_enter, args=(task, self.config, self.data_dir, theirs)
        )
        process.start()
        theirs.close()
        return Running(task, process, mine, time.monotonic())

    def _finished(self, one: Running) -> bool:
        """Take what the task has sent, hold it to its limits, and record it if it is over."""
        over = False
        try:
            while one.channel.poll():
                one.record = one.channel.recv()
        except (EOFError, OSError):
            over = True
        size = resident_bytes(one.process.pid)
        one.peak = max(one.peak, size)
        seconds = time.monotonic() - one.start
        busy = max(cpu_seconds(one.process.pid), seconds / PATIENCE)
        stopped = None
        if not over and busy > self.config.seconds:
            stopped = f"time: more than {self.config.seconds:g} s"
        elif not over and size > self.limit:
            stopped = f"memory: more than {self.config.memory_gb:g} GB"
        if not over and stopped is None:
            return False
        if stopped:
            one.process.kill()
        one.process.join()
        record = one.record
        if stopped and record:
            record |= {"extras": f"overrun, {stopped}"}  # the figures themselves were complete
        elif stopped:
            record = {"status": "overrun", "error": stopped}
        elif not record:
            code = one.process.exitcode
            record = {"status": "failed", "error": f"the process ended with code {code}"}
        measured = {"total_s": seconds, "peak_mb": one.peak / 1e6}
        self._record(one.task, record | measured)
        one.channel.close()
        one.process.close()
        return True

    def _record(self, task: Task, record: dict[str, Any]) -> None:
        kind = self.config.task_of(task.data)
        self.records.append({"task": kind, **task._asdict(), **record})
        self.finished += 1
        spent = time.monotonic() - self.begin
        left = spent / self.finished * (self.total - self.finished)
        said = f"{record['fit_s']:.1f} s" if record["status"] == "ok" else record["error"]
        print(
            f"[{self.finished}/{self.total}] {task.data} | {task.method} | {task.seed} | "
            f"{record['status']} {said} (about {left / 60:.0f} min left)",
            file=self.out,
            flush=True,
        )


def _no_larger(size: tuple[int, int] | None, other: tuple[int, int]) -> bool:
    return size is not None and size[0] <= other[0] and size[1] <= other[1]


def _enter(task: Task, config: Config, data_dir: str | None, channel: Any) -> None:
    """First line of a task's process."""
    run(task, config, data_dir, channel)


def resident_bytes(pid: int) -> int:
    """Resident size of a process now; 0 where it cannot be read or the process is gone."""
    try:
        if Path("/proc/self/statm").exists():
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")
        shown = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True
        )
        return 1024 * int(shown.stdout)
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return 0


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far; 0 where it cannot be read or the process is gone."""
    try:
        # After the name, which may hold anything up to the last bracket: state is field 3, the
        # user's and the system's ticks are fields 14 and 15.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def _keep_config(path: Path, config: Config, folder: Path) -> None:
    kept = folder / CONFIG
    if not kept.exists():
        shutil.copyfile(path, kept)
    elif different := config.difference(read(kept)):
        raise ValueError(
            f"{kept} differs from {path} in {', '.join(different)}: results of two runs would be "
            "mixed. Use another folder."
        )


def _describe(survey: Survey, out: TextIO) -> None:
    both = (("data set", survey.missing_data), ("method", survey.missing_methods))
    for kind, named in both:
        for name, reason in named.items():
            print(f"missing {kind} {name}: {reason}; the rest runs", file=out, flush=True)


def _write_environment(folder: Path, survey: Survey, n_tasks: int) -> None:
    """Append what ran where: one entry a start that had work to do."""
    path = folder / "environment.json"
    starts = json.loads(path.read_text()) if path.exists() else []
    starts.append(
        {
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "tasks": n_tasks,
            "cores": os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "versions": survey.versions,
            "missing_data": survey.missing_data,
            "missing_methods": survey.missing_methods,
        }
    )
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(starts, indent=1) + "\n")
    fresh.replace(path)
