"""The registry of replays and the offset map in Kafka: one version goes on where another was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.process.stack import Gateway
from support.scenarios.replay_copies import replayed, until_ready, wanted
from support.scenarios.replay_world import Api, ReplayRunner, Two
from support.upgrades.former import Step

SNAPSHOT = "before-the-step"
PLAIN = "[replays]\n# without mirror_wait_ms, which is younger than the first version here\n"


@pytest.mark.parametrize(
    "step", ["upgrade", pytest.param("rollback", marks=pytest.mark.full)], indirect=True
)
def test_replays_snapshots_and_the_map_are_known_to_the_other_version(
    step: Step,
    two: Two,
    topic: str,
    start_gateway: Callable[..., Gateway],
    start_runner: Callable[..., ReplayRunner],
) -> None:
    """Replays that are done, and one that waits for a runner: that of the other version."""
    text = two.config(PLAIN)
    gateway = start_gateway(text, environment=step.before.environment)
    before = Api(gateway)
    name = f"{SNAPSHOT}-{topic[-8:]}"
    assert before.ask("POST", "/v1/snapshots", {"name": name, "topic": topic}).status < 300
    named = {"Idempotency_Key": f"one-of-{topic}"}
    body = {"name": "again", "topic": topic, "from": {"timestamp": 0}, "deliver": {"mode": "topic"}}
    asked = before.ask("POST", "/v1/replays", body, **named)
    assert asked.status == 201, asked
    file = gateway.config
    runner = start_runner(file=file, environment=step.before.environment)
    done = until_ready(before, before.create(topic).page)
    until_ready(before, asked.page)
    runner.stop()
    waiting = before.create(topic, to={"snapshot": name})
    assert waiting.status == 201, waiting
    offsets = {"topic": topic, "to": "backfill", "offsets": {"0": [*range(60)], "1": [0, 19]}}
    pages = [
        before.ask("POST", "/v1/offsets/translate", offsets).page,
        before.get(f"/v1/coverage/{topic}"),
    ]
    gateway.stop()

    after = Api(start_gateway(text, environment=step.after.environment))
    assert after.ask("POST", "/v1/replays", body, **named).page["id"] == asked.page["id"]
    found = after.get(f"/v1/replays/{done['id']}")
    assert {one: found[one] for one in done.keys() & found.keys()} == done
    assert after.get(f"/v1/replays/{waiting.page['id']}")["state"] == "pending"
    assert [
        after.ask("POST", "/v1/offsets/translate", offsets).page,
        after.get(f"/v1/coverage/{topic}"),
    ] == pages
    start_runner(file=file, environment=step.after.environment)
    until_ready(after, waiting.page)
    for page in (asked.page, done, waiting.page):
        assert replayed(two, page) == wanted(two, topic, lambda _: True)
