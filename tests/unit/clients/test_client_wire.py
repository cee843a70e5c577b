"""The Python client on HTTP: who asks, which gateway, what errors of the network mean."""

from __future__ import annotations

import gzip
import json
import logging
import re
import ssl
from typing import Any

import httpx
import pytest

from headgate_client import (
    AsyncBufferedProducer,
    AsyncClient,
    Attempt,
    BufferedProducer,
    Buffering,
    Client,
    ClosedError,
    CloudEvent,
    Event,
    InvalidEventError,
    InvalidOptionError,
    Observer,
    Retry,
)
from headgate_client.core.answer import Lost, Refused
from headgate_client.hooks import AttemptReports, report_outcomes
from headgate_client.outcomes import Rejected
from headgate_client.testing import FakeGateway, Lose, Refuse
from headgate_client.wire import classify

TOPIC = "orders"
AT_ONCE = Retry(first_wait_s=0)


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


def test_each_request_says_who_sends_it_and_has_a_key(gateway: FakeGateway) -> None:
    with Client(
        gateway.url,
        transport=gateway.transport,
        producer="shop",
        token="t",
        request_headers={"X-A": "1"},
    ) as client:
        client.send(TOPIC, 1, request_headers={"Headgate-Force": "true"})
        client.send(TOPIC, 1)
        client.send(TOPIC, 1, idempotency_key="mine")
    first, second, third = gateway.requests
    assert first.headers["Headgate-Producer"] == "shop"
    assert first.headers["Authorization"] == "Bearer t"
    assert first.headers["X-A"] == "1"
    assert first.headers["Headgate-Force"] == "true"
    assert "Headgate-Force" not in second.headers
    assert first.headers["Idempotency-Key"] != second.headers["Idempotency-Key"]
    assert third.headers["Idempotency-Key"] == "mine"


def test_keys_of_requests_can_be_left_out_and_ids_put_in(gateway: FakeGateway) -> None:
    with Client(
        gateway.url, transport=gateway.transport, idempotency=False, event_ids=True
    ) as client:
        client.send_batch(TOPIC, [1, Event(value=2, id="mine")])
    (request,) = gateway.requests
    assert "Idempotency-Key" not in request.headers
    first, second = (one.event_id for one in gateway.records(TOPIC))
    assert (len(first or ""), second) == (36, "mine")


def test_a_new_token_is_taken_when_the_old_one_is_refused(gateway: FakeGateway) -> None:
    tokens = ["old", "new", "new"]
    with Client(
        gateway.url, transport=gateway.transport, token=lambda: tokens.pop(0), retry=AT_ONCE
    ) as client:
        gateway.next(Refuse("unauthenticated"))
        assert client.send(TOPIC, 1).succeeded
        tokens[:] = ["same", "same"]
        gateway.next(Refuse("unauthenticated"))
        assert not client.send(TOPIC, 1).succeeded
    assert [one.headers["Authorization"][7:] for one in gateway.requests] == ["old", "new", "same"]


def test_a_token_that_cannot_be_had_loses_nothing(gateway: FakeGateway) -> None:
    tokens = iter([OSError("no file"), None])

    def token() -> str:
        if (error := next(tokens)) is not None:
            raise error
        return "t"

    with Client(gateway.url, transport=gateway.transport, token=token, retry=AT_ONCE) as client:
        assert client.send(TOPIC, 1).succeeded


@pytest.mark.parametrize("fault", [Refuse("draining", retry_after_s=30), Lose(is_written=False)])
def test_another_gateway_is_asked_at_once_when_one_drains_or_is_away(
    gateway: FakeGateway, fault: Refuse | Lose
) -> None:
    urls = ["http://one.test/", "http://two.test"]
    with Client(urls, transport=gateway.transport, retry=AT_ONCE) as client:
        gateway.next(fault)
        assert client.send(TOPIC, 1).succeeded
        assert client.send(TOPIC, 2).succeeded
    assert [one.url.host for one in gateway.requests] == ["one.test", "two.test", "two.test"]
    first, second, _ = (one.headers["Idempotency-Key"] for one in gateway.requests)
    assert first == second


def test_a_large_body_is_compressed_the_same_each_time(gateway: FakeGateway) -> None:
    with Client(
        gateway.url, transport=gateway.transport, compression="gzip", retry=AT_ONCE
    ) as client:
        gateway.next(Lose(is_written=True))
        assert client.send(TOPIC, "x" * 2000).name == "duplicate"
        client.send(TOPIC, "small")
    first, second, small = gateway.requests
    assert first.content == second.content
    assert json.loads(gzip.decompress(first.content)) == "x" * 2000
    assert "Content-Encoding" not in small.headers


