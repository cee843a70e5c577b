"""Reads a whole topic: from its first retained record to the end it had when the reading began."""

import asyncio
from collections.abc import Callable, Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from headgate.backends.kafka.options import ClusterOptions
from headgate.kafka.access import client_arguments
from headgate.kafka.header_names import keep_header_names

_SILENCE_S = 60.0  # longer than any leader change
_POLL_MS = 1000

Headers = Callable[[object], None]


class CutShortError(Exception):
    """Not every record was read."""


async def scan_headers(
    options: ClusterOptions,
    topic: str,
    partitions: int,
    see: Headers,
    report: Callable[[int], None],
) -> int:
    """Show every record's headers; how many records. Records of aborted transactions count, too.

    report: told now and then how many were read.  Raises CutShortError.
    """
    keep_header_names()
    consumer = AIOKafkaConsumer(
        **client_arguments(options),
        client_id="headgate-blobs",
        enable_auto_commit=False,
        auto_offset_reset="earliest",  # retention may take the first ones meanwhile
    )
    try:
        async with asyncio.timeout(_SILENCE_S):
            await consumer.start()
        places = [TopicPartition(topic, number) for number in range(partitions)]
        return await _scan(consumer, places, see, report)
    except (KafkaError, OSError, TimeoutError) as error:
        raise CutShortError(f"topic {topic} cannot be read: {error!r}") from error
    finally:
        await consumer.stop()


async def _scan(
    consumer: AIOKafkaConsumer,
    places: list[TopicPartition],
    see: Headers,
    report: Callable[[int], None],
) -> int:
    consumer.assign(places)
    async with asyncio.timeout(_SILENCE_S):
        begins = await consumer.beginning_offsets(places)
        ends = await consumer.end_offsets(places)
    at = {place: begins[place] for place in places if begins[place] < ends[place]}
    for place, offset in at.items():
        consumer.seek(place, offset)
    loop, count = asyncio.get_running_loop(), 0
    moved = loop.time()
    while at:
        batches = await consumer.getmany(*at, timeout_ms=_POLL_MS)
        for records in batches.values():
            for record in records:
                see(record.headers)
            count += len(records)
        report(count)
        before = at
        at = await _positions(consumer, at, ends)
        if batches or at != before:
            moved = loop.time()
        elif loop.time() - moved > _SILENCE_S:
            stuck = ", ".join(f"{place.partition} at {offset}" for place, offset in at.items())
            raise CutShortError(f"topic {places[0].topic}: nothing comes of partitions {stuck}")
    return count


async def _positions(
    consumer: AIOKafkaConsumer, at: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where it stands in those partitions that are not at their end."""
    now = {place: await consumer.position(place) for place in at}
    return {place: offset for place, offset in now.items() if offset < ends[place]}
