"""What a replay would read: its range in offsets of both tiers, resolved now.

Times are looked up in the offset map, whose segments have them, and inside one segment by reading
it; on the ingest tier for what is not mirrored. `to` left out means: as far as is mirrored.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from headgate.backends.tier_view import Extent, TierView, view_of
from headgate.core.offset_map import PartitionMap
from headgate.core.outcome import Reason
from headgate.core.refusal import RefusalError
from headgate.core.replay import Registry
from headgate.core.replay_plan import BACKFILL, INGEST, Logs, PartitionPlan, plan_partition, totals
from headgate.core.replay_spec import Bound, Mode, Spec
from headgate.core.segments import SegmentTable
from headgate.replays.maps import OffsetMaps
from headgate.replays.tiers import Tiers


class Seen(NamedTuple):
    """Both logs of a topic's partitions, and their maps, as they are now."""

    ingest: Mapping[int, Extent]
    backfill: Mapping[int, Extent]
    maps: Mapping[int, PartitionMap]

    def table(self, partition: int) -> SegmentTable:
        """The segments of the newest layout."""
        return self.maps[partition].table

    def logs(self, partition: int) -> Logs:
        """A topic that is gone from a tier has nothing there."""
        end = self.table(partition).source_end
        ingest = self.ingest.get(partition, Extent(end, end))
        return Logs(*ingest, self.backfill.get(partition, Extent(0, 0)).start)


class Planned(NamedTuple):
    """partitions: of the topic.  bytes_a_record: sampled; None where nothing could be.

    topic_ids: by tier, Kafka's ids of the topics that the map is of, as far as it has one pair.
    """

    plans: Sequence[PartitionPlan]
    partitions: int
    bytes_a_record: float | None
    topic_ids: Mapping[str, str] = MappingProxyType({})


async def plan(spec: Spec, tiers: Tiers, maps: OffsetMaps, registry: Registry) -> Planned:
    """Raises RefusalError; KafkaError, OSError or TimeoutError when a tier does not answer."""
    async with view_of(tiers.ingest_options) as ingest, view_of(tiers.backfill_options) as backfill:
        count = await partitions_of(spec.topic, ingest, backfill)
        chosen = _chosen(spec, count)
        seen = await look(spec.topic, chosen, ingest, backfill, maps)
        await _check_ids(spec.topic, seen, ingest, backfill)
        resolver = _Resolver(spec, maps, seen, ingest, backfill, registry)
        starts = await resolver.resolve("from", spec.start, chosen)
        ends = {one: max(starts[one], seen.table(one).source_end) for one in chosen}
        if spec.end is not None:
            ends = await resolver.resolve("to", spec.end, chosen)
        async with maps.still():
            plans = await asyncio.to_thread(_plans, starts, ends, seen)  # linear in the segments
        _check(spec, plans, seen)
        sample = {one.partition: one.target_start for one in plans if one.records}
        size = await backfill.bytes_a_record(spec.topic, sample) if sample else None
    return Planned(plans, count, size, _topic_ids(seen))


async def partitions_of(topic: str, *views: TierView) -> int:
    """Of the first tier that has the topic. Raises RefusalError."""
    for view in views:
        count = await view.partitions(topic)
        if count is not None:
            return count
    raise RefusalError(Reason.UNKNOWN_TOPIC, f"topic {topic!r} is on neither tier")


async def look(
    topic: str, chosen: Sequence[int], ingest: TierView, backfill: TierView, maps: OffsetMaps
) -> Seen:
    """The logs' ends and the maps."""
    extents = []
    for view in (ingest, backfill):
        there = await view.partitions(topic) or 0
        inside = [one for one in chosen if one < there]
        extents.append(await view.extents(topic, inside) if inside else {})
    return Seen(extents[0], extents[1], await maps.of(topic, chosen))


def _plans(
    starts: Mapping[int, int], ends: Mapping[int, int], seen: Seen
) -> Sequence[PartitionPlan]:
    return [
        plan_partition(one, start, max(start, ends[one]), seen.table(one), seen.logs(one))
        for one, start in sorted(starts.items())
    ]


def _topic_ids(seen: Seen) -> Mapping[str, str]:
    known = {one.ids for one in seen.maps.values()} - {("", "")}
    return dict(zip((INGEST, BACKFILL), known.pop(), strict=True)) if len(known) == 1 else {}


