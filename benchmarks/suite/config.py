"""The description of a run: one TOML file, kept beside its results."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from suite.datasets import TASKS

# What may be changed between a run and its continuation: it does not touch any result.
FREE = ("workers", "report")
GIVE_UP = ("larger", "seeds", "never")


class Task(NamedTuple):
    """One unit of work."""

    data: str
    method: str
    seed: int


@dataclass(frozen=True)
class Method:
    """A method of a run: an adapter, by name or as ``module:function``, and its parameters."""

    adapter: str
    params: dict[str, Any] = field(default_factory=dict)
    tasks: tuple[str, ...] = TASKS


@dataclass(frozen=True)
class Config:
    """A run.

    Parameters
    ----------
    name : str
        Title of its pages.
    data : dict of str to list of str
        Names of sets by task.
    methods : dict of str to Method
        The methods.
    seeds : list of int
        Seeds of the split and of the method.
    test_size : float
        Share of test rows.
    max_rows : int, optional
        Larger sets are drawn down to this many rows.
    rows : dict of str to int
        Other numbers of rows, by set.
    seconds, memory_gb : float
        Limits of a task, of processor time and of resident memory; beyond them it is stopped and
        recorded as an overrun.
    give_up : {"larger", "seeds", "never"}
        What is recorded as "skipped" without running once a method overran on a set: its other
        seeds there; for "larger" also the sets of the same task with at least as many rows and
        columns.
    workers : int
        Number of processes. Each has one thread.
    report : dict
        What the pages show: ``kpp`` lists the entries of which each ranking holds one, ``shown``
        those of the results page, ``rival`` the method that is drawn set by set, ``seen`` the sets
        that earlier experiments had touched, ``seeds`` those that are shown if not all; for
        ablations ``default``, the method that every other is compared with, and ``groups`` of them
        by what they change.
    """

    name: str
    data: dict[str, list[str]]
    methods: dict[str, Method]
    seeds: list[int]
    test_size: float = 0.2
    max_rows: int | None = None
    rows: dict[str, int] = field(default_factory=dict)
    seconds: float = 600.0
    memory_gb: float = 6.0
    give_up: str = "larger"
    workers: int = 2
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def shown_seeds(self) -> list[int]:
        """Seeds that the pages show: all, unless ``report`` names some."""
        return list(self.report.get("seeds", self.seeds))

    def task_of(self, name: str) -> str:
        """Task of a data set."""
        return next(task for task, names in self.data.items() if name in names)

    def n_rows(self, name: str) -> int | None:
        """How many rows of a set are used at most."""
        return self.rows.get(name, self.max_rows)

    def work(self) -> list[Task]:
        """All units of work, seed by seed: a run that is stopped early has all sets."""
        return [
            Task(name, method, seed)
            for seed in self.seeds
            for task, names in self.data.items()
            for name in names
            for method, about in self.methods.items()
            if task in about.tasks
        ]

    def difference(self, other: Config) -> list[str]:
        """Fields that differ and matter to results."""
        mine, others = asdict(self), asdict(other)
        return [key for key in mine if key not in FREE and mine[key] != others[key]]


def read(path: Path) -> Config:
    """Read a config; errors name the file and the field."""
    known = tomllib.loads(path.read_text())
    methods = {}
    for name, about in known.pop("methods", {}).items():
        adapter, tasks = about.pop("adapter", name), tuple(about.pop("tasks", TASKS))
        methods[name] = Method(adapter, about, tasks)
    try:
        config = Config(**known, methods=methods)
    except TypeError as error:
        raise ValueError(f"{path}: {error}") from error
    wrong = [task for task in config.data if task not in TASKS]
    if wrong or not config.data:
        raise ValueError(f"{path}: [data] has lists by task ({', '.join(TASKS)}); got {wrong}")
    names = [name for listed in config.data.values() for name in listed]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"{path}: listed twice: {', '.join(sorted(twice))}")
    if config.give_up not in GIVE_UP:
        raise ValueError(f"{path}: give_up is one of {', '.join(GIVE_UP)}; got {config.give_up}")
    if not methods or not config.seeds:
        raise ValueError(f"{path}: needs at least one seed and one [methods.NAME]")
    return config
