"""The Python client with a real gateway: what is sent is what is in Kafka, and who sends it."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate_client import (
    TOMBSTONE,
    AsyncBufferedProducer,
    AsyncClient,
    BufferedProducer,
    Client,
    CloudEvent,
    Event,
    Held,
    Outcome,
    RawJson,
    Rejected,
    Retry,
    Spooled,
    Unchanged,
)
from headgate_client.wire import ClientOptions
from support.clients.good_ends import start_good_ends
from support.identity.authority import Authority
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[redis]
url = "{redis}"
[topics."{topic}"]
key = ["/id"]
timestamp = "event"
[topics."{topic}-once"]
key = ["/id"]
dedupe_ttl_s = 3600
"""
SECURE = """
[http]
tls_cert_file = "{server.certificate}"
tls_key_file = "{server.key}"
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[auth]
mode = "token"
[producers.shop]
token_sha256 = ["{token}"]
topics = ["{topic}"]
[topics."{topic}"]
key = ["/id"]
"""
SENT_MS = time.time_ns() // 1_000_000 - 60_000  # not when it arrives
COMPRESSIONS: tuple[ClientOptions, ...] = ({}, {"compression": "gzip"}, {"compression": "zstd"})
LARGE = {"id": "large", "text": "x" * 5000}
EVENTS: list[object] = [
    {"id": 1, "name": "é"},
    Event(value={"a": [1, None, True]}, key="ключ '%20"),
    Event(value=[1, 2], key="鍵", headers={"Author": "Ada", "author": "ada"}, id="id-1"),
    Event(value="text", key=b"\xff\x00"),
    Event(value=b"\x89PNG\r\n\x00", key="bytes", content_type="image/png"),
    Event(value=TOMBSTONE, key="gone"),
    Event(value=RawJson(b"null"), key="null"),
    Event(value=RawJson(b'{"n": 1.10 }'), key="raw"),
    Event(value=1, key="timed", timestamp=SENT_MS, headers={"author": "Ада"}),
    LARGE,
    CloudEvent(id="c-1", source="/s", type="t", subject="ç", data={"paid": True}),
    CloudEvent(id="c-2", source="/s", type="t", extensions={"partitionkey": "p"}, data=b"\xff"),
]
WRITTEN = [
    (b"1", '{"id":1,"name":"é"}'.encode()),
    ("ключ '%20".encode(), b'{"a":[1,null,true]}'),
    ("鍵".encode(), b"[1,2]"),
    (b"\xff\x00", b'"text"'),
    (b"bytes", b"\x89PNG\r\n\x00"),
    (b"gone", None),
    (b"null", b"null"),
    (b"raw", b'{"n": 1.10 }'),
    (b"timed", b"1"),
    (b"large", b'{"id":"large","text":"%b"}' % (b"x" * 5000)),
    ("ç".encode(), b'{"paid":true}'),
    (b"p", b"\xff"),
]


@pytest.fixture
def gateway(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> Gateway:
    kafka.create_topic(topic_name, 1)
    kafka.create_topic(f"{topic_name}-once", 1)
    text = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis_server.url, topic=topic_name)
    return start_gateway(text, environment={"HEADGATE_HTTP__BATCH_MAX_EVENTS": "20"})


def at_their_places(
    kafka: RunningBroker, topic: str, outcomes: list[Outcome]
) -> list[LogRecord | None]:
    log = {(one.partition, one.offset): one for one in read_log(kafka.bootstrap, topic)}
    return [
        log.get((getattr(one, "partition", -1), getattr(one, "offset", -1))) for one in outcomes
    ]


def check(kafka: RunningBroker, topic: str, outcomes: list[Outcome]) -> None:
    """Each event is at the place that its outcome names, as it was sent."""
    assert {one.name for one in outcomes} == {"published"}, outcomes
    records = at_their_places(kafka, topic, outcomes)
    assert [(one.key, one.value) for one in records if one is not None] == WRITTEN
    named = {one.key: one for one in records if one is not None}
    authors = [
        (name, text) for name, text in named["鍵".encode()].headers if name.lower() == "author"
    ]
    assert authors == [("Author", b"Ada"), ("author", b"ada")]
    assert named["鍵".encode()].header("hg-event-id") == b"id-1"
    assert named[b"bytes"].header("content-type") == b"image/png"
    assert named[b"timed"].timestamp_ms == SENT_MS
    assert named[b"timed"].header("author") == "Ада".encode()
    assert named["ç".encode()].header("ce_id") == b"c-1"


