"""Our partitions against those of the Java client in the Kafka jars, on a real topic."""

import random
import subprocess

import pytest

from headgate.devstack.servers import KafkaInstallation
from headgate.model.keys import partition_for
from support.kafka.kafka_log import read_log
from support.process.stack import RunningBroker

KEYS = 10_000
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
# The console producer reads lines of text, so what ends a line or the key is left out.
SIGNS = (
    [chr(code) for code in range(32, 127)]
    + list("äöüßéñçøÅжщыяΩλπ中文字漢日本語한국어العربية")
    + [chr(code) for code in range(0x1F600, 0x1F640)]
)


def random_keys() -> list[str]:
    """Different keys of 1 to 60 signs, of every length modulo four in UTF-8; the same each time."""
    chance = random.Random(20_240_229)
    found: dict[str, None] = {}
    while len(found) < KEYS:
        found["".join(chance.choices(SIGNS, k=chance.choice((1, 2, 3, 4, 5, 8, 13, 36, 60))))] = (
            None
        )
    return list(found)


def publish_with_java(
    installation: KafkaInstallation, bootstrap: str, topic: str, keys: list[str]
) -> None:
    """Let the Java client choose the partitions; each value is the key's place in the list."""
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic]
    arguments += ["--reader-property", "parse.key=true", "--reader-property", "key.separator=\t"]
    lines = "".join(f"{key}\t{place}\n" for place, key in enumerate(keys))
    command = installation.command(PRODUCER, "-Xmx256m", "-Dfile.encoding=UTF-8")
    done = subprocess.run(
        [*command, *arguments], input=lines.encode(), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")


@pytest.mark.kafka
@pytest.mark.parametrize("partitions", [7, 13])
def test_ten_thousand_keys_land_where_the_java_client_puts_them(
    kafka: RunningBroker, kafka_installation: KafkaInstallation, topic_name: str, partitions: int
) -> None:
    kafka.create_topic(topic_name, partitions)
    keys = random_keys()
    assert {len(key.encode()) % 4 for key in keys} == {0, 1, 2, 3}
    publish_with_java(kafka_installation, kafka.bootstrap, topic_name, keys)
    log = read_log(kafka.bootstrap, topic_name)
    assert sorted(int(record.value or b"-1") for record in log) == list(range(KEYS))
    for record in log:
        assert record.key == keys[int(record.value or b"-1")].encode()
        assert partition_for(record.key, partitions) == record.partition
    assert {record.partition for record in log} == set(range(partitions))
