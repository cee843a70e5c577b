"""Processor time of the suppression shell, without Redis and without a socket.

    python loadtest/micro/suppression.py

Microseconds an event from `reserve` to its settlement in a call, best of several rounds. The store
answers at once; making the events is not counted. Prints Markdown.
"""

import asyncio
import os
import struct
import sys
import time
from collections.abc import Awaitable, Sequence

from headgate.metrics.meter import Labels, Meter
from headgate.model.outcome import Failure
from headgate.model.publish import Publish, Record, Stage
from headgate.model.suppression import Reservation, Scope
from headgate.suppression.options import SuppressOptions
from headgate.suppression.rules import (
    LayoutCall,
    LayoutReply,
    SuppressionCall,
    SuppressionReply,
    read_reply,
)
from headgate.suppression.store import arguments_of
from headgate.suppression.suppressor import Suppressor

ROUNDS = 9
EVENTS = 6400
KEYS = 997
_LANE = Stage.LANE
SCOPE = Scope("deals", bytes(16), 6, b"\x07" * 8)


class Store:
    """Answers every reservation with the same verdict."""

    server = eviction = ""

    def __init__(self, verdict: int) -> None:
        self._verdict = verdict

    async def announce(self, call: LayoutCall) -> LayoutReply:
        """All have agreed for ages."""
        return LayoutReply(2**60, 0, False)

    async def connect(self) -> None:
        """There is nothing to connect to."""

    async def run(self, call: SuppressionCall) -> SuppressionReply:
        """Pack what Redis would get, and take its answer apart."""
        arguments_of(call, b"R" * 16)
        states = [struct.pack(">16sId", b"n" * 16, count, 0.0) for count in call.counts]
        count = call.reservations
        verdicts = struct.pack(f">{count}q", *[self._verdict] * count)
        return read_reply(call, [0, 0, 0, verdicts, *states])

    async def look(self) -> None:
        """Entries stay."""

    async def close(self) -> None:
        """Nothing to close."""


class Listener:
    """`Verdicts`: what goes to the lanes is collected."""

    def __init__(self) -> None:
        self.lane: list[Publish] = []
        self._left = 0
        self._all = asyncio.Event()

    def expect(self, count: int) -> Awaitable[object]:
        """Wait for so many verdicts."""
        self._left = count
        self._all.clear()
        return self._all.wait()

    def publish(self, publish: Publish) -> None:
        publish.stage = _LANE
        self.lane.append(publish)
        self._count()

    def unchanged(self, publish: Publish, offset: int) -> None:
        self._count()

    def _count(self) -> None:
        self._left -= 1
        if not self._left:
            self._all.set()

    def refused(self, publish: Publish, failure: Failure) -> None:
        raise AssertionError(failure)


def events() -> list[Publish]:
    """As ingest would hand them over: each key's content is new."""
    found = []
    for number in range(EVENTS):
        key = b"%d" % (number % KEYS)
        publish = Publish(Record("deals", 0, key, b"{}", [], 0), 100, None, 0, "id")
        publish.digest = number.to_bytes(16, "big")
        publish.reservation = Reservation(SCOPE, SCOPE.partitions)
        found.append(publish)
    return found


async def one_round(suppressor: Suppressor, listener: Listener, tick: int) -> float:
    """Seconds of processor time for all events, `tick` at a time."""
    publishes, spent, offset = events(), 0.0, 0
    for first in range(0, EVENTS, tick):
        some: Sequence[Publish] = publishes[first : first + tick]
        all_verdicts = listener.expect(len(some))
        begin = time.process_time()
        for publish in some:
            suppressor.reserve(publish)
        await all_verdicts
        batch, listener.lane = listener.lane, []
        if batch:
            suppressor.acknowledged(batch, offset)
            offset += len(batch)
        spent += time.process_time() - begin
    return spent


async def measure(verdict: int, tick: int) -> float:
    """The best round's microseconds per event."""
    listener = Listener()
    options = SuppressOptions(linger_ms=0)
    store = Store(verdict)
    meter = Meter(Labels((), lambda topic: True), time.time)
    suppressor = Suppressor(store, listener, options, time.monotonic, os.urandom, meter)
    await suppressor.start()
    while not suppressor.health()[0]:  # noqa: ASYNC110  (until then events go past Redis)
        await asyncio.sleep(0.01)
    rounds = [await one_round(suppressor, listener, tick) for _ in range(ROUNDS)]
    await suppressor.close()
    return min(rounds) * 1e6 / EVENTS


async def main() -> None:
    sys.stdout.write("| events a call | published | unchanged |\n| --- | --- | --- |\n")
    for tick in (1, 8, 64):
        published, unchanged = await measure(-1, tick), await measure(5, tick)
        sys.stdout.write(f"| {tick} | {published:.2f} | {unchanged:.2f} |\n")


if __name__ == "__main__":
    asyncio.run(main())
