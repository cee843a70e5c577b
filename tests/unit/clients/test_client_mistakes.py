"""Mistakes of a caller of the Python client: each has a clear text, and no text shows a secret."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import re
import socket
import urllib.parse
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import httpx
import pytest
import yarl
from hypothesis import given
from hypothesis import strategies as st

import headgate_client
from headgate.idempotency.rules import read_key
from headgate.model.outcome import Refused
from headgate_client import (
    TOMBSTONE,
    AsyncBufferedProducer,
    AsyncClient,
    Attempt,
    BufferedProducer,
    Client,
    CloudEvent,
    Event,
    InvalidEventError,
    InvalidOptionError,
    Observer,
    RawJson,
    Rejected,
    RejectedError,
    Retry,
)
from headgate_client.core.header_text import RESERVED, checked_key
from headgate_client.testing import FailEvents, FakeGateway, Refuse
from support.root import ROOT

TOPIC = "orders"
URL = "http://headgate.test"
ONCE = Retry(first_wait_s=0, patience_s=0)
SECRET = "S3cr.et+to/ken=="
# Texts that are no header value: a line feed, a control character, a letter beyond ASCII.
NO_HEADER_VALUES = ["SEC\nRET", "SEC\rRET", "SEC\x00RET", "SEC\x7fRET", "SECRÉT", "SEC\u2028RET"]


class Details(Observer):
    """Keeps the details of attempts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_attempt(self, attempt: Attempt) -> None:
        self.texts.append(attempt.detail)


def texts_of(
    caplog: pytest.LogCaptureFixture, transport: httpx.BaseTransport, **options: Any
) -> str:
    """Send an event; return all that a program or its log sees of the failure."""
    details = Details()
    caplog.clear()
    with Client(URL, transport=transport, observer=details, **options) as client:
        outcome = client.send(TOPIC, 1)
    assert isinstance(outcome, Rejected)
    with pytest.raises(RejectedError) as raised:
        outcome.raise_for_outcome()
    return "\n".join([outcome.detail, str(raised.value), caplog.text, *details.texts])


def echo(quote: Callable[[str], str]) -> httpx.MockTransport:
    """A proxy whose page shows the headers of the request, behind a text of any length."""

    def handle(request: httpx.Request) -> httpx.Response:
        head = "x" * int(request.headers.get("X-Length", "0"))
        shown = "".join(f"{name}: {quote(value)}\n" for name, value in request.headers.items())
        return httpx.Response(400, text=f"<html>{head}{shown}</html>")

    return httpx.MockTransport(handle)


def entities(text: str) -> str:
    return re.sub(r"\W", lambda found: f"&#{ord(found[0])};", text)


def json_text(text: str) -> str:
    return json.dumps(text).replace("/", "\\/").replace("+", "\\u002b")


QUOTES = [str, urllib.parse.quote, entities, json_text]


@pytest.mark.parametrize("quote", QUOTES)
@pytest.mark.parametrize("length", [0, 120, 130, 140])
def test_a_page_that_shows_the_request_shows_no_secret(
    caplog: pytest.LogCaptureFixture, quote: Callable[[str], str], length: int
) -> None:
    headers = {"X-Length": str(length), "X-Api-Key": SECRET}
    for options in (
        {"token": SECRET, "request_headers": headers},
        {"token": lambda: SECRET, "request_headers": headers},
        {"request_headers": {**headers, "Authorization": f"Basic {SECRET}"}},
    ):
        text = texts_of(caplog, echo(quote), retry=ONCE, **options)
        assert "not a response of Headgate" in text
        assert "S3cr" not in text


def test_a_header_in_other_letters_replaces_the_one_of_the_client() -> None:
    sent: list[httpx.Headers] = []
    gateway = FakeGateway()

    def keep(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers)
        return gateway.transport.handle_request(request)

    headers = {"X-Tenant": "one", "user-agent": "shop/1", "ACCEPT": "text/plain"}
    with Client(URL, transport=httpx.MockTransport(keep), request_headers=headers) as client:
        client.send(TOPIC, 1, request_headers={"x-tenant": "two", "accept": "*/json"})
    [found] = sent
    for name, value in (("X-Tenant", "two"), ("User-Agent", "shop/1"), ("Accept", "*/json")):
        assert found.get_list(name) == [value], found.multi_items()


