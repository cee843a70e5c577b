"""Clients of gateways of two versions, and the judgement of what these answered by the log."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from support.clients.http_client import ClosedError, post
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway
from support.upgrades.former import Version

KEYS, CONTENTS = 6, 3
_TIRED_S = 0.05  # before an event that no gateway took is sent again


class Member(NamedTuple):
    """A gateway, and what it is."""

    version: Version
    gateway: Gateway


class Answered(NamedTuple):
    """An event and its answer, by a gateway of that version."""

    content: int
    version: str
    document: dict[str, Any]


class RollingLoad:
    """For each key one client, which sends its events one after the other, to any gateway that is
    there. What no gateway has taken is sent again.
    """

    def __init__(self, topics: Sequence[str], seed: int) -> None:
        self._chance = random.Random(seed)
        self._is_over = False
        self.members: list[Member] = []
        self.answered: dict[tuple[str, str], list[Answered]] = {
            (topic, f"k{key}"): [] for topic in topics for key in range(KEYS)
        }

    async def run(self) -> None:
        """Until `stop`."""
        await asyncio.gather(*(self._client(*one) for one in self.answered))

    def stop(self) -> None:
        """What is under way ends."""
        self._is_over = True

    def count(self) -> int:
        """How many events were answered."""
        return sum(map(len, self.answered.values()))

    async def _client(self, topic: str, key: str) -> None:
        number = 0
        while not self._is_over:
            number += 1
            content = self._content(topic, number)
            self.answered[topic, key].append(await self._sent(topic, key, content))

    def _content(self, topic: str, number: int) -> int:
        """What is held is known by its number; elsewhere contents come again."""
        return number if topic.startswith("held") else self._chance.randrange(CONTENTS)

    async def _sent(self, topic: str, key: str, content: int) -> Answered:
        body = json.dumps({"id": key, "v": content}).encode()
        while True:
            if self.members:
                version, gateway = self._chance.choice(self.members)
                try:
                    answer = await asyncio.to_thread(post, gateway.port, topic, body)
                except (ConnectionRefusedError, ClosedError):  # it has just ended, drained
                    await asyncio.sleep(_TIRED_S)
                    continue
                if answer.status < 300:
                    return Answered(content, version.name, answer.document)
                assert answer.status == 503, answer
            await asyncio.sleep(_TIRED_S)


def judge(
    bootstrap: str, topic: str, answered: dict[tuple[str, str], list[Answered]]
) -> Counter[str]:
    """Compare with the log: each record is an answer's and the other way round, in the order of
    the key; what was unchanged was the key's last content. How often a gateway suppressed what one
    of the same, or of the other version had published.
    """
    logs = _by_key(read_log(bootstrap, topic))
    seen: Counter[str] = Counter()
    for (of, key), answers in answered.items():
        if of != topic:
            continue
        last: Answered | None = None
        log = iter(logs.pop(key, []))
        for one in answers:
            place = one.document["partition"], one.document["offset"]
            if one.document["outcome"] == "published":
                record = next(log)
                assert (record.partition, record.offset) == place, (key, one, record)
                assert json.loads(record.value or b"")["v"] == one.content, (key, one, record)
                last = one
            else:
                assert one.document["outcome"] == "unchanged", (key, one)
                assert last is not None, (key, one)
                assert last.content == one.content, (key, one, last)
                assert (last.document["partition"], last.document["offset"]) == place, (key, one)
                seen["same" if last.version == one.version else "other"] += 1
        assert next(log, None) is None, key
    assert not logs
    return seen


def judge_held(bootstrap: str, topic: str, answered: dict[tuple[str, str], list[Answered]]) -> int:
    """Of each key the numbers in the log grow, none comes twice, and the last is the last that was
    sent. How many records."""
    logs = _by_key(read_log(bootstrap, topic))
    for (of, key), answers in answered.items():
        if of == topic:
            numbers = [json.loads(one.value or b"")["v"] for one in logs[key]]
            assert numbers == sorted(set(numbers)), key
            assert numbers[-1] == answers[-1].content, key
    return sum(map(len, logs.values()))


def _by_key(log: Sequence[LogRecord]) -> dict[str, list[LogRecord]]:
    found: dict[str, list[LogRecord]] = {}
    for one in log:
        found.setdefault((one.key or b"").decode(), []).append(one)
    return found
