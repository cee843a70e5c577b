"""A gateway whose topic coalesces, on real Kafka and Redis, and its clients."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker

QUIET_MS, MAX_MS = 400, 2000


def config_text(kafka: RunningBroker, redis_url: str, topic: str, options: str = "") -> str:
    """A configuration with one coalescing topic. options: more lines of its section."""
    return f"""
[clusters.main]
bootstrap_servers = ["{kafka.bootstrap}"]
metadata_refresh_ms = 500
[redis]
url = "{redis_url}"
namespace = "{topic}"
quarantine_ms = 1
timeout_ms = 5000
[coalescer]
session_timeout_ms = 6000
[topics."{topic}"]
kind = "state"
key = ["/id"]
suppress = "raw"
coalesce_quiet_ms = {QUIET_MS}
coalesce_max_delay_ms = {MAX_MS}
coalesce_partitions = 4
{options}
"""


def run_init(config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`headgate init`, as an operator runs it."""
    command = [sys.executable, "-m", "headgate", "init", "--config", str(config), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ}, timeout=120)


class Client:
    """One sequential client that takes turns among gateways, as behind one address."""

    def __init__(self, gateways: Iterable[Gateway], topic: str) -> None:
        self._places = [urlsplit(one.url).netloc for one in gateways]
        self._connections: dict[str, HTTPConnection] = {}
        self._topic = topic
        self._turn = 0
        self.held: dict[str, list[str]] = {}  # by key, the bodies that were answered `held`

    def post(self, body: dict[str, Any], **headers: str) -> tuple[int, dict[str, Any]]:
        """Post one event and wait for its answer."""
        text = json.dumps(body)
        given = {"content-type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        status, answer = self.ask("POST", f"/v1/topics/{self._topic}/events", text, given)
        if answer.get("outcome") == "held":
            self.held.setdefault(str(body["id"]), []).append(text)
        return status, answer

    def ask(
        self,
        method: str,
        path: str,
        body: str = "",
        headers: dict[str, str] | None = None,
        place: str = "",
    ) -> tuple[int, dict[str, Any]]:
        """Ask the next gateway, or who listens at `place`. Raises OSError or HTTPException when
        it does not answer.
        """
        self._turn += 1
        place = place or self._places[self._turn % len(self._places)]
        connection = self._connections.pop(place, None) or HTTPConnection(place, timeout=90)
        try:
            connection.request(method, path, body.encode(), headers or {})
            response = connection.getresponse()
            answer = json.loads(response.read() or b"{}")
        except BaseException:
            connection.close()
            raise
        self._connections[place] = connection
        return response.status, answer

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def last_values(kafka: RunningBroker, topic: str) -> dict[str, str]:
    """The content that each key ends with in the log."""
    found = {}
    for one in kafka_log.read_log(kafka.bootstrap, topic):
        found[(one.key or b"").decode()] = (one.value or b"").decode()
    return found
