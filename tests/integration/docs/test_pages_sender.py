"""The sender of docs/publish/answers.md: against answers of every kind, and a real gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from headgate.core.http.reply import Reply, problem, reply
from headgate.core.outcome import Failure, Name, Outcome, Reason
from support import pages
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker

HEADERS = {"Headgate-Producer": "me"}
EVENTS = [{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "a", "n": 3}, {"id": "c", "n": 4}]
CONFIG = """
[clusters.main]
bootstrap_servers = "{bootstrap}"
[topics."{topic}"]
key = ["/id"]
"""


@pytest.fixture(scope="module")
def published_code() -> ModuleType:
    """The sender exactly as it stands in the page."""
    module = ModuleType("sender")
    (source,) = pages.sources("publish/answers", "python")
    exec(compile(source, "publish/answers.md", "exec"), module.__dict__)
    return module


class FlakyGateway:
    """Answers what it is told to, in that order; None = closes the connection."""

    def __init__(self) -> None:
        self.answers: list[Reply | None] = []
        self.bodies: list[list[Any]] = []
        self.host = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        lines = (await request.read()).split(b"\n")
        self.bodies.append([json.loads(line) for line in lines])
        answer = self.answers.pop(0)
        if answer is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return web.Response(
            body=answer.body,
            status=answer.status,
            content_type=answer.content_type,
            headers=dict(answer.headers),
        )


@pytest_asyncio.fixture
async def flaky() -> AsyncIterator[FlakyGateway]:
    gateway = FlakyGateway()
    runner = web.ServerRunner(web.Server(gateway.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    gateway.host = f"{host}:{port}"
    yield gateway
    await runner.cleanup()


class Attempt:
    """A sender that notes its waits instead of sleeping."""

    def __init__(self, code: ModuleType, host: str) -> None:
        self.waits: list[float] = []
        self._new_sender = partial(code.Sender, host, HEADERS, sleep=self.waits.append)

    async def send(self, events: Sequence[Any], **options: Any) -> list[str]:
        """Send, and return outcome or reason of each event."""
        with closing(self._new_sender()) as sender:
            outcomes = await asyncio.to_thread(sender.send, "deals", list(events), **options)
        return [one.get("reason", one["outcome"]) for one in outcomes]


def batch(*ends: tuple[str, Reason | None], retry_after_s: int | None = None) -> Reply:
    """The real gateway's answer to a batch. ends: key, and the reason if it failed."""
    outcomes = []
    for key, reason in ends:
        if reason is None:
            outcomes.append(Outcome(Name.PUBLISHED, 0, 1, key.encode(), "id", None, 1))
            continue
        name = Name.UNKNOWN if reason is Reason.UNKNOWN else Name.REJECTED
        failure = Failure(reason, "why", None, retry_after_s)
        outcomes.append(Outcome(name, key=key.encode(), failure=failure))
    return reply("deals", outcomes, True, False, "request")


def all_well(*keys: str) -> Reply:
    return batch(*((key, None) for key in keys))


async def test_it_repeats_only_what_failed_and_may_succeed(
    published_code: ModuleType, flaky: FlakyGateway
) -> None:
    unavailable = Reason.KAFKA_UNAVAILABLE
    flaky.answers = [
        batch(("a", unavailable), ("b", Reason.TOO_LARGE), ("a", unavailable), ("c", None)),
        all_well("a", "a"),
    ]
    ends = await Attempt(published_code, flaky.host).send(EVENTS)
    assert ends == ["published", "too_large", "published", "published"]
    assert flaky.bodies == [EVENTS, [EVENTS[0], EVENTS[2]]]


async def test_it_waits_at_least_retry_after_and_longer_each_time(
    published_code: ModuleType, flaky: FlakyGateway
) -> None:
    overloaded = problem(Failure(Reason.OVERLOADED, "full", None, 2), "request")
    flaky.answers = [*[overloaded] * 6, all_well("a")]
    attempt = Attempt(published_code, flaky.host)
    assert await attempt.send(EVENTS[:1]) == ["published"]
    bounds = [0.2 * 2**number for number in range(1, 7)]
    assert all(2 <= wait <= 2 + limit for wait, limit in zip(attempt.waits, bounds, strict=True))
    assert len({round(wait, 6) for wait in attempt.waits}) > 1


