"""`Session`: graphs of tasks on a Dask cluster, and what is left when something goes wrong."""

from __future__ import annotations

import uuid
import warnings
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from distributed import Client, Future, default_client
from distributed.comm import CommClosedError

from kpp.dask.specs import Task, TaskRef, graph_of

# How many results one task of a reduction takes.
FAN_IN = 8


class Result:
    """The result of a task, on a worker; let go with this object.

    Parameters
    ----------
    key : str
        Name of the task.
    future : Future, optional
        Dask's own, where the task is known to the scheduler.
    """

    __slots__ = ("__weakref__", "future", "key")

    def __init__(self, key: str, future: Future | None = None) -> None:
        self.key, self.future = key, future


class Session:
    """One fit on a cluster: its tasks have a name of their own, and go when it goes.

    Whatever stays on the workers is the result of tasks whose inputs the scheduler knows, down to
    the rows themselves. So a worker that dies takes nothing with it that cannot be made again.

    Parameters
    ----------
    client : distributed.Client, optional
        The connection; the current one by default.
    """

    def __init__(self, client: Client | None = None) -> None:
        self.client = current_client() if client is None else client
        self._name = f"kpp-{uuid.uuid4().hex[:12]}"
        self._count = 0
        self._futures: WeakValueDictionary[str, Future] = WeakValueDictionary()
        self._waiting: dict[str, Task] = {}
        self._unsent: WeakValueDictionary[str, Result] = WeakValueDictionary()
        self._held: list[Result] = []

    def key(self, what: str, *place: int) -> str:
        """A new name for a task; the dashboard puts tasks together by `what`."""
        self._count += 1
        where = "".join(f"-{k}" for k in place)
        return f"kpp_{what}-{self._name}-{self._count}{where}"

    def run(self, tasks: dict[str, Task], wanted: Sequence[str]) -> list[Result]:
        """Write down tasks; they start when something is asked for.

        All that was written down between two questions travels as one graph: a round trip to the
        scheduler costs as much as many tasks.

        Parameters
        ----------
        tasks : dict of str to Task
            By name.
        wanted : sequence of str
            Those whose results are kept on the workers, as long as somebody holds them here.

        Returns
        -------
        results : list of Result
        """
        self._waiting |= tasks
        found = [Result(key) for key in wanted]
        self._unsent.update((result.key, result) for result in found)
        return found

    def each(self, what: str, function: Callable[..., Any], *columns: Any) -> list[Result]:
        """Run a function once for each place of the columns; what is no list is for all of them."""
        length = max(len(column) for column in columns if isinstance(column, list))
        start, tasks = self.key(what), {}
        for k in range(length):
            key = f"{start}-{k}"
            args = [column[k] if isinstance(column, list) else column for column in columns]
            tasks[key] = self.task(key, function, *args)
        return self.run(tasks, list(tasks))

    def task(self, key: str, function: Callable[..., Any], *args: Any) -> Task:
        """A task; those of its arguments that are results, or `TaskRef`, are awaited."""
        known = []
        for arg in args:
            if isinstance(arg, Result):
                # They must not be let go before the scheduler has heard of this task.
                self._held.append(arg)
                known.append(TaskRef(arg.key))
            else:
                known.append(arg)
        return Task(key, function, *known)

    def keep(self, what: str, value: Any) -> Result:
        """Put a value on the workers, such that the scheduler can put it there again."""
        key = self.key(what)
        return self.run({key: self.task(key, same, value)}, [key])[0]

    def adopt(self, futures: Sequence[Future]) -> list[Result]:
        """Take futures that were started otherwise."""
        self._futures.update((future.key, future) for future in futures)
        return [Result(future.key, future) for future in futures]

    def send(self) -> None:
        """Start what is written down, as far as somebody holds its results."""
        wanted = dict(self._unsent)
        tasks, waiting = {}, list(wanted)
        while waiting:
            key = waiting.pop()
            if key in self._waiting and key not in tasks:
                tasks[key] = self._waiting[key]
                waiting += tasks[key].dependencies
        self._waiting.clear()
        self._unsent.clear()
        if not tasks:
            return
        with self.watched(), warnings.catch_warnings():
            # Trees travel once, within a graph: the scheduler must know them to make them again.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            found = self.client.get(graph_of(tasks), list(wanted), sync=False)
        for future in found:
            wanted[future.key].future = self._futures[future.key] = future

    def tree(
        self,
        tasks: dict[str, Task],
        names: Sequence[Any],
        combine: Callable[..., Any],
        what: str = "sum",
    ) -> str:
        """Add the tasks of a reduction to a graph, in a fixed order; return the name of the last.

        Parameters
        ----------
        tasks : dict of str to Task
            The graph.
        names : sequence of str or Future
            What is to be reduced.
        combine : callable
            Of up to `FAN_IN` results; of one, too.
        what : str
            For the dashboard.
        """
        level = list(names)
        while True:
            parts = [level[k : k + FAN_IN] for k in range(0, len(level), FAN_IN)]
            level = []
            for part in parts:
                key = self.key(what)
                tasks[key] = self.task(key, combine, *(_reference(name) for name in part))
                level.append(key)
            if len(level) == 1:
                return str(level[0])

    def gather(self, results: Any) -> Any:
        """Wait for results, one or a list, and bring them here."""
        self.send()
        one = isinstance(results, Result)
        with self.watched():
            found = self.client.gather([r.future for r in ([results] if one else results)])
        self._held.clear()
        return found[0] if one else found

    def futures(self, results: list[Result]) -> list[Future]:
        """The futures of results, started."""
        self.send()
        return [result.future for result in results]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Say what it means when the scheduler does not answer any more."""
        try:
            yield
        except (CancelledError, CommClosedError, OSError, TimeoutError) as error:
            if is_connected(self.client) and not isinstance(error, CommClosedError | OSError):
                raise
            raise ConnectionError(
                "The Dask scheduler went away in the middle of the work. Nothing was kept of it: "
                "start the cluster anew, and fit again."
            ) from error
        except Exception as error:
            # The client's own name for it has moved between versions.
            if is_connected(self.client):
                raise
            raise ConnectionError(
                "The connection to the Dask scheduler is closed. Nothing was kept of the work: "
                "connect anew, and fit again."
            ) from error

    def close(self) -> None:
        """Leave no task behind: those that run or wait are cancelled, results are let go."""
        left = list(self._futures.values())
        self._futures.clear()
        self._waiting.clear()
        self._unsent.clear()
        self._held.clear()
        # Tasks that nobody wants any more are cancelled by the scheduler, where there is one.
        for future in left:
            future.release()


def current_client() -> Client:
    """Return the current client, or say how to get one."""
    try:
        return default_client()
    except ValueError as error:
        raise ValueError(
            "No Dask client is there: from dask.distributed import Client; client = Client(), or "
            "Client('tcp://...') for a running scheduler."
        ) from error


def is_connected(client: Client) -> bool:
    """Whether the client has a scheduler to talk to."""
    comm = getattr(client, "scheduler_comm", None)
    return client.status == "running" and comm is not None and not comm.closed()


def same(value: Any) -> Any:
    """Return what is given."""
    return value


def _reference(name: Any) -> Any:
    return TaskRef(name) if isinstance(name, str) else name
