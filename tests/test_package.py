"""The public surface, the import, and the compiled loops' cache."""

import ast
import importlib
import inspect
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from numpydoc_lite import sections

import kpp
import kpp.forest
import kpp.geometry
import kpp.scores
import kpp.solvers
from kpp._compile import compiled, loop_helper, loop_tuple
from kpp._parallel import blocks_of, run_blocks

PUBLIC = [
    "AdditiveForest",
    "Attribution",
    "Bound",
    "BoundReport",
    "Certificate",
    "Comparison",
    "DataChecks",
    "Diagnostics",
    "Drift",
    "Forest",
    "Interactions",
    "KPPClassifier",
    "KPPEmbedding",
    "KPPRegressor",
    "PartitionOracles",
    "RawCertificate",
    "RobustnessCurve",
    "RoutedRows",
    "Segments",
    "audit",
    "bound_path",
    "certify",
    "certify_raw",
    "check_data",
    "collapse",
    "compare",
    "diagnose",
    "drift",
    "explain",
    "explain_distance",
    "explain_interactions",
    "explain_rules",
    "explain_training_rows",
    "half_forest_discrepancy",
    "kernel",
    "leave_one_out",
    "load",
    "partition_oracles",
    "path_distance",
    "report",
    "risk_bounds",
    "robustness_curve",
    "save",
    "segments",
    "to_onnx",
    "to_treelite",
]
# Results are made by a function, whose docstring has the example.
RESULTS = [
    "AdditiveForest",
    "Attribution",
    "Bound",
    "BoundReport",
    "Certificate",
    "Comparison",
    "DataChecks",
    "Diagnostics",
    "Drift",
    "PartitionOracles",
    "RawCertificate",
    "RobustnessCurve",
]


def test_public_names():
    assert sorted(kpp.__all__) == sorted(PUBLIC)
    assert all(hasattr(kpp, name) for name in kpp.__all__)


@pytest.mark.parametrize(
    "module",
    [
        kpp,
        kpp.bounds,
        kpp.certificates,
        kpp.diagnostics,
        kpp.explanations,
        kpp.export,
        kpp.forest,
        kpp.geometry,
        kpp.io,
        kpp.reports,
        kpp.scores,
        kpp.solvers,
    ],
    ids=lambda m: m.__name__,
)
def test_docstrings_name_the_parameters(module):
    for name in module.__all__:
        thing = getattr(module, name)
        if isinstance(thing, type) and issubclass(thing, Exception):
            continue  # they take a message
        documented = sections(thing)
        signature = inspect.signature(thing)
        expected = [
            p for p in signature.parameters if p not in ("self", "args", "kwargs") and p[0] != "_"
        ]
        assert documented == expected, name


@pytest.mark.parametrize("name", sorted({*PUBLIC} - {*RESULTS}))
def test_public_docstrings_have_an_example(name):
    assert ">>> " in inspect.getdoc(getattr(kpp, name))


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )


def typed_names():
    """Public name -> room, as checkers and editors read it."""
    (block,) = (
        node
        for node in ast.parse(inspect.getsource(kpp)).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    )
    return {
        (node.module, alias.asname or alias.name) for node in block.body for alias in node.names
    }


def test_checkers_are_told_the_names_that_are_imported():
    names = {(f"kpp.{room}", name) for name, room in kpp._ROOM_OF.items()}
    assert typed_names() == names
    assert sorted(kpp._ROOM_OF) == sorted(kpp.__all__)
    for name, room in kpp._ROOM_OF.items():
        module = importlib.import_module(f"kpp.{room}")
        assert getattr(kpp, name) is getattr(module, name)
        assert name in module.__all__
    assert {*kpp.__all__, *kpp._ROOMS} <= set(dir(kpp))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = kpp.no_such_name


def test_imports_bring_in_what_is_used_and_no_more():
    """The package itself nothing; its names nothing optional; pictures come with the first."""
    # Whatever scikit-learn itself imports is already there.
    code = """
import sys
before = set(sys.modules)
import kpp
print(sorted(set(sys.modules) - before))
assert set(kpp.__all__) <= set(dir(kpp))
import sklearn.ensemble
before = set(sys.modules)
assert kpp.io.describe is kpp.io.loading.describe  # a room without an import of its own
from kpp import *
print(KPPRegressor.__module__, "kpp.models" in set(sys.modules) - before)
optional = {"numba", "pandas", "matplotlib", "polars", "typer", "rich", "shap", "jinja2", "skrub",
            "onnx", "skl2onnx", "treelite"}
print(sorted(optional & (set(sys.modules) - before)))
from kpp.forest import Tree
stump = Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0] * 3, threshold=[0.0] * 3)
forest = Forest.from_trees([stump], n_features=1)
print("kpp.views" in sys.modules, "leaves<" in forest._repr_html_(), "kpp.views" in sys.modules)
"""
    done = run_python(code)
    assert done.stdout.splitlines() == [
        "['kpp']",
        "kpp.models.regressor True",
        "[]",
        "False True True",
    ], done.stderr


