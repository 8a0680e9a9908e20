"""The start of the command: what it imports, and Ctrl-C from its first line to its last."""

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


# The signal arrives at the import of a module, which an audit hook sees before it begins.
AT_IMPORT = """
import os, runpy, signal, sys
at = sys.argv.pop(1)
def watch(event, arguments):
    if event == "import" and arguments[0] == at:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(watch)
runpy.run_module("kpp.cli", run_name="__main__")
"""


@posix
@pytest.mark.parametrize(
    "module",
    [
        "kpp.cli.interrupts",
        "typer",
        "kpp.cli.running",
        "kpp.cli.app",
        "kpp.tables.fitting",
        "numpy",
        "scipy.sparse._csparsetools",  # compiled modules, which have their own ideas of errors
        "sklearn.tree._tree",
        "numba",
        "kpp.models",
    ],
)
def test_interruption_of_an_import(tmp_path, module):
    out = tmp_path / "m.kpp"
    done = python(AT_IMPORT, module, "fit", "iris", "--trees", 2, "--out", out, "--quiet")
    assert (done.returncode, done.stderr, done.stdout) == (130, LINE, "")
    assert not out.exists()


# It arrives where Python drops what is raised, becomes another error, or comes while threads work.
DURING_A_FIT = {
    "dropped": """
class Drops:
    def __del__(self):
        interrupt()
def work(*arguments):
    Drops()
    time.sleep(60)
""",
    "another error": """
def work(*arguments):
    try:
        interrupt()
    except KeyboardInterrupt:
        raise SystemError("a library's own words")
""",
    "threads": """
def work(*arguments):
    threading.Thread(target=time.sleep, args=(60,)).start()
    interrupt()
""",
    "twice": """
def work(*arguments):
    try:
        interrupt()
    finally:
        interrupt()
        time.sleep(60)
""",
    "waiting": """
def work(*arguments):
    threading.Timer(0.2, interrupt).start()
    threading.Event().wait(60)
""",
}
WORK = """
import os, runpy, signal, sys, threading, time
import kpp.tables.reading, kpp.cli.fit
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # the handler runs between two steps of Python
        pass
{work}
kpp.cli.fit.fit_table = work
runpy.run_module("kpp.cli", run_name="__main__")
"""


@posix
@pytest.mark.parametrize("kind", DURING_A_FIT)
def test_interruption_of_a_fit(tmp_path, kind):
    start = time.monotonic()
    code = WORK.format(work=DURING_A_FIT[kind])
    done = python(code, "fit", "iris", "--out", tmp_path / "m.kpp")
    assert (done.returncode, done.stderr, done.stdout) == (130, LINE, "")
    assert time.monotonic() - start < 55  # nothing was waited for
    assert list(tmp_path.iterdir()) == []


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
