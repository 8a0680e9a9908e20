"""Start of the command and of the import, in fresh processes, as ratios to named rivals.

Run ``python benchmarks/speed_start.py --out benchmarks/results``. A run takes one of each in turn,
so that what else the machine does falls on all of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from timing import N_REPEATS, describe, versions, write

# Most seconds of processor time that the command may take to say something about itself, and that
# the import of all public names may add to that of scikit-learn.
COMMAND_TARGET, IMPORT_TARGET = 0.5, 0.7
PROGRAMS = {
    "python -c pass": ["-c", "pass"],
    "import sklearn": ["-c", "import sklearn"],
    "import sklearn.ensemble, sklearn.linear_model": [
        "-c",
        "import sklearn.ensemble, sklearn.linear_model",
    ],
    "import typer, rich": ["-c", "import typer, rich"],
    "import kpp": ["-c", "import kpp"],
    "from kpp import *": ["-c", "from kpp import *"],
    "kpp --version": ["-m", "kpp.cli", "--version"],
    "kpp --help": ["-m", "kpp.cli", "--help"],
    "kpp fit --help": ["-m", "kpp.cli", "fit", "--help"],
}
RIVAL, MODELS = list(PROGRAMS)[1:3]


def seconds_of(arguments: list[str]) -> tuple[float, float]:
    """Seconds until a fresh process has ended, and those that it kept a processor busy."""
    before = os.times()
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    passed, after = time.perf_counter() - start, os.times()
    busy = after.children_user + after.children_system
    return passed, busy - before.children_user - before.children_system


def measure(n_runs: int) -> list[dict[str, Any]]:
    """One row for each program: medians and smallest over the runs, and ratios to the rival."""
    for arguments in PROGRAMS.values():
        seconds_of(arguments)  # bytecode and the caches of the disk
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in PROGRAMS}
    for _ in range(n_runs):
        for name, arguments in PROGRAMS.items():
            runs[name].append(seconds_of(arguments))
    seconds = {name: np.array(found) for name, found in runs.items()}
    return [
        {
            "what": name,
            "median_s": float(np.median(found[:, 0])),
            "least_s": float(found[:, 0].min()),
            "busy_s": float(np.median(found[:, 1])),
            "of_sklearn": float(np.median(found[:, 1] / seconds[RIVAL][:, 1])),
        }
        for name, found in seconds.items()
    ]


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""
    rows = {row["what"]: row for row in result["start"]}
    added = rows["from kpp import *"]["busy_s"] - rows[MODELS]["busy_s"]
    lines = [
        "# Start of the command and of the import",
        "",
        f"Written by `benchmarks/speed_start.py`; {result['n_runs']} runs in fresh processes, one "
        "of each in turn. Limits and ratios are of processor time, ratios in the same run; where "
        "the median is far above it, other work had the processors, and what passes on an idle "
        "machine was not measured.",
        "",
        describe(result),
        "",
        "| what | median, s | least, s | processor, s | of `import sklearn` |",
        "|---|---|---|---|---|",
        *(
            f"| `{row['what']}` | {row['median_s']:.2f} | {row['least_s']:.2f} "
            f"| {row['busy_s']:.2f} | {row['of_sklearn']:.2f} |"
            for row in result["start"]
        ),
        "",
        *(
            f"`{name}`: {rows[name]['busy_s']:.2f} s of processor time (at most {COMMAND_TARGET}: "
            f"{'yes' if rows[name]['busy_s'] <= COMMAND_TARGET else 'no'})."
            for name in ("kpp --version", "kpp --help", "kpp fit --help")
        ),
        "",
        f"All public names add {added:.2f} s to the import of scikit-learn's forests and linear "
        f"models (at most {IMPORT_TARGET}: {'yes' if added <= IMPORT_TARGET else 'no'}); "
        "`import kpp` itself imports nothing else.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="one run, to try it out")
    arguments = parser.parse_args()
    n_runs = 1 if arguments.quick else N_REPEATS
    result = {**versions(), "n_runs": n_runs, "start": measure(n_runs)}
    write("speed_start", result, to_markdown(result), arguments.out)


if __name__ == "__main__":
    main()
