"""The id of a refused request is in the log, with its reason, and floods are counted."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

from headgate.admin.app import management_app
from headgate.config.settings import (
    AuthSettings,
    HttpSettings,
    LogSettings,
    ProducerSettings,
    Settings,
)
from headgate.http.auth import Authenticator
from headgate.http.request_log import LINES, MAX_PRODUCERS, WINDOW_S, RequestLog
from headgate.metrics import logs
from headgate.model.outcome import TRAITS, Failure, Outcome, OutcomeName, Reason, rejected
from headgate.model.publish import Ticket
from headgate.supervisor.control import Forward
from support.gateway.admin_world import TOPICS, FakeInstance, admin_of
from support.gateway.data_plane_world import DataPort, PromptRoom, data_port

JSON = {"Content-Type": "application/json"}
GOOD = b'{"id": 1}'


class Written:
    """What has gone to the log, as objects."""

    def __init__(self) -> None:
        self.stream = StringIO()

    def lines(self, logger: str = logs.REQUESTS) -> list[dict[str, Any]]:
        every = [orjson.loads(line) for line in self.stream.getvalue().splitlines()]
        return [line for line in every if line["logger"] == logger]

    def of(self, request_id: str) -> dict[str, Any]:
        (line,) = [one for one in self.lines() if one["request_id"] == request_id]
        return line


@pytest.fixture
def written() -> Iterator[Written]:
    root, found = logging.getLogger(), Written()
    before, level = root.handlers[:], root.level
    logs.configure(LogSettings(), found.stream)
    yield found
    root.handlers[:] = before
    root.setLevel(level)


@pytest.fixture
async def port() -> AsyncIterator[DataPort]:
    async with data_port(PromptRoom(), HttpSettings(body_max_bytes=10_000)) as running:
        yield running


class Timers:
    """Calls what is due when it is told to."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def __call__(self, seconds: float, call: Callable[[], None]) -> None:
        assert seconds == WINDOW_S
        self.calls.append(call)

    def ring(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


LONG = {"Origin": "http://gateway"}  # takes aiohttp's way through the server


@pytest.mark.parametrize("way", [{}, LONG], ids=["short", "long"])
async def test_the_id_of_the_answer_is_in_the_log(
    port: DataPort, written: Written, way: dict[str, str]
) -> None:
    headers = {**JSON, **way, "Headgate-Producer": "shop"}
    for body, reason, status in (
        (b"{", "malformed", 400),
        (b"{}", "missing_key", 422),
        (b'{"id": "' + b"x" * 20_000 + b'"}', "too_large", 413),
    ):
        answer = await port.post("orders", body, headers)
        assert answer.status == status
        line = written.of(answer.headers["x-request-id"])
        known = (line["level"], line["reason"], line["status"], line["producer"], line["topic"])
        assert known == ("INFO", reason, status, "shop", "orders")
    given = await port.post("nowhere", GOOD, {**headers, "X-Request-Id": "mine-17"})
    assert given.status == 404
    assert written.of("mine-17")["reason"] == "unknown_topic"
    named = await port.post("orders", GOOD, {**JSON, **way, "Headgate-Producer": ""})
    assert written.of(named.headers["x-request-id"])["reason"] == "malformed"


@pytest.mark.parametrize("way", [{}, LONG], ids=["short", "long"])
@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (Reason.QUOTA_EXCEEDED, 429), (Reason.INTERNAL, 500), (Reason.BROKER_REFUSED, 502),
        (Reason.OVERLOADED, 503), (Reason.KAFKA_UNAVAILABLE, 503), (Reason.UNKNOWN, 504),
    ],
)  # fmt: skip
async def test_so_is_that_of_what_is_ours(
    port: DataPort, written: Written, way: dict[str, str], reason: Reason, status: int
) -> None:
    for partition in range(100):
        port.room.lanes.refusing[partition] = Failure(reason, f"for {partition}")
    answer = await port.post("orders", GOOD, {**JSON, **way, "X-Request-Id": "r-1"})
    assert answer.status == status
    line = written.of("r-1")
    assert (line["level"], line["reason"]) == (TRAITS[reason].log_level, reason)


