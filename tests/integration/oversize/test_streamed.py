"""Bodies over http.body_max_bytes: straight to the blob store, without being in memory."""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from headgate.consumer.claims import ClaimChecks
from support.gateway.oversize_world import (
    Reply,
    configuration,
    document,
    noise,
    post,
    records,
    stored_files,
)
from support.process.s3_server import running_bucket
from support.process.stack import Gateway, RunningBroker, eventually

pytestmark = pytest.mark.kafka

MEGABYTE = 1_000_000
MAX_GROWTH_KB = 32 * 1024
SMALL_BODIES = "[http]\nbody_max_bytes = 100000\n"
NOISE = noise(MEGABYTE, 5)


class Body(NamedTuple):
    """A JSON document of so many megabytes, never in memory as a whole."""

    megabytes: int
    key: str = "a"

    def __iter__(self) -> Iterator[bytes]:
        yield b'{"id":"%s","text":"' % self.key.encode()
        for _ in range(self.megabytes):
            yield NOISE
        yield b'"}'

    @property
    def size(self) -> int:
        return sum(map(len, self))

    @property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for piece in self:
            digest.update(piece)
        return digest.hexdigest()


def upload(
    gateway: Gateway, topic: str, body: Body, headers: Mapping[str, str] | None = None,
    *, chunked: bool = False,
) -> Reply:  # fmt: skip
    split = urlsplit(gateway.url)
    connection = HTTPConnection(split.hostname or "", split.port, timeout=120)
    sent = {"Content-Type": "application/json", "Headgate-Key": body.key, **(headers or {})}
    if not chunked:
        sent["Content-Length"] = str(body.size)
    try:
        connection.request(
            "POST", f"/v1/topics/{topic}/events", iter(body), sent, encode_chunked=chunked
        )
        answer = connection.getresponse()
        return Reply(answer.status, json.loads(answer.read()))
    finally:
        connection.close()


