"""Reads one partition of the source in chunks, from an offset on, and skips nothing silently."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from operator import attrgetter
from typing import Any

from aiokafka.errors import OffsetOutOfRangeError
from aiokafka.structs import TopicPartition

from headgate.kafka.closing import drop_consumer
from headgate_spark.copying.chunks import Chunk, SourceRecord
from headgate_spark.copying.copy_plan import CHUNK_S, CopyOptions
from headgate_spark.copying.throttle import BrokerBuckets
from headgate_spark.job.errors import SayingError, in_words
from headgate_spark.kafka.kafka_clients import CLIENT_ERRORS, open_consumer
from headgate_spark.kafka.topic_ids import topic_id

_STEP_S = 25.0
_RECORD_BYTES = 40  # what a record has beside key and value, roughly
_KEY_BYTES, _VALUE_BYTES = attrgetter("serialized_key_size"), attrgetter("serialized_value_size")


class ReadError(SayingError):
    """It could not be read now."""


class GoneError(SayingError):
    """The offset to be read next is not in the log."""


class RecreatedError(Exception):  # its name is what people are told
    """The topic is another one: it was deleted and recreated."""


class SourceReader:
    """A consumer of one partition. Every call but `drop` raises ReadError.

    is_behind: whether there was more when the last chunk was read. What comes while that is being
    written does not count: who writes small chunks all the time would never rest.
    """

    def __init__(self, tp: TopicPartition, options: CopyOptions, buckets: BrokerBuckets) -> None:
        self._tp, self._options = tp, options
        self._inner = open_consumer(
            options.source,
            max_partition_fetch_bytes=buckets.fetch_bytes(),
            fetch_max_wait_ms=500,
        )
        self._buckets = buckets
        self.bytes = 0  # that have come, compressed as they are
        self.is_behind = True
        self._answers = 0

    async def start(self) -> None:
        """Connect."""
        async with self._translated():
            await self._inner.start()
            self._buckets.throttle(self._inner._client, self._count)
            self._inner.assign([self._tp])

    async def bounds(self) -> tuple[int, int]:
        """The log's first offset, and the one behind the last stable one."""
        async with self._translated():
            begins = await self._inner.beginning_offsets([self._tp])
            ends = await self._inner.end_offsets([self._tp])
        return begins[self._tp], ends[self._tp]

    def seek(self, offset: int) -> None:
        """Go on there."""
        self._inner.seek(self._tp, offset)

    async def check(self, source_id: str) -> None:
        """Raise RecreatedError unless what was read so far is this topic's."""
        async with self._translated():
            found = await topic_id(self._inner._client, self._tp)
        if found != source_id:
            raise RecreatedError(f"its id is {found}, it was {source_id}")

    async def read(self, end: int | None) -> Chunk:
        """The next records, as many as a chunk takes or come in 200 ms, none from `end` on.

        Raises GoneError.
        """
        options, clock = self._options, asyncio.get_running_loop().time
        records: list[SourceRecord] = []
        size, until_s = 0, clock() + CHUNK_S
        answers, self.is_behind = self._answers, True
        async with self._translated():
            while len(records) < options.chunk_records and size < options.chunk_bytes:
                wait_s = until_s - clock()
                if wait_s <= 0:
                    break
                try:
                    more = await self._more(options.chunk_records - len(records), wait_s)
                except GoneError:
                    if records:  # they were there still: the next call says what is gone
                        return Chunk(records, records[-1].offset + 1)
                    raise
                records += more
                size += _bytes_of(more)
                position = await self._inner.position(self._tp)
                if end is not None and position >= end:
                    return _cut(records, end)
            position = await self._inner.position(self._tp)
            # An answer of before does not know the end of now: it was fetched ahead.
            stable = self._inner.last_stable_offset(self._tp) or 0
            self.is_behind = position < stable or answers == self._answers
            return Chunk(records, position)

    async def drop(self) -> None:
        """End it at once."""
        await drop_consumer(self._inner)

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        """Bound what is asked of the cluster."""
        try:
            async with asyncio.timeout(_STEP_S):
                yield
        except CLIENT_ERRORS as error:
            place = f"partition {self._tp.partition} of {self._tp.topic}"
            why = in_words(error)
            raise ReadError(f"cluster {self._options.source.name}: {place}: {why}") from error

    def _count(self, size: int) -> None:
        self.bytes += size
        self._answers += 1

    async def _more(self, limit: int, wait_s: float) -> list[SourceRecord]:
        try:
            found = await self._inner.getmany(
                self._tp, timeout_ms=int(wait_s * 1000), max_records=limit
            )
        except OffsetOutOfRangeError as error:
            raise GoneError(str(error)) from error
        records: list[SourceRecord] = found.get(self._tp, [])
        return records


def _bytes_of(records: Sequence[Any]) -> int:
    """aiokafka has measured them; the -1 of a key or value that is None does not matter here."""
    found: int = sum(map(_KEY_BYTES, records)) + sum(map(_VALUE_BYTES, records))
    return found + len(records) * _RECORD_BYTES


def _cut(records: list[SourceRecord], end: int) -> Chunk:
    while records and records[-1].offset >= end:
        records.pop()
    return Chunk(records, end)
