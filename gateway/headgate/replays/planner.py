"""Planning of a replay: resolve its range to offsets of both tiers.

Times are looked up in the offset map's segments, and inside a segment by reading it; records that
are not mirrored are looked up on the ingest tier. A missing `to` means now: a range that the mirror
has not copied yet is refused, not shortened. The mirror of a topic in use is always a little
behind, so the planner waits a while for it to copy the end of the range.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from headgate.kafka.logs import Extent, Sample, TierView, view_of
from headgate.model.outcome import Failure, Reason, Refused, brief, malformed
from headgate.replays.offset_map import PartitionMap
from headgate.replays.plan import (
    BACKFILL,
    INGEST,
    Logs,
    PartitionPlan,
    missing,
    plan_partition,
    totals,
)
from headgate.replays.registry import Registry
from headgate.replays.segments import SegmentTable
from headgate.replays.spec import Bound, ReplayMode, Spec
from headgate.replays.tiers import OffsetMaps, Tiers, asking

# ---- a topic's current state on both tiers and in the offset map


_OPTIONAL_S = 5.0  # for requests that do not need the ingest tier


class TierNow(NamedTuple):
    """A topic on one tier.

    Attributes:
        id: Kafka's id; None: the tier does not have the topic.
        partitions: Their number.
        logs: The extents of the requested partitions.
    """

    id: str | None
    partitions: int
    logs: Mapping[int, Extent]


class ReplayedTopic:
    """A topic on both tiers, and the maps of its partitions.

    Args:
        ingest: None: the ingest tier does not answer.
    """

    def __init__(
        self,
        topic: str,
        ingest: TierNow | None,
        backfill: TierNow,
        maps: Mapping[int, PartitionMap],
    ) -> None:
        self.topic = topic
        self.ingest, self.backfill = ingest, backfill
        self.maps = maps
        self._tables = {partition: self._kept(partition) for partition in maps}

    def table(self, partition: int) -> SegmentTable:
        """Return the newest layout's segments that the backfill tier still has.

        There are none if the map belongs to another topic.
        """
        return self._tables[partition]

    def _kept(self, partition: int) -> SegmentTable:
        partition_map = self.maps[partition]
        if self.other_topic(partition_map) is not None:
            return SegmentTable()
        return partition_map.table.kept(self._begin(partition))

    def logs(self, partition: int) -> Logs:
        """Return the bounds of a partition's logs. A deleted topic's log is empty."""
        end = self.table(partition).source_end
        extents = {} if self.ingest is None else self.ingest.logs
        return Logs(*extents.get(partition, Extent(end, end)), self._begin(partition))

    def _begin(self, partition: int) -> int:
        return self.backfill.logs.get(partition, Extent(0, 0)).start

    def other_topic(self, partition_map: PartitionMap) -> str | None:
        """Return why a map belongs to deleted topics; None if it belongs to the current ones.

        A topic that was deleted on the ingest tier and not recreated counts as current: a mirror
        exists for such a case.
        """
        source_id, target_id = partition_map.ids
        if not source_id:
            return None
        if self.ingest is not None and self.ingest.id not in (None, source_id):
            return self._was(INGEST, "was deleted and recreated")
        if self.backfill.id is None:
            return self._was(BACKFILL, "is not there any more")
        if self.backfill.id != target_id:
            return self._was(BACKFILL, "was deleted and recreated")
        return None

    def _was(self, tier: str, what: str) -> str:
        return (
            f"topic {brief(self.topic)} {what} on the {tier} tier, and the map is of the topic "
            "that was there: run the mirror, and ask again"
        )

    def empty_reason(self) -> str | None:
        """Return why a partition's map belongs to deleted topics; None if all maps are current."""
        return next(filter(None, map(self.other_topic, self.maps.values())), None)

    def older_topic(self, snapshot: Mapping[str, Any]) -> str | None:
        """Return why a snapshot's offsets belong to a deleted topic; None if they are this one's.

        Snapshots of earlier releases have no ids. If the mirror opened a map of this topic before
        the snapshot, the snapshot is of this topic; otherwise it is unknown.
        """
        topic_id = snapshot.get("topic_ids", {}).get(self.topic)
        now = self.topic_ids().get(INGEST)
        if topic_id is not None:
            if now in (None, topic_id):
                return None
            return f"is of the topic {brief(self.topic)} that was deleted since"
        opened = [
            layout.at_ms
            for partition_map in self.maps.values()
            for layout in partition_map.layouts.values()
            if layout.source_id == now
        ]
        if opened and min(opened) <= int(snapshot.get("at_ms", 0)):
            return None
        return (
            f"does not say of which topic {brief(self.topic)} it is, and may be older: take another"
        )

    def check(self) -> None:
        """Raise Refused if a map belongs to deleted topics."""
        why = self.empty_reason()
        if why is not None:
            raise Refused(Failure(Reason.NOT_COVERED, why))

    def topic_ids(self) -> Mapping[str, str]:
        """Return Kafka's ids of the topics that offsets belong to, by tier, if they are known."""
        pairs = {partition_map.ids for partition_map in self.maps.values()} - {("", "")}
        if len(pairs) == 1:
            return dict(zip((INGEST, BACKFILL), pairs.pop(), strict=True))
        return self.ids_now()

    def ids_now(self) -> Mapping[str, str]:
        """Return Kafka's ids of the current topics, by tier."""
        now = {INGEST: self.ingest and self.ingest.id, BACKFILL: self.backfill.id}
        return {tier: topic_id for tier, topic_id in now.items() if topic_id is not None}


