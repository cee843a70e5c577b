"""Where a consumer's offsets are, when they are not (only) the group's."""

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

Place: TypeAlias = tuple[str, int]  # topic, partition


class OffsetStore(Protocol):
    """Such as `SqlOffsets`. An OSError of either is tried again."""

    async def check_topics(self, ids: Mapping[str, str]) -> None:
        """Raises PositionError where the offsets kept are those of another topic of that name.

        ids: in hex, of assigned topics. Called before `positions`, and before each `advance`.
        """
        ...

    async def positions(self, places: Iterable[Place]) -> Mapping[Place, int]:
        """The next offset of those places that have one; called when they are assigned."""
        ...

    async def advance(self, marks: Mapping[Place, int]) -> None:
        """Everything below these offsets is done; called before the group's commit."""
        ...


class PositionError(Exception):
    """The offset that is to be read next is not one of this log: the topic is another one."""


async def seek(consumer: AIOKafkaConsumer, positions: Mapping[Place, int]) -> None:
    """Go to these positions. Raises PositionError and KafkaError."""
    wanted = {TopicPartition(*place): offset for place, offset in positions.items()}
    ends = await consumer.end_offsets(list(wanted)) if wanted else {}
    for tp, offset in wanted.items():
        if offset > ends[tp]:
            raise PositionError(
                f"{tp.topic} partition {tp.partition} ends at {ends[tp]}, but its next offset is "
                f"{offset} by the offset store: was the topic deleted and made again? Then let "
                "the store forget it (SqlOffsets.forget)"
            )
        consumer.seek(tp, offset)
