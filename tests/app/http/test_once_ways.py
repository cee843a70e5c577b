"""Requests with an Idempotency-Key are answered the same on the short way and on aiohttp's."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from headgate.http.connection import PlainPosts
from headgate.idempotency.client import IdentityClient
from headgate.idempotency.identity import EventIdentity
from headgate.idempotency.rules import (
    CLAIM,
    DONE,
    ClaimCall,
    ClaimVerdict,
    names_of_keys,
    request_fingerprint,
    step_of,
)
from headgate.idempotency.store import IdentityOptions
from headgate.model.publish import Claim
from support.clients.http_client import JSON, NDJSON, Answer
from support.doubles.identity_store import MemoryIdentityStore, SharedIdentities
from support.gateway.data_plane_world import DataPort, PromptRoom, data_port
from support.gateway.meters import a_meter
from support.process.stack import eventually

SHORT, LONG = {}, {"Origin": "http://gateway"}  # the second takes aiohttp's way
WAYS = pytest.mark.parametrize("way", [SHORT, LONG], ids=["short", "long"])
BOTH = pytest.mark.parametrize(
    ("first_way", "second_way"), [(SHORT, SHORT), (SHORT, LONG), (LONG, SHORT), (LONG, LONG)]
)
GOOD = b'{"id":1}'


class HeldStore(MemoryIdentityStore):
    """Its calls wait that have a step with the letter that is held."""

    def __init__(self, shared: SharedIdentities) -> None:
        super().__init__(shared)
        self._held = b""
        self._waiters: list[asyncio.Event] = []
        self.waiting = 0

    def hold(self, letter: bytes = b"") -> None:
        """Let the others go on; without a letter, all."""
        self._held = letter
        for waiter in self._waiters:
            waiter.set()

    async def run(self, call: ClaimCall) -> Sequence[ClaimVerdict]:
        letters = {step.packed[:1] for step in call.operations}
        while self._held in letters:
            changed = asyncio.Event()
            self._waiters = [changed]
            self.waiting += 1
            await changed.wait()
            self.waiting -= 1
        return await super().run(call)


class World(NamedTuple):
    """A gateway that remembers in memory."""

    port: DataPort
    store: HeldStore
    shared: SharedIdentities

    async def post(
        self, body: bytes, key: str, way: dict[str, str], topic: str = "orders", **more: str
    ) -> Answer:
        kind = NDJSON if b"\n" in body else JSON
        return await self.port.post(topic, body, {**kind, "Idempotency-Key": key, **way, **more})

    @property
    def written(self) -> list[bytes]:
        return [publish.record.value or b"" for publish in self.port.room.written]


@asynccontextmanager
async def world(room: PromptRoom | None = None) -> AsyncIterator[World]:
    shared = SharedIdentities(lambda: time.monotonic() * 1000)
    store = HeldStore(shared)
    options = IdentityOptions(timeout_ms=30_000.0)
    client = IdentityClient(store, options, time.monotonic, os.urandom, a_meter())
    room = room or PromptRoom()
    room.build(identities=EventIdentity(client, "test", a_meter()))
    await client.start()
    try:
        async with data_port(room, identity=client) as port:
            yield World(port, store, shared)
    finally:
        store.hold()
        await client.close()


@pytest.fixture
async def at() -> AsyncIterator[World]:
    async with world() as running:
        yield running


def test_which_way_is_short() -> None:
    path, posts = "/v1/topics/orders/events", PlainPosts(100)
    plain = ((b"Host", b"h"), (b"Idempotency-Key", b"k"))
    assert posts.read(path, plain) is not None
    assert posts.read(path, (*plain, (b"Origin", b"x"))) is None
    assert posts.read(path, plain[1:]) is None


@BOTH
@pytest.mark.parametrize("body", [GOOD, b'{"id":1}\n{"id":2}\n'], ids=["single", "batch"])
async def test_a_repeat_is_replayed(
    at: World, body: bytes, first_way: dict[str, str], second_way: dict[str, str]
) -> None:
    first = await at.post(body, "k-1", first_way)
    again = await at.post(body, '"k-1"', second_way)
    assert (first.status, again.status) == (200 if b"\n" in body else 201, 200)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    ends = [first.document, again.document]
    one, other = (end.get("outcomes", [end]) for end in ends)
    assert [{**end, "outcome": "duplicate", "records": 0} for end in one] == other
    assert len(at.written) == len(one)


@BOTH
async def test_what_came_before_with_other_content_is_refused(
    at: World, first_way: dict[str, str], second_way: dict[str, str]
) -> None:
    assert (await at.post(GOOD, "k", first_way)).status == 201
    for body, more in ((b'{"id":2}', {}), (GOOD, {"Headgate-Header-A": "b"})):
        answer = await at.post(body, "k", second_way, **more)
        assert (answer.status, answer.document["reason"]) == (422, "idempotency_mismatch")
    other = await at.post(GOOD, "k", second_way, **{"Headgate-Producer": "other"})
    assert other.status == 201  # another scope
    assert at.written == [GOOD, GOOD]


@WAYS
async def test_what_another_gateway_runs_is_a_conflict(at: World, way: dict[str, str]) -> None:
    topic_id = at.port.room.pipeline.gate.open("orders").state.topic_id
    content = request_fingerprint(b"events", {b"content-type": b"application/json"}, GOOD)
    name = names_of_keys("test", topic_id, "anonymous").of(b"k")
    claim = Claim(name, content, b"t" * 12, 60_000.0)
    other = MemoryIdentityStore(at.shared)
    await other.connect()
    await other.run(ClaimCall(60_000.0, [step_of(claim, CLAIM)]))
    answer = await at.post(GOOD, "k", way)
    assert (answer.status, answer.document["reason"]) == (409, "idempotency_conflict")
    assert answer.headers["retry-after"] == "1"
    assert at.written == []


@BOTH
async def test_a_failed_request_leaves_its_key_unused(
    at: World, first_way: dict[str, str], second_way: dict[str, str]
) -> None:
    assert (await at.post(b"{}", "k", first_way)).status == 422
    assert (await at.post(b"{", "k", first_way)).status == 400
    assert (await at.post(GOOD, "k", second_way)).status == 201


@BOTH
async def test_the_rest_of_a_batch_is_tried_again(
    at: World, first_way: dict[str, str], second_way: dict[str, str]
) -> None:
    body = b'{"id":1}\n{"id":2,"x":1}\n{"no":1}\n'
    first = await at.post(body, "k", first_way)
    again = await at.post(body, "k", second_way)
    assert (first.status, again.status) == (207, 207)
    ends = [[end["outcome"] for end in one.document["outcomes"]] for one in (first, again)]
    assert ends == [["published", "published", "rejected"], ["duplicate", "duplicate", "rejected"]]
    assert "idempotency-replayed" not in again.headers
    assert len(at.written) == 2


@WAYS
async def test_keys_that_are_none_and_topics_that_are_not_there(
    at: World, way: dict[str, str]
) -> None:
    for key, topic, status, reason in (
        ("a b", "orders", 400, "malformed"),
        ("x" * 256, "orders", 400, "malformed"),
        ("", "orders", 400, "malformed"),
        ("k", "nowhere", 404, "unknown_topic"),
    ):
        answer = await at.post(GOOD, key, way, topic)
        assert (answer.status, answer.document["reason"]) == (status, reason)
    assert at.written == []
    assert at.port.room.admission.bytes == at.port.room.admission.events == 0


@WAYS
async def test_a_twin_in_flight_writes_nothing(at: World, way: dict[str, str]) -> None:
    at.store.hold(CLAIM)
    first = asyncio.create_task(at.post(GOOD, "k", way))
    await eventually(lambda: at.store.waiting == 1)
    assert at.written == []  # nothing is written before its key is claimed
    at.store.hold(DONE)
    await eventually(lambda: at.written == [GOOD])
    twin = asyncio.create_task(at.post(GOOD, "k", way))
    at.store.hold()
    statuses = sorted([(await first).status, (await twin).status])
    assert statuses in ([200, 201], [201, 409])
    assert at.written == [GOOD]


@WAYS
async def test_the_client_is_answered_once_a_repeat_would_be(
    at: World, way: dict[str, str]
) -> None:
    at.store.hold(DONE)
    first = asyncio.create_task(at.post(GOOD, "k", way))
    await eventually(lambda: at.store.waiting == 1)
    assert at.written == [GOOD]
    assert not first.done()
    at.store.hold()
    assert (await first).status == 201
    assert (await at.post(GOOD, "k", way)).headers["idempotency-replayed"] == "true"


@WAYS
async def test_it_is_answered_where_redis_is_lost_before_its_end_is_told(
    at: World, way: dict[str, str]
) -> None:
    at.store.hold(DONE)
    first = asyncio.create_task(at.post(GOOD, "k", way))
    await eventually(lambda: at.store.waiting == 1)
    at.shared.up = False
    at.store.hold()
    assert (await first).status == 201
    at.shared.up = True

    async def is_replayed() -> bool:
        answer = await at.post(GOOD, "k", way)
        return answer.headers.get("idempotency-replayed") == "true"

    while not await is_replayed():  # until it is connected, requests go past it
        assert at.written[0] == GOOD


@WAYS
async def test_without_redis_it_goes_on_and_says_so(at: World, way: dict[str, str]) -> None:
    at.shared.up = False
    for number in (1, 2):
        answer = await at.post(GOOD, "k", way)
        assert (answer.status, answer.headers["idempotency-bypassed"]) == (201, "true")
        assert len(at.written) == number
    refused = await at.post(b"{}", "k", way)
    assert refused.status == 422


@WAYS
async def test_the_order_on_a_connection_stays(at: World, way: dict[str, str]) -> None:
    answers = await asyncio.gather(*(at.post(b'{"id":%d}' % n, f"k-{n}", way) for n in range(40)))
    assert {answer.status for answer in answers} == {201}
    assert sorted(at.written) == sorted(b'{"id":%d}' % n for n in range(40))
    assert at.port.room.admission.bytes == at.port.room.admission.events == 0


class BrokenScanner:
    """A mistake of ours."""

    def one(self, body: bytes, /) -> Any:
        raise KeyError("a bug")

    lines = elements = one


@WAYS
async def test_a_mistake_of_ours_is_answered_and_leaves_the_key_unused(
    way: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    room = PromptRoom(scanner_for=lambda *_: BrokenScanner())  # type: ignore[arg-type, return-value]
    async with world(room) as at:
        for _ in range(2):  # else the second would be a conflict
            assert (await at.post(GOOD, "k", way)).status == 500
        assert room.admission.bytes == room.admission.events == 0
    assert "a bug" in caplog.text