def test_zstd_is_what_the_gateway_reads(gateway: FakeGateway) -> None:
    from backports.zstd import decompress

    with Client(gateway.url, transport=gateway.transport, compression="zstd") as client:
        client.send(TOPIC, "x" * 2000)
    (request,) = gateway.requests
    assert request.headers["Content-Encoding"] == "zstd"
    assert json.loads(decompress(request.content)) == "x" * 2000


def test_an_unknown_compression_is_refused(gateway: FakeGateway) -> None:
    with pytest.raises(InvalidOptionError, match="compression"):
        Client(gateway.url, compression="br")  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["", "gateway:8080", "ftp://x", "http://", "http://:80", []])
def test_an_address_is_checked_at_once(url: str | list[str]) -> None:
    with pytest.raises(InvalidOptionError, match="url"):
        Client(url)


def _of_certificates() -> httpx.ConnectError:
    error = httpx.ConnectError("self-signed certificate")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (httpx.ConnectError("refused"), (False, None)),
        (httpx.ConnectTimeout("late"), (False, None)),
        (httpx.PoolTimeout("full"), (False, None)),
        (httpx.ReadTimeout("late"), (True, None)),
        (httpx.WriteError("reset"), (True, None)),
        (httpx.RemoteProtocolError("disconnected"), (True, None)),
        (RuntimeError("closed"), (True, None)),
        (_of_certificates(), (None, "unreachable")),
        (httpx.LocalProtocolError("bad header"), (None, "not_sent")),
    ],
)
def test_what_may_have_arrived_is_told_from_what_has_not(
    error: Exception, expected: tuple[bool | None, str | None]
) -> None:
    answer = classify(error)
    if isinstance(answer, Lost):
        assert (answer.was_sent, None) == expected
    else:
        assert isinstance(answer, Refused)
        assert (None, answer.reason) == expected
        assert not answer.retryable


class Attempts(Observer):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []

    def on_attempt(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)


async def test_each_attempt_is_reported(gateway: FakeGateway) -> None:
    heard = Attempts()
    async with AsyncClient(
        gateway.url, transport=gateway.transport, retry=AT_ONCE, observer=heard
    ) as client:
        gateway.next(Refuse("overloaded"), Lose(is_written=False))
        await client.send_batch(TOPIC, [1, 2])
    assert [(one.number, one.result, one.status, one.events) for one in heard.attempts] == [
        (1, "overloaded", 503, 2),
        (2, "no_answer", None, 2),
        (3, "ended", 200, 2),
    ]
    assert all(one.duration_s >= 0 and one.content_bytes for one in heard.attempts)


