"""What a replay would read: its range in offsets of both tiers, resolved now.

Times are looked up in the offset map, whose segments have them, and inside one segment by reading
it; on the ingest tier for what is not mirrored. `to` left out means now: what the mirror has yet
to copy is not covered, and is not left out without a word. The mirror of a topic that is being
written is always a little behind, so it is given some time to copy as far as was asked.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from headgate.backends.kafka.tier_view import Extent, Sample, TierView, view_of
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, brief, malformed
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

# What both tiers and the offset map say of a topic now, and whether they mean the same topics.


_OPTIONAL_S = 5.0  # for what can be answered without the ingest tier


class TierNow(NamedTuple):
    """A topic on one tier. id: Kafka's, None = it is not there.  partitions: how many it has.

    logs: where those begin and end that were asked about.
    """

    id: str | None
    partitions: int
    logs: Mapping[int, Extent]


class ReplayedTopic:
    """A topic on both tiers, and the maps of its partitions. ingest: None = it does not answer."""

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
        self._tables = {one: self._kept(one) for one in maps}

    def table(self, partition: int) -> SegmentTable:
        """What of the newest layout is left on the backfill tier; nothing of another topic's."""
        return self._tables[partition]

    def _kept(self, partition: int) -> SegmentTable:
        found = self.maps[partition]
        if self.other_topic(found) is not None:
            return SegmentTable()
        return found.table.kept(self._begin(partition))

    def logs(self, partition: int) -> Logs:
        """A topic that is gone from a tier has nothing there."""
        end = self.table(partition).source_end
        known = {} if self.ingest is None else self.ingest.logs
        return Logs(*known.get(partition, Extent(end, end)), self._begin(partition))

    def _begin(self, partition: int) -> int:
        return self.backfill.logs.get(partition, Extent(0, 0)).start

    def other_topic(self, found: PartitionMap) -> str | None:
        """Why a map is of topics that are no more; None: it is of those that are there.

        A topic that is gone from the ingest tier and was not recreated is what a mirror is for.
        """
        source_id, target_id = found.ids
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
        """Why a map counts for nothing, of the first partition whose map does; None: all count."""
        found = (self.other_topic(one) for one in self.maps.values())
        return next(filter(None, found), None)

    def older_topic(self, snapshot: Mapping[str, Any]) -> str | None:
        """Why a snapshot's offsets are of a topic that is no more; None: they are of this one.

        Those of earlier releases have no ids. Where the mirror opened a map of this topic before
        the snapshot was taken, it is of this topic; else nobody knows.
        """
        known = snapshot.get("topic_ids", {}).get(self.topic)
        now = self.topic_ids().get(INGEST)
        if known is not None:
            same = now in (None, known)
            return None if same else f"is of the topic {brief(self.topic)} that was deleted since"
        opened = [
            layout.at_ms
            for one in self.maps.values()
            for layout in one.layouts.values()
            if layout.source_id == now
        ]
        if opened and min(opened) <= int(snapshot.get("at_ms", 0)):
            return None
        return (
            f"does not say of which topic {brief(self.topic)} it is, and may be older: take another"
        )

    def check(self) -> None:
        """Raises Refused where a map is of topics that are no more."""
        why = self.empty_reason()
        if why is not None:
            raise Refused(Failure(Reason.NOT_COVERED, why))

    def topic_ids(self) -> Mapping[str, str]:
        """By tier, Kafka's ids of the topics that offsets are of, as far as they are known."""
        pairs = {one.ids for one in self.maps.values()} - {("", "")}
        if len(pairs) == 1:
            return dict(zip((INGEST, BACKFILL), pairs.pop(), strict=True))
        return self.ids_now()

    def ids_now(self) -> Mapping[str, str]:
        """The same of the topics that are there."""
        now = {INGEST: self.ingest and self.ingest.id, BACKFILL: self.backfill.id}
        return {tier: one for tier, one in now.items() if one is not None}


async def read_tiers(
    topic: str, chosen: Sequence[int], ingest: TierView, backfill: TierView, maps: OffsetMaps
) -> ReplayedTopic:
    """Both tiers and the maps."""
    there, here = [await tier_now(view, topic, chosen) for view in (ingest, backfill)]
    return ReplayedTopic(topic, there, here, await maps.of(topic, chosen))


async def read_tiers_ingest_optional(
    topic: str, chosen: Sequence[int], tiers: Tiers, backfill: TierView, maps: OffsetMaps
) -> ReplayedTopic:
    """The same where the ingest tier may be away: that is when places are translated."""
    there: TierNow | None = None
    try:
        async with (
            asyncio.timeout(_OPTIONAL_S),
            asking(tiers.ingest),
            view_of(tiers.ingest_options) as ingest,
        ):
            there = await tier_now(ingest, topic, chosen)
    except (Refused, TimeoutError):
        pass  # the answer says that it was not asked
    here = await tier_now(backfill, topic, chosen)
    return ReplayedTopic(topic, there, here, await maps.of(topic, chosen))