async def read_tiers(
    topic: str,
    chosen: Sequence[int],
    ingest: TierNow | None,
    backfill: TierView,
    maps: OffsetMaps,
) -> ReplayedTopic:
    """Read the backfill tier and the maps; `ingest` is as for `ReplayedTopic`."""
    backfill_now = await tier_now(backfill, topic, chosen)
    return ReplayedTopic(topic, ingest, backfill_now, await maps.of(topic, chosen))


async def ingest_if_available(tiers: Tiers, topic: str, chosen: Sequence[int]) -> TierNow | None:
    """Read a topic on the ingest tier; None if the tier does not answer soon."""
    try:
        async with (
            asyncio.timeout(_OPTIONAL_S),
            asking(tiers.ingest),
            view_of(tiers.ingest_options) as ingest,
        ):
            return await tier_now(ingest, topic, chosen)
    except (Refused, TimeoutError):
        return None  # the response lists it as unchecked


async def tier_now(view: TierView, topic: str, chosen: Sequence[int]) -> TierNow:
    """Read a topic on one tier."""
    count = await view.partitions(topic) or 0
    inside = [partition for partition in chosen if partition < count]
    logs = await view.extents(topic, inside) if inside else {}
    return TierNow(await view.topic_id(topic), count, logs)


async def partitions_of(topic: str, *views: TierView) -> int:
    """Return the number of partitions on the first tier that has the topic. Raises Refused."""
    for view in views:
        count = await view.partitions(topic)
        if count is not None:
            return count
    raise Refused(Failure(Reason.UNKNOWN_TOPIC, f"topic {brief(topic)} is on neither tier"))


_MAX_LISTED = 100  # partitions in a refusal
_LOOK_AGAIN_S = 0.3


# Asks the mirror to copy partitions up to these source offsets at once.
Want = Callable[[Mapping[int, int]], Awaitable[None]]


class PlannedReplay(NamedTuple):
    """The plan of a replay.

    Attributes:
        plans: One for each partition of the replay.
        partitions: Number of the topic's partitions.
        cold_records: Records that are not mirrored; an estimate unless they are few.
        bytes: An estimate of all records; None: no record could be read.
        topic_ids: Kafka's ids of the topics that the offsets belong to, by tier.
    """

    plans: Sequence[PartitionPlan]
    partitions: int
    cold_records: int
    bytes: int | None
    topic_ids: Mapping[str, str] = MappingProxyType({})


