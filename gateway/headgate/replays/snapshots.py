"""Named vectors of source offsets, kept in the registry: where a topic ended, or a group stood."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headgate.backends.kafka.tier_view import TierView, view_of
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, brief, malformed
from headgate.core.replays.fields import FieldError, known, text
from headgate.core.replays.replay import snapshot_record
from headgate.core.replays.spec import LONGEST_NAME, read_topic
from headgate.replays.answers import snapshot_page
from headgate.replays.refusing import asking, reading
from headgate.replays.registry_log import RegistryChange
from headgate.replays.replayed_topic import partitions_of
from headgate.replays.second_tier import SecondTiers

_MAX_SNAPSHOTS = 1_000  # of one backfill cluster

Vector = dict[str, dict[str, int]]  # topic -> partition -> offset


class _Wanted(NamedTuple):
    name: str
    topic: str | None
    group: str | None


class Snapshots:
    """Every call raises Refused."""

    def __init__(self, tiers: SecondTiers) -> None:
        self._tiers = tiers

    async def all(self) -> tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]]:
        """By name, and the clusters that could not be asked."""
        registries = await self._tiers.registries()
        rows = [
            snapshot_page(*one)
            for _, registry in registries.answered
            for one in sorted(registry.snapshots.items())
        ]
        return rows, registries.unavailable()

    async def take(self, request_body: Any, caller: str) -> tuple[dict[str, Any], bool]:
        """The page, and whether it is new: a name that is taken for the same is not moved."""
        wanted = _read(request_body)
        ingest, vector, ids = await self._vector(wanted)
        document = {
            "topic": wanted.topic,
            "group": wanted.group,
            "topics": vector,
            "topic_ids": ids,
            "by": caller,
            "at_ms": int(time.time() * 1000),
        }
        backfill = self._tiers.table.backfill_of(ingest)
        async with asking(backfill):
            return await self._keep(backfill, wanted.name, document)

    async def _vector(self, wanted: _Wanted) -> tuple[str, Vector, Mapping[str, str]]:
        """The ingest cluster, the offsets, and Kafka's ids of their topics."""
        if wanted.topic is not None:
            clusters = [self._tiers.table.of(wanted.topic).ingest]
        else:
            clusters = self._tiers.table.ingests()
        for cluster in clusters:
            async with asking(cluster), view_of(self._tiers.table.options(cluster)) as view:
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
            elif any(taken.get(one) != document[one] for one in ("topic", "group")):
                detail = f"snapshot {brief(name)} is of something else: take another name"
                raise Refused(Failure(Reason.IDEMPOTENCY_MISMATCH, detail))

        registry = await self._tiers.log(backfill).change(decide)
        kept = registry.snapshots[name]
        return snapshot_page(name, kept), dict(kept) == dict(document)


async def _offsets(view: TierView, wanted: _Wanted) -> Vector:
    if wanted.topic is None:
        found = await view.committed(wanted.group or "")
    elif wanted.group is None:
        count = await partitions_of(wanted.topic, view)
        extents = await view.extents(wanted.topic, range(count))
        found = {(wanted.topic, one): extent.end for one, extent in extents.items()}
    else:
        every = await view.committed(wanted.group)
        found = {place: offset for place, offset in every.items() if place[0] == wanted.topic}
    vector: Vector = {}
    for (topic, partition), offset in sorted(found.items()):
        vector.setdefault(topic, {})[str(partition)] = offset
    return vector


def _read(request_body: Any) -> _Wanted:
    with reading():
        given = known("", request_body, {"name", "topic", "group"}, "name")
        name, topic, group = text("name", given["name"], LONGEST_NAME), None, None
        if "/" in name:
            raise FieldError("name", "a name without slashes")
        if given.get("topic") is not None:
            topic = read_topic(given["topic"])
        if given.get("group") is not None:
            group = text("group", given["group"], LONGEST_NAME)
        if topic is None and group is None:
            raise FieldError("topic", "a topic, a group, or both are asked for")
        return _Wanted(name, topic, group)
