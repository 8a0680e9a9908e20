"""Run independent pieces of compiled work on the caller's number of threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from joblib import effective_n_jobs

from kpp._typing import FloatArray

# Pools are kept: starting threads costs as much as a product with a small map.
_pools: dict[int, ThreadPoolExecutor] = {}

# A forked child inherits the pools but not their threads, and would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


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
        -1 is all cores.
    """
    n_threads = min(effective_n_jobs(n_jobs), n_blocks)
    if n_threads <= 1:
        for block in range(n_blocks):
            work(block)
        return
    if n_threads not in _pools:
        _pools[n_threads] = ThreadPoolExecutor(n_threads, thread_name_prefix="kpp")
    # Consuming the iterator waits for every block and raises what a block raised.
    for _ in _pools[n_threads].map(work, range(n_blocks)):
        pass


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
    if min(effective_n_jobs(n_jobs), n_blocks) <= 1:
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
