"""Services of the offset map: translate offsets, show coverage, and keep snapshots.

A snapshot is a named vector of source offsets in the registry: the ends of a topic, or a group's
committed offsets.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headgate.kafka.logs import TierView, view_of
from headgate.model.outcome import SHOWN, Failure, Reason, Refused, brief, malformed
from headgate.replays.offset_map import PartitionMap
from headgate.replays.plan import BACKFILL, INGEST, Logs
from headgate.replays.planner import (
    ReplayedTopic,
    ingest_if_available,
    partitions_of,
    read_tiers,
    tier_now,
)
from headgate.replays.registry import snapshot_record
from headgate.replays.segments import SegmentTable, Translation
from headgate.replays.spec import (
    LONGEST_NAME,
    FieldError,
    moment,
    partition_number,
    read_number,
    read_object,
    read_text,
    read_topic,
)
from headgate.replays.tiers import RegistryChange, SecondTiers, Tiers, asking, reading

_MAX_OFFSETS = 10_000  # per request: a second or two of another thread
_MAX_GAPS = 100  # of a partition in a response
_MAX_SNAPSHOTS = 1_000  # per backfill cluster

Vector = dict[str, dict[str, int]]  # topic -> partition -> offset


class Offsets:
    """Translation and coverage. Every call raises Refused."""

    def __init__(self, tiers: SecondTiers) -> None:
        self._tiers = tiers

    async def translate(self, request_body: Any) -> dict[str, Any]:
        """Translate offsets of one tier to those of the other, in the order of the request."""
        topic, to, wanted = _read_translation(request_body)
        tiers = self._tiers.of(topic)
        async with asking(tiers.backfill), view_of(tiers.backfill_options) as backfill:
            maps = self._tiers.maps(tiers.backfill)
            ingest = await ingest_if_available(tiers, topic, list(wanted))
            seen = await read_tiers(topic, list(wanted), ingest, backfill, maps)
            unknown = [part for part in wanted if seen.maps[part].table.position is None]
            if unknown and max(unknown) >= seen.backfill.partitions:
                await self._must_have(topic, unknown, tiers, backfill)
        seen.check()

        def translate() -> dict[str, list[dict[str, Any]]]:
            return {
                str(part): translated(seen.maps[part].table, _logs(seen, part), to, offsets)
                for part, offsets in wanted.items()
            }

        async with maps.lock:  # each may lie in another block, which is unpacked first
            translations = await asyncio.to_thread(translate)
        return {
            "topic": topic,
            "to": to,
            "topic_ids": seen.topic_ids(),
            "unchecked": [INGEST] if seen.ingest is None else [],
            "offsets": translations,
        }

    async def _must_have(
        self, topic: str, partitions: Sequence[int], tiers: Tiers, backfill: TierView
    ) -> None:
        """Raise Refused if neither tier's topic has these partitions."""
        async with asking(tiers.ingest), view_of(tiers.ingest_options) as ingest:
            count = await partitions_of(topic, ingest, backfill)
        with reading():
            for partition in partitions:
                if partition >= count:
                    what = f"{topic[:SHOWN]} has no such partition; it has {count}, from 0"
                    raise FieldError(f"offsets.{partition}", what)

    async def coverage(self, topic: str) -> dict[str, Any]:
        """Return the mirrored offsets of a topic, by partition."""
        tiers = self._tiers.of(topic)
        async with (
            asking(tiers.backfill),
            view_of(tiers.ingest_options) as ingest,
            view_of(tiers.backfill_options) as backfill,
        ):
            count = await partitions_of(topic, ingest, backfill)
            maps = self._tiers.maps(tiers.backfill)
            ingest_now = await tier_now(ingest, topic, range(count))
            seen = await read_tiers(topic, range(count), ingest_now, backfill, maps)
        pages = {
            str(part): coverage_page(seen.table(part), seen.maps[part], seen.logs(part))
            for part in range(count)
        }
        return {
            "topic": topic,
            "backfill": tiers.backfill,
            "topic_ids": seen.ids_now(),
            "why": seen.empty_reason(),
            "partitions": pages,
        }


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


def _logs(seen: ReplayedTopic, partition: int) -> Logs:
    """Return a partition's logs. If the ingest tier does not answer, nothing counts as deleted."""
    logs = seen.logs(partition)
    return logs._replace(ingest_start=0) if seen.ingest is None else logs


def _read_translation(request_body: Any) -> tuple[str, str, dict[int, list[int]]]:
    with reading():
        given = read_object("", request_body, {"topic", "to", "offsets"}, "topic", "to", "offsets")
        if given["to"] not in ("backfill", "ingest"):
            raise FieldError("to", "backfill or ingest")
        if not isinstance(given["offsets"], Mapping):
            raise FieldError("offsets", 'offsets by partition, such as {"0": [5, 9]}')
        wanted = {
            partition_number("offsets", part): _read_numbers(f"offsets.{part}", offsets)
            for part, offsets in given["offsets"].items()
        }
        if sum(max(1, len(offsets)) for offsets in wanted.values()) > _MAX_OFFSETS:
            raise FieldError("offsets", f"at most {_MAX_OFFSETS} in one request")
        return read_topic(given["topic"]), given["to"], wanted


