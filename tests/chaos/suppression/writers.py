"""Racing and sequential writers over HTTP, each with its own idea of the newest content."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from itertools import count

import aiohttp

from chaos.suppression.history import Attempt
from support.scale import is_full

HOT_KEYS, WRITERS_OF_A_HOT_KEY, SEQUENTIAL_KEYS, CONTENTS = 5, 4, 30, "ABC"
DENSE_S, SPARSE_S = 0.03, 0.25
_GIVE_UP_S = 60.0


class Writers:
    """Posts until told to stop. urls: of the gateways; each post goes to any of them.

    reconnects: each post has a connection of its own, so that it goes to any worker.
    pause_s: between two posts of a writer, at most; None: fewer of them in `make test`.
    """

    def __init__(
        self,
        urls: Sequence[str],
        topic: str,
        seed: int,
        *,
        hot_keys: int = HOT_KEYS,
        sequential_keys: int = SEQUENTIAL_KEYS,
        contents: str = CONTENTS,
        reconnects: bool = False,
        pause_s: float | None = None,
    ) -> None:
        self._urls = [f"{url}/v1/topics/{topic}/events" for url in urls]
        self._random = random.Random(seed)
        self._numbers = count()
        self._hot_keys, self._sequential_keys = hot_keys, sequential_keys
        self._contents, self._reconnects = contents, reconnects
        self._pause_s = pause_s or (DENSE_S if is_full() else SPARSE_S)
        self._stopping = False
        self.hot: list[Attempt] = []
        self.sequential: list[Attempt] = []

    @property
    def attempts(self) -> list[Attempt]:
        return [*self.hot, *self.sequential]

    def count(self, outcome: str) -> int:
        return sum(attempt.outcome == outcome for attempt in self.attempts)

    async def run(self, until: asyncio.Event) -> None:
        """Write until the event is set; every event has its answer when this returns."""
        self._stopping = False
        connector = aiohttp.TCPConnector(limit=0, force_close=self._reconnects)
        timeout = aiohttp.ClientTimeout(total=_GIVE_UP_S)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            asyncio.TaskGroup() as group,
        ):
            for number in range(self._hot_keys * WRITERS_OF_A_HOT_KEY):
                key = f"hot-{number % self._hot_keys}"
                group.create_task(self._write(session, key, self.hot, number % 2))
            for number in range(self._sequential_keys):
                group.create_task(self._write(session, f"one-{number}", self.sequential, None))
            await until.wait()
            self._stopping = True

    async def _write(
        self, session: aiohttp.ClientSession, key: str, attempts: list[Attempt], place: int | None
    ) -> None:
        # A racing writer stays with one gateway, so that each hot key is raced through both.
        content = self._random.choice(self._contents)
        while not self._stopping:
            if self._random.random() < 0.5:
                content = self._random.choice(self._contents)
            url = self._urls[place] if place is not None else self._random.choice(self._urls)
            attempt = Attempt(f"event-{next(self._numbers)}", key, content, time.monotonic())
            attempts.append(attempt)
            await self._post(session, url, attempt)
            pause = 0.0 if attempt.outcome in ("published", "unchanged") else 0.1
            await asyncio.sleep(pause + self._random.random() * self._pause_s)

    async def _post(self, session: aiohttp.ClientSession, url: str, attempt: Attempt) -> None:
        body = b'{"id":"%s","content":"%s"}' % (attempt.key.encode(), attempt.content.encode())
        headers = {
            "Content-Type": "application/json",
            "Headgate-Event-Id": attempt.event_id,
            "Headgate-Producer": "shop",
        }
        try:
            async with session.post(url, data=body, headers=headers) as answer:
                told = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            attempt.told = time.monotonic()
            return
        attempt.told = time.monotonic()
        attempt.outcome = told.get("outcome") or told.get("reason") or "refused"
        attempt.offset = told.get("offset", -1)
        attempt.partition = told.get("partition", -1)


async def write_while(writers: Writers, fault: Callable[[], object]) -> None:
    """Write while the fault's coroutine runs."""
    stop = asyncio.Event()

    async def then_stop() -> None:
        try:
            await fault()  # type: ignore[misc]
        finally:
            stop.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(writers.run(stop))
        group.create_task(then_stop())
