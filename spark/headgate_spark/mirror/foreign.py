"""Records that something else has written to the mirror's topic, behind those of the mirror."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from aiokafka.structs import TopicPartition

from headgate_spark.copying.chunks import Written
from headgate_spark.copying.copy_plan import Copied, CopyOptions
from headgate_spark.copying.source_reader import GoneError, ReadError, SourceReader
from headgate_spark.copying.throttle import BrokerBuckets

_WITHIN_S = 60.0


class Tail(NamedTuple):
    """What is behind the mirror's records. end: the last stable offset.

    records: that can be read there, which are all foreign; first: the offset of the first.
    """

    end: int
    records: int = 0
    first: int = -1


async def read_tail(tp: TopicPartition, options: CopyOptions, mapped_end: int) -> Tail:
    """Look from the end of what is mapped on: nothing but markers and what was aborted may be
    there. Raises ReadError, TimeoutError."""
    reader = SourceReader(tp, replace(options, source=options.target), BrokerBuckets(None))
    try:
        async with asyncio.timeout(_WITHIN_S):
            await reader.start()
            begin, end = await reader.bounds()
            position = max(begin, mapped_end)
            if end - position <= (mapped_end > 0):  # the marker of the mirror's last transaction
                return Tail(end)
            reader.seek(position)
            found: list[int] = []
            while position < end:
                chunk = await reader.read(end)
                found += [record.offset for record in chunk.records]
                position = chunk.end
            return Tail(end, len(found), found[0] if found else -1)
    except GoneError as error:  # its retention has just moved
        raise ReadError(str(error)) from error
    finally:
        await reader.drop()


def foreign_line(one: Copied) -> str:
    """What people are told of a partition."""
    return (
        f"{one.topic} partition {one.partition}: {one.foreign} records that are not the mirror's, "
        f"from target offset {one.foreign_at} on: something else writes to the mirror's topic. They"
        " are in no translation; `headgate-spark verify` names them"
    )


def follows(written: Sequence[Written], expected: int) -> bool:
    """Whether batches of one transaction lie where the log ended, without anything between."""
    for one in written:
        if one.base != expected:
            return False
        expected = one.end
    return True


def end_of(written: Sequence[Written]) -> int:
    """Where the log ends when they are committed: behind the marker."""
    return written[-1].end + 1