async def plan(
    spec: Spec, tiers: Tiers, maps: OffsetMaps, registry: Registry, wait_s: float, want: Want
) -> PlannedReplay:
    """Resolve and plan a replay.

    Args:
        spec: The requested replay.
        tiers: The topic's clusters.
        maps: The offset maps of the backfill cluster.
        registry: The registry, for snapshots.
        wait_s: Longest wait for the mirror to copy the end of the range.
        want: Asks the mirror to copy.

    Raises:
        Refused: The range is not covered, or makes no sense.
        KafkaError, OSError, TimeoutError: A tier does not answer.
    """
    until = time.monotonic() + wait_s
    async with view_of(tiers.ingest_options) as ingest, view_of(tiers.backfill_options) as backfill:
        count = await partitions_of(spec.topic, ingest, backfill)
        chosen = _chosen(spec, count)
        seen = await _read(spec.topic, chosen, ingest, backfill, maps)
        resolver = _Resolver(spec, maps, seen, ingest, backfill, registry)
        starts = await resolver.resolve("from", spec.start, chosen)
        ends = {part: seen.table(part).source_end for part in chosen}  # used by mode group
        if spec.end is not None:
            ends = await resolver.resolve("to", spec.end, chosen)
        plans = await _plans(starts, ends, seen, maps)
        if wait_s and _is_behind(spec, plans, seen):
            await want({plan.partition: plan.end for plan in _lacking(spec, plans, seen)})
        while _is_behind(spec, plans, seen) and time.monotonic() < until:
            await asyncio.sleep(_LOOK_AGAIN_S)
            ids = seen.topic_ids()
            seen = await _read(spec.topic, chosen, ingest, backfill, maps)
            if seen.topic_ids() != ids:  # the offsets that were looked up are of another topic
                detail = f"topic {brief(spec.topic)} was deleted and recreated just now: ask again"
                raise Refused(Failure(Reason.NOT_COVERED, detail))
            plans = await _plans(starts, ends, seen, maps)
        _check(spec, plans, seen)
        sizes = await _sizes(spec.topic, plans, ingest, backfill)
    return PlannedReplay(plans, count, *sizes, seen.topic_ids())


async def _read(
    topic: str, chosen: Sequence[int], ingest: TierView, backfill: TierView, maps: OffsetMaps
) -> ReplayedTopic:
    seen = await read_tiers(topic, chosen, await tier_now(ingest, topic, chosen), backfill, maps)
    seen.check()
    return seen


async def _sizes(
    topic: str, plans: Sequence[PartitionPlan], ingest: TierView, backfill: TierView
) -> tuple[int, int | None]:
    """Estimate the records that are not mirrored, and all bytes, from samples of each tier."""
    sums = totals(plans)
    mirrored = {
        each.partition: (each.target_start, each.target_end) for each in plans if each.records
    }
    cold = {
        each.partition: (piece.start, piece.end)
        for each in plans
        for piece in each.pieces
        if piece.tier == INGEST
    }
    samples = [
        await view.sample(topic, ranges) if ranges else Sample(0, 0, 0)
        for view, ranges in ((backfill, mirrored), (ingest, cold))
    ]
    cold_records = sums.cold
    if samples[1].offsets:
        cold_records = round(sums.cold * samples[1].records / samples[1].offsets)
    size = 0.0
    for records, sample, other in (
        (sums.records, samples[0], samples[1]),
        (cold_records, samples[1], samples[0]),
    ):
        seen = sample if sample.records else other
        if records and not seen.records:
            return cold_records, None
        size += records * seen.bytes / max(1, seen.records)
    return cold_records, round(size)


async def _plans(
    starts: Mapping[int, int], ends: Mapping[int, int], seen: ReplayedTopic, maps: OffsetMaps
) -> Sequence[PartitionPlan]:
    def planned() -> Sequence[PartitionPlan]:
        return [
            plan_partition(part, start, max(start, ends[part]), seen.table(part), seen.logs(part))
            for part, start in sorted(starts.items())
        ]

    async with maps.lock:
        return await asyncio.to_thread(planned)  # linear in the segments


