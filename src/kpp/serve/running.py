"""Running a service: the socket, one process or several, and signals."""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
import time
from dataclasses import replace
from functools import partial
from typing import Any

from kpp import io
from kpp._optional import optional
from kpp.serve.logs import log, log_config
from kpp.serve.settings import Settings
from kpp.tables.errors import UserError

BACKLOG = 2048
# Between two tries to start a worker that could not load its model.
RETRY_SECONDS = 5.0


def run_service(settings: Settings, announce: Any) -> int:
    """Serve until a signal ends it.

    Parameters
    ----------
    settings : Settings
        What was asked for.
    announce : callable
        Told the address, once it is bound.

    Returns
    -------
    code : int
        0 after a stop that was asked for, 1 where no worker could begin.
    """
    uvicorn = optional("uvicorn", "kpp serve", "serve")
    optional("fastapi", "kpp serve", "serve")
    from kpp.serve.app import create_app
    from kpp.serve.protocol import PatientProtocol

    several = settings.workers > 1
    if several and not hasattr(signal, "SIGHUP"):
        raise UserError("Several workers need signals that this system does not have.")
    if not settings.model.exists():
        raise UserError(f"There is no file {settings.model}. Make one with kpp fit.")
    with tempfile.TemporaryDirectory(prefix="kpp-serve-") as shared, bound(settings) as listener:
        if several:
            settings = replace(settings, shared=shared)
            _check(settings)
        app = partial(create_app, settings) if several else create_app(settings)
        config = uvicorn.Config(
            app=app,
            factory=several,
            interface="asgi3",
            http=PatientProtocol,
            ws="none",
            lifespan="on",
            loop="asyncio",
            log_config=log_config(),
            access_log=False,
            server_header=False,
            proxy_headers=False,
            workers=settings.workers,
            backlog=BACKLOG,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(settings.stop_seconds),
        )
        config.head_seconds = settings.body_seconds  # for the protocol
        host, port = listener.getsockname()[:2]
        announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        if several:
            workers = supervisor(config, [listener])
            workers.run()
            return int(workers.has_failed)
        # uvicorn sends the signal that ended it once more, to whoever waited for it before.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        uvicorn.Server(config).run(sockets=[listener])
    return 0


def _check(settings: Settings) -> None:
    """Refuse a file that no worker could read, before any is started."""
    try:
        io.outline(settings.model)
        if settings.report is not None:
            settings.report.read_bytes()
    except io.FileFormatError as error:
        raise UserError(f"{error}") from error
    except OSError as error:
        raise UserError(f"{error.filename} cannot be read: {error.strerror}.") from error


def bound(settings: Settings) -> socket.socket:
    """A socket that is bound to the address; workers share it."""
    listener = None
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # With its protocol: of a socket without one asyncio does not turn off Nagle's delay, and
        # every answer would wait 40 ms for a packet that acknowledges its head.
        listener = socket.socket(found[0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(found[4])
    except OSError as error:
        if listener is not None:
            listener.close()
        raise UserError(
            f"{settings.host}:{settings.port} cannot be bound to: {error.strerror or error}."
        ) from error
    listener.set_inheritable(True)
    return listener


def supervisor(config: Any, listeners: list[socket.socket]) -> Any:
    """A supervisor of workers, uvicorn's own, which passes SIGHUP on instead of ending them all."""
    supervisors = optional("uvicorn.supervisors", "kpp serve", "serve")

    class Supervisor(supervisors.Multiprocess):  # type: ignore[name-defined]
        """Starts workers, starts those anew that died, and stops all."""

        has_failed = False
        retry_at = 0.0

        def handle_hup(self) -> None:
            """Every worker loads the model again, while it answers with the old one."""
            for process in self.processes:
                if process.pid is not None and process.exitcode is None:
                    os.kill(process.pid, signal.SIGHUP)

        def keep_subprocess_alive(self) -> None:
            """Start those anew that have ended.

            Uvicorn's own also ends those that do not answer it at once: on a busy machine a worker
            that still imports its libraries would be ended before it has begun, again and again.
            """
            if self.should_exit.is_set():
                return
            ended = [k for k, own in enumerate(self.processes) if not own.process.is_alive()]
            # Above 0: it could not load its model. Others may still have theirs.
            failed = [k for k in ended if (self.processes[k].exitcode or 0) > 0]
            if len(failed) == len(self.processes):
                self.has_failed = True
                self.should_exit.set()
                return
            for k in ended:
                if k in failed and time.monotonic() < self.retry_at:
                    continue
                self.retry_at = time.monotonic() + RETRY_SECONDS
                log("worker ended", logging.ERROR, ended=self.processes[k].pid)
                self.processes[k].join()
                self.processes[k] = type(self.processes[k])(self.config, self.sockets)
                self.processes[k].start()

    return Supervisor(config, listeners)
