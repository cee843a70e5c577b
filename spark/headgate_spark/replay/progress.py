"""How far a replay has come: what its status record says, and what the next one says. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from headgate.core.terminal.progress import Amount, Step
from headgate.replays.plan import Piece, pieces_of
from headgate.replays.registry import FINISHED, Control, Replay, ReplayState, created_ms
from headgate.replays.segments import NO_TIMESTAMP
from headgate.replays.spec import RecordFilter, ReplayMode, read_filter
from headgate_spark.copying.chunks import Chunk
from headgate_spark.job.exposition import Metric, Textfile, exposed, written

_NAMED = 2  # more replays at once are only counted


class CopyPosition(NamedTuple):
    """Where copying goes on: the piece, its number in the plan, and the next offset of it."""

    partition: int
    number: int
    piece: Piece
    at: int


class Order(NamedTuple):
    """A replay as the runner understands it. Raises KeyError, TypeError or ValueError in `of`.

    topic_ids: by tier, of the topics whose offsets the plan has; a tier may be missing.
    """

    topic: str
    cluster: str
    partitions: int
    pieces: Mapping[int, Sequence[Piece]]
    only: RecordFilter
    rate: Mapping[str, int | None]
    ttl_s: int
    topic_ids: Mapping[str, str]

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> "Order":
        """From the spec record."""
        return cls(
            topic=str(spec["topic"]),
            cluster=str(spec["cluster"]),
            partitions=int(spec["partitions"]),
            pieces=pieces_of(spec["plan"]),
            only=read_filter(spec["asked"].get("filter")),
            rate=spec["rate"],
            ttl_s=int(spec["ttl_s"]),
            topic_ids=dict(spec.get("topic_ids", {})),
        )


def next_place(order: Order, status: Mapping[str, Any]) -> CopyPosition | None:
    """Where to go on; None when all is copied."""
    progress = status.get("progress", {})
    for partition, pieces in sorted(order.pieces.items()):
        done = progress.get(str(partition), {})
        for number in range(int(done.get("piece", 0)), len(pieces)):
            piece = pieces[number]
            is_begun = number == done.get("piece")
            at = max(piece.start, int(done.get("next", 0))) if is_begun else piece.start
            if at < piece.end:
                return CopyPosition(partition, number, piece, at)
    return None


def remaining(plan: object, status: Mapping[str, Any]) -> int:
    """How many offsets of the plan are still to be read; 0 where it cannot be read."""
    try:
        pieces = pieces_of(plan)  # type: ignore[arg-type]
        progress = status.get("progress", {})
        return sum(_left(some, progress.get(str(one), {})) for one, some in pieces.items())
    except (AttributeError, KeyError, TypeError, ValueError):
        return 0


def copying_step(replays: Iterable[Replay], cluster: str) -> Step | None:
    """How far those that are being copied are, all together; None: none is. cluster: theirs."""
    copying = [
        one
        for one in replays
        if one.state is ReplayState.COPYING and one.control is not Control.PAUSE
    ]
    if not copying:
        return None
    plans = [(one.spec or {}).get("plan", {}) for one in copying]
    total = sum(remaining(plan, {}) for plan in plans)
    left = sum(remaining(plan, one.status) for plan, one in zip(plans, copying, strict=True))
    names = ", ".join(one.id for one in copying)
    what = f"replay {names}" if len(copying) <= _NAMED else f"{cluster}: {len(copying)} replays"
    figures = [[one.status.get(name, 0) for one in copying] for name in ("records", "bytes")]
    records, size = (sum(cast(Any, some)) for some in figures)
    also = (Amount(records, "records taken"), Amount(size, "B"))
    return Step(what, total - left, total, "offsets", also=also)


def _left(pieces: Sequence[Piece], done: Mapping[str, Any]) -> int:
    number = int(done.get("piece", 0))
    left = sum(piece.end - piece.start for piece in pieces[number:])
    is_begun = number < len(pieces) and "next" in done
    return left - (max(0, int(done["next"]) - pieces[number].start) if is_begun else 0)


def after_chunk(
    status: Mapping[str, Any],
    place: CopyPosition,
    chunk: Chunk,
    copied: Chunk,
    behind: int | None,
    now_ms: int,
) -> dict[str, Any]:
    """The status once a chunk is there. copied: what of it the filter took.  behind: the offset
    behind it in the replay's topic; None when nothing was taken."""
    progress = dict(status.get("progress", {}))
    before = progress.get(str(place.partition), {})
    end = before.get("end", 0) if behind is None else behind
    progress[str(place.partition)] = {"piece": place.number, "next": chunk.end, "end": end}
    size = sum(len(record.key or b"") + len(record.value or b"") for record in copied.records)
    times = [record.timestamp for record in chunk.records if record.timestamp != NO_TIMESTAMP]
    return {
        **_without_reason(status),
        "state": ReplayState.COPYING,
        "at_ms": now_ms,
        "progress": progress,
        "read": status.get("read", 0) + len(chunk.records),
        "records": status.get("records", 0) + len(copied.records),
        "bytes": status.get("bytes", 0) + size,
        "event_time_ms": max(times, default=status.get("event_time_ms")),
    }


