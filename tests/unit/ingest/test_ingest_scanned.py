"""Reading a body at once changes nothing: the same room with a scanner and without.

The scanner here is put together from the ordinary way's own pieces, so that this runs without the
compiled one too; `test_scanner.py` runs the same cases over both.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.outcome import Failure, Reason
from headgate.model.policy import TopicPolicy
from headgate.model.publish import Ticket
from headgate.model.route import Scanner
from headgate.model.topics import TopicState
from support.gateway.meters import counted, sizes
from support.gateway.plain_scanner import JSON, NDJSON, PlainScanner
from support.gateway.room import AWAY, Room, digest, shown

QUOTA = Failure(
    Reason.QUOTA_EXCEEDED,
    "used up",
    {"quota": "events", "limit_per_s": 1.0, "remaining": 0},
    retry_after_s=1,
)


def slow(policy: TopicPolicy, state: TopicState) -> Scanner | None:
    if not policy.key and policy.keyless != "spread":
        return None
    return PlainScanner(policy, state, 128, None if policy.suppress == "off" else digest)


DOCUMENTS = st.one_of(
    st.fixed_dictionaries(
        {"id": st.integers(0, 5) | st.sampled_from(["a", "b", "é"]), "text": st.text(max_size=9)}
    ).map(lambda found: json.dumps(found, ensure_ascii=False).encode()),
    st.sampled_from(
        [b"{", b"[1]", b"1", b'{"id":""}', b'{"id":"x","id":"y"}', b'{"id":1.5}', b' {"id":7 } ',
         b'{"id":"\\u00e9"}', b'{"id":"big","text":"' + b"x" * 300 + b'"}', b'{"id":"\xff"}', b""]
    ),
)  # fmt: skip
BODIES = st.one_of(
    st.tuples(st.just(NDJSON), st.lists(DOCUMENTS, max_size=6).map(b"\n".join)),
    st.tuples(st.just(JSON), st.lists(DOCUMENTS, max_size=6).map(lambda d: b"[%b]" % b",".join(d))),
    st.tuples(st.just(JSON), DOCUMENTS),
)
HEADERS = st.sampled_from(
    [{}, {}, {"headgate_force": b"1"}, {"headgate_key": b"k"}, {"headgate_batch": b"false"},
     {"traceparent": b"00-1"}, {"headgate_header_x": b"y"}, {"headgate_timestamp": b"5"},
     {"prefer": b"return=minimal"}, {"headgate_tombstone": b"1"}, {"ce_specversion": b"1.0"},
     {"headgate_event_id": b"e-1"}, {"headgate_batch": b"0"}, {"headgate_batch": b"yes"},
     {"headgate_force": b"on"}, {"headgate_tombstone": b""}]
)  # fmt: skip
REQUESTS = st.lists(
    st.tuples(st.sampled_from(["orders", "deals", "clicks"]), BODIES, HEADERS), max_size=5
)


@pytest.mark.parametrize("max_message_bytes", [1_048_588, 1_550])
@given(refusing=st.sets(st.integers(0, 2), max_size=1), requests=REQUESTS)
def test_a_room_with_a_scanner_does_the_same(
    max_message_bytes: int,
    refusing: set[int],
    requests: list[tuple[str, tuple[bytes, bytes], dict[str, bytes]]],
) -> None:
    rooms = [
        Room(5, max_message_bytes=max_message_bytes, scanner_for=scanner_for)
        for scanner_for in (lambda *_: None, slow)
    ]
    for room in rooms:
        room.lanes.refusing = dict.fromkeys(refusing, AWAY)
    assert done(rooms[0], requests) == done(rooms[1], requests)


def done(room: Room, requests: list[tuple[str, tuple[bytes, bytes], dict[str, bytes]]]) -> object:
    """Everything that can be told from outside of what became of the requests."""
    tickets: list[Ticket] = []
    for topic, (content_type, body), headers in requests:
        tickets.append(room.post(topic, body, content_type=content_type, **headers))
        if len(tickets) % 3 == 0:
            room.run()
    room.run()
    logs = {
        partition: [
            (one.topic, one.partition, one.key, one.value, one.headers, one.timestamp_ms)
            for one in (publish.record for publish in log)
        ]
        for partition, log in room.lanes.logs.items()
    }
    ended = [(shown(ticket), ticket.sizes, ticket.weighing) for ticket in tickets]
    figures = (counted(room.meter, "events"), sizes(room.meter))
    return ended, logs, figures, (room.admission.bytes, room.admission.events)


def test_the_scanner_is_asked_at_all() -> None:
    before = PlainScanner.accepted
    room = Room(scanner_for=slow)
    for topic in ("orders", "deals", "clicks"):
        room.post(topic, b'{"id":1}\n{"id":2}\n', content_type=NDJSON)
        room.post(topic, b'[{"id":1}]')
        room.post(topic, b'{"id":1}')
    assert PlainScanner.accepted == before + 9


@pytest.mark.parametrize(("max_events", "status"), [(1, 503), (100, 429)])
def test_what_is_refused_gives_its_budget_back(max_events: int, status: int) -> None:
    room = Room(max_events=max_events, scanner_for=slow)
    first = room.post("orders", b'{"id":1}')
    if max_events > 1:
        room.quotas.failure = QUOTA
    refused = room.post("orders", b'{"id":1}\n{"id":2}\n', content_type=NDJSON)
    assert shown(refused)[0] == status
    room.run()
    assert first.done
    assert (room.admission.bytes, room.admission.events) == (0, 0)
