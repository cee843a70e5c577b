"""What a gateway of one version keeps, in Redis, Kafka and on disk, one of the other knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.process.stack import Gateway, RunningBroker, RunningRedis
from support.upgrades.former import Step
from support.upgrades.installation import Installation


@pytest.mark.parametrize(
    ("step", "ending"),
    [
        ("upgrade", "killed"),
        ("rollback", "killed"),
        # without Kafka nothing drains: a stop takes as long as it may
        pytest.param("upgrade", "stopped", marks=pytest.mark.full),
        pytest.param("rollback", "stopped", marks=pytest.mark.full),
    ],
    indirect=["step"],
)
async def test_what_one_version_keeps_the_other_knows(
    step: Step,
    ending: str,
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
) -> None:
    """Contents, repeats, pauses, held and spooled events, whichever way the first one ended."""
    there = Installation(start_broker(), start_redis(), tmp_path)
    there.initialise(step.before)
    before = start_gateway(there.text, environment=step.before.environment)
    await there.write(before)
    there.broker.kill()
    await there.spool(before)
    before.stop() if ending == "stopped" else before.kill()
    there.broker.restart()
    after = start_gateway(there.text, environment=step.after.environment)
    await there.check(after)
    for gateway in (before, after):
        assert [line for line in gateway.log().splitlines() if "Traceback" in line] == []
