"""Idempotency-Key and event ids, with real gateways, Kafka and Redis."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from typing import Any, NamedTuple

import pytest
from redis import Redis

from headgate.devstack.servers import KafkaInstallation, new_id
from support.clients.http_client import JSON, NDJSON, Answer, exchange, post
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import (
    Gateway,
    RunningBroker,
    RunningRedis,
    eventually,
    running_broker,
)

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[http]
request_timeout_ms = {timeout_ms}
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 20000
metadata_refresh_ms = 300
[redis]
url = "{redis}"
namespace = "{namespace}"
claim_ms = {claim_ms}
timeout_ms = 2000
[producers.shop]
[topics."{topic}"]
key = ["/id"]
[topics."once.{topic}"]
key = ["/id"]
dedupe_ttl_s = 3600
[topics."strict.{topic}"]
key = ["/id"]
dedupe_ttl_s = 3600
redis_loss = "refuse"
"""
SHOP = {**JSON, "Headgate-Producer": "shop"}
_keys = count(1)


class Room(NamedTuple):
    """A topic of this test alone, `once` that de-duplicates, and `strict` that does so, too."""

    broker: RunningBroker
    redis: RunningRedis
    topic: str
    namespace: str
    start: Callable[..., Gateway]

    def gateway(self, timeout_ms: int = 15_000, claim_ms: int = 2_000) -> Gateway:
        return self.start(
            text_of(self.broker, self.redis, self.namespace, self.topic, timeout_ms, claim_ms)
        )

    @property
    def once(self) -> str:
        return f"once.{self.topic}"

    @property
    def strict(self) -> str:
        return f"strict.{self.topic}"

    def create_topics(self) -> None:
        for name in (self.topic, self.once, self.strict):
            self.broker.create_topic(name, 3)

    def log(self, topic: str | None = None) -> list[LogRecord]:
        return read_log(self.broker.bootstrap, topic or self.topic)


def text_of(
    broker: RunningBroker, redis: RunningRedis, namespace: str, topic: str,
    timeout_ms: int = 15_000, claim_ms: int = 2_000,
) -> str:  # fmt: skip
    """topic: its name, or a glob."""
    return CONFIG.format(
        timeout_ms=timeout_ms,
        claim_ms=claim_ms,
        bootstrap=broker.bootstrap,
        redis=redis.url,
        namespace=namespace,
        topic=topic,
    )


class House(NamedTuple):
    """Two gateways for all tests that leave Kafka and Redis alone."""

    prefix: str
    namespace: str
    gateways: list[Gateway]

    def know(self, room: Room) -> bool:
        """Whether they have seen its topics."""
        return all(
            post(gateway.port, topic, b"{", SHOP).document["reason"] == "malformed"
            for gateway in self.gateways
            for topic in (room.topic, room.once, room.strict)
        )


