"""What the Python client makes of events, and what it refuses before anything is sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest
from cloudevents.v1.http import CloudEvent as SdkEvent
from hypothesis import given
from hypothesis import strategies as st

from headgate_client import TOMBSTONE, CloudEvent, Event, RawJson
from headgate_client.core.encode import (
    Part,
    as_event,
    body_of,
    check_topic,
    dumps,
    encode_alone,
    encode_part,
)
from headgate_client.core.ids import uuid7
from headgate_client.errors import InvalidEventError

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abé", max_size=2), inner),
    max_leaves=5,
)  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)

CYCLE: list[object] = []
CYCLE.append(CYCLE)


def part(event: object) -> Part:
    return encode_part(as_event(event), dumps, None)


def alone(event: object) -> Part:
    return encode_alone(as_event(event), dumps, None)


def member(event: object) -> Any:
    return json.loads(part(event).text)


def headers(event: object) -> dict[str, str]:
    return dict(body_of([alone(event)]).headers)


@given(JSON_VALUES.filter(lambda value: value is not None), TEXT)
def test_values_and_keys_of_any_script_are_kept(value: object, key: str) -> None:
    found = member(Event(value=value, key=key))
    assert (found["value"], found["key"]) == (value, key)
    single = alone(Event(value=value, key=key))
    assert json.loads(single.text) == value
    sent = dict(single.headers)
    assert unquote(sent["Headgate-Key*"].removeprefix("UTF-8''")) == key
    assert all(one.isascii() and one.isprintable() for one in sent.values())
    assert single.lane == part(Event(value=value, key=key)).lane == key.encode()


def test_bytes_tombstones_and_ready_json_have_their_members() -> None:
    assert member(Event(value=b"\x00\xff", key=b"\xff")) == {
        "key_base64": "/w==",
        "value_base64": "AP8=",
        "headers": {"content-type": "application/octet-stream"},
    }
    assert member(Event(value=TOMBSTONE, key="k")) == {"key": "k", "tombstone": True}
    for raw in (RawJson(b'{"n": 1.10}'), RawJson('{"n": 1.10}')):
        assert part(raw).text == b'{"value":{"n": 1.10}}'
        assert alone(raw).text == b'{"n": 1.10}'
    assert member(
        Event(value=1, id="é", headers={"trace": "x"}, timestamp=5, content_type="a/b")
    ) == {
        "value": 1,
        "id": "é",
        "headers": {"trace": "x", "content-type": "a/b"},
        "timestamp_ms": 5,
    }


def test_an_event_alone_has_its_metadata_in_headers() -> None:
    event = Event(value=[1], key="a b", id="e-1", headers={"author": "Ada"}, timestamp=7)
    assert headers(event) == {
        "Content-Type": "application/json",
        "Headgate-Batch": "false",
        "Headgate-Key*": "UTF-8''a%20b",
        "Headgate-Event-Id": "e-1",
        "Headgate-Timestamp": "7",
        "Headgate-Header-author": "Ada",
    }
    assert headers(Event(value=TOMBSTONE, key="k")) == {
        "Headgate-Tombstone": "true",
        "Headgate-Key*": "UTF-8''k",
    }
    assert headers(b"\x89PNG")["Content-Type"] == "application/octet-stream"
    trace = {"traceparent": "00-1-2-01"}
    assert headers(Event(value=1, headers=trace))["traceparent"] == "00-1-2-01"


@pytest.mark.parametrize(
    "event",
    [
        Event(value=1, key=b"\xff"),
        Event(value=1, id="é"),
        Event(value=1, headers={"author": "Ада"}),
        Event(value=1, headers={"Author": "Ada"}),  # HTTP does not keep the capital
        Event(value=1, headers={"a": "1", "A": "2"}),
        Event(value=1, headers={"author": " padded "}),
        Event(value=1, content_type="application/vnd.mine+json"),
        Event(value=TOMBSTONE, key="k", content_type="a/b"),
        Event(value=1, key="x" * 1400),
    ],
)
def test_what_no_header_carries_goes_into_an_envelope(event: Event) -> None:
    assert alone(event) == part(event)


def test_the_trace_context_is_a_header_of_the_request_in_an_envelope_too() -> None:
    event = Event(1, headers={"Author": "Ada", "TraceParent": "00-1-2-01", "tracestate": ""})
    body = body_of([alone(event)])
    assert json.loads(body.content)["events"][0]["headers"] == {"Author": "Ada"}
    assert body.headers[1:] == (("traceparent", "00-1-2-01"),)


def test_a_batch_refuses_the_trace_context_of_one_event() -> None:
    with pytest.raises(InvalidEventError, match=r"headers: 'Traceparent': .* use send\(\)"):
        part(Event(1, headers={"Traceparent": "00-1-2-01"}))
    with pytest.raises(InvalidEventError, match="'traceparent': use visible ASCII"):
        alone(Event(1, headers={"traceparent": "é"}))


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ({"at": float("nan")}, "neither NaN nor infinity"),
        ({(1, 2): 3}, "use a str for each key"),
        (datetime.now(UTC), "default=str"),
        (CYCLE, "contain itself"),
    ],
)
def test_the_fix_for_a_value_that_json_has_not(value: object, fix: str) -> None:
    with pytest.raises(InvalidEventError, match=fix) as raised:
        part(value)
    assert ("default=str" in str(raised.value)) == (fix == "default=str")


def test_cloudevents_go_as_a_batch_of_theirs() -> None:
    event = CloudEvent(
        id="1", source="/s", type="t", data={"a": 1}, subject="é", extensions={"partitionkey": "p"}
    )
    body = body_of([part(event), part(CloudEvent(id="2", source="/s", type="t", data=b"\xff"))])
    assert dict(body.headers)["Content-Type"] == "application/cloudevents-batch+json"
    first, second = json.loads(body.content)
    assert first == {
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": "é",
        "partitionkey": "p", "data": {"a": 1},
    }  # fmt: skip
    assert second["data_base64"] == "/w=="
    assert second["datacontenttype"] == "application/octet-stream"
    assert part(event).lane == b"p"
    assert part(CloudEvent(id="1", source="/s", type="t", subject="é")).lane == "é".encode()


def test_events_of_the_cloudevents_package_are_taken() -> None:
    attributes = {"id": "1", "source": "/s", "type": "t", "subject": "k", "mine": "x"}
    found = CloudEvent.of(SdkEvent(attributes, {"a": 1}))
    assert (found.id, found.subject, found.data) == ("1", "k", {"a": 1})
    assert found.extensions == {"mine": "x"}
    assert found.time is not None  # the package sets one
    assert CloudEvent.of({**attributes, "data": 5}).data == 5


@pytest.mark.parametrize(
    ("event", "named"),
    [
        (float("nan"), "value"),
        ({1, 2}, "value"),
        ("\ud800", "value"),
        (Event(value=1, key=""), "key"),
        (Event(value=1, key=5), "key"),  # type: ignore[arg-type]
        (Event(value=1, key="\ud800"), "key"),
        (Event(value=1, id="x" * 257), "id"),
        (Event(value=1, id=""), "id"),
        (Event(value=1, id=5), r"id: use a str, not int; try str\(id\)"),  # type: ignore[arg-type]
        (Event(value=1, headers={"a b": "x"}), "headers"),
        (Event(value=1, headers={"hg-mine": "x"}), "headers"),
        (Event(value=1, headers={"a": 5}), "headers"),  # type: ignore[dict-item]
        (Event(value=1, timestamp=-1), "timestamp"),
        (CloudEvent(id="", source="/s", type="t"), "CloudEvent"),
        (CloudEvent(id="1", source="/s", type="t", extensions={"A": 1}), "CloudEvent"),
        (CloudEvent(id="1", source="/s", type="t", extensions={"data": 1}), "CloudEvent"),
    ],
)
@pytest.mark.parametrize("encode", [part, alone])
def test_what_no_gateway_takes_is_refused_by_name(event: object, named: str, encode: Any) -> None:
    with pytest.raises(InvalidEventError, match=named):
        encode(event)


@pytest.mark.parametrize(
    "text",
    [b'{"a":1}]', b"", b"NaN", b"\xff", b"1 2", b'1},{"value":2', "", "NaN", '"\ud800"', {"a": 1}],
)
def test_ready_json_cannot_leave_its_place(text: Any) -> None:
    with pytest.raises(InvalidEventError, match="RawJson"):
        RawJson(text)


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "ü", "x" * 250])
def test_a_topic_is_a_name(topic: str) -> None:
    with pytest.raises(InvalidEventError, match="topic"):
        check_topic(topic)


def test_ids_are_of_version_7_and_sort_by_time() -> None:
    first, second = uuid7(lambda: 1_700_000_000_000), uuid7(lambda: 1_700_000_000_001)
    assert first < second
    assert (first[14], first[19]) == ("7", first[19])
    assert first[19] in "89ab"
    assert len({uuid7() for _ in range(1000)}) == 1000
