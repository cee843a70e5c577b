"""Ingest on fakes: one outcome for each event, order kept, and the budget back to zero."""

import json
from hashlib import blake2b

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate.core.admission import Admission
from headgate.core.ids import EventIds
from headgate.core.outcome import Failure, Name, Outcome, Reason
from headgate.core.policy import PolicyTable
from headgate.core.publish import Publish, Stage
from headgate.core.route import Route
from headgate.core.suppression import Scope
from headgate.ingest import Inbound, Ingest, Limits, answer
from headgate.routes import Routes
from headgate.ticket import Ticket
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

    def __init__(self, max_events: int = 10_000, max_bytes: int = 10_000_000) -> None:
        self.admission = Admission(max_bytes, max_events)
        self.accounts, self.quotas = FakeAccounts(), NoQuotas()
        policies = [
            policy(key=("/id",), max_bytes=200),
            policy(pattern="deals", key=("/id",), suppress="raw"),
            policy(pattern="clicks", keyless="spread"),
        ]
        states = [topic_state(name) for name in ("orders", "deals", "clicks")]
        scope = Scope("deals", b"\1" * 16, 3, b"f")

        def compile_route(chosen, state):  # type: ignore[no-untyped-def]
            if chosen.suppress == "off":
                return Route(chosen, state, 128)
            return Route(chosen, state, 128, digest, scope)

        self.ingest = Ingest(
            Routes(PolicyTable(policies), FakeTopics(*states), compile_route),
            self.admission,
            self.quotas,
            self.accounts,
            EventIds(b"\1" * 6),
            Limits(50, 30_000),
            lambda: NOW_MS,
        )
        self.lanes = FakeLanes(self.ingest)
        self.suppression = FakeSuppression(self.ingest)
        self.ingest.connect(self.lanes, self.suppression)

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


# ---- one request


def test_a_published_event_is_answered_with_its_place() -> None:
    room = Room()
    ticket = room.post("orders", b'{"id":"k"}')
    assert not ticket.done
    assert (room.admission.bytes, room.admission.events) == (10, 1)
    room.run()
    status, document = shown(ticket)
    assert status == 201
    assert (document["outcome"], document["offset"], document["key"]) == ("published", 0, "k")
    assert (room.admission.bytes, room.admission.events) == (0, 0)
    (account,) = room.accounts.seen
    assert account[:2] == ("p", "orders")
    assert account[3] == [10]


def test_records_carry_the_gateways_headers() -> None:
    room = Room()
    room.post("orders", b'{"id":"k"}', headgate_event_id=b"e-1", traceparent=b"00-1")
    room.run()
    (log,) = room.lanes.logs.values()
    assert dict(log[0].record.headers) == {
        "hg-event-id": b"e-1", "hg-producer": b"p", "hg-received-at": b"%d" % NOW_MS,
        "traceparent": b"00-1", "content-type": b"application/json",
    }  # fmt: skip


def test_a_batch_with_bad_events_publishes_the_others_in_order() -> None:
    room = Room()
    lines = [b'{"id":"a"}', b"{", b'{"id":"a","n":2}', b"{}", b'{"id":"a","x":"%s"}' % (b"x" * 200)]
    ticket = room.post("orders", b"\n".join(lines), content_type=b"application/x-ndjson")
    room.run()
    status, document = shown(ticket)
    assert status == 207
    assert document["summary"] == {"published": 2, "rejected": 3}
    reasons = [entry.get("reason") for entry in document["outcomes"]]  # type: ignore[attr-defined]
    assert reasons == [None, "malformed", None, "missing_key", "too_large"]
    (log,) = room.lanes.logs.values()
    assert [publish.record.value for publish in log] == [lines[0], lines[2]]
    assert ticket.weighing == [(4, lines[4])]
    assert room.accounts.seen[0][3] == [len(line) if line != b"{" else 1 for line in lines]
    assert room.admission.events == 0


