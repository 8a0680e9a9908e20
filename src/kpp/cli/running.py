"""Running a command: from arguments to an exit code, and errors to a line or two."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress

import typer

from kpp.cli.console import clean
from kpp.cli.interrupts import INTERRUPTED, LINE, arrived
from kpp.tables.errors import UserError

OK, UNUSABLE = 0, 2


def run(given: list[str]) -> int:
    """Run the command with the given arguments; return its exit code."""
    from kpp.cli.app import HELP, app

    end = given.index("--") if "--" in given else len(given)
    debug = "--debug" in given[:end]
    arguments = [a for a in given[:end] if a != "--debug"] + given[end:]
    if not arguments:
        # What there is to ask for, and the exit code of a call that lacks its command.
        return run(["--help"]) or UNUSABLE
    if arguments[:1] == ["--version"]:
        from kpp.cli import main

        return main(["--version"])
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character shows its code instead of failing.
        with suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        command, name = typer.main.get_command(app), "kpp"
        own = getattr(command, "commands", {}).get(arguments[0]) if arguments else None
        if own is not None and arguments[1:] in (["--help"], ["-h"]):
            # Straight to it: to parse the options before a command takes longer than its help.
            command, name, arguments = own, f"kpp {arguments[0]}", arguments[1:]
        # A report says how it was asked for.
        settings = {**HELP, "obj": arguments}
        code = command.main(args=arguments, prog_name=name, standalone_mode=False, **settings)
        sys.stdout.flush()
    except BrokenPipeError:
        return _no_reader()
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except SystemExit as end_of_it:  # typer's own way out of a broken pipe
        return _no_reader() if end_of_it.code == 1 else UNUSABLE
    except Exception as error:
        # Compiled code and other libraries may have made another error of it.
        return _interrupted() if arrived() else _failed(error, arguments, debug)
    if code == INTERRUPTED:  # newer typers give the code, older ones raise Abort
        return _interrupted()
    return int(code or OK)


def _failed(error: Exception, arguments: list[str], debug: bool) -> int:
    if debug:
        traceback.print_exc()
        return UNUSABLE
    if isinstance(error, UserError):
        return _say(str(error), UNUSABLE)
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # click's, and typer's
        message = str(error.format_message()).rstrip(".")
        return _say(f"{message}. Try kpp {_command(arguments)}--help.", UNUSABLE)
    if isinstance(error, MemoryError):
        return _say("out of memory: use fewer rows or fewer trees.", UNUSABLE)
    # Checks of the library speak to its users already.
    if isinstance(error, ImportError | ValueError | TypeError | ArithmeticError | OSError):
        return _say(f"{error} (--debug shows where.)", UNUSABLE)
    kind = type(error).__name__
    return _say(f"unexpected {kind}: {error} (--debug shows where.)", UNUSABLE)


def _command(arguments: list[str]) -> str:
    first = next((a for a in arguments if not a.startswith("-")), "")
    return f"{clean(first)} " if first.isalpha() else ""


def _say(text: str, code: int) -> int:
    with suppress(BrokenPipeError):
        print(f"kpp: {clean(text)}", file=sys.stderr)
    return code


def _interrupted() -> int:
    with suppress(BrokenPipeError):
        print(LINE, file=sys.stderr)
    return INTERRUPTED


def _no_reader() -> int:
    """The reader of a pipe has left, as `head` does: nothing went wrong here."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    return OK