async def test_of_a_batch_there_is_one_line(port: DataPort, written: Written) -> None:
    body = b'[{"id": 1}, {}, {"id": 2}, {}, {"id": []}]'
    answer = await port.post("orders", body, JSON)
    assert answer.status == 207
    line = written.of(answer.headers["x-request-id"])
    assert line["events"] == 5
    assert line["reasons"] == {"missing_key": 2, "invalid_key": 1}


async def test_requests_without_a_handler_are_logged(port: DataPort, written: Written) -> None:
    for method, path, reason in (
        ("GET", "/nothing", "not_found"),
        ("GET", "/v1/topics/orders/events", "method_not_allowed"),
    ):
        answer = await port.ask(method, path)
        line = written.of(answer.headers["x-request-id"])
        assert (line["reason"], line["path"]) == (reason, path)
    broken = await port.post("orders", GOOD, {**JSON, "Broken\x00Name": "x"})
    assert broken.status == 400
    assert written.of(broken.headers["x-request-id"])["reason"] == "malformed"


async def test_the_compatible_paths(port: DataPort, written: Written) -> None:
    v2 = {"Content-Type": "application/vnd.kafka.json.v2+json"}
    for path, headers, body, reason, status in (
        ("/topics/orders", JSON, b"{}", "unsupported_encoding", 415),
        ("/topics/nowhere", v2, b'{"records": [{"value": 1}]}', "unknown_topic", 404),
        ("/topics/orders", v2, b"{", "malformed", 400),
        ("/v3/clusters/x/topics/orders/records", {}, b"{}", "unsupported_encoding", 415),
        ("/consumers/x", {}, b"", "not_found", 404),
    ):
        answer = await port.ask("POST", path, headers, body)
        line = written.of(answer.headers["x-request-id"])
        assert answer.status == line["status"] == status, line
        assert line["reason"] == reason
        assert reason == "malformed" or line["remote"] == "127.0.0.1"
    one_wrong = b'{"records": [{"key": 1, "value": 1}, {"value": 1, "partition": 999}]}'
    answer = await port.ask("POST", "/topics/orders", v2, one_wrong)
    line = written.of(answer.headers["x-request-id"])
    assert (answer.status, line["events"], line["reasons"]) == (200, 2, {"unknown_partition": 1})


async def test_where_both_ports_are_one_and_nobody_answers(
    written: Written, tmp_path: Path
) -> None:
    forward = Forward(tmp_path)
    async with data_port(others=forward) as port:
        answer = await port.ask("GET", "/v1/producers")
        line = written.of(answer.headers["x-request-id"])
        assert answer.status == 503
        assert (line["level"], line["path"]) == ("WARNING", "/v1/producers")
        await forward.close()


async def test_good_requests_are_not_in_the_log(port: DataPort, written: Written) -> None:
    for way in ({}, LONG):
        assert (await port.post("orders", GOOD, {**JSON, **way})).status == 201
    assert written.stream.getvalue() == ""


async def test_every_request_is_where_that_is_wanted(written: Written) -> None:
    async with data_port(request_log=RequestLog(logs_every_request=True)) as port:
        for way in ({}, LONG):
            answer = await port.post("orders", GOOD, {**JSON, **way, "Headgate-Producer": "shop"})
            *_, line = written.lines(logs.ACCESS)
            assert line["request_id"] == answer.headers["x-request-id"]
            assert line["remote"] == "127.0.0.1"
            known = (line["method"], line["path"], line["status"], line["bytes"], line["producer"])
            assert known == ("POST", "/v1/topics/orders/events", 201, len(GOOD), "shop")
            assert line["ms"] >= 0
        answer = await port.post("orders", GOOD, {**JSON, "Headgate-Producer": "shop"}, "?key=1")
        *_, line = written.lines(logs.ACCESS)
        assert (line["request_id"], line["status"]) == (answer.headers["x-request-id"], 201)
        await port.ask("GET", "/live")
        await port.post("orders", GOOD, {**JSON, "Headgate-Producer": ""})
        *_, live, refused = written.lines(logs.ACCESS)
        assert (live["path"], live["status"]) == ("/live", 200)
        assert refused["status"] == 400
        assert live["remote"] == refused["remote"] == "127.0.0.1"