def test_what_fails_is_in_the_log(gateway: FakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    with Client(gateway.url, transport=gateway.transport) as client:
        gateway.next(Refuse("forbidden"))
        client.send_batch(TOPIC, [1, 2])
    (error,) = caplog.records
    assert error.levelno == logging.ERROR
    assert "2 events rejected: forbidden" in error.getMessage()


def test_a_batch_of_nothing_and_one_of_two_forms(gateway: FakeGateway) -> None:
    event = CloudEvent(id="1", source="/s", type="t", data=2)
    with Client(gateway.url, transport=gateway.transport) as client:
        assert client.send_batch(TOPIC, []) == []
        assert len(client.send_batch(TOPIC, [1, event, 3])) == 3
        with pytest.raises(InvalidEventError, match="idempotency_key"):
            client.send_batch(TOPIC, [1, event], idempotency_key="k")
    assert [one.value for one in gateway.records(TOPIC)] == [1, 2, 3]


async def test_events_of_a_producer_whose_client_is_closed_are_not_sent(
    gateway: FakeGateway,
) -> None:
    client = Client(gateway.url, transport=gateway.transport)
    producer = BufferedProducer(client, buffering=Buffering(linger_s=60))
    future = producer.send(TOPIC, 1)
    client.close()
    producer.close()
    aio = AsyncClient(gateway.url, transport=gateway.transport)
    background = AsyncBufferedProducer(aio, buffering=Buffering(linger_s=60))
    other = await background.send(TOPIC, 1)
    await aio.close()
    await background.close()
    for outcome in (future.result(), other.result()):
        assert isinstance(outcome, Rejected)
        assert (outcome.reason, outcome.detail) == ("not_sent", "the client was closed")
    assert gateway.requests == []
    with pytest.raises(AttributeError, match="add_done_callback"):
        future.add_callback(print)


async def test_a_closed_client_sends_nothing(gateway: FakeGateway) -> None:
    client = Client(gateway.url, transport=gateway.transport)
    client.close()
    with pytest.raises(ClosedError):
        client.send(TOPIC, 1)
    aio = AsyncClient(gateway.url, transport=gateway.transport)
    await aio.close()
    with pytest.raises(ClosedError):
        await aio.send(TOPIC, 1)


def test_control_characters_do_not_reach_the_log(caplog: pytest.LogCaptureFixture) -> None:
    odd = "a\x1b[31m\nb\u202e\x9b"
    known = {"events": 1, "content_bytes": 1, "number": 1, "duration_s": 0.1}
    attempt = Attempt(topic="deals", result="bad_answer", detail=odd, **known)
    AttemptReports(None).report(attempt, is_retryable=True)
    report_outcomes(
        None, [Rejected(topic="deals", reason="bad_answer", detail=odd, retryable=False)]
    )
    assert len(caplog.messages) == 2
    for line in caplog.messages:
        assert line.isprintable()
        assert "a\\x1b[31m\\nb\\u202e\\x9b" in line


def test_an_outage_of_a_topic_is_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    seen: list[int] = []

    class Numbers(Observer):
        def on_attempt(self, attempt: Attempt) -> None:
            seen.append(attempt.number)

    reports = AttemptReports(Numbers(), lambda: now_s)
    common: dict[str, Any] = {"events": 2, "content_bytes": 1, "duration_s": 0.5}
    failed = {**common, "result": "unreachable", "detail": "why"}
    ended = {**common, "result": "ended", "status": 200}
    for number in (1, 2, 3):
        now_s = float(number)
        reports.report(Attempt(topic="orders", number=number, **failed), is_retryable=True)
        reports.report(Attempt(topic="deals", number=1, **ended), is_retryable=False)
    reports.report(Attempt(topic="orders", number=4, **failed), is_retryable=False)  # an outcome
    now_s = 5.5
    for number in (5, 6):
        reports.report(Attempt(topic="orders", number=number, **ended), is_retryable=False)
    assert caplog.messages == [
        "orders: 2 events, attempt 1 failed: unreachable (why); "
        "more failed attempts are logged at the end of the outage",
        "orders: the outage ended after 5.0 s and 3 failed attempts",
    ]
    assert seen == [1, 1, 2, 1, 3, 1, 4, 5, 6]


def test_the_log_of_a_producer_has_two_lines_for_an_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gateway = FakeGateway()
    gateway.next(*[Refuse("overloaded")] * 5, Lose(is_written=True))
    retry = Retry(first_wait_s=0)
    with (
        Client(gateway.url, transport=gateway.transport, retry=retry) as client,
        BufferedProducer(client, buffering=Buffering(in_flight=1)) as producer,
    ):
        for number in range(20):
            producer.send(TOPIC, number, key=str(number))
    begin, end = caplog.messages
    assert "attempt 1 failed: overloaded" in begin
    assert re.fullmatch(r"orders: the outage ended after [\d.]+ s and 6 failed attempts", end)


def test_a_token_never_shows_in_an_error(
    gateway: FakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    for token in ("SEC\nRET", "SECRÉT", " "):
        with pytest.raises(InvalidOptionError) as refused:
            Client(gateway.url, transport=gateway.transport, token=token)
        assert "SEC" not in str(refused.value)
        once = Retry(first_wait_s=0, patience_s=0)
        with Client(
            gateway.url, transport=gateway.transport, token=lambda t=token: t, retry=once
        ) as client:
            outcome = client.send(TOPIC, 1)
        assert isinstance(outcome, Rejected)
        assert outcome.reason == "not_sent"
        assert "SEC" not in outcome.detail + caplog.text
    with Client(gateway.url, transport=gateway.transport, token="SECRET\n") as client:
        assert client.send(TOPIC, 1).succeeded
    assert gateway.requests[-1].headers["Authorization"] == "Bearer SECRET"


@pytest.mark.parametrize("port", [0, 65_536, 99_999])
def test_a_port_that_does_not_exist_is_refused_at_once(port: int) -> None:
    with pytest.raises(InvalidOptionError, match="a port is a number from 1 to 65535"):
        Client(f"http://gateway:{port}")
