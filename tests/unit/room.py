"""An ingest with fakes around it."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b

from headgate.core.admission import Admission
from headgate.core.facts import Facts
from headgate.core.ids import EventIds
from headgate.core.outcome import Failure, Reason
from headgate.core.policy import PolicyTable, TopicPolicy
from headgate.core.route import Route
from headgate.core.scanning import Scanner
from headgate.core.suppression.protocol import Scope
from headgate.core.topic import TopicState
from headgate.pipeline.inbound import Inbound
from headgate.pipeline.ingest import Ingest, Limits, answer
from headgate.pipeline.routes import Routes
from headgate.pipeline.steps import Steps
from headgate.pipeline.ticket import Ticket
from unit.fakes import (
    NOW_MS,
    FakeAccounts,
    FakeLanes,
    FakeSuppression,
    FakeTopics,
    NoQuotas,
    policy,
    topic_state,
)

UNKNOWN = Failure(Reason.UNKNOWN, "no answer")
REFUSED = Failure(Reason.BROKER_REFUSED, "not allowed")
AWAY = Failure(Reason.KAFKA_UNAVAILABLE, "no broker", None, 1)
NO_REDIS = Failure(Reason.REDIS_UNAVAILABLE, "no Redis", None, 1)


def digest(value: bytes | None, content_type: bytes | None) -> bytes:
    return blake2b((value or b"") + b"|" + (content_type or b""), digest_size=16).digest()


class Room:
    """An ingest with everything around it. `orders` is plain, `deals` suppresses."""

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
        self.accounts, self.quotas = FakeAccounts(), NoQuotas()
        policies = [
            policy(key=("/id",), max_bytes=200),
            policy(pattern="deals", key=("/id",), suppress="raw", facts=bool(facts)),
            policy(pattern="clicks", keyless="spread", facts=bool(facts)),
        ]
        states = [topic_state(name, **changes) for name in ("orders", "deals", "clicks")]
        self.topics = FakeTopics(*states)
        scope = Scope("deals", b"\1" * 16, 3, b"f")

        def compile_route(chosen: TopicPolicy, state: TopicState) -> Route:
            scanner = scanner_for(chosen, state)
            if chosen.suppress == "off":
                return Route(chosen, state, 128, scanner=scanner)
            return Route(chosen, state, 128, digest, scope, scanner=scanner)

        self.ingest = Ingest(
            Routes(PolicyTable(policies), self.topics, compile_route),
            self.admission,
            self.quotas,
            self.accounts,
            EventIds(b"\1" * 6),
            Limits(50, 30_000),
            lambda: NOW_MS,
        )
        self.lanes = FakeLanes(self.ingest)
        self.suppression = FakeSuppression(self.ingest)
        self.ingest.connect(self.lanes, self.suppression, Steps(facts=facts))

    def post(self, topic: str, body: bytes, **headers: bytes) -> Ticket:
        """As a front does it: the bytes are taken before."""
        assert self.admission.take_bytes(len(body)) is None
        named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
        named.setdefault(b"content-type", b"application/json")
        return self.ingest.handle(Inbound(topic, "p", named, body, "req-1", 0.0))

    def run(self) -> None:
        """Let everything under way be published."""
        while self.suppression.queue:
            self.suppression.decide()
        for partition in list(self.lanes.queues):
            while self.lanes.queues[partition] or self.lanes.handed.get(partition):
                self.lanes.hand_over(partition, 100)
                self.lanes.acknowledge(partition)


def shown(ticket: Ticket) -> tuple[int, dict[str, object]]:
    assert ticket.done
    reply = answer(ticket)
    return reply.status, json.loads(reply.body)