def when_ready(replay: Replay, order: Order, now_ms: int) -> dict[str, Any]:
    """The status of a replay that is copied. Not the topic's ends: markers come later."""
    progress: Mapping[str, Any] = cast(Any, replay.status.get("progress", {}))
    ends = {one: progress.get(str(one), {}).get("end", 0) for one in range(order.partitions)}
    return {
        **_without_reason(replay.status),
        "state": ReplayState.READY,
        "at_ms": now_ms,
        "expires_ms": now_ms + order.ttl_s * 1000,
        "offsets": {str(one): {"start": 0, "end": end} for one, end in ends.items()},
    }


def with_state(replay: Replay, state: ReplayState, now_ms: int, reason: str = "") -> dict[str, Any]:
    """The same status in another state, with another reason, or none."""
    why = {"reason": reason} if reason else {}
    return {**_without_reason(replay.status), "state": state, "at_ms": now_ms, **why}


def _without_reason(status: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in status.items() if name != "reason"}


# What a runner has copied and how far its replays are, as a Prometheus textfile.
#
# A replay's id is no label: few are under way at once, but each leaves its series behind, and
# `GET /v1/replays/ID` shows each of them.


_PAUSED = "paused"
_NOT_UNDER_WAY = {*FINISHED, ReplayState.READY, _PAUSED}
_HELP = {
    "replay_runner": "1 where this process is the runner, 0 where another one is.",
    "replay_records_total": "Records that this process has copied.",
    "replay_bytes_total": "Their keys' and values' bytes.",
    "replay_copies": "Replays of mode topic that the registry has, by state.",
    "replay_remaining_offsets": "Offsets that replays under way have still to read.",
    "replay_oldest_seconds": "How long ago the oldest replay under way was asked for; 0: none is.",
}

Labels = tuple[tuple[str, str], ...]
Series = dict[tuple[str, Labels], float]


class ReplayMetrics:
    """Of all backfill clusters of this process. file: None = nothing is written."""

    def __init__(self, file: Textfile | None) -> None:
        self._file = file
        self._totals: Series = {}
        self._now: dict[str, Series] = {}

    def copied(self, cluster: str, records: int, size: int) -> None:
        """A chunk is there."""
        for name, value in (("replay_records_total", records), ("replay_bytes_total", size)):
            place = (name, (("cluster", cluster),))
            self._totals[place] = self._totals.get(place, 0) + value

    def tell(self, cluster: str, replays: Iterable[Replay] | None, now_ms: int) -> None:
        """Rewrite the file. replays: the registry's; None: another process has the lease."""
        self.copied(cluster, 0, 0)
        self._now[cluster] = {("replay_runner", (("cluster", cluster),)): 0}
        if replays is not None:
            self._now[cluster] = readings(cluster, replays, now_ms)
        if self._file is not None:
            series = dict(self._totals)
            for some in self._now.values():
                series |= some
            self._file.write(_text(series, self._now, now_ms / 1000))


def readings(cluster: str, replays: Iterable[Replay], now_ms: int) -> Series:
    """What the registry says of one cluster's replays, those of other modes left out."""
    mine = [replay for replay in replays if (replay.spec or {}).get("mode") == ReplayMode.TOPIC]
    states = Counter(_state(one) for one in mine)
    active = [one for one in mine if _state(one) not in _NOT_UNDER_WAY]
    oldest_ms = min(map(created_ms, active), default=now_ms)
    labels = (("cluster", cluster),)
    found: Series = {
        ("replay_runner", labels): 1,
        ("replay_remaining_offsets", labels): sum(
            remaining((one.spec or {}).get("plan"), one.status) for one in active
        ),
        ("replay_oldest_seconds", labels): max(0.0, (now_ms - oldest_ms) / 1000),
    }
    for state in (*ReplayState, _PAUSED):
        found["replay_copies", (*labels, ("state", state))] = states[state]
    return found


def _state(replay: Replay) -> str:
    is_paused = replay.control is Control.PAUSE and replay.state not in {
        *FINISHED,
        ReplayState.READY,
    }
    return _PAUSED if is_paused else replay.state


def _text(series: Series, clusters: Iterable[str], now_s: float) -> str:
    metrics = [
        Metric(
            f"headgate_{name}",
            "counter" if name.endswith("_total") else "gauge",
            about,
            [
                (dict(labels), value)
                for (its, labels), value in sorted(series.items())
                if its == name
            ],
        )
        for name, about in _HELP.items()
    ]
    return exposed([*metrics, written("replay", clusters, now_s)])
