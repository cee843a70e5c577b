"""What must be done about replays without a request: count them, and forget old ones."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from headgate.backends.kafka.tier_view import view_of
from headgate.core.installation import Happening, Kind
from headgate.core.refusal import Refused
from headgate.replays.answers import state_of
from headgate.replays.plan import BACKFILL
from headgate.replays.registry import (
    Registry,
    Replay,
    ReplayObserver,
    ReplayState,
    deleted,
    record,
    tombstones,
)
from headgate.replays.spec import ReplayMode
from headgate.replays.tiers import RegistryChange, SecondTiers, asking

log = logging.getLogger("headgate.replays.sweeper")

_EVERY_S = 10.0
_FAILED = "headgate_replays_failed_total"
Note = Callable[[Happening], None]


class ReplayFigures(Protocol):
    """Those of /metrics that are a process' own."""

    def set(self, name: str, labels: tuple[str, ...], value: float) -> None: ...

    def count(self, name: str, labels: tuple[str, ...] = (), by: float = 1) -> None: ...


class Sweeper:
    """note: takes what the installation log says of replays."""

    def __init__(self, tiers: SecondTiers, figures: ReplayFigures, note: Note) -> None:
        self._tiers = tiers
        self._figures = figures
        figures.count(_FAILED, by=0)  # a counter that appears with its first count has no increase
        self._note = note
        self._observer = ReplayObserver(_now_ms())
        self._said: dict[str, str] = {}
        self._missing: dict[str, set[str]] = {}

    async def follow(self) -> None:
        """Again and again, until cancelled."""
        while True:
            try:
                await self.sweep()
            except Exception:
                log.exception("replay maintenance failed")
            await asyncio.sleep(_EVERY_S)

    async def sweep(self) -> None:
        """Each cluster by itself: one that does not answer leaves the others alone. Its replays
        are counted as they were last seen."""
        backfills = self._tiers.table.backfills()
        await asyncio.gather(*map(self._sweep_backfill, backfills))
        counts = dict.fromkeys(map(str, ReplayState), 0)
        replays = [one for backfill in backfills for one in self._tiers.log(backfill).last]
        for replay in replays:
            counts[state_of(replay)] += 1
        for happening in self._observer.see(replays):
            self._note(happening)
            if happening.kind is Kind.REPLAY_FAILED:
                self._figures.count(_FAILED)
        for state, count in counts.items():
            self._figures.set("headgate_replays", (state,), count)

    async def _sweep_backfill(self, backfill: str) -> None:
        try:
            async with asking(backfill):
                registry, gone = self._tiers.log(backfill), await self._gone(backfill)
                if gone or _due(await registry.read()):
                    await registry.change(partial(_sweep, gone))
        except Refused as refusal:
            if self._said.get(backfill) != str(refusal):  # once, however long it lasts
                log.warning("replay maintenance is not possible: %s", refusal)
            self._said[backfill] = str(refusal)
        else:
            self._said.pop(backfill, None)

    async def _gone(self, backfill: str) -> dict[str, str]:
        """The topics of replays that can be read, by replay, that are not there in two polls
        running: one node alone may not have heard of a topic that is new."""
        waiting = _read_from(await self._tiers.log(backfill).read())
        now: dict[str, str] = {}
        if waiting:
            async with view_of(self._tiers.table.options(backfill)) as view:
                ids = await view.topic_ids({topic for topic, _ in waiting.values()})
            now = {
                replay_id: topic
                for replay_id, (topic, wanted) in waiting.items()
                if topic not in ids or wanted not in (None, ids[topic])
            }
        before, self._missing[backfill] = self._missing.get(backfill, set()), set(now)
        return {replay_id: now[replay_id] for replay_id in now.keys() & before}


def _read_from(registry: Registry) -> dict[str, tuple[str, str | None]]:
    """Of each replay that can be read now: its topic, and the id that this must have."""
    found = {}
    for replay in registry:
        if state_of(replay) == ReplayState.READY:
            spec: Mapping[str, Any] = replay.spec or {}
            status: Mapping[str, Any] = replay.status
            own = (replay.topic, status.get("topic_id"))
            of_tier = (str(spec.get("topic")), spec.get("topic_ids", {}).get(BACKFILL))
            found[replay.id] = own if spec.get("mode") == ReplayMode.TOPIC else of_tier
    return found


async def _sweep(gone: Mapping[str, str], change: RegistryChange) -> None:
    for replay_id, topic in gone.items():
        replay = change.registry.get(replay_id)
        if replay is not None and replay.state is ReplayState.READY:
            why = {"state": ReplayState.FAILED, "at_ms": _now_ms(), "reason": deleted(topic)}
            await change.put([record(replay_id, "status", {**replay.status, **why})])
    for replay, is_gone in _due(change.registry):
        if is_gone:
            await change.put(tombstones(replay.id))
        else:
            status = {**replay.status, "state": ReplayState.EXPIRED, "at_ms": _now_ms()}
            await change.put([record(replay.id, "status", status)])


def _due(registry: Registry) -> Sequence[tuple[Replay, bool]]:
    """What is to be changed: (replay, whether it is to be forgotten). The runner expires
    its own, since their topic goes with them."""
    now_ms, due = _now_ms(), []
    for replay in registry:
        is_runners = (replay.spec or {}).get("mode") == ReplayMode.TOPIC
        status: Mapping[str, Any] = replay.status
        spec: Mapping[str, Any] = replay.spec or {}
        at_ms, keep_ms = status.get("at_ms", now_ms), spec.get("keep_s", 0) * 1000
        if replay.is_finished and at_ms + keep_ms < now_ms:
            due.append((replay, True))
        elif not is_runners and not replay.is_finished and state_of(replay) == ReplayState.EXPIRED:
            due.append((replay, False))
    return due


def _now_ms() -> int:
    return int(time.time() * 1000)
