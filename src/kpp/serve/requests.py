"""What every request goes through: its token, its body, its answer's headers, log and counters."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from uuid import uuid4

from kpp.serve.errors import RequestError
from kpp.serve.formats import dump
from kpp.serve.logs import log, of_error
from kpp.serve.metrics import PATHS, Metrics, now

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Open to everybody: whether the service is there, and the page, which holds nothing of the model.
OPEN = ("/health", "/")
SAFE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
GONE = 499
BROKEN = "Something went wrong here; the log has the id of this request."


class Guard:
    """Stands before the application: token, request id, log, counters, answers to errors.

    Parameters
    ----------
    app : callable
        The application.
    token : str or None
        What requests must bring.
    metrics : Metrics
        Where requests are counted.
    """

    def __init__(self, app: App, token: str | None, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics
        self._expected = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status, started = now(), 500, False
        state = scope.setdefault("state", {})
        state |= {"id": uuid4().hex[:16], "n_rows": 0, "n_bytes": 0}

        async def answer(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                headers = [*message.get("headers", ())]
                known = {name.lower() for name, _ in headers}
                extra = {**SAFE, "x-request-id": state["id"]}
                headers += [
                    (k.encode(), v.encode()) for k, v in extra.items() if k.encode() not in known
                ]
                message = {**message, "headers": headers}
            await send(message)

        wrong: dict[str, str] = {}
        try:
            self._check(scope)
            await self.app(scope, receive, answer)
        except RequestError as error:
            await respond(answer, error)
        except ClientGoneError:
            status = GONE
        except Exception as error:
            wrong = of_error(error)
            if not started:
                await respond(answer, RequestError(500, BROKEN))
        seconds = now() - begun
        path = scope["path"] if scope["path"] in PATHS else "other"
        self.metrics.request(path, status, seconds, state["n_rows"], state["n_bytes"])
        level = logging.ERROR if status == 500 else logging.INFO
        log(
            "request",
            level,
            id=state["id"],
            method=scope["method"] if scope["method"] in METHODS else "other",
            path=path,
            status=status,
            ms=round(1e3 * seconds, 3),
            rows=state["n_rows"],
            bytes=state["n_bytes"],
            **wrong,
        )

    def _check(self, scope: Scope) -> None:
        if self._expected is None or scope["path"] in OPEN:
            return
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        # Compared in a time that does not tell how much of it is right.
        right = hmac.compare_digest(given[0] if len(given) == 1 else b"", self._expected)
        if not right:
            headers = {"WWW-Authenticate": "Bearer"}
            raise RequestError(401, "A token is needed: Authorization: Bearer ...", headers=headers)


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")


class ClientGoneError(Exception):
    """Whoever asked has left before the question was complete."""


async def respond(send: Send, error: RequestError) -> None:
    """Answer with an error."""
    body = dump(error.body())
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    headers |= {name.lower(): value for name, value in error.headers.items()}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


async def read_bytes(request: Any, most: int, seconds: float) -> bytes:
    """The body of a request, within a size and a time.

    Parameters
    ----------
    request : starlette.requests.Request
        It.
    most : int
        Most bytes.
    seconds : float
        Longest time for all of it.

    Returns
    -------
    body : bytes

    Raises
    ------
    RequestError
        408, 413 or 415.
    """
    headers = request.headers
    close = {"Connection": "close"}  # what is still to come would be read for nothing
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError(415, "Bodies are read as they are, not compressed.", headers=close)
    too_long = RequestError(413, f"A body has at most {most} bytes here.", headers=close)
    declared = headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > most:
        raise too_long
    parts, n_bytes = [], 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                parts.append(message.get("body", b""))
                n_bytes += len(parts[-1])
                if n_bytes > most:
                    raise too_long
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        said = f"The body did not arrive within {seconds:g} s."
        raise RequestError(408, said, headers=close) from None
    request.scope["state"]["n_bytes"] = n_bytes
    return b"".join(parts)
