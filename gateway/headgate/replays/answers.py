"""Replays, snapshots, translations and coverage as JSON."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from headgate.core.replays.offset_map import PartitionMap
from headgate.core.replays.plan import BACKFILL, INGEST, Logs
from headgate.core.replays.replay import Control, Replay, ReplayState
from headgate.core.replays.segments import SegmentTable, Translation
from headgate.core.times import shown_time

REQUIRED = {"isolation.level": "read_committed"}  # of whoever reads the backfill tier
_MAX_GAPS = 100


def moment(ms: Any) -> str | None:
    """ISO 8601 in UTC. What is beyond its calendar, as records' times may be, is its end."""
    return shown_time(ms) if isinstance(ms, int) else None


def replay_page(replay: Replay, servers: str, runner: Mapping[str, Any]) -> dict[str, Any]:
    """One replay. servers: of the backfill tier."""
    spec: Mapping[str, Any] = replay.spec or {}
    status, request_body = replay.status, spec.get("asked", {})
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
    """The state as it is shown: a time that has passed counts, whoever has yet to write it."""
    expires_ms = replay.status.get("expires_ms")
    is_over = isinstance(expires_ms, int) and expires_ms < time.time() * 1000
    return str(
        ReplayState.EXPIRED if replay.state is ReplayState.READY and is_over else replay.state
    )


def planned_page(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What was planned when it was asked for; by an earlier release without the cold records."""
    names = (
        "records", "bytes", "cold_offsets", "lost_offsets", "seconds", "covered", "topic_ids",
    )  # fmt: skip
    page = {**{name: spec.get(name) for name in names}, "partitions": spec.get("plan", {})}
    if "cold_records" not in spec and isinstance(page["records"], int):
        page["records"] += spec.get("cold_offsets") or 0
    return page


def result_page(replay: Replay, servers: str) -> dict[str, Any] | None:
    """Where the records are to be read; None where there is nothing (yet, or any more)."""
    spec: Mapping[str, Any] = replay.spec or {}
    mode = spec.get("mode")
    if state_of(replay) not in (ReplayState.READY, ReplayState.COMPLETED):
        return None
    plan: Mapping[str, Any] = spec.get("plan", {})
    if mode == "topic":
        offsets = replay.status.get("offsets", {})
        return {"bootstrap_servers": servers, "topic": replay.topic, "offsets": offsets}
    found = {partition: dict(part["target"]) for partition, part in plan.items()}
    page = {"bootstrap_servers": servers, "topic": spec.get("topic"), "offsets": found}
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
    """One snapshot."""
    shown = {key: value for key, value in document.items() if key != "at_ms"}
    return {"name": name, **shown, "at": moment(document.get("at_ms"))}


def translated(
    table: SegmentTable, logs: Logs, to: str, offsets: Sequence[int]
) -> list[dict[str, Any]]:
    """In the order asked; `source` is the offset that was given, on whichever tier.

    table: with what the backfill tier's retention has taken.  deleted: that there was a record, or
    a hole, and retention took it. What the ingest tier has no more keeps its offset: it is what
    replays and coverage are asked about.
    """
    left, start = table.kept(logs.backfill_start), logs.backfill_start
    if to == BACKFILL:
        return [_row(left.to_target(offset), table.to_target(offset), start) for offset in offsets]
    found = [(left.to_source(offset), table.to_source(offset)) for offset in offsets]
    return [
        _row(now, before)
        | ({"deleted": True} if now.offset is not None and now.offset < logs.ingest_start else {})
        for now, before in found
    ]


def _row(now: Translation, before: Translation, start: int = 0) -> dict[str, Any]:
    """start: no place is before the log's, where a reader would be out of range."""
    offset = None if now.offset is None else max(now.offset, start)
    row = {"source": now.source, "offset": offset, "result": str(now.result)}
    is_gone = now.offset is None and before.offset is not None
    return row | {"deleted": True} if is_gone else row


def coverage_page(table: SegmentTable, found: PartitionMap, logs: Logs) -> dict[str, Any]:
    """What of one partition is mirrored. table: of that what is left on the backfill tier."""
    times, (source_id, target_id) = table.times(), found.ids
    begin = table.target_start if table else logs.backfill_start
    return {
        "layout": found.newest,
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
