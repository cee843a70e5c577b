"""Requests that are no good HTTP, or odd HTTP that must work, against the real gateway."""

import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from support.clients.http_client import JSON, Connection, chunks, events_path, request_bytes
from support.gateway.bad_input_world import (
    World,
    assert_problem,
    event_request,
    reason,
    running_world,
)
from support.process.stack import RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

EVENT = b'{"id":1}'
CHUNKED = {**JSON, "Transfer-Encoding": "chunked"}


@pytest.fixture(scope="module")
def world(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with running_world(kafka, redis_server, tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def impatient(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """It gives up a body after 1.5 s."""
    folder = tmp_path_factory.mktemp("impatient")
    with running_world(kafka, redis_server, folder, body_timeout_ms=1_500) as running:
        yield running


@pytest.fixture
def connection(world: World) -> Iterator[Connection]:
    with Connection(world.port) as opened:
        yield opened


@pytest.fixture
def hurried(impatient: World) -> Iterator[Connection]:
    """A connection to the impatient one."""
    with Connection(impatient.port) as opened:
        yield opened


# ---- lengths


@pytest.mark.parametrize("length", ["abc", "-1", "1.5", "0x8", "8, 9", "+8", " ", "9" * 40])
def test_lengths_that_are_no_numbers(world: World, connection: Connection, length: str) -> None:
    with world.written("events") as records:
        connection.send(event_request(world, JSON, length=length))
        answer = connection.answer()
        assert connection.is_closed()
    assert reason(answer) in ((400, "malformed"), (413, "too_large"))
    assert_problem(answer)
    assert records == []


@pytest.mark.parametrize(
    "headers",
    [
        {**JSON, "Content-Length": "3"},
        {**JSON, "Transfer-Encoding": "chunked"},
        {**JSON, "Transfer-Encoding": "gzip"},
        {**JSON, "Transfer-Encoding": "chunked, identity"},
    ],
)
def test_two_ways_to_end_a_body_are_refused(
    world: World, connection: Connection, headers: dict[str, str | bytes]
) -> None:
    """Else two servers behind each other could disagree where the next request begins."""
    with world.written("events") as records:
        connection.send(event_request(world, headers, chunks(EVENT)))
        answer = connection.answer()
        assert connection.is_closed()
    assert reason(answer) == (400, "malformed")
    assert_problem(answer)
    assert records == []


def test_body_shorter_than_its_length(impatient: World, hurried: Connection) -> None:
    with impatient.written("events") as records:
        hurried.send(event_request(impatient, JSON, length="9"))
        answer = hurried.answer()
        assert reason(answer) == (408, "request_timeout")
        assert answer.headers["connection"] == "close"
        assert hurried.is_closed()
    assert_problem(answer)
    assert answer.document["retryable"] is True
    assert records == []


def test_client_that_closes_in_the_middle_of_a_body(world: World, connection: Connection) -> None:
    with world.written("events") as records:
        connection.send(event_request(world, JSON, length="9"))
        connection.finish_sending()
        assert connection.is_closed()
    assert records == []
    world.published("events", EVENT)


def test_body_longer_than_its_length(world: World, connection: Connection) -> None:
    """The rest is taken for the next request, which is none."""
    with world.written("events") as records:
        connection.send(event_request(world, JSON))
        assert connection.answer().status == 201
        connection.send(b'{"id":2}\r\n\r\n')
        answer = connection.answer()
        assert reason(answer) == (400, "malformed")
        assert connection.is_closed()
    assert [one.value for one in records] == [EVENT]


def test_body_longer_than_its_length_in_one_piece(world: World, connection: Connection) -> None:
    """What follows is bad before the event is looked at, which is good all the same."""
    with world.written("events") as records:
        connection.send(event_request(world, JSON, EVENT + b"rest\r\n\r\n", length=str(len(EVENT))))
        assert [connection.answer().status for _ in range(2)] == [201, 400]
        assert connection.is_closed()
    assert [one.value for one in records] == [EVENT]


def test_post_without_a_length_is_refused_as_empty(world: World, connection: Connection) -> None:
    with world.written("events") as records:
        connection.send(event_request(world, JSON, b"", length=""))
        answer = connection.answer()
    assert reason(answer) == (400, "malformed")
    assert "empty" in answer.document["detail"]
    assert records == []


def test_pipelined_requests_are_answered_in_order(world: World, connection: Connection) -> None:
    with world.written("events") as records:
        bodies = [b'{"id":"p","n":%d}' % n for n in range(5)]
        connection.send(b"".join(event_request(world, JSON, body) for body in bodies))
        offsets = [connection.answer().document["offset"] for _ in bodies]
    assert offsets == sorted(offsets)
    assert [one.value for one in records] == bodies


@pytest.mark.parametrize(
    "bad",
    [
        b"nonsense\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n",
    ],
)
@pytest.mark.parametrize("headers", [JSON, {**JSON, "Content-Encoding": "identity"}])
def test_good_requests_before_a_bad_one(
    world: World, connection: Connection, headers: dict[str, str | bytes], bad: bytes
) -> None:
    """All in one piece, on each of the two ways through the server."""
    bodies = [b'{"id":"b","n":%d}' % n for n in range(40)]
    with world.written("events") as records:
        connection.send(b"".join(event_request(world, headers, body) for body in bodies) + bad)
        assert [connection.answer().status for _ in bodies] == [201] * 40
        answer = connection.answer()
        assert connection.is_closed()
    assert reason(answer) == (400, "malformed")
    assert answer.headers["connection"] == "close"
    assert [one.value for one in records] == bodies


def test_client_that_never_reads_its_answers(world: World, connection: Connection) -> None:
    """Each request is answered with its topic's long name; nobody may fill the memory so."""
    asking = request_bytes("POST", events_path("x" * 7000), JSON, EVENT) * 100
    connection.give_up_after(2)
    with world.bounded_memory(48 * 2**20), suppress(TimeoutError):
        for _ in range(120):  # asks for 84 MB, of which the kernel may hold some
            connection.send(asking)
    world.published("events", EVENT)


def test_each_pipelined_request_gets_its_own_answer(world: World, connection: Connection) -> None:
    """Good and bad ones in turn, more than any queue holds at a time."""
    bodies = [b'{"id":"q","n":%d}' % n if n % 2 else b"{" for n in range(400)]
    named = [{**JSON, "X-Request-Id": f"r{n}"} for n in range(400)]
    with world.written("events") as records:
        connection.send(
            b"".join(
                event_request(world, headers, body)
                for headers, body in zip(named, bodies, strict=True)
            )
        )
        answers = [connection.answer() for _ in bodies]
    assert [answer.headers["x-request-id"] for answer in answers] == [f"r{n}" for n in range(400)]
    assert [answer.status for answer in answers] == [400, 201] * 200
    assert [one.value for one in records] == bodies[1::2]


# ---- chunks and time


def test_chunked_body(world: World, connection: Connection) -> None:
    parts = (b'{"id"', b":", b'"chunked"', b"}")
    with world.written("events") as records:
        connection.send(event_request(world, CHUNKED, b"", length=""))
        for part in parts:
            connection.send(b"%x\r\n%s\r\n" % (len(part), part))
        connection.send(b"0\r\n\r\n")
        assert connection.answer().status == 201
        connection.send(event_request(world, CHUNKED, chunks(EVENT), length=""))
        assert connection.answer().status == 201
    assert sorted(one.value or b"" for one in records) == sorted([b"".join(parts), EVENT])


@pytest.mark.parametrize("bad", [b"zz\r\nab\r\n", b"-1\r\n", b"3\r\nabcd\r\n", b"1 \nA\n"])
def test_broken_chunks(world: World, connection: Connection, bad: bytes) -> None:
    with world.written("events") as records:
        connection.send(event_request(world, CHUNKED, b"8\r\n" + EVENT + b"\r\n" + bad, length=""))
        answer = connection.answer()
        assert connection.is_closed()
    assert reason(answer) == (400, "malformed")
    assert_problem(answer)
    assert records == []


def test_broken_chunk_after_the_headers(world: World, connection: Connection) -> None:
    with world.written("events") as records:
        connection.send(event_request(world, CHUNKED, b"", length=""))
        assert connection.silence(0.1)
        connection.send(b"8\r\n" + EVENT + b"\r\nzz\r\n")
        answer = connection.answer()
        assert connection.is_closed()
    assert reason(answer) == (400, "malformed")
    assert records == []


def test_chunks_without_end(impatient: World, hurried: Connection) -> None:
    chunk = b"8\r\n" + EVENT + b"\r\n"
    with impatient.written("events") as records:
        hurried.send(event_request(impatient, CHUNKED, chunk, length=""))
        answer = hurried.answer()
        assert hurried.is_closed()
    assert reason(answer) == (408, "request_timeout")
    assert records == []


def test_chunks_over_the_cap(world: World, connection: Connection) -> None:
    piece = b" " * 2**20
    with world.written("events") as records, world.bounded_memory(64 * 2**20):
        connection.send(event_request(world, CHUNKED, b"", length=""))
        for _ in range(17):
            connection.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        answer = connection.answer()
    assert reason(answer) == (413, "too_large")
    assert answer.document["limit"] == "http.body_max_bytes"
    assert answer.document["limit_bytes"] == 16 * 2**20
    assert answer.document["size_bytes"] > 16 * 2**20
    assert records == []


def test_slow_body_has_one_deadline_not_one_a_byte(impatient: World, hurried: Connection) -> None:
    with impatient.written("events") as records:
        started = time.monotonic()
        hurried.send(event_request(impatient, JSON, b"{", length="1000"))
        while hurried.silence(0.1):
            hurried.send(b" ")
            assert time.monotonic() - started < 60  # 1.5 s a byte would be 1500
        answer = hurried.answer()
        assert hurried.is_closed()
    assert reason(answer) == (408, "request_timeout")
    assert time.monotonic() - started >= 1.4
    assert records == []


@pytest.mark.full
@pytest.mark.parametrize("start", [b"", b"POST /v1/topics/x/events HTTP/1.1\r\nHost: x\r\nA"])
def test_slow_headers_end_with_the_connection(
    world: World, connection: Connection, start: bytes
) -> None:
    started = time.monotonic()
    connection.send(start)
    while connection.drips(b"a" if start else b""):
        assert time.monotonic() - started < 90
