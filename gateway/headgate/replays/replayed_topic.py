"""What both tiers and the offset map say of a topic now, and whether they mean the same topics."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headgate.backends.kafka.tier_view import Extent, TierView, view_of
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, brief
from headgate.core.replays.offset_map import PartitionMap
from headgate.core.replays.plan import BACKFILL, INGEST, Logs
from headgate.core.replays.segments import SegmentTable
from headgate.replays.maps import OffsetMaps
from headgate.replays.refusing import asking
from headgate.replays.tiers import Tiers

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
