"""The parent's ports: the reserved data port, and the management pages."""

import asyncio
import logging
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from headgate.admin.requests import workers_only
from headgate.config.settings import HttpSettings
from headgate.errors_in_words import listen_error
from headgate.http.listener import Listener
from headgate.http.server import HttpServer, PagesRunner
from headgate.supervisor.control import PARENT_SECRET

log = logging.getLogger("headgate.ports")

_Address = tuple[int, int, int, str, tuple[Any, ...]]

# Workers of a killed parent need a moment to drain and free the port.
_PATIENCE_S = 3.0
_RETRY_PAUSE_S = 0.1
_LINGER_S = 1.0  # time for requests in flight at the end


class Management(NamedTuple):
    """The management pages' server and port.

    Args:
        server: The server.
        port: Its listener; None if the workers' port serves both.
    """

    server: HttpServer
    port: Listener | None


class PortTakenError(Exception):
    """A port that cannot be opened; the text names it and the reason."""


@asynccontextmanager
async def reserved(host: str, port: int) -> AsyncIterator[None]:
    """Reserve the data port for the workers, which share it (SO_REUSEPORT).

    The sockets are bound and never listen, so they get no connection.

    Raises:
        PortTakenError: The port cannot be bound.
    """
    deadline = asyncio.get_running_loop().time() + _PATIENCE_S
    with ExitStack() as holding:
        for family, kind, protocol, _, address in await _addresses(host, port):
            while (error := _taken(family, address)) is not None:
                if asyncio.get_running_loop().time() > deadline:
                    text = f"http.port: {host}:{port}: {listen_error(error)}"
                    raise PortTakenError(text) from error
                await asyncio.sleep(_RETRY_PAUSE_S)
            held = holding.enter_context(socket.socket(family, kind, protocol))
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind(address)
        yield


async def _addresses(host: str, port: int) -> Sequence[_Address]:
    loop = asyncio.get_running_loop()
    try:
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise PortTakenError(f"http.host: {host}: {listen_error(error)}") from error


def _taken(family: int, address: tuple[Any, ...]) -> OSError | None:
    """Return the error of binding the port exclusively; None if it is free.

    With SO_REUSEPORT a second gateway would just share the port.
    """
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            return error
    return None


@asynccontextmanager
async def management_sites(
    app: web.Application, http: HttpSettings, path: Path, context: ssl.SSLContext | None = None
) -> AsyncIterator[Management]:
    """Serve the management pages on their port and, for workers, on the unix socket `path`.

    If both port numbers are equal, only the socket is served: the workers own the port and forward
    requests. A new secret beside the socket proves to the parent that a request is from a worker.

    Raises:
        PortTakenError: The port cannot be opened.
    """
    secret = secrets.token_hex()
    (path.parent / PARENT_SECRET).write_text(secret)  # the folder is private
    app.middlewares.append(workers_only(secret))
    runner = PagesRunner(app, http.header_max_bytes, _LINGER_S, http.idle_timeout_ms / 1000)
    await runner.setup()
    port = None
    try:
        await web.UnixSite(runner, str(path)).start()
        if http.management_port != http.port:
            port = await _listen(runner, http, context)
        yield Management(runner.pages, port)
    finally:
        await runner.cleanup()


async def _listen(
    runner: PagesRunner, http: HttpSettings, context: ssl.SSLContext | None
) -> Listener:
    host, port = http.host, http.management_port
    try:
        return await runner.listen(host, port, context)
    except OSError as error:
        text = f"http.management_port: {host}:{port}: {listen_error(error)}"
        raise PortTakenError(text) from error
