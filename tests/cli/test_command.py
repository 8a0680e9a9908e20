"""The command as a whole: exit codes, streams, errors, interruption, terminals."""

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest
import typer
from cli_tables import HOSTILE

import kpp
from kpp.cli import BUILT_IN, main

COMMANDS = ["fit", "predict", "explain", "certify", "diagnose", "report", "info"]
COMMANDS += ["drift", "export", "geometry"]


def process(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "kpp.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
        timeout=120,
    )


def test_installed_command():
    command = shutil.which("kpp", path=str(sys.prefix) + "/bin") or shutil.which("kpp")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"kpp {kpp.__version__}"


@pytest.mark.parametrize("dataset", sorted(BUILT_IN))
def test_geometry(run, dataset):
    done = run("geometry", dataset, "--forest", "extra-trees", "--trees", 5)
    assert done.code == 0
    assert f"{dataset}, " in done.out
    assert "isometry         holds on 1000 pairs" in done.out


def test_a_failed_check_is_an_exit_code(run, monkeypatch):
    monkeypatch.setattr("kpp.geometry.isometry.IsometryCheck.holds", False)
    done = run("geometry", "iris", "--forest", "extra-trees", "--trees", 5)
    assert done.code == 1
    assert "isometry         FAILS" in done.out
    assert (
        run("geometry", "iris", "--forest", "extra-trees", "--trees", 5, "--json").data[
            "isometry_holds"
        ]
        is False
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["geometry", "irsi"], "Did you mean 'iris'?"),
        (
            ["geometry", "--forest", "extra-trees", "--trees", "1"],
            "--trees must be at least 2; got 1",
        ),
        (["fitt", "x.csv"], "No such command 'fitt'"),
        (["fit"], "Missing argument"),
        (["fit", "x.csv", "--tree", "3"], "--tree"),
        (["fit", "x.csv", "--trees", "many"], "Invalid value for '--trees'"),
        (["predict", "only.kpp"], "Missing argument"),
    ],
)
def test_wrong_arguments(run, arguments, message):
    done = run(*arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


@pytest.mark.parametrize("command", [*COMMANDS, "serve"])
def test_help(run, command):
    done = run(command, "--help")
    assert done.code == 0
    assert "Usage: kpp" in done.out
    assert f"Example: kpp {command} " in done.out
    assert command in run("--help").out


def test_every_example_of_the_help_is_a_call_that_the_command_takes():
    """Its options exist, and its arguments are as many as there should be."""
    from kpp.cli.app import app

    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        start, *arguments = shlex.split(command.epilog.removeprefix("Example: "))
        assert (start, arguments[0]) == ("kpp", name)
        command.make_context(name, arguments[1:])


def test_without_a_command_the_commands_are_listed(run):
    done = run()
    assert done.code == 2
    assert done.out == run("--help").out
    assert done.err == ""


def test_errors_have_a_traceback_only_if_asked_for(run, folder):
    plain = run("predict", folder / "reg.kpp", folder / "nope.csv")
    assert plain.code == 2
    assert len(plain.err.splitlines()) == 1
    for where in (0, 3):
        arguments = ["predict", folder / "reg.kpp", folder / "nope.csv"]
        arguments.insert(where, "--debug")
        done = run(*arguments)
        assert done.code == 2
        assert "Traceback" in done.err
        assert "UserError" in done.err


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("the sky\x1b[2J fell"), r"unexpected RuntimeError: the sky\x1b[2J fell"),
        (MemoryError(), "out of memory"),
        (ImportError("needs jinja2: pip install 'kpp[report]'"), "pip install 'kpp[report]'"),
        (ValueError("a check of the library"), "a check of the library"),
    ],
)
def test_whatever_happens_is_said_in_a_line(run, folder, monkeypatch, error, message):
    def fail(*arguments, **settings):
        raise error

    monkeypatch.setattr("kpp.cli.predict.predictions", fail)
    done = run("predict", folder / "reg.kpp", folder / "reg.csv", "-q")
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "typer.Abort"])
def test_both_ways_of_interruption(run, folder, monkeypatch, error):
    import typer

    def interrupt(*arguments, **settings):
        raise KeyboardInterrupt if error == "KeyboardInterrupt" else typer.Abort

    monkeypatch.setattr("kpp.cli.predict.predictions", interrupt)
    done = run("predict", folder / "reg.kpp", folder / "reg.csv", "-q")
    assert (done.code, done.err, done.out) == (130, "kpp: interrupted.\n", "")


