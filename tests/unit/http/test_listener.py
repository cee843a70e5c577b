"""A port with TLS: its replacement loses no connection, and plain HTTP gets an answer."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import uvloop
from aiohttp import web

from headgate.config.settings import HttpSettings
from headgate.devstack.ports import LOOPBACK
from headgate.http import listener as module
from headgate.http.listener import Listener, server_context
from support.identity.authority import Authority, Pair
from support.scale import examples

RENEWALS = examples(160)  # 40 in make test
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
_PATIENCE_S = 30.0


class Clients:
    """Threads that connect again and again."""

    def __init__(self, trust: Path) -> None:
        self._context = ssl.create_default_context(cafile=str(trust))
        self._stop = threading.Event()
        self.served = 0
        self.failed: list[OSError] = []

    def connect(self, port: int) -> None:
        while not self._stop.is_set():
            try:
                with (
                    socket.create_connection((LOOPBACK, port), _PATIENCE_S) as plain,
                    self._context.wrap_socket(plain, server_hostname=LOOPBACK),
                ):
                    self.served += 1
            except OSError as error:
                self.failed.append(error)
                return

    def stop(self) -> None:
        self._stop.set()


def context_of(pair: Pair) -> ssl.SSLContext:
    files = {"tls_cert_file": str(pair.certificate), "tls_key_file": str(pair.key)}
    context = server_context(HttpSettings(**files))
    assert context is not None
    return context


async def renew_while_they_connect(pair: Pair, clients: Clients) -> None:
    runner = web.AppRunner(web.Application())
    await runner.setup()
    listener = Listener(runner, LOOPBACK, 0)
    await listener.start(context_of(pair))
    [(_, port)] = listener.addresses
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(asyncio.to_thread(clients.connect, port))
            for _ in range(RENEWALS):
                await listener.renew(context_of(pair))
                await asyncio.sleep(0.01)  # they connect, at whatever place of a turn
            clients.stop()
    finally:
        clients.stop()
        await runner.cleanup()
        listener.close()


@pytest.mark.parametrize("new_loop", LOOPS)
def test_who_connects_while_tls_is_replaced_is_served(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    authority = Authority(tmp_path)
    clients = Clients(authority.file)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(renew_while_they_connect(authority.issue("server"), clients))
    assert clients.failed == []
    assert clients.served > 0


async def _serve(pair: Pair, client: Callable[[int], None]) -> None:
    """Call the client in a thread, with the port of a server that answers `served`."""
    app = web.Application(client_max_size=2 * len(LARGE))

    async def served(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(text="served")

    app.router.add_route("*", "/", served)
    runner = web.AppRunner(app)
    await runner.setup()
    listener = Listener(runner, LOOPBACK, 0)
    await listener.start(context_of(pair))
    [(_, port)] = listener.addresses
    try:
        await asyncio.to_thread(client, port)
        await listener.renew(context_of(pair))
        await asyncio.to_thread(client, port)
    finally:
        await runner.cleanup()
        listener.close()


def _run(
    new_loop: Callable[[], asyncio.AbstractEventLoop], pair: Pair, client: Callable[[int], None]
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(pair, client))


LARGE = b"x" * 3_000_000


@pytest.mark.parametrize("new_loop", LOOPS)
@pytest.mark.parametrize(
    ("method", "body"), [("GET", None), ("POST", b"{}"), ("DELETE", None), ("POST", LARGE)]
)
def test_plain_http_is_answered_with_the_fix(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    new_loop: Callable[[], asyncio.AbstractEventLoop],
    method: str,
    body: bytes | None,
) -> None:
    authority = Authority(tmp_path)
    ports = []

    def client(port: int) -> None:
        ports.append(port)
        plain = http.client.HTTPConnection(LOOPBACK, port, timeout=_PATIENCE_S)
        plain.request(method, "/", body, {"Authorization": "Bearer secret"})
        answer = plain.getresponse()
        assert (answer.status, answer.headers["Connection"]) == (400, "close")
        assert answer.headers["Content-Type"] == "application/problem+json"
        problem = json.loads(answer.read())
        plain.close()
        assert (problem["reason"], problem["retryable"]) == ("malformed", False)
        assert "speaks HTTPS" in problem["detail"]
        assert f"https://{LOOPBACK}:{port}" in problem["detail"]
        trust = ssl.create_default_context(cafile=str(authority.file))
        secure = http.client.HTTPSConnection(LOOPBACK, port, timeout=_PATIENCE_S, context=trust)
        secure.request(method, "/", body)
        assert secure.getresponse().read() == b"served"
        secure.close()

    monkeypatch.setattr(module, "_plain_requests", module._PlainRequests())
    with caplog.at_level(logging.INFO):
        _run(new_loop, authority.issue("server"), client)
    [line] = [record for record in caplog.records if record.name == "headgate.http"]
    assert line.levelno == logging.INFO
    assert f"port {ports[0]}" in line.getMessage(), "one line for both requests, within a minute"
    assert "secret" not in caplog.text


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_request_in_pieces_is_plain_http_too(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    def client(port: int) -> None:
        with socket.create_connection((LOOPBACK, port), _PATIENCE_S) as plain:
            plain.sendall(b"P")
            assert plain.recv(12) == b"HTTP/1.1 400"
            plain.sendall(b"OST / HTTP/1.1\r\n\r\n")
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(4096):
                pass  # the server closes

    _run(new_loop, Authority(tmp_path).issue("server"), client)


@pytest.mark.parametrize("new_loop", LOOPS)
@pytest.mark.parametrize("sent", [b"\x00\x01garbage", b"\x16\x03\x01\x00\x05hello", b"get / \r\n"])
def test_what_is_neither_tls_nor_http_is_not_answered_in_plain_text(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop], sent: bytes
) -> None:
    def client(port: int) -> None:
        with socket.create_connection((LOOPBACK, port), _PATIENCE_S) as plain:
            plain.sendall(sent)
            with suppress(ConnectionResetError):
                assert b"HTTP" not in plain.recv(4096)

    _run(new_loop, Authority(tmp_path).issue("server"), client)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_an_endless_plain_body_is_cut_off(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    monkeypatch.setattr(module, "_DISCARDED_BYTES", 1_000_000)

    def client(port: int) -> None:
        with (
            socket.create_connection((LOOPBACK, port), _PATIENCE_S) as plain,
            pytest.raises((ConnectionResetError, BrokenPipeError)),
        ):
            plain.sendall(b"P" * 100_000_000)

    _run(new_loop, Authority(tmp_path).issue("server"), client)
