"""Memory of events in flight: their values once, and little beside them; and afterwards nothing."""

import asyncio
import gc
import tracemalloc
from contextlib import ExitStack

import pytest

from headgate.devstack.ports import LOOPBACK
from headgate.model.publish import Ticket
from support.clients.http_client import NDJSON, events_path, request_bytes
from support.gateway.data_plane_world import PromptRoom, data_port
from support.process.stack import eventually

REQUESTS, EVENTS = 8, 250
VALUE_BYTES = 650
PER_EVENT_BYTES = 1_600  # measured: 1,322 and 1,370, and 2,250 while the body was kept
WAYS = [{}, {"Content-Encoding": "identity"}]


class HoldingRoom(PromptRoom):
    """Kafka stands still until the test lets it go on."""

    stands_still = True

    def run(self) -> None:
        if not self.stands_still:
            super().run()


def batch(number: int) -> bytes:
    starts = [b'{"id":"%d","text":"' % (number * EVENTS + each) for each in range(EVENTS)]
    return b"\n".join(start.ljust(VALUE_BYTES - 2, b"x") + b'"}' for start in starts)


@pytest.mark.parametrize("way", WAYS, ids=["plain", "aiohttp"])
async def test_an_event_in_flight_has_its_value_once(way: dict[str, str]) -> None:
    room = HoldingRoom(max_bytes=100_000_000)
    room.build(batch_max_events=EVENTS)
    async with data_port(room) as port:
        opened = [await asyncio.open_connection(LOOPBACK, port.port) for _ in range(REQUESTS)]
        headers = {**NDJSON, **way}
        posts = [
            request_bytes("POST", events_path("clicks"), headers, batch(number))
            for number in range(REQUESTS)
        ]

        async def post(numbers: range) -> int:
            """Return the bytes that were allocated until these are in the lanes."""
            before = tracemalloc.get_traced_memory()[0]
            waiting = room.admission.events + EVENTS * len(numbers)
            for number in numbers:
                opened[number][1].write(posts[number])
            await eventually(lambda: sum(map(len, room.lanes.queues.values())) == waiting)
            gc.collect()
            return tracemalloc.get_traced_memory()[0] - before

        with ExitStack() as ending:
            for _, writer in opened:
                ending.callback(writer.close)
            tracemalloc.start()
            ending.callback(tracemalloc.stop)
            await post(range(1))
            grown = await post(range(1, REQUESTS))
            assert grown < PER_EVENT_BYTES * EVENTS * (REQUESTS - 1)
            room.stands_still = False
            room.run()
            for reader, _ in opened:
                assert (await reader.readline()).split()[1] == b"200"


@pytest.mark.parametrize("way", WAYS, ids=["plain", "aiohttp"])
async def test_a_refused_request_leaves_nothing_to_the_collector(way: dict[str, str]) -> None:
    """It runs rarely: while Kafka stood still, the bodies of refused batches took 1.3 GiB."""
    async with data_port() as port:
        gc.collect()
        gc.disable()
        try:
            answer = await port.post("none", batch(0), {**NDJSON, **way})
            assert answer.status == 404
            await asyncio.sleep(0)
            assert [each for each in gc.get_objects() if isinstance(each, Ticket)] == []
        finally:
            gc.enable()
