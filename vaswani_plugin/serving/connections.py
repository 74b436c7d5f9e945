"""uvicorn's connections, with a time limit for headers and a stop that loses no request."""

import asyncio
import socket
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from vaswani_plugin.serving.service import Service

STOP_SECONDS = 0.3
"""How long an idle connection stays open at a stop: a request may be on its way."""


def connection_class(header_seconds: float) -> type[H11Protocol]:
    """A class of connections that close when a request's headers take longer than this."""

    class Connection(H11Protocol):
        """One client's connection."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._header_timer: asyncio.TimerHandle | None = None
            self._is_stopping = False

        def _is_idle(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _close_if_idle(self) -> None:
            if self._is_idle() and not self.transport.is_closing():
                self.transport.close()

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._limit_headers()

        def _limit_headers(self) -> None:
            """The timer runs from the first byte of a request to the end of its headers."""
            if not self._is_idle():
                if self._header_timer is not None:
                    self._header_timer.cancel()
                    self._header_timer = None
            elif self._header_timer is None:
                self._header_timer = self.loop.call_later(header_seconds, self._close_if_idle)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._limit_headers()
            if self._is_stopping and self.cycle is not None:
                self.cycle.keep_alive = False

        def connection_lost(self, exc: Exception | None) -> None:
            if self._header_timer is not None:
                self._header_timer.cancel()
            super().connection_lost(exc)

        def shutdown(self) -> None:
            self._is_stopping = True
            if self._is_idle():
                self.loop.call_later(STOP_SECONDS, self._close_if_idle)
            else:
                self.cycle.keep_alive = False

    return Connection


class Server(uvicorn.Server):
    """A server that logs its address, and tells the service when it has to stop.

    Args:
        config: of uvicorn.
        service: learns of the stop; has the log.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and log the address."""
        await super().startup(sockets)
        for listener in sockets or []:
            host, port = listener.getsockname()[:2]
            self.service.log.write(
                "ready",
                url=f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/",
                source=self.service.languages.source,
                target=self.service.languages.target,
                keys=self.service.needs_key,
            )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop: answer the accepted requests, then end."""
        self.service.is_stopping = True
        super().handle_exit(sig, frame)
