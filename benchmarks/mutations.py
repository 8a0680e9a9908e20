"""Change one operator or constant of the package at a time, and see whether a test notices.

``python benchmarks/mutations.py --sample 100 --seed 0`` draws mutants of the files in `TESTS`, runs
the tests that belong to the file of each, and appends what came out to a file of JSON lines; a
second call goes on where the first stopped. ``--known`` runs a list of named mutants instead.
``--page a.jsonl b.jsonl`` writes results/mutations.json and results/mutations.md from such files;
the reasons of survivors are written into the former by hand, and kept.

The mutated source goes into a copy of the package. Each mutant runs in a child of a process that
has numpy, scipy, scikit-learn and numba imported, so that it pays for its tests only. Compiled
loops are compiled anew where their file is mutated; elsewhere they come from one cache.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"

# The tests of a file, those that look at it most closely first.
RIDGE = ["tests/solvers/test_ridge.py", "tests/solvers/test_vectors.py"]
NEWTON = ["tests/solvers/test_losses.py", "tests/solvers/test_logistic.py"]
CERTIFY = ["tests/certificates/test_certify.py", "tests/certificates/test_rounding.py"]
EDGES = ["tests/geometry/test_weights.py", "tests/geometry/test_paper_4_2_edge_weights.py"]
TESTS = {
    "bounds/terms.py": ["tests/bounds/test_terms.py"],
    "bounds/kl.py": ["tests/bounds/test_kl.py", "tests/bounds/test_terms.py"],
    "bounds/informed.py": ["tests/bounds/test_informed.py"],
    "certificates/leafwise.py": CERTIFY,
    "certificates/lipschitz.py": CERTIFY,
    "geometry/weights.py": [*EDGES, "tests/geometry/test_maps.py"],
    "geometry/maps.py": ["tests/geometry/test_maps.py", "tests/geometry/test_kernel.py"],
    "solvers/krylov.py": RIDGE,
    "solvers/ridge.py": RIDGE,
    "solvers/newton.py": [*NEWTON, "tests/solvers/test_vectors.py"],
    "solvers/losses.py": [*NEWTON, "tests/models/test_selection.py"],
    # For the named mutants.
    "certificates/node_tables.py": ["tests/certificates/test_rounding.py"],
    "certificates/boxes.py": ["tests/certificates/test_rounding.py"],
}
SAMPLED = list(TESTS)[:-2]
# Simulations of bounds take minutes. They run in the second round, for what survived the first.
SIMULATIONS = "not (hold or covered or caught or split_is_not_wrong)"
SWAPS = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "*", "**": "*"}
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
NAMES = {"min": "max", "minimum": "maximum", "argmin": "argmax"}
NAMES |= {after: before for before, after in NAMES.items()}
OPERATOR = re.compile(rb"\*\*|//|<=|>=|==|!=|[-+*/%<>]|\band\b|\bor\b")


class Mutant(NamedTuple):
    """One change: bytes `start` to `end` of a file become `new`."""

    file: str
    start: int
    end: int
    new: str
    line: int
    what: str

    @property
    def key(self) -> str:
        """What it is called in the results."""
        return f"{self.file}:{self.line} {self.what} @{self.start}"


def mutants_of(file: str, source: bytes) -> Iterator[Mutant]:
    """Every mutant of a file: operators, comparisons, numbers, min and max, True and False."""
    starts = [0, *(i + 1 for i, byte in enumerate(source) if byte == 10)]
    skipped: set[ast.AST] = set()

    def place(node: Any, end: bool = False) -> int:
        line, column = (
            (node.end_lineno, node.end_col_offset) if end else (node.lineno, node.col_offset)
        )
        return starts[line - 1] + column

    def between(node: ast.AST, left: Any, right: Any, swaps: dict[str, str]) -> Iterator[Mutant]:
        first, last = place(left, True), place(right)
        # Comments may stand there too, but no operator before one.
        found = OPERATOR.search(source, first, last)
        if found and (old := found[0].decode()) in swaps:
            new = swaps[old]
            yield Mutant(file, found.start(), found.end(), new, left.end_lineno, f"{old} to {new}")

    for node in ast.walk(ast.parse(source)):
        if node in skipped:
            skipped.update(ast.iter_child_nodes(node))
            continue
        # Messages, types and the options of dataclasses are no arithmetic.
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
            skipped.update(ast.iter_child_nodes(node))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            skipped.update(node.decorator_list)
            if isinstance(node, ast.FunctionDef) and node.returns is not None:
                skipped.add(node.returns)
        elif isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            skipped.add(node.annotation)
        elif isinstance(node, ast.keyword) and node.arg in ("stacklevel", "strict", "kind"):
            skipped.add(node.value)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "warn":
            skipped.update(ast.iter_child_nodes(node))
        elif isinstance(node, ast.BinOp):
            yield from between(node, node.left, node.right, SWAPS)
        elif isinstance(node, ast.AugAssign):
            yield from between(node, node.target, node.value, SWAPS)
        elif isinstance(node, ast.BoolOp):
            yield from between(node, *node.values[:2], {"and": "or", "or": "and"})
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for left, right in pairwise(sides):
                yield from between(node, left, right, COMPARISONS)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            start = place(node)
            yield Mutant(file, start, start + 1, "", node.lineno, "drop -")
        elif isinstance(node, ast.Attribute) and node.attr in NAMES:
            end, new = place(node, True), NAMES[node.attr]
            start = end - len(node.attr)
            yield Mutant(file, start, end, new, node.end_lineno or 0, f"{node.attr} to {new}")
        elif isinstance(node, ast.Name) and node.id in NAMES:
            new = NAMES[node.id]
            what = f"{node.id} to {new}"
            yield Mutant(file, place(node), place(node, True), new, node.lineno, what)
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            value = node.value
            others = (
                [not value] if isinstance(value, bool) else [2 * value, type(value)(0), value + 1]
            )
            for other in dict.fromkeys(others):
                if other != value:
                    what = f"{value} to {other}"
                    yield Mutant(
                        file, place(node), place(node, True), str(other), node.lineno, what
                    )


def known_mutants() -> Iterator[Mutant]:
    """The named mutants of `KNOWN`, which every test once let through."""
    for name, (file, old, new) in KNOWN.items():
        source = (ROOT / "src/kpp" / file).read_bytes()
        if source.count(old.encode()) != 1:
            raise ValueError(f"{name}: {old!r} must occur once in {file}.")
        start = source.index(old.encode())
        line = source.count(b"\n", 0, start) + 1
        yield Mutant(file, start, start + len(old.encode()), new, line, name)


KNOWN = {
    "2 W for 4 W in the clipped bound": (
        "bounds/terms.py",
        "float(4 * width * size",
        "float(2 * width * size",
    ),
    "V without t sigma R": (
        "bounds/terms.py",
        "size = high - low + t * sigma * sup_norm",
        "size = high - low",
    ),
    "V^2 not divided by 2 Phi(t) - 1": (
        "bounds/terms.py",
        "scale = size**2 / (2 * ndtr(t) - 1)",
        "scale = size**2",
    ),
    "delta of a fold not divided by Q": (
        "bounds/informed.py",
        "own_delta = delta / len(fits)",
        "own_delta = delta",
    ),
    "bound of a fold with all of delta": (
        "bounds/informed.py",
        "informed_parts(predictor, frame, own_delta)",
        "informed_parts(predictor, frame, delta)",
    ),
    "unit of alpha not divided by the sum of weights": (
        "solvers/losses.py",
        "return spread / float(weight.sum()) if self.is_averaged else spread",
        "return spread",
    ),
    "rounding of D": (
        "certificates/node_tables.py",
        "return 2 * gamma(self.forest.n_trees + 2 * self.depth + 16)",
        "return 0.0",
    ),
    "slack of a box": (
        "certificates/boxes.py",
        "self.slack = 2 * gamma(forest.n_trees + 4) * (size + np.abs(flip.offset))",
        "self.slack = 0.0 * np.abs(flip.offset)",
    ),
    "weight_error": (
        "certificates/node_tables.py",
        "weight_error=2 * gamma(depth + 2) * np.array(sizes)",
        "weight_error=0 * np.array(sizes)",
    ),
    "product of a box not rounded up": (
        "certificates/boxes.py",
        "step = np.nextafter(radius * scale[moves], np.inf)",
        "step = radius * scale[moves]",
    ),
    "lower side of a box not rounded down": (
        "certificates/boxes.py",
        "np.nextafter(x[moves] - step, -np.inf)",
        "x[moves] - step",
    ),
    "upper side of a box not rounded up": (
        "certificates/boxes.py",
        "np.nextafter(x[moves] + step, np.inf)",
        "x[moves] + step",
    ),
}


class Watcher:
    """Tell a file which test failed first, and at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Write the name of a test that failed."""
        if report.failed:
            self.path.write_text(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        """Write what could not be imported."""
        if report.failed:
            self.path.write_text(f"import of {report.nodeid}")


def run(mutant: Mutant, work: Path, timeout: float, wide: bool) -> dict[str, Any]:
    """Put a mutant into the copy of the package, run its tests, and take it out again."""
    target = work / "src/kpp" / mutant.file
    original = target.read_bytes()
    tests = ["tests/" + mutant.file.split("/")[0]] if wide else TESTS[mutant.file]
    module = "kpp." + mutant.file.removesuffix(".py").replace("/", ".")
    first_failure = work / "failed"
    first_failure.unlink(missing_ok=True)
    target.write_bytes(original[: mutant.start] + mutant.new.encode() + original[mutant.end :])
    for stale in target.parent.glob(f"__pycache__/{target.stem}.*.pyc"):
        stale.unlink()
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        status = 3
        try:
            # Processor time: a busy machine makes no mutant late.
            resource.setrlimit(resource.RLIMIT_CPU, (round(timeout), round(timeout) + 5))
            log = os.open(work / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            status = _child(mutant, work, module, tests, first_failure)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        target.write_bytes(original)
    late = -signal.SIGXCPU, -signal.SIGKILL
    codes = {0: "survived", 1: "killed", 2: "killed"}
    outcome = "timeout" if status in late else codes.get(status, "crashed")
    by = first_failure.read_text() if first_failure.exists() else ""
    seconds = round(time.monotonic() - begin, 1)
    return {"mutant": mutant.key, "outcome": outcome, "by": by, "seconds": seconds, "tests": tests}


def _child(mutant: Mutant, work: Path, module: str, tests: list[str], failed: Path) -> int:
    import numba
    import pytest

    if "_loops" in mutant.file:
        numba.config.CACHE_DIR = str(work / f"numba_{mutant.start}")
    sys.path.insert(0, str(work / "src"))
    os.chdir(ROOT)
    options = [] if tests[0].count("/") == 1 else ["-k", SIMULATIONS]
    options += ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=line", "--pyargs"]
    return int(pytest.main([*options, *tests, module], plugins=[Watcher(failed)]))


def prepare(work: Path) -> None:
    """Copy the package, and import all that it imports, but not itself."""
    shutil.rmtree(work / "src", ignore_errors=True)
    shutil.copytree(ROOT / "src", work / "src", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(work / "src")], check=True)
    os.environ |= {
        "NUMBA_CACHE_DIR": str(work / "numba"),
        "CI": "1",
        "PYTHONPATH": str(work / "src"),
    }
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(work / "src"))
    import numba  # noqa: F401
    import pytest  # noqa: F401
    import sklearn.ensemble  # noqa: F401

    import kpp  # noqa: F401

    sys.path.remove(str(work / "src"))
    for name in [name for name in sys.modules if name.split(".")[0] == "kpp"]:
        del sys.modules[name]


def interval(k: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    middle, spread = k + z**2 / 2, z * math.sqrt(k * (n - k) / n + z**2 / 4)
    return (middle - spread) / (n + z**2), (middle + spread) / (n + z**2)


def _name(found: dict[str, Any]) -> str:
    """What was changed, without the place."""
    return str(found["mutant"]).split(" ", 1)[1].rsplit(" @", 1)[0]


def write_page(files: list[Path], n_all: int) -> None:
    """Gather results, the last of each mutant, and write them as JSON and as a page."""
    path = RESULTS / "mutations.json"
    old = json.loads(path.read_text())["mutants"] if path.exists() else []
    reasons = {found["mutant"]: found.get("reason", "") for found in old}
    last: dict[str, dict[str, Any]] = {}
    for file in files:
        for line in file.read_text().splitlines():
            found = json.loads(line)
            last[found["mutant"]] = found
    found = [
        one | ({"reason": reasons.get(name, "")} if one["outcome"] == "survived" else {})
        for name, one in sorted(last.items())
    ]
    path.write_text(json.dumps({"n_mutants": n_all, "mutants": found}, indent=1) + "\n")
    sample = [one for one in found if _name(one) not in KNOWN]
    alive = [one for one in sample if one["outcome"] == "survived"]
    same = [one for one in alive if one["reason"].startswith("same")]
    n, dead = len(sample), len(sample) - len(alive)
    low, high = interval(dead, n)
    able = n - len(same)
    able_low, able_high = interval(dead, able)
    lines = [
        "# Mutations",
        "",
        "One operator or constant changed at a time, and the tests that belong to the file run "
        "(`benchmarks/mutations.py`).",
        f"A random sample of {n} of the {n_all} mutants of {len(SAMPLED)} files: "
        + ", ".join(SAMPLED)
        + ".",
        "",
        f"- Killed: {dead} of {n}, {dead / n:.1%} (95% interval {low:.1%} to {high:.1%}); "
        f"{sum(one['outcome'] == 'timeout' for one in sample)} of them by running without end.",
        f"- Without the {len(same)} survivors that no test of results can tell from the original "
        f'(their reason starts with "same"): {dead} of {able}, {dead / able:.1%} '
        f"(95% interval {able_low:.1%} to {able_high:.1%}).",
        "",
        f"{sum('at first' in one.get('note', '') for one in sample)} of the killed survived at "
        "first, and a test was written for each. Other tests too (the grid, ties, the frames) were "
        "written after the list of the sample was seen: the shares say what the tests catch of "
        "this sample, not what they would catch of a fresh one. The first round left out "
        "simulations, and no second round was run; mutants in progress when it was "
        "stopped are not counted.",
        "",
        "The rest of the mutants was not run, and other files were not sampled.",
        "",
        "## Survivors of the sample",
        "",
        "| Mutant | Reason |",
        "|---|---|",
        *(f"| `{one['mutant']}` | {one['reason']} |" for one in alive),
        "",
        "## Named mutants",
        "",
        "Changes that an audit reported as unnoticed, run against the tests as they are now.",
        "",
        "| Mutant | Outcome | By, or why not |",
        "|---|---|---|",
    ]
    for one in found:
        if _name(one) in KNOWN:
            by = f"`{one['by']}`" if one["by"] else one.get("reason", "")
            lines.append(f"| {_name(one)} | {one['outcome']} | {by} |")
    (RESULTS / "mutations.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", action="append", help="only these files, as in TESTS")
    parser.add_argument("--sample", type=int, help="how many mutants to draw; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--known", action="store_true", help="the named mutants instead")
    parser.add_argument("--wide", action="store_true", help="all tests of the room, for survivors")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th mutant from the i-th on")
    parser.add_argument("--work", type=Path, help="folder for the copy and caches")
    parser.add_argument("--out", type=Path, help="JSON lines")
    parser.add_argument("--page", type=Path, nargs="+", help="write the page from these files")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds of processor")
    args = parser.parse_args()
    if not args.page and (args.work is None or args.out is None):
        parser.error("Give --work and --out, or --page.")
    if args.known:
        mutants = list(known_mutants())
    else:
        mutants = [
            mutant
            for file in args.file or SAMPLED
            for mutant in mutants_of(file, (ROOT / "src/kpp" / file).read_bytes())
        ]
        print(f"{len(mutants)} mutants")
        if args.page:
            write_page(args.page, len(mutants))
            return
        if args.sample is not None:
            import numpy as np

            chosen = np.random.default_rng(args.seed).permutation(len(mutants))[: args.sample]
            mutants = [mutants[k] for k in chosen]
    index, count = map(int, args.part.split("/"))
    known: dict[str, str] = {}
    if args.out.exists():
        lines = map(json.loads, args.out.read_text().splitlines())
        known = {line["mutant"]: line["outcome"] for line in lines}
    args.work.mkdir(parents=True, exist_ok=True)
    prepare(args.work.resolve())
    for mutant in mutants[index::count]:
        if known.get(mutant.key) == "survived" if args.wide else mutant.key not in known:
            found = run(mutant, args.work.resolve(), args.timeout, args.wide)
            with args.out.open("a") as out:
                out.write(json.dumps(found) + "\n")
            print(found["outcome"], found["seconds"], mutant.key, found["by"], flush=True)


if __name__ == "__main__":
    main()
