"""A gateway that has just started suppresses, once its quarantine is over, from the first event."""

from collections.abc import Callable

import pytest
from redis import Redis

from support.clients.http_client import JSON, exchange
from support.gateway.quarantine import out_of_quarantine
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

QUARANTINE_MS = 500
CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 300
[redis]
url = "{redis}"
namespace = "{topic}"
quarantine_ms = 500
[topics."{topic}*"]
kind = "state"
suppress = "raw"
key = ["/id"]
"""
EVENT = b'{"id": 1, "price": 10}'


def post(gateway: Gateway, topic: str) -> tuple[str, int]:
    path = f"/v1/topics/{topic}/events"
    answer = exchange(gateway.port, "POST", path, JSON, EVENT).document
    return answer["outcome"], answer["offset"]


async def test_the_second_equal_event_after_a_start_is_unchanged(
    kafka: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> None:
    server = start_redis()
    kafka.create_topic(topic_name, 3)
    config = CONFIG.format(bootstrap=kafka.bootstrap, redis=server.url, topic=topic_name)
    gateway = start_gateway(config)
    with Redis.from_url(server.url) as redis:
        await eventually(lambda: out_of_quarantine(redis, topic_name, QUARANTINE_MS) == 1)
        assert post(gateway, topic_name) == ("published", 0)
        assert post(gateway, topic_name) == ("unchanged", 0)

        later = f"{topic_name}-later"  # a topic that appears while the gateway runs
        kafka.create_topic(later, 3)
        await eventually(lambda: out_of_quarantine(redis, topic_name, QUARANTINE_MS) == 2)
        assert post(gateway, later) == ("published", 0)
        assert post(gateway, later) == ("unchanged", 0)

        server.restart()  # empty: both are born again, without an event
        await eventually(lambda: out_of_quarantine(redis, topic_name, QUARANTINE_MS) == 2)
        assert post(gateway, topic_name)[0] == "published"
        assert post(gateway, topic_name) == ("unchanged", 1)
