"""Who may not, what is not there, and what is too much at once, against real gateways."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import escape
from itertools import chain

import pytest
from confluent_kafka.admin import AdminClient

from headgate.model.outcome import TRAITS, Reason
from support.clients.http_client import (
    JSON,
    Answer,
    Connection,
    events_path,
    exchange,
    figure,
    post,
    request_bytes,
)
from support.gateway.bad_input_world import World, assert_problem, reason, running_world
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

EVENT = b'{"id":1}'
KEYED = {**JSON, "Headgate-Key": "k"}
OPAQUE = {"Content-Type": "text/plain", "Headgate-Key": "k"}


@pytest.fixture(scope="module")
def world(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with running_world(kafka, redis_server, tmp_path_factory.mktemp("gateway")) as running:
        yield running


# ---- paths and methods


def ask(world: World, method: str, path: str) -> Answer:
    """HEAD has no body, whatever its Content-Length says."""
    with Connection(world.port) as connection:
        connection.send(request_bytes(method, path, {}, b""))
        return connection.answer(has_body=method != "HEAD")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_methods_that_a_path_does_not_take(world: World, method: str) -> None:
    answer = ask(world, method, events_path(world.topic("events")))
    assert reason(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"
    assert_problem(answer)
    if method != "GET":
        answer = ask(world, method, "/ready")
        assert reason(answer) == (405, "method_not_allowed")
        assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "path",
    [
        "/v1", "/v1/topics/a", "/v1/topics//events", "/v1/topics/a/b/events", "/v2/topics",
        "/v1/topics/a/events/", "/V1/topics/a/events", "/problems/", "/problems/nothing",
        "/problems/../ready", "//ready", "/metrics",
    ],
)  # fmt: skip
def test_unknown_paths(world: World, path: str) -> None:
    answer = ask(world, "GET", path)
    assert reason(answer) == (404, "not_found")
    assert_problem(answer)
    posted = reason(exchange(world.port, "POST", path, JSON, EVENT))
    if path == "/problems/nothing":  # no page of that name, but a path that only GET is for
        assert posted == (405, "method_not_allowed")
    else:
        assert posted == (404, "not_found")


def test_every_reason_has_a_page(world: World) -> None:
    index = ask(world, "GET", "/problems").body.decode()
    for one in Reason:
        page = ask(world, "GET", f"/problems/{one}")
        assert page.status == 200
        assert page.headers["content-type"].startswith("text/html")
        text = page.body.decode()
        assert escape(TRAITS[one].title) in text
        assert str(TRAITS[one].status) in text
        assert f"/problems/{one}" in index
        head = ask(world, "HEAD", f"/problems/{one}")
        assert (head.status, head.body) == (200, b"")


# ---- topics


@pytest.mark.parametrize(
    "topic", ["nobody-configured-this", "a" * 250, "..", "%00", "%FF", "a%2Fb"]
)
def test_topics_that_no_policy_matches(world: World, topic: str) -> None:
    answer = post(world.port, topic, EVENT)
    assert reason(answer) == (404, "unknown_topic")
    assert_problem(answer)


def test_configured_topic_that_kafka_does_not_have(world: World, kafka: RunningBroker) -> None:
    answer = world.post("missing", EVENT)
    assert reason(answer) == (404, "unknown_topic")
    assert_problem(answer)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    assert world.topic("missing") not in admin.list_topics(timeout=10).topics, "none was made"


async def test_topic_deleted_and_made_again_while_running(
    world: World, kafka: RunningBroker
) -> None:
    kafka.create_topic(world.topic("missing"), 1)
    await eventually(lambda: world.post("missing", EVENT, KEYED).status == 201)
    with world.written("events") as others:
        kafka.delete_topic(world.topic("missing"))
        answers: list[Answer] = []
        beside = 0

        def is_gone() -> bool:
            nonlocal beside
            beside += world.post("events", EVENT).status == 201
            answers.append(world.post("missing", EVENT, KEYED))
            return answers[-1].status == 404

        await eventually(is_gone)
    assert {answer.status for answer in answers} <= {201, 404, 503, 504}
    assert_problem(answers[-1])
    assert reason(answers[-1]) == (404, "unknown_topic")
    assert beside == len(answers) == len(others), "other topics go on"

    kafka.create_topic(world.topic("missing"), 2)
    await eventually(lambda: world.post("missing", b"again", OPAQUE).status == 201)
    records = read_log(kafka.bootstrap, world.topic("missing"))
    assert [one.value for one in records] == [b"again"]


# ---- many at once


def test_512_connections_at_once(world: World) -> None:
    """All are open before the first asks, and each asks twice."""
    connections = [Connection(world.port, 60) for _ in range(512)]
    topic = world.topic("events")
    with world.written("events") as records:
        for turn in range(2):
            for number, connection in enumerate(connections):
                body = b'{"id":%d,"turn":%d}' % (number, turn)
                connection.send(request_bytes("POST", events_path(topic), JSON, body))
            answers = [connection.answer() for connection in connections]
            assert {answer.status for answer in answers} == {201}
    for connection in connections:
        connection.reset()
    assert len(records) == 1024
    assert len({one.value for one in records}) == 1024
    per_key = [[one.value for one in records if one.key == b"%d" % n] for n in range(512)]
    assert all(both == sorted(both, key=lambda one: one or b"") for both in per_key)


def test_many_threads_on_one_key_keep_their_own_order(world: World) -> None:
    """Events of a key that were answered one after another are in the log in that order."""
    topic = world.topic("events")

    def writer(number: int) -> list[int]:
        bodies = (b'{"id":"hot","w":%d,"n":%d}' % (number, n) for n in range(25))
        answers = [post(world.port, topic, body) for body in bodies]
        return [answer.document["offset"] for answer in answers]

    with world.written("events") as records, ThreadPoolExecutor(8) as pool:
        offsets = [each.result() for each in [pool.submit(writer, n) for n in range(8)]]
    assert all(one == sorted(one) for one in offsets)
    assert sorted(chain.from_iterable(offsets)) == [one.offset for one in records]


# ---- a client that leaves


async def test_client_that_leaves_before_the_answer(world: World) -> None:
    """Its event is in Kafka, counted once and settled: the same again is unchanged."""
    topic, answered = world.topic("state"), Counter[str]()

    def is_unchanged(body: bytes) -> bool:
        outcome = world.post("state", body).document["outcome"]
        answered[outcome] += 1
        return bool(outcome == "unchanged")

    await eventually(lambda: is_unchanged(b'{"id":"warm"}'))
    body = b'{"id":"left","n":1}'
    with world.written("state") as records:
        with Connection(world.port) as connection:
            connection.send(request_bytes("GET", "/live", {}))
            connection.answer()  # accepted: a reset before that would take the event with it
            connection.send(request_bytes("POST", events_path(topic), JSON, body))
            connection.reset()
        await eventually(lambda: counted(world, topic) == answered["published"] + 1)
        await eventually(lambda: is_unchanged(body))
    (record,) = records
    assert (record.value, record.key) == (body, b"left")
    answer = world.post("state", body).document
    assert (answer["partition"], answer["offset"]) == (record.partition, record.offset)
    port = world.gateway.management_port
    await eventually(lambda: figure(port, "headgate_in_flight_events") == 0)


def metrics(gateway: Gateway) -> str:
    return exchange(gateway.management_port, "GET", "/metrics").body.decode()


def counted(world: World, topic: str) -> float:
    """Events published to a topic, as /metrics says."""
    lines = [line for line in metrics(world.gateway).splitlines() if f'topic="{topic}"' in line]
    found = (line for line in lines if line.startswith("headgate_events_total"))
    return sum(float(line.rpartition(" ")[2]) for line in found if 'outcome="published"' in line)
