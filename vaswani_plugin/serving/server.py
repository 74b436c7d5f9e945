"""The process: a socket, uvicorn, and a stop on SIGTERM that answers accepted requests first."""

import asyncio
import logging
import math
import os
import signal
import socket
import traceback
from pathlib import Path

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from vaswani_plugin.errors import UserError
from vaswani_plugin.serving.app import Gate, create_app
from vaswani_plugin.serving.work import Service, log

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer."""


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that is bound to this address and does not listen yet; port 0 is a free one."""
    if not 0 <= port <= 65535:
        raise UserError(f"--port {port}: give a number from 0 to 65535")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With the protocol's number asyncio turns Nagle's algorithm off, which costs 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        return listener
    except OSError as error:
        raise UserError(f"--host {host} --port {port}: {error}; give another one") from error


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


class Protocol(H11Protocol):
    """uvicorn's, without lines of the log that a client can provoke."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse more idle connections than there are file descriptors for (1,024 by default)."""
        super().connection_made(transport)
        if len(self.connections) > 1.5 * (self.config.limit_concurrency or math.inf):
            transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP; behind an answer, uvicorn would raise."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: HTTP/1.1 lets a server ignore `Upgrade`. No public option does this."""


class Server(uvicorn.Server):
    """A server that logs its address once it listens."""

    def __init__(self, config: uvicorn.Config, service: Service, needs_key: bool) -> None:
        super().__init__(config)
        self.languages, self.needs_key = service.languages, needs_key

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and log the address."""
        await super().startup(sockets)
        for listener in sockets or []:
            host, port = listener.getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            sides = {"source": self.languages.source, "target": self.languages.target}
            log("ready", url=f"http://{name}:{port}/", **sides, keys=self.needs_key)


def run(
    service: Service,
    gate: Gate,
    listener: socket.socket,
    origins: list[str],
    proxies: str | None = None,
) -> None:
    """Answer requests until SIGTERM or Ctrl-C, then finish the accepted ones.

    The X-Forwarded-For of `proxies`, addresses and networks separated by commas, is believed. A
    second Ctrl-C leaves requests unanswered.
    """
    limits = service.limits
    config = uvicorn.Config(
        create_app(service, gate, origins),
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=list(HEADERS.items()),
        proxy_headers=proxies is not None,
        forwarded_allow_ips=proxies,
        limit_concurrency=limits.connections,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=limits.stop_seconds,
        h11_max_incomplete_event_size=limits.header_bytes,
    )
    logging.basicConfig(handlers=[LogHandler()], level=logging.WARNING, force=True)
    # uvicorn raises the signal again after its stop; that must not end the process with an error.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        Server(config, service, gate.keys is not None).run([listener])
    finally:
        log("stopped")
        if service.batcher.busy_since is not None:
            os._exit(0)  # the model's thread can't be ended, and Python would wait for it
