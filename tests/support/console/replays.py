"""A registry of replays in memory, behind the real pages of replays."""

from __future__ import annotations

import time
from typing import Any

from headgate.model.outcome import Failure, Reason, Refused, brief
from headgate.replays.registry import Control, Registry, new_id, record
from headgate.replays.second_tier import NoSecondTier, Rows, SecondTier
from headgate.replays.service import planned_page, replay_page
from headgate.replays.spec import FieldError, read_spec

SERVERS = "backfill:9092"
MIRRORED_TO = {"offsets": {"0": 1700}}


class ReplaysInMemory(NoSecondTier):
    """Implements the services of replays and offsets. uncovered: topics that are not mirrored."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.uncovered: set[str] = set()
        self.calls: list[tuple[Any, ...]] = []

    def services(self) -> SecondTier:
        return SecondTier(self, self, self)

    async def create(
        self, request_body: Any, caller: str, idempotency_key: str | None
    ) -> tuple[dict[str, Any], bool]:
        self.calls.append(("create", request_body, caller, idempotency_key))
        now_ms = int(time.time() * 1000)
        try:
            spec = read_spec(request_body, now_ms)
        except FieldError as error:
            raise Refused(Failure(Reason.MALFORMED, str(error))) from error
        if spec.topic in self.uncovered:
            figures = {"mirrored_to": MIRRORED_TO}
            raise Refused(Failure(Reason.NOT_COVERED, "5 offsets are not mirrored", figures))
        document = {
            "asked": request_body, "mode": str(spec.deliver.mode), "group": spec.deliver.group,
            "topic": spec.topic, "by": caller, "created_ms": now_ms, "records": 20_000,
            "bytes": 13_000_000, "cold_offsets": 0, "lost_offsets": 0, "covered": True,
            "seconds": 1.0, "topic_ids": {}, "ttl_s": 3600,
            "plan": {"0": {"target": {"start": 5, "end": 20_005}}},
        }  # fmt: skip
        if spec.dry_run:
            return {"dry_run": True, **request_body, "planned": planned_page(document)}, False
        replay_id = new_id(now_ms, b"%010d" % len(self.calls))
        self.registry.see(*record(replay_id, "spec", document))
        return await self.show(replay_id), True

    def status(self, replay_id: str, **status: Any) -> None:
        self.registry.see(*record(replay_id, "status", {"at_ms": 0, **status}))

    async def list(self, topic: str | None, state: str | None) -> Rows:
        return [replay_page(one, SERVERS, {}) for one in self.registry], []

    async def show(self, replay_id: str) -> dict[str, Any]:
        found = self.registry.get(replay_id)
        if found is None:
            raise Refused(Failure(Reason.NOT_FOUND, f"no replay {brief(replay_id)}"))
        return replay_page(found, SERVERS, {})

    async def control(self, replay_id: str, wanted: Control) -> dict[str, Any]:
        self.calls.append(("control", replay_id, wanted))
        self.registry.see(*record(replay_id, "control", {"control": wanted}))
        return await self.show(replay_id)

    async def coverage(self, topic: str) -> dict[str, Any]:
        times = {"from": "2026-01-30T12:00:00Z", "to": "2026-01-31T12:00:00Z"}
        return {"topic": topic, "partitions": {"0": {"times": times}, "1": {"times": None}}}


async def some_replays(topic: str = "orders", name: str = "after the incident") -> ReplaysInMemory:
    """One of each kind that looks different."""
    found = ReplaysInMemory()
    body: dict[str, Any] = {"name": name, "topic": topic, "from": {"relative": "-2h"}}
    ids = []
    for mode in ("topic", "topic", "seek"):
        page, _ = await found.create({**body, "deliver": {"mode": mode}}, "alice", None)
        ids.append(page["id"])
    group = {"mode": "group", "group": "billing"}
    page, _ = await found.create({**body, "deliver": group}, "alice", None)
    copying, ready, seek, committed = *ids, page["id"]
    for one in (copying, ready):
        found.status(one, state="planned")
        found.status(one, state="copying", read=7000, records=5000, bytes=3_000_000)
    soon_ms = int(time.time() * 1000) + 3_600_000
    offsets = {"0": {"start": 0, "end": 20_000}}
    found.status(ready, state="ready", read=20_000, records=18_000, bytes=9_000_000,
                 offsets=offsets, expires_ms=soon_ms)  # fmt: skip
    found.status(seek, state="ready", expires_ms=soon_ms)
    found.status(committed, state="completed")
    return found