def memory_kb(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


class Growth:
    """The most that a gateway's processes have grown by since this was made."""

    def __init__(self, gateway: Gateway) -> None:
        self._before = {pid: memory_kb(pid, "VmRSS") for pid in gateway.pids}
        for pid in self._before:
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak is reset

    def kb(self) -> int:
        return sum(memory_kb(pid, "VmHWM") - before for pid, before in self._before.items())


def configured(broker: RunningBroker, topic: str, url: str, more: str = "", blobs: str = "") -> str:
    policy = f'[topics.{topic}]\nkey = "/id"\noversize = ["compress", "claim-check"]\n{more}\n'
    return configuration(broker, policy, f'[blobs]\nurl = "{url}"\n{blobs}\n')


async def pushed_through(
    kafka: RunningBroker, gateway: Gateway, topic: str, url: str, megabytes: int, tmp_path: Path
) -> None:
    """Large events, of declared length and in chunks: memory, the records, a consumer's bytes."""
    # the first value loads what all need
    assert post(gateway.url, topic, document("warm", 1_500_000)).status == 201
    grown: dict[str, int] = {}
    for key, chunked in (("declared", False), ("chunked", True)):
        growth, body = Growth(gateway), Body(megabytes, key)
        answer = upload(gateway, topic, body, chunked=chunked)
        grown[key] = growth.kb()
        assert (answer.status, answer.body["oversize"]) == (201, "claim-check"), answer
        (record,) = (one for one in records(kafka, topic) if one.key == key.encode())
        assert (record.value, record.offset) == (b"", answer.body["offset"])
        assert record.header("hg-value-bytes") == b"%d" % body.size
        into = tmp_path / key
        with into.open("wb") as file:
            assert await ClaimChecks(url).copy(record, file) == body.size
        with into.open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == body.sha256
    assert max(grown.values()) <= MAX_GROWTH_KB, f"KiB more: {grown}"


# ---- megabytes; the bound is 32 for all of them


@pytest.mark.parametrize("megabytes", [40, pytest.param(100, marks=pytest.mark.full)])
async def test_a_large_event_goes_to_a_folder_past_the_memory(
    kafka, start_gateway, topic_name, tmp_path, megabytes
):
    kafka.create_topic(topic_name, 3)
    url = f"file://{tmp_path / 'blobs'}"
    gateway = start_gateway(configured(kafka, topic_name, url))
    await pushed_through(kafka, gateway, topic_name, url, megabytes, tmp_path)


@pytest.mark.full  # a bucket that fails in the middle is in every run
@pytest.mark.parametrize("megabytes", [40, 100])
async def test_a_large_event_goes_to_a_bucket_past_the_memory(
    kafka, start_gateway, topic_name, tmp_path, monkeypatch, megabytes
):
    kafka.create_topic(topic_name, 3)
    url = "s3://blobs/prefix"
    with running_bucket(tmp_path / "moto.log") as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        config = configured(kafka, topic_name, url)
        gateway = start_gateway(config, environment=bucket.environment)
        await pushed_through(kafka, gateway, topic_name, url, megabytes, tmp_path)


# ---- what is refused, and what is left behind then: nothing


@pytest.fixture
def small(kafka, start_gateway, topic_name, tmp_path) -> tuple[Gateway, Path]:
    """A gateway that takes bodies over 100 kB for large ones."""
    return started(kafka, start_gateway, topic_name, tmp_path)


def started(kafka, start_gateway, topic_name, tmp_path, http="") -> tuple[Gateway, Path]:
    kafka.create_topic(topic_name, 3)
    root = tmp_path / "blobs"
    config = configured(kafka, topic_name, f"file://{root}", blobs="max_bytes = 500000")
    return start_gateway(SMALL_BODIES + http + config), root


def is_empty(root: Path) -> bool:
    return not any(path.is_file() for path in root.rglob("*"))


# headers, body, and what the refusal says
LARGE, KEYED = document("a", 200_000), {"Headgate-Key": "a"}
REFUSED = [
    ({"Headgate-Key": ""}, LARGE, 422, "missing_key", "empty"),
    ({}, LARGE, 422, "missing_key", "send Headgate-Key"),
    ({"Content-Type": "image/png"}, LARGE, 422, "missing_key", "Headgate-Key"),
    (KEYED, LARGE[:-1], 400, "malformed", "too early"),
    (KEYED, LARGE + b"1", 400, "malformed", "no JSON"),
    (KEYED, b"[%s]" % LARGE, 413, "too_large", "a batch"),
    (KEYED, document("a", 600_000), 413, "too_large", "blobs.max_bytes"),
    (KEYED | {"Content-Type": "application/x-ndjson"}, LARGE, 413, "too_large", "body_max_bytes"),
    (KEYED | {"Content-Type": "application/cloudevents+json"}, LARGE, 413, "too_large", "body_max"),
    (KEYED | {"Content-Encoding": "gzip"}, LARGE, 413, "too_large", "body_max_bytes"),
]


def test_what_does_not_stream_is_refused_and_leaves_nothing(kafka, small, topic_name):
    gateway, root = small
    for headers, body, status, reason, says in REFUSED:
        answer = post(gateway.url, topic_name, body, headers)
        assert (answer.status, answer.body["reason"]) == (status, reason), (headers, answer)
        assert says in answer.body["detail"]
        assert is_empty(root)
    assert records(kafka, topic_name) == []


def test_all_that_is_one_event_streams(kafka, small, topic_name):
    gateway, root = small
    value = document("a", 200_000)
    event = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t",
             "ce-subject": "from-ce"}  # fmt: skip
    for headers, key in (
        ({"Headgate-Key": "plain"}, b"plain"),
        ({"Headgate-Key": "typed", "Content-Type": "application/geo+json"}, b"typed"),
        ({"Headgate-Key": "opaque", "Content-Type": "image/png"}, b"opaque"),
        (event, b"from-ce"),
    ):
        answer = post(gateway.url, topic_name, value, headers)
        assert (answer.status, answer.body["oversize"]) == (201, "claim-check"), answer
        assert answer.body["key"] == key.decode()
    found = {one.key: one for one in records(kafka, topic_name)}
    assert found[b"plain"].header("content-type") == b"application/json"
    assert found[b"typed"].header("content-type") == b"application/geo+json"
    assert found[b"from-ce"].header("ce_type") == b"t"
    assert found[b"from-ce"].header("content-type") == b"application/json"
    (blob,) = stored_files(root)
    assert blob.read_bytes() == value
    array = {"Headgate-Key": "array", "Headgate-Batch": "false"}
    assert post(gateway.url, topic_name, b"[%s]" % value, array).status == 201


