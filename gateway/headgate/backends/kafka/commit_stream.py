"""Reads `__consumer_offsets` from where it ends: every commit of a cluster, in its order.

Only records that count: what was committed in a transaction is there once that is committed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

from aiokafka.errors import UnknownTopicOrPartitionError, for_code
from aiokafka.structs import TopicPartition

from headgate.backends.kafka.options import ClusterOptions
from headgate.core.groups.commit_records import OffsetsRecord, read_record
from headgate.kafka.closing import drop_consumer
from headgate.kafka.consumers import open_consumer
from headgate.kafka.metadata import any_node, read_metadata

log = logging.getLogger("headgate.backends.commit_trail")

TOPIC = "__consumer_offsets"
_WAIT_MS = 500
_MAX_RECORDS = 500  # at a time: a few milliseconds of decoding


class CommitStream:
    """One reader of one cluster. `begin`, `so_far`, then `follow`; `close` in any case."""

    def __init__(self, options: ClusterOptions) -> None:
        self._consumer = open_consumer(
            options,
            client_id="headgate-monitor",
            isolation_level="read_committed",
            auto_offset_reset="latest",
        )
        self._first: dict[TopicPartition, list[Any]] = {}

    async def begin(self) -> bool:
        """Stand at the end of every partition, and read once: only that shows whether it may be
        read. False: no group has committed yet.

        Raises KafkaError (TopicAuthorizationFailedError where it may not be read), OSError.
        """
        await self._consumer.start()
        places = [TopicPartition(TOPIC, number) for number in range(await self._partitions())]
        if not places:
            return False
        self._consumer.assign(places)
        for place, end in (await self._consumer.end_offsets(places)).items():
            self._consumer.seek(place, end)
        self._first = await self._consumer.getmany(timeout_ms=_WAIT_MS)
        return True

    async def _partitions(self) -> int:
        """How many partitions the topic has; 0: it is not there. Its client may not have heard of
        it yet, so a node is asked."""
        client = self._consumer._client
        found = (await read_metadata(client, any_node(client), [TOPIC])).topics[TOPIC]
        if found.error == UnknownTopicOrPartitionError.errno:
            return 0
        if found.error:
            raise for_code(found.error)(TOPIC)
        return len(found.partitions)

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