@pytest.mark.parametrize(
    ("topic", "body", "headers", "status", "reason"),
    [
        ("nowhere", b"{}", {}, 404, "unknown_topic"),
        ("orders", b"", {}, 400, "malformed"),
        ("orders", b"[1,", {}, 400, "malformed"),
        ("orders", b"[{}]", {"headgate_key": b"k"}, 400, "malformed"),
        ("orders", b"[]", {"headgate_event_id": b"k"}, 400, "malformed"),
        ("orders", b"[" + b"1," * 50 + b"1]", {}, 422, "too_many_events"),
        ("orders", b"{}", {"headgate_timestamp": b"x"}, 400, "malformed"),
    ],
)
def test_a_request_that_fails_as_a_whole(
    topic: str, body: bytes, headers: dict[str, bytes], status: int, reason: str
) -> None:
    room = Room()
    answered, document = shown(room.post(topic, body, **headers))
    assert (answered, document["reason"]) == (status, reason)
    assert (room.admission.bytes, room.admission.events) == (0, 0)
    (account,) = room.accounts.seen
    assert account[1] == ("other" if reason == "unknown_topic" else topic)
    assert len(account[2]) == len(account[3]) == 1


def test_an_empty_batch_is_done_at_once() -> None:
    room = Room()
    assert shown(room.post("orders", b"[]")) == (200, {"summary": {}, "outcomes": []})
    assert (room.admission.bytes, room.admission.events) == (0, 0)
    assert len(room.accounts.seen) == 1


def test_quota_and_budget_refuse_the_whole_request() -> None:
    room = Room(max_events=1)
    first = room.post("orders", b'{"id":"a"}')
    assert shown(room.post("orders", b'{"id":"b"}'))[0] == 503
    room.run()
    assert shown(first)[0] == 201
    room.quotas.failure = Failure(
        Reason.QUOTA_EXCEEDED, "used up", {"quota": "events", "limit_per_s": 1.0, "remaining": 0}, 1
    )
    assert shown(room.post("orders", b'{"id":"b"}'))[0] == 429
    assert (room.admission.bytes, room.admission.events) == (0, 0)


def test_a_lane_that_takes_nothing_refuses_at_once() -> None:
    room = Room()
    room.lanes.refusing = dict.fromkeys(range(3), AWAY)
    status, document = shown(room.post("orders", b'{"id":"a"}'))
    assert (status, document["reason"]) == (503, "kafka_unavailable")
    assert room.lanes.queues == {}
    assert room.admission.events == 0


def test_keyless_events_of_a_request_share_a_partition_and_requests_take_turns() -> None:
    room = Room()
    for _ in range(3):
        room.post("clicks", b"[1,2,3]")
    assert sorted(len(queue) for queue in room.lanes.queues.values()) == [3, 3, 3]


def test_a_finished_ticket_keeps_no_record_alive() -> None:
    """It may wait long behind an open one, for the deadline's sweep."""
    room = Room()
    ticket = room.post("orders", b'{"id":"a"}')
    room.run()
    assert ticket.publishes == []


# ---- suppression


def test_equal_content_is_unchanged_and_force_publishes_it() -> None:
    room = Room()
    room.post("deals", b'{"id":"k"}')
    room.run()
    again = room.post("deals", b'{"id":"k"}')
    room.run()
    assert shown(again)[0] == 200
    assert shown(again)[1]["offset"] == 0
    forced = room.post("deals", b'{"id":"k"}', headgate_force=b"true")
    room.run()
    assert (shown(forced)[0], shown(forced)[1]["offset"]) == (201, 1)


def test_followers_get_the_leaders_outcome_without_a_record() -> None:
    room = Room()
    tickets = [room.post("deals", b'{"id":"k"}') for _ in range(3)]
    room.run()
    documents = [shown(ticket)[1] for ticket in tickets]
    assert [document["outcome"] for document in documents] == ["published"] * 3
    assert [document["records"] for document in documents] == [1, 0, 0]
    assert sum(map(len, room.lanes.logs.values())) == 1


# ---- deadlines


def test_before_the_hand_over_it_is_certainly_not_written() -> None:
    room = Room()
    ticket = room.post("orders", b'{"id":"k"}')
    room.ingest.expire(ticket)
    status, document = shown(ticket)
    assert (status, document["reason"]) == (503, "kafka_unavailable")
    room.run()
    assert room.lanes.logs == {}
    assert room.admission.events == 0


