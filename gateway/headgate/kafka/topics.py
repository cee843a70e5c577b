"""Creates topics."""

from collections.abc import Iterable

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError, for_code

from headgate.core.topics.internal_topics import InternalTopic


async def create_topics(admin: AIOKafkaAdminClient, topics: Iterable[InternalTopic]) -> None:
    """Create them; one that somebody else has just created is fine. Raises KafkaError."""
    wanted = [
        NewTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            topic_configs=dict(topic.configs),
        )
        for topic in topics
    ]
    if not wanted:
        return
    answer = await admin.create_topics(wanted)
    # The answer carries a code for each topic and is not an error by itself.
    for name, code, *rest in answer.topic_errors:
        refusal = for_code(code)
        if code and refusal is not TopicAlreadyExistsError:
            raise refusal(f"topic {name} cannot be created: {rest}")
