"""Creates the topics of the sample configuration, and has `headgate init` create internal ones."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from headgate.devstack.child import Child, StartError
from headgate.devstack.sample import SampleTopic
from headgate.errors_in_words import connection_error
from headgate.kafka.client_metadata import use_own_metadata

_STILL_S = 10.0  # between two notes that something is waited for
_PAUSE_S = 1.0


def create_topics(
    bootstrap: str, topics: Sequence[SampleTopic], broker: Child, say: Callable[[str], None]
) -> list[str]:
    """Create the topics that do not exist yet, and try again while the broker is too busy.

    Args:
        bootstrap: The broker's address.
        topics: The topics to create.
        broker: The broker's process.
        say: Takes a line for each attempt that failed.

    Returns:
        The names of the created topics.

    Raises:
        StartError: The broker has ended, or refuses a topic.
    """
    while True:
        try:
            return asyncio.run(create_missing(bootstrap, topics))
        except (KafkaError, TimeoutError, OSError) as error:
            is_final = isinstance(error, KafkaError) and not error.retriable
            if is_final or broker.exit_code is not None:
                text = f"the topics cannot be created: {connection_error(error)}"
                raise StartError(f"{text}\n{broker.log_tail()}") from error
            say(f"  waiting for {broker.name} to create topics: {connection_error(error)}")
            time.sleep(_PAUSE_S)


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
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    ) as done:
        start = time.monotonic()
        while True:  # it ends by itself: each of its requests has a deadline
            try:
                shown, errors = done.communicate(timeout=_STILL_S)
                break
            except subprocess.TimeoutExpired:
                say(f"  waiting for headgate init ({time.monotonic() - start:.0f} s)")
            except BaseException:
                done.kill()
                raise
    created = []
    for line in shown.splitlines():
        word, _, rest = line.partition(" ")
        name = rest.strip().partition(":")[0]
        if word == "created":
            created.append(name)
        elif word != "ok":
            say(f"  headgate init: {line}")
    if done.returncode and not shown:
        raise StartError(f"`headgate init` failed:\n{errors}")
    return created


def _new_topic(topic: SampleTopic) -> NewTopic:
    return NewTopic(topic.name, topic.partitions, 1, topic_configs=dict(topic.configs))


def _raise_refusals(answer: object) -> None:
    # The answer carries a code per topic and is not an error by itself.
    for name, code, *rest in getattr(answer, "topic_errors", ()):
        refusal = for_code(code)
        if code and refusal is not TopicAlreadyExistsError:
            raise refusal(f"topic {name}: {rest}")
