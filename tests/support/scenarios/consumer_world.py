"""Groups of consumers on a real broker: ours, plain aiokafka ones, librdkafka ones beside them."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition
from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import KafkaException, Producer

from headgate.consumer.consumer import Consumer
from headgate.consumer.options import ConsumerOptions
from headgate.consumer.partition import Received
from headgate.oversize.chunks import Head, Header, cut, headers_of
from support.process import group_member

Place = tuple[int, int]

PREFETCH = 100


def fill(bootstrap: str, topic: str, partitions: int, each: int, keys: int = 7) -> None:
    """Write `each` records with keys to every partition."""
    # Idempotent, as a batch that is sent again would otherwise land behind those after it.
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "enable.idempotence": True,
            "queue.buffering.max.messages": partitions * each,
        }
    )
    for number in range(each):
        for partition in range(partitions):
            key = f"{partition}-{number % keys}".encode()
            producer.produce(topic, str(number).encode(), key, partition=partition)
        producer.poll(0)
    assert producer.flush(90) == 0


def chunks(value: bytes, set_id: bytes, pieces: int = 2) -> list[tuple[bytes, list[Header]]]:
    """The values and headers of a chunked event's records."""
    parts = cut(value, -(-len(value) // pieces))
    head = Head(set_id, 0, len(parts), len(value), sha256(value).digest())
    return [(part, headers_of(head._replace(number=at))) for at, part in enumerate(parts)]


def fill_with_sets(bootstrap: str, topic: str, events: int) -> None:
    """Write chunked events to partition 0, each begun before the one before is whole, behind the
    beginning of one that never gets whole."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    records = chunks(b"never whole", b"dead")[:1]
    open_set: list[tuple[bytes, list[Header]]] = []
    for number in range(events):
        first, *rest = chunks(b"event %d" % number, b"%d" % number)
        records += [first, *open_set]
        open_set = rest
    for value, headers in [*records, *open_set]:
        named: list[tuple[str, str | bytes | None]] = [*headers]
        producer.produce(topic, value, b"key", partition=0, headers=named)
    assert producer.flush(90) == 0


@dataclass
class Handled:
    """What all members of a group did, in the order in which they did it."""

    ended: list[tuple[float, Place]] = field(default_factory=list)
    begun: Counter[Place] = field(default_factory=Counter)

    def end(self, *places: Place) -> None:
        at = time.monotonic()  # one clock for all processes
        self.ended += [(at, place) for place in places]

    @property
    def done(self) -> list[Place]:
        return [place for _, place in sorted(self.ended)]

    def places(self) -> set[Place]:
        return {place for _, place in self.ended}

    def redelivered(self) -> int:
        """Hand-outs beyond the first of each record."""
        return sum(self.begun.values()) - len(self.begun)

    def check_all(self, partitions: int, each: int) -> None:
        lacking = {(p, o) for p in range(partitions) for o in range(each)} - self.places()
        assert not lacking, f"{len(lacking)} records were skipped, such as {sorted(lacking)[:3]}"


class OurMember:
    """A member with slow handlers that end out of order."""

    def __init__(
        self, bootstrap: str, topic: str, group: str, handled: Handled, chance: random.Random
    ) -> None:
        options = ConsumerOptions(
            concurrency=32,
            prefetch=PREFETCH,
            commit_interval_s=0.05,
            drain_s=5,
            session_timeout_ms=6_000,
        )
        self.consumer = Consumer(
            topic,
            group=group,
            bootstrap=bootstrap,
            options=options,
            offsets=group_member.LateCommits(),
        )
        self._handled = handled
        self._chance = chance
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with self.consumer:
            await self.consumer.run(self._handle, tasks=16)

    async def _handle(self, received: Received) -> None:
        self._handled.begun[received.partition, received.offset] += 1
        await asyncio.sleep(self._chance.uniform(0, 0.02))
        self._handled.end((received.partition, received.offset))

    async def stop(self) -> None:
        self.consumer.stop()
        assert self._task is not None
        await self._task


class ProcessMember:
    """One of ours in a process of its own, which can stand still beyond its session."""

    def __init__(
        self, bootstrap: str, topic: str, group: str, handled: Handled, folder: Path
    ) -> None:
        self._handled = handled
        self._file = folder / f"member-{uuid4()}"
        self._file.touch()
        self._command = [sys.executable, group_member.__file__, bootstrap, topic, group]
        self._command.append(str(self._file))

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(*self._command)

    def has_begun(self, events: int) -> bool:
        return self._file.read_text().count("begin") >= events

    async def stand_still(self, seconds: float) -> None:
        """The group gives it up; then it goes on with what it had."""
        self.halt()
        await asyncio.sleep(seconds)
        self.go_on()

    def halt(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        self.go_on()
        self._process.terminate()
        try:
            async with asyncio.timeout(90):
                await self._process.wait()
        finally:
            if self._process.returncode is None:
                self._process.kill()
                await self._process.wait()
        for line in self._file.read_text().splitlines():
            at, what, partition, offset = line.split()
            place = (int(partition), int(offset))
            if what == "begin":
                self._handled.begun[place] += 1
            else:
                self._handled.ended.append((float(at), place))


class PlainMember:
    """What one writes with aiokafka alone: work in tasks, done offsets committed now and then."""

    def __init__(
        self, bootstrap: str, topic: str, group: str, handled: Handled, chance: random.Random
    ) -> None:
        self._arguments = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 500,
        }
        self._topic = topic
        self._handled = handled
        self._chance = chance
        self._highest: dict[TopicPartition, int] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._consumer = AIOKafkaConsumer(self._topic, **self._arguments)
        await self._consumer.start()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._commit())]

    async def _read(self) -> None:
        while True:
            for tp, records in (
                await self._consumer.getmany(timeout_ms=100, max_records=50)
            ).items():
                for record in records:
                    self._handled.begun[record.partition, record.offset] += 1
                await asyncio.sleep(self._chance.uniform(0, 0.02))
                self._handled.end(*((one.partition, one.offset) for one in records))
                self._highest[tp] = records[-1].offset + 1

    async def _commit(self) -> None:
        while True:
            offsets = dict(self._highest)
            await asyncio.sleep(self._chance.uniform(0, 0.3))  # the commit is late
            owned = self._consumer.assignment()
            try:
                await self._consumer.commit({tp: to for tp, to in offsets.items() if tp in owned})
            except (KafkaError, ValueError):
                continue

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._consumer.stop()


class RdMember:
    """A librdkafka member beside them, in a thread: it handles one record after the other."""

    def __init__(self, bootstrap: str, topic: str, group: str, handled: Handled) -> None:
        self._consumer = RdConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "roundrobin",
                "session.timeout.ms": 6_000,
            }
        )
        self._consumer.subscribe([topic])
        self._handled = handled
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="librdkafka member")

    async def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error():
                continue
            place = (message.partition(), message.offset())
            self._handled.begun[place] += 1
            self._handled.end(place)
            try:
                self._consumer.commit(message=message, asynchronous=False)
            except KafkaException:
                continue
        self._consumer.close()

    async def stop(self) -> None:
        self._stop.set()
        await asyncio.to_thread(self._thread.join, 90)


Member = OurMember | ProcessMember | PlainMember | RdMember


class Rebalances:
    """Members join and leave at random, so often; one in ten times, one stands still."""

    def __init__(self, new_member: Callable[[], Member], chance: random.Random) -> None:
        self._new = new_member
        self._chance = chance
        self.members: list[Member] = []
        self.forced = 0

    async def force(self, count: int, pause_s: tuple[float, float]) -> None:
        for number in range(count):
            self.forced += 1
            if number % 10 == 5:
                await self._stand_still()
            elif len(self.members) <= 2 or (len(self.members) < 4 and self._chance.random() < 0.5):
                member = self._new()
                self.members.append(member)
                await member.start()
            else:
                await self.members.pop(self._chance.randrange(len(self.members))).stop()
            await asyncio.sleep(self._chance.uniform(*pause_s))

    async def _stand_still(self) -> None:
        for member in self.members:
            if isinstance(member, ProcessMember):
                await member.stand_still(8)  # sessions have 6 s
                return

    async def stop(self) -> None:
        while self.members:
            await self.members.pop().stop()


def out_of_order(done: list[Place], keys: int) -> list[tuple[Place, Place]]:
    """First ends of records of a key that came before an earlier record of the key ended first."""
    newest: dict[tuple[int, int], Place] = {}
    seen: set[Place] = set()
    found: list[tuple[Place, Place]] = []
    for place in done:
        if place in seen:
            continue
        seen.add(place)
        key = (place[0], place[1] % keys)
        before = newest.get(key)
        if before is not None and before[1] > place[1]:
            found.append((before, place))
        newest[key] = place
    return found
