"""Clients that post one event of a key after another, and keep what they were told."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

import aiohttp

from chaos.cluster.gateways import CHUNKED, PLAIN, SPLIT, SPOOLED, STATES
from chaos.suppression.history import Attempt
from support.gateway.oversize_world import noise

GIVE_UP_S = 40.0  # far beyond `http.request_timeout_ms`
GOOD = ("published", "unchanged", "held", "spooled")
_ELEMENTS, _LARGE = 12, 90_000


class Traffic:
    """Posts until told to stop; then every event has its answer.

    urls: of the gateways behind one address.  spooling: of the one that spools.
    pause_s: between two events of a client, on average.
    """

    def __init__(self, urls: Sequence[str], spooling: str, seed: int, pause_s: float) -> None:
        self._urls, self._spooling = list(urls), spooling
        self._random = random.Random(seed)
        self._numbers = count()
        self._pause_s = pause_s
        self._stopping = False
        self._sent: Counter[str] = Counter()  # by key, over all runs
        self._last: dict[str, str] = {}
        self.plain: list[Attempt] = []  # of batches too; `content` is the event's number of its key
        self.probes: list[Attempt] = []  # those of `plain` that wait for no other
        self.states: list[Attempt] = []  # of one client for each key
        self.raced: list[Attempt] = []  # of several
        self.split: list[Attempt] = []  # `content` is what every piece has in it
        self.chunked: list[Attempt] = []
        self.spooled: list[Attempt] = []
        self.odd: list[str] = []  # answers that do not fit their requests

    @property
    def all(self) -> list[Attempt]:
        return [
            *self.plain, *self.states, *self.raced, *self.split, *self.chunked, *self.spooled,
        ]  # fmt: skip

    async def run(self, until: asyncio.Event) -> None:
        """Write until the event is set."""
        self._stopping = False
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=GIVE_UP_S)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            asyncio.TaskGroup() as group,
        ):
            for each in self._clients(session):
                group.create_task(each)
            await until.wait()
            self._stopping = True

    def _clients(self, session: aiohttp.ClientSession):  # type: ignore[no-untyped-def]
        for number in range(8):
            yield self._singles(session, PLAIN, f"plain-{number}", self.plain, self._number)
        for number in range(4):
            yield self._batches(session, f"batch-{number}")
        for url in self._urls:
            yield self._probes(session, url)
        for number in range(12):
            yield self._singles(session, STATES, f"one-{number}", self.states, self._letter)
        for number in range(6):
            yield self._singles(session, STATES, f"hot-{number % 2}", self.raced, self._letter)
        yield self._singles(session, SPLIT, "deal", self.split, self._number, _in_elements)
        yield self._singles(session, CHUNKED, "document", self.chunked, self._number, _large)
        for number in range(4):
            yield self._singles(session, SPOOLED, f"spool-{number}", self.spooled, self._thirds)

    # What the next event of a key has in it, told the one before and how many there were.

    def _number(self, _: str, sent: int) -> str:
        return str(sent)

    def _letter(self, before: str, _: int) -> str:
        return self._random.choice("ABC") if self._random.random() < 0.5 or not before else before

    def _thirds(self, _: str, sent: int) -> str:
        return str(sent - sent // 3)  # every third is the one before

    async def _singles(
        self,
        session: aiohttp.ClientSession,
        topic: str,
        key: str,
        attempts: list[Attempt],
        content_of: Callable[[str, int], str],
        body_of: Callable[[str, str], bytes] | None = None,
    ) -> None:
        while not self._stopping:
            content = content_of(self._last.get(key, ""), self._sent[key])
            self._last[key] = content
            self._sent[key] += 1
            body = (body_of or _small)(key, content)
            one = Attempt(f"event-{next(self._numbers)}", key, content, time.monotonic())
            attempts.append(one)
            headers = {"Headgate-Event-Id": one.event_id}
            (told,) = await self._post(session, topic, body, headers, 1)
            _note(one, told)
            await self._pause(len(body), one)

    async def _probes(self, session: aiohttp.ClientSession, url: str) -> None:
        """An event of a key of its own now and then, whether or not the last one was answered:
        when a gateway begins to refuse, those who wait for their answers do not see."""
        async with asyncio.TaskGroup() as group:
            while not self._stopping:
                key = f"probe-{next(self._numbers)}"
                one = Attempt(key, key, "0", time.monotonic())
                self.plain.append(one)
                self.probes.append(one)
                group.create_task(self._probe(session, url, one))
                await asyncio.sleep(0.5)

    async def _probe(self, session: aiohttp.ClientSession, url: str, one: Attempt) -> None:
        body, headers = _small(one.key, one.content), {"Headgate-Event-Id": one.event_id}
        (told,) = await self._post(session, PLAIN, body, headers, 1, url)
        _note(one, told)

    async def _batches(self, session: aiohttp.ClientSession, key: str) -> None:
        while not self._stopping:
            size, first = self._random.randint(2, 6), self._sent[key]
            self._sent[key] += size
            numbers = range(first, first + size)
            some = [Attempt("", key, str(number), time.monotonic()) for number in numbers]
            self.plain += some
            body = b"[" + b",".join(_small(one.key, one.content) for one in some) + b"]"
            answers = await self._post(session, PLAIN, body, {}, size)
            for one, told in zip(some, answers, strict=True):
                _note(one, told)
            await self._pause(0, some[-1])

    async def _post(
        self,
        session: aiohttp.ClientSession,
        topic: str,
        body: bytes,
        headers: dict[str, str],
        events: int,
        place: str | None = None,
    ) -> list[dict[str, object]]:
        """Return one answer for each event; {} = none."""
        if place is None:
            place = self._spooling if topic == SPOOLED else self._random.choice(self._urls)
        url = f"{place}/v1/topics/{topic}/events"
        headers = {"Content-Type": "application/json", **headers}
        try:
            async with session.post(url, data=body, headers=headers) as answer:
                told = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return [{}] * events
        if "outcomes" in told:
            if len(told["outcomes"]) != events:
                self.odd.append(f"{events} events, {len(told['outcomes'])} outcomes: {told}")
                return [{}] * events
            return list(told["outcomes"])
        if not told.get("reason") and (events != 1 or not told.get("outcome")):
            self.odd.append(f"{events} events: {told}")
        return [told] * events

    async def _pause(self, size: int, last: Attempt) -> None:
        # Large ones come once a second, and who was refused waits as a sender should.
        average_s = 1.0 if size > 10_000 else self._pause_s
        if last.outcome not in GOOD:
            average_s = max(average_s, 0.2)
        await asyncio.sleep(average_s * (0.5 + self._random.random()))


def _note(one: Attempt, told: dict[str, object]) -> None:
    one.told = time.monotonic()
    outcome = told.get("outcome")
    one.outcome = str(told.get("reason") or outcome) if told else None
    if outcome in GOOD:
        one.outcome = str(outcome)
    if isinstance(offset := told.get("offset"), int):
        one.offset = offset
    if isinstance(partition := told.get("partition"), int):
        one.partition = partition


def _small(key: str, content: str) -> bytes:
    return json.dumps({"id": key, "content": content, "pad": "x" * 200}).encode()


def _in_elements(key: str, content: str) -> bytes:
    elements = [
        {"id": f"{key}-{number}", "content": content, "pad": noise(_LARGE // _ELEMENTS).decode()}
        for number in range(_ELEMENTS)
    ]
    return json.dumps({"id": key, "content": content, "options": elements}).encode()


def _large(key: str, content: str) -> bytes:
    return json.dumps({"id": key, "content": content, "pad": noise(_LARGE).decode()}).encode()