RESERVED_NAMES = [
    *(name.replace("*", "Team") if name != "Headgate-Key*" else name for name in RESERVED),
    "idempotency-KEY",
    "headgate-key*",
]


@pytest.mark.parametrize("name", RESERVED_NAMES)
async def test_a_request_header_that_the_client_sets_is_refused_with_the_argument(
    name: str,
) -> None:
    gateway, headers = FakeGateway(), {name: "SECRET"}
    wrong = re.escape(f"request_headers: the client sets {name!r} itself: ")
    with pytest.raises(InvalidOptionError, match=wrong) as refused:
        Client(URL, request_headers=headers)
    assert "SECRET" not in str(refused.value)
    with Client(URL, transport=gateway.transport) as client:
        with pytest.raises(InvalidEventError, match=wrong):
            client.send(TOPIC, 1, request_headers=headers)
        with pytest.raises(InvalidEventError, match=wrong):
            client.send_batch(TOPIC, [1], request_headers=headers)
    async with AsyncClient(URL, transport=gateway.transport) as aio:
        with pytest.raises(InvalidEventError, match=wrong):
            await aio.send(TOPIC, 1, request_headers=headers)
    assert gateway.requests == []


def test_authorization_is_refused_beside_a_token_alone() -> None:
    gateway, headers = FakeGateway(), {"authorization": "Basic own"}
    fix = "'authorization' itself: leave out this header or token="
    with pytest.raises(InvalidOptionError, match=fix):
        Client(URL, token=SECRET, request_headers=headers)
    with (
        Client(URL, transport=gateway.transport, token=lambda: SECRET) as client,
        pytest.raises(InvalidEventError, match=fix),
    ):
        client.send(TOPIC, 1, request_headers=headers)
    free = {**headers, "Headgate-Force": "true", "Headgate-Burst": "b", "traceparent": "00-1"}
    with Client(URL, transport=gateway.transport, request_headers=free) as client:
        assert client.send(TOPIC, 1).succeeded


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_the_page_lists_the_request_headers_that_are_refused(language: str) -> None:
    page = (ROOT / "docs" / "publish" / f"{language}.md").read_text()
    table = page.partition("| request header | use instead |")[2].partition("\n\n")[0]
    missing = [name for name in [*RESERVED, "Authorization"] if f"`{name}`" not in table]
    assert missing == []


def test_a_header_of_one_call_is_hidden_as_well() -> None:
    with Client(URL, transport=echo(str), retry=ONCE) as client:
        outcome = client.send(TOPIC, 1, request_headers={"Authorization": f"Bearer {SECRET}"})
    assert isinstance(outcome, Rejected)
    assert "S3cr" not in outcome.detail


def test_an_exception_of_the_token_function_shows_its_type_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def token() -> str:
        raise ValueError(f"no token at http://issuer/?secret={SECRET}\n{SECRET}")

    text = texts_of(caplog, FakeGateway().transport, retry=ONCE, token=token)
    assert "token: the function raised ValueError" in text
    assert "S3cr" not in text


def test_a_token_function_that_fails_after_a_refusal_loses_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tokens: list[str | Exception] = ["old", ValueError(SECRET), "new"]

    def token() -> str:
        if isinstance(given := tokens.pop(0), Exception):
            raise given
        return given

    gateway = FakeGateway()
    gateway.next(Refuse("unauthenticated"))
    retry = Retry(first_wait_s=0)
    with Client(URL, transport=gateway.transport, token=token, retry=retry) as client:
        assert client.send(TOPIC, 1).name == "published"
    assert "unauthenticated" in caplog.text
    assert "S3cr" not in caplog.text


