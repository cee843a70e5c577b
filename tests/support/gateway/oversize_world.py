"""A gateway whose topics have oversize policies, and what an independent client reads."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from headgate.consumer.assembler import Assembler, Event
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import RunningBroker

LIMIT = 60_000  # max.message.bytes of the topics here: small, so that large events are cheap


class Read(NamedTuple):
    """A record as `Assembler` takes it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int


class Reply(NamedTuple):
    status: int
    body: dict[str, Any]


def configuration(broker: RunningBroker, sections: str, more: str = "") -> str:
    return f"""
[clusters.main]
bootstrap_servers = "{broker.bootstrap}"
{more}
{sections}
"""


def post(
    url: str, topic: str, body: bytes, headers: Mapping[str, str] | None = None,
    timeout_s: float = 90.0,
) -> Reply:  # fmt: skip
    """One request on a connection of its own."""
    split = urlsplit(url)
    connection = HTTPConnection(split.hostname or "", split.port, timeout=timeout_s)
    try:
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection.request("POST", f"/v1/topics/{topic}/events", body, sent)
        answer = connection.getresponse()
        return Reply(answer.status, json.loads(answer.read()))
    finally:
        connection.close()


def noise(size: int, seed: int = 1) -> bytes:
    """Text that does not compress to less than three quarters."""
    return base64.b64encode(random.Random(seed).randbytes(size * 3 // 4))


def document(key: str, size: int, seed: int = 1) -> bytes:
    """A JSON document of about this size that does not compress well."""
    return b'{"id":"%s","text":"%s"}' % (key.encode(), noise(size, seed))


def records(broker: RunningBroker, topic: str) -> list[LogRecord]:
    return read_log(broker.bootstrap, topic)


def as_read(topic: str, record: LogRecord) -> Read:
    partition, offset, key, value, headers, at = record
    return Read(topic, partition, offset, key, value, headers, at)


def assembled(broker: RunningBroker, topic: str, assembler: Assembler | None = None) -> list[Event]:
    """What the consumer library makes of the whole log."""
    one = assembler or Assembler()
    found = (one.add(as_read(topic, record)) for record in records(broker, topic))
    return [event for event in found if event is not None]


def stored_files(root: Path) -> list[Path]:
    """Blobs that have their name."""
    return sorted(
        path for path in root.rglob("*") if path.is_file() and ".pending" not in path.parts
    )
