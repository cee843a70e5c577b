"""Too much: bodies over the cap, bombs, encodings, and events over each of their limits."""

import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.clients.http_client import JSON, NDJSON
from support.gateway.bad_input_world import (
    SMALL_LIMIT,
    World,
    assert_problem,
    reason,
    running_world,
)
from support.process.stack import RunningBroker, RunningRedis, eventually

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CAP = 16 * 2**20
BOMB_BYTES = 300 * 10**6


@pytest.fixture(scope="module")
def world(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with running_world(kafka, redis_server, tmp_path_factory.mktemp("gateway")) as running:
        yield running


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


ENCODERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
    "zstd": zstd.compress,
}


def encoded(name: str) -> dict[str, str | bytes]:
    return {**JSON, "Content-Encoding": name}


@pytest.mark.parametrize("name", ENCODERS)
def test_encodings_are_undone(world: World, name: str) -> None:
    for body in (b'{"id":1}', json.dumps({"id": 2, "text": "ab" * 40_000}).encode()):
        record = world.published("events", ENCODERS[name](body), encoded(name))
        assert record.value == body
        assert record.header("content-type") == b"application/json"


def test_identity_is_no_encoding(world: World) -> None:
    assert world.published("events", b'{"id":1}', encoded("identity")).value == b'{"id":1}'


@pytest.mark.parametrize("name", ["br", "compress", "gzip, gzip", "zstd, gzip", "\u00e9", "*"])
def test_unsupported_encodings(world: World, name: str) -> None:
    answer = world.refused("events", b'{"id":1}', encoded(name))
    assert reason(answer) == (415, "unsupported_encoding")
    assert "gzip, deflate or zstd" in answer.document["detail"]


