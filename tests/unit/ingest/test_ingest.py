"""Ingest on fakes: what becomes of one request or a few."""

from collections.abc import Callable

import pytest

from headgate.formats.json_text import KeyReader
from headgate.ingest.gate import Gate, Routes
from headgate.model.outcome import TRAITS, Failure, Reason
from headgate.model.oversize import StoredBlob
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.publish import Publish, RawEvent, Streamed, Ticket
from headgate.model.route import Route
from headgate.model.suppression import Scope
from headgate.model.topics import TopicState
from support.gateway.fakes import policy, topic_state
from support.gateway.meters import counted, sizes
from support.gateway.room import AWAY, NO_REDIS, Room, digest, shown

NDJSON = b"application/x-ndjson"

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
    assert counted(room.meter, "events") == {("p", "orders", "published", ""): 1}
    assert sizes(room.meter) == {("p", "orders"): 10}


@pytest.mark.parametrize("reason", [Reason.QUOTA_EXCEEDED, Reason.OVERLOADED, Reason.DRAINING])
def test_each_event_of_a_refused_batch_is_counted(reason: Reason) -> None:
    """Shares of rejected events, such as the alert on a producer's, depend on it."""
    room = Room()
    if reason is Reason.QUOTA_EXCEEDED:
        room.build(spend_quota=lambda *_: Failure(reason, "used up"))
    elif reason is Reason.OVERLOADED:
        room.admission.take_events("other", room.admission.max_events)
    else:
        room.admission.close()
    ticket = room.post("orders", b'{"id":"a"}\n{"id":"b"}\n{"id":"c"}', content_type=NDJSON)
    status, document = shown(ticket)
    assert document["reason"] == reason.value
    assert (status, len(ticket.outcomes)) == (TRAITS[reason].status, 1)
    assert counted(room.meter, "events") == {("p", "orders", "rejected", reason.value): 3}
    assert sizes(room.meter) == {("p", "orders"): 30}


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
    assert ticket.sizes == [len(line) if line != b"{" else 1 for line in lines]
    assert sizes(room.meter) == {("p", "orders"): sum(ticket.sizes)}
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
        ("orders", b"{}", {"content_type": b"application/vnd.headgate.batch+json"}, 400,
         "malformed"),
    ],
)  # fmt: skip
def test_a_request_that_fails_as_a_whole(
    topic: str, body: bytes, headers: dict[str, bytes], status: int, reason: str
) -> None:
    room = Room()
    answered, document = shown(room.post(topic, body, **headers))
    assert (answered, document["reason"]) == (status, reason)
    assert (room.admission.bytes, room.admission.events) == (0, 0)
    assert counted(room.meter, "events") == {("p", topic, "rejected", reason): 1}


@pytest.mark.parametrize("others", [0, 1, 2, 5])
def test_keyless_requests_take_turns_whatever_else_is_posted(others: int) -> None:
    room = Room()
    for number in range(6):
        if number == 3:  # metadata are read again, and the route is recreated
            room.topics.states["clicks"] = topic_state("clicks")
        for _ in range(others):
            room.post("orders", b'{"id":"a"}')
        room.post("clicks", b'[{"n":1},{"n":2}]')
    room.run()
    clicks = {
        partition: [publish.record for publish in log if publish.record.topic == "clicks"]
        for partition, log in room.lanes.logs.items()
    }
    assert {partition: len(records) for partition, records in clicks.items()} == {0: 4, 1: 4, 2: 4}


def test_an_empty_batch_is_done_at_once() -> None:
    room = Room()
    assert shown(room.post("orders", b"[]")) == (200, {"summary": {}, "outcomes": []})
    assert (room.admission.bytes, room.admission.events) == (0, 0)
    assert counted(room.meter, "events") == {}


