"""What the control plane's pages ask about replays, over real clusters.

Implements `edge.replays.ReplayDesk`. Modes `seek` and `group` are carried out here, in the very
transaction that registers them: nothing is copied, so there is nothing that a runner could do
better, and a gateway that dies leaves all of it or nothing. Mode `topic` is the runner's.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from headgate.backends.tier_view import busy
from headgate.config.settings import Settings
from headgate.core.outcome import Reason
from headgate.core.refusal import RefusalError
from headgate.core.replay import (
    FINISHED,
    Control,
    Registry,
    Replay,
    State,
    keyed_id,
    new_id,
    record,
    tombstones,
)
from headgate.core.replay_spec import Mode, Spec, read_spec
from headgate.replays.answers import planned_page, replay_page, state_of
from headgate.replays.asked import asking, reading
from headgate.replays.documents import Asker, document_of, dry_page
from headgate.replays.planner import Planned, plan
from headgate.replays.registry_log import Change
from headgate.replays.second_tier import SecondTiers
from headgate.replays.tiers import Tiers

log = logging.getLogger(__name__)

_EVERY_S = 10.0
SetGauge = Callable[[str, tuple[str, ...], float], None]


class Asked(NamedTuple):
    """What became of a request. is_new: False for a dry run and for a repeat."""

    page: dict[str, Any]
    is_new: bool


class ReplayDesk:
    """tiers: registries and maps of all backfill clusters.  gauge: sets a figure of /metrics."""

    def __init__(
        self, tiers: SecondTiers, settings: Callable[[], Settings], gauge: SetGauge
    ) -> None:
        self._tiers = tiers
        self._settings = settings
        self._gauge = gauge

    async def create(self, asked: Any, caller: str, idempotency_key: str | None) -> Asked:
        """Plan a replay and register it, or only say what it would be."""
        now_ms = int(time.time() * 1000)
        with reading():
            spec = read_spec(asked, now_ms)
        tiers = self._tiers.table.of(spec.topic)
        asker = Asker(caller, now_ms, _id(caller, idempotency_key, now_ms))
        async with asking(tiers.backfill):
            registry = await self._tiers.log(tiers.backfill).read()
            known = registry.get(asker.replay_id)
            if known is not None:
                return self._repeated(known, asked, tiers, registry)
            planned = await plan(spec, tiers, self._tiers.maps(tiers.backfill), registry)
            document = document_of(asked, spec, tiers, planned, asker, self._settings().replays)
            self._check_size(spec, planned)
            if spec.dry_run:
                return Asked(dry_page(document, planned_page(document), tiers), is_new=False)
            return await self._register(asked, spec, tiers, document, asker)

    async def _register(
        self, asked: Any, spec: Spec, tiers: Tiers, document: dict[str, Any], asker: Asker
    ) -> Asked:
        repeated: list[Replay] = []

        async def decide(change: Change) -> None:
            repeated.clear()
            known = change.registry.get(asker.replay_id)
            if known is not None:  # another gateway was faster, or our own first attempt did it
                repeated.append(known)
                return
            self._check_quota(spec, change.registry, asker.name)
            await self._write(change, spec, tiers, document, asker)

        registry = await self._tiers.log(tiers.backfill).change(decide)
        for known in repeated:
            answer = self._repeated(known, asked, tiers, registry)
            is_own = (known.spec or {}).get("made_by") == document["made_by"]
            return answer._replace(is_new=is_own)
        replay = registry.get(asker.replay_id)
        assert replay is not None
        return Asked(replay_page(replay, tiers.servers, registry.runner), is_new=True)

    async def _write(
        self,
        change: Change,
        spec: Spec,
        tiers: Tiers,
        document: Mapping[str, Any],
        asker: Asker,
    ) -> None:
        mode, pairs = spec.deliver.mode, [record(asker.replay_id, "spec", document)]
        if mode is Mode.SEEK:
            ends = {"expires_ms": asker.now_ms + document["ttl_s"] * 1000}
            pairs.append(_status(asker, State.READY, ends))
        if mode is Mode.GROUP:
            why = await busy(tiers.backfill_options, spec.deliver.group)
            if why is not None:
                raise RefusalError(Reason.GROUP_ACTIVE, why)
            pairs.append(_status(asker, State.COMPLETED, {"group": spec.deliver.group}))
        await change.put(pairs)
        if mode is Mode.GROUP:
            places = {
                int(partition): int(part["target"]["start"])
                for partition, part in document["plan"].items()
            }
            text = f"headgate replay {asker.replay_id}"
            await change.commit_offsets(spec.deliver.group, spec.topic, places, text)

    def _repeated(self, known: Replay, asked: Any, tiers: Tiers, registry: Registry) -> Asked:
        if (known.spec or {}).get("asked") != asked:
            detail = f"this Idempotency-Key made replay {known.id}, which was asked for otherwise"
            raise RefusalError(Reason.IDEMPOTENCY_MISMATCH, detail)
        return Asked(replay_page(known, tiers.servers, registry.runner), is_new=False)

    def _check_size(self, spec: Spec, planned: Planned) -> None:
        most = self._settings().replays.records_max
        count = sum(one.records + one.cold for one in planned.plans)
        if spec.deliver.mode is Mode.TOPIC and count > most:
            detail = f"{count} records: at most {most} (replays.records_max); ask for a part"
            figures = {"limit": "replays.records_max", "records": count}
            raise RefusalError(Reason.QUOTA_EXCEEDED, detail, figures)

    def _check_quota(self, spec: Spec, registry: Registry, caller: str) -> None:
        most = self._settings().replays.active_max
        mine = [
            one
            for one in registry
            if (one.spec or {}).get("by") == caller
            and (one.spec or {}).get("mode") == Mode.TOPIC
            and one.state not in FINISHED
        ]
        if spec.deliver.mode is Mode.TOPIC and len(mine) >= most:
            detail = (
                f"{caller} has {len(mine)} replays that copy or keep a topic, of at most {most} "
                "(replays.active_max): cancel one"
            )
            figures = {"limit": "replays.active_max"}
            raise RefusalError(Reason.QUOTA_EXCEEDED, detail, figures, retry_after_s=60)

    # ---- what is there

    async def list(self, topic: str | None, state: str | None) -> Sequence[dict[str, Any]]:
        """All replays, oldest first."""
        if state is not None and state not in [*State]:
            raise RefusalError(Reason.MALFORMED, f"state is one of {', '.join(State)}")
        rows: list[dict[str, Any]] = []
        for backfill in self._tiers.table.backfills():
            async with asking(backfill):
                registry = await self._tiers.log(backfill).read()
            servers = self._tiers.table.options(backfill).bootstrap_servers
            rows += [replay_page(one, servers, registry.runner) for one in registry]
        rows.sort(key=lambda one: (one["created_at"] or "", one["id"]))  # of all registries
        return [
            one for one in rows if topic in (None, one["topic"]) and state in (None, one["state"])
        ]

    async def show(self, replay_id: str) -> dict[str, Any]:
        """One replay."""
        backfill, registry, replay = await self._find(replay_id)
        servers = self._tiers.table.options(backfill).bootstrap_servers
        return replay_page(replay, servers, registry.runner)

    async def control(self, replay_id: str, wanted: Control) -> dict[str, Any]:
        """Pause, resume or cancel."""
        backfill, _, _ = await self._find(replay_id)

        async def decide(change: Change) -> None:
            replay = change.registry.get(replay_id)
            if replay is None:
                raise RefusalError(Reason.NOT_FOUND, f"no replay {replay_id!r}")
            await change.put(_controlled(replay, wanted))

        async with asking(backfill):
            await self._tiers.log(backfill).change(decide)
        return await self.show(replay_id)

    async def _find(self, replay_id: str) -> tuple[str, Registry, Replay]:
        for backfill in self._tiers.table.backfills():
            async with asking(backfill):
                registry = await self._tiers.log(backfill).read()
            replay = registry.get(replay_id)
            if replay is not None:
                return backfill, registry, replay
        raise RefusalError(Reason.NOT_FOUND, f"no replay {replay_id!r}")

    # ---- what must be done without being asked

    async def follow(self) -> None:
        """Count replays for /metrics and forget old ones, again and again, until cancelled."""
        said = ""
        while True:
            try:
                await self.look_after()
                said = ""
            except RefusalError as refusal:
                if said != (said := str(refusal)):  # once, however long it lasts
                    log.warning("replays cannot be looked after: %s", refusal)
            except Exception:
                log.exception("looking after replays failed")
            await asyncio.sleep(_EVERY_S)

    async def look_after(self) -> None:
        """Once."""
        counts = dict.fromkeys(map(str, State), 0)
        for backfill in self._tiers.table.backfills():
            async with asking(backfill):
                registry = await self._tiers.log(backfill).read()
                for replay in registry:
                    counts[state_of(replay)] += 1
                if self._due(registry):
                    await self._tiers.log(backfill).change(self._sweep)
        for state, count in counts.items():
            self._gauge("headgate_replays", (state,), count)

    async def _sweep(self, change: Change) -> None:
        for replay, is_gone in self._due(change.registry):
            if is_gone:
                await change.put(tombstones(replay.id))
            else:
                status = {**replay.status, "state": State.EXPIRED, "at_ms": _now_ms()}
                await change.put([record(replay.id, "status", status)])

    def _due(self, registry: Registry) -> Sequence[tuple[Replay, bool]]:
        """What this has to change: (replay, whether it is to be forgotten). The runner expires
        its own, since their topic goes with them."""
        now_ms, due = _now_ms(), []
        for replay in registry:
            is_runners = (replay.spec or {}).get("mode") == Mode.TOPIC
            at_ms = replay.status.get("at_ms", now_ms)
            keep_ms = (replay.spec or {}).get("keep_s", 0) * 1000
            if replay.is_finished and at_ms + keep_ms < now_ms:
                due.append((replay, True))
            elif not is_runners and not replay.is_finished and state_of(replay) == State.EXPIRED:
                due.append((replay, False))
        return due


def _controlled(replay: Replay, wanted: Control) -> list[tuple[bytes, bytes | None]]:
    if replay.control is Control.CANCEL and wanted is Control.CANCEL:
        return []
    if replay.is_finished or replay.control is Control.CANCEL:
        detail = f"replay {replay.id} is {replay.state} (control: {replay.control})"
        raise RefusalError(Reason.REPLAY_FINISHED, detail)
    pairs = [record(replay.id, "control", {"control": wanted, "at_ms": _now_ms()})]
    is_ours = (replay.spec or {}).get("mode") != Mode.TOPIC
    if wanted is Control.CANCEL and (is_ours or replay.state is State.PENDING):
        # nobody else has begun anything that would have to be cleaned up
        status = {**replay.status, "state": State.CANCELLED, "at_ms": _now_ms()}
        pairs.append(record(replay.id, "status", status))
    return pairs


def _status(asker: Asker, state: State, more: Mapping[str, Any]) -> tuple[bytes, bytes | None]:
    return record(asker.replay_id, "status", {"state": state, "at_ms": asker.now_ms, **more})


def _id(caller: str, idempotency_key: str | None, now_ms: int) -> str:
    if idempotency_key is None:
        return new_id(now_ms, os.urandom(10))
    return keyed_id(caller, idempotency_key)


def _now_ms() -> int:
    return int(time.time() * 1000)