@pytest.mark.parametrize("value", [*NO_HEADER_VALUES, "", " ", 5, None, b"SECRET"])
def test_a_value_that_is_no_header_text_is_refused_without_its_value(value: Any) -> None:
    for options, named in (
        ({"token": value}, "token"),
        ({"producer": value}, "producer"),
        ({"request_headers": {"X-Key": value}}, "request_headers: the value of 'X-Key'"),
    ):
        if options == {"token": None} or (value == "" and "request_headers" in options):
            continue
        for new in (Client, AsyncClient):
            with pytest.raises(InvalidOptionError) as refused:
                new(URL, **options)  # type: ignore[arg-type]
            assert str(refused.value).startswith(named)
            assert "visible ASCII" in str(refused.value)
            assert "SEC" not in str(refused.value)


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"X Key": "SECRET"}, "'X Key' is not a header name"),
        ({"Ключ": "SECRET"}, "'Ключ' is not a header name"),
        ({5: "SECRET"}, "5 is not a header name"),
        ([("X-Key", "SECRET")], "use a dict of str, not list"),
        ("X-Key: SECRET", "use a dict of str, not str"),
        ({"X-Key": "SECRET", "x-key": "1"}, "'x-key' is in it twice, in other letters"),
    ],
)
def test_names_of_headers_are_checked_too(headers: Any, named: str) -> None:
    with pytest.raises(InvalidOptionError, match=re.escape(named)) as refused:
        Client(URL, request_headers=headers)
    assert "SECRET" not in str(refused.value)
    with Client(URL) as client, pytest.raises(InvalidEventError, match=re.escape(named)):
        client.send(TOPIC, 1, request_headers=headers)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12) | st.text("a -~", min_size=1))
def test_a_producer_is_sent_as_it_is_or_refused_at_once(name: str) -> None:
    gateway = FakeGateway()
    if not name.isascii() or not name.isprintable() or name != name.strip():
        with pytest.raises(InvalidOptionError, match="producer: use 1 to 100 visible ASCII"):
            Client(URL, producer=name)
        return
    with Client(URL, transport=gateway.transport, producer=name, retry=ONCE) as client:
        assert client.send(TOPIC, 1).succeeded
    assert gateway.requests[0].headers["Headgate-Producer"] == name


@pytest.mark.parametrize("name", ["a" * 101, "shop\n", " shop"])
def test_a_producer_has_the_form_that_the_gateway_takes(name: str) -> None:
    with pytest.raises(InvalidOptionError, match="producer: use 1 to 100 visible ASCII"):
        Client(URL, producer=name)


@pytest.mark.parametrize("value", [*NO_HEADER_VALUES, "", " ", 5])
async def test_arguments_of_a_call_that_are_no_header_text_are_refused(value: Any) -> None:
    gateway = FakeGateway()
    with Client(URL, transport=gateway.transport) as client:
        with pytest.raises(InvalidEventError, match=r"^idempotency_key: ") as refused:
            client.send(TOPIC, 1, idempotency_key=value)
        assert "SEC" not in str(refused.value)
        if value != "":
            with pytest.raises(InvalidEventError, match=r"^request_headers: .*'X-A'") as refused:
                client.send_batch(TOPIC, [1], request_headers={"X-A": value})
            assert "SEC" not in str(refused.value)
    async with AsyncClient(URL, transport=gateway.transport) as aio:
        with pytest.raises(InvalidEventError, match=r"^idempotency_key: "):
            await aio.send_batch(TOPIC, [1], idempotency_key=value)
    assert gateway.requests == []


@pytest.mark.parametrize(
    "key",
    ["a b", '"a b"', '""', "a" * 255, "a" * 256, f'"{"a" * 255}"', f'"{"a" * 256}"', '"a', 'a"',
     '"', '"a\\"b"', "\\\\", '"\\\\\\\\"'],
)  # fmt: skip
def test_an_idempotency_key_is_taken_if_the_gateway_takes_it(key: str) -> None:
    try:
        read_key(key.encode())
    except Refused:
        with pytest.raises(InvalidEventError, match="visible ASCII characters, without spaces"):
            checked_key(key)
    else:
        assert checked_key(key) == key


def test_headers_of_another_client_are_refused_with_the_fix() -> None:
    fix = r"not list; try \{name: text.decode\(\)"
    with Client(URL) as client, pytest.raises(InvalidEventError, match=fix):
        client.send(TOPIC, 1, headers=[("a", b"b")])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "events",
    [{"order_id": 1}, "text", b"bytes", bytearray(b"b"), Event(1), TOMBSTONE, None, 5,
     CloudEvent(id="1", source="/s", type="t")],
)  # fmt: skip
async def test_one_event_in_place_of_a_list_is_refused_with_the_fix(events: Any) -> None:
    gateway = FakeGateway()
    fix = rf"events: use a list, not {type(events).__name__}; for one event call send\(\) or use \["
    with (
        Client(URL, transport=gateway.transport) as client,
        pytest.raises(InvalidEventError, match=fix),
    ):
        client.send_batch(TOPIC, events)
    async with AsyncClient(URL, transport=gateway.transport) as aio:
        with pytest.raises(InvalidEventError, match=fix):
            await aio.send_batch(TOPIC, events)
    assert gateway.requests == []


