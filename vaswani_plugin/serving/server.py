"""The process: a socket, uvicorn, and a stop on SIGTERM that answers accepted requests first."""

import asyncio
import json
import logging
import os
import signal
import socket
import traceback
from pathlib import Path
from types import FrameType

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from vaswani_plugin.errors import UserError
from vaswani_plugin.serving.app import Gate, create_app
from vaswani_plugin.serving.texts import Limits
from vaswani_plugin.serving.work import Service, log

HEADER_BYTES = 16 * 1024
ON_ITS_WAY = 0.3
"""Seconds that an idle connection stays open at a stop: a request may be on its way."""


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that is bound to this address and does not listen yet.

    Args:
        host: a name or an address; `0.0.0.0` and `::` are all of the machine's.
        port: 0 takes a free one.

    Raises:
        UserError: the address can't be used.
    """
    if not 0 <= port <= 65535:
        raise UserError(f"--port {port}: give a number from 0 to 65535")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio turns Nagle's algorithm off only for sockets with the protocol's number; with it
        # each answer would take 40 ms more.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
        return listener
    except OSError as error:
        raise UserError(
            f"--host {host} --port {port}: can't listen there ({error}); give another one"
        ) from error


def connection_class(limits: Limits) -> type[H11Protocol]:
    """uvicorn's connections, with what it has no setting for: slow clients, errors as JSON."""

    class Connection(H11Protocol):
        """One client's connection."""

        _header_timer: asyncio.TimerHandle | None = None
        _write_timer: asyncio.TimerHandle | None = None
        _is_stopping = False

        def _is_idle(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _abort_if_idle(self) -> None:
            if self._is_idle():
                self.transport.abort()  # `close` would wait for a client that does not read

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._limit_headers()

        def _limit_headers(self) -> None:
            """The timer runs from the first byte of a request to the end of its headers."""
            if not self._is_idle():
                self._header_timer = _cancelled(self._header_timer)
            elif self._header_timer is None:
                self._header_timer = self.loop.call_later(
                    limits.header_seconds, self._abort_if_idle
                )

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._limit_headers()
            if self._is_stopping and self.cycle is not None:
                self.cycle.keep_alive = False

        def pause_writing(self) -> None:
            super().pause_writing()
            self._write_timer = self.loop.call_later(limits.write_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._write_timer = _cancelled(self._write_timer)

        def timeout_keep_alive_handler(self) -> None:
            self._abort_if_idle()

        def connection_lost(self, exc: Exception | None) -> None:
            self._header_timer = _cancelled(self._header_timer)
            self._write_timer = _cancelled(self._write_timer)
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            body = json.dumps({"error": msg}).encode()
            headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
            answer = h11.Response(status_code=400, headers=[*headers, ("connection", "close")])
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

        def shutdown(self) -> None:
            self._is_stopping = True
            if self._is_idle():
                self.loop.call_later(ON_ITS_WAY, self._abort_if_idle)
            else:
                self.cycle.keep_alive = False

    return Connection


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class LogHandler(logging.Handler):
    """Writes records of a library to our log; of exceptions no message, for it may hold a text."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        fields = {"level": record.levelname.lower(), "logger": record.name}
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            log("message", message=record.getMessage(), **fields)
            return
        frames = traceback.extract_tb(error.__traceback__)
        where = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]
        log("exception", error=type(error).__name__, trace=where, **fields)


class Server(uvicorn.Server):
    """A server that logs its address, and tells the service when it stops."""

    def __init__(self, config: uvicorn.Config, service: Service, needs_key: bool) -> None:
        super().__init__(config)
        self.service, self.needs_key = service, needs_key
        service.count_connections = lambda: len(self.server_state.connections)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and log the address."""
        await super().startup(sockets)
        for listener in sockets or []:
            host, port = listener.getsockname()[:2]
            name, languages = f"[{host}]" if ":" in host else host, self.service.languages
            sides = {"source": languages.source, "target": languages.target}
            log("ready", url=f"http://{name}:{port}/", **sides, keys=self.needs_key)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop: answer the accepted requests, then end."""
        self.service.is_stopping = True
        super().handle_exit(sig, frame)


def run(
    service: Service,
    gate: Gate,
    listener: socket.socket,
    origins: list[str],
    proxies: str | None = None,
) -> None:
    """Answer requests until SIGTERM or Ctrl-C, then finish the accepted ones.

    Args:
        service: does the work.
        gate: lets requests pass.
        listener: as `bound_socket` makes it.
        origins: see `app.create_app`.
        proxies: addresses and networks whose X-Forwarded-For is believed, separated by commas.

    Raises:
        KeyboardInterrupt: Ctrl-C, after all is answered; a second one leaves requests unanswered.
    """
    limits = service.limits
    config = uvicorn.Config(
        create_app(service, gate, origins),
        http=connection_class(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=proxies is not None,
        forwarded_allow_ips=proxies,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=limits.stop_seconds,
        h11_max_incomplete_event_size=HEADER_BYTES,
    )
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [LogHandler()], False
    logger.setLevel(logging.WARNING)
    # uvicorn raises the signal again after its stop; that must not end the process with an error.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        Server(config, service, gate.keys is not None).run([listener])
    finally:
        log("stopped")
        if service.batcher.busy_since is not None:
            os._exit(0)  # the model's thread can't be ended, and Python would wait for it
