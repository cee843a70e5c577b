"""Two gateways, and one that spools, on three brokers and Redis with a replica; all of it breaks.

CHAOS_SEED takes a round again: the same faults in the same order, of the same lengths.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from chaos.cluster.faults import Outage
from chaos.cluster.levels import Level, grown, level, total
from chaos.cluster.stand import Stand, stand
from chaos.suppression.history import Attempt
from headgate.devstack.servers import KafkaInstallation
from support.process.stack import Gateway, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis, pytest.mark.timeout(3600)]
Note = Callable[[str, object], None]


def levels(it: Stand) -> Level:
    """Of all gateways together."""
    return total(map(level, it.gateways.all))


async def until_as_before(it: Stand, before: Level) -> None:
    """Wait until nothing is above its level; say what is if that does not come."""
    found: list[str] = []

    def is_back() -> bool:
        found[:] = grown(before, levels(it))
        return not found

    try:
        await eventually(lambda: asyncio.to_thread(is_back), 60.0, 1.0)
    except AssertionError:
        raise AssertionError(f"not back at its level: {found}") from None


def defects(it: Stand) -> list[str]:
    """Lines of the gateways' logs that only a mistake can have caused."""
    return [
        f"gateway {number}: {line[:1000]}"
        for number, gateway in enumerate(it.gateways.all)
        for line in gateway.log().splitlines()
        if "was never retrieved" in line or "failed and continues" in line
    ]


def times(outages: Sequence[Outage], probes: Sequence[Attempt]) -> list[dict[str, float]]:
    """Of each outage, in seconds: how long it lasted; from its beginning to the first 503; from its
    end to the first event that is published again, and until no probe fails any more. -1: never.
    """
    found = []
    for since, able in outages:
        refused = [one.told for one in probes if one.outcome == "kafka_unavailable"
                   and since < one.told < able]  # fmt: skip
        later = [one for one in probes if able < one.told < able + 30.0]
        again = [one.told for one in later if one.outcome == "published"]
        failed = [one.sent for one in later if one.outcome != "published" and one.sent > able]
        found.append({
            "lasted": round(able - since, 1),
            "first 503": round(min(refused, default=since - 1.0) - since, 1),
            "published again": round(min(again, default=able - 1.0) - able, 1),
            "last failure": round(max(failed, default=able) - able, 1),
        })  # fmt: skip
    return found


# A round of 15 s has three of the faults, each of which has a test of its own elsewhere.
@pytest.mark.full
@pytest.mark.parametrize("length", [(5, 180.0)])
async def test_nothing_that_was_answered_is_wrong(
    kafka_installation: KafkaInstallation,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
    seed: int,
    record_property: Note,
    length: tuple[int, float],
) -> None:
    """length: rounds, and seconds of each."""
    async with stand(
        kafka_installation, start_redis, start_gateway, tmp_path, seed, pause_s=0.1
    ) as it:
        await run_rounds(it, seed, record_property, *length)


async def run_rounds(it: Stand, seed: int, note: Note, rounds: int, seconds: float) -> None:
    await it.load(5.0)  # every path once
    await it.until_calm()
    before: Level | None = None  # after the first round, when caches are full
    for number in range(rounds):
        await it.load(seconds, lambda: it.faults.round(seconds))
        await it.until_calm()
        wrong = [*await it.wrong(), *defects(it)]
        figures = {
            "seed": seed,
            "round": number + 1,
            "faults": dict(it.faults.happened),
            "answers": dict(Counter(str(one.outcome) for one in it.traffic.all)),
            "held": dict(Counter(str(one.outcome) for one in it.held.sent)),
            "slowest_s": round(max(one.told - one.sent for one in it.traffic.all), 1),
            "outages": times(it.faults.outages, it.traffic.probes),
        }
        note("cluster", json.dumps(figures))
        sys.stderr.write(f"{json.dumps(figures)}\n")
        assert not wrong, "\n".join([*wrong[:20], *it.faults.said])
        if before is None:
            before = levels(it)
        await until_as_before(it, before)
    outcomes = Counter(str(one.outcome) for one in it.traffic.all)
    assert outcomes["published"] > 100, outcomes
    assert outcomes["unchanged"] > 10, outcomes
