"""Reads the map topic: what is committed there is the only authority on what has been mirrored."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from headgate.kafka.aiokafka_internals import drop_consumer
from headgate.replays.offset_map import MAP_TOPIC, MapEntry, read_bytes, read_entry
from headgate_spark.job.connections import Connection
from headgate_spark.kafka.kafka_clients import open_consumer

# An open transaction of a writer that died hides what is behind it until the broker ends it, 30 s
# (`transactions.TRANSACTION_TIMEOUT_MS`); the coordinator looks every 10 s.
HIDDEN_S = 90.0
_POLL_MS = 20  # an empty answer comes after this time, and says that the end is reached


class HiddenError(Exception):
    """Something committed may be there that cannot be seen: nothing may be concluded."""


async def read_map(
    target: Connection, starts: Mapping[int, int], see: Callable[[MapEntry], None]
) -> dict[int, int]:
    """Show every entry from these offsets on, up to what each partition had when it was asked.

    starts: an offset for each partition of the map topic that is read; 0 = all of it.  Returns
    where each reading ended, to be continued.  Raises HiddenError, MapError, KafkaError, OSError,
    TimeoutError.

    A transaction of another partition's writer hides what was committed behind its first record,
    so the end to be reached is the high watermark and not the last stable offset.
    """
    consumer = open_consumer(target, fetch_max_wait_ms=_POLL_MS)
    try:
        async with asyncio.timeout(HIDDEN_S):
            await consumer.start()
            return await _read(consumer, starts, see)
    except TimeoutError as error:
        raise HiddenError(
            f"{MAP_TOPIC} on cluster {target.name} could not be read to its end in {HIDDEN_S} s"
        ) from error
    finally:
        await drop_consumer(consumer)


async def _read(
    consumer: AIOKafkaConsumer, starts: Mapping[int, int], see: Callable[[MapEntry], None]
) -> dict[int, int]:
    tps = {TopicPartition(MAP_TOPIC, number): offset for number, offset in starts.items()}
    consumer.assign(list(tps))
    begins = await consumer.beginning_offsets(list(tps))
    for tp, offset in tps.items():
        consumer.seek(tp, max(offset, begins[tp]))
    ends: dict[TopicPartition, int] = {}
    reached: dict[int, int] = {}
    while len(reached) < len(tps):
        for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
            for entry in entries(records):
                see(entry)
        for tp in tps:
            end = consumer.highwater(tp)
            if end is None:
                continue
            # The first answer is younger than the start of the reading: that is enough.
            position = await consumer.position(tp)
            if position >= ends.setdefault(tp, end):
                reached[tp.partition] = position
    return reached


def entries(records: Iterable[object]) -> Iterable[MapEntry]:
    """What records of the map topic say."""
    for record in records:
        entry = read_entry(record.key, record.value)  # type: ignore[attr-defined]
        if entry is not None:
            headers = record.headers  # type: ignore[attr-defined]
            yield entry._replace(read_bytes=read_bytes(headers)) if headers else entry
