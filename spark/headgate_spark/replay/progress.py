"""The progress of replays: positions, status records and metrics. Pure but for the textfile."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from headgate.commands.terminal import Amount, Step
from headgate.replays.packed import NO_TIMESTAMP
from headgate.replays.plan import Piece, pieces_of
from headgate.replays.registry import FINISHED, Control, Replay, ReplayState
from headgate.replays.spec import RecordFilter, read_filter
from headgate_spark.copying.batches import Chunk
from headgate_spark.job.exposition import Metric, Textfile, exposed, written

_NAMED = 2  # more replays at once are only counted


class CopyPosition(NamedTuple):
    """The position of a copy: the piece, its number in the plan, and its next offset."""

    partition: int
    number: int
    piece: Piece
    at: int


class Order(NamedTuple):
    """The runner's view of a replay.

    Attributes:
        topic_ids: Kafka's ids of the topics that the plan's offsets belong to, by tier; not always
            of both tiers.
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
        """Read the spec record. Raises KeyError, TypeError or ValueError."""
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


def next_position(order: Order, status: Mapping[str, Any]) -> CopyPosition | None:
    """Return the position to continue from; None if all is copied."""
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
    """Count the offsets of the plan that are still to be read; 0 if the plan is unreadable."""
    try:
        pieces = pieces_of(plan)  # type: ignore[arg-type]
        progress = status.get("progress", {})
        return sum(_unread(part, progress.get(str(n), {})) for n, part in pieces.items())
    except (AttributeError, KeyError, TypeError, ValueError):
        return 0


def copying_step(replays: Iterable[Replay], cluster: str) -> Step | None:
    """Return the common progress of a cluster's copies; None: no replay is being copied."""
    copying = [
        replay
        for replay in replays
        if replay.state is ReplayState.COPYING and replay.control is not Control.PAUSE
    ]
    if not copying:
        return None
    total = sum(remaining(replay.spec_fields.get("plan", {}), {}) for replay in copying)
    rest = sum(remaining(replay.spec_fields.get("plan", {}), replay.status) for replay in copying)
    names = ", ".join(replay.id for replay in copying)
    what = f"replay {names}" if len(copying) <= _NAMED else f"{cluster}: {len(copying)} replays"
    records, size = (
        sum(cast(Any, replay.status.get(name, 0)) for replay in copying)
        for name in ("records", "bytes")
    )
    also = (Amount(records, "records taken"), Amount(size, "B"))
    return Step(what, total - rest, total, "offsets", also=also)


def _unread(pieces: Sequence[Piece], done: Mapping[str, Any]) -> int:
    number = int(done.get("piece", 0))
    offsets = sum(piece.end - piece.start for piece in pieces[number:])
    is_begun = number < len(pieces) and "next" in done
    return offsets - (max(0, int(done["next"]) - pieces[number].start) if is_begun else 0)


def after_chunk(
    status: Mapping[str, Any],
    position: CopyPosition,
    chunk: Chunk,
    copied: Chunk,
    behind: int | None,
    now_ms: int,
) -> dict[str, Any]:
    """Return the status after a chunk.

    Args:
        status: The status before it.
        position: Its position.
        chunk: The records that were read.
        copied: The records that the filter took.
        behind: The offset behind them in the replay's topic; None if there are none.
        now_ms: The time, in ms since 1970.
    """
    progress = dict(status.get("progress", {}))
    before = progress.get(str(position.partition), {})
    end = before.get("end", 0) if behind is None else behind
    progress[str(position.partition)] = {"piece": position.number, "next": chunk.end, "end": end}
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
    """Return the status of a copied replay. Its ends are not the topic's: markers come later."""
    progress: Mapping[str, Any] = cast(Any, replay.status.get("progress", {}))
    ends = {
        str(part): progress.get(str(part), {}).get("end", 0) for part in range(order.partitions)
    }
    return {
        **_without_reason(replay.status),
        "state": ReplayState.READY,
        "at_ms": now_ms,
        "expires_ms": now_ms + order.ttl_s * 1000,
        "offsets": {part: {"start": 0, "end": end} for part, end in ends.items()},
    }


def with_state(replay: Replay, state: ReplayState, now_ms: int, reason: str = "") -> dict[str, Any]:
    """Return the status with another state, and with this reason or none."""
    why = {"reason": reason} if reason else {}
    return {**_without_reason(replay.status), "state": state, "at_ms": now_ms, **why}


def _without_reason(status: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in status.items() if name != "reason"}


# ---- metrics of the runner


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
    """Metrics of all backfill clusters of this process, in a Prometheus textfile.

    A replay's id is not a label: each replay would leave its series behind, and
    `GET /v1/replays/ID` shows each of them.

    Args:
        file: None: nothing is written.
    """

    def __init__(self, file: Textfile | None) -> None:
        self._file = file
        self._totals: Series = {}
        self._now: dict[str, Series] = {}

    def copied(self, cluster: str, records: int, size: int) -> None:
        """Count a copied chunk."""
        for name, value in (("replay_records_total", records), ("replay_bytes_total", size)):
            series = (name, (("cluster", cluster),))
            self._totals[series] = self._totals.get(series, 0) + value

    def update(self, cluster: str, replays: Iterable[Replay] | None, now_ms: int) -> None:
        """Rewrite the file. replays: the registry's; None if another process has the lease."""
        self.copied(cluster, 0, 0)
        self._now[cluster] = {("replay_runner", (("cluster", cluster),)): 0}
        if replays is not None:
            self._now[cluster] = readings(cluster, replays, now_ms)
        if self._file is not None:
            series = dict(self._totals)
            for readings_of_cluster in self._now.values():
                series |= readings_of_cluster
            self._file.write(_text(series, self._now, now_ms / 1000))


def readings(cluster: str, replays: Iterable[Replay], now_ms: int) -> Series:
    """Return the metrics of one cluster's replays of mode topic."""
    copies = [replay for replay in replays if replay.is_copy]
    states = Counter(map(_state, copies))
    active = [replay for replay in copies if _state(replay) not in _NOT_UNDER_WAY]
    oldest_ms = min((replay.created_ms for replay in active), default=now_ms)
    labels = (("cluster", cluster),)
    series: Series = {
        ("replay_runner", labels): 1,
        ("replay_remaining_offsets", labels): sum(
            remaining(replay.spec_fields.get("plan"), replay.status) for replay in active
        ),
        ("replay_oldest_seconds", labels): max(0.0, (now_ms - oldest_ms) / 1000),
    }
    for state in (*ReplayState, _PAUSED):
        series["replay_copies", (*labels, ("state", state))] = states[state]
    return series


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
