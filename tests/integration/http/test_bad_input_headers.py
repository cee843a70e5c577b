"""Headers that are no good, injected or too large, and `Expect`, against the real gateway."""

from collections.abc import Iterator

import pytest

from support.clients.http_client import JSON, Connection, chunks, exchange, request_bytes
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


@pytest.fixture
def connection(world: World) -> Iterator[Connection]:
    with Connection(world.port) as opened:
        yield opened


# ---- Expect: 100-continue


def test_a_client_that_waits_for_100_continue(world: World, connection: Connection) -> None:
    lines = b"\n".join(b'{"id":%d,"text":"%s"}' % (n, b"x" * 20_000) for n in range(100))
    assert len(lines) > 2_000_000
    headers = {"Content-Type": "application/x-ndjson", "Expect": "100-continue"}
    with world.written("events") as records:
        connection.send(event_request(world, headers, b"", length=str(len(lines))))
        assert connection.answer().status == 100
        connection.send(lines)
        answer = connection.answer()
        assert (answer.status, answer.document["summary"]) == (200, {"published": 100})
        connection.send(event_request(world, JSON))
        assert connection.answer().status == 201, "the connection goes on"
    assert len(records) == 101


def test_100_continue_for_chunks(world: World, connection: Connection) -> None:
    with world.written("events") as records:
        connection.send(event_request(world, {**CHUNKED, "Expect": "100-Continue"}, b"", ""))
        assert connection.answer().status == 100
        connection.send(chunks(EVENT))
        assert connection.answer().status == 201
    assert [one.value for one in records] == [EVENT]


def test_no_100_continue_for_what_came_with_the_headers(
    world: World, connection: Connection
) -> None:
    connection.send(event_request(world, {**JSON, "Expect": "100-continue"}))
    assert connection.answer().status == 201


@pytest.mark.parametrize(
    ("headers", "length", "expected"),
    [
        pytest.param({}, 16 * 2**20 + 1, (413, "too_large"), id="too large"),
        pytest.param({"Content-Encoding": "br"}, 99, (415, "unsupported_encoding"), id="encoding"),
        pytest.param({"Headgate-Producer": b"\xff"}, 99, (400, "malformed"), id="producer"),
    ],
)
def test_no_body_is_asked_for_in_vain(
    world: World,
    connection: Connection,
    headers: dict[str, str | bytes],
    length: int,
    expected: tuple[int, str],
) -> None:
    expecting = {**JSON, **headers, "Expect": "100-continue"}
    with world.written("events") as records:
        connection.send(event_request(world, expecting, b"", length=str(length)))
        answer = connection.answer()
        # The client may now send the body or not: only a closed connection is clear.
        assert answer.headers["connection"] == "close"
        assert connection.is_closed()
    assert reason(answer) == expected
    assert_problem(answer)
    assert records == []


# ---- headers


def test_reserved_record_headers_cannot_be_set(world: World) -> None:
    headers = {
        **JSON,
        "Headgate-Producer": "shop",
        "Headgate-Header-hg-producer": "mallory",
        "Headgate-Header-HG-Event-Id": "mine",
        "Headgate-Header-hg-": "x",
        "Headgate-Header-": "x",
        "hg-producer": "mallory",
        "Headgate-Header-Trace-Id": "7",
        "Headgate-Header-Unit": "µ",
    }
    record = world.published("events", EVENT, headers)
    names = [name for name, _ in record.headers]
    assert sorted(names) == [
        "content-type", "hg-event-id", "hg-producer", "hg-received-at", "trace-id", "unit",
    ]  # fmt: skip
    assert record.header("hg-producer") == b"shop"
    assert record.header("hg-event-id") != b"mine"
    assert record.header("unit") == "µ".encode()


@pytest.mark.parametrize(
    "value",
    [b"a\rHeadgate-Header-b: c", b"a\nHeadgate-Header-b: c", b"a\x00b", b"a\r\n folded", b"\x01"],
)
def test_control_characters_in_header_values(
    world: World, connection: Connection, value: bytes
) -> None:
    with world.written("events") as records:
        connection.send(event_request(world, {**JSON, "Headgate-Header-a": value}))
        answer = connection.answer()
        assert connection.is_closed()
    assert reason(answer) == (400, "malformed")
    assert_problem(answer)
    assert records == []