@pytest.fixture(scope="module")
def house(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    prefix, namespace, folder = f"identity-{new_id()}", new_id(), tmp_path_factory.mktemp("house")
    text = text_of(kafka, redis_server, namespace, f"{prefix}-*")
    with ExitStack() as ending:
        gateways = [Gateway(folder / name, text, (), {}) for name in ("one", "other")]
        for gateway in gateways:
            ending.callback(gateway.kill)
        for gateway in gateways:
            gateway.wait()
        yield House(prefix, namespace, gateways)


@pytest.fixture
async def room(kafka: RunningBroker, redis_server: RunningRedis, house: House) -> Room:
    gateways = iter(house.gateways)
    topic = f"{house.prefix}-{new_id()}"
    room = Room(kafka, redis_server, topic, house.namespace, lambda _: next(gateways))
    room.create_topics()
    await eventually(lambda: house.know(room))
    return room


@pytest.fixture(scope="module")
def own_broker(
    kafka_installation: KafkaInstallation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """One that may be stopped."""
    with running_broker(kafka_installation, tmp_path_factory.mktemp("own")) as broker:
        yield broker


@pytest.fixture
def own_room(
    own_broker: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    topic_name: str,
    start_gateway: Callable[..., Gateway],
) -> Room:
    """With gateways, a broker and a Redis that may be stopped."""
    room = Room(own_broker, start_redis(), topic_name, new_id(), start_gateway)
    room.create_topics()
    return room


@pytest.fixture
async def threads() -> AsyncIterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def keyed(key: str, **more: str) -> dict[str, str]:
    return {**SHOP, "Idempotency-Key": key, **more}


def body(number: int, **more: Any) -> bytes:
    return json.dumps({"id": f"k{number % 5}", "number": number, **more}).encode()


def new_key() -> str:
    return f"key-{next(_keys)}"


def place(answer: Answer) -> tuple[int, int]:
    return answer.document["partition"], answer.document["offset"]


# ---- Idempotency-Key


def test_a_repeat_is_answered_with_the_first_answer(room: Room) -> None:
    gateway, other, key = room.gateway(), room.gateway(), new_key()
    first = post(gateway.port, room.topic, body(1), keyed(key))
    assert (first.status, first.document["outcome"]) == (201, "published")
    assert "idempotency-replayed" not in first.headers
    for port, header in ((gateway.port, key), (other.port, key), (other.port, f'"{key}"')):
        again = post(port, room.topic, body(1), keyed(header, Prefer="x", traceparent="00-1"))
        assert again.status == 200
        assert again.headers["idempotency-replayed"] == "true"
        expected = {**first.document, "outcome": "duplicate", "records": 0}
        assert again.document == expected
    assert [one.value for one in room.log()] == [body(1)]


def test_the_scope_of_a_key_is_producer_and_topic(room: Room) -> None:
    gateway, key = room.gateway(), new_key()
    for topic in (room.topic, room.once):
        for producer in ("shop", "stall"):
            headers = keyed(key) | {"Headgate-Producer": producer}
            assert post(gateway.port, topic, body(1), headers).status == 201


def test_another_body_or_header_is_a_mismatch(room: Room) -> None:
    gateway, key = room.gateway(), new_key()
    post(gateway.port, room.topic, body(1), keyed(key))
    for other in (
        post(gateway.port, room.topic, body(2), keyed(key)),
        post(gateway.port, room.topic, body(1), keyed(key, **{"Headgate-Key": "z"})),
        post(gateway.port, room.topic, body(1), keyed(key) | {"Content-Type": "text/json"}),
    ):
        assert (other.status, other.document["reason"]) == (422, "idempotency_mismatch")
        assert other.document["retryable"] is False
    assert len(room.log()) == 1


def test_a_key_that_is_none_is_refused(room: Room) -> None:
    gateway = room.gateway()
    for key in ("", "x" * 256, "a b", "k\xe4"):
        answer = post(gateway.port, room.topic, body(1), keyed(key))
        assert (answer.status, answer.document["reason"]) == (400, "malformed")
        assert "Idempotency-Key" in answer.document["detail"]
    assert post(gateway.port, room.topic, body(1), keyed("x" * 255)).status == 201


def test_a_request_that_failed_is_not_remembered(room: Room) -> None:
    gateway, key = room.gateway(), new_key()
    assert post(gateway.port, room.topic, b"{", keyed(key)).status == 400
    assert post(gateway.port, room.topic, b'{"no":"id"}', keyed(key)).status == 422
    assert post(gateway.port, room.topic, body(1), keyed(key)).status == 201


async def test_a_retry_of_a_batch_runs_the_others_only_and_merges_in_order(
    room: Room, start_gateway: Callable[..., Gateway]
) -> None:
    room.broker.set_topic_configs(room.topic, {"max.message.bytes": "2000"})
    gateway, key = room._replace(start=start_gateway).gateway(), new_key()  # which has seen that
    lines = [body(1), body(2, text="x" * 5000), b"{", body(3)]
    headers = {**keyed(key), **NDJSON}

    def outcomes() -> tuple[int, list[Any]]:
        answer = post(gateway.port, room.topic, b"\n".join(lines), headers)
        shown = answer.document["outcomes"]
        return answer.status, [one.get("reason", one["outcome"]) for one in shown]

    def outcomes_with_the_second() -> tuple[int, list[Any]] | None:
        found = outcomes()
        return found if found[1][1] == "published" else None

    assert outcomes() == (207, ["published", "too_large", "malformed", "published"])
    assert outcomes() == (207, ["duplicate", "too_large", "malformed", "duplicate"])
    room.broker.set_topic_configs(room.topic, {"max.message.bytes": "1000000"})
    found = await eventually(outcomes_with_the_second, 20)
    assert found == (207, ["duplicate", "published", "malformed", "duplicate"])
    assert outcomes() == (207, ["duplicate", "duplicate", "malformed", "duplicate"])
    assert sorted(one.value or b"" for one in room.log()) == sorted([lines[0], lines[1], lines[3]])


def test_a_large_answer_is_replayed_as_places(room: Room) -> None:
    gateway, key = room.gateway(), new_key()
    lines = b"\n".join(b'{"id":"%060d"}' % number for number in range(4000))
    first = post(gateway.port, room.topic, lines, {**keyed(key), **NDJSON})
    again = post(gateway.port, room.topic, lines, {**keyed(key), **NDJSON})
    assert (first.status, again.status) == (200, 200)
    assert again.document["summary"] == {"duplicate": 4000}
    places = [[(one["partition"], one["offset"]) for one in answer.document["outcomes"]]
              for answer in (first, again)]  # fmt: skip
    assert places[0] == places[1]
    minimal = {**keyed(key), **NDJSON, "Prefer": "return=minimal"}
    assert post(gateway.port, room.topic, lines, minimal).document["outcomes"] == []
    assert len(room.log()) == 4000


async def test_while_it_runs_a_repeat_waits_and_then_has_its_answer(
    own_room: Room, threads: ThreadPoolExecutor
) -> None:
    gateway, other, key = own_room.gateway(), own_room.gateway(), new_key()
    assert post(gateway.port, own_room.topic, body(0), SHOP).status == 201
    own_room.broker.pause()
    try:
        first = threads.submit(post, gateway.port, own_room.topic, body(1), keyed(key))
        await eventually(lambda: claims(own_room) == 1)
        conflict = post(other.port, own_room.topic, body(1), keyed(key))
        assert (conflict.status, conflict.document["reason"]) == (409, "idempotency_conflict")
        assert conflict.document["retryable"] is True
        assert int(conflict.headers["retry-after"]) >= 1
        mismatch = post(other.port, own_room.topic, body(2), keyed(key))
        assert mismatch.status == 422
    finally:
        own_room.broker.resume()
    published = first.result(90)
    assert published.status == 201
    again = post(other.port, own_room.topic, body(1), keyed(key))
    assert (again.document["outcome"], place(again)) == ("duplicate", place(published))
    assert len(own_room.log()) == 2


def claims(room: Room) -> int:
    """How many names Redis knows."""
    with Redis.from_url(room.redis.url) as client:
        return len(client.keys(f"{room.namespace}:once:*"))


async def test_an_unknown_end_is_a_conflict_until_it_is_known(own_room: Room) -> None:
    """Longer than claim_ms: who is alive keeps the claim. The late acknowledgement completes it."""
    # A claim of 3 s is renewed long before its end, also where a process has to wait for a core.
    gateway = own_room.gateway(timeout_ms=1000, claim_ms=3000)
    other, key = own_room.gateway(claim_ms=3000), new_key()
    # The first event of a broker may take longer than this gateway waits.
    await eventually(
        lambda: post(gateway.port, own_room.topic, body(0), SHOP).status == 201, interval_s=0.5
    )
    own_room.broker.pause()
    try:
        unknown = post(gateway.port, own_room.topic, body(1), keyed(key))
        assert (unknown.status, unknown.document["reason"]) == (504, "unknown")
        end = time.monotonic() + 4.0
        while time.monotonic() < end:
            answer = post(other.port, own_room.topic, body(1), keyed(key))
            assert (answer.status, answer.document["reason"]) == (409, "idempotency_conflict")
            await asyncio.sleep(0.05)
    finally:
        own_room.broker.resume()

    def repeated() -> Answer | None:
        answer = post(other.port, own_room.topic, body(1), keyed(key))
        return answer if answer.status == 200 else None

    again = await eventually(repeated, 20)
    assert again.document["outcome"] == "duplicate"
    (record,) = [one for one in own_room.log() if one.value == body(1)]
    assert (record.partition, record.offset) == place(again)


async def test_an_attempt_that_died_can_be_repeated(
    own_room: Room, threads: ThreadPoolExecutor
) -> None:
    gateway, other, key = own_room.gateway(), own_room.gateway(claim_ms=2000), new_key()
    headers = {**SHOP, "Headgate-Event-Id": "e-1"}
    once = own_room.once
    assert post(gateway.port, own_room.topic, body(0), SHOP).status == 201
    own_room.broker.pause()
    attempts: list[Future[Answer]] = [
        threads.submit(post, gateway.port, own_room.topic, body(1), keyed(key)),
        threads.submit(post, gateway.port, once, body(1), headers),
    ]
    await eventually(lambda: claims(own_room) == 2)
    gateway.child.kill()
    own_room.broker.resume()
    for attempt in attempts:
        with pytest.raises(Exception, match=r".*"):
            attempt.result(90)

    def repeated() -> Answer | None:
        answer = post(other.port, own_room.topic, body(1), keyed(key))
        return answer if answer.status < 300 else None

    assert (await eventually(repeated, 20)).document["outcome"] == "published"

    def published_once() -> Answer | None:
        answer = post(other.port, once, body(1), headers)
        return answer if answer.status < 300 else None

    answer = await eventually(published_once, 20)
    assert place(answer) in {(one.partition, one.offset) for one in own_room.log(own_room.once)}


def test_the_compatible_endpoint_knows_the_header_too(room: Room) -> None:
    gateway, key = room.gateway(), new_key()
    headers = keyed(key) | {"Content-Type": "application/vnd.kafka.json.v2+json"}
    records = b'{"records":[{"value":{"id":"a"}},{"value":{"id":"b"}}]}'

    def produced(path: str) -> Answer:
        return exchange(gateway.port, "POST", path, headers, records)

    first, again = [produced(f"/topics/{room.topic}") for _ in range(2)]
    assert first.document["offsets"] == again.document["offsets"]
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    elsewhere = produced(f"/topics/{room.topic}/partitions/0")
    assert elsewhere.status == 422
    assert len(room.log()) == 2


# ---- event ids


def test_an_event_id_is_written_once(room: Room) -> None:
    gateway, other, topic = room.gateway(), room.gateway(), room.once
    headers = {**SHOP, "Headgate-Event-Id": "e-1"}
    first = post(gateway.port, topic, body(1), headers)
    assert (first.status, first.document["event_id"]) == (201, "e-1")

    again = post(other.port, topic, body(1), headers)
    assert again.status == 200
    assert again.document == {**first.document, "outcome": "duplicate", "records": 0}
    changed = post(gateway.port, topic, body(2), headers)
    assert (changed.status, changed.document["reason"]) == (422, "idempotency_mismatch")
    stall = post(gateway.port, topic, body(2), headers | {"Headgate-Producer": "stall"})
    assert stall.status == 201  # another producer's id is another id
    assert post(gateway.port, room.topic, body(1), headers).status == 201
    assert post(gateway.port, room.topic, body(1), headers).status == 201  # not asked for there
    assert len(room.log(room.once)) == 2


def cloudevent(event_id: str, source: str = "/shop", **data: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "type": "t", "source": source, "id": event_id,
            "subject": "k", "data": data}  # fmt: skip


def test_cloudevents_are_known_by_source_and_id_whoever_posts_them(room: Room) -> None:
    gateway, topic = room.gateway(), room.once
    batch = [cloudevent("1", n=1), cloudevent("2", n=2), cloudevent("1", "/stall", n=3),
             cloudevent("1", n=1), cloudevent("2", n=9)]  # fmt: skip
    headers = {**SHOP, "Content-Type": "application/cloudevents-batch+json"}
    first = post(gateway.port, topic, json.dumps(batch).encode(), headers)
    outcomes = first.document["outcomes"]
    shown = [one.get("reason", one["outcome"]) for one in outcomes]
    assert shown == ["published", "published", "published", "duplicate", "idempotency_mismatch"]
    assert outcomes[3]["offset"] == outcomes[0]["offset"]
    relay = headers | {"Headgate-Producer": "relay"}
    again = post(gateway.port, topic, json.dumps(batch).encode(), relay).document["outcomes"]
    assert [one.get("offset") for one in again] == [one.get("offset") for one in outcomes]
    assert len(room.log(room.once)) == 3


def test_racing_repeats_through_two_gateways_write_one_record(
    room: Room, threads: ThreadPoolExecutor
) -> None:
    gateways, topic = [room.gateway(), room.gateway()], room.once
    for number in range(10):
        ids = {**SHOP, "Headgate-Event-Id": f"e-{number}"}
        keys = keyed(f"race-{number}")
        attempts = [
            threads.submit(post, gateways[turn % 2].port, name, body(number), headers)
            for turn in range(8)
            for name, headers in ((topic, ids), (room.topic, keys))
        ]
        answers = [one.result(90) for one in attempts]
        assert {one.status for one in answers} <= {200, 201, 409}
        assert sum(one.status == 201 for one in answers) == 2
    assert sorted(one.value for one in room.log(room.once)) == sorted(map(body, range(10)))
    assert sorted(one.value for one in room.log()) == sorted(map(body, range(10)))


def test_events_of_a_key_keep_their_order_whether_they_have_ids_or_not(room: Room) -> None:
    gateway, topic = room.gateway(), room.once
    batch = [cloudevent(str(number), n=number) for number in range(2000)]
    headers = {**SHOP, "Content-Type": "application/cloudevents-batch+json"}
    assert post(gateway.port, topic, json.dumps(batch).encode(), headers).status == 200
    lines = b"\n".join(b'{"id":"k","n":%d}' % number for number in range(2000, 2500))
    assert post(gateway.port, topic, lines, {**SHOP, **NDJSON}).status == 200
    records = [json.loads(one.value or b"")["n"] for one in room.log(room.once)]
    assert records == list(range(2500))


# ---- Redis away


async def test_while_redis_is_away_requests_go_on_and_say_so(own_room: Room) -> None:
    gateway, key = own_room.gateway(), new_key()
    own_room.redis.kill()
    ids = {**SHOP, "Headgate-Event-Id": "e-1"}
    for _ in range(2):
        answer = post(gateway.port, own_room.topic, body(1), keyed(key))
        assert (answer.status, answer.headers["idempotency-bypassed"]) == (201, "true")
        assert post(gateway.port, own_room.once, body(1), ids).status == 201
    strict = own_room.strict
    for headers in (ids, keyed(new_key())):
        refused = post(gateway.port, strict, body(1), headers)
        assert (refused.status, refused.document["reason"]) == (503, "redis_unavailable")
    assert own_room.log(own_room.strict) == []
    own_room.redis.restart()

    def is_back() -> bool:
        found = exchange(gateway.port, "GET", "/ready").document["dependencies"]
        return bool(found["redis identity"]["ok"])

    await eventually(is_back, 20)
    # What was done meanwhile is told to Redis when it is back: nothing is written a third time.
    again = post(gateway.port, own_room.topic, body(1), keyed(key))
    assert again.document["outcome"] == "duplicate"
    assert len(own_room.log()) == 2


async def test_what_redis_forgets_is_written_again(own_room: Room) -> None:
    gateway, key = own_room.gateway(), new_key()
    assert post(gateway.port, own_room.topic, body(1), keyed(key)).status == 201
    with Redis.from_url(own_room.redis.url) as client:
        client.flushall()
    assert post(gateway.port, own_room.topic, body(1), keyed(key)).status == 201
    assert len(own_room.log()) == 2


def test_without_redis_the_header_is_answered_honestly(
    kafka: RunningBroker, topic_name: str, start_gateway: Callable[..., Gateway]
) -> None:
    kafka.create_topic(topic_name, 1)
    gateway = start_gateway(
        f'[clusters.main]\nbootstrap_servers = ["{kafka.bootstrap}"]\n'
        f'[topics."{topic_name}"]\nkey = ["/id"]\n'
    )
    answer = post(gateway.port, topic_name, body(1), keyed(new_key()))
    assert (answer.status, answer.headers["idempotency-bypassed"]) == (201, "true")