async def sent_alone(url: str, topic: str) -> list[Outcome]:
    async with AsyncClient(url, compression="gzip") as client:
        return [await client.send(topic, event) for event in EVENTS]


async def sent_in_the_background(url: str, topic: str) -> list[Outcome]:
    async with AsyncClient(url) as client, AsyncBufferedProducer(client) as producer:
        return [await (await producer.send(topic, event)) for event in EVENTS]


def test_what_is_sent_is_what_is_in_kafka(
    kafka: RunningBroker, gateway: Gateway, topic_name: str
) -> None:
    for compression in COMPRESSIONS:
        with Client(gateway.url, **compression) as client:
            check(kafka, topic_name, client.send_batch(topic_name, EVENTS))
    with Client(gateway.url) as client, BufferedProducer(client) as producer:
        pending = [producer.send(topic_name, event) for event in EVENTS]
        check(kafka, topic_name, [one.result(60) for one in pending])
    for ways in (sent_alone, sent_in_the_background):
        check(kafka, topic_name, asyncio.run(ways(gateway.url, topic_name)))


def test_repeats_parts_and_failures(gateway: Gateway, topic_name: str) -> None:
    once = f"{topic_name}-once"
    with Client(gateway.url) as client:
        names = [client.send(topic_name, {"id": 1}, idempotency_key="k").name for _ in range(2)]
        assert names == ["published", "duplicate"]
        event = Event(value={"id": 1}, id="mine")
        assert [client.send(once, event).name for _ in range(2)] == ["published", "duplicate"]
        # more than `http.batch_max_events`: the client halves what is refused
        many = client.send_batch(once, [{"id": number} for number in range(70)])
        assert [getattr(one, "offset", None) for one in many] == list(range(1, 71))
        good, bad = client.send_batch(topic_name, [{"id": 1}, {"nothing": 1}])
        unknown = client.send("nowhere", {"id": 1})
    assert good.succeeded
    assert isinstance(bad, Rejected)
    assert isinstance(unknown, Rejected)
    assert (bad.reason, bad.status, bad.retryable) == ("missing_key", 422, False)
    assert (unknown.reason, unknown.status) == ("unknown_topic", 404)


def test_what_is_unchanged_held_and_spooled(
    pausable: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
) -> None:
    redis = start_redis()
    gateway = start_good_ends(pausable, redis.url, start_gateway, topic_name, tmp_path / "spool")
    with Client(gateway.url) as client:

        def sent_until(kind: type[Outcome], topic: str) -> Outcome:
            end_s = time.monotonic() + 60
            while not isinstance(found := client.send(topic, {"id": 1}), kind):
                assert time.monotonic() < end_s, found
            assert found.succeeded
            return found

        unchanged = sent_until(Unchanged, topic_name)
        assert at_their_places(pausable, topic_name, [unchanged]) != [None]
        sent_until(Held, f"{topic_name}-held")
        pausable.pause()
        sent_until(Spooled, f"{topic_name}-spool")


def test_tokens_and_certificates(
    kafka: RunningBroker, start_gateway: Callable[..., Gateway], topic_name: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic_name, 1)
    authority = Authority(tmp_path)
    config = SECURE.format(
        server=authority.issue("server"),
        bootstrap=kafka.bootstrap,
        token=hashlib.sha256(b"open sesame").hexdigest(),
        topic=topic_name,
    )
    gateway = start_gateway(config, wait=False)
    url = gateway.url.replace("http:", "https:")
    trusting = ssl.create_default_context(cafile=str(authority.file))
    patient = Retry(longest_wait_s=0.5)  # it only starts
    with Client(url, tls=trusting, token="open sesame", retry=patient) as client:
        assert client.send(topic_name, {"id": 1}).name == "published"
    with Client(url, tls=trusting, token=lambda: "wrong") as client:
        outcome = client.send(topic_name, {"id": 1})
        assert isinstance(outcome, Rejected)
        assert outcome.reason == "unauthenticated"
    with Client(url, token="open sesame") as client:
        outcome = client.send(topic_name, {"id": 1})
        assert isinstance(outcome, Rejected)
        assert (outcome.reason, outcome.retryable) == ("unreachable", False)
