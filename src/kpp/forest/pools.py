"""Pools: what some nodes have several of (words of bits, terms of a sum), with offsets per node.

Node v owns ``pool[offsets[v]:offsets[v + 1]]``. The offsets are empty where no node has any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kpp._typing import AnyArray, OffsetArray


def take_from_pools(
    offsets: OffsetArray, pools: Sequence[AnyArray], nodes: Any
) -> tuple[OffsetArray, list[AnyArray]]:
    """Offsets and pools of some nodes, in the given order.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.pools import take_from_pools
    >>> offsets, [pool] = take_from_pools(np.array([0, 2, 2, 3]), [np.array([5, 6, 7])], [2, 0])
    >>> offsets.tolist(), pool.tolist()
    ([0, 1, 3], [7, 5, 6])
    """
    if len(offsets) == 0:
        return offsets, list(pools)
    sizes = np.diff(offsets)[nodes]
    own = np.concatenate([[0], np.cumsum(sizes)])
    if own[-1] == 0:
        return np.empty(0, dtype=np.int64), [pool[:0] for pool in pools]
    # Entry k of what a node owns stands k places behind its first one.
    place = np.repeat(offsets[:-1][nodes] - own[:-1], sizes) + np.arange(own[-1])
    return own, [pool[place] for pool in pools]


def join_offsets(parts: Sequence[OffsetArray], n_nodes: Sequence[int]) -> OffsetArray:
    """Offsets of several forests, one after the other; empty where none has any.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.pools import join_offsets
    >>> join_offsets([np.array([0, 2]), np.array([])], [1, 2]).tolist()
    [0, 2, 2, 2]
    """
    sizes = [
        np.diff(part) if len(part) else np.zeros(n, dtype=np.int64)
        for part, n in zip(parts, n_nodes, strict=True)
    ]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    return offsets if offsets[-1] else np.empty(0, dtype=np.int64)


def owned_parts(offsets: OffsetArray, n_nodes: int) -> tuple[AnyArray, int] | None:
    """Which nodes own entries of a pool, and how many there are; None for wrong offsets."""
    if len(offsets) == 0:
        return np.zeros(n_nodes, dtype=bool), 0
    # The prepended 0 makes the first difference the first offset, which must be 0.
    sizes = np.diff(offsets, prepend=0)
    if len(sizes) != n_nodes + 1 or sizes[0] != 0 or (sizes < 0).any():
        return None
    return sizes[1:] > 0, int(offsets[-1])
