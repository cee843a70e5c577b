"""A port whose TLS is replaced loses nobody who connects meanwhile."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop
from aiohttp import web

from headgate.devstack.ports import LOOPBACK
from headgate.http.listener import Listener
from support.identity.authority import Authority, Pair

RENEWALS = 100
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


def server_context(pair: Pair) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    return context


async def renew_while_they_connect(pair: Pair, clients: Clients) -> None:
    runner = web.AppRunner(web.Application())
    await runner.setup()
    listener = Listener(runner, LOOPBACK, 0)
    await listener.start(server_context(pair))
    [(_, port)] = listener.addresses
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(asyncio.to_thread(clients.connect, port))
            for _ in range(RENEWALS):
                await listener.renew(server_context(pair))
                await asyncio.sleep(0.01)  # they connect, at whatever place of a turn
            clients.stop()
    finally:
        clients.stop()
        await runner.cleanup()
        listener.close()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_who_connects_while_tls_is_replaced_is_served(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    authority = Authority(tmp_path)
    clients = Clients(authority.file)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(renew_while_they_connect(authority.issue("server"), clients))
    assert clients.failed == []
    assert clients.served > 0
