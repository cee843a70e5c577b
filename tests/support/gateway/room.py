"""A pipeline with fakes around it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from hashlib import blake2b

from headgate.audits.facts import Facts
from headgate.backends.base import Deliveries, Lanes, Suppression, Verdicts
from headgate.formats.json_text import KeyReader
from headgate.ingest.admission import Admission
from headgate.ingest.complete import ClockWatch
from headgate.ingest.gate import Compiler, Gate, Routes
from headgate.ingest.turn import EventIds
from headgate.kafka.producer import SingleRecordBatch
from headgate.model.outcome import Failure, Reason
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.publish import Ticket
from headgate.model.reply import reply_of
from headgate.model.route import Route, Scanner
from headgate.model.suppression import Scope
from headgate.model.topics import SimilarTopics, TopicState
from headgate.offload.helper_process import HelperProcess
from headgate.oversize.choose import Tools
from headgate.suppression.sharded import Unsuppressed
from headgate.wiring.pipeline import PipelineParts, build_pipeline
from support.doubles.kafka_log import MemoryLanes, MemoryTopics
from support.gateway.fakes import (
    NOW_MS,
    FakeLanes,
    FakeSuppression,
    FakeTopics,
    NoQuotas,
    policy,
    topic_state,
)
from support.gateway.meters import a_meter

UNKNOWN = Failure(Reason.UNKNOWN, "no answer")
REFUSED = Failure(Reason.BROKER_REFUSED, "not allowed")
AWAY = Failure(Reason.KAFKA_UNAVAILABLE, "no broker", retry_after_s=1)
NO_REDIS = Failure(Reason.REDIS_UNAVAILABLE, "no Redis", retry_after_s=1)


def digest(value: bytes | None, content_type: bytes | None) -> bytes:
    return blake2b((value or b"") + b"|" + (content_type or b""), digest_size=16).digest()


class Room:
    """A pipeline with everything around it. `orders` is plain, `deals` suppresses."""

    def __init__(
        self,
        max_events: int = 10_000,
        max_bytes: int = 10_000_000,
        facts: Facts | None = None,
        scanner_for: Callable[[TopicPolicy, TopicState], Scanner | None] = lambda *_: None,
        **changes: object,
    ) -> None:
        """facts: of `deals` and `clicks`, not of `orders`.  changes: of the topics' states."""
        self.admission = Admission(max_bytes, max_events)
        self.meter, self.quotas = a_meter(), NoQuotas()
        policies = [
            policy(key=("/id",), max_bytes=200),
            policy(pattern="deals", key=("/id",), suppress="raw", facts=bool(facts)),
            policy(pattern="clicks", keyless="spread", facts=bool(facts)),
        ]
        states = [topic_state(name, **changes) for name in ("orders", "deals", "clicks")]
        self.topics = FakeTopics(*states)
        self.scope = scope = Scope("deals", b"\1" * 16, 3, b"f")

        def compile_route(chosen: TopicPolicy, state: TopicState) -> Route:
            scanner = scanner_for(chosen, state)
            if chosen.suppress == "off":
                return Route(chosen, state, KeyReader.parse(chosen.key), 128, scanner=scanner)
            return Route(
                chosen, state, KeyReader.parse(chosen.key), 128, digest, scope, scanner=scanner
            )

        self.clock = ClockWatch(self.topics.get, lambda: 0.0)
        self.helper, ids = HelperProcess(), EventIds(b"\1" * 6)
        self._parts = PipelineParts(
            schedule=lambda call: call(),  # each request is a turn of its own
            gate=Gate(
                Routes(PolicyTable(policies), self.topics, compile_route),
                similar=SimilarTopics(lambda: list(self.topics.states), lambda: 0.0),
            ),
            admission=self.admission,
            spend_quota=self.quotas,
            ids=ids,
            batch_max_events=50,
            request_timeout_ms=30_000,
            clock_ms=lambda: NOW_MS,
            clock=self.clock,
            lanes=self.open_lanes,
            suppression=self.open_suppression,
            identities=None,
            helper=self.helper,
            tools=Tools(ids, None, self.helper, SingleRecordBatch, 1 << 20),
            meter=self.meter,
            facts=facts,
        )
        self.build()

    def build(self, **changes: object) -> None:
        """Put the pipeline together, with some other parts than usual."""
        built = build_pipeline(self._parts._replace(**changes))  # type: ignore[arg-type]
        self.pipeline, self.oversize = built.pipeline, built.oversize

    def open_lanes(self, deliveries: Deliveries) -> Lanes:
        """Make this room's lanes, as `PipelineParts.lanes`."""
        self.lanes = FakeLanes(deliveries)
        return self.lanes

    def open_suppression(self, verdicts: Verdicts) -> Suppression:
        """Make this room's suppression, as `PipelineParts.suppression`."""
        self.suppression = FakeSuppression(verdicts)
        return self.suppression

    def post(self, topic: str, body: bytes, **headers: bytes) -> Ticket:
        """As a front does it: the bytes are taken before."""
        assert self.admission.take_bytes("p", len(body)) is None
        named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
        named.setdefault(b"content-type", b"application/json")
        ticket = Ticket(topic, "p", "req-1", 0.0, named, body)
        self.pipeline.take(ticket)
        return ticket

    def run(self) -> None:
        """Let everything under way be published."""
        while self.suppression.queue:
            self.suppression.decide()
        for partition in list(self.lanes.queues):
            while self.lanes.queues[partition] or self.lanes.handed.get(partition):
                self.lanes.hand_over(partition, 100)
                self.lanes.acknowledge(partition)


class MemoryRoom:
    """A pipeline with lanes and topics in memory, without Redis. full: see `Gate`."""

    def __init__(
        self,
        topics: MemoryTopics,
        policies: PolicyTable,
        full: Callable[[str], Failure | None] = lambda held: None,
    ) -> None:
        self.quotas, self.meter = NoQuotas(), a_meter()
        self.gate = Gate(Routes(policies, topics, Compiler(128, "ns")), full)
        ids, helper = EventIds(b"\1" * 6), HelperProcess()
        parts = PipelineParts(
            schedule=lambda call: call(),  # each request is a turn of its own
            gate=self.gate,
            admission=Admission(1_000_000, 1000),
            spend_quota=self.quotas,
            ids=ids,
            batch_max_events=50,
            request_timeout_ms=30_000,
            clock_ms=lambda: NOW_MS,
            clock=ClockWatch(topics.get, lambda: 0.0),
            lanes=partial(self._open_lanes, topics),
            suppression=Unsuppressed,
            identities=None,
            helper=helper,
            tools=Tools(ids, None, helper, SingleRecordBatch, 1 << 20),
            meter=self.meter,
        )
        self.pipeline = build_pipeline(parts).pipeline

    def _open_lanes(self, topics: MemoryTopics, deliveries: Deliveries) -> MemoryLanes:
        self.lanes = MemoryLanes(topics, deliveries)
        return self.lanes

    def post(self, topic: str, body: bytes) -> Ticket:
        """One JSON document, from the producer `shop`."""
        headers = {b"content-type": b"application/json"}
        ticket = Ticket(topic, "shop", "r", 0.0, headers, body)
        self.pipeline.take(ticket)
        return ticket


def shown(ticket: Ticket) -> tuple[int, dict[str, object]]:
    assert ticket.done
    reply = reply_of(ticket)
    return reply.status, json.loads(reply.body)
