"""Gateways with several Redis servers in memory, in virtual time: what happens is drawn by lot.

The suppressors are the real ones; servers, lanes and the log are stand-ins. Every event that is
answered `unchanged` is judged at once: its content must have been its key's last at some moment
since it arrived.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

from headgate.model.outcome import Failure
from headgate.model.publish import Publish, Stage
from headgate.model.suppression import Scope
from headgate.suppression.options import SuppressOptions
from headgate.suppression.sharded import ShardedSuppressor
from headgate.suppression.suppressor import Suppressor, memberships
from support.doubles.suppression_store import MemoryRedis, MemoryStore
from support.gateway.meters import a_meter
from support.gateway.suppression_world import make_publish

QUARANTINE_S, LIFE_S, LANDS_S = 8.0, 8.0, 2.0
KEYS, CONTENTS = 6, "AB"
OPTIONS = SuppressOptions(
    token_ttl_ms=LIFE_S * 1000,
    quarantine_ms=QUARANTINE_S * 1000,
    max_suppress_age_ms=1e6,
    touches_opened=True,
)


class Process:
    """A gateway. servers: the places of those in its list."""

    def __init__(self, world: World, servers: Sequence[int]) -> None:
        self.world, self.servers = world, sorted(servers)
        self.is_alive = True
        self.attempts: dict[Publish, list[bool]] = {}
        self.scope = Scope("deals", b"\x01" * 16, 1, world.rule)
        names = [f"redis-{place}:6379/0" for place in self.servers]
        members = memberships(names, OPTIONS, "headgate")
        if not world.agrees:
            alike = members[0].call._replace(layout=bytes(16))
            members = [one._replace(call=alike) for one in members]
        self.stores = [MemoryStore(world.redis[place]) for place in self.servers]
        bytes_of = world.chance.randbytes
        own = (self, OPTIONS, world.clock, bytes_of, a_meter())
        parts = [
            Suppressor(store, *own, membership=member)
            for store, member in zip(self.stores, members, strict=True)
        ]
        self.suppressor: Suppressor | ShardedSuppressor = parts[0]
        if len(parts) > 1:
            named = dict(zip(names, parts, strict=True))
            self.suppressor = ShardedSuppressor(named, members[0].agreement, world.clock, 0.5)

    async def start(self) -> None:
        self.suppressor.open(self.scope)
        await self.suppressor.start()

    async def stop(self, *, kill: bool) -> None:
        self.is_alive = False
        for store in self.stores:
            store.cut = kill
        await self.suppressor.close()

    def arrive(self, key: str, content: str) -> None:
        publish = make_publish(content, self.scope, key)
        self.attempts[publish] = [self.world.last.get(key) == content]
        self.world.open[publish] = self.attempts[publish]
        self.suppressor.reserve(publish)

    # ---- Verdicts

    def publish(self, publish: Publish) -> None:
        publish.advance(Stage.LANE)
        self.world.hand_over(self, publish)

    def unchanged(self, publish: Publish, offset: int) -> None:
        self.world.outcomes["unchanged"] += 1
        for one in (publish, *(publish.followers or ())):
            matched = self.world.open.pop(one)
            if not matched[0]:
                self.world.wrong.append(self.world.describe(one, self))

    def refused(self, publish: Publish, failure: Failure) -> None:
        self.world.open.pop(publish, None)
        self.world.outcomes["refused"] += 1


class World:
    """What runs, what happens to it, and what was found wrong. agrees: on the servers.
    steps: the lists that all gateways have, one after the other."""

    def __init__(self, seed: int, steps: Sequence[Sequence[int]], *, agrees: bool = True) -> None:
        self.chance = random.Random(seed)
        self.agrees, self.steps, self.rule = agrees, steps, b"\x07" * 8
        self.clock: Callable[[], float] = asyncio.get_running_loop().time
        self.redis = [MemoryRedis(lambda: 1e12 + self.clock() * 1000) for _ in range(4)]
        for place, one in enumerate(self.redis):
            one.process = 100 * place + 1
        self.last: dict[str, str] = {}
        self.open: dict[Publish, list[bool]] = {}
        self.offsets = count()
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.processes: list[Process] = []
        self._lanes: set[asyncio.Task[None]] = set()

    def describe(self, publish: Publish, process: Process) -> str:
        key = (publish.record.key or b"").decode()
        content = (publish.record.value or b"").decode()
        lists = [one.servers for one in self.processes]
        return f"{self.clock():.2f}: {key}={content} at {process.servers} of {lists}, {self.last}"

    def hand_over(self, process: Process, publish: Publish) -> None:
        task = asyncio.get_running_loop().create_task(self._land(process, publish))
        self._lanes.add(task)
        task.add_done_callback(self._lanes.discard)

    async def _land(self, process: Process, publish: Publish) -> None:
        slow = self.chance.random() < 0.05
        await asyncio.sleep(self.chance.random() * (LANDS_S if slow else 0.02))
        if publish.stage is Stage.LANE:
            publish.advance(Stage.HANDED)
        key = (publish.record.key or b"").decode()
        content = (publish.record.value or b"").decode()
        offset = next(self.offsets)
        self.last[key] = content
        for other, matched in self.open.items():
            if other.record.key == publish.record.key and other.record.value == content.encode():
                matched[0] = True
        await asyncio.sleep(self.chance.random() * 0.01)
        self.outcomes["published"] += 1
        publish.advance(Stage.ENDED)
        for one in (publish, *(publish.followers or ())):
            self.open.pop(one, None)
        publish.followers = None
        if process.is_alive:
            process.suppressor.acknowledged([publish], offset)

    # ---- what happens

    async def run(self, spell_s: float, kills: float) -> None:
        """spell_s: how long each list is in use by all.  kills: how likely a server is killed
        while lists change, and in each spell."""
        self.processes = [Process(self, self.steps[0]) for _ in range(2)]
        await asyncio.gather(*(one.start() for one in self.processes))
        writing = asyncio.create_task(self._write())
        for step in self.steps[1:]:
            await self._spell(spell_s, kills)
            for number in (0, 1):
                await self._maybe_kill(kills)
                await self._replace(number, step)
                await asyncio.sleep(self.chance.choice([0.1, 3.0, 20.0]) * self.chance.random())
        await self._spell(spell_s, kills)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await asyncio.gather(*(one.stop(kill=False) for one in self.processes))
        await asyncio.gather(*self._lanes)

    async def _spell(self, spell_s: float, kills: float) -> None:
        at_s = self.chance.random() * spell_s
        await asyncio.sleep(at_s)
        await self._maybe_kill(kills)
        await asyncio.sleep(spell_s - at_s)

    async def _replace(self, number: int, servers: Sequence[int]) -> None:
        former = self.processes[number]
        new = Process(self, servers)
        if self.chance.random() < 0.3:  # as a rolling deployment: the new one comes first
            await new.start()
            self.processes[number] = new
            await former.stop(kill=self.chance.random() < 0.5)
        else:
            await former.stop(kill=self.chance.random() < 0.5)
            await new.start()
            self.processes[number] = new

    async def _maybe_kill(self, likely: float) -> None:
        if self.chance.random() >= likely:
            return
        redis = self.redis[self.chance.choice(self.steps[0])]
        kept = copy.copy(redis.values) if self.chance.random() < 0.5 else {}
        await asyncio.sleep(self.chance.random() * 3)
        redis.up = False
        await asyncio.sleep(self.chance.random() * 3)
        redis.restart()
        redis.values = kept
        self.outcomes["killed"] += 1

    async def _write(self) -> None:
        while True:
            alive = [one for one in self.processes if one.is_alive]
            if alive:
                key = f"k{self.chance.randrange(KEYS)}"
                self.chance.choice(alive).arrive(key, self.chance.choice(CONTENTS))
            await asyncio.sleep(self.chance.random() * 0.2)
