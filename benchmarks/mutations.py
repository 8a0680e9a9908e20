"""Change one operator or constant of the package at a time, and see whether a test notices.

``python benchmarks/mutations.py --work folder --out found.jsonl --minutes 60`` goes through the
mutants of `ROOMS` in a random order that is stratified over files: where it stops, what was run is
a fair sample of every file. A second call goes on where the first stopped. ``--again`` first runs
survivors anew, against more tests and those that were written for them; ``--known`` runs a list of
named mutants instead. ``--page a.jsonl b.jsonl`` writes results/mutations.json and
results/mutations.md from such files. The reasons of survivors are written by hand, by the text of
the mutated line, in results/mutation_reasons.json.

How a mutant is run is in `mutation_runs.py`.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
ROOMS = ("bounds", "certificates", "geometry", "solvers")
LOOPS = ("certificates/_box_loops.py", "certificates/_loops.py", "geometry/_loops.py")
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
        elif isinstance(node, ast.keyword) and node.arg in ("stacklevel", "strict", "kind", "repr"):
            skipped.add(node.value)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "warn":
            skipped.update(ast.iter_child_nodes(node))
        elif isinstance(node, ast.BinOp):
            yield from between(node, node.left, node.right, SWAPS)
        elif isinstance(node, ast.AugAssign):
            yield from between(node, node.target, node.value, SWAPS)
        elif isinstance(node, ast.BoolOp):
            first, second = node.values[:2]
            yield from between(node, first, second, {"and": "or", "or": "and"})
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
        "weight_error = 2 * gamma(depth + 2) * np.array(sizes)",
        "weight_error = 0 * np.array(sizes)",
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


def all_mutants(files: list[str] | None = None) -> list[Mutant]:
    """Every mutant of the rooms, in an order of which each beginning is a fair sample.

    The k-th of the n mutants of a file, drawn at random, stands at (k + u) / n with u uniform.
    """
    found = []
    for room in ROOMS:
        for path in sorted((ROOT / "src/kpp" / room).glob("*.py")):
            file = f"{room}/{path.name}"
            if not files or file in files:
                own = list(mutants_of(file, path.read_bytes()))
                draw = random.Random(file)
                draw.shuffle(own)
                found += [((k + draw.random()) / len(own), one) for k, one in enumerate(own)]
    return [one for _, one in sorted(found)]


def unchanged_mutants() -> list[Mutant]:
    """No change at all, at a place of each file: if one is killed, the runner is at fault."""
    first = {one.file: one for one in reversed(all_mutants())}
    return [one._replace(end=one.start, new="", what="unchanged") for one in first.values()]


def interval(k: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    middle, spread = k + z**2 / 2, z * math.sqrt(k * (n - k) / n + z**2 / 4)
    return (middle - spread) / (n + z**2), (middle + spread) / (n + z**2)


def read_reasons(one: Mutant, reasons: dict[str, Any]) -> str:
    """Why a mutant survives: by its file, the text of its line, and what was changed ("*": all)."""
    line = (ROOT / "src/kpp" / one.file).read_text().splitlines()[one.line - 1].strip()
    found = reasons.get(one.file, {}).get(line, {})
    return str(found.get(one.what, found.get("*", "")))


def gather(files: list[Path], mutants: list[Mutant]) -> list[dict[str, Any]]:
    """The last outcome of every mutant that was run, its first, and the reason of a survivor."""
    first: dict[str, str] = {}
    last: dict[str, dict[str, Any]] = {}
    for file in files:
        for line in file.read_text().splitlines():
            found = json.loads(line)
            first.setdefault(found["mutant"], found["outcome"])
            last[found["mutant"]] = found
    reasons = json.loads((RESULTS / "mutation_reasons.json").read_text())
    gathered = []
    for one in mutants:
        if one.key in last:
            found = last[one.key] | {"first": first[one.key]}
            found["reason"] = read_reasons(one, reasons) if found["outcome"] == "survived" else ""
            gathered.append(found)
    return gathered


def _shares(found: list[dict[str, Any]], n_all: int, name: str) -> str:
    """One row of the table."""
    same = sum(one["reason"].startswith("same") for one in found)
    dead, n = sum(one["outcome"] != "survived" for one in found), len(found) - same
    at_first = sum(one["first"] != "survived" for one in found)
    numbers = [name, n_all, len(found), dead, same, n - dead]
    for k in (at_first, dead):
        low, high = interval(k, n)
        numbers.append(f"{k / n:.1%} ({low:.1%} to {high:.1%})")
    return "| " + " | ".join(map(str, numbers)) + " |"


def _run_of(found: list[dict[str, Any]], mutants: list[Mutant], file: str) -> str:
    n_run = sum(one["mutant"].startswith(file + ":") for one in found)
    return f"{n_run} of {sum(one.file == file for one in mutants)} in `{file}`"


def write_page(files: list[Path]) -> None:
    """Gather results and write them as JSON and as a page."""
    mutants = sorted(all_mutants())
    found = gather(files, mutants)
    known = gather(files, list(known_mutants()))
    unchanged = [one["outcome"] for one in gather(files, unchanged_mutants())]
    n_all = {room: sum(one.file.startswith(room) for one in mutants) for room in ROOMS}
    path = RESULTS / "mutations.json"
    path.write_text(
        json.dumps({"n_mutants": n_all, "mutants": found, "named": known}, indent=1) + "\n"
    )
    rooms = {room: [one for one in found if one["mutant"].startswith(room + "/")] for room in ROOMS}
    late = sum(one["outcome"] == "timeout" for one in found)
    cut = sum(one["outcome"] == "survived" and "note" in one for one in found)
    alive = [one for one in found if one["outcome"] == "survived"]
    real = [one for one in alive if not one["reason"].startswith("same")]
    lines = [
        "# Mutations",
        "",
        "One operator or constant of the four rooms with arithmetic that others rely on is changed "
        "at a time, and the tests that reach it are run until one fails "
        "(`benchmarks/mutations.py`). The order is random and stratified over files, so that "
        "those that were run are a fair sample of each file but the compiled loops, of which few "
        "were.",
        "",
        "| Room | Mutants | Run | Killed | Same | Other survivors | Killed at first | Killed now |",
        "|---|---|---|---|---|---|---|---|",
        *(_shares(rooms[room], n_all[room], room) for room in ROOMS if rooms[room]),
        _shares(found, len(mutants), "all"),
        "",
        "Shares are of mutants that are not the same program, with Wilson's 95% interval. *Same* "
        "are survivors that no test of results can tell from the original: sizes of blocks, limits "
        "that nobody reaches, what is recomputed or replaced. *At first* is the first run of each, "
        "against about a second of tests, before any was written for it: a lower limit of what to "
        "expect of the mutants that were not run. *Now* is after survivors were run against more "
        "tests, and tests were written for them: it speaks of those that were run only. Mutants of "
        "lines that have changed since their first run are left out, and others of the same files "
        "were drawn instead; all others were run again.",
        "",
        f"{late} of the killed were so by running without end. {cut} of the survivors were not run "
        "against every test that reaches them. Tests of other rooms, tests that start other "
        "processes, those in exact fractions of sections 4.5 and B, and tests that take more than "
        "6 seconds were not run at all. Of "
        f"{len(unchanged)} files without a change {unchanged.count('survived')} survive, as all "
        "must.",
        "",
        "Of the compiled loops few were run, since each is compiled anew: "
        + ", ".join(_run_of(found, mutants, file) for file in LOOPS)
        + ".",
        "",
        "## Survivors that are not the same",
        "",
        "| Mutant | What a test would have to do |",
        "|---|---|",
        *(f"| `{one['mutant']}` | {one['reason'] or 'not looked at'} |" for one in real),
        "",
        "## Survivors that are the same program",
        "",
        "| Mutant | Reason |",
        "|---|---|",
        *(f"| `{one['mutant']}` | {one['reason']} |" for one in alive if one not in real),
        "",
        "## Named mutants",
        "",
        "Changes that an audit reported as unnoticed, run against the tests as they are now.",
        "",
        "| Mutant | Outcome | By, or why not |",
        "|---|---|---|",
    ]
    for one in known:
        name = str(one["mutant"]).split(" ", 1)[1].rsplit(" @", 1)[0]
        by = f"`{one['by']}`" if one["by"] else one["reason"]
        lines.append(f"| {name} | {one['outcome']} | {by} |")
    (RESULTS / "mutations.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", action="append", help="only these files, as bounds/kl.py")
    parser.add_argument("--sample", type=int, help="how many mutants to run; all by default")
    parser.add_argument("--no-loops", action="store_true", help="not those of compiled loops")
    parser.add_argument("--unchanged", action="store_true", help="no change; all must survive")
    parser.add_argument("--known", action="store_true", help="the named mutants instead")
    parser.add_argument("--again", action="store_true", help="survivors first, but the same")
    parser.add_argument("--work", type=Path, help="folder for what tests reach, and for a log")
    parser.add_argument("--out", type=Path, help="JSON lines")
    parser.add_argument("--page", type=Path, nargs="+", help="write the page from these files")
    parser.add_argument("--budget", type=float, default=3.0, help="seconds of processor a mutant")
    parser.add_argument("--minutes", type=float, default=600.0, help="when to stop")
    args = parser.parse_args()
    if args.page:
        write_page(args.page)
        return
    if args.work is None or args.out is None:
        parser.error("Give --work and --out, or --page.")
    mutants = all_mutants(args.file)
    if args.no_loops:
        mutants = [one for one in mutants if "_loops" not in one.file]
    print(f"{len(mutants)} mutants")
    other = list(known_mutants()) if args.known else []
    other += unchanged_mutants() if args.unchanged else []
    done: dict[str, str] = {}
    if args.out.exists():
        lines = map(json.loads, args.out.read_text().splitlines())
        done = {line["mutant"]: line["outcome"] for line in lines}
    reasons = json.loads((RESULTS / "mutation_reasons.json").read_text())
    again = [one for one in mutants if args.again and done.get(one.key) == "survived"]
    again = [one for one in again if not read_reasons(one, reasons).startswith("same")]
    rest = [] if other else [one for one in mutants[: args.sample] if one.key not in done]
    mutants = again + other + rest
    args.work.mkdir(parents=True, exist_ok=True)
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    os.environ |= threads | {"CI": "1"}
    sys.dont_write_bytecode = True
    os.chdir(ROOT)
    import pytest
    from mutation_runs import TESTS, Runner

    until = time.time() + 60 * args.minutes
    runner = Runner(mutants, args.work.resolve(), args.out.resolve(), args.budget, until)
    runner.n_again = len(again)
    # The first starts other processes; the others take minutes in exact fractions.
    names = ["bounds/test_benchmarks_of_bounds", "geometry/test_paper_4_5_concentration"]
    names.append("geometry/test_paper_appendix_b")
    ignored = [f"--ignore=tests/{name}.py" for name in names]
    options = ["-q", "-s", "-n", "0", "-p", "no:cacheprovider", "--tb=short"]
    pytest.main([*options, *ignored, *TESTS], plugins=[runner])


if __name__ == "__main__":
    main()
