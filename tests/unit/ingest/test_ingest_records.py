"""What is on a record when it goes to its lane: headers and id, given as late as that."""

import pytest

from support.gateway.fakes import NOW_MS
from support.gateway.room import Room, shown


def written(room: Room) -> list[list[tuple[str, bytes]]]:
    """The headers of all records in the log, once everything was published."""
    room.run()
    return [publish.record.headers for log in room.lanes.logs.values() for publish in log]


def test_records_carry_the_gateways_headers() -> None:
    room = Room()
    room.post("orders", b'{"id":"k"}', headgate_event_id=b"e-1", traceparent=b"00-1")
    assert written(room) == [[
        ("content-type", b"application/json"), ("hg-event-id", b"e-1"), ("hg-producer", b"p"),
        ("hg-received-at", b"%d" % NOW_MS), ("traceparent", b"00-1"),
    ]]  # fmt: skip


def test_a_cloudevents_record_has_its_attributes_and_its_own_id_too() -> None:
    room = Room()
    room.post(
        "deals", b'{"id":"k"}', ce_specversion=b"1.0", ce_id=b"7", ce_source=b"/s", ce_type=b"t",
        headgate_header_tenant=b"acme", headgate_header_hg_producer=b"forged",
    )  # fmt: skip
    (headers,) = written(room)
    assert headers[0] == ("content-type", b"application/json")
    assert sorted(headers[1:]) == [
        ("ce_id", b"7"), ("ce_source", b"/s"), ("ce_specversion", b"1.0"), ("ce_type", b"t"),
        ("hg-event-id", b"7"), ("hg-producer", b"p"), ("hg-received-at", b"%d" % NOW_MS),
        ("tenant", b"acme"),
    ]  # fmt: skip


@pytest.mark.parametrize("topic", ["orders", "deals"])
def test_each_record_of_a_batch_has_its_headers_once_and_an_id_of_its_own(topic: str) -> None:
    room = Room()
    for _ in range(2):
        ticket = room.post(topic, b'[{"id":"a"},{"id":"a","v":2},{"id":"b"}]')
        room.run()
    found = written(room)
    ids = [dict(headers)["hg-event-id"] for headers in found]
    assert len(set(ids)) == len(found) == (6 if topic == "orders" else 5)
    for headers in found:
        assert [name for name, _ in headers] == [
            "content-type", "hg-event-id", "hg-producer", "hg-received-at",
        ]  # fmt: skip
    shown_ids = [
        entry["event_id"] for entry in shown(ticket)[1]["outcomes"]  # type: ignore[attr-defined]
        if entry["outcome"] == "published"
    ]  # fmt: skip
    assert shown_ids
    assert {one.encode() for one in shown_ids} <= set(ids)


def test_an_unchanged_event_has_the_id_that_its_producer_gave_or_none() -> None:
    room = Room()
    first = room.post("deals", b'{"id":"k"}')
    room.run()
    again, named = (
        room.post("deals", b'{"id":"k"}', **headers)
        for headers in ({}, {"headgate_event_id": b"e"})
    )
    room.run()
    assert [shown(ticket)[1]["outcome"] for ticket in (again, named)] == ["unchanged"] * 2
    assert [shown(ticket)[1]["event_id"] for ticket in (again, named)] == [None, "e"]
    assert [dict(headers)["hg-event-id"].decode() for headers in written(room)] == [
        shown(first)[1]["event_id"]
    ]


def test_the_content_type_is_part_of_the_content() -> None:
    room = Room()
    for content_type, status in (
        (b"application/json", 201), (b"application/json; x=1", 200), (b"application/x+json", 201),
        (b"application/x+json", 200), (b"application/json", 201),
    ):  # fmt: skip
        ticket = room.post("deals", b'{"id":"k"}', content_type=content_type)
        room.run()
        assert shown(ticket)[0] == status