def _is_behind(spec: Spec, plans: Sequence[PartitionPlan], seen: ReplayedTopic) -> bool:
    """Return whether a running mirror copies all missing records next."""
    lacking = _lacking(spec, plans, seen)
    tables = {each.partition: seen.table(each.partition) for each in plans}
    if not lacking or not any(table.source_end for table in tables.values()):
        return False
    return all(
        not each.lost and gap["start"] >= tables[each.partition].source_end
        for each in lacking
        for gap in missing(each, tables[each.partition])
    )


def _chosen(spec: Spec, count: int) -> Sequence[int]:
    wanted = list(range(count)) if spec.partitions is None else list(spec.partitions)
    if spec.partitions is None and spec.start.kind == "offsets":
        wanted = sorted(spec.start.offsets)
    for part in wanted:
        if part >= count:
            detail = f"topic {brief(spec.topic)} has {count} partitions, from 0: there is no {part}"
            raise Refused(malformed(detail))
    return wanted


def _lacking(
    spec: Spec, plans: Sequence[PartitionPlan], seen: ReplayedTopic
) -> Sequence[PartitionPlan]:
    """Return the plans that are not covered; none if the ingest tier may be read."""
    if spec.deliver.mode is ReplayMode.TOPIC and spec.allow_cold:
        return ()
    return [
        each
        for each in plans
        if each.cold or each.lost or each.start > seen.table(each.partition).source_end
    ]


def _check(spec: Spec, plans: Sequence[PartitionPlan], seen: ReplayedTopic) -> None:
    """Raise Refused, with figures, if the range is not covered."""
    lacking = _lacking(spec, plans, seen)
    if lacking:
        raise Refused(
            Failure(Reason.NOT_COVERED, _detail(spec, lacking), _figures(plans, lacking, seen))
        )


def _detail(spec: Spec, lacking: Sequence[PartitionPlan]) -> str:
    sums, first = totals(lacking), lacking[0]
    begins = f"partition {first.partition} begins at offset {first.start}, which is not mirrored: "
    what = "" if sums.cold or sums.lost else begins
    cold = (
        "allow_cold reads what is left of it from the ingest tier"
        if spec.deliver.mode is ReplayMode.TOPIC
        else "mode topic with allow_cold reads what is left of it from the ingest tier"
    )
    return (
        f"{what}{sums.cold} offsets are not on the backfill tier, and {sums.lost} on no tier any "
        f"more, in {len(lacking)} partitions (`partitions` has them): let the mirror run and ask "
        "again; or ask for what /v1/coverage shows, such as `to` = `mirrored_to`, for `to` left "
        f"out means now; or {cold}"
    )


def _figures(
    plans: Sequence[PartitionPlan], lacking: Sequence[PartitionPlan], seen: ReplayedTopic
) -> dict[str, Any]:
    sums = totals(lacking)
    ends = {str(each.partition): seen.table(each.partition).source_end for each in plans}
    return {
        "cold_offsets": sums.cold,
        "lost_offsets": sums.lost,
        "partitions": {
            str(each.partition): {
                "asked": {"start": each.start, "end": each.end},
                "not_mirrored": missing(each, seen.table(each.partition)),
                "cold_offsets": each.cold,
                "lost_offsets": each.lost,
            }
            for each in lacking[:_MAX_LISTED]
        },
        "mirrored_to": {"offsets": ends} if len(ends) <= _MAX_LISTED else None,
    }