def test_an_unwritable_cache_does_not_break_anything(tmp_path):
    # No folder beside the file, none in the home, none by name: numba finds no place to cache.
    code = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []
import numpy as np
from kpp.forest import Forest, Tree
stump = Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0] * 3, threshold=[0.0] * 3)
print(Forest.from_trees([stump], n_features=1).apply([[0.0], [1.0]]).ravel().tolist())
"""
    done = run_python(code)
    assert done.stdout.strip() == "[1, 2]", done.stderr


def test_other_errors_of_compilation_are_not_hidden():
    @compiled("in f8[]; out f8[]")
    def loop(x, out):
        out[0] = x.no_such_thing

    with pytest.raises(Exception, match="no_such_thing"):
        loop(np.zeros(1), np.zeros(1))


def test_loops_take_one_type_only():
    @compiled("in f8[]; out f8[]")
    def double(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i]

    out = np.empty(3)
    read_only = np.arange(3.0)
    read_only.flags.writeable = False
    double(read_only, out)
    assert out.tolist() == [0, 2, 4]
    with pytest.raises(TypeError):
        double(np.arange(3, dtype=np.int64), out)
    with pytest.raises(TypeError):
        double(np.arange(6.0)[::2], out)


@loop_helper
def plus_one(x):
    return x + 1.0


@loop_helper
def plus_two(x):
    return plus_one(plus_one(x))


@loop_tuple("f8; in f8[]")
class Shift(NamedTuple):
    by: float
    values: np.ndarray


def test_loops_call_helpers_and_take_tuples():
    @compiled("Shift; out f8[]")
    def shifted(shift, out):
        for i in range(out.size):
            out[i] = plus_two(shift.values[i]) + shift.by

    values, out = np.arange(3.0), np.empty(3)
    values.flags.writeable = False
    shifted(Shift(10.0, values), out)
    assert out.tolist() == [12, 13, 14]
    assert plus_two(1) == 3  # in Python it is what it was
    with pytest.raises(TypeError):
        shifted(Shift(10.0, np.arange(3.0)), out)  # a tuple's arrays are not converted


HELPER = """
from kpp._compile import loop_helper
@loop_helper
def change(x):
    return x + {step}
"""
LOOP = """
from kpp._compile import compiled
from helper_module import change
@compiled("in f8[]; out f8[]")
def loop(x, out):
    out[0] = change(x[0])
"""
CALL = """
import sys, numpy as np
from numba.core import event
import loop_module
with event.install_recorder("numba:compile") as compiling:
    out = np.empty(1)
    loop_module.loop(np.zeros(1), out)
print(out[0], len(compiling.buffer) > 0)
"""


def test_machine_code_is_kept_until_a_loop_or_its_helper_changes(tmp_path):
    def call(step):
        (tmp_path / "helper_module.py").write_text(HELPER.format(step=step))
        done = run_python(
            CALL,
            PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]),
            NUMBA_CACHE_DIR=str(tmp_path / "cache"),
            # Python's own would be that of a helper of the same size, written in the same second.
            PYTHONDONTWRITEBYTECODE="1",
        )
        return done.stdout.split() or done.stderr

    (tmp_path / "loop_module.py").write_text(LOOP)
    assert call(1.0) == ["1.0", "True"]
    assert call(1.0) == ["1.0", "False"]
    assert call(2.0) == ["2.0", "True"]
    assert call(2.0) == ["2.0", "False"]


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 7, -1])
def test_every_block_runs_once(n_jobs):
    seen = []
    run_blocks(seen.append, 20, n_jobs)
    assert sorted(seen) == list(range(20))


def test_errors_in_a_block_come_through():
    def work(block):
        if block == 3:
            raise RuntimeError("block 3")

    with pytest.raises(RuntimeError, match="block 3"):
        run_blocks(work, 8, 2)


def test_pools_survive_a_fork():
    code = """
import os
from kpp._parallel import run_blocks
run_blocks(lambda b: None, 4, 2)
child = os.fork()
if child == 0:
    seen = []
    run_blocks(seen.append, 4, 2)
    os._exit(0 if sorted(seen) == [0, 1, 2, 3] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    if not hasattr(__import__("os"), "fork"):
        pytest.skip("no fork on this system")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "0", done.stderr


@pytest.mark.parametrize(("n_items", "n_blocks"), [(0, 4), (1, 4), (10, 4), (16, 16), (7, 1)])
def test_blocks_cover_everything_once(n_items, n_blocks):
    blocks = blocks_of(n_items, n_blocks)
    covered = [i for first, last in blocks for i in range(first, last)]
    assert covered == list(range(n_items))
    lengths = [last - first for first, last in blocks]
    assert max(lengths) - min(lengths) <= 1
    assert len(blocks) <= n_blocks
