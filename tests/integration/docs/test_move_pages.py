"""The pages for who moves here: their requests, where keys land, and two topics side by side."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from headgate.model.keys import partition_for
from peers.builds import built
from peers.stand import Place, start_pixy
from support.clients.http_client import exchange
from support.kafka.kafka_log import LogRecord, read_log
from support.pages import ON_THE_MOVE, examples_of, run, sources
from support.process.stack import Gateway, RunningBroker

pytestmark = pytest.mark.kafka

OLD, NEW = "orders", "orders-next"
PARTITIONS = 6
KEYS = [f"{word}{number}" for number in range(60) for word in ("", "deal-", "ключ-", "a b/")]
V2 = "application/vnd.kafka.json.v2+json"
ENVELOPE = "application/vnd.headgate.batch+json"


def fnv1a(key: bytes) -> int:
    """As sarama's `NewHashPartitioner` has it: the hash of 32 bits with a sign, made positive."""
    found = 0x811C9DC5
    for byte in key:
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return abs(found - (1 << 32) if found >= 1 << 31 else found)


# What the pages say of who wrote before: librdkafka's name for it, and the hash by itself.
BEFORE: dict[str | None, Callable[[bytes], int]] = {
    None: zlib.crc32,  # librdkafka's default
    "consistent_random": zlib.crc32,
    "fnv1a_random": fnv1a,
}


