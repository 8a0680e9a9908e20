"""Threads: independent pieces of compiled work on the caller's number; BLAS on one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import count, pairwise

import numpy as np
import scipy.linalg  # noqa: F401  its BLAS is another library than NumPy's, and must be there
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

from kpp._typing import FloatArray

# Pools are kept: starting threads costs as much as a product with a small map.
_pools: dict[int, ThreadPoolExecutor] = {}
# Whether this thread is at work on a block: what is cut into blocks there stays on it.
_inside = threading.local()


class _OneThread:
    """The limit on BLAS: taken by every thread that asks, given back when the last is done.

    In most BLAS libraries the number of threads is the whole process's. Of two threads that fit at
    a time the first to finish must not lift the limit of the other, nor must the other put back
    the 1 that it found: what was found first is owed until nobody holds the limit. Where the
    number is each calling thread's own (OpenMP), each limits itself.
    """

    def __init__(self) -> None:
        self.lock, self.n_holders = threading.Lock(), 0
        self.owed: dict[int, int] = {}
        self.own = threading.local()

    def take(self) -> None:
        depth = getattr(self.own, "depth", 0)
        self.own.depth = depth + 1
        if depth == 0:
            with self.lock:
                self.n_holders += 1
                libraries = _blas().lib_controllers
                many = {i: lib.num_threads for i, lib in enumerate(libraries)}
                self.own.found = {i: n for i, n in many.items() if n != 1}
                _set_threads(dict.fromkeys(self.own.found, 1))

    def give_back(self) -> None:
        self.own.depth -= 1
        if self.own.depth == 0:
            with self.lock:
                self.n_holders -= 1
                libraries = _blas().lib_controllers
                layers = [getattr(lib, "threading_layer", None) for lib in libraries]
                shared = {i: n for i, n in self.own.found.items() if layers[i] != "openmp"}
                self.owed |= shared
                back = {i: n for i, n in self.own.found.items() if i not in shared}
                _set_threads(back if self.n_holders else back | self.owed)
                if self.n_holders == 0:
                    # Someone else's limit may stand in the way: then it is tried again next time.
                    self.owed = {i: n for i, n in self.owed.items() if libraries[i].num_threads < n}

    def after_fork(self) -> None:
        """In a child there is only the thread that forked; another may have held the lock."""
        self.lock = threading.Lock()
        self.n_holders = int(getattr(self.own, "depth", 0) > 0)


def _set_threads(number: dict[int, int]) -> None:
    """Set the numbers of threads of some libraries, by their places."""
    for i, n in number.items():
        _blas().lib_controllers[i].set_num_threads(n)
    if number:
        # Newer versions of threadpoolctl let only the thread that set a number set it again, until
        # it leaves a context: another may be the last to finish.
        with _blas().limit(limits=None):
            pass


_one_thread = _OneThread()


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of NumPy and SciPy; finding them takes longer than a small product."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run BLAS and LAPACK on one thread within; as a context or as a decorator.

    Sums are cut into as many parts as there are threads, so that the last digits of dot products
    of long vectors, of matrix products, eigenvalues and solutions depend on their number. Whatever
    computes such numbers enters here once, not for every product: that takes some ten microseconds,
    and one where the thread is within already.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp._parallel import one_blas_thread
    >>> @one_blas_thread()
    ... def squared_norm(x):
    ...     return float(x @ x)
    >>> squared_norm(np.ones(4))
    4.0
    """
    _one_thread.take()
    try:
        yield
    finally:
        _one_thread.give_back()


@cache
def _openmp() -> ThreadpoolController:
    """The OpenMP libraries, among them that of scikit-learn's boosters."""
    return ThreadpoolController().select(user_api="openmp")


@contextmanager
def one_openmp_thread(is_wanted: bool = True) -> Iterator[None]:
    """Run other libraries' OpenMP loops on one thread within.

    scikit-learn's HistGradientBoosting starts all threads of the machine for every node of every
    tree. On few rows that costs more than it saves, on a busy machine many times the work itself,
    and its sums differ in their last digits with the number of threads.

    Parameters
    ----------
    is_wanted : bool
        Otherwise nothing is changed.
    """
    if not is_wanted:
        yield
        return
    with _openmp().limit(limits=1):
        yield