def _read_numbers(field: str, raw: object) -> list[int]:
    if not isinstance(raw, list):
        raise FieldError(field, "a list of offsets")
    return [read_number(field, offset, minimum=0, maximum=2**62) for offset in raw]


class _SnapshotRequest(NamedTuple):
    name: str
    topic: str | None
    group: str | None


class Snapshots:
    """Named vectors of offsets. Every call raises Refused."""

    def __init__(self, tiers: SecondTiers) -> None:
        self._tiers = tiers

    async def all(self) -> tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]]:
        """Return the snapshots by name, and the clusters that did not answer."""
        registries = await self._tiers.registries()
        rows = [
            snapshot_page(name, document)
            for _, registry in registries.answered
            for name, document in sorted(registry.snapshots.items())
        ]
        return rows, registries.unavailable()

    async def take(self, request_body: Any, caller: str) -> tuple[dict[str, Any], bool]:
        """Take a snapshot. One that exists for the same topic and group stays as it is.

        Returns:
            The page of the snapshot, and whether it is new.
        """
        wanted = _read_snapshot(request_body)
        ingest, vector, ids = await self._vector(wanted)
        document = {
            "topic": wanted.topic,
            "group": wanted.group,
            "topics": vector,
            "topic_ids": ids,
            "by": caller,
            "at_ms": int(time.time() * 1000),
        }
        backfill = self._tiers.ingests()[ingest]
        async with asking(backfill):
            return await self._keep(backfill, wanted.name, document)

    async def _vector(self, wanted: _SnapshotRequest) -> tuple[str, Vector, Mapping[str, str]]:
        """Return the ingest cluster, the offsets, and Kafka's ids of their topics."""
        if wanted.topic is not None:
            clusters = [self._tiers.of(wanted.topic).ingest]
        else:
            clusters = list(self._tiers.ingests())
        for cluster in clusters:
            async with asking(cluster), view_of(self._tiers.options(cluster)) as view:
                vector = await _offsets(view, wanted)
                ids = await view.topic_ids(vector)
            if vector:
                return cluster, vector, ids
        where = ", ".join(clusters) or "any"
        detail = f"group {brief(wanted.group or '')} has committed nothing on {where}"
        raise Refused(malformed(detail))

    async def _keep(
        self, backfill: str, name: str, document: Mapping[str, Any]
    ) -> tuple[dict[str, Any], bool]:
        async def decide(change: RegistryChange) -> None:
            taken = change.registry.snapshots.get(name)
            if taken is None:
                if len(change.registry.snapshots) >= _MAX_SNAPSHOTS:
                    detail = f"there are {_MAX_SNAPSHOTS} snapshots already"
                    raise Refused(Failure(Reason.QUOTA_EXCEEDED, detail, retry_after_s=60))
                await change.put([snapshot_record(name, document)])
            elif any(taken.get(field) != document[field] for field in ("topic", "group")):
                detail = f"snapshot {brief(name)} is of something else: take another name"
                raise Refused(Failure(Reason.IDEMPOTENCY_MISMATCH, detail))

        registry = await self._tiers.log(backfill).change(decide)
        kept = registry.snapshots[name]
        return snapshot_page(name, kept), dict(kept) == dict(document)


async def _offsets(view: TierView, wanted: _SnapshotRequest) -> Vector:
    if wanted.topic is None:
        offsets = await view.committed(wanted.group or "")
    elif wanted.group is None:
        count = await partitions_of(wanted.topic, view)
        extents = await view.extents(wanted.topic, range(count))
        offsets = {(wanted.topic, part): extent.end for part, extent in extents.items()}
    else:
        committed = await view.committed(wanted.group)
        offsets = {where: at for where, at in committed.items() if where[0] == wanted.topic}
    vector: Vector = {}
    for (topic, partition), offset in sorted(offsets.items()):
        vector.setdefault(topic, {})[str(partition)] = offset
    return vector


def _read_snapshot(request_body: Any) -> _SnapshotRequest:
    with reading():
        given = read_object("", request_body, {"name", "topic", "group"}, "name")
        name, topic, group = read_text("name", given["name"], LONGEST_NAME), None, None
        if "/" in name:
            raise FieldError("name", "a name without slashes")
        if given.get("topic") is not None:
            topic = read_topic(given["topic"])
        if given.get("group") is not None:
            group = read_text("group", given["group"], LONGEST_NAME)
        if topic is None and group is None:
            raise FieldError("topic", "a topic, a group, or both are asked for")
        return _SnapshotRequest(name, topic, group)


def snapshot_page(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page of a snapshot."""
    shown = {key: value for key, value in document.items() if key != "at_ms"}
    return {"name": name, **shown, "at": moment(document.get("at_ms"))}
