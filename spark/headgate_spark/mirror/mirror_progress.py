"""How far a mirror is, in words: since its tasks began, and how much is left. Pure."""

from collections.abc import Callable, Iterable, Mapping

from aiokafka.structs import TopicPartition

from headgate.core.terminal import Amount, Step, counted
from headgate.replays.offset_map import PartitionMap
from headgate_spark.copying.copy_plan import Unit
from headgate_spark.mirror.map_view import Seen
from headgate_spark.mirror.mirror_lag import Lag


class CopyProgress:
    """Of some units that are being copied. Offsets count: the map has them, whoever copies.

    seen: what was copied to a partition, from any beginning on.
    """

    def __init__(
        self, units: Iterable[Unit] = (), seen: Callable[[str, int], Seen] = lambda *_: Seen()
    ) -> None:
        self._begun = {TopicPartition(*unit.place[:2]): unit.known.position for unit in units}
        self._seen, self._before = seen, {tp: seen(*tp) for tp in self._begun}

    def step(
        self, what: str, lags: Mapping[TopicPartition, Lag],
        maps: Mapping[TopicPartition, PartitionMap], *, has_end: bool,
    ) -> Step:  # fmt: skip
        """has_end: what is left now is all that will be copied."""
        done = sum(self._done(tp, maps[tp]) for tp in self._begun if tp in maps)
        left = sum(lag.records for lag in lags.values())
        even = sum(not lag.records for lag in lags.values())
        known = [lag.seconds for lag in lags.values() if lag.seconds is not None]
        said = [f"{even} of {counted(len(lags), 'partition')} up to date"]
        if not has_end:
            said.append(f"{counted(left, 'offset')} left")
        if known or not lags:
            said.append(f"{max(known, default=0.0):.0f} s behind")
        if unknown := len(lags) - len(known):
            said.append(f"{counted(unknown, 'partition')} behind for an unknown time")
        if lost := sum(lag.lost for lag in lags.values()):
            said.append(f"{counted(lost, 'offset')} lost to retention")
        total = done + left if has_end else None
        return Step(what, done, total, "offsets", ", ".join(said), self._copied())

    def _copied(self) -> tuple[Amount, Amount]:
        grown = [(self._seen(*tp), before) for tp, before in self._before.items()]
        records = sum(now.records - before.records for now, before in grown)
        return Amount(records, "records"), Amount(sum(a.bytes - b.bytes for a, b in grown), "B")

    def _done(self, tp: TopicPartition, found: PartitionMap) -> int:
        begun, table = self._begun[tp], found.table
        if table.position is None:
            return 0
        return max(0, table.position - (table.source_start if begun is None else begun))
