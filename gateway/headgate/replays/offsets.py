"""Services of the offset map: translate offsets, show coverage, and keep snapshots.

A snapshot is a named vector of source offsets in the registry: the ends of a topic, or a group's
committed offsets.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headgate.backends.kafka.tier_view import TierView, view_of
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import SHOWN, Refused, brief, malformed
from headgate.replays.answers import coverage_page, snapshot_page, translated
from headgate.replays.plan import INGEST, Logs
from headgate.replays.planner import (
    ReplayedTopic,
    partitions_of,
    read_tiers,
    read_tiers_ingest_optional,
)
from headgate.replays.registry import snapshot_record
from headgate.replays.spec import (
    LONGEST_NAME,
    FieldError,
    known,
    number,
    partition_number,
    read_topic,
    text,
)
from headgate.replays.tiers import RegistryChange, SecondTiers, Tiers, asking, reading

_MAX_OFFSETS = 10_000  # in one request: a second or two of another thread


class Offsets:
    """Translation and coverage. Every call raises Refused."""

    def __init__(self, tiers: SecondTiers) -> None:
        self._tiers = tiers

    async def translate(self, request_body: Any) -> dict[str, Any]:
        """Offsets of one tier to those of the other, in the order asked."""
        topic, to, wanted = _wanted(request_body)
        tiers = self._tiers.of(topic)
        async with asking(tiers.backfill), view_of(tiers.backfill_options) as backfill:
            maps = self._tiers.maps(tiers.backfill)
            seen = await read_tiers_ingest_optional(topic, list(wanted), tiers, backfill, maps)
            unknown = [one for one in wanted if seen.maps[one].table.position is None]
            if unknown and max(unknown) >= seen.backfill.partitions:
                await self._must_have(topic, unknown, tiers, backfill)
        seen.check()

        def find() -> dict[str, list[dict[str, Any]]]:
            return {
                str(one): translated(seen.maps[one].table, _logs(seen, one), to, offsets)
                for one, offsets in wanted.items()
            }

        async with maps.still():  # each may lie in another block, which is unpacked first
            found = await asyncio.to_thread(find)
        return {
            "topic": topic,
            "to": to,
            "topic_ids": seen.topic_ids(),
            "unchecked": [INGEST] if seen.ingest is None else [],
            "offsets": found,
        }

    async def _must_have(
        self, topic: str, partitions: Sequence[int], tiers: Tiers, backfill: TierView
    ) -> None:
        """Raises Refused where the topic has no such partition on either tier."""
        async with asking(tiers.ingest), view_of(tiers.ingest_options) as ingest:
            count = await partitions_of(topic, ingest, backfill)
        with reading():
            for partition in partitions:
                if partition >= count:
                    what = f"{topic[:SHOWN]} has no such partition; it has {count}, from 0"
                    raise FieldError(f"offsets.{partition}", what)

    async def coverage(self, topic: str) -> dict[str, Any]:
        """What of a topic is mirrored, by partition."""
        tiers = self._tiers.of(topic)
        async with (
            asking(tiers.backfill),
            view_of(tiers.ingest_options) as ingest,
            view_of(tiers.backfill_options) as backfill,
        ):
            count = await partitions_of(topic, ingest, backfill)
            maps = self._tiers.maps(tiers.backfill)
            seen = await read_tiers(topic, range(count), ingest, backfill, maps)
        pages = {
            str(one): coverage_page(seen.table(one), seen.maps[one], seen.logs(one))
            for one in range(count)
        }
        return {
            "topic": topic,
            "backfill": tiers.backfill,
            "topic_ids": seen.ids_now(),
            "why": seen.empty_reason(),
            "partitions": pages,
        }


def _logs(seen: ReplayedTopic, partition: int) -> Logs:
    """Where the ingest tier does not answer, nothing is said to be gone from it."""
    logs = seen.logs(partition)
    return logs._replace(ingest_start=0) if seen.ingest is None else logs


def _wanted(request_body: Any) -> tuple[str, str, dict[int, list[int]]]:
    with reading():
        given = known("", request_body, {"topic", "to", "offsets"}, "topic", "to", "offsets")
        if given["to"] not in ("backfill", "ingest"):
            raise FieldError("to", "backfill or ingest")
        if not isinstance(given["offsets"], Mapping):
            raise FieldError("offsets", 'offsets by partition, such as {"0": [5, 9]}')
        wanted = {
            partition_number("offsets", one): _numbers(f"offsets.{one}", some)
            for one, some in given["offsets"].items()
        }
        if sum(max(1, len(some)) for some in wanted.values()) > _MAX_OFFSETS:
            raise FieldError("offsets", f"at most {_MAX_OFFSETS} in one request")
        return read_topic(given["topic"]), given["to"], wanted


def _numbers(field: str, request_body: object) -> list[int]:
    if not isinstance(request_body, list):
        raise FieldError(field, "a list of offsets")
    return [number(field, one, minimum=0, maximum=2**62) for one in request_body]


# Named vectors of source offsets, kept in the registry: where a topic ended, or a group stood.


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
        backfill = self._tiers.ingests()[ingest]
        async with asking(backfill):
            return await self._keep(backfill, wanted.name, document)

    async def _vector(self, wanted: _Wanted) -> tuple[str, Vector, Mapping[str, str]]:
        """The ingest cluster, the offsets, and Kafka's ids of their topics."""
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
