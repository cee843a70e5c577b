"""Redis dies under load and comes back empty: events go on, and nothing is suppressed wrongly."""

import re
import time
from collections.abc import Callable

import pytest

from support.clients.fault_load import Load
from support.clients.http_client import exchange
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

QUARANTINE_S = 2.0
CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[redis]
url = "{redis}"
namespace = "{topic}"
quarantine_ms = 2000
[topics."{topic}"]
kind = "state"
suppress = "raw"
key = ["/id"]
"""


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_redis_lost_under_load(
    kafka: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    how: str,
) -> None:
    redis = start_redis()
    kafka.create_topic(topic_name, 3)
    gateway = start_gateway(
        CONFIG.format(bootstrap=kafka.bootstrap, redis=redis.url, topic=topic_name)
    )
    load = Load(gateway.port, topic_name, writers=4, same=3)
    with load.running():
        await eventually(lambda: load.outcomes()["unchanged"] > 50)
        lost = time.monotonic()
        redis.pause() if how == "stopped" else redis.kill()
        await eventually(lambda: load.outcomes(lost)["published"] > 200)
        away = time.monotonic()
        await eventually(lambda: load.outcomes(away)["published"] > 50)
        until = time.monotonic()
        assert exchange(gateway.port, "GET", "/ready").document["status"] == "degraded"
        back = time.monotonic()
        redis.resume() if how == "stopped" else redis.restart()
        await eventually(lambda: load.outcomes(back)["unchanged"] > 50, 20)
        resumed = min(
            one.ended for one in load.sent if one.began > back and one.outcome == "unchanged"
        )
    assert set(load.outcomes()) == {"published", "unchanged"}, "no event waits for Redis or fails"
    while_away = [one for one in load.sent if away <= one.began and one.ended < until]
    assert {one.outcome for one in while_away} == {"published"}
    if how == "killed":
        assert resumed - lost >= QUARANTINE_S
    # `judge` also proves that each `unchanged` names a record with that very content; that it was
    # the newest of its key follows from one writer a key: a later record would have been its own.
    load.judge(kafka.bootstrap)
    no_wrong_unchanged(load)
    published = load.outcomes()["published"]
    await eventually(lambda: metric(gateway, "headgate_events_total", "published") == published)
    assert metric(gateway, "headgate_suppression_bypassed_total", "") >= 50


def no_wrong_unchanged(load: Load) -> None:
    """Each `unchanged` names the newest record that its key had then."""
    newest: dict[bytes, tuple[int, int] | None] = {}
    for one in load.sent:  # by writer, so by key, in the order of sending
        if one.outcome == "published":
            newest[one.key] = one.place
        else:
            assert one.place == newest[one.key], one


def metric(gateway: Gateway, name: str, label: str) -> float:
    text = exchange(gateway.management_port, "GET", "/metrics").body.decode()
    found = re.findall(rf"^{name}(\{{.*\}})? (\S+)$", text, re.MULTILINE)
    return sum(float(value) for labels, value in found if label in labels)
