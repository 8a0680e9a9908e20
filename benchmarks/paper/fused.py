"""scikit-learn's trees with fused multiply-adds, as its builds for arm64 processors have them.

A processor with fused multiply-adds computes ``a * b + c`` with one rounding instead of two, where
the compiler lets it. Builds for arm64 use them, builds for x86-64 do not. In regression this
changes the last bits of the impurity of a node; a node whose targets are all equal then counts as
pure or is split once more, which moves the random numbers of all that follow: the trees are others.

    pip download --no-deps --no-binary scikit-learn scikit-learn==1.7.2   # and unpack it
    pip install --no-deps --target PLAIN scikit-learn==1.7.2
    python -m paper.fused --source scikit_learn-1.7.2 --package PLAIN --out FUSED
    PYTHONPATH=FUSED python -m paper conventions --label fused --data-dir DATA --out results/paper

Needs Cython, g++ and an x86-64 processor with fused multiply-adds. Six modules are compiled anew;
the rest of the package is the installed one.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np

MODULES = (
    "tree/_criterion",
    "tree/_splitter",
    "tree/_partitioner",
    "tree/_tree",
    "tree/_utils",
    "ensemble/_gradient_boosting",
)
DIRECTIVES = (
    "language_level=3,boundscheck=False,wraparound=False,initializedcheck=False,"
    "nonecheck=False,cdivision=True"
)
FUSED = ("-mfma", "-mavx2", "-ffp-contract=fast")
# Its result passes through an empty instruction, so that no product is fused into what follows.
APART = (
    "\nstatic inline double square_apart(double x, double) "
    '{ double r = x * x; __asm__ volatile("" : "+x"(r)); return r; }\n'
)


def keep_squares_apart(source: str) -> tuple[str, int]:
    """Replace ``pow(x, 2.0)`` by a square that is not fused, and say how often.

    clang, which builds the packages for macOS, fuses within an expression, before it knows that a
    call of pow is a product. g++ turns the call into a product first and fuses that too.
    """
    call = re.compile(r"(?<![\w:])pow\((?=[^;]*?\)2\.0\)\))")
    found, count = call.subn("square_apart(", source)
    head = '#include "Python.h"'
    if count and head not in found:
        raise ValueError("The file does not include Python.h.")
    return found.replace(head, head + APART, 1), count


def build(source: Path, package: Path, out: Path, *, squares_apart: bool = True) -> None:
    """Copy the installed package and compile its trees with fused multiply-adds.

    Parameters
    ----------
    source : path
        Unpacked source distribution.
    package : path
        Folder that holds the installed package ``sklearn`` of the same version.
    out : path
        Folder for the result, to be put on PYTHONPATH.
    squares_apart : bool
        Whether to fuse as clang does; otherwise as g++ does.
    """
    shutil.copytree(package, out, dirs_exist_ok=True)
    work = out / "generated"
    work.mkdir(exist_ok=True)
    headers = [f"-I{path}" for path in (sysconfig.get_paths()["include"], np.get_include())]
    for module in MODULES:
        text = work / f"{Path(module).name}.cpp"
        cython = ["cython", "-3", "--cplus", "-X", DIRECTIVES, "-I", "."]
        subprocess.run(
            [*cython, f"sklearn/{module}.pyx", "-o", str(text.resolve())], cwd=source, check=True
        )
        if squares_apart and module == "tree/_criterion":
            changed, count = keep_squares_apart(text.read_text())
            if count != 3:
                raise ValueError(f"{count} squares instead of 3: not the expected version.")
            text.write_text(changed)
        target = out / "sklearn" / (module + sysconfig.get_config_var("EXT_SUFFIX"))
        own = [f"-I{source / 'sklearn' / part}" for part in ("tree", "utils", "ensemble")]
        flags = ["-shared", "-fPIC", "-O2", "-fno-strict-aliasing", *FUSED, *headers, *own]
        subprocess.run(["g++", *flags, str(text), "-o", str(target)], check=True)


def main() -> None:
    """Build."""
    parser = argparse.ArgumentParser(prog="python -m paper.fused", description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--package", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--squares-fused", action="store_true", help="fuse as g++ does")
    given = parser.parse_args()
    build(given.source, given.package, given.out, squares_apart=not given.squares_fused)


if __name__ == "__main__":
    main()