def test_after_the_hand_over_it_is_unknown_and_the_budget_waits_for_its_end() -> None:
    room = Room()
    ticket = room.post("orders", b'{"id":"k"}')
    (partition,) = room.lanes.queues
    room.lanes.hand_over(partition, 1)
    room.ingest.expire(ticket)
    assert shown(ticket)[0] == 504
    assert room.admission.events == 1
    room.lanes.acknowledge(partition)
    assert room.admission.events == 0
    assert len(room.accounts.seen) == 1


@pytest.mark.parametrize("verdict", ["publish", "unchanged", "refused"])
def test_a_verdict_that_comes_after_the_deadline_changes_nothing(verdict: str) -> None:
    room = Room()
    room.post("deals", b'{"id":"k"}')
    room.run()
    late = room.post("deals", b'{"id":"k","v":2}' if verdict == "publish" else b'{"id":"k"}')
    other = room.post("orders", b'{"id":"k"}')
    room.ingest.expire(late)
    assert shown(late)[1]["reason"] == "kafka_unavailable"
    room.suppression.decide(NO_REDIS if verdict == "refused" else None)
    assert late.open_publishes == 0
    assert room.admission.events == 1
    room.run()
    assert shown(other)[0] == 201
    assert not any(room.suppression.under_way.values())
    assert (room.admission.bytes, room.admission.events) == (0, 0)
    assert len(room.accounts.seen) == 3


def test_a_follower_whose_time_is_up_leaves_its_leader() -> None:
    room = Room()
    leader, follower = (room.post("deals", b'{"id":"k"}') for _ in range(2))
    room.ingest.expire(follower)
    assert shown(follower)[1]["reason"] == "kafka_unavailable"
    room.run()
    assert shown(leader)[0] == 201
    assert follower.open_publishes == 0
    assert (room.admission.bytes, room.admission.events) == (0, 0)


def test_a_leader_whose_time_is_up_goes_on_for_its_followers() -> None:
    room = Room()
    leader, follower = (room.post("deals", b'{"id":"k"}') for _ in range(2))
    room.ingest.expire(leader)
    assert shown(leader)[0] == 504  # the record carries its id and may yet be written
    room.run()
    assert shown(follower)[0] == 201
    assert (room.admission.bytes, room.admission.events) == (0, 0)


async def test_draining_ends_with_the_last_event() -> None:
    room = Room()
    await room.ingest.drain()
    assert room.ingest.is_draining


# ---- everything at random

BODIES = [b'{"id":"%s","v":%d}' % (key, value) for key in (b"a", b"b", b"c") for value in (1, 2)]
BAD = [b"{", b"{}", b'{"id":1.5}', b'{"id":"a","x":"%s"}' % (b"x" * 300)]
partitions = st.integers(0, 2)


