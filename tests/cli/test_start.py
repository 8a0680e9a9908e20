"""The start of the command: what it imports, and Ctrl-C from its first line to its last."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from kpp.cli import main, options
from kpp.models import regimes

COMMANDS = ["fit", "predict", "explain", "certify", "diagnose", "report", "info", "geometry"]
COMMANDS += ["serve"]
HEAVY = ["numpy", "scipy", "sklearn", "pandas", "numba", "joblib", "skrub", "pyarrow", "matplotlib"]
LINE = "kpp: interrupted.\n"
posix = pytest.mark.skipif(os.name == "nt", reason="signals are sent in another way on Windows")


def python(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


IMPORTED = """
import sys
from kpp.cli import main
for command in sys.argv[2:]:
    assert main(command.split()) == 0
print(*(name for name in sys.argv[1].split() if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("commands", "heavy"),
    [
        (["--version"], [*HEAVY, "typer", "rich", "kpp.cli.running"]),
        (["--help", *(f"{command} --help" for command in COMMANDS)], [*HEAVY, "kpp.models"]),
    ],
    ids=["version", "help"],
)
def test_nothing_heavy_is_imported(commands, heavy):
    done = python(IMPORTED, " ".join(heavy), *commands)
    assert (done.returncode, done.stderr) == (0, "\n")


@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_the_help_of_a_command_is_the_whole_help(capsys, asked):
    """It is taken by a shorter way, which must lead to the same page."""
    assert main(["fit", asked]) == 0
    short = capsys.readouterr().out
    assert main(["fit", asked, "--quiet"]) == 0
    assert capsys.readouterr().out == short
    assert "kpp fit" in short
    assert "-h " in short


def test_regimes_have_their_names():
    named = {
        regime.name
        for regime in (regimes.Shared, regimes.Honest, regimes.CrossFit, regimes.CrossValidated)
    }
    assert {choice.value for choice in options.Regime} == named


# The signal arrives at the import of a module, which an audit hook sees before it begins. It goes
# to a copy of the process, made there, which ends by it; the first one goes on to the next module.
IN_A_COPY = """
import json, os, runpy, signal, sys, threading, time
from pathlib import Path
folder = Path(sys.argv.pop(1))
def in_a_copy(name):
    child = os.fork()
    if child == 0:
        for stream, number in (("stdout", 1), ("stderr", 2)):
            file = os.open(folder / f"{name}.{stream}", os.O_WRONLY | os.O_CREAT)
            os.dup2(file, number)
        return True
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    (folder / f"{name}.code").write_text(str(code))
    return False
"""
AT_IMPORT = """
modules = json.loads(sys.argv.pop(1))
def watch(event, arguments):
    if event == "import" and arguments[0] in modules:
        modules.remove(arguments[0])
        if in_a_copy(arguments[0]):
            modules.clear()
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(watch)
runpy.run_module("kpp.cli", run_name="__main__")
"""
MODULES = [
    "kpp.cli.interrupts",
    "typer",
    "kpp.cli.running",
    "kpp.cli.app",
    "kpp.tables.fitting",
    "numpy",
    "scipy.sparse._csparsetools",  # compiled modules, which have their own ideas of errors
    "sklearn.tree._tree",
    "kpp.models",
]


def ends_of_copies(folder, code, *arguments):
    """Run a program that makes copies of itself: code, errors and output of each, by its name."""
    done = python("import warnings; warnings.simplefilter('ignore')" + code, folder, *arguments)
    ends = {
        path.name.removesuffix(".code"): (
            int(path.read_text()),
            path.with_suffix(".stderr").read_text(),
            path.with_suffix(".stdout").read_text(),
        )
        for path in folder.glob("*.code")
    }
    return ends, done


@posix
def test_interruption_of_an_import(tmp_path):
    copies, out = tmp_path / "copies", tmp_path / "m.kpp"
    copies.mkdir()
    fit = ["fit", "iris", "--forest", "extra-trees", "--trees", 2, "--out", out, "--quiet"]
    # The first process goes on to the end.
    ends, done = ends_of_copies(copies, IN_A_COPY + AT_IMPORT, json.dumps(MODULES), *fit)
    assert ends == dict.fromkeys(MODULES, (130, LINE, ""))
    assert done.returncode == 0, done.stderr
    assert sorted(tmp_path.iterdir()) == [copies, out]


IN_ANY_THREAD = """
import os, runpy, signal, sys
def watch(event, arguments):
    if event == "import" and arguments[0] == "numba":
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(watch)
runpy.run_module("kpp.cli", run_name="__main__")
"""


@posix
def test_interruption_of_an_import_in_any_thread(tmp_path):
    """The first loop is compiled by whichever of the threads comes first: no copy has them all."""
    out = tmp_path / "m.kpp"
    done = python(IN_ANY_THREAD, "fit", "iris", "--trees", 2, "--out", out, "--quiet")
    assert (done.returncode, done.stderr, done.stdout) == (130, LINE, "")
    assert not out.exists()


# It arrives where Python drops what is raised, becomes another error, or comes while threads work.
DURING_A_FIT = """
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # the handler runs between two steps of Python
        pass
class Drops:
    def __del__(self):
        interrupt()
def dropped():
    Drops()
    time.sleep(60)
def another_error():
    try:
        interrupt()
    except KeyboardInterrupt:
        raise SystemError("a library's own words")
def threads():
    threading.Thread(target=time.sleep, args=(60,)).start()
    interrupt()
def twice():
    try:
        interrupt()
    finally:
        interrupt()
        time.sleep(60)
def waiting():
    threading.Timer(0.2, interrupt).start()
    threading.Event().wait(60)
def work(*arguments):
    for kind in (dropped, another_error, threads, twice, waiting):
        if in_a_copy(kind.__name__):
            return kind()
    raise MemoryError
import kpp.tables.reading, kpp.cli.fit
kpp.cli.fit.fit_table = work
runpy.run_module("kpp.cli", run_name="__main__")
"""


@posix
def test_interruption_of_a_fit(tmp_path):
    copies = tmp_path / "copies"
    copies.mkdir()
    start = time.monotonic()
    ends, done = ends_of_copies(
        copies, IN_A_COPY + DURING_A_FIT, "fit", "iris", "--out", tmp_path / "m.kpp"
    )
    kinds = ["dropped", "another_error", "threads", "twice", "waiting"]
    assert ends == dict.fromkeys(kinds, (130, LINE, ""))
    assert done.returncode == 2
    assert "out of memory" in done.stderr  # where no signal came
    assert time.monotonic() - start < 55  # nothing was waited for
    assert list(tmp_path.iterdir()) == [copies]


@posix
def test_interruption_at_the_end():
    """When all is done, the interpreter still has its own end to do."""
    code = (
        "import atexit, os, signal, sys\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "from kpp.cli import main\n"
        "sys.argv = ['kpp', '--help']\n"
        "sys.exit(main())\n"
    )
    done = python(code)
    assert (done.returncode, done.stderr) == (130, LINE)
    assert "Usage: kpp" in done.stdout


@posix
def test_a_signal_that_is_ignored_stays_ignored():
    """As for a job in the background of a shell."""
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from kpp.cli import main\n"
        "sys.argv = ['kpp', '--help']\n"
        "sys.addaudithook(lambda event, arguments: event == 'import' and arguments[0] == 'typer'\n"
        "    and os.kill(os.getpid(), signal.SIGINT))\n"
        "sys.exit(main())\n"
    )
    done = python(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: kpp" in done.stdout


@posix
def test_the_installed_command_from_outside(tmp_path):
    """A real Ctrl-C, sent from another process once the fit has begun."""
    command = [sys.executable, "-m", "kpp.cli", "fit", "digits", "--trees", "3000", "--out"]
    with subprocess.Popen(
        [*command, str(tmp_path / "m.kpp")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        first = running.stderr.readline()
        assert first.startswith("Task: classification")
        running.send_signal(signal.SIGINT)
        rest, out = running.stderr.read(), running.stdout.read()
    assert (running.returncode, rest, out) == (130, LINE, "")
    assert list(tmp_path.iterdir()) == []
