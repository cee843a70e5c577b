"""The gateway in memory for tests of programs: its faults, its outcomes and its records."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from headgate.formats.json_text import KeyReader
from headgate.idempotency.rules import read_key
from headgate.model.outcome import Refused
from headgate.model.request import read_options
from headgate_client import (
    TOMBSTONE,
    BufferedProducer,
    Client,
    CloudEvent,
    Event,
    InvalidOptionError,
    LargePath,
    Outcome,
    RawJson,
    Rejected,
    Retry,
    Unknown,
)
from headgate_client.testing import FailEvents, FakeGateway, Lose, Refuse, Succeed

TOPIC = "orders"
AT_ONCE = Retry(first_wait_s=0)


def client_of(gateway: FakeGateway) -> Client:
    return Client(gateway.url, transport=gateway.transport, retry=AT_ONCE)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Refuse("overlaoded"), r"no gateway has the reason 'overlaoded'. Did you mean "),
        (lambda: FailEvents("schema_violatoin"), "Did you mean 'schema_violation'"),
        (lambda: FailEvents("???"), "The reasons are malformed, "),
        (lambda: FailEvents("overloaded", is_written=True), "is_written: only"),
        (lambda: Lose("no"), "is_written: use True or False"),  # type: ignore[arg-type]
        (lambda: Succeed("hold"), "use one of .*'held'"),  # type: ignore[arg-type]
        (lambda: Succeed("unchangd"), "Did you mean 'unchanged'"),  # type: ignore[arg-type]
        (lambda: FakeGateway().next("unknown"), "next: use Refuse"),  # type: ignore[arg-type]
        (lambda: FakeGateway().next(Refuse), "next: use Refuse"),  # type: ignore[arg-type]
        (lambda: FakeGateway(max_bytes=0), "max_bytes"),
    ],
)
def test_a_mistake_of_a_test_is_refused_at_once(make: Callable[[], object], text: str) -> None:
    with pytest.raises(InvalidOptionError, match=text):
        make()


def test_an_event_is_unchanged_held_or_spooled() -> None:
    gateway = FakeGateway()
    with client_of(gateway) as client:
        client.send_batch(TOPIC, [Event(1, key="a"), Event(1, key="b"), Event(2, key="b")])
        gateway.next(Succeed("unchanged"), Succeed("held"), Succeed("spooled"))
        ends = [client.send(TOPIC, 2, key="b") for _ in range(3)]
        gateway.next(Succeed("held", lambda record, position: position == 1))
        batch = client.send_batch(TOPIC, [3, 4, 5])
    places = [(one.name, getattr(one, "partition", 0), getattr(one, "offset", 0)) for one in ends]
    assert places == [("unchanged", 0, 2), ("held", None, None), ("spooled", None, None)]
    assert [one.name for one in batch] == ["published", "held", "published"]
    assert [record.value for record in gateway.records(TOPIC)] == [1, 1, 2, 3, 5]


def test_a_repeat_of_an_event_that_is_held_has_no_place() -> None:
    gateway = FakeGateway()
    with client_of(gateway) as client:
        gateway.next(Succeed("held"))
        names = [client.send(TOPIC, 1, idempotency_key="k") for _ in range(2)]
    assert [(one.name, one.is_written) for one in names] == [("held", False), ("duplicate", False)]


def test_a_large_event_has_the_figures_of_a_gateway() -> None:
    value = {"id": 1, "text": "x" * 20, "a/b": [1, 2, 3]}
    gateway = FakeGateway(max_bytes=30)
    with client_of(gateway) as client:
        outcome = client.send(TOPIC, value, key="k")
        assert client.send(TOPIC, {"id": 1}).succeeded
        gateway.next(FailEvents("too_large"))
        small = client.send(TOPIC, {"id": 1})
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.size_bytes, outcome.limit_bytes) == ("too_large", 52, 30)
    assert outcome.largest_paths == (
        LargePath("/text", 22), LargePath("/a~1b", 7), LargePath("/id", 1),
    )  # fmt: skip
    assert "52 bytes are more than the limit of 30 bytes" in outcome.detail
    assert isinstance(small, Rejected)
    assert small.size_bytes == len('{"id":1}')


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ("12", "12"),
        (12, "12"),
        (10**30, "1" + "0" * 30),
        (0, "0"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_the_key_rule_makes_the_keys_of_a_gateway(given: object, key: str) -> None:
    gateway = FakeGateway(key_of=lambda topic, value: value["id"])
    document = json.dumps({"id": given}).encode()
    assert KeyReader.parse(["/id"])(document) == key.encode()
    with client_of(gateway) as client:
        outcomes = [client.send(TOPIC, {"id": given}), *client.send_batch(TOPIC, [{"id": given}])]
    assert [(one.name, one.key) for one in outcomes] == [("published", key)] * 2
    assert [record.key for record in gateway.records(TOPIC)] == [key, key]


@pytest.mark.parametrize(
    ("given", "reason", "text"),
    [
        (
            None,
            "missing_key",
            "the event has no key, and key_of returned None; send the event with",
        ),
        ("", "missing_key", "the event has no key, and key_of returned ''; send the event with"),
        (1.5, "invalid_key", "key_of returned the float 1.5; a key is a str, int or bool"),
        (1.0, "invalid_key", "key_of returned the float 1.0; a key is a str, int or bool"),
        ([1], "invalid_key", "key_of returned the list [1]; a key is a str, int or bool"),
        ({}, "invalid_key", "key_of returned the dict {}; a key is a str, int or bool"),
        ("é" * 2049, "invalid_key", "the key is longer than http.key_max_bytes = 4096"),
    ],
)
def test_the_key_rule_fails_where_that_of_a_gateway_fails(
    given: object, reason: str, text: str
) -> None:
    with pytest.raises(Refused) as refused:  # two pointers: the length counts as well
        KeyReader.parse(["/id", "/id"])(json.dumps({"id": given}, ensure_ascii=False).encode())
    assert refused.value.failure.reason == reason
    gateway = FakeGateway(key_of=lambda topic, value: value["id"])
    with client_of(gateway) as client:
        gateway.next(Succeed("held", lambda record, position: position == 1))
        outcomes = client.send_batch(TOPIC, [{"id": given}, {"id": given}])
    for outcome in outcomes:
        assert isinstance(outcome, Rejected)
        assert outcome.reason == reason
        assert outcome.detail.startswith(text)


def test_an_event_id_with_other_content_is_a_mismatch() -> None:
    gateway = FakeGateway(dedupe=True)
    first = Event({"a": 1}, key="k", id="e")
    others = [Event({"a": 2}, key="k", id="e"), Event({"a": 1}, key="l", id="e"),
              Event(b'{"a":1}', key="k", id="e"), Event(TOMBSTONE, key="k", id="e")]  # fmt: skip
    with client_of(gateway) as client:
        assert client.send(TOPIC, first).name == "published"
        assert [one.name for one in client.send_batch(TOPIC, [first, first])] == ["duplicate"] * 2
        assert client.send(TOPIC, first).name == "duplicate"
        outcomes = [*client.send_batch(TOPIC, others), *(client.send(TOPIC, one) for one in others)]
    assert all(isinstance(one, Rejected) for one in outcomes)
    assert {getattr(one, "reason", "") for one in outcomes} == {"idempotency_mismatch"}
    assert len(gateway.records(TOPIC)) == 1


def test_an_event_id_belongs_to_a_producer_and_that_of_a_cloudevent_to_its_source() -> None:
    gateway = FakeGateway(dedupe=True)
    names = []
    for producer in ("a", "b"):
        with Client(gateway.url, transport=gateway.transport, producer=producer) as client:
            names.append(client.send(TOPIC, 1, id="e").name)
            for source in ("/one", "/two"):
                event = CloudEvent(id="e", source=source, type="t", data=1)
                names.append(client.send(TOPIC, event).name)
    assert names == ["published"] * 4 + ["duplicate"] * 2


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"Headgate-Forse": "true"}, "no header Headgate-Forse. Did you mean 'Headgate-Force'"),
        ({"Headgate-Force": "yes"}, "Headgate-Force is true, 1, false or 0, not 'yes'"),
        ({"Idempotency-Key": "a b"}, "an Idempotency-Key has 1 to 255 visible ASCII characters"),
    ],
)  # fmt: skip
def test_headers_are_refused_as_by_a_gateway(headers: dict[str, str], text: str) -> None:
    gateway = FakeGateway()
    raw = {name.lower().encode(): value.encode() for name, value in headers.items()}
    with pytest.raises(Refused) as refused:
        _ = (read_options(raw), read_key(raw[b"idempotency-key"]))
    assert refused.value.failure.reason == "malformed"
    with httpx.Client(transport=gateway.transport) as http:
        path = f"{gateway.url}/v1/topics/{TOPIC}/events"
        answer = http.post(path, json={}, headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (400, "malformed")
    assert text in answer.json()["detail"]


def test_limits_of_keys_headers_and_depth_are_those_of_a_gateway() -> None:
    value: object = 1
    for _ in range(128):
        value = [value]
    many = {f"h{number}": "x" for number in range(1001)}
    with client_of(FakeGateway()) as client:
        assert client.send(TOPIC, value).succeeded
        deep, headers = client.send(TOPIC, [value]), client.send(TOPIC, 1, headers=many)
        key = client.send(TOPIC, 1, key="k" * 4097)
    assert isinstance(deep, Rejected)
    assert isinstance(headers, Rejected)
    assert isinstance(key, Rejected)
    assert (deep.reason, headers.reason) == ("malformed", "malformed")
    assert (key.reason, key.limit_bytes) == ("invalid_key", 4096)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Event(1, Key="a"), "unknown argument 'Key'. Did you mean 'key'"),  # type: ignore[call-arg]
        (lambda: FakeGateway(keyof=str), "Did you mean 'key_of'"),  # type: ignore[call-arg]
        (lambda: Lose(written=True), "Did you mean 'is_written'"),  # type: ignore[call-arg]
    ],
)
def test_a_wrong_name_of_an_argument_has_a_hint(make: Callable[[], object], text: str) -> None:
    with pytest.raises((TypeError, InvalidOptionError), match=text):
        make()


def test_a_value_without_json_has_no_key_by_the_rule() -> None:
    def key_of(topic: str, value: object) -> str:
        raise AssertionError("a gateway reads no key from bytes or a tombstone")

    gateway = FakeGateway(key_of=key_of)
    with client_of(gateway) as client:
        outcomes = [*client.send_batch(TOPIC, [b"{}", TOMBSTONE]), client.send(TOPIC, TOMBSTONE)]
        assert client.send(TOPIC, TOMBSTONE, key="k").succeeded
    assert [getattr(one, "reason", "") for one in outcomes] == ["missing_key"] * 3
    (record,) = gateway.records(TOPIC)
    assert (record.key, record.value, record.is_tombstone) == ("k", None, True)
    free = FakeGateway()
    with client_of(free) as client:
        ends = client.send_batch(TOPIC, [b"{}", RawJson("null"), TOMBSTONE])
    assert [one.name for one in ends] == ["published", "published", "rejected"]


def test_an_error_in_the_key_rule_names_it() -> None:
    gateway = FakeGateway(key_of=lambda topic, value: value["id"])
    with client_of(gateway) as client:
        outcome = client.send(TOPIC, {"total": 5})
    assert isinstance(outcome, Unknown)
    assert "key_of: the function raised KeyError('id') for the value {'total': 5}" in outcome.detail
    assert "return None if there is no key" in outcome.detail
    with pytest.raises(InvalidOptionError, match="key_of: use a function of topic and value"):
        FakeGateway(key_of="id")  # type: ignore[arg-type]


def test_an_unchanged_event_has_no_id_unless_the_program_gave_one() -> None:
    gateway = FakeGateway()
    with client_of(gateway) as client:
        for fault in ("unchanged", "unchanged", "held", "spooled"):
            gateway.next(Succeed(fault))  # type: ignore[arg-type]
        ids = [client.send(TOPIC, 1, id=given).event_id for given in (None, "e", None, None)]
    assert ids[:2] == [None, "e"]
    assert all(ids[2:])


def alone(client: Client, event: object) -> Outcome:
    return client.send(TOPIC, event)


def together(client: Client, event: object) -> Outcome:
    return client.send_batch(TOPIC, [event])[0]


def in_the_background(client: Client, event: object) -> Outcome:
    with BufferedProducer(client) as producer:
        return producer.send(TOPIC, event).result(60)


@pytest.mark.parametrize("way", [alone, together, in_the_background])
def test_every_way_writes_the_same_headers(way: Callable[[Client, object], Outcome]) -> None:
    events: list[Any] = [
        Event(1, headers={"Author": "Ada", "author": "ada"}),
        Event(b"1", headers={"a": "b"}),
        Event(1, headers={"a": "é"}, content_type="a/b"),
        CloudEvent(id="1", source="/s", type="t"),
    ]
    gateway = FakeGateway()
    with client_of(gateway) as client:
        assert all(way(client, event).succeeded for event in events)
    assert [dict(record.headers) for record in gateway.records(TOPIC)] == [
        {"Author": "Ada", "author": "ada"},
        {"a": "b"},
        {"a": "é"},
        {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "t"},
    ]


def test_the_trace_context_of_the_request_is_in_its_record() -> None:
    gateway = FakeGateway()
    with client_of(gateway) as client:
        for headers in ({"traceparent": "00-1"}, {"Traceparent": "00-1", "Author": "Ada"}):
            client.send(TOPIC, 1, headers=headers)
    assert [record.headers["traceparent"] for record in gateway.records(TOPIC)] == ["00-1", "00-1"]
