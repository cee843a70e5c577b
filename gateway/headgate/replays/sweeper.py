"""Maintenance of replays: count them, note their ends, and expire and forget old ones."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from headgate.kafka.logs import view_of
from headgate.metrics.fleet import Fleet
from headgate.model.installation import Kind, NewEntry
from headgate.model.outcome import Refused
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
from headgate.replays.tiers import RegistryChange, SecondTiers, asking

log = logging.getLogger("headgate.replays")

_EVERY_S = 10.0
_FAILED = "headgate_replays_failed_total"


class Sweeper:
    """The maintenance of the replays of all backfill clusters.

    Args:
        tiers: The backfill clusters.
        figures: This process's figures on /metrics.
        note: Writes to the installation log.
    """

    def __init__(
        self, tiers: SecondTiers, figures: Fleet, note: Callable[[NewEntry], None]
    ) -> None:
        self._tiers = tiers
        self._figures = figures
        figures.count(_FAILED, by=0)  # a counter that appears with its first count has no increase
        self._note = note
        self._observer = ReplayObserver(_now_ms())
        self._warned: dict[str, str] = {}
        self._missing: dict[str, set[str]] = {}

    async def follow(self) -> None:
        """Sweep every 10 s until cancelled."""
        while True:
            try:
                await self.sweep()
            except Exception:
                log.exception("replay maintenance failed")
            await asyncio.sleep(_EVERY_S)

    async def sweep(self) -> None:
        """Sweep each cluster independently: one that does not answer does not stop the others.

        The replays of such a cluster are counted as of the last read.
        """
        backfills = self._tiers.backfills()
        await asyncio.gather(*map(self._sweep_backfill, backfills))
        counts = dict.fromkeys(map(str, ReplayState), 0)
        replays = [replay for backfill in backfills for replay in self._tiers.log(backfill).last]
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
            if self._warned.get(backfill) != str(refusal):  # once, however long it lasts
                log.warning("replay maintenance is not possible: %s", refusal)
            self._warned[backfill] = str(refusal)
        else:
            self._warned.pop(backfill, None)

    async def _gone(self, backfill: str) -> dict[str, str]:
        """Return the topics of readable replays that two polls in a row lacked, by replay id.

        A single node may not know a new topic yet.
        """
        waiting = _readable_topics(await self._tiers.log(backfill).read())
        now: dict[str, str] = {}
        if waiting:
            async with view_of(self._tiers.options(backfill)) as view:
                ids = await view.topic_ids({topic for topic, _ in waiting.values()})
            now = {
                replay_id: topic
                for replay_id, (topic, wanted) in waiting.items()
                if topic not in ids or wanted not in (None, ids[topic])
            }
        before, self._missing[backfill] = self._missing.get(backfill, set()), set(now)
        return {replay_id: now[replay_id] for replay_id in now.keys() & before}


def _readable_topics(registry: Registry) -> dict[str, tuple[str, str | None]]:
    """Return the topic of each replay that can be read now, and the id that the topic must have."""
    topics = {}
    for replay in registry:
        if state_of(replay) == ReplayState.READY:
            status: Mapping[str, Any] = replay.status
            spec = replay.spec_fields
            own = (replay.topic, status.get("topic_id"))
            of_tier = (str(spec.get("topic")), spec.get("topic_ids", {}).get(BACKFILL))
            topics[replay.id] = own if replay.is_copy else of_tier
    return topics


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
    """Return the replays to expire (False) or to forget (True).

    The runner expires its own, because it deletes their topics.
    """
    now_ms, due = _now_ms(), []
    for replay in registry:
        status: Mapping[str, Any] = replay.status
        at_ms = status.get("at_ms", now_ms)
        keep_ms = replay.spec_fields.get("keep_s", 0) * 1000
        if replay.is_finished:
            if at_ms + keep_ms < now_ms:
                due.append((replay, True))
        elif not replay.is_copy and state_of(replay) == ReplayState.EXPIRED:
            due.append((replay, False))
    return due


def _now_ms() -> int:
    return int(time.time() * 1000)