@pytest.mark.parametrize("events", [[1, 2], (1, 2), {1: 1, 2: 2}.keys(), (n for n in (1, 2))])
def test_every_iterable_of_events_is_taken(events: Any) -> None:
    gateway = FakeGateway()
    with Client(URL, transport=gateway.transport) as client:
        assert len(client.send_batch(TOPIC, events)) == 2


@pytest.mark.parametrize(
    ("named", "key"),
    [("a", b"a"), (b"a", b"a"), ("ключ", "ключ".encode()), (12, b"12"), (True, b"true")],
)
def test_an_ordering_key_is_that_of_the_gateway_s_key_rule(named: Any, key: bytes) -> None:
    """An event with the key, and one whose key is only in its value, go one after another."""
    gateway = FakeGateway()
    with (
        Client(gateway.url, transport=gateway.transport) as client,
        BufferedProducer(client, ordering_key=lambda topic, value: value or None) as producer,
    ):
        event = Event(named)
        assert producer._config.lane(TOPIC, event, client.wire.part(event)) == key
        assert producer._config.lane(TOPIC, Event(0), client.wire.part(Event(0))) is None


@pytest.mark.parametrize("named", ["", b"", 1.5, ["a"], {"a": 1}, "\ud800"])
async def test_an_ordering_key_of_another_kind_is_refused(named: Any) -> None:
    gateway = FakeGateway()
    options: Any = {"ordering_key": lambda topic, value: named}
    with (
        Client(gateway.url, transport=gateway.transport) as client,
        BufferedProducer(client, **options) as producer,
        pytest.raises(InvalidEventError, match=r"^ordering_key: "),
    ):
        producer.send(TOPIC, 1)
    async with (
        AsyncClient(gateway.url, transport=gateway.transport) as aio,
        AsyncBufferedProducer(aio, **options) as async_producer,
    ):
        with pytest.raises(InvalidEventError, match=r"^ordering_key: "):
            await async_producer.send(TOPIC, 1)
    assert gateway.requests == []


def test_an_ordering_key_function_that_raises_takes_no_event() -> None:
    gateway = FakeGateway()
    options: Any = {"ordering_key": lambda topic, value: value["order_id"]}
    with (
        Client(gateway.url, transport=gateway.transport) as client,
        BufferedProducer(client, **options) as producer,
    ):
        with pytest.raises(InvalidEventError, match=r"ordering_key: .*KeyError\('order_id'\)"):
            producer.send(TOPIC, {})
        assert producer.events == 0
    with pytest.raises(InvalidOptionError, match="ordering_key: use a function"):
        BufferedProducer(client, ordering_key="order_id")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (None, "give the URL of a gateway, such as http://127.0.0.1:8080, not None"),
        (5, "not 5"),
        (b"http://x", "not b'http://x'"),
        ({}, "not a dict of options"),
        ({"bootstrap.servers": "b", "sasl.password": "SECRET"}, "addresses of the brokers"),
        ([None], "not None"),
        ("http://x/v1/topics", "leave out /v1/topics: the client adds it"),
        ("http://x/v1/topics/", "leave out /v1/topics: the client adds it"),
        ("http://x/v1/topics/orders/events", "leave out /v1/topics/orders/events"),
        ("http://x?a=1", "leave out ?a=1"),
        ("http://x/#a", "leave out #a"),
        ("http://user:SECRET@x", "user or password"),
        ("http://user:SECRET@[x", "***@[x"),
        ("ftp://user:SECRET@x", "http://host:port"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: Any, text: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        Client(url)
    assert str(refused.value).startswith("url: ")
    assert text in str(refused.value)
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        httpx.URL("http://headgate.test/"),
        yarl.URL("http://headgate.test"),
        urllib.parse.urlsplit("http://headgate.test"),
        " http://headgate.test/\n",
        [yarl.URL("http://headgate.test"), "http://other.test"],
    ],
)
def test_url_objects_are_taken(url: Any) -> None:
    gateway = FakeGateway()
    with Client(url, transport=gateway.transport) as client:
        assert client.send(TOPIC, 1).succeeded
    assert str(gateway.requests[0].url) == "http://headgate.test/v1/topics/orders/events"


