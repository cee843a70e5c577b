"""The service of replays: create, list, show and control them.

Implements `admin.replays.ReplayRequests`. Modes `seek` and `group` are carried out here,
in the transaction that registers them: they copy nothing, so they need no runner, and a gateway
that dies leaves all of it or nothing. Mode `topic` is the runner's.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from headgate.config.settings import Settings
from headgate.kafka.logs import busy
from headgate.model.outcome import Failure, Reason, Refused, brief, malformed
from headgate.replays.answers import Author, document_of, dry_page, planned_page, replay_page
from headgate.replays.planner import PlannedReplay, plan
from headgate.replays.registry import (
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
    """The result of a request; `is_new` is False for a dry run and for a repeat."""

    page: dict[str, Any]
    is_new: bool


class ListedReplays(NamedTuple):
    """Replays, and the backfill clusters that did not answer."""

    replays: Sequence[dict[str, Any]]
    unavailable: Sequence[dict[str, Any]]


class ReplayService:
    """Replays of all backfill clusters."""

    def __init__(self, tiers: SecondTiers, settings: Callable[[], Settings]) -> None:
        self._tiers = tiers
        self._settings = settings

    async def create(
        self, request_body: Any, caller: str, idempotency_key: str | None
    ) -> RequestedReplay:
        """Plan a replay and register it, or return its plan if it is a dry run. Raises Refused."""
        now_ms = _now_ms()
        with reading():
            spec = read_spec(request_body, now_ms)
        tiers = self._tiers.of(spec.topic)
        if idempotency_key is None:
            replay_id = new_id(now_ms, os.urandom(10))
        else:
            replay_id = keyed_id(caller, idempotency_key)
        author = Author(caller, now_ms, replay_id)
        async with asking(tiers.backfill):
            log = self._tiers.log(tiers.backfill)
            registry = await log.read()
            existing = registry.get(author.replay_id)
            if existing is not None:
                return _repeated(existing, request_body, tiers, registry)
            limits = self._settings().replays
            maps = self._tiers.maps(tiers.backfill)
            planned = await plan(
                spec, tiers, maps, registry, limits.mirror_wait_ms / 1000,
                partial(log.want, spec.topic),
            )  # fmt: skip
            document = document_of(request_body, spec, tiers, planned, author, limits)
            _check_size(spec, planned, limits.records_max)
            record(author.replay_id, "spec", document)  # a dry run is refused, too, if too large
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
            existing = change.registry.get(author.replay_id)
            if existing is not None:  # from a faster gateway, or an earlier attempt
                repeated.append(existing)
                return
            active_max = self._settings().replays.active_max
            _check_quota(spec, change.registry, author.name, active_max)
            await _write(change, spec, tiers, document, author)

        registry = await self._tiers.log(tiers.backfill).change(decide)
        for existing in repeated:
            answer = _repeated(existing, request_body, tiers, registry)
            is_own = existing.spec_fields.get("made_by") == document["made_by"]
            return answer._replace(is_new=is_own)
        replay = registry.get(author.replay_id)
        assert replay is not None
        return RequestedReplay(replay_page(replay, tiers.servers, registry.runner), is_new=True)

    async def list(self, topic: str | None, state: str | None) -> ListedReplays:
        """Return replays, oldest first, and the clusters that did not answer."""
        if state is not None and state not in [*ReplayState]:
            raise Refused(malformed(f"state is one of {', '.join(ReplayState)}"))
        registries = await self._tiers.registries()
        rows: list[dict[str, Any]] = []
        for backfill, registry in registries.answered:
            servers = self._tiers.options(backfill).bootstrap_servers
            rows += [replay_page(replay, servers, registry.runner) for replay in registry]
        rows.sort(key=lambda row: (row["created_at"] or "", row["id"]))  # across all registries
        rows = [
            row for row in rows if topic in (None, row["topic"]) and state in (None, row["state"])
        ]
        return ListedReplays(rows, registries.unavailable())

    async def show(self, replay_id: str) -> dict[str, Any]:
        """Return one replay. Raises Refused."""
        backfill, registry, replay = await self._find(replay_id)
        servers = self._tiers.options(backfill).bootstrap_servers
        return replay_page(replay, servers, registry.runner)

    async def control(self, replay_id: str, wanted: Control) -> dict[str, Any]:
        """Pause, resume or cancel a replay. Raises Refused."""
        backfill, _, _ = await self._find(replay_id)

        async def decide(change: RegistryChange) -> None:
            replay = change.registry.get(replay_id)
            if replay is None:
                raise _missing(replay_id)
            await change.put(_controlled(replay, wanted))

        async with asking(backfill):
            await self._tiers.log(backfill).change(decide)
        return await self.show(replay_id)

    async def _find(self, replay_id: str) -> tuple[str, Registry, Replay]:
        refused = _missing(replay_id)
        for backfill in self._tiers.likely(replay_id):
            try:
                async with asking(backfill):
                    registry = await self._tiers.log(backfill).read()
            except Refused as refusal:
                refused = refusal  # the replay may be in this registry
                continue
            replay = registry.get(replay_id)
            if replay is not None:
                return backfill, registry, replay
        raise refused


def _controlled(replay: Replay, wanted: Control) -> list[tuple[bytes, bytes | None]]:
    if replay.control is Control.CANCEL and wanted is Control.CANCEL:
        return []
    if replay.is_finished or replay.control is Control.CANCEL:
        detail = f"replay {replay.id} is {replay.state} (control: {replay.control})"
        raise Refused(Failure(Reason.REPLAY_FINISHED, detail))
    pairs = [record(replay.id, "control", {"control": wanted, "at_ms": _now_ms()})]
    if wanted is Control.CANCEL and (not replay.is_copy or replay.state is ReplayState.PENDING):
        # no runner has begun anything that it would have to clean up
        status = {**replay.status, "state": ReplayState.CANCELLED, "at_ms": _now_ms()}
        pairs.append(record(replay.id, "status", status))
    return pairs


def _status(
    author: Author, state: ReplayState, more: Mapping[str, Any]
) -> tuple[bytes, bytes | None]:
    return record(author.replay_id, "status", {"state": state, "at_ms": author.now_ms, **more})


def _missing(replay_id: str) -> Refused:
    return Refused(Failure(Reason.NOT_FOUND, f"no replay {brief(replay_id)}"))


def _now_ms() -> int:
    return int(time.time() * 1000)


async def _write(
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
        starts = {
            int(partition): int(part["target"]["start"])
            for partition, part in document["plan"].items()
        }
        text = f"headgate replay {author.replay_id}"
        await change.commit_offsets(spec.deliver.group, spec.topic, starts, text)


def _repeated(
    existing: Replay, request_body: Any, tiers: Tiers, registry: Registry
) -> RequestedReplay:
    if existing.spec_fields.get("asked") != request_body:
        detail = f"this Idempotency-Key made replay {existing.id}, which was asked for otherwise"
        raise Refused(Failure(Reason.IDEMPOTENCY_MISMATCH, detail))
    return RequestedReplay(replay_page(existing, tiers.servers, registry.runner), is_new=False)


def _check_size(spec: Spec, planned: PlannedReplay, limit: int) -> None:
    count = sum(part.records + part.cold for part in planned.plans)
    if spec.deliver.mode is ReplayMode.TOPIC and count > limit:
        detail = f"{count} records: at most {limit} (replays.records_max); ask for a part"
        figures = {"limit": "replays.records_max", "records": count}
        raise Refused(Failure(Reason.QUOTA_EXCEEDED, detail, figures))


def _check_quota(spec: Spec, registry: Registry, caller: str, limit: int) -> None:
    count = sum(
        replay.is_copy and not replay.is_finished and replay.spec_fields.get("by") == caller
        for replay in registry
    )
    if spec.deliver.mode is ReplayMode.TOPIC and count >= limit:
        detail = (
            f"{caller} has {count} replays that copy or keep a topic, of at most {limit} "
            "(replays.active_max): cancel one"
        )
        figures = {"limit": "replays.active_max"}
        raise Refused(Failure(Reason.QUOTA_EXCEEDED, detail, figures, retry_after_s=60))
