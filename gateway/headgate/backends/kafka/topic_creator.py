"""Creates topics. `headgate init` and `headgate dev` alone: the gateway never does."""

from collections.abc import Iterable

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError, for_code

from headgate.backends.kafka.options import ClusterOptions, client_arguments
from headgate.core.internal_topics import InternalTopic


async def create_topics(options: ClusterOptions, topics: Iterable[InternalTopic]) -> None:
    """Create them; one that somebody else has just created is fine. Raises KafkaError."""
    wanted = [
        NewTopic(one.name, one.partitions, one.replication_factor, topic_configs=dict(one.configs))
        for one in topics
    ]
    if not wanted:
        return
    admin = AIOKafkaAdminClient(**client_arguments(options))
    await admin.start()
    try:
        answer = await admin.create_topics(wanted)
    finally:
        await admin.close()
    # The answer carries a code for each topic and is not an error by itself.
    for name, code, *rest in answer.topic_errors:
        refusal = for_code(code)
        if code and refusal is not TopicAlreadyExistsError:
            raise refusal(f"topic {name}: {rest}")
