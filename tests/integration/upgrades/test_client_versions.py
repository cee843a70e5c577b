"""The Python client with a gateway of the version before it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate_client import TOMBSTONE, BufferedProducer, Client, Event, Rejected
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis
from support.upgrades.former import Version

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[redis]
url = "{redis}"
[topics."{topic}"]
key = ["/id"]
dedupe_ttl_s = 3600
"""


def test_a_client_works_with_the_gateway_of_the_version_before(
    former: Version,
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> None:
    """Events alone, in batches and in the background; repeats, failures and headers."""
    kafka.create_topic(topic_name, 1)
    text = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis_server.url, topic=topic_name)
    gateway = start_gateway(text, environment=former.environment)
    with Client(gateway.url, compression="gzip") as client:
        alone = Event({"id": 1}, headers={"author": "Ada"})
        names = [client.send(topic_name, alone, idempotency_key="k").name for _ in range(2)]
        assert names == ["published", "duplicate"]
        event = Event(b"\x89PNG", key="ключ", id="mine", content_type="image/png")
        batch = [event, event, Event(TOMBSTONE, key="gone"), {"none": 1}]
        *good, bad = client.send_batch(topic_name, batch)
        assert [outcome.name for outcome in good] == ["published", "duplicate", "published"]
        assert isinstance(bad, Rejected)
        assert (bad.reason, bad.retryable) == ("missing_key", False)
        unknown = client.send("nowhere", {"id": 1})
        assert isinstance(unknown, Rejected)
        assert unknown.reason == "unknown_topic"
        with BufferedProducer(client) as producer:
            pending = [producer.send(topic_name, {"id": number}) for number in range(5)]
        assert {future.result().name for future in pending} == {"published"}
    written = [(record.key, record.value) for record in read_log(kafka.bootstrap, topic_name)]
    assert written == [
        (b"1", b'{"id":1}'),
        ("ключ".encode(), b"\x89PNG"),
        (b"gone", None),
        *((b"%d" % number, b'{"id":%d}' % number) for number in range(5)),
    ]
