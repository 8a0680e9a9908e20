"""Try an installed package: ``PYTHON .ci/installed.py VERSION``, by the environment's own Python.

The README's example, ``kpp report breast_cancer``, and models that were saved by 0.1. Nothing of
the checkout is on the path: it runs in a folder of its own.
"""

from __future__ import annotations

import doctest
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn

import kpp

ROOT = Path(__file__).resolve().parents[1]
SAVED = ROOT / "tests/io/data"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def check_readme() -> None:
    """The examples of the README; the figures in them are those of the newest libraries."""
    found = doctest.testfile(str(ROOT / "README.md"), module_relative=False, optionflags=FLAGS)
    assert found.attempted > 5, "the README has no example"
    assert found.failed == 0, f"{found.failed} lines of the README's example say something else"


def check_report() -> None:
    """The README's command."""
    command = Path(sys.executable).parent / "kpp"
    subprocess.run([command, "report", "breast_cancer"], check=True, stdout=subprocess.DEVNULL)
    (page,) = Path.cwd().glob("*.html")
    text = page.read_text(encoding="utf-8")
    assert text.rstrip().endswith("</html>"), page
    assert len(text) > 100_000, f"{page}: {len(text)} characters"


def check_saved() -> None:
    """Models of 0.1, with the preparations of that time, predict what they predicted."""
    plain = json.loads((SAVED / "release01_classifier.json").read_text())
    model = load("release01_classifier.kpp")
    given = model.predict_proba(np.array(plain["rows"]))
    assert np.abs(given - plain["probability"]).max() < 1e-12
    # The steps of the other are skrub's and scikit-learn's of that time: they go to newer versions.
    if tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 9):
        plain = json.loads((SAVED / "release01_regressor.json").read_text())
        given = load("release01_regressor.kpp").predict(pd.DataFrame(plain["rows"]))
        assert np.allclose(given, plain["prediction"], rtol=1e-12)


def load(name: str) -> object:
    """Load a file; that its steps are of other versions is said by a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kpp.load(SAVED / name)


def main(version: str) -> None:
    """All of it."""
    here = Path(kpp.__file__).resolve()
    assert here.is_relative_to(Path(sys.prefix).resolve()), f"kpp is not the installed one: {here}"
    assert kpp.__version__ == version, f"installed {kpp.__version__}, not {version}"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_readme()
        check_report()
        check_saved()
        os.chdir(ROOT)
    print(f"kpp {version} works: the README's example, the report, models of 0.1")


if __name__ == "__main__":
    warnings.simplefilter("default")
    main(sys.argv[1])
