"""The ASGI application: one path for each question, and pages about the model."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kpp._checks import RefusedError
from kpp._optional import optional
from kpp.serve.answers import Deadline
from kpp.serve.asking import QUESTIONS, Asked, parameters_of, read_parameters
from kpp.serve.bodies import TYPES, read_body
from kpp.serve.errors import RequestError
from kpp.serve.formats import dump, encode, wanted_type
from kpp.serve.lanes import Lane
from kpp.serve.logs import log, of_error
from kpp.serve.metrics import Metrics
from kpp.serve.openapi import document
from kpp.serve.page import page
from kpp.serve.requests import BROKEN, Guard, read_bytes
from kpp.serve.served import Holder, ServedModel
from kpp.serve.settings import Settings
from kpp.tables.errors import UserError

# How long a thread may keep the interpreter, in seconds: a tenth of Python's own time, so that an
# explanation that is all Python does not hold up predictions.
SWITCH = 0.0005


class Service:
    """A model, two lanes and counters: what the paths of the application share.

    Parameters
    ----------
    settings : Settings
        What was asked for.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.holder = Holder(settings.model, settings.report)
        self.metrics = Metrics(settings.shared)
        self.quick = Lane("quick", settings.threads, settings.queue)
        self.slow = Lane("slow", settings.slow_threads, settings.slow_queue)
        self._documents: tuple[ServedModel, bytes] | None = None

    def schema(self) -> bytes:
        """The OpenAPI document of the current model; written once for each."""
        served = self.holder.current
        if self._documents is None or self._documents[0] is not served:
            self._documents = (served, dump(document(served, self.settings)))
        return self._documents[1]

    def reload(self) -> None:
        """Read the file of the model again; on an error the old one stays."""
        before = self.holder.current.version
        try:
            served = self.holder.reload()
        except Exception as error:
            self.metrics.reload("failed")
            # What is wrong with a file is for whoever put it there, and holds no data.
            said = {"why": str(error)} if isinstance(error, UserError) else of_error(error)
            log("reload failed, the old model stays", logging.ERROR, model=before, **said)
            return
        self.metrics.reload("done")
        log("reloaded", model=served.version, before=before)

    async def answer(self, asked: Asked, request: Any) -> tuple[bytes, str, ServedModel]:
        """Answer a question: its body, its type, and the model that has answered."""
        settings, served = self.settings, self.holder.current
        parameters = parameters_of(asked, served.question)
        given = read_parameters(parameters, request.query_params.multi_items())
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in TYPES:
            said = f"The body must be one of {', '.join(TYPES)}, and its Content-Type say so."
            raise RequestError(415, said)
        wanted = wanted_type(request.headers.get("accept"), kind)
        data = await read_bytes(request, settings.max_bytes, settings.body_seconds)
        most = settings.max_slow_rows if asked.slow else settings.max_rows
        state = request.scope["state"]

        def work(deadline: Deadline) -> bytes:
            values, n_rows = read_body(data, kind, served.columns, most)
            state["n_rows"] = n_rows
            deadline.check()
            try:
                at = served.at(values, n_rows)
                found = asked.answer(served.question, at, given, deadline)
            except RefusedError as error:
                raise RequestError(409, f"This model cannot answer that: {error}") from error
            about = {"model": served.version, "remarks": served.remarks(values)}
            return encode(found, about, wanted, n_rows)

        lane = self.slow if asked.slow else self.quick
        return await lane.run(work, settings.seconds), wanted, served

    @asynccontextmanager
    async def life(self, app: Any) -> AsyncIterator[None]:
        """From the start of a worker to its end."""
        loop = asyncio.get_running_loop()
        running: set[asyncio.Future[None]] = set()

        def reload() -> None:
            # A thread of its own: requests go on with the old model meanwhile.
            future = loop.run_in_executor(None, self.reload)
            running.add(future)
            future.add_done_callback(running.discard)

        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, reload)
        sys.setswitchinterval(SWITCH)
        warnings.simplefilter("ignore")  # other libraries' words on standard error are no log
        log("started", model=self.holder.current.version, name=self.holder.path.name)
        yield
        for lane in (self.quick, self.slow):
            lane.close()
        self.metrics.close()
        log("stopped")


def create_app(settings: Settings) -> Any:
    """Make the application, with its model loaded.

    Parameters
    ----------
    settings : Settings
        What was asked for.

    Returns
    -------
    app : callable
        An ASGI application.
    """
    fastapi = optional("fastapi", "kpp serve", "serve")
    responses = optional("starlette.responses", "kpp serve", "serve")
    routing = optional("starlette.routing", "kpp serve", "serve")
    errors = optional("starlette.exceptions", "kpp serve", "serve")
    service = Service(settings)

    def question(asked: Asked) -> Callable[[Any], Any]:
        async def answer(request: Any) -> Any:
            body, kind, served = await service.answer(asked, request)
            return responses.Response(
                body, media_type=kind, headers={"x-kpp-model": served.version}
            )

        return answer

    async def health(request: Any) -> Any:
        body = dump({"status": "ok", "model": service.holder.current.version})
        return responses.Response(body, media_type="application/json")

    async def card(request: Any) -> Any:
        limits = {"max_rows": settings.max_rows, "max_slow_rows": settings.max_slow_rows}
        limits |= {"max_bytes": settings.max_bytes}
        body = dump(service.holder.current.card | {"limits": limits})
        return responses.Response(body, media_type="application/json")

    async def metrics(request: Any) -> Any:
        for lane in (service.quick, service.slow):
            service.metrics.inside(lane.name, lane.inside)
        current = service.holder.current
        labels = {"name": current.card["name"], "version": current.version}
        text = service.metrics.text(labels)
        return responses.Response(text, media_type="text/plain; version=0.0.4")

    async def schema(request: Any) -> Any:
        return responses.Response(service.schema(), media_type="application/json")

    async def report(request: Any) -> Any:
        found = service.holder.current.report
        if found is None:
            raise RequestError(404, "No report was given: kpp serve --report PAGE.html shows one.")
        return responses.Response(found, media_type="text/html; charset=utf-8")

    async def front(request: Any) -> Any:
        html, policy = page(needs_token=settings.token is not None)
        headers = {"content-security-policy": policy}
        return responses.Response(html, media_type="text/html; charset=utf-8", headers=headers)

    def failed(error: RequestError) -> Any:
        return responses.Response(
            dump(error.body()),
            status_code=error.status,
            media_type="application/json",
            headers=error.headers,
        )

    async def refused(request: Any, error: Any) -> Any:
        return failed(error)

    async def no_such(request: Any, error: Any) -> Any:
        said = "There is no such page." if error.status_code == 404 else str(error.detail)
        return failed(RequestError(error.status_code, said, headers=error.headers))

    async def broken(request: Any, error: Any) -> Any:
        # The guard logs where it happened.
        return failed(RequestError(500, BROKEN))

    reads = (
        *(("/", front), ("/health", health), ("/model", card), ("/metrics", metrics)),
        *(("/openapi.json", schema), ("/report", report)),
    )
    routes = [routing.Route(path, make, methods=["GET"]) for path, make in reads]
    routes += [routing.Route(a.path, question(a), methods=["POST"]) for a in QUESTIONS]
    app = fastapi.FastAPI(
        routes=routes,
        lifespan=service.life,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        exception_handlers={
            errors.HTTPException: no_such,
            RequestError: refused,
            Exception: broken,
        },
    )
    return Guard(app, settings.token, service.metrics)
