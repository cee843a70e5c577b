"""Reads the timestamps of the first records that a mirror lacks.

A driver that has just started has seen no ends of before, and would take what has waited for an
hour for new.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from headgate.kafka.aiokafka_internals import drop_consumer
from headgate.replays.segments import NO_TIMESTAMP
from headgate_spark.job.connections import Connection
from headgate_spark.job.errors import in_words
from headgate_spark.kafka.kafka_clients import CLIENT_ERRORS, open_consumer

log = logging.getLogger("headgate_spark.mirror.first_missing")

_LONG_S, _WAIT_MS = 10.0, 100
_PARTITION_BYTES, _ANSWER_BYTES = 65_536, 4 * 1024 * 1024


class Missing(NamedTuple):
    """Offsets of the source that are not mirrored: from `start` on, before `end`."""

    start: int
    end: int


async def first_timestamps(
    source: Connection, missing: Mapping[TopicPartition, Missing]
) -> dict[TopicPartition, int]:
    """Return the timestamp of the first record of each stretch, ms; NO_TIMESTAMP if it has none, or
    if the stretch holds no record. A partition that cannot be read in 10 s is left out."""
    found: dict[TopicPartition, int] = {}
    if not missing:
        return found
    consumer = open_consumer(
        source,
        fetch_max_wait_ms=_WAIT_MS,
        max_partition_fetch_bytes=_PARTITION_BYTES,
        fetch_max_bytes=_ANSWER_BYTES,
    )
    try:
        async with asyncio.timeout(_LONG_S):
            await consumer.start()
            await _read(consumer, missing, found)
    except CLIENT_ERRORS as error:
        count = len(missing) - len(found)
        log.info(
            "age of the first missing record is unknown for %d partitions: %s",
            count,
            in_words(error),
        )
    finally:
        await drop_consumer(consumer)
    return found


async def _read(
    consumer: AIOKafkaConsumer,
    missing: Mapping[TopicPartition, Missing],
    found: dict[TopicPartition, int],
) -> None:
    consumer.assign(list(missing))
    begins = await consumer.beginning_offsets(list(missing))
    for tp, (start, _) in missing.items():
        consumer.seek(tp, max(start, begins[tp]))
    left = set(missing)
    while left:
        batches = await consumer.getmany(*left, timeout_ms=_WAIT_MS)
        for tp, records in batches.items():
            is_missing = records[0].offset < missing[tp].end
            found[tp] = records[0].timestamp if is_missing else NO_TIMESTAMP
        for tp in left - found.keys():
            if await consumer.position(tp) >= missing[tp].end:  # markers and aborted records
                found[tp] = NO_TIMESTAMP
        consumer.pause(*(left & found.keys()))
        left -= found.keys()
