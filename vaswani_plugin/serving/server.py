"""The process: a socket, uvicorn, and a stop on SIGTERM that answers accepted requests first."""

import logging
import signal
import socket

import uvicorn

from vaswani_plugin.errors import UserError
from vaswani_plugin.serving.app import create_app
from vaswani_plugin.serving.connections import Server, connection_class
from vaswani_plugin.serving.monitoring import LogHandler
from vaswani_plugin.serving.service import Service

HEADER_BYTES = 16 * 1024


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


def run(service: Service, listener: socket.socket, origins: list[str]) -> None:
    """Answer requests until SIGTERM or Ctrl-C, then finish the accepted ones.

    Args:
        service: does the work.
        listener: as `bound_socket` makes it.
        origins: see `app.create_app`.

    Raises:
        KeyboardInterrupt: Ctrl-C, after all is answered; a second one leaves requests unanswered.
    """
    limits = service.limits
    config = uvicorn.Config(
        create_app(service, origins),
        http=connection_class(limits.header_seconds),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections,
        h11_max_incomplete_event_size=HEADER_BYTES,
    )
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [LogHandler(service.log)], False
    logger.setLevel(logging.WARNING)
    server = Server(config, service)
    # uvicorn raises the signal again after its stop; that must not end the process with an error.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        server.run([listener])
    finally:
        service.log.write("stopped")