class Move:
    """The gateway of the page, and the topics."""

    def __init__(self, kafka: RunningBroker, gateway: Gateway, config: Path) -> None:
        self.kafka, self.gateway, self.config = kafka, gateway, config

    def old(
        self, topic: str, records: Iterable[tuple[bytes, bytes]], partitioner: str | None = None
    ) -> None:
        """Write as a producer that knows nothing of the gateway."""
        options = {"bootstrap.servers": self.kafka.bootstrap}
        producer = Producer(options | ({"partitioner": partitioner} if partitioner else {}))
        for key, value in records:
            producer.produce(topic, value, key)
        assert producer.flush(30) == 0

    def post(self, path: str, kind: str, body: object) -> None:
        text = json.dumps(body, ensure_ascii=False).encode()
        answer = exchange(self.gateway.port, "POST", path, {"Content-Type": kind}, text)
        assert answer.status == 200, answer

    def log(self, topic: str) -> list[LogRecord]:
        return list(read_log(self.kafka.bootstrap, topic))

    def compare(self) -> subprocess.CompletedProcess[str]:
        """The command of the page."""
        (line,) = sources("move/index", "bash")
        program, *arguments = line.split()
        assert program == "headgate"
        known = [str(self.config) if one == "headgate.toml" else one for one in arguments]
        command = [sys.executable, "-m", "headgate", *known, "--margin", "0"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def move(
    start_broker: Callable[..., RunningBroker],
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
) -> Move:
    kafka = start_broker()
    for topic in (OLD, NEW, "default", *(name for name in BEFORE if name)):
        kafka.create_topic(topic, PARTITIONS)
    (text,) = sources("move/index", "toml")
    text = text.replace("kafka:9092", kafka.bootstrap)
    config = tmp_path / "page.toml"
    config.write_text(text)
    return Move(kafka, start_gateway(text), config)


def places(log: Sequence[LogRecord]) -> dict[bytes | None, int]:
    return {one.key: one.partition for one in log}


def test_the_requests_are_answered_as_the_pages_say(move: Move) -> None:
    addresses = {"http://127.0.0.1:8080": move.gateway.url}
    shown = [example for page in ON_THE_MOVE for example in examples_of(page)]
    assert len(shown) == 6
    wrong = [f"{one.place}: {text}" for one in shown for text in run(one, addresses)]
    assert wrong == []
    written = {(one.key, one.value): one for one in move.log(NEW)}
    assert (
        b'{"shop":1}',
        None,
    ) in written  # of JSON there is a tombstone, and a key without blanks
    assert written[b"9", b"paid"].header("shop") == b"bremen"
    assert written[b"18", b"Good news everyone!"].header("order-type") == b"gift"
    assert written[b"19", b'{"order_id": 19}'].header("shop") == b"bremen"
    assert (b"20", None) in written
    (program,) = sources("move/own-producer", "python")
    done = subprocess.run(
        [sys.executable, "-c", program.replace("kafka:9092", move.kafka.bootstrap)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert places(move.log(OLD)) == {b"17": partition_for(b"17", PARTITIONS)}


def test_keys_land_where_the_pages_say_and_topics_are_compared(move: Move) -> None:
    events = [(key, {"id": key, "total": number}) for number, key in enumerate(KEYS * 2)]
    plain = [(key.encode(), json.dumps(value).encode()) for key, value in events]
    quoted = [
        (json.dumps(key, ensure_ascii=False).encode(), text) for key, text in events_of(plain)
    ]

    # Confluent's REST Proxy and the Strimzi bridge: the Java client's hash of the key's JSON text.
    move.old(OLD, quoted, "murmur2_random")
    records = [{"key": key, "value": value} for key, value in events]
    move.post(f"/topics/{NEW}", V2, {"records": records})
    assert places(move.log(NEW)) == places(move.log(OLD))

    # Those with another client: equal contents, but most keys elsewhere.
    envelopes = [{"key": key, "value": value} for key, value in events]
    move.post(f"/v1/topics/{NEW}/events", ENVELOPE, {"events": envelopes})
    here = places(move.log(NEW))
    for partitioner, hash_of in BEFORE.items():
        topic = partitioner or "default"
        move.old(topic, plain, partitioner)
        there = places(move.log(topic))
        assert there == {key: hash_of(key) % PARTITIONS for key, _ in plain}
        assert sum(there[key] != here[key] for key in there) > len(there) / 2
    move.old(OLD, plain)

    same = move.compare()
    assert same.returncode == 0, same
    assert "No differences" in same.stdout

    move.post(
        f"/v1/topics/{NEW}/events", ENVELOPE, {"events": [{"key": "7", "value": {"id": "x"}}]}
    )
    other = move.compare()
    assert other.returncode == 1
    assert "another end" in other.stdout

    # Who goes on with the same topic by another hash leaves keys in two partitions.
    moved = next(key for key, _ in plain if zlib.crc32(key) % PARTITIONS != here[key])
    body = {"events": [{"key": moved.decode(), "value": 1}]}
    move.post(f"/v1/topics/{OLD}/events", ENVELOPE, body)
    assert "in several partitions" in move.compare().stdout


@pytest.mark.full
@pytest.mark.timeout(1200)  # it is built first
def test_what_the_page_says_of_kafka_pixy(move: Move, tmp_path: Path) -> None:
    binary = built("pixy", print)
    if binary is None:
        pytest.skip("kafka-pixy cannot be built here")
    with ExitStack() as ending:
        target = start_pixy(binary, Place(move.kafka.bootstrap, OLD, tmp_path, ending))
        port = int(target.single_url.split(":")[2].partition("/")[0])

        def post(
            query: str, kind: str, body: bytes, **headers: str
        ) -> tuple[int, dict[str, object]]:
            path = f"/topics/{OLD}/messages?{query}"
            answer = exchange(port, "POST", path, {"Content-Type": kind, **headers}, body)
            return answer.status, json.loads(answer.body)

        named = {"X-Kafka-order-type": base64.b64encode(b"gift").decode()}
        status, said = post("key=first&sync", "text/plain", b"Good news everyone!", **named)
        assert (status, said.keys()) == (200, {"partition", "offset"})
        (first,) = move.log(OLD)
        assert (first.key, first.partition) == (b"first", fnv1a(b"first") % PARTITIONS)
        assert dict(first.headers) == {"Order-Type": b"gift"}
        assert post("key=first&sync", "application/json", b'{"order_id": 18')[0] == 200
        assert post("key=first&sync", "application/xml", b"<order/>")[0] == 400
        assert post("key=first&sync", "text/plain", b"x" * 2_000_000)[0] == 500
        for key in KEYS:
            post(f"key={quote(key)}&sync", "text/plain", key.encode())
        there = {one.key: one.partition for one in move.log(OLD) if one.key != b"first"}
        assert there == {key.encode(): fnv1a(key.encode()) % PARTITIONS for key in KEYS}
        moved = [
            key for key, place in there.items() if place != partition_for(key or b"", PARTITIONS)
        ]
        assert len(moved) / len(there) == pytest.approx(5 / 6, abs=0.1)
        before = len(move.log(OLD))
        move.kafka.pause()  # without `sync` it is answered although Kafka stands still
        assert post("key=first", "text/plain", b"lost") == (200, {})
        ending.close()  # kill -9
        move.kafka.resume()
        move.kafka.wait()
        assert len(move.log(OLD)) == before


def events_of(records: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, bytes]]:
    """With the key as text, and JSON as the proxies write it: without blanks."""
    return [
        (
            key.decode(),
            json.dumps(json.loads(value), separators=(",", ":"), ensure_ascii=False).encode(),
        )
        for key, value in records
    ]
