"""Lanes: threads for quick questions and others for slow ones, with a bounded queue each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from kpp.serve.answers import Deadline
from kpp.serve.errors import RequestError

Result = TypeVar("Result")


class Lane:
    """Threads that answer, and a queue before them; what finds no place in it is refused.

    Two lanes keep a slow explanation out of the way of predictions.

    Parameters
    ----------
    name : str
        For metrics.
    n_threads : int
        Questions that are answered at a time.
    most_waiting : int
        Questions that may wait.
    """

    def __init__(self, name: str, n_threads: int, most_waiting: int) -> None:
        self.name, self.n_threads, self.most_waiting = name, n_threads, most_waiting
        self.inside = 0
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix=f"kpp-{name}")

    async def run(self, work: Callable[[Deadline], Result], seconds: float) -> Result:
        """Do the work on one of the threads, within the time; else 503 or 504."""
        if self.inside >= self.n_threads + self.most_waiting:
            said = "Too many questions are under way. Ask again in a moment."
            raise RequestError(503, said, headers={"Retry-After": "1"})
        loop = asyncio.get_running_loop()
        deadline = Deadline(seconds)
        self.inside += 1
        future: Future[Result] = self._pool.submit(_begin, work, deadline)
        # It leaves when its thread is free, which may be after the answer that it took too long.
        future.add_done_callback(lambda _: _tell(loop, self._leave))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
        except TimeoutError:
            said = f"The answer took longer than {seconds:g} s. Ask for fewer rows."
            raise RequestError(504, said) from None
        finally:
            deadline.given_up.set()

    def _leave(self) -> None:
        self.inside -= 1

    def close(self) -> None:
        """Start nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _begin(work: Callable[[Deadline], Result], deadline: Deadline) -> Result:
    deadline.check()  # it may have waited for too long
    return work(deadline)


def _tell(loop: asyncio.AbstractEventLoop, leave: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(leave)
