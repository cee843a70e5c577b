"""Sequential clients that take turns between two gateways, as behind one address."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from itertools import count

import aiohttp

from chaos.coalescer.history import Sent
from support.process.stack import eventually

CLIENTS, KEYS_OF_A_CLIENT, CONTENTS = 6, 3, "ABC"
_PAUSE_S, _GIVE_UP_S, _LAST_S, _LATEST_END_S = 0.05, 2.0, 60.0, 10.0


class Clients:
    """Each has keys of its own, and posts one event after the other. Answered or not, an event is
    posted once: its repeat is another event."""

    def __init__(self, urls: Sequence[str], topic: str, seed: int) -> None:
        self._urls = [f"{url}/v1/topics/{topic}/events" for url in urls]
        self._random = random.Random(seed)
        self._numbers = count()
        self.sent: list[Sent] = []

    async def burst(self, until: asyncio.Event, latest_end_s: float = _LATEST_END_S) -> None:
        """Post until the event is set. Each key has its last event, which is held for certain,
        some time before, and after so long at the latest: what is open then may be all that is
        known of it when an owner dies."""
        timeout = aiohttp.ClientTimeout(total=_GIVE_UP_S)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                keys = [f"key-{number}-{one}" for one in range(KEYS_OF_A_CLIENT)]
                group.create_task(self._one(session, keys, until, latest_end_s))

    async def _one(
        self,
        session: aiohttp.ClientSession,
        keys: Sequence[str],
        until: asyncio.Event,
        latest_end_s: float,
    ) -> None:
        turns, began = count(self._random.randrange(2)), time.monotonic()
        ends = {key: began + latest_end_s * self._random.random() for key in keys}
        while ends:
            key = self._random.choice(list(ends))
            if until.is_set() or time.monotonic() > ends[key]:
                del ends[key]
                await eventually(lambda key=key: self._is_held(session, next(turns), key), _LAST_S)
            else:
                await self._post(session, next(turns), key, by_force=0.02)
            await asyncio.sleep(2 * _PAUSE_S * self._random.random())

    async def _is_held(self, session: aiohttp.ClientSession, turn: int, key: str) -> bool:
        return await self._post(session, turn, key) == "held"

    async def _post(
        self, session: aiohttp.ClientSession, turn: int, key: str, by_force: float = 0.0
    ) -> str | None:
        value = b'{"id":"%s","content":"%s"}' % (
            key.encode(),
            self._random.choice(CONTENTS).encode(),
        )
        one = Sent(f"event-{next(self._numbers)}", key, value)
        self.sent.append(one)
        headers = {"Content-Type": "application/json", "Headgate-Event-Id": one.event_id}
        if self._random.random() < by_force:
            headers["Headgate-Force"] = "true"
        url = self._urls[turn % len(self._urls)]
        try:
            async with session.post(url, data=value, headers=headers) as answer:
                told = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None
        one.outcome = told.get("outcome") or told.get("reason")
        return one.outcome
