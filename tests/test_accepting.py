"""The tests' own ports leave nothing open, whenever they end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import warnings

import pytest

from headgate.devstack.ports import LOOPBACK
from support.network.accepting import accepting


async def serve(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.mark.parametrize("turns", range(8))
async def test_a_connection_that_comes_just_when_a_port_ends_is_closed(turns: int) -> None:
    """turns: of the loop, from the connection to the end of the port."""
    async with accepting(serve) as port:
        clients = [socket.create_connection((LOOPBACK, port)) for _ in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # pytest fails of what is collected here
        gc.collect()
    for client in clients:
        client.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
        client.close()