@pytest.mark.parametrize("name", ENCODERS)
def test_broken_encodings(world: World, name: str) -> None:
    whole = ENCODERS[name](b'{"id":1,"text":"%s"}' % (b"x" * 1000))
    for body in (b'{"id":1}', whole[:-1], whole[: len(whole) // 2], whole + b"rest"):
        answer = world.post("events", body, encoded(name))
        assert reason(answer) == (400, "malformed"), body[:20]
        assert_problem(answer)
    assert reason(world.refused("events", whole[:-1], encoded(name))) == (400, "malformed")


@pytest.fixture(scope="module")
def bombs() -> dict[str, bytes]:
    """300 MB of blanks in a small body, for each encoding."""
    packers = {"gzip": zlib.compressobj(9, wbits=31), "deflate": zlib.compressobj(9)}
    made = {}
    for name, packer in packers.items():
        pieces = [packer.compress(bytes(10**6)) for _ in range(BOMB_BYTES // 10**6)]
        made[name] = b"".join(pieces) + packer.flush()
    stream = zstd.ZstdCompressor()
    pieces = [stream.compress(bytes(10**6)) for _ in range(BOMB_BYTES // 10**6)]
    made["zstd"] = b"".join(pieces) + stream.flush()
    return made


@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd"])
def test_bombs(world: World, bombs: dict[str, bytes], name: str) -> None:
    body = bombs[name]
    assert len(body) < 310_000
    with world.bounded_memory(64 * 2**20):
        answer = world.refused("events", body, encoded(name))
    assert reason(answer) == (413, "too_large")
    assert answer.document["limit_bytes"] == CAP
    assert CAP < answer.document["size_bytes"] <= CAP + 2**20
    assert answer.document["limit"] == "http.body_max_bytes, decompressed"


def test_many_bombs_at_once(world: World, bombs: dict[str, bytes]) -> None:
    """Bounded by the threads that unfold (cores + 4), not by the clients."""
    with world.bounded_memory(256 * 2**20), ThreadPoolExecutor(24) as pool:
        posting = [
            pool.submit(world.post, "events", bombs["gzip"], encoded("gzip")) for _ in range(24)
        ]
        assert world.post("events", b'{"id":"beside"}').status == 201
        assert {reason(each.result()) for each in posting} == {(413, "too_large")}


def test_body_over_the_cap(world: World) -> None:
    with world.bounded_memory(48 * 2**20):
        answer = world.refused("events", b" " * (CAP + 1))
    assert reason(answer) == (413, "too_large")
    document = answer.document
    assert (document["size_bytes"], document["limit_bytes"]) == (CAP + 1, CAP)
    assert document["limit"] == "http.body_max_bytes"
    assert document["retryable"] is False


def deal(size: int) -> bytes:
    """A deal whose options weigh most, as in incident A, of about so many bytes."""
    option = {"code": "x" * 100, "price": 12.5}
    document = {
        "id": "d1",
        "notes": "n" * (size // 20),
        "seller/name": "s" * (size // 40),
        "log": ["l" * (size // 60)],
        "a": 1,
        "options": [option] * (size // 150),
    }
    return json.dumps(document).encode()


HEAVIEST = ["/options", "/notes", "/seller~1name", "/log/0", "/id"]


def assert_weighed(document: dict[str, object]) -> None:
    paths = document["largest_paths"]
    assert isinstance(paths, list)
    assert [one["path"] for one in paths] == HEAVIEST
    sizes = [one["bytes"] for one in paths]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sum(sizes[1:])


def test_event_over_the_policy(world: World) -> None:
    body = deal(1_000_000)
    document = world.refused("events", body).document
    assert (document["reason"], document["status"]) == ("too_large", 413)
    assert (document["size_bytes"], document["limit_bytes"]) == (len(body), 900_000)
    assert document["limit"] == "max_bytes"
    assert document["key"] == "d1"
    assert_weighed(document)


def test_event_over_the_topics_limit(world: World) -> None:
    body = deal(SMALL_LIMIT + 3000)
    document = world.refused("small", body).document
    assert document["reason"] == "too_large"
    assert document["limit"] == "max.message.bytes"
    assert document["size_bytes"] >= len(body)
    assert SMALL_LIMIT * 0.9 < document["limit_bytes"] < SMALL_LIMIT
    assert_weighed(document)


def test_oversize_events_in_a_batch_spare_the_others(world: World) -> None:
    lines = [b'{"id":1}', deal(SMALL_LIMIT + 3000), b'{"id":2}']
    with world.written("small") as records:
        answer = world.post("small", b"\n".join(lines), NDJSON)
    assert answer.status == 207
    assert answer.document["summary"] == {"published": 2, "rejected": 1}
    failed = answer.document["outcomes"][1]
    assert (failed["status"], failed["reason"], failed["retryable"]) == (413, "too_large", False)
    assert_weighed(failed)
    assert sorted(one.value or b"" for one in records) == [lines[0], lines[2]]


def test_the_largest_event_that_may_pass_does(world: World) -> None:
    """The limit that a refusal names is the true one: exactly so much is published."""
    refused = world.refused("small", b'{"id":1,"text":"%s"}' % (b"x" * SMALL_LIMIT)).document
    over = refused["size_bytes"] - refused["limit_bytes"]
    fits = b'{"id":1,"text":"%s"}' % (b"x" * (SMALL_LIMIT - over))
    assert world.published("small", fits).value == fits
    assert world.refused("small", fits[:-2] + b'x"}').document["limit"] == "max.message.bytes"


def test_what_cannot_be_weighed_is_refused_all_the_same(world: World) -> None:
    headers = {"Content-Type": "application/octet-stream", "Headgate-Key": "k"}
    document = world.refused("small", b"\xff" * (SMALL_LIMIT + 1), headers).document
    assert document["reason"] == "too_large"
    assert not document.get("largest_paths")
    text = b'"' + b"x" * (SMALL_LIMIT + 1) + b'"'
    document = world.refused("small", text, {**JSON, "Headgate-Key": "k"}).document
    assert (document["reason"], document.get("largest_paths")) == ("too_large", [])


async def test_limit_lowered_and_raised_while_running(world: World, kafka: RunningBroker) -> None:
    body = b'{"id":"lowered","text":"%s"}' % (b"x" * 15_000)
    topic = world.topic("spread")
    keyless = {**JSON, "Headgate-Key": "k"}
    assert world.published("spread", body, keyless).value == body

    with world.written("spread") as records:
        kafka.set_topic_configs(topic, {"max.message.bytes": "10000"})
        answers = []

        def is_refused() -> bool:
            answers.append(world.post("spread", body, keyless))
            return answers[-1].status != 201

        await eventually(is_refused)
        # Whether the gateway knew already or the broker said so: later events must pass.
        small = [world.post("spread", b'{"id":%d}' % n, keyless).status for n in range(10)]
        assert small == [201] * 10
        await eventually(lambda: "largest_paths" in world.post("spread", body, keyless).document)
    assert reason(answers[-1]) == (413, "too_large")
    assert answers[-1].document["limit"] == "max.message.bytes"
    document = world.refused("spread", body, keyless).document
    assert document["limit_bytes"] < 10_000
    assert len(records) == len(answers) - 1 + 10

    kafka.set_topic_configs(topic, {"max.message.bytes": "1000000"})
    await eventually(lambda: world.post("spread", body, keyless).status == 201)