async def _check_ids(topic: str, seen: Seen, ingest: TierView, backfill: TierView) -> None:
    """Refuse what the map says of topics that are no more. One that is gone from the ingest tier
    and was not made anew is what a mirror is for."""
    known = {one.ids for one in seen.maps.values()} - {("", "")}
    if not known:
        return
    now = {INGEST: await ingest.topic_id(topic), BACKFILL: await backfill.topic_id(topic)}
    for tier, was in ((tier, one) for ids in known for tier, one in zip(now, ids, strict=True)):
        if now[tier] == was or (now[tier] is None and tier == INGEST):
            continue
        what = "is not there any more" if now[tier] is None else "was deleted and made anew"
        detail = (
            f"topic {topic!r} {what} on the {tier} tier, and the map is of the topic that was "
            "there: run the mirror, and ask again"
        )
        raise RefusalError(Reason.NOT_COVERED, detail)


def _chosen(spec: Spec, count: int) -> Sequence[int]:
    wanted = list(range(count)) if spec.partitions is None else list(spec.partitions)
    if spec.partitions is None and spec.start.kind == "offsets":
        wanted = sorted(spec.start.value)
    for one in wanted:
        if one >= count:
            detail = f"topic {spec.topic!r} has {count} partitions, from 0: there is no {one}"
            raise RefusalError(Reason.MALFORMED, detail)
    return wanted


def _check(spec: Spec, plans: Sequence[PartitionPlan], seen: Seen) -> None:
    sums = totals(plans)
    ahead = [one for one in plans if one.start > seen.table(one.partition).source_end]
    if ahead and spec.deliver.mode is not Mode.TOPIC:
        one = ahead[0]
        _refuse(one, sums.cold, sums.lost, f"begins at offset {one.start}, which is not mirrored")
    if (sums.cold or sums.lost) and not spec.allow_cold:
        one = next(each for each in plans if each.cold or each.lost)
        _refuse(one, sums.cold, sums.lost, f"has {one.cold} offsets that are not mirrored")


def _refuse(one: PartitionPlan, cold: int, lost: int, what: str) -> None:
    detail = (
        f"partition {one.partition} {what}, and {one.lost} that no tier has any more: run the "
        "mirror, ask for what /v1/coverage shows (`to` left out = as far as it is mirrored), or set"
        " allow_cold with mode topic"
    )
    figures = {"cold_offsets": cold, "lost_offsets": lost}
    raise RefusalError(Reason.NOT_COVERED, detail, figures)


class _Resolver:
    def __init__(
        self,
        spec: Spec,
        maps: OffsetMaps,
        seen: Seen,
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
        if bound.kind == "timestamp":
            return await self._at(bound.value, chosen)
        offsets = await self._offsets(field, bound)
        return {
            one: self._checked(f"{field}.{bound.kind}", one, offsets.get(one)) for one in chosen
        }

    def _checked(self, field: str, partition: int, offset: int | None) -> int:
        logs = self._seen.logs(partition)
        if offset is None and logs.ingest_start == logs.ingest_end:
            offset = logs.ingest_end  # nothing is there that could have been committed
        if offset is None:
            raise RefusalError(Reason.MALFORMED, f"{field}: partition {partition} has no offset")
        most = max(logs.ingest_end, self._seen.table(partition).source_end)
        if offset > most:
            detail = f"{field}: partition {partition} ends at offset {most}, before {offset}"
            raise RefusalError(Reason.MALFORMED, detail)
        return offset

    async def _offsets(self, field: str, bound: Bound) -> Mapping[int, int]:
        if bound.kind == "offsets":
            given: Mapping[int, int] = bound.value
            return given
        if bound.kind == "group":
            every = await self._ingest.committed(bound.value)
            found = {one: at for (topic, one), at in every.items() if topic == self._topic}
            if not found:
                detail = f"{field}: group {bound.value!r} has committed nothing of {self._topic!r}"
                raise RefusalError(Reason.MALFORMED, detail)
            return found
        snapshot = self._registry.snapshots.get(bound.value)
        vector = (snapshot or {}).get("topics", {}).get(self._topic)
        if vector is None:
            detail = f"{field}: there is no snapshot {bound.value!r} of topic {self._topic!r}"
            raise RefusalError(Reason.MALFORMED, detail)
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
        asked = [one for one in chosen if self._is_asked(one, kept)]
        hot = await self._ingest.at(self._topic, asked, time_ms) if asked else {}
        return {one: self._first(one, hot.get(one), kept.get(one)) for one in chosen}

    def _segments(self, time_ms: int, chosen: Sequence[int]) -> dict[int, int]:
        """Where the segment begins that has the first such record; linear in the map."""
        found = {one: self._seen.table(one).since(time_ms) for one in chosen}
        return {one: source for one, source in found.items() if source is not None}

    def _is_asked(self, partition: int, kept: Mapping[int, int]) -> bool:
        """Whether the ingest tier may have an earlier one, or the only one."""
        if partition not in self._seen.ingest:
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
