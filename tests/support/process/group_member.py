"""A member of ours in a process of its own, so that it can be stopped and go on.

python group_member.py BOOTSTRAP TOPIC GROUP FILE

FILE gets lines `TIME begin|done PARTITION OFFSET`; times are of the clock that all processes share.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

from headgate.consumer import Consumer, ConsumerOptions, Received
from headgate.consumer.commits import Place


class LateCommits:
    """An offset store that keeps nothing: it delays commits, between their making and sending."""

    async def check_topics(self, ids: Mapping[str, str]) -> None: ...

    async def positions(self, places: Iterable[Place]) -> Mapping[Place, int]:
        return {}

    async def advance(self, marks: Mapping[Place, int]) -> None:
        await asyncio.sleep(random.uniform(0, 0.4))


async def main(bootstrap: str, topic: str, group: str, out: TextIO) -> None:
    options = ConsumerOptions(
        concurrency=32, prefetch=100, commit_interval_s=0.05, drain_s=5, session_timeout_ms=6_000
    )
    consumer = Consumer(
        topic, group=group, bootstrap=bootstrap, options=options, offsets=LateCommits()
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop)

    def say(what: str, received: Received) -> None:
        out.write(f"{time.monotonic()} {what} {received.partition} {received.offset}\n")

    async def handle(received: Received) -> None:
        say("begin", received)
        await asyncio.sleep(random.uniform(0, 0.02))
        say("done", received)

    async with consumer:
        await consumer.run(handle, tasks=16)


if __name__ == "__main__":
    with Path(sys.argv[4]).open("a", buffering=1) as lines:
        asyncio.run(main(*sys.argv[1:4], lines))
