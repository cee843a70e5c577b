"""One gateway for many tests of bad input, and the log that it writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headgate.devstack.servers import new_id
from support.clients.http_client import JSON, Answer, events_path, post, request_bytes
from support.kafka.kafka_log import LogRecord
from support.kafka.log_tail import LogTail
from support.process.stack import Gateway, RunningBroker, RunningRedis

CONFIG = """
[http]
body_timeout_ms = {body_timeout_ms}
request_timeout_ms = 20000
json_max_depth = 128
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 250
[redis]
url = "{redis}"
namespace = "{suffix}"
quarantine_ms = 1
timeout_ms = 5000
[producers.shop]
[topics."events-{suffix}"]
key = ["/id"]
max_bytes = 900000
[topics."nested-{suffix}"]
key = ["/ids/0", "/at"]
[topics."spread-{suffix}"]
keyless = "spread"
[topics."small-{suffix}"]
key = ["/id"]
[topics."state-{suffix}"]
kind = "state"
suppress = "raw"
key = ["/id"]
[topics."missing-{suffix}"]
"""
PARTITIONS = 3
SMALL_LIMIT = 20_000  # max.message.bytes of the topic `small`
LIMITS = {"small": {"max.message.bytes": str(SMALL_LIMIT)}}
EXISTING = ("events", "nested", "spread", "small", "state")
EVENT = b'{"id":1}'
PROBLEM = "application/problem+json"


class World:
    """A running gateway. Topics are named by their short name (`events`, `small`, ...)."""

    def __init__(self, kafka: RunningBroker, gateway: Gateway, suffix: str) -> None:
        self.kafka = kafka
        self.gateway = gateway
        self._suffix = suffix
        topics = [self.topic(short) for short in EXISTING]
        self.log = LogTail(kafka.bootstrap, topics, PARTITIONS)

    @property
    def port(self) -> int:
        return self.gateway.port

    def topic(self, short: str) -> str:
        """The topic's name in Kafka."""
        return f"{short}-{self._suffix}"

    def post(self, short: str, body: bytes, headers: Mapping[str, str | bytes] = JSON) -> Answer:
        """Post a body to a topic."""
        return post(self.port, self.topic(short), body, headers)

    @contextmanager
    def bounded_memory(self, max_bytes: int) -> Iterator[None]:
        """The worker's peak of resident memory must not grow by more within the block."""
        process = Path(f"/proc/{self.gateway.pids[1]}")
        (process / "clear_refs").write_text("5")  # proc(5): resets the peak to what it is now
        before = _peak_bytes(process)
        yield
        grown = _peak_bytes(process) - before
        assert grown < max_bytes, f"{grown / 2**20:.0f} MiB"

    @contextmanager
    def written(self, short: str) -> Iterator[list[LogRecord]]:
        """The records that were appended to the topic within the block, filled in at its end."""
        name, records = self.topic(short), list[LogRecord]()
        self.log.take(name)
        yield records
        records += self.log.take(name)

    def refused(self, short: str, body: bytes, headers: Mapping[str, str | bytes] = JSON) -> Answer:
        """Post what must be answered with a problem document and not be written."""
        with self.written(short) as records:
            answer = self.post(short, body, headers)
        assert records == []
        assert_problem(answer)
        return answer

    def published(
        self, short: str, body: bytes, headers: Mapping[str, str | bytes] = JSON
    ) -> LogRecord:
        """Post one event that must be published; return its record, the only one."""
        with self.written(short) as records:
            answer = self.post(short, body, headers)
        assert answer.status == 201, answer
        (record,) = records
        outcome = answer.document
        assert outcome["outcome"] == "published"
        assert (outcome["partition"], outcome["offset"]) == (record.partition, record.offset)
        return record


def _peak_bytes(process: Path) -> int:
    (line,) = (one for one in (process / "status").read_text().splitlines() if "VmHWM" in one)
    return int(line.split()[1]) * 1024


def event_request(
    world: World, headers: Mapping[str, str | bytes], body: bytes = EVENT, length: str | None = None
) -> bytes:
    """A post to the topic `events` as it goes over the wire; see `request_bytes`."""
    return request_bytes("POST", events_path(world.topic("events")), headers, body, length)


def assert_problem(answer: Answer) -> None:
    """What all problem documents have (RFC 9457, docs/publish/answers.md)."""
    assert answer.headers["content-type"] == PROBLEM, answer
    document = answer.document
    assert document["status"] == answer.status
    assert document["type"] == f"/problems/{document['reason']}"
    assert document["title"]
    assert document["detail"]
    assert document["instance"] == answer.headers["x-request-id"]
    assert isinstance(document["retryable"], bool)


def reason(answer: Answer) -> tuple[int, str]:
    """The answer's status and reason."""
    return answer.status, answer.document["reason"]


@contextmanager
def running_world(
    kafka: RunningBroker, redis: RunningRedis, directory: Path, body_timeout_ms: int = 60_000
) -> Iterator[World]:
    """Start a gateway with topics of its own, and end it."""
    suffix = new_id().replace("_", "-")[:8]
    for short in EXISTING:
        kafka.create_topic(f"{short}-{suffix}", PARTITIONS, LIMITS.get(short))
    text = CONFIG.format(
        bootstrap=kafka.bootstrap,
        redis=redis.url,
        suffix=suffix,
        body_timeout_ms=body_timeout_ms,
    )
    gateway = Gateway(directory, text, (), {})
    try:
        gateway.wait()
        world = World(kafka, gateway, suffix)
        try:
            yield world
        finally:
            world.log.close()
    finally:
        gateway.kill()
