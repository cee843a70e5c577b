"""`headgate compare` on real Kafka: a producer of one's own beside the gateway."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from support.gateway.oversize_world import configuration, post
from support.process.stack import Gateway, RunningBroker, RunningRedis

pytestmark = pytest.mark.kafka

Event = tuple[str | None, str | None]


def compare(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headgate", "compare", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def write(broker: RunningBroker, topic: str, events: Iterable[Event], at_ms: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
    for key, value in events:
        producer.produce(topic, value, key, timestamp=at_ms)
    assert producer.flush(30) == 0


def two_topics(broker: RunningBroker, name: str) -> tuple[str, str]:
    return broker.create_topic(f"{name}-old", 3), broker.create_topic(f"{name}-new", 2)


def found(answer: subprocess.CompletedProcess[str]) -> dict[str, int]:
    page: dict[str, Any] = json.loads(answer.stdout)
    return {one["finding"]: one["count"] for one in page["keys"]}


def test_a_gateway_that_suppresses_beside_a_producer_of_ones_own(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
) -> None:
    old, new = two_topics(kafka, topic_name)
    redis = f'[redis]\nurl = "{redis_server.url}"\nnamespace = "{topic_name[-40:]}"\n'
    policy = f'[topics.{new}]\nkey = "/id"\nsuppress = "canonical"\nignore = ["/sent"]\n'
    text = configuration(kafka, redis + policy)
    config = tmp_path / "headgate.toml"
    config.write_text(text)
    gateway = start_gateway(text)
    dice, events = random.Random(3), list[Event]()
    for number in range(300):
        name = f"deal-{dice.randrange(20)}"
        body = {"id": name, "price": dice.randrange(2), "sent": number}
        events.append((name, json.dumps(body)))
        body["sent"] = -number  # another byte, which does not count
        assert post(gateway.url, new, json.dumps(body).encode()).status in (200, 201)
    write(kafka, old, events, time.time_ns() // 1_000_000)

    options = ("--config", str(config), "--margin", "0")
    good = compare(old, new, *options, "--ignore", "/sent")
    assert (good.returncode, good.stderr.count("Traceback")) == (0, 0), good
    assert "No differences: a consumer learns the same" in good.stdout, good.stdout
    assert "instead of 300" in good.stdout
    assert found(compare(old, new, *options, "--json")) == {"another end": 20}

    write(kafka, old, [("deal-3", '{"id": "deal-3", "price": 7}')], time.time_ns() // 1_000_000)
    bad = compare(old, new, *options, "--ignore", "/sent")
    assert bad.returncode == 1
    assert "They differ." in bad.stdout
    assert "another end" in bad.stdout
    assert "deal-3" in bad.stdout


def test_keys_time_transactions_and_shares(kafka: RunningBroker, topic_name: str) -> None:
    old, new = two_topics(kafka, topic_name)
    brokers = ("--bootstrap-servers", kafka.bootstrap, "--json")
    now_ms = time.time_ns() // 1_000_000
    hour = 3_600_000
    write(kafka, old, [("a", "1"), ("b", "1"), ("c", "1")], now_ms - 3 * hour)
    write(kafka, old, [("a", "2"), ("b", "1"), (None, "x"), (None, "x")], now_ms - hour)
    write(kafka, new, [("a", "2"), (None, "x")], now_ms - hour)
    aborting = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic_name})
    aborting.init_transactions(30)
    aborting.begin_transaction()
    aborting.produce(new, "3", "a")
    aborting.flush(30)
    aborting.abort_transaction(30)

    whole = compare(old, new, *brokers)
    assert whole.returncode == 1
    assert found(whole) == {"same end, fewer states": 1, "only in the first": 2}
    assert json.loads(whole.stdout)["keyless_in_one_alone"] == [1, 0]
    recent = compare(old, new, *brokers, "--from", "2h")
    assert found(recent) == {"same": 1, "perhaps unchanged since before": 1}
    near = compare(old, new, *brokers, "--from", "2h", "--margin", "4000")
    assert found(near)["same"] == 1
    part = compare(old, new, *brokers, "--share", "0.000001")
    assert (part.returncode, found(part)) == (0, {})


def test_keys_that_stand_in_the_value(kafka: RunningBroker, topic_name: str) -> None:
    old, new = two_topics(kafka, topic_name)
    write(kafka, old, [(None, '{"n": {"id": 5}, "v": 1}'), (None, '{"n": {"id": 5}, "v": 2}')])
    write(kafka, new, [("5", '{"v":2,"n":{"id":5}}')])
    brokers = ("--bootstrap-servers", kafka.bootstrap, "--json", "--margin", "0")
    by_value = compare(old, new, *brokers, "--key", "/n/id")
    # without a key the old topic's records lie anywhere, so that they have no order
    assert set(found(by_value)) <= {"same end, fewer states", "in several partitions"}
    assert found(compare(old, new, *brokers)) == {"only in the second": 1}
    as_sent = compare(new, new, *brokers, "--bytes")
    assert (as_sent.returncode, found(as_sent)) == (0, {"same": 1})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--from", "1h", "--to", "2h"), "--from 1h is not before --to 2h"),
        (
            ("--from", "soon"),
            "--from soon: expected 2026-01-31T12:00:00Z, ms since 1970",
        ),
        (("--share", "0"), "--share 0: more than 0"),
        (("--key", "id"), "--key or --ignore: a JSON Pointer begins with '/'"),
        (("--bytes", "--ignore", "/a"), "not with --bytes"),
    ],
)
def test_invalid_options_end_with_usage_errors(arguments: tuple[str, ...], says: str) -> None:
    answer = compare("a", "b", "--bootstrap-servers", "127.0.0.1:1", *arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert says in answer.stderr


def test_a_topic_that_is_not_there(kafka: RunningBroker, topic_name: str) -> None:
    answer = compare(f"{topic_name}-1", "b", "--bootstrap-servers", kafka.bootstrap)
    assert answer.returncode == 1
    assert f"there is no topic {topic_name}-1" in answer.stderr
