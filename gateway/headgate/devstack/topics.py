"""Creates the topics of the sample configuration."""

from __future__ import annotations

from collections.abc import Sequence

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError, for_code

from headgate.devstack.sample import SampleTopic


async def create_missing(bootstrap: str, topics: Sequence[SampleTopic]) -> list[str]:
    """Create the topics that are not there yet; return their names. Raises KafkaError."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        present = set(await admin.list_topics())
        missing = [topic for topic in topics if topic.name not in present]
        if missing:
            _raise_refusals(await admin.create_topics([_new_topic(one) for one in missing]))
        return [topic.name for topic in missing]
    finally:
        await admin.close()


def _new_topic(topic: SampleTopic) -> NewTopic:
    return NewTopic(topic.name, topic.partitions, 1, topic_configs=dict(topic.configs))


def _raise_refusals(answer: object) -> None:
    # The answer carries a code per topic and is not an error by itself.
    for name, code, *rest in getattr(answer, "topic_errors", ()):
        refusal = for_code(code)
        if code and refusal is not TopicAlreadyExistsError:
            raise refusal(f"topic {name}: {rest}")