def test_quota_and_budget_refuse_the_whole_request() -> None:
    room = Room(max_events=1)
    first = room.post("orders", b'{"id":"a"}')
    assert shown(room.post("orders", b'{"id":"b"}'))[0] == 503
    room.run()
    assert shown(first)[0] == 201
    room.quotas.failure = Failure(
        Reason.QUOTA_EXCEEDED,
        "used up",
        {"quota": "events", "limit_per_s": 1.0, "remaining": 0},
        retry_after_s=1,
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


def test_who_waits_is_told_once_when_the_last_event_has_ended() -> None:
    room, told = Room(), list[Ticket]()
    ticket = room.post("orders", b'[{"id":"a"},{},{"id":"b"},{"id":"c"}]')
    ticket.waiter = told.append
    for partition in list(room.lanes.queues)[1:]:
        room.lanes.hand_over(partition, 9)
        room.lanes.acknowledge(partition)
    assert told == []
    room.run()
    assert told == [ticket]
    late = room.post("orders", b'[{"id":"a"},{"id":"b"}]')
    late.waiter = told.append
    for partition in list(room.lanes.queues):
        room.lanes.hand_over(partition, 9)
    room.pipeline.expire(late)
    assert told == [ticket, late]
    room.run()
    assert told == [ticket, late]


@pytest.mark.parametrize("part", ["quotas", "topics"])
def test_a_bug_of_ours_does_not_eat_the_budget(part: str) -> None:
    room = Room()

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    if part == "quotas":
        room.build(spend_quota=broken)
    else:
        room.topics.get = broken  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        room.post("orders", b'{"id":"a"}')
    assert (room.admission.bytes, room.admission.events) == (0, 0)


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
    room.pipeline.expire(ticket)
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
    room.pipeline.expire(ticket)
    assert shown(ticket)[0] == 504
    assert room.admission.events == 1
    room.lanes.acknowledge(partition)
    assert room.admission.events == 0
    assert sum(counted(room.meter, "events").values()) == 1


@pytest.mark.parametrize("verdict", ["publish", "unchanged", "refused"])
def test_a_verdict_that_comes_after_the_deadline_changes_nothing(verdict: str) -> None:
    room = Room()
    room.post("deals", b'{"id":"k"}')
    room.run()
    late = room.post("deals", b'{"id":"k","v":2}' if verdict == "publish" else b'{"id":"k"}')
    other = room.post("orders", b'{"id":"k"}')
    room.pipeline.expire(late)
    assert shown(late)[1]["reason"] == "redis_unavailable"  # it has waited for its verdict
    room.suppression.decide(NO_REDIS if verdict == "refused" else None)
    assert late.open_publishes == 0
    assert room.admission.events == 1
    room.run()
    assert shown(other)[0] == 201
    assert not any(room.suppression.in_flight.values())
    assert (room.admission.bytes, room.admission.events) == (0, 0)
    assert sum(counted(room.meter, "events").values()) == 3


def test_a_follower_whose_time_is_up_leaves_its_leader() -> None:
    room = Room()
    leader, follower = (room.post("deals", b'{"id":"k"}') for _ in range(2))
    room.pipeline.expire(follower)
    assert shown(follower)[1]["reason"] == "redis_unavailable"
    room.run()
    assert shown(leader)[0] == 201
    assert follower.open_publishes == 0
    assert (room.admission.bytes, room.admission.events) == (0, 0)


def test_a_leader_whose_time_is_up_goes_on_for_its_followers() -> None:
    room = Room()
    leader, follower = (room.post("deals", b'{"id":"k"}') for _ in range(2))
    room.pipeline.expire(leader)
    assert shown(leader)[0] == 504  # the record carries its id and may yet be written
    room.run()
    assert shown(follower)[0] == 201
    assert (room.admission.bytes, room.admission.events) == (0, 0)


async def test_draining_ends_with_the_last_event() -> None:
    room = Room()
    await room.pipeline.drain()
    assert room.admission.is_closed


def test_what_waited_for_its_id_is_reserved_where_its_topic_is_now() -> None:
    room, scopes = Room(), [Scope("deals", bytes([number]) * 16, 3, b"f") for number in (1, 2)]
    waiting: list[Callable[[], None]] = []

    class Identity:
        def claim(
            self,
            ticket: Ticket,
            route: Route,
            started: list[Publish],
            go_on: Callable[[list[Publish]], None],
        ) -> None:
            waiting.append(lambda: go_on(started))

    def compile_route(chosen: TopicPolicy, state: TopicState) -> Route:
        scope = next(one for one in scopes if one.topic_id == state.topic_id)
        if scope is scopes[1]:
            scopes[0].successor = scope  # as suppression does in `scope_changed`
        return Route(chosen, state, KeyReader.parse(chosen.key), 128, digest, scope)

    chosen = policy(pattern="deals", key=("/id",), suppress="raw", dedupe_ttl_s=60)
    states = [topic_state("deals")._replace(topic_id=one.topic_id) for one in scopes]
    room.topics.states["deals"] = states[0]
    routes = Routes(PolicyTable([chosen]), room.topics, compile_route)
    room.build(gate=Gate(routes), identities=Identity())
    room.post("deals", b'{"id":"k"}')
    room.topics.states["deals"] = states[1]  # it is recreated while Redis is asked
    routes.prepare(["deals"])
    waiting[0]()
    asked = [publish.reserved.scope.latest() for publish in room.suppression.queue]
    assert asked == [scopes[1]]


def test_a_follower_of_what_waits_for_kafka_does_not_blame_redis() -> None:
    room = Room()
    _leader, follower = (room.post("deals", b'{"id":"k"}') for _ in range(2))
    room.suppression.decide()  # the leader is in its lane
    room.pipeline.expire(follower)
    assert shown(follower)[1]["reason"] == "kafka_unavailable"


def test_a_stored_body_whose_topic_lost_its_strategies_keeps_no_budget() -> None:
    """A reload took the topic's strategies away while the body was streamed to the store."""
    room = Room()
    value = Streamed(RawEvent(b""), StoredBlob("file:///b/1", 9_000, "1" * 64))
    ticket = Ticket("orders", "p", "req-1", 0.0, streamed=value)
    room.pipeline.take(ticket)
    failure = ticket.answered()[0].failure
    assert failure is not None
    assert failure.reason is Reason.TOO_LARGE
    assert (room.admission.bytes, room.admission.events) == (0, 0)