async def test_management_pages_have_ids_and_lines(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = FakeInstance(Settings(topics=TOPICS))
    app = management_app(admin_of(instance), logs_every_request=True)
    async with TestClient(TestServer(app)) as client:
        headers = {"Headgate-Producer": "till"}
        for path, reason in (("/v1/topics/none", "unknown_topic"), ("/none", "not_found")):
            answer = await client.get(path, headers=headers)
            problem = json.loads(await answer.read())
            line = written.of(answer.headers["X-Request-Id"])
            assert (line["reason"], line["path"], problem["instance"]) == (
                reason, path, line["request_id"],
            )  # fmt: skip
            assert line["remote"] == "127.0.0.1"
        instance.failure = Failure(Reason.REDIS_UNAVAILABLE, "away", retry_after_s=2)
        answer = await client.delete("/v1/suppression/deals", headers=headers)
        line = written.of(answer.headers["X-Request-Id"])
        assert (answer.status, line["level"], line["producer"]) == (503, "WARNING", "till")

        async def broken(at_once: bool = False) -> None:
            raise ValueError(at_once)

        monkeypatch.setattr(instance, "refresh", broken)
        answer = await client.get("/v1/topics", headers=headers)
        assert answer.status == 500
        assert written.of(answer.headers["X-Request-Id"])["level"] == "ERROR"
        good = await client.get("/live")
        assert good.headers["X-Request-Id"]
    shown = [(one["path"], one["status"]) for one in written.lines(logs.ACCESS)]
    assert shown[-2:] == [("/v1/topics", 500), ("/live", 200)]


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_has_its_level(written: Written, reason: Reason) -> None:
    logging.getLogger().setLevel("DEBUG")
    reported = RequestLog(later=Timers())
    reported.refused(Failure(reason, "why"), "r-1", producer="shop", topic="orders")
    ticket = Ticket("orders", "shop", "r-2", 0.0)
    ticket.outcomes = [rejected(Failure(reason, "why"))]
    reported.ended(ticket, TRAITS[reason].status)
    for request_id in ("r-1", "r-2"):
        line = written.of(request_id)
        traits = TRAITS[reason]
        assert (line["level"], line["status"]) == (traits.log_level, traits.status)
        assert (line["reason"], line["text"]) == (reason, f"{reason}: why")


def test_the_worst_of_a_batch_gives_its_level(written: Written) -> None:
    reported, ticket = RequestLog(later=Timers()), Ticket("orders", "shop", "r-1", 0.0)
    reasons = (Reason.MISSING_KEY, Reason.UNKNOWN, Reason.MISSING_KEY)
    ticket.outcomes = [
        Outcome(OutcomeName.PUBLISHED),
        *(rejected(Failure(one, "")) for one in reasons),
    ]
    ticket.is_batch = True
    reported.ended(ticket, 207)
    assert (written.of("r-1")["level"], written.of("r-1")["reason"]) == ("WARNING", "unknown")


def test_a_flood_of_one_producer_hides_nothing_of_others(written: Written) -> None:
    timers = Timers()
    reported = RequestLog(later=timers)
    for producer in ("loud", "quiet"):
        for number in range(100 if producer == "loud" else 2):
            failure = Failure(Reason.MISSING_KEY, "why")
            reported.refused(failure, f"{producer}-{number}", producer=producer)
    lines = [one["producer"] for one in written.lines()]
    assert lines == ["loud"] * LINES + ["quiet"] * 2
    timers.ring()
    assert [(one["producer"], one["left_out"]) for one in written.lines()[LINES + 2 :]] == [
        ("loud", 100 - LINES)
    ]


def test_a_flood_of_producers_is_bounded(written: Written) -> None:
    timers = Timers()
    reported = RequestLog(later=timers)
    for number in range(1000):
        failure = Failure(Reason.MISSING_KEY, "why")
        reported.refused(failure, f"r-{number}", producer=f"p-{number}")
    assert len(written.lines()) == MAX_PRODUCERS + LINES
    timers.ring()
    (last,) = written.lines()[MAX_PRODUCERS + LINES :]
    assert last["left_out"] == 1000 - MAX_PRODUCERS - LINES
    assert timers.calls == []


@pytest.mark.parametrize("reason", [Reason.MALFORMED, Reason.OVERLOADED, Reason.INTERNAL])
def test_a_flood_is_counted(written: Written, reason: Reason) -> None:
    timers = Timers()
    reported = RequestLog(later=timers)
    for number in range(1000):
        reported.refused(Failure(reason, "why"), f"r-{number}", topic="orders")
    reported.refused(Failure(Reason.NOT_FOUND, "another"), "other", path="/x")
    assert [one["request_id"] for one in written.lines()] == [
        *(f"r-{number}" for number in range(LINES)), "other",
    ]  # fmt: skip
    timers.ring()
    last = written.lines()[-1]
    assert (last["left_out"], last["request_id"]) == (1000 - LINES, "r-999")
    assert len(written.lines()) == LINES + 2, "nothing was left out of the other"
    reported.refused(Failure(reason, "why"), "later", topic="orders")
    assert written.of("later")
    for number in range(LINES):
        reported.refused(Failure(reason, "why"), f"again-{number}", topic="orders")
    reported.close()
    assert written.lines()[-1]["left_out"] == 1


TOKEN = {"Authorization": "Bearer shop-token-of-tests"}
V2 = {"Content-Type": "application/vnd.kafka.json.v2+json"}


def with_a_shop(limit: int = 10) -> Settings:
    """The producer `shop`, which may post to `deals` only, and has no role."""
    digest = hashlib.sha256(b"shop-token-of-tests").hexdigest()
    producers = {"shop": ProducerSettings((digest,), ("deals",))}
    auth = AuthSettings(mode=("token",), failed_attempts_per_minute=limit)
    return Settings(topics=TOPICS, auth=auth, producers=producers)


def of_the_shop(limit: int = 10) -> Authenticator:
    settings = with_a_shop(limit)
    return Authenticator(settings.auth, settings.producers)


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", "/v1/topics/orders/events", JSON),
        ("POST", "/v1/topics/orders/events", {**JSON, **LONG}),
        ("POST", "/topics/orders", V2),
        ("POST", "/topics/orders/partitions/0", V2),
        ("POST", "/v3/clusters/x/topics/orders/records", JSON),
        ("GET", "/topics/orders", {}),
    ],
)
async def test_a_producer_that_may_not_post_to_a_topic_is_named(
    written: Written, method: str, path: str, headers: dict[str, str]
) -> None:
    async with data_port(callers=of_the_shop()) as port:
        answer = await port.ask(method, path, {**headers, **TOKEN}, GOOD)
    assert answer.status == 403
    line = written.of(answer.headers["x-request-id"])
    assert (line["reason"], line["producer"]) == ("forbidden", "shop")


async def test_a_caller_without_the_role_is_named(written: Written) -> None:
    app = management_app(admin_of(FakeInstance(with_a_shop())))
    async with TestClient(TestServer(app)) as client:
        answer = await client.delete("/v1/suppression/deals", headers=TOKEN)
        assert answer.status == 403
        line = written.of(answer.headers["X-Request-Id"])
    assert (line["reason"], line["producer"]) == ("forbidden", "shop")


@pytest.mark.parametrize("path", ["/v1/topics/deals/events", "/topics/deals"])
async def test_a_wrong_token_counts_once(path: str) -> None:
    async with data_port(callers=of_the_shop(limit=2)) as port:
        statuses = []
        for number in range(3):
            wrong = {**V2, "Authorization": f"Bearer wrong-{number}"}
            statuses.append((await port.ask("POST", path, wrong, GOOD)).status)
    assert statuses == [401, 401, 429]
