"""What is done about replays without a request: counted, and told to the installation log."""

from __future__ import annotations

import json
import time
from typing import Any, cast

from headgate.metrics.fleet import Fleet
from headgate.model.installation import Kind, NewEntry
from headgate.replays.registry import Registry
from headgate.replays.service import Sweeper
from headgate.replays.tiers import SecondTiers

SPEC = {"name": "again", "topic": "orders", "mode": "topic", "by": "ann", "keep_s": 3600}


class OneTier:
    """A second tier with one registry, in memory."""

    def __init__(self) -> None:
        self.last = Registry()

    def backfills(self) -> list[str]:
        return ["main-backfill"]

    def log(self, _backfill: str) -> OneTier:
        return self

    async def read(self) -> Registry:
        return self.last

    def put(self, what: str, **fields: Any) -> None:
        self.last.see(f"r1/{what}".encode(), json.dumps(fields).encode())


async def test_replays_are_counted_and_told_of() -> None:
    tier, fleet, noted = OneTier(), Fleet(), list[NewEntry]()
    sweeper = Sweeper(cast("SecondTiers", tier), fleet, noted.append)
    now_ms = int(time.time() * 1000)
    await sweeper.sweep()
    tier.put("spec", created_ms=now_ms, **SPEC)
    tier.put("status", state="copying", at_ms=now_ms)
    await sweeper.sweep()
    assert [one.kind for one in noted] == [Kind.REPLAY_CREATED]
    assert fleet.gauge("headgate_replays")["copying",] == 1
    assert fleet.counter("headgate_replays_failed_total") == {(): 0}  # so that it can increase
    tier.put("status", state="failed", at_ms=now_ms, reason="no space")
    await sweeper.sweep()
    assert [one.kind for one in noted] == [Kind.REPLAY_CREATED, Kind.REPLAY_FAILED]
    assert noted[-1].text == "again of orders: failed: no space"
    assert fleet.gauge("headgate_replays")["failed",] == 1
    await sweeper.sweep()
    tier.last = Registry()  # somebody has looked at it and deleted it
    await sweeper.sweep()
    assert fleet.gauge("headgate_replays")["failed",] == 0
    assert fleet.counter("headgate_replays_failed_total") == {(): 1}
