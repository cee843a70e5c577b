"""What the control plane's pages ask about replays, over real clusters.

Implements `edge.management.replays.ReplayRequests`. Modes `seek` and `group` are carried out here,
in the very transaction that registers them: nothing is copied, so there is nothing that a runner
could do better, and a gateway that dies leaves all of it or nothing. Mode `topic` is the runner's.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from headgate.backends.kafka.tier_view import busy
from headgate.config.settings import Settings
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, brief, malformed
from headgate.replays.answers import Author, document_of, dry_page, planned_page, replay_page
from headgate.replays.planner import PlannedReplay, plan
from headgate.replays.registry import (
    FINISHED,
    Control,
    Registry,
    Replay,
    ReplayState,
    keyed_id,
    new_id,
    record,
)
from headgate.replays.spec import ReplayMode, Spec, read_spec
from headgate.replays.tiers import RegistryChange, SecondTiers, Tiers, asking, reading


class RequestedReplay(NamedTuple):
    """What became of a request. is_new: False for a dry run and for a repeat."""

    page: dict[str, Any]
    is_new: bool


class ListedReplays(NamedTuple):
    """Replays, and the backfill clusters that could not be asked for theirs."""

    replays: Sequence[dict[str, Any]]
    unavailable: Sequence[dict[str, Any]]


class ReplayService:
    """tiers: registries and maps of all backfill clusters."""

    def __init__(self, tiers: SecondTiers, settings: Callable[[], Settings]) -> None:
        self._tiers = tiers
        self._settings = settings

    async def create(
        self, request_body: Any, caller: str, idempotency_key: str | None
    ) -> RequestedReplay:
        """Plan a replay and register it, or only say what it would be."""
        now_ms = int(time.time() * 1000)
        with reading():
            spec = read_spec(request_body, now_ms)
        tiers = self._tiers.table.of(spec.topic)
        author = Author(caller, now_ms, _id(caller, idempotency_key, now_ms))
        async with asking(tiers.backfill):
            log = self._tiers.log(tiers.backfill)
            registry = await log.read()
            known = registry.get(author.replay_id)
            if known is not None:
                return self._repeated(known, request_body, tiers, registry)
            limits = self._settings().replays
            maps = self._tiers.maps(tiers.backfill)
            planned = await plan(
                spec, tiers, maps, registry, limits.mirror_wait_ms / 1000,
                partial(log.want, spec.topic),
            )  # fmt: skip
            document = document_of(request_body, spec, tiers, planned, author, limits)
            self._check_size(spec, planned)
            record(author.replay_id, "spec", document)  # a dry run says, too, that it is too large
            if spec.dry_run:
                return RequestedReplay(
                    dry_page(document, planned_page(document), tiers), is_new=False
                )
            return await self._register(request_body, spec, tiers, document, author)

    async def _register(
        self, request_body: Any, spec: Spec, tiers: Tiers, document: dict[str, Any], author: Author
    ) -> RequestedReplay:
        repeated: list[Replay] = []

        async def decide(change: RegistryChange) -> None:
            repeated.clear()
            known = change.registry.get(author.replay_id)
            if known is not None:  # another gateway was faster, or our own first attempt did it
                repeated.append(known)
                return
            self._check_quota(spec, change.registry, author.name)
            await self._write(change, spec, tiers, document, author)

        registry = await self._tiers.log(tiers.backfill).change(decide)
        for known in repeated:
            answer = self._repeated(known, request_body, tiers, registry)
            is_own = (known.spec or {}).get("made_by") == document["made_by"]
            return answer._replace(is_new=is_own)
        replay = registry.get(author.replay_id)
        assert replay is not None
        return RequestedReplay(replay_page(replay, tiers.servers, registry.runner), is_new=True)

    async def _write(
        self,
        change: RegistryChange,
        spec: Spec,
        tiers: Tiers,
        document: Mapping[str, Any],
        author: Author,
    ) -> None:
        mode, pairs = spec.deliver.mode, [record(author.replay_id, "spec", document)]
        if mode is ReplayMode.SEEK:
            ends = {"expires_ms": author.now_ms + document["ttl_s"] * 1000}
            pairs.append(_status(author, ReplayState.READY, ends))
        if mode is ReplayMode.GROUP:
            why = await busy(tiers.backfill_options, spec.deliver.group)
            if why is not None:
                raise Refused(Failure(Reason.GROUP_ACTIVE, why))
            pairs.append(_status(author, ReplayState.COMPLETED, {"group": spec.deliver.group}))
        await change.put(pairs)
        if mode is ReplayMode.GROUP:
            places = {
                int(partition): int(part["target"]["start"])
                for partition, part in document["plan"].items()
            }
            text = f"headgate replay {author.replay_id}"
            await change.commit_offsets(spec.deliver.group, spec.topic, places, text)

    def _repeated(
        self, known: Replay, request_body: Any, tiers: Tiers, registry: Registry
    ) -> RequestedReplay:
        if (known.spec or {}).get("asked") != request_body:
            detail = f"this Idempotency-Key made replay {known.id}, which was asked for otherwise"
            raise Refused(Failure(Reason.IDEMPOTENCY_MISMATCH, detail))
        return RequestedReplay(replay_page(known, tiers.servers, registry.runner), is_new=False)

    def _check_size(self, spec: Spec, planned: PlannedReplay) -> None:
        limit = self._settings().replays.records_max
        count = sum(one.records + one.cold for one in planned.plans)
        if spec.deliver.mode is ReplayMode.TOPIC and count > limit:
            detail = f"{count} records: at most {limit} (replays.records_max); ask for a part"
            figures = {"limit": "replays.records_max", "records": count}
            raise Refused(Failure(Reason.QUOTA_EXCEEDED, detail, figures))

    def _check_quota(self, spec: Spec, registry: Registry, caller: str) -> None:
        limit = self._settings().replays.active_max
        mine = [
            one
            for one in registry
            if (one.spec or {}).get("by") == caller
            and (one.spec or {}).get("mode") == ReplayMode.TOPIC
            and one.state not in FINISHED
        ]
        if spec.deliver.mode is ReplayMode.TOPIC and len(mine) >= limit:
            detail = (
                f"{caller} has {len(mine)} replays that copy or keep a topic, of at most {limit} "
                "(replays.active_max): cancel one"
            )
            figures = {"limit": "replays.active_max"}
            raise Refused(Failure(Reason.QUOTA_EXCEEDED, detail, figures, retry_after_s=60))

    # ---- what is there

    async def list(self, topic: str | None, state: str | None) -> ListedReplays:
        """All replays, oldest first, and the clusters that could not be asked."""
        if state is not None and state not in [*ReplayState]:
            raise Refused(malformed(f"state is one of {', '.join(ReplayState)}"))
        registries = await self._tiers.registries()
        rows: list[dict[str, Any]] = []
        for backfill, registry in registries.answered:
            servers = self._tiers.table.options(backfill).bootstrap_servers
            rows += [replay_page(one, servers, registry.runner) for one in registry]
        rows.sort(key=lambda one: (one["created_at"] or "", one["id"]))  # of all registries
        found = [
            row for row in rows if topic in (None, row["topic"]) and state in (None, row["state"])
        ]
        return ListedReplays(found, registries.unavailable())

    async def show(self, replay_id: str) -> dict[str, Any]:
        """One replay."""
        backfill, registry, replay = await self._find(replay_id)
        servers = self._tiers.table.options(backfill).bootstrap_servers
        return replay_page(replay, servers, registry.runner)

    async def control(self, replay_id: str, wanted: Control) -> dict[str, Any]:
        """Pause, resume or cancel."""
        backfill, _, _ = await self._find(replay_id)

        async def decide(change: RegistryChange) -> None:
            replay = change.registry.get(replay_id)
            if replay is None:
                raise Refused(Failure(Reason.NOT_FOUND, f"no replay {brief(replay_id)}"))
            await change.put(_controlled(replay, wanted))

        async with asking(backfill):
            await self._tiers.log(backfill).change(decide)
        return await self.show(replay_id)

    async def _find(self, replay_id: str) -> tuple[str, Registry, Replay]:
        missing = Refused(Failure(Reason.NOT_FOUND, f"no replay {brief(replay_id)}"))
        for backfill in self._tiers.likely(replay_id):
            try:
                async with asking(backfill):
                    registry = await self._tiers.log(backfill).read()
            except Refused as refusal:
                missing = refusal  # it may be there
                continue
            replay = registry.get(replay_id)
            if replay is not None:
                return backfill, registry, replay
        raise missing


def _controlled(replay: Replay, wanted: Control) -> list[tuple[bytes, bytes | None]]:
    if replay.control is Control.CANCEL and wanted is Control.CANCEL:
        return []
    if replay.is_finished or replay.control is Control.CANCEL:
        detail = f"replay {replay.id} is {replay.state} (control: {replay.control})"
        raise Refused(Failure(Reason.REPLAY_FINISHED, detail))
    pairs = [record(replay.id, "control", {"control": wanted, "at_ms": _now_ms()})]
    is_ours = (replay.spec or {}).get("mode") != ReplayMode.TOPIC
    if wanted is Control.CANCEL and (is_ours or replay.state is ReplayState.PENDING):
        # nobody else has begun anything that would have to be cleaned up
        status = {**replay.status, "state": ReplayState.CANCELLED, "at_ms": _now_ms()}
        pairs.append(record(replay.id, "status", status))
    return pairs


def _status(
    author: Author, state: ReplayState, more: Mapping[str, Any]
) -> tuple[bytes, bytes | None]:
    return record(author.replay_id, "status", {"state": state, "at_ms": author.now_ms, **more})


def _id(caller: str, idempotency_key: str | None, now_ms: int) -> str:
    if idempotency_key is None:
        return new_id(now_ms, os.urandom(10))
    return keyed_id(caller, idempotency_key)


def _now_ms() -> int:
    return int(time.time() * 1000)
