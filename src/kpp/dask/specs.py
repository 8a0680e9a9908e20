"""Dask's own objects for tasks, wherever the installed version keeps them."""

from __future__ import annotations

import uuid
from typing import Any

try:
    from dask.task_spec import Task, TaskRef
except ImportError:  # before they were public
    try:
        from dask._task_spec import Task, TaskRef
    except ImportError as error:
        import dask

        raise ImportError(
            f"kpp.dask needs dask 2025.4 or later, and {dask.__version__} is installed, whose "
            "tasks it does not know: pip install 'kpp[dask]'."
        ) from error

__all__ = ["Task", "TaskRef", "graph_of"]


def graph_of(tasks: dict[str, Task]) -> Any:
    """A graph for `Client.get`.

    Names are new each time: none is to be found by looking at what the tasks are, which takes
    longer than many of them. Where Dask does not take that word, a dict will do.
    """
    try:
        from dask._expr import LLGExpr

        return LLGExpr(tasks, _determ_token=uuid.uuid4().hex)
    except (ImportError, TypeError):
        return tasks
