"""A gateway for tests of Confluent's REST, and a client that streams records."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka.admin import AdminClient

from headgate.devstack.servers import new_id
from support.clients.http_client import Answer, exchange
from support.kafka.log_tail import LogTail
from support.process.stack import Gateway, RunningBroker, RunningRedis

CONFIG = """
[http]
body_timeout_ms = 3000
body_max_bytes = 1000000
request_timeout_ms = 20000
cors_origins = ["https://app.example"]
[admission]
in_flight_max_bytes = 4000000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 250
[redis]
url = "{redis}"
namespace = "{suffix}"
quarantine_ms = 1
timeout_ms = 5000
[topics."keyed-{suffix}"]
key = ["/id"]
max_bytes = 200000
[topics."plain-{suffix}"]
key = ["/id"]
compat_json_keys = "plain"
compat_timestamps = "refuse"
[topics."state-{suffix}"]
kind = "state"
suppress = "raw"
key = ["/id"]
[topics."stamped-{suffix}"]
kind = "state"
suppress = "raw"
key = ["/id"]
timestamp = "event"
oversize = ["compress"]
[topics."missing-{suffix}"]
"""
PARTITIONS = 3
STAMPED = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "20000"}
JSON_V2 = {"Content-Type": "application/vnd.kafka.json.v2+json"}
BINARY_V2 = {"Content-Type": "application/vnd.kafka.binary.v2+json"}
TEXT_V2 = {"Content-Type": "application/vnd.kafka.text.v2+json"}
V3 = {"Content-Type": "application/json"}


class ConfluentWorld:
    """Topics are named by their short name: keyed, plain, state, stamped, missing."""

    def __init__(self, kafka: RunningBroker, gateway: Gateway, suffix: str) -> None:
        self.kafka = kafka
        self.gateway = gateway
        self._suffix = suffix
        topics = [self.topic(short) for short in ("keyed", "plain", "state", "stamped")]
        self.log = LogTail(kafka.bootstrap, topics, PARTITIONS)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})  # a name: it must stay alive
        self.cluster_id: str = admin.list_topics(timeout=10).cluster_id

    def topic(self, short: str) -> str:
        """The topic's name in Kafka."""
        return f"{short}-{self._suffix}"

    def get(self, path: str) -> Answer:
        """GET a path."""
        return exchange(self.gateway.port, "GET", path)

    def v2(
        self, short: str, records: list[Any], headers: dict[str, str], partition: int | None = None
    ) -> Answer:
        """Produce through v2."""
        path = f"/topics/{self.topic(short)}"
        if partition is not None:
            path += f"/partitions/{partition}"
        body = json.dumps({"records": records}).encode()
        return exchange(self.gateway.port, "POST", path, headers, body)

    def records_path(self, short: str) -> str:
        """Where v3 records go."""
        return f"/v3/clusters/{self.cluster_id}/topics/{self.topic(short)}/records"

    def v3(self, short: str, *records: Any) -> Answer:
        """Produce through v3, the body's length known."""
        body = b"\n".join(json.dumps(record).encode() for record in records)
        return exchange(self.gateway.port, "POST", self.records_path(short), V3, body)

    def stream(self, short: str) -> RecordStream:
        """Open a stream of v3 records."""
        return RecordStream(self.gateway.port, self.records_path(short))


class RecordStream:
    """A chunked request whose answer is read while it is still being sent."""

    def __init__(self, port: int, path: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        self._socket.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        self._file = self._socket.makefile("rb")
        self.status = 0
        self._rest = b""

    def __enter__(self) -> RecordStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send one chunk."""
        self._socket.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def send_record(self, record: Any) -> None:
        """Send one record as a chunk."""
        self.send(json.dumps(record).encode())

    def finish(self) -> None:
        """Say that nothing more comes."""
        self._socket.sendall(b"0\r\n\r\n")

    def would_block(self, data: bytes, seconds: float) -> bool:
        """Send as a chunk; whether the gateway stops taking it for so long."""
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(b"%x\r\n%s\r\n" % (len(data), data))
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(60)
        return False

    def report(self) -> Any:
        """The next report; None when the answer has ended."""
        if not self.status:
            self._head()
        while b"\r\n" not in self._rest:
            piece = self._chunk()
            if not piece:
                return None
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\r\n")
        return json.loads(line)

    def _head(self) -> None:
        self.status = int(self._file.readline().split()[1])
        while self._file.readline() not in (b"\r\n", b""):
            pass

    def _chunk(self) -> bytes:
        size = self._file.readline()
        piece = self._file.read(int(size, 16)) if size.strip() else b""
        self._file.readline()
        return piece


@contextmanager
def running_confluent(
    kafka: RunningBroker, redis: RunningRedis, directory: Path
) -> Iterator[ConfluentWorld]:
    """Start a gateway with topics of its own, and end it."""
    suffix = new_id().replace("_", "-")[:8]
    for short in ("keyed", "plain", "state"):
        kafka.create_topic(f"{short}-{suffix}", PARTITIONS)
    kafka.create_topic(f"stamped-{suffix}", PARTITIONS, STAMPED)
    text = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis.url, suffix=suffix)
    gateway = Gateway(directory, text, (), {})
    try:
        gateway.wait()
        world = ConfluentWorld(kafka, gateway, suffix)
        try:
            yield world
        finally:
            world.log.close()
    finally:
        gateway.kill()
