"""Loading reads one file and runs nothing of it: seen in the source, and by Python's own audit."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from skrub import TableVectorizer

import kpp.io
from kpp import KPPRegressor
from kpp.io import save

FORBIDDEN_MODULES = {"pickle", "joblib", "marshal", "shelve", "dill", "cloudpickle", "runpy"}
FORBIDDEN_NAMES = {"eval", "exec", "compile", "__import__", "globals"}
FORBIDDEN_METHODS = {"__reduce__", "__reduce_ex__", "__setstate__", "find_class"}


def test_the_source_has_no_way_to_run_data():
    for file in Path(kpp.io.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name.partition(".")[0] for alias in node.names}
                names.add((getattr(node, "module", None) or "").partition(".")[0])
                assert not names & FORBIDDEN_MODULES, file
            assert not (isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES), file
            assert not (isinstance(node, ast.Attribute) and node.attr in FORBIDDEN_METHODS), file
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
                # The module of an entry of the table, and nothing else.
                assert file.name == "foreign.py"
                assert ast.unparse(node) == "import_module(self.module)"


def test_loading_opens_one_file_and_does_nothing_else(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=60),
            "colour": rng.choice(["red", "blue"], 60),
            "note": [f"note {i} {rng.integers(1000)}" for i in range(60)],
            "when": pd.date_range("2020-01-01", periods=60),
        }
    )
    model = make_pipeline(TableVectorizer(), KPPRegressor("boosted", n_estimators=2, alpha=1.0))
    path = save(model.fit(X, X["size"]), tmp_path / "m.kpp")
    # The first time Python imports and compiles the libraries; the second is the file alone.
    code = f"""
import json, sys
from kpp.io import load
load({str(path)!r})
events = []
sys.addaudithook(lambda name, args: events.append([name, str(args[0]) if args else ""]))
load({str(path)!r})
seen = list(events)
print(json.dumps(seen))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    events = json.loads(done.stdout)
    assert [argument for name, argument in events if name == "open"] == [str(path)]
    harmless = {"open", "object.__getattr__", "object.__setattr__", "builtins.id"}
    assert {name for name, _ in events} <= harmless
