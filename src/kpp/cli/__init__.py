"""The ``kpp`` command: a table in, a model, predictions, explanations and a report out."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # what only checkers need would make the start longer
    from collections.abc import Sequence
    from typing import Any

__all__ = ["BUILT_IN", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the command line, by default; the process is the command's own then, and ends on
        Ctrl-C.

    Returns
    -------
    code : int
        0: done. 1: a check failed, or there is a finding of the level that was asked for. 2: the
        arguments, or what is in a file, cannot be used. 130: interrupted.

    Examples
    --------
    >>> from kpp.cli import main
    >>> main(["--version"])  # doctest: +ELLIPSIS
    kpp ...
    0
    """
    try:
        # Whatever takes time to import is imported from here on, where an interruption is answered.
        return _main() if arguments is None else _run(list(arguments))
    except KeyboardInterrupt:
        print("kpp: interrupted.", file=sys.stderr)
        return 130


def _main() -> int:
    """The command in a process of its own."""
    from kpp.cli import interrupts

    interrupts.answer_interrupts()
    code = _run(sys.argv[1:])
    if code == interrupts.INTERRUPTED:
        interrupts.end()  # threads may still be at work: they are not waited for
    interrupts.end_on_interrupts()
    return code


def _run(given: list[str]) -> int:
    if given == ["--version"]:
        from kpp import __version__

        print(f"kpp {__version__}")
        return 0
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        return _without_typer(given, error.name or "typer")
    from kpp.cli.running import run

    return run(given)


def __getattr__(name: str) -> Any:
    """BUILT_IN, which imports scikit-learn's data sets, when it is asked for."""
    if name == "BUILT_IN":
        from kpp.tables.builtin import BUILT_IN

        return BUILT_IN
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _without_typer(given: list[str], missing: str) -> int:
    """`kpp geometry` needs nothing but the library; the rest is an extra."""
    if given[:1] == ["geometry"]:
        from kpp.cli.geometry import run_plain

        return run_plain(given[1:])
    print(
        f"kpp: the command needs {missing}, which cannot be imported: pip install 'kpp[cli]'\n"
        "Without it there are kpp --version and kpp geometry.",
        file=sys.stderr,
    )
    return 2