class Storm(RuleBasedStateMachine):
    """Any order of requests, verdicts, hand-overs, ends and deadlines."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Room(max_events=40, max_bytes=4_000)
        self.tickets: list[Ticket] = []
        self.events: dict[int, int] = {}
        self.first_answer: dict[int, list[Outcome]] = {}
        self.arrived: list[Publish] = []

    @rule(
        topic=st.sampled_from(["deals", "orders", "deals", "clicks", "deals", "nowhere"]),
        texts=st.lists(st.sampled_from(BODIES + BODIES[:2] + BAD), min_size=1, max_size=6),
        single=st.booleans(),
        force=st.sampled_from([False, False, False, True]),
    )
    def post(self, topic: str, texts: list[bytes], single: bool, force: bool) -> None:
        if single and texts:
            body, kind = texts[0], b"application/json"
        else:
            body, kind = b"\n".join([b" ", *texts]), b"application/x-ndjson"
        if self.room.admission.take_bytes(len(body)) is not None:
            return
        headers = {b"content-type": kind, b"headgate-force": b"true" if force else b"false"}
        ticket = self.room.ingest.handle(Inbound(topic, "p", headers, body, "r", 0.0))
        self.tickets.append(ticket)
        self.events[id(ticket)] = len(ticket.outcomes)
        self.arrived.extend(ticket.publishes)

    @rule(refuse=st.booleans(), count=st.integers(1, 5))
    def decide(self, refuse: bool, count: int) -> None:
        for _ in range(count):
            self.room.suppression.decide(NO_REDIS if refuse else None)

    @rule(partition=partitions, most=st.integers(1, 5))
    def hand_over(self, partition: int, most: int) -> None:
        self.room.lanes.hand_over(partition, most)

    @rule(partition=partitions)
    def acknowledge(self, partition: int) -> None:
        self.room.lanes.acknowledge(partition)

    @rule(partition=partitions, failure=st.sampled_from([UNKNOWN, REFUSED, AWAY]))
    def fail(self, partition: int, failure: Failure) -> None:
        self.room.lanes.fail(partition, failure)

    @rule(partition=partitions, refusing=st.booleans())
    def close_lane(self, partition: int, refusing: bool) -> None:
        self.room.lanes.refusing = {partition: AWAY} if refusing else {}

    @rule(which=st.integers(0, 5))
    def expire(self, which: int) -> None:
        open_ones = [ticket for ticket in reversed(self.tickets) if not ticket.done]
        if which < len(open_ones):
            self.room.ingest.expire(open_ones[which])
            assert open_ones[which].done

    @invariant()
    def the_budget_is_what_is_under_way(self) -> None:
        held = [ticket for ticket in self.tickets if not ticket.done or ticket.open_publishes]
        assert all(ticket.open_publishes >= 0 for ticket in self.tickets)
        assert self.room.admission.events == sum(self.events[id(ticket)] for ticket in held)
        assert self.room.admission.bytes == sum(ticket.body_bytes for ticket in held)

    @invariant()
    def an_answer_stays_as_it_was_given(self) -> None:
        for ticket in self.tickets:
            if ticket.done:
                first = self.first_answer.setdefault(id(ticket), ticket.answered())
                assert first == ticket.answered()
                assert len(first) == len(ticket.outcomes)

    @invariant()
    def each_ended_request_is_accounted_once(self) -> None:
        assert len(self.room.accounts.seen) == sum(ticket.done for ticket in self.tickets)

    def teardown(self) -> None:
        self.room.lanes.refusing = {}
        self.room.run()
        for partition in list(self.room.lanes.handed):
            self.room.lanes.acknowledge(partition)
        self.room.run()
        assert all(ticket.done and ticket.open_publishes == 0 for ticket in self.tickets)
        assert (self.room.admission.bytes, self.room.admission.events) == (0, 0)
        self.the_budget_is_what_is_under_way()
        self.an_answer_stays_as_it_was_given()
        self.each_ended_request_is_accounted_once()
        assert not any(self.room.suppression.under_way.values())  # each reservation has an end
        self.what_was_answered_is_true()
        self.order_is_kept()

    def what_was_answered_is_true(self) -> None:
        logs = self.room.lanes.logs
        logged = {id(publish) for log in logs.values() for publish in log}
        assert sum(map(len, logs.values())) == len(logged)
        for publish in self.arrived:
            outcome = publish.ticket.outcomes[publish.index]
            if publish.dropped or outcome.name is Name.REJECTED:
                assert id(publish) not in logged
            elif outcome.name in (Name.PUBLISHED, Name.UNCHANGED):
                found = logs[outcome.partition][outcome.offset].record
                assert (found.key, found.value) == (publish.record.key, publish.record.value)
                assert outcome.records == (id(publish) in logged)
            assert publish.stage is Stage.ENDED or publish.dropped

    def order_is_kept(self) -> None:
        places = {id(publish): place for place, publish in enumerate(self.arrived)}
        for log in self.room.lanes.logs.values():
            by_key: dict[tuple[str, bytes | None], list[int]] = {}
            for publish in log:
                key = (publish.record.topic, publish.record.key)
                by_key.setdefault(key, []).append(places[id(publish)])
            assert all(order == sorted(order) for order in by_key.values())


Storm.TestCase.settings = settings(
    max_examples=120, stateful_step_count=50, deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
TestStorm = Storm.TestCase