class _Resolver:
    def __init__(
        self,
        spec: Spec,
        maps: OffsetMaps,
        seen: ReplayedTopic,
        ingest: TierView,
        backfill: TierView,
        registry: Registry,
    ) -> None:
        self._topic = spec.topic
        self._maps = maps
        self._seen = seen
        self._ingest, self._backfill = ingest, backfill
        self._registry = registry

    async def resolve(self, field: str, bound: Bound, chosen: Sequence[int]) -> dict[int, int]:
        """Return source offsets by partition."""
        if bound.kind == "now":
            return {part: self._end(part) for part in chosen}
        if bound.kind == "timestamp":
            return await self._offsets_at(bound.time_ms, chosen)
        offsets = await self._offsets(field, bound)
        return {
            part: self._checked(f"{field}.{bound.kind}", part, offsets.get(part)) for part in chosen
        }

    def _end(self, partition: int) -> int:
        return max(self._seen.logs(partition).ingest_end, self._seen.table(partition).source_end)

    def _checked(self, field: str, partition: int, offset: int | None) -> int:
        logs = self._seen.logs(partition)
        if offset is None and logs.ingest_start == logs.ingest_end:
            offset = logs.ingest_end  # the log is empty
        if offset is None:
            raise Refused(malformed(f"{field}: partition {partition} has no offset"))
        limit = self._end(partition)
        if offset > limit:
            detail = f"{field}: partition {partition} ends at offset {limit}, before {offset}"
            raise Refused(malformed(detail))
        return offset

    async def _offsets(self, field: str, bound: Bound) -> Mapping[int, int]:
        if bound.kind == "offsets":
            return bound.offsets
        if bound.kind == "group":
            committed = await self._ingest.committed(bound.name)
            offsets = {part: at for (topic, part), at in committed.items() if topic == self._topic}
            if not offsets:
                group = f"group {brief(bound.name)}"
                detail = f"{field}: {group} has committed nothing of {brief(self._topic)}"
                raise Refused(malformed(detail))
            return offsets
        snapshot: Mapping[str, Any] = self._registry.snapshots.get(bound.name, {})
        vector = snapshot.get("topics", {}).get(self._topic)
        if vector is None:
            detail = (
                f"{field}: there is no snapshot {brief(bound.name)} of topic {brief(self._topic)}"
            )
            raise Refused(malformed(detail))
        why = self._seen.older_topic(snapshot)
        if why is not None:
            raise Refused(malformed(f"{field}: snapshot {brief(bound.name)} {why}"))
        return {int(part): int(offset) for part, offset in vector.items()}

    async def _offsets_at(self, time_ms: int, chosen: Sequence[int]) -> dict[int, int]:
        async with self._maps.lock:
            segments = await asyncio.to_thread(self._segments, time_ms, chosen)
        starts = {}
        for part, source in segments.items():
            target = self._seen.table(part).to_target(source).offset
            if target is not None:
                starts[part] = target
        kept = await self._backfill.first_since(self._topic, starts, time_ms) if starts else {}
        unread = [part for part in chosen if self._is_unread(part, kept)]
        hot = await self._ingest.at(self._topic, unread, time_ms) if unread else {}
        return {part: self._first_offset(part, hot.get(part), kept.get(part)) for part in chosen}

    def _segments(self, time_ms: int, chosen: Sequence[int]) -> dict[int, int]:
        """Return the starts of the segments that have the first such record; linear in the map."""
        starts = {part: self._seen.table(part).since(time_ms) for part in chosen}
        return {part: source for part, source in starts.items() if source is not None}

    def _is_unread(self, partition: int, kept: Mapping[int, int]) -> bool:
        """Return whether the ingest tier may have an earlier record, or the only one."""
        if self._seen.ingest is None or partition not in self._seen.ingest.logs:
            return False
        table, logs = self._seen.table(partition), self._seen.logs(partition)
        return partition not in kept or logs.ingest_start < table.source_start

    def _first_offset(self, partition: int, hot: int | None, kept: int | None) -> int:
        table, logs = self._seen.table(partition), self._seen.logs(partition)
        if hot is not None and hot < table.source_start:
            return hot  # before the mirrored part
        if kept is not None:
            source = table.to_source(kept).offset
            if source is not None:
                return source
        later = logs.ingest_end if hot is None else hot
        return max(table.source_end, later)