@pytest.mark.parametrize("name", ["Headgate Key", "Headgate-Key ", "(x)", "", "Schlüssel", "a\x00"])
def test_header_names_that_are_none(world: World, connection: Connection, name: str) -> None:
    with world.written("events") as records:
        connection.send(event_request(world, {**JSON, name: "x"}))
        answer = connection.answer()
        assert connection.is_closed()
    assert reason(answer) == (400, "malformed")
    assert_problem(answer)
    assert records == []


def test_nothing_from_the_request_splits_the_answer(world: World) -> None:
    path = "/v1/topics/a%0d%0aX-Evil:%201/events"
    answer = exchange(world.port, "POST", path, {**JSON, "X-Request-Id": "a\tb"}, EVENT)
    assert reason(answer) == (404, "unknown_topic")
    assert "x-evil" not in answer.headers
    assert answer.headers["x-request-id"] != "a\tb"
    given = exchange(world.port, "POST", path, {**JSON, "X-Request-Id": "a-1"}, EVENT)
    assert given.document["instance"] == given.headers["x-request-id"] == "a-1"


@pytest.mark.parametrize(
    "headers",
    [
        {"Headgate-Key": b"\xff\xfe"},
        {"Headgate-Event-Id": b"\xff"},
        {"Headgate-Event-Id": "x" * 257},
        {"Headgate-Timestamp": "yesterday"},
        {"Headgate-Timestamp": "-1"},
        {"Headgate-Timestamp": "9" * 16},
        {"Headgate-Producer": b"\xc3"},
        {"Headgate-Producer": "x" * 101},
        {"Headgate-Producer": "a\tb"},
    ],
)
def test_bad_values_of_our_headers(world: World, headers: dict[str, str | bytes]) -> None:
    answer = world.refused("events", EVENT, {**JSON, **headers})
    assert reason(answer) == (400, "malformed")
    assert next(iter(headers)) in answer.document["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Headgate-Header-long": "x" * 9000}, id="one long"),
        pytest.param({"x" * 9000: "1"}, id="a long name"),
    ],
)
def test_header_fields_over_the_limit(
    world: World, connection: Connection, headers: dict[str, str | bytes]
) -> None:
    with world.written("events") as records:
        connection.send(event_request(world, {**JSON, **headers}))
        answer = connection.answer()
        assert connection.is_closed()
    assert reason(answer) == (431, "headers_too_large")
    assert_problem(answer)
    assert records == []


@pytest.mark.parametrize("size", [1, 8000])
def test_too_many_header_fields(world: World, connection: Connection, size: int) -> None:
    """128 are aiohttp's limit, so that a connection holds 1 MiB of headers at most."""
    headers: dict[str, str | bytes] = {f"Headgate-Header-{n}": "x" * size for n in range(150)}
    with world.written("events") as records:
        connection.send(event_request(world, {**JSON, **headers}))
        answer = connection.answer()
        assert connection.is_closed()
    assert reason(answer) == (431, "headers_too_large")
    assert "headers" in answer.document["detail"]
    assert records == []


def test_long_request_line(world: World, connection: Connection) -> None:
    connection.send(request_bytes("POST", "/v1/topics/" + "x" * 9000 + "/events", JSON, EVENT))
    answer = connection.answer()
    assert answer.status in (414, 431)
    assert_problem(answer)
    assert connection.is_closed()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="HTTP/2"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(60), id="TLS"),
        pytest.param(b"\r\n\r\nhello\r\n\r\n", id="text"),
        pytest.param(b"POST http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n", id="bad URL"),
    ],
)
def test_bytes_that_are_not_http_are_refused(connection: Connection, data: bytes) -> None:
    connection.send(data)
    answer = connection.answer()
    assert reason(answer) == (400, "malformed")
    assert_problem(answer)
    assert connection.is_closed()
