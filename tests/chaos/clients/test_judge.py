"""The judge of a client's log sees what is wrong."""

from __future__ import annotations

from chaos.clients.judge import KEYS, Stand, lost, out_of_order, repeated
from headgate_client import Published
from support.clients.recording import Seen
from support.kafka.kafka_log import LogRecord


def test_the_checkers_see_what_is_wrong() -> None:
    stand = Stand([], "t")
    events = [stand.new(0, number) for number in (0, KEYS, 2 * KEYS)]
    values = [one.value for one in stand.sent]

    def log(*places: int) -> list[LogRecord]:
        return [
            LogRecord(0, offset, stand.sent[at].key.encode(), values[at], [], 0)
            for offset, at in enumerate(places)
        ]

    stand.ended(
        "t",
        [
            Published(topic="t", event_id=event.id, partition=0, offset=offset)
            for offset, event in enumerate(events)
        ],
    )
    assert lost(stand, log(0, 1, 2)) == out_of_order(stand, log(0, 1, 2)) == []
    assert lost(stand, log(0, 2, 1)) == stand.sent[1:]
    assert lost(stand, log(0, 1)) == stand.sent[2:]
    assert out_of_order(stand, log(0, 2, 1)) == [stand.sent[0].key]
    assert out_of_order(stand, log(0, 1, 0, 2)) == []
    assert repeated(stand, log(0, 1, 0)) == stand.sent[:1]
    name = stand.sent[0].event_id
    stand.record.add(iter([Seen(name, "no answer", False), Seen(name, "published", False)]))
    assert repeated(stand, log(0, 1, 0)) == []
    stand.ended("t", [Published(topic="t", event_id=events[0].id, partition=0, offset=0)])
    assert lost(stand, log(0, 1, 2)) == stand.sent[:1]
