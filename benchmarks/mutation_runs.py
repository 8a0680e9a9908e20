"""Run the tests that reach a mutant, in a child of a process that has everything imported.

`mutations.py` says which mutants there are and what came out. Here pytest collects the tests once
and notes which lines each test runs. For every mutant the process forks: the child puts the changed
code into the functions that exist already (so that names imported elsewhere mean it too), compiles
anew the loops that it touches, and runs the tests that reach its line, until one fails.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import re
import resource
import signal
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import kpp._compile

ROOT = Path(__file__).parent.parent
PACKAGE = Path(kpp._compile.__file__).parent
ROOMS = ("bounds", "certificates", "geometry", "solvers")
# The tests and the examples of the rooms; not those of the rooms that use them.
TESTS = [f"tests/{room}" for room in ROOMS] + [f"kpp.{room}" for room in ROOMS]
TESTS += ["tests/test_defaults.py"]
MEMORY = 6 << 30
# A test of a mutant may take so many times its usual time, and so many seconds more.
LATE, LATE_SECONDS = 4, 5
COMPILE_SECONDS = 15  # more, where a loop is compiled anew
MEASURE_SECONDS = 6  # a test that takes more processor time is left out


Loop = tuple[FunctionType, tuple[str, ...], list[Any]]
_loaded: list[FunctionType] = []
_loops: list[Loop] = []


def functions() -> list[FunctionType]:
    """The functions of the package; those that were frozen are kept in a list."""
    return _loaded + [
        thing
        for thing in gc.get_objects()
        if isinstance(thing, FunctionType) and (thing.__module__ or "").startswith("kpp")
    ]


def freeze() -> None:
    """Take all objects out of the collector's sight: a child that walks them copies all memory."""
    gc.collect()
    _loops.extend(loops())
    _loaded.extend(functions())
    gc.freeze()


def loops() -> list[Loop]:
    """Every compiled loop: its Python function, its signatures, the list of its machine code."""
    found = []
    for function in [] if _loops else functions():
        if function.__code__.co_qualname == "compiled.<locals>.decorate.<locals>.call":
            names = function.__code__.co_freevars
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
            closure = dict(zip(names, cells, strict=True))
            found.append((closure["loop"], closure["signatures"], closure["machine_code"]))
    return found or _loops


def helpers_of(function: FunctionType) -> set[FunctionType]:
    """The helpers that a loop calls, and those that they call."""
    found: set[FunctionType] = set()
    for name in function.__code__.co_names:
        helper = function.__globals__.get(name)
        if isinstance(helper, FunctionType) and helper in kpp._compile._helpers:
            found |= {helper} | helpers_of(helper)
    return found


def compile_afresh(loop: Callable[..., None], signatures: tuple[str, ...]) -> Callable[..., None]:
    """Compile without the files on disk, which know the loop by the text of its file."""
    import numba
    from numba import types

    known = [types.void(*kpp._compile._numba_types(signature)) for signature in signatures]
    return numba.njit(known, nogil=True)(kpp._compile._with_helpers(loop))


def put_in(file: str, source: bytes) -> None:
    """Let the functions, classes and constants of a loaded module be those of another text."""
    name = "kpp." + file.removesuffix(".py").replace("/", ".")
    module = sys.modules[name]
    tuples = dict(kpp._compile._tuples), dict(kpp._compile._helpers)
    scratch: dict[str, Any] = {"__name__": name, "__file__": module.__file__}
    scratch["__package__"] = name.rsplit(".", 1)[0]
    exec(compile(source, str(module.__file__), "exec"), scratch)
    for kept, old in zip((kpp._compile._tuples, kpp._compile._helpers), tuples, strict=True):
        kept.clear()
        kept.update(old)
    everything = functions()
    new = {
        (function.__code__.co_qualname, function.__code__.co_firstlineno): function
        for function in everything
        if function.__globals__ is scratch
    }
    changed: set[Any] = set()
    for function in everything:
        code = function.__code__
        other = new.get((code.co_qualname, code.co_firstlineno))
        if function.__globals__ is module.__dict__ and other is not None:
            if code != other.__code__:
                function.__code__ = other.__code__
                changed.add(function)
            function.__defaults__ = other.__defaults__
            if other.__kwdefaults__ is not None:
                function.__kwdefaults__ = other.__kwdefaults__
    names = _put_in_values(module.__dict__, scratch)
    for key, kind in list(vars(module).items()):
        other_kind = scratch.get(key)
        if isinstance(kind, type) and kind.__module__ == name and isinstance(other_kind, type):
            _put_in_values(vars(kind), vars(other_kind), kind)
            if "__init__" in vars(kind):  # that of a dataclass has its defaults
                kind.__init__.__defaults__ = other_kind.__init__.__defaults__  # type: ignore
    for loop, _, machine_code in loops():
        parts = {loop} | helpers_of(loop)
        if parts & changed or any(names & set(part.__code__.co_names) for part in parts):
            machine_code.clear()
    for helper in kpp._compile._helpers:
        kpp._compile._helpers[helper] = None
    kpp._compile._compile = compile_afresh