def test_a_gateway_behind_a_path_is_taken() -> None:
    gateway = FakeGateway()
    with Client("http://proxy.test/kafka/", transport=gateway.transport) as client:
        client.send(TOPIC, 1)
    assert gateway.requests[0].url.path == "/kafka/v1/topics/orders/events"


def test_a_refused_connection_is_called_unreachable_with_its_url(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("[Errno 111] Connection refused")

    details = Details()
    retry = Retry(first_wait_s=0.002, patience_s=0.01)
    transport = httpx.MockTransport(refuse)
    with Client(f"{URL}/", transport=transport, retry=retry, observer=details) as client:
        outcome = client.send(TOPIC, 1)
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.retryable) == ("unreachable", True)
    detail = (
        "http://headgate.test: ConnectError: [Errno 111] Connection refused; "
        "check that the gateway runs, and that this is its data port"
    )
    assert outcome.detail == detail
    begin, end = caplog.records
    assert begin.levelno == logging.WARNING
    assert begin.getMessage().startswith(
        f"orders: 1 event, attempt 1 failed: unreachable ({detail}); more failed attempts"
    )
    assert end.getMessage() == f"orders: 1 event rejected: unreachable ({detail})"


@pytest.mark.parametrize("event", [None, Event(None, key="k")])
def test_none_is_not_a_value(event: Any) -> None:
    gateway = FakeGateway()
    fix = r"^(events.0.: )?value: None could .* TOMBSTONE to delete the key, or RawJson\(b'null'\)"
    with Client(URL, transport=gateway.transport) as client:
        for send in (lambda: client.send(TOPIC, event), lambda: client.send_batch(TOPIC, [event])):
            with pytest.raises(InvalidEventError, match=fix):
                send()
        assert gateway.requests == []
        assert client.send(TOPIC, RawJson(b"null"), key="k").succeeded


def test_a_value_that_is_not_json_names_the_function_to_give() -> None:
    fix = r"dumps=lambda value: json.dumps\(value, default=str\)"
    with Client(URL) as client, pytest.raises(InvalidEventError, match=fix):
        client.send(TOPIC, {"at": datetime(2026, 1, 1, tzinfo=UTC)})
    wrong: Any = lambda value: 5  # noqa: E731
    with Client(URL, dumps=wrong) as client, pytest.raises(InvalidEventError) as refused:
        client.send(TOPIC, 1)
    assert str(refused.value) == "dumps: the function returned int; return a str or bytes"


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (lambda: None, "token: the function returned nothing; return the token as a str"),
        (lambda: b"t", "token: the function returned bytes; return the token as a str"),
        (lambda: "Bearer S3cret", "token: leave out the word Bearer"),
        (lambda: {}["S3cret"], "token: the function raised KeyError"),
        (lambda: None.token, "token: the function raised AttributeError"),  # type: ignore[attr-defined]
    ],
)
def test_a_mistake_in_a_token_function_ends_the_event_at_once(token: Any, text: str) -> None:
    gateway = FakeGateway()
    with Client(URL, transport=gateway.transport, token=token) as client:
        outcome = client.send(TOPIC, 1)
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.retryable) == ("not_sent", False)
    assert text in outcome.detail
    assert "S3cret" not in outcome.detail


