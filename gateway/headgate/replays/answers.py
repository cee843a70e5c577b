"""Replays, snapshots, translations and coverage as JSON: responses and the registry's spec."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headgate.config.settings import ReplaySettings
from headgate.model.outcome import Refused, malformed
from headgate.model.times import shown_time
from headgate.replays.offset_map import PartitionMap
from headgate.replays.plan import BACKFILL, INGEST, Logs, shown, totals
from headgate.replays.planner import PlannedReplay
from headgate.replays.registry import Control, Replay, ReplayState
from headgate.replays.segments import SegmentTable, Translation
from headgate.replays.spec import ReplayMode, Spec
from headgate.replays.tiers import Tiers

REQUIRED = {"isolation.level": "read_committed"}  # for consumers of the backfill tier
_MAX_GAPS = 100


def moment(ms: Any) -> str | None:
    """Format ms since 1970 as ISO 8601 in UTC. A time beyond the calendar becomes its end."""
    return shown_time(ms) if isinstance(ms, int) else None


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


def snapshot_page(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page of a snapshot."""
    shown = {key: value for key, value in document.items() if key != "at_ms"}
    return {"name": name, **shown, "at": moment(document.get("at_ms"))}


def translated(
    table: SegmentTable, logs: Logs, to: str, offsets: Sequence[int]
) -> list[dict[str, Any]]:
    """Translate offsets, in their order. `source` of a row is the given offset, on either tier.

    A row is `deleted` if retention took its record or hole. Offsets that the ingest tier no longer
    has are translated nevertheless, for requests of replays and of coverage.

    Args:
        table: All segments, with those that the backfill tier's retention took.
        logs: The bounds of both logs.
        to: The tier of the results.
        offsets: Offsets of the other tier.
    """
    kept, start = table.kept(logs.backfill_start), logs.backfill_start
    if to == BACKFILL:
        return [_row(kept.to_target(offset), table.to_target(offset), start) for offset in offsets]
    pairs = [(kept.to_source(offset), table.to_source(offset)) for offset in offsets]
    return [
        _row(now, before)
        | ({"deleted": True} if now.offset is not None and now.offset < logs.ingest_start else {})
        for now, before in pairs
    ]


def _row(now: Translation, before: Translation, start: int = 0) -> dict[str, Any]:
    """Return one translation. Consumers cannot read from offsets before `start`."""
    offset = None if now.offset is None else max(now.offset, start)
    row = {"source": now.source, "offset": offset, "result": str(now.result)}
    is_gone = now.offset is None and before.offset is not None
    return row | {"deleted": True} if is_gone else row


def coverage_page(table: SegmentTable, whole_map: PartitionMap, logs: Logs) -> dict[str, Any]:
    """Return the coverage of a partition.

    Args:
        table: The segments that the backfill tier still has.
        whole_map: The partition's map.
        logs: The bounds of both logs.
    """
    times, (source_id, target_id) = table.times(), whole_map.ids
    begin = table.target_start if table else logs.backfill_start
    return {
        "layout": whole_map.newest,
        "topic_ids": {INGEST: source_id, BACKFILL: target_id} if source_id else None,
        "source": {"start": table.source_start, "end": table.source_end},
        "target": {"start": begin, "end": max(begin, table.target_end)},
        "times": None if times is None else {"from": moment(times[0]), "to": moment(times[1])},
        "segments": len(table),
        "not_mirrored": {
            "before": max(0, table.source_start - logs.ingest_start),
            "behind": max(0, logs.ingest_end - max(table.source_end, logs.ingest_start)),
        },
        "gaps": [
            {"start": gap.source, "end": gap.end, "reason": gap.reason, "at": moment(gap.at_ms)}
            for gap in table.gaps[-_MAX_GAPS:]
        ],
    }


# The least that a runner copies; 29,000 of 648 bytes were measured (docs/operate/replays.md).
RECORDS_PER_S = 20_000
_MAX_PLAN_BYTES = 800_000


class Author(NamedTuple):
    """The caller of a request, its time, and the replay's id."""

    name: str
    now_ms: int
    replay_id: str


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
        "made_by": os.urandom(
            8
        ).hex(),  # distinguishes a repeat from an attempt with an unknown end
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


def dry_page(
    document: Mapping[str, Any], planned: Mapping[str, Any], tiers: Tiers
) -> dict[str, Any]:
    """Return the response to a dry run."""
    request_body = {name: value for name, value in document["asked"].items() if name != "dry_run"}
    return {
        "dry_run": True,
        **request_body,
        "planned": planned,
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
    by_records = records / min(rate["records_per_s"] or RECORDS_PER_S, RECORDS_PER_S)
    bytes_per_s = rate["bytes_per_s"]
    by_bytes = (total_bytes or 0) / bytes_per_s if bytes_per_s else 0.0
    return round(max(by_records, by_bytes), 1)
