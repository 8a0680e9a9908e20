"""HTTP as uvicorn speaks it, with an end to heads of requests that never come."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# Seconds for the head of a request, from its connection or its first byte on; a service sets
# another number on uvicorn's configuration, which every worker gets.
HEAD_SECONDS = 20.0


class PatientProtocol(H11Protocol):
    """Closes a connection whose next request does not have its head in time.

    uvicorn closes connections that are silent after an answer; one that sends a byte now and then,
    or nothing at all from its beginning, would stay for ever.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Go on waiting until the head is there."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._head is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        seconds = getattr(self.config, "head_seconds", HEAD_SECONDS)
        self._head = self.loop.call_later(seconds, self._close)

    def _stop(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _close(self) -> None:
        self._head = None
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            self.transport.abort()