async def test_a_lost_connection_is_unknown_and_sent_again(
    published_code: ModuleType, flaky: FlakyGateway
) -> None:
    flaky.answers = [None, all_well("a")]
    assert await Attempt(published_code, flaky.host).send(EVENTS[:1]) == ["published"]
    assert flaky.bodies == [EVENTS[:1]] * 2


async def test_unknown_is_left_alone_when_repeats_do_harm(
    published_code: ModuleType, flaky: FlakyGateway
) -> None:
    flaky.answers = [batch(("a", Reason.UNKNOWN), ("b", None))]
    attempt = Attempt(published_code, flaky.host)
    assert await attempt.send(EVENTS[:2], repeat_unknown=False) == ["unknown", "published"]
    assert attempt.waits == []


async def test_an_older_state_never_overtakes_a_newer_one(
    published_code: ModuleType, flaky: FlakyGateway
) -> None:
    flaky.answers = [
        batch(("a", Reason.UNKNOWN), ("b", Reason.UNKNOWN), ("a", None), ("c", None)),
        all_well("b"),
    ]
    ends = await Attempt(published_code, flaky.host).send(EVENTS, is_state=True)
    assert ends == ["overtaken", "published", "published", "published"]
    assert flaky.bodies[1:] == [[EVENTS[1]]]


async def test_a_refused_request_is_not_repeated(
    published_code: ModuleType, flaky: FlakyGateway
) -> None:
    flaky.answers = [problem(Failure(Reason.FORBIDDEN, "no"), "request")]
    assert await Attempt(published_code, flaky.host).send(EVENTS) == ["forbidden"] * 4


@pytest.mark.parametrize("name", [name for name in Name if name not in ("rejected", "unknown")])
async def test_whatever_ended_well_is_not_repeated(
    published_code: ModuleType, flaky: FlakyGateway, name: Name
) -> None:
    flaky.answers = [reply("deals", [Outcome(name, key=b"a")], True, False, "request")]
    with closing(published_code.Sender(flaky.host, HEADERS)) as sender:
        (outcome,) = await asyncio.to_thread(sender.send, "deals", EVENTS[:1])
    assert outcome["outcome"] == name


async def test_it_gives_up_with_what_is_known(
    published_code: ModuleType, flaky: FlakyGateway
) -> None:
    late = problem(Failure(Reason.DRAINING, "ends", None, 1), "request")
    flaky.answers = [late]
    with closing(published_code.Sender(flaky.host, HEADERS, patience_s=0.5)) as sender:
        (outcome,) = await asyncio.to_thread(sender.send, "deals", EVENTS[:1])
    assert (outcome["outcome"], outcome["reason"]) == ("rejected", "draining")


@pytest.mark.kafka
async def test_the_real_gateway_takes_what_it_sends(
    published_code: ModuleType,
    kafka: RunningBroker,
    topic_name: str,
    start_gateway: Callable[..., Gateway],
) -> None:
    kafka.create_topic(topic_name, 2)
    gateway = start_gateway(CONFIG.format(bootstrap=kafka.bootstrap, topic=topic_name))
    host = gateway.url.removeprefix("http://")
    events = [{"id": f"k{number % 7}", "n": number} for number in range(100)] + [{"n": 100}]
    with closing(published_code.Sender(host, HEADERS)) as sender:
        outcomes = await asyncio.to_thread(sender.send, topic_name, events)
    assert [one["outcome"] for one in outcomes] == ["published"] * 100 + ["rejected"]
    assert outcomes[100]["reason"] == "missing_key"
    log = {(one.partition, one.offset): one.value for one in read_log(kafka.bootstrap, topic_name)}
    found = [log[one["partition"], one["offset"]] for one in outcomes[:100]]
    assert [json.loads(value or b"") for value in found] == events[:100]
    assert len(log) == 100