def _put_in_values(old: Any, new: Any, kind: type | None = None) -> set[str]:
    """Numbers, tuples and arrays that differ take their new values, wherever they are imported."""
    differing = set()
    for key, value in new.items():
        before = old.get(key)
        plain = isinstance(value, bool | int | float | tuple | np.ndarray)
        if plain and not key.startswith("__") and key in old and repr(before) != repr(value):
            differing.add(key)
            if kind is not None:
                setattr(kind, key, value)
                continue
            for module in list(sys.modules.values()):
                if getattr(module, "__dict__", {}).get(key) is before:
                    setattr(module, key, value)
    return differing


class Reach:
    """Which tests run which lines, and how long each takes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, set[tuple[str, int]]] = {}

    def save(self, path: Path) -> None:
        """Write as JSON."""
        found = {
            test: [self.seconds[test], sorted(self.lines[test])] for test in sorted(self.seconds)
        }
        path.write_text(json.dumps(found))

    @classmethod
    def load(cls, path: Path) -> Reach:
        """Read what `save` wrote."""
        reach = cls()
        for test, (seconds, lines) in json.loads(path.read_text()).items():
            reach.seconds[test] = seconds
            reach.lines[test] = {(file, line) for file, line in lines}
        return reach

    def tests_of(self, places: set[tuple[str, int]]) -> set[str]:
        """The tests that run one of these lines."""
        return {test for test, lines in self.lines.items() if lines & places}


def places_of(file: str, source: bytes, line: int) -> list[set[tuple[str, int]]]:
    """Where a mutant on a line is run: its statement; if no test is seen there, its function."""
    statements: list[tuple[int, int]] = []
    whole: list[tuple[int, int]] = []
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        if isinstance(node, ast.stmt) and first <= line <= last:
            body = getattr(node, "body", None)
            if isinstance(node, ast.FunctionDef):
                whole.append((body[0].lineno, last))  # type: ignore[index]
            elif not body:
                statements.append((first, last))
            elif line < body[0].lineno:
                statements.append((first, body[0].lineno - 1))
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {
                    part.id
                    for one in targets
                    for part in ast.walk(one)
                    if isinstance(part, ast.Name)
                }
    if whole:
        inner = max(whole)
        ranges = [[span for span in statements if span[0] >= inner[0]], [inner], [min(whole)]]
    else:
        ranges = [[]]
    found = [{(file, k) for a, b in spans for k in range(a, b + 1)} for spans in ranges]
    if not whole:  # a constant: wherever its name stands
        word = re.compile(rb"\b(" + b"|".join(name.encode() for name in names) + rb")\b")
        for path in sorted(PACKAGE.glob("*/*.py")):
            if path.parent.name in ROOMS and names:
                for k, text in enumerate(path.read_bytes().splitlines()):
                    if word.search(text):
                        found[0].add((f"{path.parent.name}/{path.name}", k + 1))
        found.append({(file, k + 1) for k in range(source.count(b"\n"))})
    return found


def is_in_a_body(source: bytes, line: int) -> bool:
    """Whether a line is run by calling a function, not by importing."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return any(node.body[0].lineno <= line <= (node.end_lineno or 0) for node in nodes)