@pytest.mark.parametrize(
    "error", [TypeError, KeyError, ValueError, RuntimeError, ZeroDivisionError, AssertionError]
)
def test_an_error_of_the_program_is_not_retried_as_a_fault_of_the_network(
    caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    attempts = []

    def fail(request: httpx.Request) -> httpx.Response:
        attempts.append(request)
        raise error("no such member")

    with Client(URL, transport=httpx.MockTransport(fail)) as client:
        outcome = client.send(TOPIC, 1)
    assert len(attempts) == 1
    assert (outcome.name, outcome.is_written) == ("unknown", None)
    assert re.search(rf"{error.__name__}: .*; this is an error of the program", caplog.text)
    assert "attempt 1 failed" not in caplog.text


@pytest.mark.parametrize("error", [OSError("reset"), httpx.StreamClosed(), httpx.ReadError("cut")])
def test_a_fault_of_the_network_is_no_error_of_the_program(error: Exception) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    with Client(URL, transport=httpx.MockTransport(fail), retry=ONCE) as client:
        outcome = client.send(TOPIC, 1)
    assert outcome.name == "unknown"
    assert "error of the program" not in getattr(outcome, "detail", "")


def test_a_batch_names_the_event_that_is_wrong() -> None:
    gateway = FakeGateway()
    with Client(URL, transport=gateway.transport) as client:
        with pytest.raises(InvalidEventError, match=r"^events\[2\]: key: use a str"):
            client.send_batch(TOPIC, [1, 2, Event(3, key=4)])  # type: ignore[arg-type]
        with pytest.raises(InvalidEventError, match=r"^id: use a str, not int; try str\(id\)"):
            client.send(TOPIC, 1, id=5)  # type: ignore[arg-type]
    assert gateway.requests == []


@pytest.mark.parametrize("event", [("k", {"a": 1}), {"key": "a", "value": "b"}])
def test_a_record_of_another_library_is_sent_as_it_is_with_a_warning(
    caplog: pytest.LogCaptureFixture, event: object
) -> None:
    gateway = FakeGateway()
    with Client(URL, transport=gateway.transport) as client:
        client.send_batch(TOPIC, [1, {"value": 1}, ["k", 1], event, event])
    [warning] = caplog.messages
    assert warning.startswith("orders: events[3] is a pair or has a member 'value'")
    assert "use Event(value, key=...)" in warning


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        (lambda producer: producer.send(TOPIC, 1).get(), r"use result\(timeout=...\)"),
        (lambda producer: producer.flush(timeout=1), "Did you mean 'timeout_s'"),
        (lambda producer: producer.close(timeout=1), "Did you mean 'timeout_s'"),
        (lambda producer: producer.send(TOPIC, 1, idempotency_key="k"), "Use Client.send"),
        (lambda producer: producer.send(TOPIC, 1, on_delivery=print), "add_done_callback"),
        (lambda producer: producer.send(TOPIC, 1, request_headers={}), r"Use Client\(request_h"),
        (lambda producer: Event({}, "key"), r"Event\(value, key=\.\.\."),
    ],
)
def test_a_habit_of_another_library_is_refused_with_the_fix(
    call: Callable[[Any], object], fix: str
) -> None:
    with (
        Client(URL, transport=FakeGateway().transport) as client,
        BufferedProducer(client) as producer,
        pytest.raises((TypeError, AttributeError), match=fix),
    ):
        call(producer)


@pytest.mark.parametrize(
    ("name", "of_client", "of_producer"),
    [
        ("connect", "not needed: the client connects", "not needed: the client connects"),
        ("start", "not needed", "not needed"),
        ("disconnect", r"use close\(\)", r"use close\(\)"),
        ("stop", r"use close\(\)", r"use close\(\)"),
        ("produce", r"use send\(topic, value, key", r"use send\(topic, value, key"),
        ("poll", r"use BufferedProducer\(client\)", "not needed: callbacks"),
        ("send_and_wait", "it waits for the outcome", "wait for its future"),
        ("begin_transaction", "there are no transactions", "there are no transactions"),
    ],
)
async def test_a_method_of_another_library_names_the_right_one(
    name: str, of_client: str, of_producer: str
) -> None:
    gateway = FakeGateway()
    with (
        Client(URL, transport=gateway.transport) as client,
        BufferedProducer(client) as producer,
    ):
        async with (
            AsyncClient(URL, transport=gateway.transport) as aio,
            AsyncBufferedProducer(aio) as async_producer,
        ):
            for owner, fix in (
                (client, of_client), (aio, of_client),
                (producer, of_producer), (async_producer, of_producer),
            ):  # fmt: skip
                text = rf"{type(owner).__name__} has no {name}\(\): .*{fix}"
                with pytest.raises(AttributeError, match=text):
                    getattr(owner, name)
                assert not hasattr(owner, name)
    with pytest.raises(AttributeError, match=r"Client has no flush\(\): .*BufferedProducer"):
        client.flush()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"has no send_batch\(\): use send\(\) for each"):
        producer.send_batch()  # type: ignore[attr-defined]


