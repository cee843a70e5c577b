"""What lanes told about the records they took, and whether the log agrees."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from headgate.kafka.lanes import KafkaLanes
from headgate.kafka.options import ClusterOptions, LaneLimits
from headgate.kafka.topics import KafkaTopics
from headgate.metrics.meter import Meter
from headgate.model.outcome import Failure, Reason
from headgate.model.publish import Publish, Record, Stage
from headgate.model.record import size_of
from headgate.model.topics import TopicState
from support.gateway.meters import a_meter, counted
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import eventually


def fields_of(record: Record) -> dict[str, Any]:
    """A record's fields by name."""
    names = ("topic", "partition", "key", "value", "headers", "timestamp_ms")
    return {name: getattr(record, name) for name in names}


def changed(record: Record, **changes: Any) -> Record:
    """A record like this one but for some fields."""
    return Record(**fields_of(record) | changes)


class History:
    """Listens as `Deliveries`; makes publishes whose value is their number."""

    def __init__(self) -> None:
        self.made: list[Publish] = []
        self.offsets: dict[Publish, int] = {}
        self.failures: dict[Publish, Failure] = {}
        self.handed: Counter[Publish] = Counter()
        self.meter = a_meter()
        self.batches: list[int] = []
        self._numbers = itertools.count()

    @property
    def rebuilds(self) -> list[str]:
        """Reasons for which producers were replaced, in order of their first time."""
        counts = counted(self.meter, "producer_rebuilds")
        return [reason for (_, reason), count in counts.items() for _ in range(int(count))]

    def publish(
        self, topic: str, partition: int, *, size: int = 0, timestamp_ms: int | None = None
    ) -> Publish:
        """Make a publish; its value begins with its number and has at least `size` bytes."""
        number = next(self._numbers)
        value = b"%d " % number
        value += b"x" * (size - len(value))
        headers = [("hg-event-id", b"%d" % number)]
        at_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        record = Record(topic, partition, b"key", value, headers, at_ms)
        made = Publish(record, size_of(b"key", value, headers), None, number, str(number))
        self.made.append(made)
        return made

    def handed_over(self, batch: Sequence[Publish]) -> None:
        self.handed.update(batch)
        assert all(one.stage is Stage.HANDED for one in batch)

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        self.batches.append(len(batch))
        for index, one in enumerate(batch):
            self._must_be_new(one)
            self.offsets[one] = base_offset + index

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        for one in batch:
            self._must_be_new(one)
            self.failures[one] = failure

    def all_ended(self, publishes: Iterable[Publish] | None = None) -> bool:
        """Tell whether every publish that was not dropped has ended."""
        wanted = self.made if publishes is None else publishes
        return all(one in self.offsets or one in self.failures or one.dropped for one in wanted)

    def reasons(self) -> Counter[Reason]:
        """Count the failures by reason."""
        return Counter(failure.reason for failure in self.failures.values())

    def check(self, log: Iterable[LogRecord]) -> None:
        """Compare with what an independent client reads.

        Every acknowledged record is in the log exactly once, at its offset; nothing that certainly
        was not written is there; `unknown` is there at most once; and the records of a partition
        are in the order in which they were put.
        """
        found: dict[int, LogRecord] = {}
        order: dict[int, list[int]] = {}
        for record in log:
            number = int((record.value or b"").split(b" ")[0])
            assert number not in found, f"record {number} is in the log twice"
            found[number] = record
            order.setdefault(record.partition, []).append(number)
        for numbers in order.values():
            assert numbers == sorted(numbers), "records changed places"
        for one, offset in self.offsets.items():
            assert one.index in found, f"acknowledged record {one.index} is not in the log"
            at = found[one.index]
            assert (at.partition, at.offset) == (one.record.partition, offset)
            assert (at.value, at.key) == (one.record.value, one.record.key)
            assert (at.headers, at.timestamp_ms) == (one.record.headers, one.record.timestamp_ms)
        for one, failure in self.failures.items():
            if failure.reason is not Reason.UNKNOWN:
                assert one.index not in found, f"record {one.index}: {failure}, but it is there"

    def _must_be_new(self, one: Publish) -> None:
        assert one.stage is Stage.ENDED
        assert one not in self.offsets, "a publish ended twice"
        assert one not in self.failures, "a publish ended twice"


class RunningLanes(NamedTuple):
    """Lanes with their topics and what they told."""

    topics: KafkaTopics
    lanes: KafkaLanes
    history: History
    meter: Meter

    def put(self, *args: Any, **options: Any) -> Publish:
        """Make a publish (see `History.publish`) and put it."""
        made = self.history.publish(*args, **options)
        self.lanes.put(made)
        return made

    def state(self, topic: str) -> TopicState:
        """Return the topic's state; the topic must be known."""
        found = self.topics.get(topic)
        assert found is not None
        return found

    async def all_ended(self, deadline_s: float = 30.0) -> None:
        """Wait until everything that was put has ended."""
        await eventually(self.history.all_ended, deadline_s, 0.01)

    async def load(
        self, topic: str, partitions: int, until: asyncio.Event, per_second: int = 300
    ) -> None:
        """Put records as long as lanes take them, at most so many a second."""
        while not until.is_set():
            for _ in range(per_second // 100):
                partition = random.randrange(partitions)
                if self.lanes.refusal(self.state(topic), partition) is None:
                    self.put(topic, partition, size=300)
            await asyncio.sleep(0.01)

    async def check_log(self, bootstrap: str, topic: str) -> None:
        """Compare with what an independent client reads (see `History.check`)."""
        self.history.check(await asyncio.to_thread(read_log, bootstrap, topic))


@asynccontextmanager
async def running_lanes(
    bootstrap: str,
    *names: str,
    limits: LaneLimits | None = None,
    refresh_ms: int = 10_000,
    **options: Any,
) -> AsyncIterator[RunningLanes]:
    """Start lanes for some topics; close them at the end, whatever happened."""
    clusters = {"main": ClusterOptions(bootstrap, **options)}
    topics = KafkaTopics(clusters, refresh_ms)
    history = History()
    meter = history.meter
    lanes = KafkaLanes(
        clusters, topics, history, dict.fromkeys(clusters, limits or LaneLimits()), meter
    )
    try:
        await topics.start(lambda name: "main" if name in names else None)
        await lanes.start()
        # The node that was asked first may not know the newest topics yet.
        await eventually(lambda: all(is_known(topics, name) for name in names))
        yield RunningLanes(topics, lanes, history, meter)
    finally:
        await lanes.close()
        await topics.close()


def is_known(topics: KafkaTopics, topic: str) -> bool:
    """Whether the topic was read, where its cluster answers; if not, it is read again soon."""
    if topics.get(topic) is None and topics.healthy("main"):
        topics.refresh_soon()
        return False
    return True
