"""Registries and offset maps of a gateway's backfill clusters; what is asked of the maps."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.backends.kafka.tier_view import TierView, view_of
from headgate.config.settings import Settings
from headgate.core.refusal import SHOWN
from headgate.core.replays.fields import FieldError, known, number
from headgate.core.replays.plan import INGEST, Logs
from headgate.core.replays.spec import partition_number, read_topic
from headgate.replays.answers import coverage_page, translated
from headgate.replays.maps import OffsetMaps
from headgate.replays.refusing import asking, reading
from headgate.replays.registries import Registries, read_all
from headgate.replays.registry_log import RegistryLog
from headgate.replays.replayed_topic import (
    ReplayedTopic,
    partitions_of,
    read_tiers,
    read_tiers_ingest_optional,
)
from headgate.replays.tiers import Tiers, TierTable

_MAX_OFFSETS = 10_000  # in one request: a second or two of another thread


class SecondTiers:
    """Registries and maps, each made when first asked for."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self.table = TierTable(settings)
        self._logs: dict[str, RegistryLog] = {}
        self._maps: dict[str, OffsetMaps] = {}

    def log(self, backfill: str) -> RegistryLog:
        """The registry of a backfill cluster."""
        if backfill not in self._logs:
            self._logs[backfill] = RegistryLog(self.table.options(backfill))
        return self._logs[backfill]

    async def registries(self) -> Registries:
        """All registries. Raises Refused when no cluster answers."""
        return await read_all(self.table.backfills(), lambda backfill: self.log(backfill).read())

    def likely(self, replay_id: str) -> list[str]:
        """Backfill clusters, first the one whose registry had this replay when it was last read:
        whether the others answer does not matter then."""
        known = self.table.backfills()
        return sorted(known, key=lambda one: self.log(one).last.get(replay_id) is None)

    def maps(self, backfill: str) -> OffsetMaps:
        """The offset maps on it."""
        if backfill not in self._maps:
            self._maps[backfill] = OffsetMaps(self.table.options(backfill))
        return self._maps[backfill]


class Offsets:
    """Translation and coverage. Every call raises Refused."""

    def __init__(self, tiers: SecondTiers) -> None:
        self._tiers = tiers

    async def translate(self, request_body: Any) -> dict[str, Any]:
        """Offsets of one tier to those of the other, in the order asked."""
        topic, to, wanted = _wanted(request_body)
        tiers = self._tiers.table.of(topic)
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
        tiers = self._tiers.table.of(topic)
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
