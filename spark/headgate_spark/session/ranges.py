"""Which offsets a job reads: bounded before anything is read, by time or by offsets."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from headgate.core.groups import Partition
from headgate_spark.job.errors import USAGE, JobError


class View(Protocol):
    """What is asked of a cluster (`kafka_view.KafkaView`)."""

    def starts(self, places: Iterable[Partition]) -> dict[Partition, int]: ...

    def ends(self, places: Iterable[Partition]) -> dict[Partition, int]: ...

    def at(self, places: Iterable[Partition], time_ms: int) -> dict[Partition, int | None]: ...


class Range(NamedTuple):
    """The offsets from `start` up to, without, `end`."""

    place: Partition
    start: int
    end: int


def since(view: View, places: Sequence[Partition], from_ms: int | None) -> list[Range]:
    """Offsets that hold all records from a time on; None = from the first.

    All end with the last committed record: producers stamp their records, so behind the first one
    of a later time may stand thousands of an earlier one. Before the first one that is not older
    than `from_ms` nothing is left out, but what follows may be older. What is of a window is said
    by each record's own time.
    """
    starts, ends = view.starts(places), view.ends(places)
    first = view.at(places, from_ms) if from_ms is not None else dict[Partition, int | None](starts)
    found = []
    for place in places:
        end, at = ends[place], first[place]
        found.append(Range(place, end if at is None else min(at, end), end))
    return found


def by_offsets(view: View, wanted: Mapping[Partition, tuple[int, int]]) -> list[Range]:
    """Ranges that were asked for. Raises JobError where the log does not hold them all."""
    starts, ends = view.starts(wanted), view.ends(wanted)
    found = []
    for place, (start, end) in wanted.items():
        if not starts[place] <= start <= end <= ends[place]:
            raise JobError(
                f"offsets {start} to {end} of {place.topic} partition {place.partition} are out "
                f"of range: the log holds {starts[place]} to {ends[place]}",
                USAGE,
            )
        found.append(Range(place, start, end))
    return found


def parse_offsets(text: str) -> dict[Partition, tuple[int, int]]:
    """`{"orders": {"0": [5, 100]}}`. Raises JobError."""
    try:
        return {
            Partition(topic, int(partition)): (int(start), int(end))
            for topic, partitions in json.loads(text).items()
            for partition, (start, end) in partitions.items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise JobError(
            f'--offsets: {error}; give {{"topic": {{"0": [first, behind-the-last]}}}}', USAGE
        ) from error


def lost(view: View, ranges: Sequence[Range]) -> list[str]:
    """Where retention has passed the start of a range: one sentence each."""
    starts = view.starts([one.place for one in ranges])
    return [
        f"{one.place.topic} partition {one.place.partition} began at offset {one.start}, now at "
        f"{starts[one.place]}"
        for one in ranges
        if starts[one.place] > one.start < one.end
    ]
