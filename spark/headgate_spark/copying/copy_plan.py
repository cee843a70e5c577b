"""What a task copies, how fast, and what it says when it is done: plain values for Spark."""

from dataclasses import dataclass
from typing import NamedTuple

from headgate.replays.offset_map import Layout, MapAddress, PartitionMap, map_partition
from headgate.replays.segments import FOREIGN, Segment
from headgate_spark.job.connections import Connection

# At most, of one transaction; of one batch in it: MAX_BATCH_BYTES of mirror/writer.py.
CHUNK_RECORDS, CHUNK_BYTES, CHUNK_S = 5_000, 4_194_304, 0.2


@dataclass(frozen=True, slots=True)
class Known:
    """What the driver has read of a partition's map, and up to where in the map topic.

    map_offset: what is behind it the task reads itself.  position: None = nothing is mapped.
    layout: the newest one that is recorded, 0 = none; ids: its topics.
    target_end: where the mirror's own records end on the target; None = nobody knows.
    reported_at: the position before which foreign records were found and reported last; -1 = never.
    is_mapped: whether these two topics have a segment.
    newest: the segments behind the last block, which become a part of the next one.
    """

    map_offset: int = 0
    position: int | None = None
    layout: int = 0
    ids: tuple[str, str] = ("", "")
    target_end: int | None = 0
    reported_at: int = -1
    is_mapped: bool = False
    newest: tuple[Segment, ...] = ()

    def is_longer(self, end: int) -> bool:
        """Whether the target's log has more than the mirror's records and their last marker."""
        return self.target_end is not None and end > self.target_end + (self.target_end > 0)

    @classmethod
    def of(cls, found: PartitionMap, map_offset: int) -> "Known":
        """What a map says."""
        foreign = [gap.source for gap in found.table.gaps if gap.reason == FOREIGN]
        return cls(
            map_offset, found.table.position, found.newest, found.ids, found.target_end,
            max(foreign, default=-1), bool(found.table), tuple(found.table.newest()),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unit:
    """One partition to be copied. place: with the layout that is in force.

    end: the offset to stop at, fixed by the driver; None = go on until the task's time is over.
    max_batch_bytes: the target topic's max.message.bytes.
    """

    place: MapAddress
    layout: Layout
    end: int | None
    known: Known = Known()
    max_batch_bytes: int = 1_048_576

    @property
    def map_partition(self) -> int:
        """Where its map is."""
        return map_partition(self.place.topic, self.place.partition)

    def transactional_id(self, source_cluster: str) -> str:
        """One writer a partition: whoever starts with this id fences the others."""
        return f"headgate.mirror.{source_cluster}.{self.place.topic}.{self.place.partition}"


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How a task copies.

    bytes_per_s: read at most so much from each source broker, in this task; None = no limit.
    interval_s: of following, while nobody waits.  lease_s: how long a task that follows goes on.
    patience_s: how long a partition may stand still for errors before the task fails.
    """

    source: Connection
    target: Connection
    bytes_per_s: float | None = None
    interval_s: float = 60.0
    lease_s: float = 600.0
    patience_s: float = 300.0
    chunk_records: int = CHUNK_RECORDS
    chunk_bytes: int = CHUNK_BYTES


class Copied(NamedTuple):
    """What became of a unit. trouble: why it did not come to its end, for people; None = it did.

    bytes: read from the source's brokers.  lost: records of gaps, as far as offsets can say.
    is_stale: the plan was older than the topic or the map; another one may succeed.
    foreign: records of the target that something else wrote; foreign_at: where the first is.
    """

    topic: str
    partition: int
    records: int
    bytes: int
    transactions: int
    position: int
    lost: int
    trouble: str | None
    is_stale: bool = False
    foreign: int = 0
    foreign_at: int = -1