def opened(gateway: Gateway, topic: str, length: int) -> socket.socket:
    """A request whose body begins and goes no further."""
    split = urlsplit(gateway.url)
    client = socket.create_connection((split.hostname or "", split.port or 0), 60)
    client.sendall(
        b"POST /v1/topics/%s/events HTTP/1.1\r\nHost: x\r\nHeadgate-Key: a\r\n"
        b"Content-Length: %d\r\n\r\n" % (topic.encode(), length) + b"x" * (length // 2)
    )
    return client


async def test_a_client_that_leaves_in_the_middle_leaves_nothing(kafka, small, topic_name):
    gateway, root = small
    client = opened(gateway, topic_name, 400_000)
    await eventually(lambda: not is_empty(root))
    client.close()
    await eventually(lambda: is_empty(root))
    assert records(kafka, topic_name) == []


async def test_a_slow_body_is_given_up_in_time(kafka, start_gateway, topic_name, tmp_path):
    short = "body_timeout_ms = 700\n"
    gateway, root = started(kafka, start_gateway, topic_name, tmp_path, short)
    with opened(gateway, topic_name, 400_000) as client:
        began = time.monotonic()
        assert client.recv(4096).startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - began < 20  # by default it has 30
    await eventually(lambda: is_empty(root))
    assert records(kafka, topic_name) == []


async def test_a_store_that_fails_in_the_middle_is_503_and_nothing_is_written(
    kafka, start_gateway, topic_name, tmp_path
):
    kafka.create_topic(topic_name, 3)
    with running_bucket(tmp_path / "moto.log") as bucket:
        config = SMALL_BODIES + configured(kafka, topic_name, "s3://blobs/prefix")
        gateway = start_gateway(config, environment=bucket.environment)
        client = opened(gateway, topic_name, 16_000_000)  # half of it: a part is uploaded
        log = bucket.server.log
        await eventually(lambda: "partNumber=1" in log.read_text(), 30)
        bucket.server.kill()
        with client:
            client.settimeout(120)
            client.sendall(b"x" * 8_000_000)
            answer = client.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 503 "), answer
        assert b"blobs_unavailable" in answer
        assert b"Retry-After" in answer
    assert records(kafka, topic_name) == []
    assert post(gateway.url, topic_name, document("b", 50_000)).status == 201  # the worker is well


async def test_claim_check_replaced_by_the_spool_while_a_body_streams(
    kafka, start_gateway, topic_name, tmp_path
):
    kafka.create_topic(topic_name, 3)
    more = f'[spool]\npath = "{tmp_path / "spool"}"\n'
    config = SMALL_BODIES + more + configured(kafka, topic_name, f"file://{tmp_path / 'blobs'}")
    gateway = start_gateway(config)
    with opened(gateway, topic_name, 400_000) as client:
        await eventually(lambda: not is_empty(tmp_path / "blobs"))
        marker = f"{topic_name}-reloaded"
        changed = config.replace('oversize = ["compress", "claim-check"]', "spool = true")
        gateway.config.write_text(f"{changed}\n[topics.{marker}]\nkey = '/id'\n")
        gateway.reload()
        await eventually(lambda: knows(gateway, marker), 30)
        client.settimeout(120)
        client.sendall(b"x" * 200_000)
        answer = client.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 413 "), answer
    assert b"stores no large values since a reload" in answer
    assert records(kafka, topic_name) == []


def knows(gateway: Gateway, topic: str) -> bool:
    """Whether the worker has a configuration with this topic; Kafka has no such topic."""
    return "no topic pattern" not in post(gateway.url, topic, b"{}").body["detail"]


# ---- what else a topic asks for


def test_streamed_events_are_compared_remembered_and_in_order(
    kafka, start_redis, start_gateway, topic_name, tmp_path
):
    raw, canonical = (
        kafka.create_topic(f"{topic_name}-{mode}", 3) for mode in ("raw", "canonical")
    )
    strategies = 'key = "/id"\noversize = ["claim-check"]\nkind = "state"\n'
    policies = (
        f'[topics.{raw}]\n{strategies}suppress = "raw"\ndedupe_ttl_s = 600\n'
        f'[topics.{canonical}]\n{strategies}suppress = "canonical"\ncanonical_max_bytes = 100000\n'
    )
    url, redis = f"file://{tmp_path / 'blobs'}", start_redis()
    more = f'[blobs]\nurl = "{url}"\n[redis]\nurl = "{redis.url}"\nquarantine_ms = 1\n'
    gateway = start_gateway(SMALL_BODIES + configuration(kafka, policies, more))
    bodies = [document("a", 150_000, seed) for seed in (1, 2)]
    for topic in (raw, canonical):
        said = [
            post(gateway.url, topic, body, KEYED).body
            for body in (b'{"id":"a"}', bodies[0], bodies[0], bodies[1], b'{"id":"a"}', bodies[1])
        ]
        names = ["published", "published", "unchanged", "published", "published", "published"]
        assert [one["outcome"] for one in said] == names
        assert said[2]["offset"] == said[1]["offset"]
        assert [one.value for one in records(kafka, topic)] == [
            b'{"id":"a"}', b"", b"", b'{"id":"a"}', b"",
        ]  # fmt: skip

    named = KEYED | {"Headgate-Event-Id": "e-1"}
    answers = [
        post(gateway.url, raw, body, named).body for body in (bodies[0], bodies[0], bodies[1])
    ]
    assert [one.get("outcome") for one in answers] == ["published", "duplicate", None]
    assert answers[2]["reason"] == "idempotency_mismatch"
    once = KEYED | {"Idempotency-Key": "k-1"}
    answers = [
        post(gateway.url, canonical, body, once).body for body in (*bodies[:1] * 2, bodies[1])
    ]
    assert [one.get("outcome") for one in answers] == ["published", "duplicate", None]
    assert answers[2]["reason"] == "idempotency_mismatch"
