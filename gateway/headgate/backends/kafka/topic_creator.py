"""Creates topics on a cluster. `headgate init` and `headgate dev` alone: the gateway never does."""

from collections.abc import Iterable

from aiokafka.admin import AIOKafkaAdminClient

from headgate.backends.kafka.options import ClusterOptions
from headgate.core.topics.internal_topics import InternalTopic
from headgate.kafka.access import client_arguments
from headgate.kafka.client_metadata import use_own_metadata
from headgate.kafka.topics import create_topics


async def create_on(options: ClusterOptions, topics: Iterable[InternalTopic]) -> None:
    """Create them; one that is there already is fine. Raises KafkaError."""
    admin = AIOKafkaAdminClient(**client_arguments(options))
    use_own_metadata(admin._client)
    await admin.start()
    try:
        await create_topics(admin, topics)
    finally:
        await admin.close()
