"""One run of incident A on real Kafka, Redis and a gateway.

What is counted is what an independent client reads from the topic, read_committed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from http.client import HTTPConnection
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from headgate.devstack.ports import LOOPBACK
from headgate.model.internal_topics import held_topic
from incident_a.deal import Deal
from incident_a.plan import Case, Result, Scale, Setting, config_text
from support.gateway.coalescing_gateway import run_init
from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker

GROUP = "headgate.held"
PARTITIONS = 12
TOPIC_CONFIGS = {"segment.bytes": "67108864"}  # what is deleted goes soon
_DECIDED_S = 60.0


def prepare(
    kafka: RunningBroker, redis_url: str, settings: Sequence[Setting], directory: Path
) -> str:
    """Create the topics, and with `headgate init` the held ones; return the configuration."""
    for one in settings:
        kafka.create_topic(one.topic, PARTITIONS, TOPIC_CONFIGS)
    text = config_text(kafka.bootstrap, redis_url, settings)
    config = directory / "init.toml"
    config.write_text(text)
    done = run_init(config)
    assert done.returncode == 0, done.stdout + done.stderr
    return text


class _Client:
    """One sequential client: it posts when the answer before is there, to the gateways in turn.

    burst: the id that it gives to all that it posts from now on.
    """

    def __init__(self, gateways: Sequence[Gateway], topic: str) -> None:
        self._connections = [HTTPConnection(LOOPBACK, one.port, timeout=60) for one in gateways]
        self._turns = cycle(self._connections)
        self._topic = topic
        self.burst: str | None = None

    def post(self, text: bytes) -> tuple[str, str]:
        """Return the outcome and the event's id ("" if there is none)."""
        answer = self._ask(f"/v1/topics/{self._topic}/events", text)
        return answer["outcome"], answer.get("event_id", "")

    def end_burst(self) -> None:
        """Say that nothing more belongs to the burst."""
        if self.burst is not None:
            self._ask(f"/v1/bursts/{self.burst}/commit?topic={self._topic}", b"")

    def _ask(self, path: str, text: bytes) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Headgate-Producer": "management"}
        if self.burst is not None:
            headers["Headgate-Burst"] = self.burst
        end = time.monotonic() + _DECIDED_S
        while True:
            connection = next(self._turns)
            connection.request("POST", path, text, headers)
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
            if response.status < 300:
                return answer
            # Certainly not written: a worker that has just started does not know Kafka yet.
            assert response.status == 503, answer
            assert time.monotonic() < end, answer
            time.sleep(0.1)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class _Burst(NamedTuple):
    ids: list[str]
    outcomes: dict[str, int]
    seconds: float
    gaps: int
    last: bytes


def run(
    case: Case,
    scale: Scale,
    kafka: RunningBroker,
    gateways: Sequence[Gateway],
    say: Callable[[str], None] = lambda line: None,
) -> Result:
    """Publish the deal as it was before, then the burst; wait until all of it is decided."""
    topic, deal = case.setting.topic, Deal(scale, case.key, changes=case.changes)
    client = _Client(gateways, topic)
    try:
        client.post(deal.before())
        answered = time.monotonic()
        _wait_until_decided(kafka, case.setting)
        # The key is quiet when the burst begins; also what the record settles is settled.
        time.sleep(max(0.0, answered + 1.2 * scale.quiet_ms / 1000 - time.monotonic()))
        starts = kafka_log.end_offsets(kafka.bootstrap, topic)
        client.burst = case.key if case.setting.is_burst else None
        burst = _post_all(client, deal, case, scale, say)
        client.end_burst()
    finally:
        client.close()
    _wait_until_decided(kafka, case.setting)
    result = _read(case, kafka, starts, deal, burst)
    for name in (topic, held_topic(topic))[: 1 + case.setting.coalesces]:
        kafka_log.delete_records(kafka.bootstrap, name)  # 800 MB each
    return result


def _post_all(
    client: _Client, deal: Deal, case: Case, scale: Scale, say: Callable[[str], None]
) -> _Burst:
    ids, outcomes, gaps, text = [], dict[str, int](), 0, b""
    began = told = said = time.monotonic()
    for number, text in enumerate(deal.saves()):
        if case.rate:
            time.sleep(max(0.0, began + number / case.rate - time.monotonic()))
        outcome, event_id = client.post(text)
        ids.append(event_id)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        now = time.monotonic()
        gaps += now - told > scale.quiet_ms / 2000
        told = now
        if now - said > 5:
            said = now
            say(f"{case.title}: {number + 1:,} of {scale.saves:,} saves")
    return _Burst(ids, outcomes, time.monotonic() - began, gaps, text)


def _wait_until_decided(kafka: RunningBroker, setting: Setting) -> None:
    """Until the coalescer's group has committed the end of the held topic."""
    if not setting.coalesces:
        return
    held, end = held_topic(setting.topic), time.monotonic() + _DECIDED_S
    while True:
        ends = kafka_log.end_offsets(kafka.bootstrap, held)
        reached = kafka_log.group_offsets(kafka.bootstrap, GROUP, held)
        if all(reached[partition] == offset for partition, offset in ends.items() if offset):
            return
        assert time.monotonic() < end, f"{held}: at {reached} of {ends} after {_DECIDED_S} s"
        time.sleep(0.1)


def _read(
    case: Case, kafka: RunningBroker, starts: dict[int, int], deal: Deal, burst: _Burst
) -> Result:
    numbers = {event_id: number for number, event_id in enumerate(burst.ids)}
    log, size, last = list[int](), 0, deal.before()
    for record in kafka_log.read_from(kafka.bootstrap, case.setting.topic, starts):
        if record.key == case.key.encode():
            log.append(numbers[(record.header("hg-event-id") or b"").decode()])
            last = record.value or b""
            size += len(last)
    saves = len(burst.ids)
    return Result(
        case, saves, burst.seconds, burst.gaps, burst.outcomes, log, size, last == burst.last
    )
