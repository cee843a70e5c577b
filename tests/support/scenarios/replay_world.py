"""Two tiers and a mirror of a test's own: plain copies in transactions, and their map."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer

from headgate.devstack.child import Child
from headgate.replays.offset_map import (
    MAP_PARTITIONS,
    MAP_TOPIC,
    Layout,
    MapAddress,
    layout_record,
    map_partition,
    segment_record,
)
from headgate.replays.registry import REGISTRY_TOPIC
from headgate.replays.segments import Segment
from support.kafka import kafka_log
from support.kafka.kafka_log import LogRecord
from support.process.stack import PATIENCE, Gateway, RunningBroker

BASE_MS = int(time.time() * 1000) - 3_600_000  # older records would be taken by retention
PRODUCERS = ("checkout", "till", "batch")


class Two(NamedTuple):
    """Both tiers."""

    ingest: RunningBroker
    backfill: RunningBroker

    def config(self, more: str = "[replays]\n") -> str:
        if "active_max" not in more:  # tests share the registry, and replays that are ready count
            more = more.replace("[replays]\n", "[replays]\nactive_max = 1000\n")
        if "mirror_wait_ms" not in more:  # the mirror is a test's own, which runs when it is told
            more = more.replace("[replays]\n", "[replays]\nmirror_wait_ms = 0\n")
        return (
            f'[clusters.main]\nbootstrap_servers = "{self.ingest.bootstrap}"\n'
            'backfill = "old"\n'
            f'[clusters.old]\ntier = "backfill"\nbootstrap_servers = "{self.backfill.bootstrap}"\n'
            f'[topics."*"]\ncluster = "main"\nkey = ["/id"]\n{more}'
        )

    def create_internal(self) -> None:
        """What `headgate init` and the mirror create."""
        compact = {"cleanup.policy": "compact"}
        self.backfill.create_topic(REGISTRY_TOPIC, 1, compact)
        self.backfill.create_topic(MAP_TOPIC, MAP_PARTITIONS, compact)

    def delete_internal(self) -> None:
        """What others have left there, who read it no more: replays would be carried out."""
        for name in {REGISTRY_TOPIC, MAP_TOPIC} & kafka_log.topic_names(self.backfill.bootstrap):
            self.backfill.delete_topic(name)

    def create_topic(self, name: str, partitions: int = 2) -> None:
        self.ingest.create_topic(name, partitions)
        self.backfill.create_topic(name, partitions)


def headers_of(number: int) -> list[tuple[str, str | bytes | None]]:
    """Duplicates and a null value, too."""
    return [
        ("hg-producer", PRODUCERS[number % 3].encode()),
        ("kind", b"a"),
        ("kind", b"b" if number % 2 else None),
    ]


def post(
    two: Two, topic: str, partition: int, numbers: Sequence[int], aborted: int = 0, text: str = ""
) -> None:
    """Events on the ingest tier, some seconds apart by their timestamps, in transactions of 7.

    aborted: records of an aborted transaction after each committed one.  text: is in each of them.
    """
    producer = Producer(
        {"bootstrap.servers": two.ingest.bootstrap, "transactional.id": f"post-{topic}-{partition}"}
    )
    producer.init_transactions(30)
    for at in range(0, len(numbers), 7):
        producer.begin_transaction()
        for number in numbers[at : at + 7]:
            produce(producer, topic, partition, number, text)
        producer.commit_transaction(30)
        if aborted:
            producer.begin_transaction()
            for number in range(aborted):
                produce(producer, topic, partition, -number)
            producer.flush(30)
            producer.abort_transaction(30)
    kafka_log.wait_settled(two.ingest.bootstrap, topic)


def produce(producer: Producer, topic: str, partition: int, number: int, text: str = "") -> None:
    document = {"id": number, "even": number % 2 == 0, **({"text": text} if text else {})}
    value = None if number % 11 == 10 else json.dumps(document)
    producer.produce(
        topic,
        value,
        key=f"key-{number % 5}",
        partition=partition,
        timestamp=BASE_MS + max(number, 0) % 3_000 * 1000,  # an hour ahead is too much for Kafka
        headers=headers_of(number),
    )


def mirror(two: Two, topic: str, partitions: int = 2, chunk: int = 10) -> None:
    """Copy all that is committed and not yet there, a chunk a transaction, with the map."""
    for partition in range(partitions):
        _mirror_one(two, topic, partition, partitions, chunk)
    for name in (topic, MAP_TOPIC):
        kafka_log.wait_settled(two.backfill.bootstrap, name)


def _mirror_one(two: Two, topic: str, partition: int, partitions: int, chunk: int) -> None:
    sources = _of(two.ingest, topic, partition)
    there = len(_of(two.backfill, topic, partition))
    ends = kafka_log.end_offsets(two.ingest.bootstrap, topic)
    place = MapAddress(topic, partition, 1)
    producer = Producer(
        {
            "bootstrap.servers": two.backfill.bootstrap,
            "transactional.id": f"mirror-{topic}-{partition}",
        }
    )
    producer.init_transactions(30)
    if not there:
        producer.begin_transaction()
        _put(producer, place, layout_record(place, _layout(two, topic, partitions)))
        producer.commit_transaction(30)
    for at in range(there, len(sources), chunk):
        some = sources[at : at + chunk]
        end = sources[at + chunk].offset if at + chunk < len(sources) else ends[partition]
        producer.begin_transaction()
        target = _copied(producer, topic, some)
        for segment in _segments(some, target, end):
            _put(producer, place, segment_record(place, segment))
        producer.commit_transaction(30)


def _layout(two: Two, topic: str, partitions: int) -> Layout:
    ids = [kafka_log.topic_id(one.bootstrap, topic) for one in two]
    return Layout(partitions, *ids, BASE_MS)


def _copied(producer: Producer, topic: str, some: Sequence[LogRecord]) -> int:
    placed: list[int] = []
    for one in some:
        producer.produce(
            topic,
            one.value,
            key=one.key,
            partition=one.partition,
            timestamp=one.timestamp_ms,
            headers=one.headers,
            on_delivery=lambda _error, sent: placed.append(sent.offset()),
        )
    producer.flush(30)
    assert placed == list(range(placed[0], placed[0] + len(some)))
    return placed[0]


def _segments(some: Sequence[LogRecord], target: int, end: int) -> list[Segment]:
    """One for each run of offsets."""
    found: list[Segment] = []
    start = 0
    for at in range(1, len(some) + 1):
        if at == len(some) or some[at].offset != some[at - 1].offset + 1:
            run = some[start:at]
            times = [one.timestamp_ms for one in run]
            until = some[at].offset if at < len(some) else end
            found.append(
                Segment(run[0].offset, target + start, len(run), until, min(times), max(times))
            )
            start = at
    return found


def _put(producer: Producer, place: MapAddress, record: tuple[bytes, bytes]) -> None:
    partition = map_partition(place.topic, place.partition)
    producer.produce(MAP_TOPIC, record[1], key=record[0], partition=partition)


def _of(broker: RunningBroker, topic: str, partition: int) -> list[LogRecord]:
    return [
        one for one in kafka_log.read_log(broker.bootstrap, topic) if one.partition == partition
    ]


class Answer(NamedTuple):
    status: int
    page: Any
    headers: dict[str, str]


class Api:
    """The control plane of a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @property
    def url(self) -> str:
        return self._gateway.management_url

    @property
    def data_url(self) -> str:
        return self._gateway.url

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", self._gateway.management_port, timeout=90)
        try:
            raw = None if body is None else json.dumps(body)
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            named["Content-Type"] = "application/json"
            connection.request(method, path, raw, named)
            answer = connection.getresponse()
            return Answer(answer.status, json.loads(answer.read()), dict(answer.headers))
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.page

    def create(self, topic: str, **more: Any) -> Answer:
        asked = {"name": "again", "topic": topic, "from": {"timestamp": 0}}
        return self.ask("POST", "/v1/replays", {**asked, "deliver": {"mode": "topic"}, **more})


class ReplayRunner:
    """`headgate-spark replay --follow` as a process."""

    def __init__(
        self, config: Path, log: Path, *more: str, environment: Mapping[str, str] | None = None
    ) -> None:
        command = [sys.executable, "-m", "headgate_spark", "replay", "--config", str(config)]
        command += ["--follow", "--patience", "3", *more]
        self._child = Child(
            "runner", command, log, environment={**os.environ, **(environment or {})}
        )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        return self._child.exit_code

    def log(self) -> str:
        return self._child.log.read_text(errors="replace")

    def signal(self, number: int) -> None:
        self._child.signal(number)

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        self._child.stop(30.0)

    def kill(self) -> None:
        """SIGKILL, also when it stands still."""
        self._child.signal(signal.SIGCONT)
        self._child.kill()


def until(
    ask: Callable[[], Any], is_enough: Callable[[Any], bool], deadline_s: float = 60.0
) -> Any:
    """Poll until what is answered is enough. `deadline_s` is for an idle machine."""
    deadline_s *= PATIENCE
    end = time.monotonic() + deadline_s
    while not is_enough(found := ask()):
        assert time.monotonic() < end, f"not within {deadline_s} s: {found}"
        time.sleep(0.1)
    return found
