"""The JavaScript client in Node with a real gateway: what is sent is what is in Kafka."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.clients.good_ends import start_good_ends
from support.clients.node import needs_node, run_program
from support.identity.authority import Authority
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis

pytestmark = needs_node

CONFIG = """
[http]
batch_max_events = 20
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
# Of `everything.mjs`: the key that an outcome names, the key and the value in Kafka.
WRITTEN: list[tuple[object, bytes, bytes | None]] = [
    ("1", b"1", '{"id":1,"name":"é"}'.encode()),
    ("ключ '%20*()", "ключ '%20*()".encode(), b'{"a":[1,null,true]}'),
    ("鍵🔑", "鍵🔑".encode(), b"[1,2]"),
    ([0xFF, 0], b"\xff\x00", b'"text"'),
    ("bytes", b"bytes", b"\x00PNG\r\n"),
    ("gone", b"gone", None),
    ("null", b"null", b"null"),
    ("raw", b"raw", b'{"n": 1.10 }'),
    ("timed", b"timed", b"1"),
    ("large", b"large", b'{"id":"large","text":"%b"}' % (b"x" * 5000)),
    ("ç", "ç".encode(), b'{"paid":true}'),
    ("p", b"p", b"\xff"),
]


@pytest.fixture
def gateway(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> Gateway:
    kafka.create_topic(topic_name, 3)
    kafka.create_topic(f"{topic_name}-once", 1)
    text = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis_server.url, topic=topic_name)
    return start_gateway(text)


def check(way: dict[str, Any], log: dict[tuple[int, int], LogRecord]) -> None:
    """Each event is at the place that its outcome names, as it was sent."""
    outcomes = way["outcomes"]
    assert [one for one in outcomes if one["name"] != "published"] == [], way["way"]
    records = [log[one["partition"], one["offset"]] for one in outcomes]
    found = [(one["key"], at.key, at.value) for one, at in zip(outcomes, records, strict=True)]
    assert found == WRITTEN, way["way"]
    named = {one.key: one for one in records}
    assert {one.header("hg-producer") for one in records} == {b"shop"}
    authors = [
        (name, text) for name, text in named["鍵🔑".encode()].headers if name.lower() == "author"
    ]
    assert authors == [("Author", b"Ada"), ("author", b"ada")]
    assert named["鍵🔑".encode()].header("hg-event-id") == b"id-1"
    assert named[b"bytes"].header("content-type") == b"image/png"
    assert named[b"timed"].timestamp_ms == SENT_MS
    assert named[b"timed"].header("author") == "Ада".encode()
    assert named["ç".encode()].header("ce_id") == b"c-1"


def test_what_is_sent_is_what_is_in_kafka(
    kafka: RunningBroker, gateway: Gateway, topic_name: str
) -> None:
    options = {"url": gateway.url, "topic": topic_name, "sentMs": SENT_MS}
    ways = run_program("everything.mjs", options)
    log = {(one.partition, one.offset): one for one in read_log(kafka.bootstrap, topic_name)}
    assert len(ways) == 6
    for way in ways:
        check(way, log)
    assert len(log) == 6 * len(WRITTEN)


def test_repeats_parts_and_failures(gateway: Gateway, topic_name: str) -> None:
    options = {"url": gateway.url, "topic": topic_name, "once": f"{topic_name}-once"}
    twice, ids, many, own_ids, some, unknown, attempt = run_program("outcomes.mjs", options)
    assert twice == ["duplicate", "published"]
    assert ids == ["published", "duplicate"]
    assert many == list(range(1, 71))
    assert own_ids == 2
    good, bad = some
    assert good["name"] == "published"
    assert (bad["reason"], bad["status"], bad["retryable"]) == ("missing_key", 422, False)
    assert (unknown["reason"], unknown["status"]) == ("unknown_topic", 404)
    assert (attempt["requestId"], attempt["result"]) == ("as-I-say", "ended")
    assert (attempt["status"], attempt["number"], attempt["isBypassed"]) == (201, 1, False)


def test_what_is_unchanged_held_and_spooled(
    pausable: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
) -> None:
    redis = start_redis()
    gateway = start_good_ends(pausable, redis.url, start_gateway, topic_name, tmp_path / "spool")

    def sent_until(name: str, topic: str) -> dict[str, Any]:
        (outcome,) = run_program("until.mjs", {"url": gateway.url, "topic": topic, "name": name})
        found: dict[str, Any] = outcome
        return found

    unchanged = sent_until("unchanged", topic_name)
    assert (unchanged["kind"], unchanged["succeeded"]) == ("Unchanged", True)
    assert unchanged["isWritten"], unchanged
    held = sent_until("held", f"{topic_name}-held")
    assert (held["kind"], held["succeeded"], held["isWritten"]) == ("Held", True, False)
    pausable.pause()
    spooled = sent_until("spooled", f"{topic_name}-spool")
    assert (spooled["kind"], spooled["succeeded"]) == ("Spooled", True)
    assert (spooled["isWritten"], spooled["offset"]) == (False, None)


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
    options = {"url": url, "topic": topic_name, "tokens": ["open sesame", "wrong"]}
    trusting = {"NODE_EXTRA_CA_CERTS": str(authority.file)}
    good, wrong, renewed = run_program("secured.mjs", options, trusting)
    assert (good["name"], renewed["name"]) == ("published", "published")
    assert (wrong["reason"], wrong["retryable"]) == ("unauthenticated", False)
    strange = run_program("secured.mjs", options)[0]
    assert (strange["reason"], strange["retryable"]) == ("unreachable", False), strange