def _after_fork() -> None:
    # A forked child inherits the pools but not their threads, and would wait for ever.
    _pools.clear()
    _one_thread.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def run_blocks(work: Callable[[int], None], n_blocks: int, n_jobs: int | None) -> None:
    """Call ``work(0), ..., work(n_blocks - 1)``, each once, on ``n_jobs`` threads.

    The blocks must write to disjoint memory. How work is cut into blocks is the caller's, and
    must not depend on `n_jobs`: that is what makes results bit-identical for any number of
    threads.

    Parameters
    ----------
    work : callable
        Takes the number of a block.
    n_blocks : int
        Number of blocks.
    n_jobs : int or None
        scikit-learn's convention: None is 1 unless a ``joblib.parallel_config`` says otherwise,
        -1 is all cores. Looked at only where there are several blocks.
    """
    n_threads = _threads_for(n_blocks, n_jobs)
    if n_threads <= 1:
        for block in range(n_blocks):
            work(block)
        return
    if n_threads not in _pools:
        _pools[n_threads] = ThreadPoolExecutor(n_threads - 1, thread_name_prefix="kpp")
    # Every thread, the caller's too, takes the next block that nobody has; `next` of a counter is
    # one step for the interpreter. Handing out single blocks would cost more than small ones do.
    blocks, failed = count(), threading.Event()

    def take_blocks() -> None:
        _inside.depth = getattr(_inside, "depth", 0) + 1
        try:
            while not failed.is_set() and (block := next(blocks)) < n_blocks:
                work(block)
        except BaseException:
            failed.set()
            raise
        finally:
            _inside.depth -= 1

    others = [_pools[n_threads].submit(take_blocks) for _ in range(n_threads - 1)]
    try:
        take_blocks()
    finally:
        # Who has not begun has nothing left to do. Nothing may go on when this returns or raises:
        # the blocks write to the caller's memory.
        begun = [other for other in others if not other.cancel()]
        wait(begun)
    for other in begun:
        other.result()


def _threads_for(n_blocks: int, n_jobs: int | None) -> int:
    """Threads worth having for so many blocks; one within a block that has a thread of its own."""
    # Counting the cores takes as long as the prediction of a row, and one block needs none of it.
    if n_blocks <= 1 or getattr(_inside, "depth", 0) > 0:
        return 1
    return min(effective_n_jobs(n_jobs), n_blocks)


def sum_blocks(
    work: Callable[[int, FloatArray], None],
    n_blocks: int,
    shape: tuple[int, ...],
    n_jobs: int | None,
) -> FloatArray:
    """Add up what the blocks write into arrays of zeros, in order.

    On one thread the blocks share one array, which stays in the cache; the sums are the same.

    Parameters
    ----------
    work : callable
        Takes the number of a block and an array of zeros.
    n_blocks : int
        Number of blocks, at least one.
    shape : tuple of int
        Shape of the sum.
    n_jobs : int or None
        As in `run_blocks`.
    """
    total = np.zeros(shape)
    if _threads_for(n_blocks, n_jobs) <= 1:
        work(0, total)
        part = np.empty(shape) if n_blocks > 1 else total
        for block in range(1, n_blocks):
            part.fill(0.0)
            work(block, part)
            total += part
        return total
    parts = np.zeros((n_blocks - 1, *shape))
    run_blocks(lambda b: work(b, parts[b - 1] if b else total), n_blocks, n_jobs)
    for part in parts:
        total += part
    return total


def blocks_of(n_items: int, n_blocks: int) -> list[tuple[int, int]]:
    """Cut ``range(n_items)`` into at most `n_blocks` runs whose lengths differ by at most one."""
    n_blocks = max(1, min(n_items, n_blocks))
    edges = [n_items * block // n_blocks for block in range(n_blocks + 1)]
    return list(pairwise(edges))
