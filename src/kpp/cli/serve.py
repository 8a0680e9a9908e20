"""`kpp serve`: a model behind HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kpp.cli.console import Terminal, clean
from kpp.serve.running import run_service
from kpp.serve.settings import LOOPBACK, TOKEN_VARIABLE, Settings
from kpp.tables.errors import UserError

SHORTEST_TOKEN = 16


def run_serve(model: Path, *, token_file: Path | None, terminal: Terminal, **given: Any) -> int:
    """Serve a model until a signal ends it."""
    token = read_token(token_file)
    settings = Settings(model, token=token, **given)
    if settings.host not in (LOOPBACK, "localhost", "::1") and token is None:
        terminal.warn(
            f"{settings.host} can be reached from other machines, and no token is asked for: give "
            f"--token-file, or {TOKEN_VARIABLE}."
        )

    def announce(address: str) -> None:
        print(f"Serving {clean(model.name)} on {address}", flush=True)

    return run_service(settings, announce)


def read_token(path: Path | None) -> str | None:
    """The token of a file or of the environment: on the command line everybody would see it."""
    if path is not None:
        try:
            token = path.read_text("utf-8").strip()
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    elif TOKEN_VARIABLE in os.environ:
        token = os.environ[TOKEN_VARIABLE].strip()
    else:
        return None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise UserError(
            f"A token has at least {SHORTEST_TOKEN} characters, ASCII without spaces or others "
            "that cannot be seen. This makes one: python3 -c 'import secrets; "
            "print(secrets.token_urlsafe())'"
        )
    return token
