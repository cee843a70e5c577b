"""Reads `__consumer_offsets` from where it ends: every commit of a cluster, in its order.

Only records that count: what was committed in a transaction is there once that is committed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from headgate.backends.kafka.options import ClusterOptions
from headgate.core.groups.commit_records import OffsetsRecord, read_record
from headgate.kafka.access import client_arguments
from headgate.kafka.client_metadata import use_own_metadata
from headgate.kafka.closing import drop_consumer

log = logging.getLogger("headgate.backends.commit_trail")

TOPIC = "__consumer_offsets"
_WAIT_MS = 500
_MAX_RECORDS = 500  # at a time: a few milliseconds of decoding


class CommitStream:
    """One reader of one cluster. `begin`, `so_far`, then `follow`; `close` in any case."""

    def __init__(self, options: ClusterOptions) -> None:
        self._consumer = AIOKafkaConsumer(
            **client_arguments(options),
            client_id="headgate-monitor",
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="latest",
        )
        use_own_metadata(self._consumer._client)
        self._first: dict[TopicPartition, list[Any]] = {}

    async def begin(self) -> bool:
        """Stand at the end of every partition, and read once: only that shows whether it may be
        read. False: no group has committed yet.

        Raises KafkaError (TopicAuthorizationFailedError where it may not be read), OSError.
        """
        await self._consumer.start()
        self._consumer._client.add_topic(TOPIC)
        await self._consumer._client.force_metadata_update()
        numbers = self._consumer.partitions_for_topic(TOPIC)
        if not numbers:
            return False
        places = [TopicPartition(TOPIC, number) for number in sorted(numbers)]
        self._consumer.assign(places)
        for place, end in (await self._consumer.end_offsets(places)).items():
            self._consumer.seek(place, end)
        self._first = await self._consumer.getmany(timeout_ms=_WAIT_MS)
        return True

    async def so_far(self) -> list[OffsetsRecord]:
        """All records from where it began to where the log ends now. Raises as `begin`."""
        consumer = self._consumer
        ends = await consumer.end_offsets(sorted(consumer.assignment()))
        batches, self._first = self._first, {}
        found = list(_read(batches))
        while [one for one, end in ends.items() if await consumer.position(one) < end]:
            found += _read(await consumer.getmany(timeout_ms=_WAIT_MS, max_records=_MAX_RECORDS))
        return found

    async def follow(self, take: Callable[[OffsetsRecord], None]) -> None:
        """Hand every record from there on to `take`, in the order of each group.

        Ends by an error only.
        """
        batches, self._first = self._first, {}
        while True:
            for record in _read(batches):
                take(record)
            await asyncio.sleep(0)
            batches = await self._consumer.getmany(timeout_ms=_WAIT_MS, max_records=_MAX_RECORDS)

    async def close(self) -> None:
        """Drop it; bounded also when Kafka does not answer."""
        await drop_consumer(self._consumer)


def _read(batches: dict[TopicPartition, list[Any]]) -> Iterator[OffsetsRecord]:
    for records in batches.values():
        for record in records:
            try:
                found = read_record(record.key, record.value)
            except ValueError as error:
                log.warning("%s-%d: %s", TOPIC, record.partition, error)
                continue
            if found is not None:
                yield found
