"""Requests over a producer's share wait before the pipeline, and what its quota says."""

import asyncio
import math
import re
from collections.abc import Iterable

import pytest

from headgate.config.settings import ProducerSettings
from headgate.devstack.ports import LOOPBACK
from headgate.http.events import MAX_SHARE, REQUEST_BYTES, FairQueue
from headgate.ingest.admission import ProducerQuotas
from support.clients.http_client import JSON, Answer, events_path, request_bytes
from support.gateway.data_plane_world import DataPort, PromptRoom, data_port
from support.process.stack import eventually

FLOOD = 3 * MAX_SHARE // REQUEST_BYTES
COMPANY = 10  # each tenth request is another producer's
# Requests over the share: a request starts as long as those before it did not fill the share.
WAITING = FLOOD - FLOOD // COMPANY - math.ceil(MAX_SHARE / (REQUEST_BYTES + len(b'{"id":"1000"}')))
# The second is no request of the short way: its body is encoded.
WAYS = [{}, {"Content-Encoding": "identity"}]
ways = pytest.mark.parametrize("way", WAYS, ids=["short", "long"])


def of(producer: str, number: int, way: dict[str, str]) -> bytes:
    headers = {**JSON, **way, "Headgate-Producer": producer}
    return request_bytes("POST", events_path("orders"), headers, b'{"id":"%d"}' % (1000 + number))


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The next answer's status line and head."""
    head = await reader.readuntil(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    assert found is not None
    await reader.readexactly(int(found.group(1)))
    return head


def held_queue(max_wait_s: float) -> FairQueue:
    """A queue whose rounds begin only when the test says so."""
    return FairQueue(max_wait_s, round_s=3600.0)


async def flooded(port: DataPort, queue: FairQueue, way: dict[str, str]) -> list[bytes]:
    """The answers to many requests of `flood` at once, each on its connection.

    Some of `rest` come before and among them, as only a producer with company has to wait. Rounds
    begin after all have arrived.
    """
    opened = [await asyncio.open_connection(LOOPBACK, port.port) for _ in range(FLOOD + 1)]
    try:
        (reader, writer), *flood = opened
        writer.write(of("rest", 0, way))
        assert b" 201 " in await answer(reader)
        for number, (_, one) in enumerate(flood, 1):
            one.write(of("flood" if number % COMPANY else "rest", number, way))
        answers = asyncio.gather(*(answer(one) for one, _ in flood))
        await eventually(lambda: queue.waited == WAITING)
        while not answers.done():
            queue.begin_round()
            await asyncio.sleep(0.001)
        return await answers
    finally:
        for _, writer in opened:
            writer.close()


@ways
async def test_a_flood_waits_for_its_rounds_and_every_event_is_published_once(
    way: dict[str, str],
) -> None:
    queue = held_queue(30.0)
    async with data_port(queue=queue) as port:
        answers = await flooded(port, queue, way)
        assert {head.split(b" ")[1] for head in answers} == {b"201"}
        keys = [publish.record.key for publish in port.room.written]
        assert sorted(keys) == sorted(b"%d" % (1000 + number) for number in range(FLOOD + 1))
        assert (port.room.admission.bytes, port.room.admission.events) == (0, 0)


@ways
async def test_who_waits_too_long_is_refused_and_keeps_nothing(way: dict[str, str]) -> None:
    queue = held_queue(-1.0)  # any wait is too long
    async with data_port(queue=queue) as port:
        answers = await flooded(port, queue, way)
        refused = [head.lower() for head in answers if b" 503 " in head]
        assert len(refused) == WAITING
        assert all(b"retry-after: 1\r\n" in head for head in refused)
        assert len(port.room.written) == 1 + FLOOD - WAITING
        assert (port.room.admission.bytes, port.room.admission.events) == (0, 0)


# ---- quotas


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def quotas_of(**producers: ProducerSettings) -> ProducerQuotas:
    made = ProducerQuotas(1, Clock(), lambda _producer, _count: None)
    made.replace(producers)
    return made


def limits(answer: Answer) -> tuple[str | None, str | None]:
    return answer.headers.get("ratelimit"), answer.headers.get("ratelimit-policy")


@ways
@pytest.mark.parametrize(
    ("topic", "body", "statuses"),
    [("orders", b'{"id":"1"}', (201,)), ("orders", b'{"id":', (400,)), ("nowhere", b"{}", (404,))],
)
async def test_every_answer_to_who_has_a_quota_says_what_is_left(
    topic: str, body: bytes, statuses: Iterable[int], way: dict[str, str]
) -> None:
    quotas = quotas_of(shop=ProducerSettings(quota_events_per_s=10, quota_bytes_per_s=500))
    room = PromptRoom()
    room.build(spend_quota=quotas.check)
    async with data_port(room, quotas=quotas) as port:
        headers = {**JSON, **way, "Headgate-Producer": "shop"}
        first = await port.post("orders", b'{"id":"0"}', headers)
        assert limits(first) == (
            '"events";r=9;t=1, "bytes";r=490;t=1',
            '"events";q=10;w=1, "bytes";q=500;w=1;qu="content-bytes"',
        )
        answer = await port.post(topic, body, headers)
        assert answer.status in statuses
        assert limits(answer)[1] == limits(first)[1]
        for nobody in ("", "other"):
            answer = await port.post(topic, body, {**JSON, **way, "Headgate-Producer": nobody})
            assert limits(answer) == (None, None)
