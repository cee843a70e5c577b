"""How many files an event passes: what one reads who follows it from the socket to its answer.

A move: two calls in a row, as the interpreter sees them, in different files of the package. The
doubles for Kafka and Redis do not count, nor the Python twins of what is C where it is compiled.
The figures are a ratchet: they may fall. An event's settlement waits for the call of the next
event, as on a gateway with traffic, so each event's way contains the settlement of the one before.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from pathlib import Path
from types import FrameType

import pytest

import headgate
from headgate.backends.base import Suppression, Verdicts
from headgate.devstack.ports import LOOPBACK
from headgate.model import publish as compiled_or_not
from headgate.suppression.options import SuppressOptions
from headgate.suppression.suppressor import Suppressor
from support.doubles.suppression_store import MemoryRedis, MemoryStore
from support.gateway.data_plane_world import PromptRoom, data_port
from support.gateway.fakes import FakeSuppression
from support.gateway.meters import a_meter
from support.process.stack import eventually

PACKAGE = Path(headgate.__file__).parent
pytestmark = pytest.mark.skipif(
    not compiled_or_not.__file__.endswith(".py"), reason="compiled: the interpreter sees no calls"
)


def is_ticking() -> bool:
    """Whether this is what suppression does now and then, with or without events."""
    task = asyncio.current_task()
    return task is not None and task.get_name().startswith("ticks")


# They look for what waits too long whenever the clock says so, also while this one is under way.
POLLS = ("give_up", "overdue")


class Seen:
    """The files of the package whose functions are called, in order."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_name not in POLLS and not is_ticking():
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(PACKAGE) and "native" not in path.parts:
                self.files.append(path.relative_to(PACKAGE).as_posix())

    @property
    def moves(self) -> int:
        return sum(one != other for one, other in zip(self.files, self.files[1:], strict=False))


def exchanged(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    return connection.recv(65_536)


class SuppressingRoom(PromptRoom):
    """As `PromptRoom`, with the real suppression on a store in memory."""

    def open_suppression(self, verdicts: Verdicts) -> Suppression:
        self.suppression = FakeSuppression(verdicts)  # has nothing to decide
        store = MemoryStore(MemoryRedis(time.monotonic))
        options = SuppressOptions(quarantine_ms=6_000.0, linger_ms=1_000.0)
        meter = a_meter()
        self.suppressor = Suppressor(store, verdicts, options, time.monotonic, os.urandom, meter)
        return self.suppressor


ROUNDS = 5


async def way(room: PromptRoom, topic: str) -> Seen:
    """Follow later events of one connection: the first opens what all later ones use.

    Timers that are due during an event add moves to it, so the event with the fewest counts.
    """
    rounds = []
    async with data_port(room) as port:
        with socket.create_connection((LOOPBACK, port.port)) as connection:
            connection.settimeout(20.0)
            assert await posted(connection, topic, b'{"id":"k","n":0}')
            for number in range(1, ROUNDS + 1):
                seen = Seen()
                sys.setprofile(seen)
                try:
                    assert await posted(connection, topic, b'{"id":"k","n":%d}' % number)
                finally:
                    sys.setprofile(None)
                rounds.append(seen)
    return min(rounds, key=lambda seen: seen.moves)


async def posted(connection: socket.socket, topic: str, body: bytes) -> bool:
    head = f"POST /v1/topics/{topic}/events HTTP/1.1\r\nHost: x\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return b" 201 " in await asyncio.to_thread(exchanged, connection, head.encode() + body)


def assert_at_most(seen: Seen, files: int, moves: int) -> None:
    passed = list(dict.fromkeys(seen.files))
    assert len(passed) <= files, "\n".join(passed)
    assert seen.moves <= moves


async def test_a_plain_event() -> None:
    seen = await way(PromptRoom(), "orders")
    assert_at_most(seen, 15, 36)


async def test_an_event_whose_topic_suppresses() -> None:
    room = SuppressingRoom()
    await room.suppressor.start()
    try:
        room.suppressor.open(room.scope)
        await eventually(lambda: room.suppressor.health()[0], interval_s=0.01)
        seen = await way(room, "deals")
    finally:
        await room.suppressor.close()
    assert_at_most(seen, 20, 70)