class Runner:
    """A plugin of pytest that runs mutants in place of the tests."""

    def __init__(self, mutants: list[Any], work: Path, out: Path, budget: float, until: float):
        self.mutants, self.work, self.out = mutants, work, out
        self.budget, self.until = budget, until
        self.failed = ""
        self.n_again = 0  # so many of the first mutants survived before: they get more tests
        self.fresh: set[str] = set()  # tests that were not there before
        self.kills: Counter[tuple[str, str]] = Counter()
        for line in out.read_text().splitlines() if out.exists() else ():
            found = json.loads(line)
            self.kills[found["by"], found["mutant"].split(":")[0]] += 1

    def pytest_collection(self) -> None:
        """Let hypothesis stop at the first failure that it finds."""
        from hypothesis import Phase, settings

        known = settings.get_profile("ci")
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", known, phases=phases, database=None)
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Remember a test that failed."""
        if report.failed:
            self.failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure what tests reach, once, then run the mutants."""
        for loop, signatures, machine_code in loops():
            machine_code.append(kpp._compile._compile(loop, signatures))
        items = {item.nodeid: item for item in session.items}
        reach = measure(session.items, self, self.work / "reach.json")
        freeze()
        once = self.budget
        for k, mutant in enumerate(self.mutants):
            if time.time() > self.until:
                break
            self.budget = 4 * once if k < self.n_again else once
            found = self.run(mutant, reach, items)
            with self.out.open("a") as out:
                out.write(json.dumps(found) + "\n")
            print(found["outcome"], found["seconds"], mutant.key, found["by"], flush=True)
        return True

    def run(self, mutant: Any, reach: Reach, items: dict[str, Any]) -> dict[str, Any]:
        """Run one mutant in a child."""
        source = (PACKAGE / mutant.file).read_bytes()
        chosen: set[str] = set()
        for places in places_of(mutant.file, source, mutant.line):
            chosen = {test for test in reach.tests_of(places) if test in items}
            if chosen:
                break
        if not is_in_a_body(source, mutant.line):
            chosen |= {test for test in items if test.startswith("tests/test_defaults.py")}
            # A test that runs no line of the rooms may look at a constant.
            silent = {test for test, lines in reach.lines.items() if not lines and test in items}
            chosen |= {test for test in silent if reach.seconds[test] >= 0}
        cost = {
            test: (0.05 + reach.seconds[test])
            / (1 + 3 * self.kills[test, mutant.file])
            / (_closeness(test, mutant.file) * (5 if test in self.fresh else 1))
            for test in chosen
        }
        tests: list[str] = []
        planned = 0.0
        for test in sorted(chosen, key=lambda test: (cost[test], test)):
            planned += reach.seconds[test]
            if not tests or planned <= self.budget:
                tests.append(test)
        # The likely ones first; the rest file by file, so that fixtures are made once.
        tests[10:] = sorted(tests[10:], key=lambda test: (test.split("::")[0], cost[test]))
        note = self.work / "note"
        note.write_text("[]")
        before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])

        def child() -> int:
            put_in(mutant.file, source[: mutant.start] + mutant.new.encode() + source[mutant.end :])
            spent: list[Any] = [0, ""]
            for k, test in enumerate(tests):
                used = time.process_time()
                if used - start > 2 * self.budget:
                    spent[1] = "budget"
                    break
                allow = LATE * reach.seconds[test] + LATE_SECONDS
                allow += COMPILE_SECONDS * ("_loops" in mutant.file)
                resource.setrlimit(resource.RLIMIT_CPU, (int(used + allow) + 1, -1))
                signal.alarm(int(6 * allow))
                spent[0] += 1
                note.write_text(json.dumps([*spent, test]))
                item = items[test]
                after = items[tests[k + 1]] if k + 1 < len(tests) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if self.failed:
                    return 1
            note.write_text(json.dumps([*spent, ""]))
            return 0

        start = time.process_time()
        status = fork(child, self.work)
        outcome = {0: "survived", 1: "killed", 3: "killed"}.get(status, "timeout")
        n_run, why, by = [*json.loads(note.read_text()), 0, "", ""][:3]
        cut = outcome == "survived" and (why or len(tests) < len(chosen))
        if outcome == "killed" and not by:
            by = "import"
        if by:
            self.kills[by, mutant.file] += 1
        return {
            "mutant": mutant.key,
            "outcome": outcome,
            "by": by,
            "seconds": round(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before, 1),
            "n_tests": n_run,
            "n_reaching": len(chosen),
        } | ({"note": "not all tests that reach it were run"} if cut else {})


