"""Compiled loops of the solvers."""

from __future__ import annotations

from typing import Any

from kpp._compile import compiled


@compiled("in f8[]; in f8[]; in f8[]; i8; out f8[,]; out f8[,]")
def advance(v: Any, ratio: Any, length: Any, n_active: Any, direction: Any, solution: Any) -> None:
    """``p = v - ratio p`` and ``u += length p`` for the first `n_active` systems, in one pass."""
    for a in range(n_active):
        for i in range(v.size):
            p = v[i] - ratio[a] * direction[a, i]
            direction[a, i] = p
            solution[a, i] += length[a] * p