async def tier_now(view: TierView, topic: str, chosen: Sequence[int]) -> TierNow:
    """One tier."""
    count = await view.partitions(topic) or 0
    inside = [one for one in chosen if one < count]
    logs = await view.extents(topic, inside) if inside else {}
    return TierNow(await view.topic_id(topic), count, logs)


async def partitions_of(topic: str, *views: TierView) -> int:
    """Of the first tier that has the topic. Raises Refused."""
    for view in views:
        count = await view.partitions(topic)
        if count is not None:
            return count
    raise Refused(Failure(Reason.UNKNOWN_TOPIC, f"topic {brief(topic)} is on neither tier"))


_MAX_LISTED = 100  # partitions in a refusal
_LOOK_AGAIN_S = 0.3


# Asks the mirror to copy partitions up to these source offsets now.
Want = Callable[[Mapping[int, int]], Awaitable[None]]


class PlannedReplay(NamedTuple):
    """partitions: of the topic.  cold_records: of what is not mirrored, an estimate unless it is
    little.  bytes: of all records, an estimate; None where no record could be read.

    topic_ids: by tier, Kafka's ids of the topics whose offsets these are.
    """

    plans: Sequence[PartitionPlan]
    partitions: int
    cold_records: int
    bytes: int | None
    topic_ids: Mapping[str, str] = MappingProxyType({})


async def plan(
    spec: Spec, tiers: Tiers, maps: OffsetMaps, registry: Registry, wait_s: float, want: Want
) -> PlannedReplay:
    """wait_s: how long the mirror may take to copy the end of it.  want: asks it to.

    Raises Refused; KafkaError, OSError or TimeoutError when a tier does not answer.
    """
    until = time.monotonic() + wait_s
    async with view_of(tiers.ingest_options) as ingest, view_of(tiers.backfill_options) as backfill:
        count = await partitions_of(spec.topic, ingest, backfill)
        chosen = _chosen(spec, count)
        seen = await read_tiers(spec.topic, chosen, ingest, backfill, maps)
        seen.check()
        resolver = _Resolver(spec, maps, seen, ingest, backfill, registry)
        starts = await resolver.resolve("from", spec.start, chosen)
        ends = {one: seen.table(one).source_end for one in chosen}  # of mode group
        if spec.end is not None:
            ends = await resolver.resolve("to", spec.end, chosen)
        plans = await _plans(starts, ends, seen, maps)
        if wait_s and _is_behind(spec, plans, seen):
            await want({one.partition: one.end for one in _lacking(spec, plans, seen)})
        while _is_behind(spec, plans, seen) and time.monotonic() < until:
            await asyncio.sleep(_LOOK_AGAIN_S)
            ids = seen.topic_ids()
            seen = await read_tiers(spec.topic, chosen, ingest, backfill, maps)
            seen.check()
            if seen.topic_ids() != ids:  # the offsets that were looked up are of another topic
                raise Refused(Failure(Reason.NOT_COVERED, _recreated(spec)))
            plans = await _plans(starts, ends, seen, maps)
        _check(spec, plans, seen)
        sizes = await _sizes(spec.topic, plans, ingest, backfill)
    return PlannedReplay(plans, count, *sizes, seen.topic_ids())


async def _sizes(
    topic: str, plans: Sequence[PartitionPlan], ingest: TierView, backfill: TierView
) -> tuple[int, int | None]:
    """The records that are not mirrored, and the bytes of all: from some records of each tier."""
    sums = totals(plans)
    mirrored = {one.partition: (one.target_start, one.target_end) for one in plans if one.records}
    cold = {
        one.partition: (piece.start, piece.end)
        for one in plans
        for piece in one.pieces
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
            plan_partition(one, start, max(start, ends[one]), seen.table(one), seen.logs(one))
            for one, start in sorted(starts.items())
        ]

    async with maps.still():
        return await asyncio.to_thread(planned)  # linear in the segments


def _is_behind(spec: Spec, plans: Sequence[PartitionPlan], seen: ReplayedTopic) -> bool:
    """Whether all that lacks is what a mirror that runs copies next."""
    lacking = _lacking(spec, plans, seen)
    tables = {one.partition: seen.table(one.partition) for one in plans}
    if not lacking or not any(table.source_end for table in tables.values()):
        return False
    return all(
        not one.lost and gap["start"] >= tables[one.partition].source_end
        for one in lacking
        for gap in missing(one, tables[one.partition])
    )


def _recreated(spec: Spec) -> str:
    return f"topic {brief(spec.topic)} was deleted and recreated just now: ask again"