def test_a_client_with_the_argument_of_another_library_names_the_url() -> None:
    for name in ("sasl_mechanism", "security_protocol"):
        credentials: dict[str, Any] = {name: "PLAIN"}
        with pytest.raises(InvalidOptionError, match=r"Use token=.*: the gateway has the credent"):
            Client(URL, **credentials)
    for name in ("bootstrap_servers", "brokers"):
        options: dict[str, Any] = {name: "127.0.0.1:9092"}
        with pytest.raises(TypeError, match="The first argument is the URL of the gateway"):
            Client(**options)


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ({1, 2}, "use a list, such as sorted(value)"),
        ({"a": frozenset("a")}, "use a list, such as sorted(value)"),
        ((number for number in [1]), "use list(value)"),
        ({"a": {"b": 1}.values()}, "use list(value)"),
        ({"at": datetime.now(UTC)}, "use value.isoformat(), or Client(dumps="),
        ({"price": Decimal("1.5")}, "use str(value), or Client(dumps="),
        ({"id": UUID(int=1)}, "use str(value), or Client(dumps="),
        ({"a": b"x"}, "use base64 text"),
        (object(), "such as dataclasses.asdict(value); or give the client a function"),
    ],
)
def test_a_value_that_is_not_json_has_advice_for_its_type(value: object, fix: str) -> None:
    with Client(URL) as client, pytest.raises(InvalidEventError) as refused:
        client.send(TOPIC, value)
    assert "is not JSON serializable); " in str(refused.value)
    assert fix in str(refused.value)


@pytest.mark.parametrize("errno", [socket.EAI_NONAME, socket.EAI_AGAIN])
def test_the_url_of_the_gateway_in_memory_needs_its_transport(errno: int) -> None:
    def resolve(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no name") from socket.gaierror(errno, "no name")

    def send(url: str) -> str:
        with Client(url, transport=httpx.MockTransport(resolve), retry=ONCE) as client:
            outcome = client.send(TOPIC, 1)
        assert isinstance(outcome, Rejected)
        return outcome.detail

    fix = "this is the URL of a FakeGateway: give the client transport=gateway.transport"
    assert send(FakeGateway.url) == f"{URL}: ConnectError: no name; {fix}"
    other = send("http://gateway.example")
    assert fix not in other
    assert ("check the host name, and that this machine or container" in other) == (
        errno == socket.EAI_NONAME
    )


def test_an_event_copies_and_compares_like_any_dataclass() -> None:
    event = Event(1, key="k")
    assert copy.copy(event) == pickle.loads(pickle.dumps(event)) == Event(value=1, key="k")


def test_the_failure_in_the_log_names_its_event(caplog: pytest.LogCaptureFixture) -> None:
    gateway = FakeGateway()
    with Client(URL, transport=gateway.transport) as client:
        gateway.next(FailEvents("schema_violation", lambda record, position: position > 0))
        client.send_batch(TOPIC, [1, Event(2, key="a", id="i"), Event(3, key="b")])
        gateway.next(FailEvents("forbidden"))
        client.send(TOPIC, 2, key=b"\xff")
    assert caplog.messages == [
        "orders: 2 events rejected: schema_violation (as the test wants it); "
        "first: events[1], key a, id i",
        "orders: 1 event rejected: forbidden (as the test wants it); key ff",
    ]


def test_a_failure_names_the_argument_beside_the_header() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        fields = {"reason": "unauthenticated", "retryable": False, "status": 401}
        detail = "this gateway wants `Authorization: Bearer <token>`"
        return httpx.Response(401, json={**fields, "detail": detail})

    with Client(URL, transport=httpx.MockTransport(refuse)) as client:
        outcome = client.send(TOPIC, 1)
    assert isinstance(outcome, Rejected)
    assert outcome.detail.endswith("(in the Python client: Client(token=...))")


def test_the_user_agent_names_the_library_unless_the_program_has_one() -> None:
    gateway = FakeGateway()
    for headers in ({}, {"user-agent": "shop/1"}):
        with Client(URL, transport=gateway.transport, request_headers=headers) as client:
            client.send(TOPIC, 1)
    agents = [request.headers.get_list("User-Agent") for request in gateway.requests]
    assert agents == [[f"headgate-client-python/{headgate_client.__version__}"], ["shop/1"]]
