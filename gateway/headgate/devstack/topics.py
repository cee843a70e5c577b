"""Creates the topics of the sample configuration, and has `headgate init` create internal ones."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError, for_code

from headgate.devstack.child import StartError
from headgate.devstack.sample import SampleTopic
from headgate.kafka.client_metadata import use_own_metadata

_INIT_S = 60.0


async def create_missing(bootstrap: str, topics: Sequence[SampleTopic]) -> list[str]:
    """Create the topics that are not there yet; return their names. Raises KafkaError."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    use_own_metadata(admin._client)
    await admin.start()
    try:
        present = set(await admin.list_topics())
        missing = [topic for topic in topics if topic.name not in present]
        if missing:
            _raise_refusals(await admin.create_topics([_new_topic(one) for one in missing]))
        return [topic.name for topic in missing]
    finally:
        await admin.close()


def create_internal(config: Path, say: Callable[[str], None]) -> list[str]:
    """Run `headgate init`; return the names of what it has created. Raises StartError.

    What it finds wrong is said, and no reason not to start: a topic of the user's own sections may
    not be there yet.
    """
    command = [sys.executable, "-m", "headgate", "init", "--config", str(config)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_INIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise StartError(f"`headgate init` did not end within {_INIT_S:g} s") from error
    created = []
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        name = rest.strip().partition(":")[0]
        if word == "created":
            created.append(name)
        elif word != "ok":
            say(f"  headgate init: {line}")
    if done.returncode and not done.stdout:
        raise StartError(f"`headgate init` failed:\n{done.stderr}")
    return created


def _new_topic(topic: SampleTopic) -> NewTopic:
    return NewTopic(topic.name, topic.partitions, 1, topic_configs=dict(topic.configs))


def _raise_refusals(answer: object) -> None:
    # The answer carries a code per topic and is not an error by itself.
    for name, code, *rest in getattr(answer, "topic_errors", ()):
        refusal = for_code(code)
        if code and refusal is not TopicAlreadyExistsError:
            raise refusal(f"topic {name}: {rest}")
