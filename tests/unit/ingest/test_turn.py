"""What arrives in one turn of the loop goes on together: in order, each once, whatever fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.formats.json_text import KeyReader
from headgate.ingest.turn import Turn
from headgate.model.outcome import Failure, Reason
from headgate.model.publish import Publish, Record, Stage
from headgate.model.route import Route
from support.gateway.fakes import common, policy, topic_state
from support.gateway.room import Room, shown

ROUTES = [
    Route(policy(), topic_state(name), KeyReader.parse(()), 128)
    for name in ("orders", "clicks", "deals")
]


def event(topic: str, number: int, route: Route | None = None) -> Publish:
    publish = Publish(Record(topic, 0, b"k", b"%d" % number, [], 0), 1, None, 0, None)
    publish.common = common(route=route or next(one for one in ROUTES if one.topic == topic))
    return publish


class World:
    """Turns end when the test says so; a batch with a value of `bad` raises halfway."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.batches: list[list[Publish]] = []
        self.refused: list[tuple[Publish, Failure]] = []
        self.bad: set[bytes] = set()
        self.turn = Turn(self.calls.append, self._take, lambda *one: self.refused.append(one))

    def _take(self, batch: list[Publish]) -> None:
        self.batches.append(batch)
        for publish in batch:
            if publish.record.value in self.bad:
                raise ZeroDivisionError
            publish.advance(Stage.LANE)

    def end_turn(self) -> None:
        calls = self.calls[:]
        self.calls.clear()
        for call in calls:
            call()


requests = st.lists(st.tuples(st.sampled_from(range(3)), st.integers(1, 4), st.booleans()))


@given(requests)
def test_each_topic_is_one_batch_of_a_turn_in_the_order_of_arrival(
    seen: list[tuple[int, int, bool]],
) -> None:
    world, number = World(), 0
    expected: dict[int, list[Publish]] = {}
    own: list[tuple[list[Publish], int]] = []
    for topic, count, ends_turn in [*seen, (0, 1, True)]:
        started = [event(ROUTES[topic].topic, number + one) for one in range(count)]
        number += count
        world.turn.add(ROUTES[topic], started)
        expected.setdefault(topic, []).extend(started)
        assert len(world.calls) == 1, "asked for once a turn"
        own.append((started, count))
        if ends_turn:
            world.end_turn()
            assert world.batches == list(expected.values())
            world.batches.clear()
            expected.clear()
    assert not world.calls
    assert all(len(one) == count for one, count in own), "a request's own list stays as it is"


def test_events_of_a_topic_keep_their_order_when_its_route_changes_within_a_turn() -> None:
    world, other = World(), Route(policy(), topic_state("orders"), KeyReader.parse(()), 128)
    for number, route in enumerate((ROUTES[0], other, ROUTES[0])):
        world.turn.add(route, [event("orders", number, route)])
    world.end_turn()
    assert [one.record.value for batch in world.batches for one in batch] == [b"0", b"1", b"2"]


def test_a_batch_that_fails_takes_no_other_along(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.bad = {b"1"}
    first = [event("orders", number) for number in range(3)]
    world.turn.add(ROUTES[0], first)
    world.turn.add(ROUTES[1], [event("clicks", 7)])
    world.end_turn()
    # What was handed on before the mistake has its own end; the others were not written.
    assert [(one, why.reason) for one, why in world.refused] == [
        (first[1], Reason.INTERNAL),
        (first[2], Reason.INTERNAL),
    ]
    assert len(world.batches) == 2
    assert "batch of events failed" in caplog.text
    world.turn.add(ROUTES[0], [event("orders", 9)])
    world.end_turn()
    assert len(world.batches) == 3


# ---- in the whole pipeline


def room_with_turns() -> tuple[Room, list[Callable[[], None]]]:
    room, calls = Room(), list[Callable[[], None]]()
    room.build(schedule=calls.append)
    return room, calls


def test_requests_of_one_turn_are_answered_each_for_itself() -> None:
    room, calls = room_with_turns()
    tickets = [room.post("deals", b'{"id":"k","n":%d}' % number) for number in (1, 1, 2)]
    tickets.append(room.post("clicks", b"{}"))
    assert not room.suppression.queue, "the turn has not ended"
    (end_turn,) = calls
    end_turn()
    room.run()
    assert [shown(one)[1]["outcome"] for one in tickets] == [
        "published",
        "published",  # the equal one takes the first one's outcome
        "published",
        "published",
    ]
    assert sum(map(len, room.lanes.logs.values())) == 3
    assert room.admission.events == 0


def test_a_deadline_before_the_turn_ends_leaves_nothing_behind() -> None:
    room, calls = room_with_turns()
    ticket = room.post("orders", b'{"id":"k"}')
    room.pipeline.expire(ticket)
    assert shown(ticket)[1]["reason"] == "kafka_unavailable"
    for call in calls:
        call()
    room.run()
    assert not any(room.lanes.logs.values())
    assert room.admission.events == 0


def test_a_mistake_of_ours_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room()

    def broken(_publish: Publish) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(room.lanes, "put", broken)
    ticket = room.post("orders", b'{"id":"k"}')
    status, document = shown(ticket)
    assert (status, document["reason"]) == (500, "internal")
    assert room.admission.events == 0
