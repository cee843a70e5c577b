"""Where an assignment begins to read, and what behind that is done already.

Private part of aiokafka 0.14: `_coordinator.fetch_committed_offsets`, as the public call gives no
metadata. The position is set from the same answer, so that it and the note belong together.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from headgate.consumer.offset_store import OffsetStore, seek
from headgate.consumer.topic_ids import TopicIds
from headgate.core.consuming.commit_note import read_note

log = logging.getLogger("headgate.consumer.starting")

_RETRY_S = 0.5


async def go_to_starts(
    consumer: AIOKafkaConsumer,
    tps: Iterable[TopicPartition],
    store: OffsetStore | None,
    topic_ids: TopicIds,
) -> dict[TopicPartition, int]:
    """Set the positions, from the store where it has one, else from what the group committed.

    Returns, where the group knows it, below which offset all events are done (`CommitNote`). What
    the store says needs no such note: it knows of each event whether it is done. Raises
    PositionError, and whatever else waiting does not help.
    """
    every = list(tps)
    while True:
        try:
            await topic_ids.check()
            stored: Mapping[tuple[str, int], int] = {}
            if store is not None:
                stored = await store.positions((tp.topic, tp.partition) for tp in every)
                await seek(consumer, stored)
            rest = [tp for tp in every if (tp.topic, tp.partition) not in stored]
            return await _follow_the_group(consumer, rest)
        except (KafkaError, OSError) as error:
            log.warning("starting positions are not available yet: %r", error)
            await asyncio.sleep(_RETRY_S)


async def _follow_the_group(
    consumer: AIOKafkaConsumer, tps: list[TopicPartition]
) -> dict[TopicPartition, int]:
    found = await consumer._coordinator.fetch_committed_offsets(tps)
    for tp, committed in found.items():
        consumer.seek(tp, committed.offset)
    noted = dict(_notes(found))
    ends = await consumer.end_offsets(list(noted)) if noted else {}
    for tp in [tp for tp, below in noted.items() if below > ends[tp]]:
        # The log was cut off, as by an unclean election: what comes there now is not what was done.
        log.warning(
            "%s ends at offset %d, but its committed offset is %d", tp, ends[tp], noted.pop(tp)
        )
    return noted


def _notes(
    found: Mapping[TopicPartition, OffsetAndMetadata],
) -> Iterable[tuple[TopicPartition, int]]:
    for tp, committed in found.items():
        note = read_note(committed.metadata or "")
        if note is not None and note.done_below is not None:
            yield tp, note.done_below