def _chosen(spec: Spec, count: int) -> Sequence[int]:
    wanted = list(range(count)) if spec.partitions is None else list(spec.partitions)
    if spec.partitions is None and spec.start.kind == "offsets":
        wanted = sorted(spec.start.offsets)
    for one in wanted:
        if one >= count:
            detail = f"topic {brief(spec.topic)} has {count} partitions, from 0: there is no {one}"
            raise Refused(malformed(detail))
    return wanted


def _lacking(
    spec: Spec, plans: Sequence[PartitionPlan], seen: ReplayedTopic
) -> Sequence[PartitionPlan]:
    """What is not covered, unless the rest may be read from elsewhere."""
    if spec.deliver.mode is ReplayMode.TOPIC and spec.allow_cold:
        return ()
    return [
        one
        for one in plans
        if one.cold or one.lost or one.start > seen.table(one.partition).source_end
    ]


def _check(spec: Spec, plans: Sequence[PartitionPlan], seen: ReplayedTopic) -> None:
    """Refuse what is not covered, with figures."""
    lacking = _lacking(spec, plans, seen)
    if lacking:
        raise Refused(
            Failure(Reason.NOT_COVERED, _detail(spec, lacking), _figures(plans, lacking, seen))
        )


def _detail(spec: Spec, lacking: Sequence[PartitionPlan]) -> str:
    sums, one = totals(lacking), lacking[0]
    begins = f"partition {one.partition} begins at offset {one.start}, which is not mirrored: "
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
    ends = {str(one.partition): seen.table(one.partition).source_end for one in plans}
    return {
        "cold_offsets": sums.cold,
        "lost_offsets": sums.lost,
        "partitions": {
            str(one.partition): {
                "asked": {"start": one.start, "end": one.end},
                "not_mirrored": missing(one, seen.table(one.partition)),
                "cold_offsets": one.cold,
                "lost_offsets": one.lost,
            }
            for one in lacking[:_MAX_LISTED]
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
        """Source offsets by partition."""
        if bound.kind == "now":
            return {one: self._end(one) for one in chosen}
        if bound.kind == "timestamp":
            return await self._at(bound.time_ms, chosen)
        offsets = await self._offsets(field, bound)
        return {
            one: self._checked(f"{field}.{bound.kind}", one, offsets.get(one)) for one in chosen
        }

    def _end(self, partition: int) -> int:
        ends = self._seen.logs(partition).ingest_end, self._seen.table(partition).source_end
        return max(ends)

    def _checked(self, field: str, partition: int, offset: int | None) -> int:
        logs = self._seen.logs(partition)
        if offset is None and logs.ingest_start == logs.ingest_end:
            offset = logs.ingest_end  # nothing is there that could have been committed
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
            every = await self._ingest.committed(bound.name)
            found = {one: at for (topic, one), at in every.items() if topic == self._topic}
            if not found:
                group = f"group {brief(bound.name)}"
                detail = f"{field}: {group} has committed nothing of {brief(self._topic)}"
                raise Refused(malformed(detail))
            return found
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
        return {int(one): int(offset) for one, offset in vector.items()}

    async def _at(self, time_ms: int, chosen: Sequence[int]) -> dict[int, int]:
        async with self._maps.still():
            segments = await asyncio.to_thread(self._segments, time_ms, chosen)
        starts = {}
        for one, source in segments.items():
            place = self._seen.table(one).to_target(source).offset
            if place is not None:
                starts[one] = place
        kept = await self._backfill.first_since(self._topic, starts, time_ms) if starts else {}
        unread = [one for one in chosen if self._is_unread(one, kept)]
        hot = await self._ingest.at(self._topic, unread, time_ms) if unread else {}
        return {one: self._first(one, hot.get(one), kept.get(one)) for one in chosen}

    def _segments(self, time_ms: int, chosen: Sequence[int]) -> dict[int, int]:
        """Where the segment begins that has the first such record; linear in the map."""
        found = {one: self._seen.table(one).since(time_ms) for one in chosen}
        return {one: source for one, source in found.items() if source is not None}

    def _is_unread(self, partition: int, kept: Mapping[int, int]) -> bool:
        """Whether the ingest tier may have an earlier one, or the only one."""
        if self._seen.ingest is None or partition not in self._seen.ingest.logs:
            return False
        table, logs = self._seen.table(partition), self._seen.logs(partition)
        return partition not in kept or logs.ingest_start < table.source_start

    def _first(self, partition: int, hot: int | None, kept: int | None) -> int:
        table, logs = self._seen.table(partition), self._seen.logs(partition)
        if hot is not None and hot < table.source_start:
            return hot  # before what is mirrored
        if kept is not None:
            source = table.to_source(kept).offset
            if source is not None:
                return source
        later = logs.ingest_end if hot is None else hot
        return max(table.source_end, later)