def _closeness(test: str, file: str) -> float:
    """How much likelier than another a test is to look at what a file computes."""
    room, stem = file.removesuffix(".py").split("/")
    if "test_defaults" in test:
        return 100.0
    names_it = stem.strip("_") in test
    about_other_things = "test_routes" in test or "test_guarantees" in test
    return (
        (4.0 if names_it else 1.0) * (2.0 if room in test else 1.0) / (1 + 4 * about_other_things)
    )


def fork(work: Callable[[], int], folder: Path) -> int:
    """Call a function in a child, and return its status; minus a signal that ended it."""
    child = os.fork()
    if child == 0:
        status = 3
        try:
            virtual = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (virtual + MEMORY, -1))
            log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            status = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def measure(all_items: list[Any], runner: Runner, path: Path) -> Reach:
    """Run tests that are not known yet, a child for each file, and note the lines that they run."""
    total = Reach.load(path) if path.exists() else Reach()
    by_file: dict[str, list[Any]] = defaultdict(list)
    for item in all_items:
        if item.nodeid not in total.seconds:
            by_file[item.nodeid.split("::")[0]].append(item)
    runner.fresh = {item.nodeid for items in by_file.values() for item in items}
    part = path.with_suffix(".part")
    for file, items in by_file.items():
        part.unlink(missing_ok=True)

        def child(items: list[Any] = items) -> int:
            _trace(items, runner).save(part)
            return 0

        begin = time.monotonic()
        status = fork(child, path.parent)
        print("measured", file, round(time.monotonic() - begin, 1), status, flush=True)
        more = Reach.load(part)
        total.seconds |= more.seconds
        total.lines |= more.lines
        total.save(path)
    return total


def _trace(items: list[Any], runner: Runner) -> Reach:
    files = {
        str(file): f"{room}/{file.name}" for room in ROOMS for file in (PACKAGE / room).glob("*.py")
    }
    seen: list[set[tuple[str, int]]] = [set()]
    of_fixture: dict[str, set[tuple[str, int]]] = defaultdict(set)
    reach = Reach()

    def note_line(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            seen[0].add((files[frame.f_code.co_filename], frame.f_lineno))
        return note_line

    def note_call(frame: Any, event: str, argument: Any) -> Any:
        return note_line if frame.f_code.co_filename in files else None

    def watch(run: Callable[..., None], lines: set[tuple[str, int]]) -> Callable[..., None]:
        def watched(*arguments: Any) -> None:
            seen[0] |= lines
            run(*arguments)

        return watched

    for loop, _, machine_code in loops():
        lines = set()
        for one in {loop} | helpers_of(loop):
            code = one.__code__
            if code.co_filename in files:
                numbers = [line for *_, line in code.co_lines() if line]
                span = range(min(numbers), max(numbers) + 1)
                lines |= {(files[code.co_filename], line) for line in span}
        machine_code[0] = watch(machine_code[0], lines)

    class Fixtures:
        @pytest.hookimpl(wrapper=True)
        def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
            before, seen[0] = seen[0], set()
            try:
                return (yield)
            finally:
                of_fixture[fixturedef.argname] |= seen[0]
                seen[0] = before | seen[0]

    def too_long(*_: Any) -> None:
        raise TimeoutError("too long for a mutant")

    signal.signal(signal.SIGPROF, too_long)
    items[0].config.pluginmanager.register(Fixtures())
    threading.settrace(note_call)
    for item, after in zip(items, [*items[1:], None], strict=True):
        seen[0], runner.failed = set(), ""
        begin = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, MEASURE_SECONDS)
        sys.settrace(note_call)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if runner.failed:
            # It fails without a mutant, or takes too long: no mutant is run against it.
            reach.seconds[item.nodeid], reach.lines[item.nodeid] = -1.0, set()
            continue
        reach.seconds[item.nodeid] = round(time.process_time() - begin, 3)
        for fixture in item.fixturenames if hasattr(item, "fixturenames") else ():
            seen[0] |= of_fixture[fixture]
        reach.lines[item.nodeid] = seen[0]
    return reach