def test_results_and_remarks_do_not_mix(run, folder, tmp_path):
    out = tmp_path / "m.kpp"
    fitting = ["--target", "label", "--forest", "extra-trees", "--trees", "5", "--out", out]
    done = process("fit", folder / "cls.csv", *fitting, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["target"] == "label"
    assert "Task: classification" in done.stderr
    assert "growing" not in done.stderr  # no bars in pipes
    done = run("predict", out, folder / "nope.csv")
    assert (done.code, done.out) == (2, "")
    assert "Did you mean" in done.err or "Check the path" in done.err


def test_standard_input(run, folder):
    with open(folder / "reg.csv") as file:
        done = subprocess.run(
            [sys.executable, "-m", "kpp.cli", "predict", str(folder / "reg.kpp"), "-"],
            stdin=file,
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == run("predict", folder / "reg.kpp", folder / "reg.csv").out
    assert "that do not count: 'const', 'empty'." in done.stderr  # the id has its use


# Between two trees, and not after some time: where the signal arrives must not hang on the machine.
INTERRUPTED = """
import os, runpy, signal
from sklearn.tree._classes import BaseDecisionTree
grown, grow = [], BaseDecisionTree._fit
def _fit(self, *arguments, **options):
    grown.append(1)
    if len(grown) == 100:
        os.kill(os.getpid(), signal.SIGINT)
    return grow(self, *arguments, **options)
BaseDecisionTree._fit = _fit
runpy.run_module("kpp.cli", run_name="__main__")
"""


@pytest.mark.skipif(os.name == "nt", reason="signals are sent in another way on Windows")
def test_interruption(folder, tmp_path):
    out = tmp_path / "m.kpp"
    out.write_bytes(b"old")
    command = [
        "fit",
        "digits",
        "--forest",
        "extra-trees",
        "--trees",
        "400",
        "--jobs",
        "1",
        "--out",
        str(out),
        "--debug",
    ]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    first, second, *_ = done.stderr.splitlines()
    assert "will be replaced" in first
    assert "Task" in second  # it has begun
    assert done.returncode == 130, done.stderr
    assert "kpp: interrupted." in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert out.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.skipif(os.name == "nt", reason="no such pipes on Windows")
def test_a_reader_that_leaves(folder):
    explain = [sys.executable, "-m", "kpp.cli", "explain", folder / "reg.kpp", folder / "reg.csv"]
    with subprocess.Popen(explain, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.readline()
        running.stdout.close()
        errors = running.stderr.read().decode()
    assert "Traceback" not in errors
    assert "Error" not in errors


def letters(text):
    return sorted("".join(text.split()))


@pytest.mark.parametrize("width", [20, 40, 200])
def test_terminals_of_any_width_and_no_colour(run, folder, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    for arguments in (
        ["info", folder / "cls.kpp"],
        ["explain", folder / "cls.kpp", folder / "cls.csv", "--row", 1],
        ["diagnose", folder / "cls.kpp", folder / "cls.csv"],
    ):
        done = run(*arguments)
        assert done.code == 0
        assert "\x1b" not in done.out + done.err
        assert max(map(len, done.out.splitlines())) <= width
    # A folded table has all of its text.
    folded = run("info", folder / "cls.kpp").out
    monkeypatch.setenv("COLUMNS", "300")
    assert letters(folded) == letters(run("info", folder / "cls.kpp").out)


def test_hostile_text_is_not_markup(run, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = run("explain", folder / "cls.kpp", folder / "cls.csv", "--row", 1)
    shown = HOSTILE.replace("\x1b", r"\x1b")
    assert shown in done.out
    assert HOSTILE not in done.out
    done = run("fit", folder / "cls.csv", "--target", HOSTILE + "?")
    assert shown in done.err
    assert "\x1b[31m" not in done.err


def test_without_typer(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    assert main(["fit", "iris"]) == 2
    assert "pip install 'kpp[cli]'" in capsys.readouterr().err
    assert main([]) == 2
    assert main(["--version"]) == 0
    assert main(["geometry", "iris", "--forest", "extra-trees", "--trees", "5"]) == 0
    out = capsys.readouterr().out
    assert kpp.__version__ in out
    assert "isometry         holds" in out
    with pytest.raises(SystemExit, match="2"):
        main(["geometry", "iris", "--forest", "extra-trees", "--trees", "1"])


def test_without_skrub(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "skrub", None)
    done = run("fit", "iris", "-o", tmp_path / "m.kpp")
    assert done.code == 2
    assert "pip install 'kpp[cli]'" in done.err
    assert not list(tmp_path.iterdir())


def test_a_terminal_gets_bars(folder, tmp_path):
    """On a terminal of its own, progress is drawn there and nowhere else."""
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    fit = [
        "fit",
        "iris",
        "--forest",
        "extra-trees",
        "--trees",
        "20",
        "--out",
        str(tmp_path / "m.kpp"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "kpp.cli", *fit],
        stderr=follower,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(follower)
    drawn = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert done.returncode == 0
    assert "growing trees [" in drawn
    assert "growing" not in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="signals are sent in another way on Windows")
def test_an_interruption_while_it_is_still_importing():
    """The modules of the commands are imported where an interruption is answered."""
    code = (
        "import sys, importlib.abc\n"
        "from kpp.cli import main\n"
        "assert 'kpp.cli.console' not in sys.modules\n"
        "class Stop(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'kpp.cli.running':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "sys.exit(main(['info', 'x.kpp']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr, done.stdout) == (130, "kpp: interrupted.\n", "")
