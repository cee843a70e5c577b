"""Replays: create, list, show, control, expire and forget them.

`ReplayService` carries out the modes `seek` and `group`, in the transaction that registers them:
they copy nothing, so they need no runner, and a gateway that dies leaves all of it or nothing. Mode
`topic` is the runner's.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from headgate.config.settings import ReplaySettings, Settings
from headgate.kafka.logs import busy, view_of
from headgate.metrics.fleet import Fleet
from headgate.model.installation import Kind, NewEntry
from headgate.model.outcome import Failure, Reason, Refused, brief, malformed
from headgate.replays.plan import BACKFILL, shown, totals
from headgate.replays.planner import PlannedReplay, plan
from headgate.replays.registry import (
    Control,
    Registry,
    Replay,
    ReplayObserver,
    ReplayState,
    WaitingReplay,
    deleted,
    keyed_id,
    new_id,
    record,
    tombstones,
)
from headgate.replays.spec import ReplayMode, Spec, moment, read_spec
from headgate.replays.tiers import RegistryChange, SecondTiers, Tiers, asking, reading

log = logging.getLogger("headgate.replays")

REQUIRED = {"isolation.level": "read_committed"}  # for consumers of the backfill tier
_SWEEP_S = 10.0
_FAILED = "headgate_replays_failed_total"
_NEEDS_RUNNER = (ReplayState.PENDING, ReplayState.PLANNED, ReplayState.COPYING)


# The least that a runner copies; 29,000 of 648 bytes were measured (docs/operate/replays.md).
_RECORDS_PER_S = 20_000
_MAX_PLAN_BYTES = 800_000


class Author(NamedTuple):
    """The caller of a request, its time, and the replay's id."""

    name: str
    now_ms: int
    replay_id: str


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
                spec,
                tiers,
                maps,
                registry,
                limits.mirror_wait_ms / 1000,
                partial(log.want, spec.topic),
            )
            document = document_of(request_body, spec, tiers, planned, author, limits)
            _check_size(spec, planned, limits.records_max)
            record(author.replay_id, "spec", document)  # a dry run is refused, too, if too large
            if spec.dry_run:
                return RequestedReplay(dry_page(document, tiers), is_new=False)
            return await self._register(request_body, spec, tiers, document, author)

    async def _register(
        self, request_body: Any, spec: Spec, tiers: Tiers, document: dict[str, Any], author: Author
    ) -> RequestedReplay:
        async def decide(change: RegistryChange) -> None:
            if change.registry.get(author.replay_id) is None:
                active_max = self._settings().replays.active_max
                _check_quota(spec, change.registry, author.name, active_max)
                await _write(change, spec, tiers, document, author)

        registry = await self._tiers.log(tiers.backfill).change(decide)
        replay = registry.get(author.replay_id)
        assert replay is not None
        if replay.spec_fields.get("made_by") != document["made_by"]:  # by a faster gateway
            return _repeated(replay, request_body, tiers, registry)
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

    def waiting(self) -> Sequence[WaitingReplay]:
        """Return the replays that need a runner, as of the last read."""
        return [
            WaitingReplay(
                replay.id, replay.created_ms, seen_ms if isinstance(seen_ms, int) else None
            )
            for registry in (self._tiers.log(each).last for each in self._tiers.backfills())
            for seen_ms in (registry.runner.get("at_ms"),)
            for replay in registry
            if replay.is_copy and state_of(replay) in _NEEDS_RUNNER
        ]

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


# ---- pages of replays as JSON, and the registry's record of a request


