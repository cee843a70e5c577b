"""Whether topics are still those whose offsets are kept elsewhere: by their ids, not their names.

A topic that was deleted and recreated starts again at offset 0. The group's own offsets go with a
deleted topic; those in a database stay, and its next events would pass for done.
"""

from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer

from headgate.consumer.offset_store import OffsetStore
from headgate.kafka.metadata import any_node, read_metadata


class TopicIds:
    """Of the topics of one assignment. store: None where the group alone keeps offsets."""

    def __init__(
        self, consumer: AIOKafkaConsumer, topics: Iterable[str], store: OffsetStore | None
    ) -> None:
        self._consumer = consumer
        self._topics = sorted(set(topics))
        self._store = store

    async def check(self) -> None:
        """Raises PositionError where the offsets are another topic's; KafkaError; OSError."""
        if self._store is None or not self._topics:
            return
        client = self._consumer._client
        topics = (await read_metadata(client, any_node(client), self._topics)).topics
        there = {name: one.topic_id.hex() for name, one in topics.items() if any(one.topic_id)}
        await self._store.check_topics(there)
