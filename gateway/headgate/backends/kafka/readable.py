"""Where the next record is that a group could read: past transactions' markers and aborted records.

An offset says nothing of that, and no request of Kafka's asks for it, so a little is read.
"""

import asyncio
import logging
from collections.abc import Mapping

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError
from aiokafka.structs import TopicPartition

from headgate.backends.kafka.options import ClusterOptions
from headgate.core.groups.facts import Partition
from headgate.kafka.closing import drop_client
from headgate.kafka.consumers import open_consumer

log = logging.getLogger("headgate.backends.readable")

_LONG_S, _WAIT_MS, _STOP_S = 5.0, 100, 3.0
_PARTITION_BYTES = 65_536  # of one partition in one answer
_ANSWER_BYTES = 4 * 1024 * 1024


async def first_readable(
    options: ClusterOptions, spans: Mapping[Partition, tuple[int, int]]
) -> dict[Partition, int]:
    """Return the offset of the first record in each span, or the span's end if it holds none.

    spans: by partition, the first offset and the one behind the last. A partition lacks where that
    cannot be told in a few seconds, such as with a transaction that is open; one that may not be
    read counts as one with a record. Raises nothing.
    """
    found: dict[Partition, int] = {}
    if not spans:
        return found
    consumer = open_consumer(
        options,
        client_id="headgate-monitor",
        isolation_level="read_committed",
        auto_offset_reset="none",
        fetch_max_wait_ms=_WAIT_MS,
        max_partition_fetch_bytes=_PARTITION_BYTES,
        fetch_max_bytes=_ANSWER_BYTES,
    )
    try:
        async with asyncio.timeout(_LONG_S):
            await consumer.start()
            await _read(consumer, spans, found)
    except (KafkaError, OSError, TimeoutError) as error:
        log.info("readable ranges of %d partitions are unknown: %r", len(spans) - len(found), error)
    finally:
        await _stop(consumer)
    return found


async def _read(
    consumer: AIOKafkaConsumer,
    spans: Mapping[Partition, tuple[int, int]],
    found: dict[Partition, int],
) -> None:
    consumer.assign([TopicPartition(*place) for place in spans])
    for place, (start, _) in spans.items():
        consumer.seek(TopicPartition(*place), start)
    left = set(spans)
    while left:
        try:
            batches = await consumer.getmany(timeout_ms=_WAIT_MS)
        except TopicAuthorizationFailedError as error:
            denied = {place for place in left if place.topic in error.args}
            if not denied:
                raise
            consumer.pause(*(TopicPartition(*place) for place in denied))
            left -= denied
            # As if there were one: nothing shows that there is none, and it is not asked again.
            found.update((place, spans[place][0]) for place in denied)
            continue
        for tp, records in batches.items():
            place = Partition(*tp)
            if place in left:
                found[place] = min(records[0].offset, spans[place][1])
        for place in left - found.keys():
            # aiokafka moves on over what it does not hand out.
            if await consumer.position(TopicPartition(*place)) >= spans[place][1]:
                found[place] = spans[place][1]
        consumer.pause(*(TopicPartition(*place) for place in left & found.keys()))
        left -= found.keys()


async def _stop(consumer: AIOKafkaConsumer) -> None:
    try:
        async with asyncio.timeout(_STOP_S):
            await consumer.stop()
    except (KafkaError, OSError, TimeoutError):
        await drop_client(consumer._client)
