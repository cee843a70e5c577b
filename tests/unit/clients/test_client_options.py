"""Options of the Python client: unknown ones are refused; `send` takes the fields of a record."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from headgate_client import (
    AsyncBufferedProducer,
    AsyncClient,
    BufferedProducer,
    Buffering,
    Client,
    CloudEvent,
    Event,
    InvalidEventError,
    InvalidOptionError,
    Limits,
    Retry,
)
from headgate_client.core.delivery import Chances
from headgate_client.core.encode import dumps, encode_part
from headgate_client.core.outbox import Outbox
from headgate_client.testing import FakeGateway
from support.root import ROOT

TOPIC = "orders"
URL = "http://headgate.test"


async def async_producer(**options: Any) -> None:
    AsyncBufferedProducer(AsyncClient(URL), **options)


@pytest.mark.parametrize(
    ("new", "wrong", "similar", "known"),
    [
        (lambda **options: Client(URL, **options), "tokn", "token", "request_headers, retry"),
        (lambda **options: AsyncClient(URL, **options), "compresion", "compression", "dumps"),
        (lambda **options: Client(URL, **options), "transpor", "transport", "observer, transport"),
        (lambda **options: Client(URL, **options), "headers", "request_headers", "producer, token"),
        (Retry, "patience", "patience_s", "patience_s, first_wait_s"),
        (Limits, "max_event", "max_events", "max_events, max_bytes"),
        (Buffering, "linger_ms", "linger_s", "linger_s, max_events"),
        (lambda **options: BufferedProducer(Client(URL), **options), "bufering", "buffering",
         "buffering, ordering_key, when_full"),
    ],
)  # fmt: skip
def test_an_unknown_option_is_refused_with_the_list(
    new: Callable[..., object], wrong: str, similar: str, known: str
) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        new(**{wrong: 1})
    text = str(refused.value)
    assert f"unknown option {wrong!r}. Did you mean {similar!r}?" in text
    assert known in text


async def test_an_unknown_option_of_a_producer_in_a_loop_is_refused_too() -> None:
    with pytest.raises(InvalidOptionError, match="when_full"):
        await async_producer(when_ful="raise")


def test_an_option_without_a_similar_one_is_refused_without_a_guess() -> None:
    options: dict[str, Any] = {"zzz": 1}
    with pytest.raises(InvalidOptionError, match=r"'zzz'\. The options are producer, token"):
        Client(URL, **options)


@pytest.mark.parametrize(
    ("new", "named"),
    [
        (lambda: Client(URL, retry={"patience_s": 5}), "retry"),  # type: ignore[typeddict-item]
        (lambda: Client(URL, limits=5), "limits"),  # type: ignore[typeddict-item]
        (lambda: BufferedProducer(Client(URL), buffering=5), "buffering"),  # type: ignore[typeddict-item]
        (lambda: BufferedProducer(Client(URL), when_full="drop"), "when_full"),  # type: ignore[typeddict-item]
        (lambda: Retry(overtaken="drop"), "overtaken"),  # type: ignore[arg-type]
        (lambda: Limits(max_events=0), "max_events"),
    ],
)
def test_a_value_of_another_kind_is_refused(new: Callable[[], object], named: str) -> None:
    with pytest.raises(InvalidOptionError, match=named):
        new()


def test_send_takes_the_fields_of_the_record() -> None:
    gateway = FakeGateway()
    when = datetime(2026, 11, 27, 3, 4, 5, 678_900, tzinfo=UTC)
    with Client(gateway.url, transport=gateway.transport) as client:
        client.send(TOPIC, {"a": 1}, key="k", id="e-1", headers={"author": "Ada"}, timestamp=when)
        with BufferedProducer(client) as producer:
            producer.send(TOPIC, 2, key=b"k2", id="e-2", headers={"author": "Ада"}, timestamp=5)
    alone, batch = gateway.requests
    assert alone.headers["Headgate-Timestamp"] == "1795748645678"
    assert b'"timestamp_ms":5' in batch.content
    found = [
        (one.key, one.value, one.event_id, dict(one.headers)) for one in gateway.records(TOPIC)
    ]
    assert found == [
        ("k", {"a": 1}, "e-1", {"author": "Ada"}),
        (b"k2", 2, "e-2", {"author": "Ада"}),
    ]


async def test_send_takes_the_fields_of_the_record_in_a_loop_too() -> None:
    gateway = FakeGateway()
    async with AsyncClient(gateway.url, transport=gateway.transport) as client:
        await client.send(TOPIC, 1, key="k", headers={"a": "b"}, request_headers={"X-A": "1"})
        async with AsyncBufferedProducer(client) as producer:
            outcome = await (await producer.send(TOPIC, 2, key="k", id="e"))
    assert (outcome.key, outcome.event_id) == ("k", "e")
    assert gateway.requests[0].headers["X-A"] == "1"
    assert [dict(one.headers) for one in gateway.records(TOPIC)] == [{"a": "b"}, {}]


def test_an_event_takes_its_value_by_position() -> None:
    assert Event(5) == Event(value=5)
    assert Event({"total": 5}, key="k").key == "k"
    with pytest.raises(TypeError):
        Event(5, "k")  # type: ignore[misc]


@pytest.mark.parametrize("field", ["key", "id", "headers", "timestamp"])
@pytest.mark.parametrize("event", [Event(1), CloudEvent(id="1", source="/s", type="t")])
def test_an_event_has_its_own_fields(event: object, field: str) -> None:
    gateway = FakeGateway()
    fields: dict[str, Any] = {field: {"a": "b"} if field == "headers" else "x"}
    with (
        Client(gateway.url, transport=gateway.transport) as client,
        BufferedProducer(client) as producer,
    ):
        for send in (client.send, producer.send):
            with pytest.raises(InvalidEventError, match=rf"{field}: the value is \w+\(\.\.\.\)"):
                send(TOPIC, event, **fields)
    assert gateway.requests == []


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"timestamp": 1.5}, "whole milliseconds since 1970"),
        ({"timestamp": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"headers": [("a", "b")]}, re.escape("dict(headers)")),
        ({"headers": {"a": b"b"}}, "must be a str, not bytes"),
    ],
)
def test_a_field_of_another_kind_names_the_fix(fields: dict[str, Any], text: str) -> None:
    with Client(URL) as client, pytest.raises(InvalidEventError, match=text):
        client.send(TOPIC, 1, **fields)


def test_the_ordering_key_gets_the_value_of_each_kind_of_event() -> None:
    gateway, values = FakeGateway(), []

    def ordering_key(topic: str, value: object) -> str:
        values.append(value)
        return "a"

    with (
        Client(gateway.url, transport=gateway.transport) as client,
        BufferedProducer(client, ordering_key=ordering_key) as producer,
    ):
        producer.send(TOPIC, 1)
        producer.send(TOPIC, Event(2))
        producer.send(TOPIC, CloudEvent(id="1", source="/s", type="t", data=3))
        producer.send(TOPIC, 4, key="k")
    assert values == [1, 2, 3]


@pytest.mark.parametrize("client", ["python", "js"])
def test_the_readme_has_no_link_that_is_dead_on_a_registry(client: str) -> None:
    text = (ROOT / "clients" / client / "README.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert [link for link in links if not link.startswith("https://")] == []


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        (
            "timeout_s",
            "3",
            "timeout_s: use a number, 0.001 to 3600, not the str '3': leave out the",
        ),
        ("timeout_s", None, "timeout_s: use a number, 0.001 to 3600, not NoneType"),
        ("timeout_s", True, "not bool"),
        ("timeout_s", 0, "timeout_s: use 0.001 to 3600, not 0"),
        ("idempotency", "no", "idempotency: use True or False, not str"),
        ("event_ids", 1, "event_ids: use True or False, not int"),
        ("dumps", "orjson", "dumps: use a function such as orjson.dumps, not str"),
        ("observer", Retry, "observer: use an object of a subclass of Observer, not type"),
        ("tls", False, "tls: use ssl.create_default_context(...), not bool"),
        ("tls", "/ca.pem", "tls: use ssl.create_default_context(...), not str"),
        ("retry", {"patience_s": 3}, "retry: use Retry(...), not dict"),
        ("token", "Bearer S3cret", "token: leave out the word Bearer; the client adds it"),
        ("transport", "http", "BaseTransport, not str"),
    ],
)
def test_a_value_of_another_type_is_refused_at_construction(
    option: str, value: object, text: str
) -> None:
    options: Any = {option: value}
    for new in (Client, AsyncClient):
        with pytest.raises(InvalidOptionError) as refused:
            new(URL, **options)
        assert text in str(refused.value)
        assert "S3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("new", "options", "text"),
    [
        (Retry, {"patience_s": "3"}, "patience_s: use a number, 0 to 82800, not the str '3'"),
        (Retry, {"first_wait_s": None}, "first_wait_s: use a number, 0 or more, not NoneType"),
        (Retry, {"repeat_unknown": "false"}, "repeat_unknown: use True or False, not str"),
        (Limits, {"max_events": 1.5}, "max_events: use a whole number, 1 or more, not float"),
        (Limits, {"max_bytes": "10"}, "max_bytes: use a whole number, 1 or more, not the str '10'"),
        (Buffering, {"linger_s": "1"}, "linger_s: use a number, 0 or more, not the str '1'"),
        (Buffering, {"in_flight": 0}, "in_flight: use 1 or more, not 0"),
        (Buffering, {"one_per_key": None}, "one_per_key: use True or False, not NoneType"),
    ],
)
def test_the_groups_of_options_check_the_types_too(
    new: Callable[..., object], options: dict[str, object], text: str
) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        new(**options)
    assert text in str(refused.value)


def test_the_longest_wait_is_no_shorter_than_the_first() -> None:
    with pytest.raises(
        InvalidOptionError, match=r"longest_wait_s: use first_wait_s \(10\) or more"
    ):
        Retry(first_wait_s=10, longest_wait_s=1)


def test_the_default_buffer_has_room_for_all_small_events() -> None:
    buffering = Buffering()
    outbox = Outbox(Retry(), Limits(), buffering, Chances(lambda: 0.0, None))
    part = encode_part(Event({"order_id": 12, "total": 20}, key="12"), dumps, None)
    for _ in range(buffering.max_events):
        assert outbox.has_room(part)
        outbox.add("t", part, part.lane, 0.0, lambda outcome: None)
    assert outbox.limit(part) == "max_events = 16000"
    tight = Outbox(Retry(), Limits(), Buffering(max_bytes=4000), Chances(lambda: 0.0, None))
    tight.add("t", part, part.lane, 0.0, lambda outcome: None)
    assert tight.limit(part) == "max_bytes = 4000, 3200 for each event"


@pytest.mark.parametrize(
    ("new", "name", "text"),
    [
        (Client, "patience_s", "Use Client(retry=Retry(patience_s=...))."),
        (
            Client,
            "max_events",
            "Use Client(limits=Limits(max_events=...)) or Buffering(max_events=",
        ),
        (Client, "linger_s", "Use BufferedProducer(buffering=Buffering(linger_s=...))."),
        (Client, "bootstrap_servers", "The first argument is the URL of the gateway"),
        (Client, "acks", "The gateway always waits for all in-sync replicas."),
        (AsyncClient, "partition", "The gateway chooses it by the key"),
    ],
)
def test_an_option_of_another_place_is_refused_with_that_place(
    new: Any, name: str, text: str
) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        new(URL, **{name: 1})
    assert f"unknown option '{name}'. {text}" in str(refused.value)


def test_wrong_arguments_of_a_call_name_the_fix() -> None:
    gateway = FakeGateway()
    client: Any
    with Client(URL, transport=gateway.transport) as client:
        producer: Any
        with BufferedProducer(client) as producer:
            for sender in (client, producer):
                with pytest.raises(
                    TypeError, match=r"Name the arguments after value, such as key="
                ):
                    sender.send(TOPIC, 1, "key")
                with pytest.raises(
                    TypeError, match=r"'partition'\. The gateway chooses it by the k"
                ):
                    sender.send(TOPIC, 1, partition=3)
        with pytest.raises(TypeError, match=r"Did you mean 'request_headers'\?"):
            client.send_batch(TOPIC, [1], request_header={})
    with pytest.raises(TypeError, match=r"Name the arguments after url, such as producer="):
        Client(URL, "me")  # type: ignore[misc]
    async_client: Any = AsyncClient(URL)
    with pytest.raises(TypeError, match=r"Name the arguments after value"):
        async_client.send(TOPIC, 1, "key")
    assert gateway.requests == []


async def test_a_producer_takes_a_client_of_its_kind_only() -> None:
    for new, client, text in (
        (BufferedProducer, URL, "client: use Client(url), not str"),
        (BufferedProducer, AsyncClient(URL), "not AsyncClient (AsyncBufferedProducer takes an"),
        (AsyncBufferedProducer, URL, "client: use AsyncClient(url), not str"),
        (AsyncBufferedProducer, Client(URL), "not Client (BufferedProducer takes a Client)"),
    ):
        with pytest.raises(InvalidOptionError) as refused:
            new(client)  # type: ignore[operator]
        assert text in str(refused.value)


async def test_the_time_limit_of_a_call_is_a_number() -> None:
    limit: Any = "3"
    text = "timeout_s: use a number of seconds or None, not the str '3': leave out the quotes"
    gateway = FakeGateway()
    with (
        Client(URL, transport=gateway.transport) as client,
        BufferedProducer(client) as producer,
    ):
        for call in (
            lambda: producer.send(TOPIC, 1, timeout_s=limit),
            lambda: producer.flush(limit),
            lambda: producer.close(limit),
        ):
            with pytest.raises(InvalidOptionError) as refused:
                call()
            assert str(refused.value) == text
        assert producer.send(TOPIC, 1).result().succeeded
    async with (
        AsyncClient(URL, transport=gateway.transport) as aio,
        AsyncBufferedProducer(aio) as async_producer,
    ):
        for coroutine in (
            async_producer.send(TOPIC, 1, timeout_s=limit),
            async_producer.flush(limit),
            async_producer.close(limit),
        ):
            with pytest.raises(InvalidOptionError) as refused:
                await coroutine
            assert str(refused.value) == text