def replay_page(replay: Replay, servers: str, runner: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page of a replay.

    Args:
        replay: The replay.
        servers: Bootstrap servers of the backfill tier.
        runner: The runner's heartbeat; empty: there was never a runner.
    """
    spec, status = replay.spec_fields, replay.status
    request_body = spec.get("asked", {})
    page = {name: value for name, value in request_body.items() if name != "dry_run"}
    return {
        "id": replay.id,
        "state": state_of(replay),
        "control": str(replay.control),
        "reason": status.get("reason") or _waiting(replay, runner),
        **page,
        "by": spec.get("by"),
        "created_at": moment(spec.get("created_ms")),
        "changed_at": moment(status.get("at_ms", spec.get("created_ms"))),
        "expires_at": moment(status.get("expires_ms")),
        "planned": planned_page(spec),
        "done": {
            "read": status.get("read", 0),
            "records": status.get("records", 0),
            "bytes": status.get("bytes", 0),
            "event_time": moment(status.get("event_time_ms")),
        },
        "result": result_page(replay, servers),
        "required": REQUIRED,
    }


def state_of(replay: Replay) -> str:
    """Return the state to show: EXPIRED from its time on, also before that is written."""
    expires_ms = replay.status.get("expires_ms")
    is_over = isinstance(expires_ms, int) and expires_ms < time.time() * 1000
    is_expired = replay.state is ReplayState.READY and is_over
    return str(ReplayState.EXPIRED if is_expired else replay.state)


def planned_page(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan in a spec. Earlier releases counted records without the cold ones."""
    names = (
        "records", "bytes", "cold_offsets", "lost_offsets", "seconds", "covered", "topic_ids",
    )  # fmt: skip
    page = {**{name: spec.get(name) for name in names}, "partitions": spec.get("plan", {})}
    if "cold_records" not in spec and isinstance(page["records"], int):
        page["records"] += spec.get("cold_offsets") or 0
    return page


def result_page(replay: Replay, servers: str) -> dict[str, Any] | None:
    """Return where consumers read the records; None before and after that is possible."""
    spec = replay.spec_fields
    mode = spec.get("mode")
    if state_of(replay) not in (ReplayState.READY, ReplayState.COMPLETED):
        return None
    if replay.is_copy:
        offsets = replay.status.get("offsets", {})
        return {"bootstrap_servers": servers, "topic": replay.topic, "offsets": offsets}
    plan = spec.get("plan", {})
    targets = {partition: dict(part["target"]) for partition, part in plan.items()}
    page = {"bootstrap_servers": servers, "topic": spec.get("topic"), "offsets": targets}
    return page | ({"group": spec.get("group")} if mode == "group" else {})


def _waiting(replay: Replay, runner: Mapping[str, Any]) -> str | None:
    if replay.control is Control.CANCEL and not replay.is_finished:
        return "cancelled; the runner has yet to clean up"
    if replay.state is not ReplayState.PENDING:
        return None
    if not runner:
        return "waits for a runner: start `headgate-spark replay --follow`"
    return f"waits for the runner, which was last seen at {moment(runner.get('at_ms'))}"


def document_of(
    request_body: Mapping[str, Any],
    spec: Spec,
    tiers: Tiers,
    planned: PlannedReplay,
    author: Author,
    settings: ReplaySettings,
) -> dict[str, Any]:
    """Return the spec record: all that a runner needs, with the quotas in force at the request."""
    sums = totals(planned.plans)
    records = sums.records + planned.cold_records
    rate = {
        "records_per_s": spec.rate.records_per_s,
        "bytes_per_s": _smallest(spec.rate.bytes_per_s, settings.bytes_per_s),
        "cold_bytes_per_s": _smallest(spec.rate.bytes_per_s, settings.cold_bytes_per_s),
        "cold_in_all_bytes_per_s": settings.cold_bytes_per_s,
    }
    if len(planned.plans) * 400 > _MAX_PLAN_BYTES:
        detail = f"{len(planned.plans)} partitions are too many for one replay: ask for some"
        raise Refused(malformed(detail))
    return {
        "asked": request_body,
        "mode": str(spec.deliver.mode),
        "group": spec.deliver.group,
        "topic": spec.topic,
        "cluster": tiers.ingest,
        "backfill": tiers.backfill,
        "by": author.name,
        "created_ms": author.now_ms,
        # distinguishes a repeat from an attempt with an unknown end
        "made_by": os.urandom(8).hex(),
        "partitions": planned.partitions,
        "plan": shown(planned.plans),
        "topic_ids": dict(planned.topic_ids),
        "records": records,
        "cold_records": planned.cold_records,
        "bytes": planned.bytes,
        "cold_offsets": sums.cold,
        "lost_offsets": sums.lost,
        "covered": not sums.cold and not sums.lost,
        "seconds": _seconds(spec, rate, records, planned.bytes),
        "rate": rate,
        "ttl_s": _smallest(spec.deliver.ttl_s, settings.ttl_s),
        "keep_s": settings.keep_s,
    }


def dry_page(document: Mapping[str, Any], tiers: Tiers) -> dict[str, Any]:
    """Return the response to a dry run."""
    request_body = {name: value for name, value in document["asked"].items() if name != "dry_run"}
    return {
        "dry_run": True,
        **request_body,
        "planned": planned_page(document),
        "bootstrap_servers": tiers.servers,
        "required": REQUIRED,
    }


def _smallest(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def _seconds(
    spec: Spec, rate: Mapping[str, int | None], records: int, total_bytes: int | None
) -> float:
    """Estimate the copying time, without the wait for a runner."""
    if spec.deliver.mode is not ReplayMode.TOPIC:
        return 0.0
    by_records = records / min(rate["records_per_s"] or _RECORDS_PER_S, _RECORDS_PER_S)
    bytes_per_s = rate["bytes_per_s"]
    by_bytes = (total_bytes or 0) / bytes_per_s if bytes_per_s else 0.0
    return round(max(by_records, by_bytes), 1)


# ---- maintenance: count replays, note their ends, and expire and forget old ones


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
            await asyncio.sleep(_SWEEP_S)

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
        for entry in self._observer.see(replays):
            self._note(entry)
            if entry.kind is Kind.REPLAY_FAILED:
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
