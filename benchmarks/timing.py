"""Timing as ratios to a rival, and the pages that show them."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
import sklearn

import kpp

N_REPEATS = 7


def median_seconds(work: Callable[[], Any], n_repeats: int = N_REPEATS) -> float:
    """Median time of a piece of work, after one run for compilation and caches."""
    work()
    seconds = []
    for _ in range(n_repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def compare(what: str, rival: str, theirs: float, ours: float, target: float) -> dict[str, Any]:
    """One row: how many times faster than the rival."""
    return {
        "what": what,
        "rival": rival,
        "rival_ms": 1e3 * theirs,
        "kpp_ms": 1e3 * ours,
        "ratio": theirs / ours,
        "target": target,
        "met": theirs / ours >= target,
    }


def speed_table(rows: list[dict[str, Any]]) -> list[str]:
    """Lines of a Markdown table of such rows."""
    lines = [
        "| what | rival | rival, ms | kpp, ms | ratio | target | met |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['what']} | {row['rival']} | {row['rival_ms']:.2f} | {row['kpp_ms']:.2f} "
        f"| {row['ratio']:.2f} | {row['target']} | {'yes' if row['met'] else 'no'} |"
        for row in rows
    ]
    return lines


def versions() -> dict[str, Any]:
    """What ran, and on how many cores."""
    return {
        "cores": os.cpu_count(),
        "versions": {
            "kpp": kpp.__version__,
            "scikit-learn": sklearn.__version__,
            "SciPy": scipy.__version__,
            "NumPy": np.__version__,
            "numba": numba.__version__,
            "Python": platform.python_version(),
        },
    }


def describe(result: dict[str, Any]) -> str:
    """The same as a sentence."""
    named = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return f"{named}; {result['cores']} cores."


def write(name: str, result: dict[str, Any], text: str, out: Path | None) -> None:
    """Print the page, and keep it with its figures where a folder is given."""
    print(text)
    if out:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
        (out / f"{name}.md").write_text(text)
